package views

import (
	"fmt"
	"strings"
)

// A Price is what a change takes away, in numbers. The operator is asked whether to pay it.
type Price interface{ words() priceWords }

type priceWords struct {
	title  string // a question
	text   []string
	button string
}

// Lost is the access that ends with a change.
type Lost struct {
	Authorizations int
	More           bool // than could be counted
	Users          int
	Webhooks       int // enabled endpoints that are disabled too
}

// authorizations counts access, as in "3 authorizations of 2 users".
func (l Lost) authorizations() string {
	words := countOf(l.Authorizations, "authorization")
	if l.More {
		words = "more than " + words
	}
	if l.Users > 0 {
		words += " of " + countOf(l.Users, "user")
	}
	return words
}

func (l Lost) text() []string {
	if l == (Lost{}) {
		return []string{"No authorization is live now."}
	}
	return append([]string{"Revoked immediately: " + l.authorizations() + "."}, l.webhooks()...)
}

// textThen is the text between what happens besides and what is lost for good, if anything is.
func (l Lost) textThen(besides, forGood string) []string {
	if l == (Lost{}) {
		return []string{besides + " " + l.text()[0]}
	}
	return append(append([]string{besides}, l.text()...), forGood)
}

func (l Lost) webhooks() []string {
	switch l.Webhooks {
	case 0:
		return nil
	case 1:
		return []string{"1 webhook endpoint is disabled."}
	}
	return []string{fmt.Sprintf("%d webhook endpoints are disabled.", l.Webhooks)}
}

// ClientDisabled is the price of disabling a client.
type ClientDisabled struct {
	Name    string
	Secrets int
	Lost    Lost
}

func (p ClientDisabled) words() priceWords {
	text := p.Lost.textThen("It gets no tokens until it is enabled.", "Enabling the client later does not bring them back.")
	if p.Secrets > 0 {
		text = append(text, "Its secret works again then; if it leaked, revoke it too.")
	}
	return priceWords{title: "Disable " + p.Name + "?", button: "Disable the client", text: text}
}

// ClientSecretRotated is the price of a client's new secret.
type ClientSecretRotated struct {
	Name    string
	Secrets int  // that the client has now
	Revoked bool // all of them end, and all tokens
	Lost    Lost // if so
}

func (p ClientSecretRotated) words() priceWords {
	w := priceWords{title: "Rotate the secret of " + p.Name + "?", button: "Rotate the secret"}
	if !p.Revoked {
		w.text = []string{fmt.Sprintf("The client has %d secrets. The older one stops working now; the newer one works until the next rotation.", p.Secrets)}
		return w
	}
	w.button = "Rotate and revoke all tokens"
	ends := "The current secret stops working now."
	if p.Secrets != 1 {
		ends = fmt.Sprintf("The %d current secrets stop working now.", p.Secrets)
	}
	w.text = append([]string{ends}, p.Lost.text()...)
	return w
}

// ClientNarrowed is the price of a change after which a client may do less.
type ClientNarrowed struct {
	Name                         string
	Scopes, Grants, RedirectURIs []string // that it loses
	Introspection                bool     // it loses it
	Consent                      bool     // users are asked again
	Account                      string   // the one that its tokens act for, and end with; may be empty
	Lost                         Lost     // what is affected
}

func (p ClientNarrowed) words() priceWords {
	w := priceWords{title: "Change " + p.Name + "?", button: "Change the client"}
	for _, lost := range []struct {
		name string
		list []string
	}{{"scope", p.Scopes}, {"grant", p.Grants}, {"redirect URI", p.RedirectURIs}} {
		if len(lost.list) > 0 {
			w.text = append(w.text, fmt.Sprintf("It loses %s: %s.", countOf(len(lost.list), lost.name), strings.Join(lost.list, ", ")))
		}
	}
	if p.Introspection {
		w.text = append(w.text, "It may no longer introspect the tokens of other clients.")
	}
	if p.Consent {
		w.text = append(w.text, "Users who allowed it are asked again.")
	}
	if p.Account != "" {
		w.text = append(w.text, "All its tokens are revoked, because they act for the account "+p.Account+".")
	}
	w.text = append(w.text, "Affected: "+p.Lost.authorizations()+".")
	w.text = append(w.text, p.Lost.webhooks()...)
	return w
}

// UserDisabled is the price of disabling a user.
type UserDisabled struct {
	Username string
	Browsers int // that the user is signed in with
	Lost     Lost
}

func (p UserDisabled) words() priceWords {
	out := p.Username + " is signed out of " + countOf(p.Browsers, "browser") + "."
	if p.Browsers == 0 {
		out = p.Username + " cannot sign in until enabled."
	}
	return priceWords{title: "Disable " + p.Username + "?", button: "Disable the user",
		text: p.Lost.textThen(out, "Enabling the user later does not bring them back.")}
}

// UserDemoted is the price of taking the operator role.
type UserDemoted struct {
	Username string
	Browsers int // that the user is signed in with
}

func (p UserDemoted) words() priceWords {
	closes := "The desk closes now in " + countOf(p.Browsers, "browser") + " where " + p.Username + " is signed in."
	if p.Browsers == 0 {
		closes = p.Username + " can no longer use the desk."
	}
	return priceWords{title: "Remove the operator role from " + p.Username + "?", button: "Remove the operator role",
		text: []string{closes + " The sign-ins and the access of applications stay."}}
}

// UserSignedOut is the price of signing a user out everywhere.
type UserSignedOut struct {
	Username string
	Browsers int
	Self     bool // the operator
}

func (p UserSignedOut) words() priceWords {
	w := priceWords{title: "Sign " + p.Username + " out everywhere?", button: "Sign out everywhere",
		text: []string{p.Username + " is signed out of " + countOf(p.Browsers, "browser") + " now. Applications keep their access."}}
	if p.Self {
		w.text = append(w.text, "This is you: you have to sign in again.")
	}
	return w
}

// FactorReset is the price of taking the second factor of a user away.
type FactorReset struct {
	Username string
	Browsers int
}

func (p FactorReset) words() priceWords {
	return priceWords{title: "Reset the second factor of " + p.Username + "?", button: "Reset the second factor",
		text: []string{"The app, passkeys and recovery codes of " + p.Username + " stop working, and " + p.Username + " is signed out of " + countOf(p.Browsers, "browser") + " now. Applications keep their access.",
			"Whoever has the password can sign in then, and set up a second factor of their own. Make sure who asks you for this."}}
}

// UserCodeReplaced is the price of a new code while an earlier one is good.
type UserCodeReplaced struct {
	Username string
	Ends     Moment // of the earlier code
}

func (p UserCodeReplaced) words() priceWords {
	return priceWords{title: "Replace the code of " + p.Username + "?", button: "Create a new code",
		text: []string{"1 earlier code is valid until " + p.Ends.exact() + ". It stops working now."}}
}

// BrowserSignedOut is the price of ending a sign-in.
type BrowserSignedOut struct {
	Username string
	Seen     Moment
	Here     bool // the operator's own
}

func (p BrowserSignedOut) words() priceWords {
	w := priceWords{title: "Sign " + p.Username + " out of this browser?", button: "Sign out",
		text: []string{fmt.Sprintf("%s is signed out of 1 browser, last seen %s. Applications keep their access.", p.Username, p.Seen.words())}}
	if p.Here {
		w.text = append(w.text, "It is this one: you have to sign in again.")
	}
	return w
}

// AccessRevoked is the price of ending what a client may do for a user, or for itself.
type AccessRevoked struct {
	Client   string
	Username string // empty if the client acts for itself
	Account  string
	Lost     Lost
}

func (p AccessRevoked) words() priceWords {
	text, who := p.Lost.text(), orElse(p.Account, "any account")
	if p.Username != "" {
		who = p.Username
		text = append(text, "The application can ask "+who+" again.")
	}
	return priceWords{title: "Revoke the access of " + p.Client + " for " + who + "?", button: "Revoke", text: text}
}

// Waiting counts the events that wait for an endpoint.
type Waiting struct {
	Events int
	More   bool // than could be counted
}

func (w Waiting) words() string {
	if w == (Waiting{More: true}) {
		return "An unknown number of events"
	}
	if w.More {
		return "More than " + countOf(w.Events, "event")
	}
	return countOf(w.Events, "event")
}

// some reports whether something may wait.
func (w Waiting) some() bool { return w != (Waiting{}) }

// number is how many, in a table.
func (w Waiting) number() string {
	if w == (Waiting{More: true}) {
		return "an unknown number"
	}
	if w.More {
		return "more than " + grouped(float64(w.Events))
	}
	return grouped(float64(w.Events))
}

// less is what waits without so many of it.
func (w Waiting) less(events int) Waiting {
	w.Events = max(0, w.Events-events)
	return w
}

// WebhookDisabled is the price of disabling an endpoint.
type WebhookDisabled struct {
	Origin, Account string
	Waiting         Waiting
}

func (p WebhookDisabled) words() priceWords {
	return priceWords{title: "Disable " + p.Origin + "?", button: "Disable the endpoint",
		text: []string{"Deliveries to 1 endpoint of the account " + p.Account + " stop. " + p.Waiting.words() + " and new events wait until it is enabled. Only operators can enable it."}}
}

// WaitingSkipped is the price of enabling an endpoint without the events that wait.
type WaitingSkipped struct {
	Origin  string
	Waiting Waiting
}

func (p WaitingSkipped) words() priceWords {
	return priceWords{title: "Enable " + p.Origin + " and skip pending events?", button: "Skip them and enable",
		text: []string{p.Waiting.words() + " will not be sent to it. They stay in the log."}}
}

// EventSkipped is the price of skipping the event that blocks an endpoint.
type EventSkipped struct {
	Event, Type string
	Attempts    int // failed
}

func (p EventSkipped) words() priceWords {
	return priceWords{title: "Skip blocking event?", button: "Skip the event",
		text: []string{fmt.Sprintf("1 event, %s (%s), is not sent after %s. It is marked as dead, and you can retry it.", p.Event, p.Type, countOf(p.Attempts, "failed attempt"))}}
}

// WebhookSecretEnded is the price of ending an endpoint's secrets.
type WebhookSecretEnded struct {
	Origin  string
	Secrets int
}

func (p WebhookSecretEnded) words() priceWords {
	ends := "1 secret stops signing now."
	if p.Secrets != 1 {
		ends = countOf(p.Secrets, "secret") + " stop signing now."
	}
	return priceWords{title: "Revoke the old secret of " + p.Origin + "?", button: "Rotate and revoke the old secret",
		text: []string{ends + " The receiver refuses deliveries until it has the new one."}}
}

// DeliveriesHeld is the price of holding all deliveries.
type DeliveriesHeld struct{ Webhooks, Accounts int }

func (p DeliveriesHeld) words() priceWords {
	return priceWords{title: "Hold all deliveries?", button: "Hold all deliveries",
		text: []string{fmt.Sprintf("%s of %s get no events until you resume. Nothing is lost: the events wait.", countOf(p.Webhooks, "endpoint"), countOf(p.Accounts, "account"))}}
}

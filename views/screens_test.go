package views_test

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a-h/templ"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"tollhouse/store/storetest/must"
	"tollhouse/views"
)

// screens draws every screen in every state that changes its structure, each
// foreign string set to s.
func screens(p views.Page, s string) map[string]templ.Component {
	p.RequestID = s
	dev := p
	dev.Dev = true
	branded := p
	branded.SignedIn, branded.Instance, branded.Logo = true, s, "/static/logo.0123456789ab.png"
	consent := views.ConsentProps{
		Page: p, ClientName: s, Username: s, NotYouURL: "/oauth/v2/auth?prompt=login", Scopes: []string{s, s},
		Account: s, GoesTo: s, Action: "/oauth/v2/auth/decision", Ticket: s,
	}
	withAccount := consent
	withAccount.AccountURL = "/account"
	when := views.Moment{At: time.Unix(1772893321, 0), Now: time.Unix(1773070200, 0)}
	account := views.AccountProps{
		Page: p, Username: s, Account: s, SignOutToken: s, FormToken: s,
		RevokeURL: "/account/revoke", WebhookURL: "/account/webhook-off", SignOutOthersURL: "/account/sign-out-others", PasswordURL: "/account/password",
		SignIns: []views.SignIn{{Here: true, Since: when, Seen: when}}, Password: views.PasswordForm{EndAll: true},
	}
	full := account
	full.Stale, full.MoreClients, full.MoreSignIns = true, true, true
	full.Clients = []views.GrantedClient{
		{ID: s, Name: s, Since: when, Used: when, UnaskedUntil: time.Unix(1783070200, 0), Scopes: []string{s, s}},
		{ID: s, Name: s, Since: when, NoAccess: true, Scopes: []string{s}},
	}
	full.Webhooks = []views.AccountWebhook{{ID: s, Address: s, Description: s, Client: s, Since: when}}
	full.SignIns = append(full.SignIns, views.SignIn{Since: when, Seen: when})
	full.Password = views.PasswordForm{Refused: views.PasswordInvalid, Current: views.PasswordWrong, New: views.PasswordTooLong, Repeat: views.PasswordDiffers}
	return map[string]templ.Component{
		"login": views.Login(views.LoginProps{
			Page: p, ClientName: s, Action: "/login", Query: s, FormToken: s, CodeURL: "/new-password",
		}),
		"login after a refusal": views.Login(views.LoginProps{
			Page: p, ClientName: s, Action: "/login", Query: s, FormToken: s, Username: s, Refused: true,
		}),
		"login in dev": views.Login(views.LoginProps{
			Page: dev, Action: "/login", To: s, FormToken: s, Notice: views.LoginStale, DemoUsername: s, DemoPassword: s,
		}),
		"consent": views.Consent(consent),
		"dev": views.Dev(views.DevProps{
			Page: dev, FormToken: s, URL: "/_dev/", ListURL: "/_dev", Clock: when, Total: 2, Filter: map[string]string{"path": s, "fault": s},
			Requests: []views.DevRequest{{N: 1, Method: s, Path: s, Error: s, Client: s, Username: s, Fault: s, When: when, Status: 503}, {N: 2, When: when, Notices: []string{s}}},
			Request:  &views.DevRequest{N: 1, JSON: s, When: when}, Faults: []views.DevFault{{ID: s, Match: s, Do: s, Left: -1}}, Snapshots: []string{s},
			Tokens: &views.DevTokens{Access: s, Refresh: s}, Refused: views.DevRefusal{Call: "addFault", Text: s, Member: "match.path", Typed: map[string]string{"match.path": s}},
		}),
		"dev at the beginning":    views.Dev(views.DevProps{Page: dev, FormToken: s, URL: "/_dev/", ListURL: "/_dev", Clock: when, Running: true}),
		"consent with an account": views.Consent(withAccount),
		"account":                 views.Account(account),
		"account with everything": views.Account(full),
		"error":                   views.Error(views.ErrorProps{Page: p, ErrorText: views.ErrorText{Description: s}}),
		"error with everything": views.Error(views.ErrorProps{
			Page: dev, SignInURL: "/login", ErrorText: views.ErrorText{Kind: views.ErrorRedirectUnknown, Client: s, Sent: views.SentValue{Name: "redirect_uri", Value: s}, Fault: s, Command: s},
		}),
		"home": views.Home(views.HomeProps{
			Page: p, SignInURL: "/login",
		}),
		"home of a server without users": views.Home(views.HomeProps{
			Page: branded, SignInURL: "/login", FirstUser: s,
		}),
		"home signed in": views.Home(views.HomeProps{
			Page: branded, Username: s, Account: s, SignOutToken: s, DeskUnsafe: true,
		}),
		"home of an operator, in dev": views.Home(views.HomeProps{
			Page: dev, Username: s, Account: s, SignOutToken: s, DeskURL: "/desk", LastDay: &views.DayCounts{},
			Demo: &views.HomeDemo{Version: s, Username: s, Password: s, TryURL: "/oauth/v2/auth", DeskURL: "/desk", ControlsURL: "/_dev/", TokenCommand: s, ListCommand: s, ChangeCommand: s},
			Events: []views.HomeEvent{
				{ID: s, Type: s, Resource: s, When: when, More: 2, Changes: []views.Change{{Member: s, Before: s, After: s}, {Member: s, Before: s, After: s}}},
				{ID: s, Type: s, Resource: s, When: when},
			},
		}),
		"second step": views.SecondStep(views.SecondStepProps{
			Page: p, Action: "/login/second-factor", StartOverURL: "/login/second-factor/start-over", FormToken: s, Query: s, Username: s,
			App: true, KeyLost: true, Recovery: true, Refused: views.FactorWrong, ByRecovery: true,
		}),
		"second step with a passkey": views.SecondStep(views.SecondStepProps{
			Page: p, Action: "/login/second-factor", StartOverURL: "/login/second-factor/start-over", FormToken: s, Query: s, Username: s,
			Passkey: views.PasskeyAsk{Options: s, SetUp: s}, Recovery: true, Refused: views.FactorWrong, ByPasskey: true,
		}),
		"second step at another host": views.SecondStep(views.SecondStepProps{
			Page: p, Action: "/login/second-factor", StartOverURL: "/login/second-factor/start-over", FormToken: s, Username: s,
			PasskeysAt: []string{s, s}, Recovery: true,
		}),
		"first factor": views.FirstFactor(views.FirstFactorProps{
			Page: p, ConfirmURL: "/login/second-factor/totp/confirm", StartOverURL: "/login/second-factor/start-over", FormToken: s, Query: s, Username: s,
			SetUp: views.AppSetUp{Secret: s, URI: "otpauth://totp/x", SetUp: s, Wrong: true},
		}),
		"second factor": views.SecondFactor(views.FactorProps{
			Page: p, Path: "/account/second-factor", Username: s, SignOutToken: s, FormToken: s, App: true, Factors: []string{"totp"}, Do: "remove-totp",
			Refused: views.PasswordInvalid, Current: views.PasswordWrong,
		}),
		"second factor with passkeys": views.SecondFactor(views.FactorProps{
			Page: p, Path: "/account/second-factor", Username: s, SignOutToken: s, FormToken: s, Factors: []string{"passkey"}, Do: "begin-passkey",
			Refused: views.PasswordInvalid, Passkeys: views.PasskeysProps{Offered: true, Name: s, NameWrong: true, NameMax: 60,
				Own: []views.ShownPasskey{{ID: "one", Name: s, Host: s}, {ID: "two", Name: s}}},
		}),
		"second factor with a new passkey": views.SecondFactor(views.FactorProps{
			Page: p, Path: "/account/second-factor", Username: s, SignOutToken: s, FormToken: s,
			Passkeys: views.PasskeysProps{Offered: true, New: &views.NewPasskey{Ask: views.PasskeyAsk{Options: s, SetUp: s}, EndAll: true, Refused: true}},
		}),
		"recovery codes": views.RecoveryCodes(views.RecoveryCodesProps{Page: p, Codes: []string{s}, NextURL: "/account/second-factor"}),
		"new password": views.NewPassword(views.NewPasswordProps{
			Page: p, Action: "/new-password", FormToken: s, SignInURL: "/login",
		}),
		"new password after a refusal": views.NewPassword(views.NewPasswordProps{
			Page: p, Action: "/new-password", FormToken: s, SignInURL: "/login", Username: s, Code: s, Refused: views.CodeWrong,
		}),
		"new password with a wrong form": views.NewPassword(views.NewPasswordProps{
			Page: p, Action: "/new-password", FormToken: s, SignInURL: "/login", Username: s, Code: s,
			Password: views.PasswordForm{Refused: views.PasswordInvalid, New: views.PasswordTooShort, Repeat: views.PasswordDiffers},
		}),
	}
}

func render(t testing.TB, c templ.Component) string {
	t.Helper()
	var b strings.Builder
	must.Do(t, c.Render(t.Context(), &b))
	return b.String()
}

// An element is one start tag of a page.
type element struct {
	name  string
	attrs map[string]string
	order []string // names of attrs as they stand
	text  string   // everything between its tags, tags taken out
}

func (e element) has(attr string) bool {
	_, ok := e.attrs[attr]
	return ok
}

// plotTable has rows without the end tags that HTML lets one leave out.
var plotTable = regexp.MustCompile(`(?s)<table><thead>.*?</table>`)

// closed is a table with all its end tags.
func closed(table string) string {
	nodes, err := html.ParseFragment(strings.NewReader(table), &html.Node{Type: html.ElementNode, Data: "body", DataAtom: atom.Body})
	var b strings.Builder
	for _, n := range nodes {
		err = errors.Join(err, html.Render(&b, n))
	}
	if err != nil {
		return err.Error()
	}
	return b.String()
}

// elements lists the start tags of page in order. It fails on a page whose
// tags do not close each other.
func elements(t testing.TB, page string) []element {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(plotTable.ReplaceAllStringFunc(page, closed)))
	d.Strict = false
	d.AutoClose = xml.HTMLAutoClose
	d.Entity = xml.HTMLEntity
	var all []element
	var open []int
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, page)
		}
		switch token := token.(type) {
		case xml.StartElement:
			e := element{name: token.Name.Local, attrs: map[string]string{}}
			for _, a := range token.Attr {
				e.attrs[a.Name.Local] = a.Value
				e.order = append(e.order, a.Name.Local)
			}
			open = append(open, len(all))
			all = append(all, e)
		case xml.EndElement:
			open = open[:len(open)-1]
			if slices.Contains([]string{"a", "bdi", "code", "span"}, token.Name.Local) {
				continue
			}
			for _, i := range open {
				all[i].text += " " // what follows a block begins on its own line
			}
		case xml.CharData:
			for _, i := range open {
				all[i].text += string(token)
			}
		}
	}
}

func named(all []element, name string) []element {
	var found []element
	for _, e := range all {
		if e.name == name {
			found = append(found, e)
		}
	}
	return found
}

func byAttr(t *testing.T, all []element, attr, value string) element {
	t.Helper()
	for _, e := range all {
		if e.attrs[attr] == value {
			return e
		}
	}
	t.Fatalf("no element has %s=%q", attr, value)
	return element{}
}

// squeeze reads text as a browser shows it.
func squeeze(text string) string {
	return strings.Join(strings.Fields(text), " ")
}

package proof

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"tollhouse/store/storetest/must"

	"golang.org/x/oauth2"
)

const (
	odile         = "odile.marchbanks"
	odilePassword = "larkspur tea room ledger"
	odileAccount  = "acct_larkspur"
	callbackURI   = "http://127.0.0.1/callback"
	customerPath  = "/api/resources/customer/cus_4tn8k2w1"
)

// walk is what the stages of TestWalk hand to each other.
type walk struct {
	s       *server
	creds   credentials
	visitor *visitor
	consent screen // a question asked before the restart and answered after it

	password, code *oauth2.Token // by the two grants that begin a family
	usedCode       string
	verifier       string
	plain          *oauth2.Token // by a code without PKCE
	plainCode      string
	refreshed      *oauth2.Token
	caused         []string // the events that the changes caused, oldest first
	snapshot       string   // the customer as last read
}

// TestWalk is the main job from end to end, on disk and on a database, with a real
// OAuth client: every grant, changes and the events that they cause, and all of it again
// after a restart.
//
// Promise (Browsers): a ticket expires after 30 minutes and survives a restart; no secret reaches
// the log; an audit record without secrets says what happened
func TestWalk(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	eachSite(t, walkAt)
}

func walkAt(t *testing.T, p site) {
	// The public URL names no port, since the port is another after the restart.
	serve := func() *server { return p.serve(t, "--public-url", "http://127.0.0.1") }

	w := &walk{s: serve(), visitor: newVisitor(t)}
	w.creds = w.s.createClient("Larkspur Bookkeeping", callbackURI)
	w.s.createUser(odile, odileAccount, odilePassword)

	for _, style := range []struct {
		name  string
		style oauth2.AuthStyle
	}{{"credentials_in_the_body", oauth2.AuthStyleInParams}, {"credentials_in_the_header", oauth2.AuthStyleInHeader}} {
		stage(t, "password_grant_with_"+style.name, w, func(w *walk, t *testing.T) { w.byPassword(t, style.style) })
		stage(t, "code_grant_with_pkce_and_"+style.name, w, func(w *walk, t *testing.T) { w.byCode(t, style.style) })
		stage(t, "refresh_grant_with_"+style.name, w, func(w *walk, t *testing.T) { w.byRefresh(t, style.style) })
	}
	stage(t, "code_grant_without_pkce", w, (*walk).byPlainCode)
	stage(t, "changes_cause_events", w, (*walk).changeCustomer)
	stage(t, "events_are_listed_and_retrieved", w, (*walk).findEvents)
	stage(t, "a_question_stands_open", w, (*walk).askConsent)
	w.s.stop()
	stage(t, "commands_work_without_a_server", w, func(_ *walk, t *testing.T) {
		if users := string(command(t, "", append([]string{"user", "list", "--json"}, p.where...)...)); !strings.Contains(users, odile) {
			t.Errorf("user list, with no server = %q, want %s in it", users, odile)
		}
	})
	w.s = serve()
	stage(t, "old_access_tokens_live", w, (*walk).stillLive)
	stage(t, "refresh_tokens_rotate", w, func(w *walk, t *testing.T) { w.byRefresh(t, oauth2.AuthStyleInParams) })
	stage(t, "events_and_resources_are_there", w, (*walk).findEvents)
	stage(t, "the_open_question_can_be_answered", w, (*walk).answerConsent)
	stage(t, "the_used_code_stays_used", w, (*walk).replayCode)
	stage(t, "no_log_line_holds_a_secret", w, (*walk).searchLog)
}

// stage runs a step of the walk, which goes no further when it fails.
func stage(t *testing.T, name string, w *walk, step func(*walk, *testing.T)) {
	t.Helper()
	whole := w.s
	defer func() { w.s = whole }()
	if !t.Run(name, func(t *testing.T) { w.s, w.visitor.t = whole.in(t), t; step(w, t) }) {
		t.FailNow()
	}
}

func (w *walk) config(style oauth2.AuthStyle) *oauth2.Config {
	return &oauth2.Config{
		ClientID: w.creds.ID, ClientSecret: w.creds.Secret, RedirectURL: callbackURI,
		Endpoint: oauth2.Endpoint{AuthURL: w.s.base + "/oauth/v2/auth", TokenURL: w.s.base + "/oauth/v2/token", AuthStyle: style},
	}
}

func (w *walk) byPassword(t *testing.T, style oauth2.AuthStyle) {
	token := must.Get(w.config(style).PasswordCredentialsToken(t.Context(), odile, odilePassword))(t)
	w.holdToForm(t, token)
	w.password = token
}

func (w *walk) byCode(t *testing.T, style oauth2.AuthStyle) {
	config := w.config(style)
	w.verifier = oauth2.GenerateVerifier()
	address := config.AuthCodeURL("state of odile", oauth2.S256ChallengeOption(w.verifier))
	question := w.visitor.open(address)
	if question.field("ticket") == "" {
		question = w.visitor.signIn(address, odile, odilePassword)
	}
	arrived := w.visitor.allow(question)
	q := arrived.Query()
	if q.Get("state") != "state of odile" || q.Get("iss") != w.s.ready.URL || !strings.HasPrefix(arrived.String(), callbackURI+"?") {
		t.Errorf("Allow leads to %s; want %s with the state and iss %s", arrived, callbackURI, w.s.ready.URL)
	}
	w.usedCode = q.Get("code")
	token := must.Get(config.Exchange(t.Context(), w.usedCode, oauth2.VerifierOption(w.verifier)))(t)
	w.holdToForm(t, token)
	w.code = token
}

func (w *walk) byPlainCode(t *testing.T) {
	config := w.config(oauth2.AuthStyleInParams)
	w.plainCode = w.visitor.allow(w.visitor.open(config.AuthCodeURL("plain"))).Query().Get("code")
	token := must.Get(config.Exchange(t.Context(), w.plainCode))(t)
	w.holdToForm(t, token)
	w.plain = token
}

// byRefresh lets the library find out by itself that its token has expired.
func (w *walk) byRefresh(t *testing.T, style oauth2.AuthStyle) {
	old := *w.password
	if w.refreshed != nil {
		old = *w.refreshed
	}
	old.Expiry = time.Unix(1, 0)
	token := must.Get(w.config(style).TokenSource(t.Context(), &old).Token())(t)
	w.holdToForm(t, token)
	if token.AccessToken == old.AccessToken || token.RefreshToken == old.RefreshToken {
		t.Errorf("a refresh gave a token that was there before")
	}
	w.refreshed = token
}

// holdToForm compares a token with the specification's answer.
func (w *walk) holdToForm(t *testing.T, token *oauth2.Token) {
	t.Helper()
	for _, secret := range []string{token.AccessToken, token.RefreshToken} {
		w.s.log.watchFor(secret)
	}
	if token.TokenType != "bearer" || token.Extra("scope") != nil || token.ExpiresIn != 3600 {
		t.Errorf("token of type %q, scope %v, expires in %d; want bearer, null, 3600", token.TokenType, token.Extra("scope"), token.ExpiresIn)
	}
}

// api calls with the token of the password grant, through the library's own
// client.
func (w *walk) api(t *testing.T, token *oauth2.Token, method, path, body string, wantStatus int) answer {
	t.Helper()
	r := must.Get(http.NewRequest(method, w.s.base+path, strings.NewReader(body)))(t)
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	ctx, cancel := context.WithTimeout(t.Context(), requestWait)
	defer cancel()
	a, err := exchange(w.config(oauth2.AuthStyleInParams).Client(ctx, token), r.WithContext(ctx))
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	if a.status != wantStatus {
		t.Fatalf("%s %s = %s, want status %d", method, path, a, wantStatus)
	}
	return a
}

// changeCustomer makes, changes, removes and makes again.
func (w *walk) changeCustomer(t *testing.T) {
	for _, change := range []struct {
		method, body string
		wantStatus   int
	}{
		{"PUT", `{"displayName":"Larkspur Tea Room","city":"Dunmere","phone":"8025550107"}`, 201},
		{"PUT", `{"displayName":"Larkspur Tea Room","city":"Dunmere","phone":"8025550143"}`, 200},
		{"PATCH", `{"city":"Upper Dunmere"}`, 200},
		{"DELETE", "", 204},
		{"PUT", `{"displayName":"Larkspur Tea Garden"}`, 201},
	} {
		a := w.api(t, w.code, change.method, customerPath, change.body, change.wantStatus)
		id := a.header.Get("Tollhouse-Event")
		if !strings.HasPrefix(id, "evt_") {
			t.Fatalf("%s: Tollhouse-Event is %q, want an event's id", change.method, id)
		}
		w.caused = append(w.caused, id)
	}
	w.snapshot = string(w.api(t, w.code, "GET", customerPath, "", 200).body)
}

// findEvents lists what the changes caused, retrieves each, and reads the
// customer; all of it as it was the first time.
func (w *walk) findEvents(t *testing.T) {
	var p eventPage
	decode(t, w.api(t, w.refreshed, "GET", "/api/events?type[]=customer.created&type[]=customer.updated&type[]=customer.deleted&order=asc", "", 200).body, &p)
	var ids, types []string
	for _, e := range p.Data {
		ids, types = append(ids, e.ID), append(types, e.Type)
		if e.Resource != "cus_4tn8k2w1" || e.Owner != odileAccount || e.Source != odile {
			t.Errorf("event %s is about %s of %s by %s, want cus_4tn8k2w1 of %s by %s", e.ID, e.Resource, e.Owner, e.Source, odileAccount, odile)
		}
	}
	if !slices.Equal(ids, w.caused) {
		t.Fatalf("events listed: %v, want those that the changes named: %v", ids, w.caused)
	}
	if want := []string{"customer.created", "customer.updated", "customer.updated", "customer.deleted", "customer.created"}; !slices.Equal(types, want) {
		t.Errorf("types are %v, want %v", types, want)
	}
	if previous := p.Data[1].Data.Previous; len(previous) != 1 || previous["phone"] != "8025550107" {
		t.Errorf("previousAttributes of the first update are %v, want the phone alone", previous)
	}
	for i, id := range ids {
		var e event
		decode(t, w.api(t, w.refreshed, "GET", "/api/events/"+id, "", 200).body, &e)
		if e.ID != id || e.Type != types[i] || !sameJSON(e.Data.Object, p.Data[i].Data.Object) {
			t.Errorf("retrieved %+v, listed %+v", e, p.Data[i])
		}
	}
	if now := string(w.api(t, w.refreshed, "GET", customerPath, "", 200).body); now != w.snapshot {
		t.Errorf("the customer is %s, want %s", now, w.snapshot)
	}
}

func (w *walk) askConsent(t *testing.T) {
	address := w.config(oauth2.AuthStyleInParams).AuthCodeURL("kept open")
	if w.consent = w.visitor.open(address); w.consent.field("ticket") == "" {
		t.Fatalf("no consent screen:\n%s", w.consent.body)
	}
}

// answerConsent sends a form of the server before the restart to the one after
// it, as a browser behind one address does.
func (w *walk) answerConsent(t *testing.T) {
	at := *w.consent.url
	at.Host = mustParse(t, w.s.base).Host
	w.consent.url = &at
	q := w.visitor.allow(w.consent).Query()
	if q.Get("code") == "" || q.Get("state") != "kept open" {
		t.Errorf("Allow after the restart leads on with %v, want a code and the state", q)
	}
}

func (w *walk) stillLive(t *testing.T) {
	for _, token := range []*oauth2.Token{w.password, w.code, w.plain, w.refreshed} {
		w.api(t, token, "GET", "/api/events?limit=1", "", 200)
	}
}

// replayCode comes last: a replay more than ten seconds after the first use revokes the family.
func (w *walk) replayCode(t *testing.T) {
	config := w.config(oauth2.AuthStyleInParams)
	_, err := config.Exchange(t.Context(), w.usedCode, oauth2.VerifierOption(w.verifier))
	if refusal := new(oauth2.RetrieveError); !errors.As(err, &refusal) || refusal.ErrorCode != "invalid_grant" {
		t.Errorf("the used code again: %v, want invalid_grant", err)
	}
	_, err = config.Exchange(t.Context(), w.plainCode)
	if refusal := new(oauth2.RetrieveError); !errors.As(err, &refusal) || refusal.ErrorCode != "invalid_grant" {
		t.Errorf("the used code without PKCE again: %v, want invalid_grant", err)
	}
}

// searchLog looks for all that was secret, and that there was a log at all.
func (w *walk) searchLog(t *testing.T) {
	for _, secret := range []string{odilePassword, w.creds.Secret, w.usedCode, w.plainCode, w.verifier} {
		w.s.log.watchFor(secret)
	}
	for begun := time.Now(); w.s.log.size() == 0; time.Sleep(time.Millisecond) {
		if time.Since(begun) > requestWait {
			t.Fatal("the server has logged nothing, so there was nothing to search")
		}
	}
	if found := w.s.log.secrets(); len(found) > 0 {
		t.Errorf("the log holds %d secrets, the first begins %.12q", len(found), found[0])
	}
}

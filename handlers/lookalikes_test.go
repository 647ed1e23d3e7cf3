package handlers_test

import (
	"context"
	"hash/crc32"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// lookalike is a request for something that may not exist. The answer may not reveal which,
// nor its time, except of a token, which nobody can guess.
type lookalike struct {
	name    string // of the subtest
	status  int
	guesses bool // the throttle counts it, so the clock must advance
	hashes  bool // it costs a password hash
	asks    []ask
}

// ask is one way to send the request. The first is about something unknown.
type ask struct {
	about string
	typed string // caller's text in the answer, of the same length in all ways
	send  func(t testing.TB) *http.Request
}

// neighbourhood is a house with everything that a stranger could ask about.
type neighbourhood struct {
	*house
	unknownClient, disabledClient, deletedClient string
	disabledSecret, deletedSecret                secret.Token
	tokens                                       map[string]pair // by their state for the house's client
	codes                                        map[string]string
	login                                        func(name, password string) func(testing.TB) *http.Request
	newPassword                                  func(typed url.Values) func(testing.TB) *http.Request
	userCode                                     string              // of cleo, expired
	outsider                                     func(*http.Request) // carries a token of another account
	event                                        string              // of the house's account
}

const (
	throttleForgets = 15 * time.Minute
	foreignEvent    = "ev-foreign_7"
	unknownEvent    = "ev-foreign_8"
	ourResource     = "/api/resources/customer/cus_7"
	unknownResource = "/api/resources/customer/cus_8"
)

// populate fills a house.
func populate(t testing.TB, h *house) *neighbourhood {
	t.Helper()
	n := &neighbourhood{house: h, tokens: map[string]pair{}, codes: map[string]string{}}
	_, code, err := h.CreateUser(context.Background(), store.UserSpec{Username: "cleo", Account: h.account, Code: true})
	must.Do(t, err)
	n.userCode = code.Reveal()
	h.User(t, "faye", h.account)
	h.SetUpApp(t, "faye")
	dora, otis := h.User(t, "dora", h.account), h.User(t, "otis", "acct_fernhollow")
	n.tokens["expired"] = n.issued(t, h.client, h.user)
	h.Clock.Advance(h.Lifetimes().RefreshToken)
	other, _ := h.Client(t)
	n.populateClients(t)
	n.tokens["another_clients"] = n.issued(t, other, h.user)
	n.tokens["of_a_disabled_user"] = n.issued(t, h.client, dora)
	n.tokens["revoked"] = n.issued(t, h.client, h.user)
	must.Do(t, h.RevokeToken(context.Background(), store.By{}, h.client, n.tokens["revoked"].RefreshToken))
	must.Get(h.DisableUser(context.Background(), "dora"))(t)
	n.codes["another_clients"], n.codes["expired"] = n.allowed(t, other), n.allowed(t, h.client)
	h.Clock.Advance(h.Lifetimes().Code)

	token := n.issued(t, h.client, otis).AccessToken
	n.outsider = header("Authorization", "Bearer "+token)
	n.populateEvents(t)
	b := h.browser(t)
	form := formOn(t, b.get(t, "/login"))
	cookie := header("Cookie", "__Host-tollhouse_form="+b.cookie("__Host-tollhouse_form"))
	n.login = func(name, password string) func(testing.TB) *http.Request {
		return n.posts(form.action, with(form.fields, "username", name, "password", password), cookie, header("Origin", h.issuer))
	}
	page := formOn(t, b.get(t, newPasswordPath))
	n.newPassword = func(typed url.Values) func(testing.TB) *http.Request {
		return n.posts(page.action, with(typed, "form_token", page.fields.Get("form_token")), cookie, header("Origin", h.issuer))
	}
	return n
}

// populateClients creates a disabled and a deleted client, each with an earlier token.
func (n *neighbourhood) populateClients(t testing.TB) {
	t.Helper()
	disabled, disabledSecret := n.Client(t)
	deleted, deletedSecret := n.Client(t)
	n.tokens["of_a_disabled_client"], n.tokens["of_a_deleted_client"] = n.issued(t, disabled, n.user), n.issued(t, deleted, n.user)
	must.Get(n.DisableClient(context.Background(), disabled.ID))(t)
	must.Do(t, n.DeleteClient(context.Background(), deleted.ID))
	n.disabledClient, n.disabledSecret, n.deletedClient, n.deletedSecret = disabled.ID, disabledSecret, deleted.ID, deletedSecret
	n.unknownClient = "tollhouse_" + strings.Repeat("a", len(deleted.ID)-len("tollhouse_"))
}

// populateEvents records an event of the house's account, and one with a foreign id.
func (n *neighbourhood) populateEvents(t testing.TB) {
	t.Helper()
	own := header("Authorization", "Bearer "+n.issued(t, n.client, n.user).AccessToken)
	put := n.do(n.request(t, "PUT", ourResource, strings.NewReader(`{"city":"Dunmere"}`), own, header("Content-Type", "application/json")))
	if n.event = put.Header.Get("Tollhouse-Event"); put.StatusCode != http.StatusCreated || n.event == "" {
		t.Fatalf("PUT = %d %s, want 201 and an event", put.StatusCode, put.body)
	}
	im := must.Get(n.Events.NewImporter(n.account, eventlog.ImportOptions{}))(t)
	line := `{"id":"` + foreignEvent + `","type":"plan.created","resource":"p1","eventData":{"object":{}},"createdAt":1773066601}`
	refused := must.Get(im.Add(context.Background(), []byte(line), 1))(t)
	late := must.Get(im.Flush(context.Background()))(t)
	if len(refused)+len(late) > 0 {
		t.Fatalf("import refused %v %v", refused, late)
	}
}

// issued issues tokens without the user's password.
func (n *neighbourhood) issued(t testing.TB, c store.Client, u store.User) pair {
	t.Helper()
	issued := must.Get(n.IssueForPassword(context.Background(), store.By{}, c, u, store.ScopeUnstated))(t)
	return pair{AccessToken: issued.AccessToken.Reveal(), RefreshToken: issued.RefreshToken.Reveal()}
}

func (n *neighbourhood) posts(path string, form url.Values, change ...func(*http.Request)) func(testing.TB) *http.Request {
	body, change := form.Encode(), append([]func(*http.Request){header("Content-Type", formType)}, change...)
	return func(t testing.TB) *http.Request {
		return n.request(t, "POST", path, strings.NewReader(body), change...)
	}
}

func (n *neighbourhood) gets(target string, change ...func(*http.Request)) func(testing.TB) *http.Request {
	return n.calls("GET", target, "", change...)
}

func (n *neighbourhood) calls(method, target, body string, change ...func(*http.Request)) func(testing.TB) *http.Request {
	return func(t testing.TB) *http.Request {
		return n.request(t, method, target, strings.NewReader(body), change...)
	}
}

// lookalikes are all the requests. Those that the throttle counts come last, since their
// clock outlives every token.
func (n *neighbourhood) lookalikes() []lookalike { return append(n.aboutTokens(), n.timed()...) }

// timed are those that also take the same time.
func (n *neighbourhood) timed() []lookalike {
	return slices.Concat(n.aboutCodes(), n.aboutEvents(), n.aboutClients(), n.aboutUsers())
}

// aboutUsers asks who can sign in, by names of four letters.
func (n *neighbourhood) aboutUsers() []lookalike {
	grant := func(name, password string) func(testing.TB) *http.Request {
		return n.posts(tokenPath, with(n.passwordForm(), "username", name, "password", password))
	}
	wrong := func(send func(name, password string) func(testing.TB) *http.Request) []ask {
		return []ask{
			{"an_unknown_user", "nils", send("nils", storetest.Password)},
			{"a_wrong_password", "mara", send("mara", "another "+storetest.Password)},
			{"a_disabled_user", "dora", send("dora", storetest.Password)},
			{"a_wrong_password_of_a_user_with_a_second_factor", "faye", send("faye", "another "+storetest.Password)},
		}
	}
	long := func(send func(name, password string) func(testing.TB) *http.Request) []ask {
		return []ask{
			{"an_unknown_user", "nils", send("nils", tooLong)},
			{"a_known_user", "mara", send("mara", tooLong)},
			{"a_disabled_user", "dora", send("dora", tooLong)},
		}
	}
	code := func(name, code string) func(testing.TB) *http.Request {
		return n.newPassword(with(url.Values{}, "username", name, "code", code, "new_password", storetest.Password, "repeat_password", storetest.Password))
	}
	return []lookalike{
		{"the_page_for_a_code", 200, true, false, []ask{
			{"an_unknown_user", "nils", code("nils", n.userCode)},
			{"a_wrong_code", "mara", code("mara", n.userCode)},
			{"an_expired_code", "cleo", code("cleo", n.userCode)},
			{"a_disabled_user", "dora", code("dora", n.userCode)},
		}},
		{"the_login_form", 200, true, true, append(wrong(n.login), ask{"a_user_without_a_password", "cleo", n.login("cleo", storetest.Password)})},
		{"the_password_grant", 400, true, true, append(wrong(grant), ask{"a_user_without_a_password", "cleo", grant("cleo", storetest.Password)})},
		{"the_login_form_with_1025_bytes", 200, true, false, long(n.login)},
		{"the_password_grant_with_1025_bytes", 400, true, false, long(grant)},
	}
}

// aboutClients asks which clients exist.
func (n *neighbourhood) aboutClients() []lookalike {
	asks := func(send func(id, secret string) func(testing.TB) *http.Request) []ask {
		return []ask{
			{"an_unknown_client", n.unknownClient, send(n.unknownClient, n.secret.Reveal())},
			{"a_wrong_secret", n.client.ID, send(n.client.ID, n.disabledSecret.Reveal())},
			{"a_secret_that_is_nearly_right", n.client.ID, send(n.client.ID, nearly(n.secret))},
			{"a_disabled_client", n.disabledClient, send(n.disabledClient, n.disabledSecret.Reveal())},
			{"a_deleted_client", n.deletedClient, send(n.deletedClient, n.deletedSecret.Reveal())},
		}
	}
	inBody := func(path string) func(id, secret string) func(testing.TB) *http.Request {
		return func(id, secret string) func(testing.TB) *http.Request {
			return n.posts(path, with(n.refreshForm(n.tokens["revoked"].RefreshToken), "client_id", id, "client_secret", secret, "token", "x"))
		}
	}
	byBasic := func(id, secret string) func(testing.TB) *http.Request {
		form := without(n.refreshForm(n.tokens["revoked"].RefreshToken), "client_id", "client_secret")
		return n.posts(tokenPath, form, basic(id, secret))
	}
	page := func(id, _ string) func(testing.TB) *http.Request { return n.gets(n.authURL("client_id", id)) }
	atDoor := asks(page)
	atDoor = append(atDoor[:1], atDoor[3:]...) // a known one is shown its sign-in
	return []lookalike{
		{"the_token_endpoint", 401, true, false, asks(inBody(tokenPath))},
		{"the_token_endpoint_by_Basic", 401, true, false, asks(byBasic)},
		{"revocation", 401, true, false, asks(inBody(revokePath))},
		{"introspection", 401, true, false, asks(inBody(introspectPath))},
		{"the_authorization_endpoint", 400, false, false, atDoor},
	}
}

// nearly returns a well-formed secret that begins as this one does: it has another last
// character before the checksum.
func nearly(right secret.Token) string {
	const checksumSize, digits = 6, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	b := []byte(right.Reveal())
	last := len(b) - checksumSize - 1
	b[last] = digits[(strings.IndexByte(digits, b[last])+1)%len(digits)]
	sum := crc32.ChecksumIEEE(b[:last+1])
	for i := len(b) - 1; i > last; i-- {
		b[i] = digits[sum%62]
		sum /= 62
	}
	if _, ok := secret.Parse(secret.ClientSecret, string(b)); !ok {
		panic("the secret has a wrong checksum")
	}
	return string(b)
}

// aboutCodes asks which codes exist or existed.
func (n *neighbourhood) aboutCodes() []lookalike {
	asks := []ask{{"unknown", "", n.posts(tokenPath, n.codeForm(secret.New(nil, secret.Code).Reveal()))}}
	for _, about := range []string{"another_clients", "expired"} {
		asks = append(asks, ask{about, "", n.posts(tokenPath, n.codeForm(n.codes[about]))})
	}
	return []lookalike{{"the_code_grant", 400, false, false, asks}}
}

// aboutTokens asks which tokens exist or existed.
func (n *neighbourhood) aboutTokens() []lookalike {
	unknown := pair{AccessToken: secret.New(nil, secret.AccessToken).Reveal(), RefreshToken: secret.New(nil, secret.RefreshToken).Reveal()}
	asks := func(send func(p pair) func(testing.TB) *http.Request, about ...string) []ask {
		list := []ask{{"unknown", "", send(unknown)}}
		for _, a := range about {
			list = append(list, ask{a, "", send(n.tokens[a])})
		}
		return list
	}
	access := func(path string) func(pair) func(testing.TB) *http.Request {
		return func(p pair) func(testing.TB) *http.Request {
			return n.posts(path, with(n.credentials(), "token", p.AccessToken))
		}
	}
	refresh := func(path string) func(pair) func(testing.TB) *http.Request {
		return func(p pair) func(testing.TB) *http.Request {
			return n.posts(path, with(n.credentials(), "token", p.RefreshToken))
		}
	}
	bearer := func(p pair) func(testing.TB) *http.Request {
		return n.gets(apiPath, header("Authorization", "Bearer "+p.AccessToken))
	}
	grant := func(p pair) func(testing.TB) *http.Request { return n.posts(tokenPath, n.refreshForm(p.RefreshToken)) }
	dead := []string{"revoked", "expired", "of_a_disabled_user", "of_a_disabled_client", "of_a_deleted_client"}
	hers := []string{"another_clients", "revoked", "expired", "of_a_disabled_user", "of_a_disabled_client", "of_a_deleted_client"}
	return []lookalike{
		{"the_bearer_check", 401, false, false, asks(bearer, dead...)},
		{"introspection_of_access", 200, false, false, asks(access(introspectPath), hers...)},
		{"introspection_of_refresh", 200, false, false, asks(refresh(introspectPath), hers...)},
		{"revocation_of_access", 200, false, false, asks(access(revokePath), hers...)},
		{"the_refresh_grant", 400, false, false, asks(grant, hers...)},
		// Last, since it ends what is left.
		{"revocation_of_refresh", 200, false, false, asks(refresh(revokePath), hers...)},
	}
}

// aboutEvents asks which events and resources another account has.
func (n *neighbourhood) aboutEvents() []lookalike {
	last := "0"
	if strings.HasSuffix(n.event, last) {
		last = "1"
	}
	absent := n.event[:len(n.event)-1] + last
	about := func(unknown, anothers string, send func(string) func(testing.TB) *http.Request) []ask {
		return []ask{{"unknown", "", send(unknown)}, {"anothers", "", send(anothers)}}
	}
	event := func(id string) func(testing.TB) *http.Request { return n.gets(apiPath+"/"+id, n.outsider) }
	behind := func(id string) func(testing.TB) *http.Request { return n.gets(apiPath+"?after="+id, n.outsider) }
	events := append(about(absent, n.event, event), ask{"malformed", "", event(n.event[:len(n.event)-1])})
	resource := func(path string) func(testing.TB) *http.Request { return n.gets(path, n.outsider) }
	remove := func(path string) func(testing.TB) *http.Request { return n.calls("DELETE", path, "", n.outsider) }
	patch := func(path string) func(testing.TB) *http.Request {
		return n.calls("PATCH", path, `{"city":null}`, n.outsider, header("Content-Type", "application/merge-patch+json"))
	}
	return []lookalike{
		{"an_event", 404, false, false, events},
		{"an_event_with_an_id_of_its_own", 404, false, false, about(unknownEvent, foreignEvent, event)},
		{"a_cursor_with_an_id_of_its_own", 400, false, false, about(unknownEvent, foreignEvent, behind)},
		{"a_resource", 404, false, false, about(unknownResource, ourResource, resource)},
		{"a_resource_patched", 404, false, false, about(unknownResource, ourResource, patch)},
		{"a_resource_deleted", 404, false, false, about(unknownResource, ourResource, remove)},
	}
}

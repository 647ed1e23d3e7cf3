package store_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook"
)

// dataScopes are what "all" means, whatever scopes there will be.
const dataScopes = "events:read resources:read resources:write webhooks:read webhooks:write"

// Promise (Platform §1): "all" and "no scope" mean the five data scopes for ever: of a client, a
// code, a pair and its refresh, what is remembered, introspected and listed
func TestAllScopesAreTheFiveDataScopes(t *testing.T) {
	t.Parallel()
	if got := store.ScopeUnstated.Effective().String(); got != dataScopes {
		t.Errorf("no scope gives %q, want the five data scopes", got)
	}
	if got := strings.Join(store.ScopeNames(), " "); got != dataScopes {
		t.Errorf("ScopeNames() = %q, want the five data scopes", got)
	}
	for _, name := range store.PlatformScopeNames() {
		scope, ok := store.ParseScope(name)
		if !ok || store.ScopeUnstated.Covers(scope) || scope.Beyond(store.ScopeUnstated) != scope {
			t.Errorf("%s: known %t, covered by no scope: %t, want it beyond", name, ok, store.ScopeUnstated.Covers(scope))
		}
	}
	g := newGrant(t)
	code := must.Get(g.redeem(g.allow(t, ""), ""))(t)
	refreshed := must.Get(g.refreshFor(code, store.ScopeUnstated))(t)
	for name, issued := range map[string]store.Issued{"by_password": g.first, "by_code": code, "refreshed": refreshed} {
		p := must.Get(g.FindPrincipal(t.Context(), issued.AccessToken))(t)
		for _, scope := range store.PlatformScopeNames() {
			if bit, _ := store.ParseScope(scope); p.Allows(bit) {
				t.Errorf("%s: a token without a scope allows %s", name, scope)
			}
		}
		for _, token := range []secret.Token{issued.AccessToken, issued.RefreshToken} {
			found, err := g.Introspect(t.Context(), g.client, token.Reveal())
			if name == "by_code" { // replaced by the refresh
				continue
			}
			if err != nil || found.Scope.String() != dataScopes {
				t.Errorf("%s: introspected as %q, %v, want the five", name, found.Scope, err)
			}
		}
	}
	for _, scope := range store.PlatformScopeNames() {
		bit, _ := store.ParseScope(scope)
		var beyond *store.ScopeError
		if _, err := g.refreshFor(refreshed, bit); !errors.As(err, &beyond) || beyond.Beyond != bit {
			t.Errorf("a refresh for %s = %v, want it beyond the grant", scope, err)
		}
		if _, ok := g.client.GrantScope(bit); ok {
			t.Errorf("a client without a list of scopes gets %s", scope)
		}
	}
}

// Promise (Platform §1): a platform client is confidential, has client_credentials alone, no
// redirect URI, account or consent, and names its scopes; no other client can have one of them
func TestCreatePlatformClient(t *testing.T) {
	t.Parallel()
	f := storetest.New(t)
	ctx := t.Context()
	c, sec := f.Client(t, storetest.Platform("accounts:read", "events:read"))
	c = must.Get(f.FindClient(ctx, c.ID))(t)
	if sec.IsZero() || !c.Platform || c.Public || c.Account != "" || len(c.RedirectURIs) > 0 || !slices.Equal(c.Grants, []store.Grant{store.GrantClientCredentials}) || c.Scope.String() != "events:read accounts:read" {
		t.Errorf("created %+v", c)
	}
	for name, refuse := range map[string]struct {
		change  func(*store.ClientSpec)
		field   string
		is, not bool // of platform clients, and of others
	}{
		"public":        {func(c *store.ClientSpec) { c.Public = true }, "public", true, false},
		"redirect_uri":  {func(c *store.ClientSpec) { c.RedirectURIs = []string{storetest.CallbackURI} }, "redirect_uris", true, false},
		"another_grant": {func(c *store.ClientSpec) { c.Grants = []string{"client_credentials", "password"} }, "grants", true, false},
		"an_account":    {func(c *store.ClientSpec) { c.Account = "acct_x" }, "account", true, false},
		"remembers":     {func(c *store.ClientSpec) { c.Consent = store.ConsentRemember }, "consent", true, false},
		"no_scope":      {func(c *store.ClientSpec) { c.Scopes = nil }, "scopes", true, false},
		"no_such_scope": {func(c *store.ClientSpec) { c.Scopes = []string{"platform"} }, "scopes", true, true},
		"every_scope":   {func(c *store.ClientSpec) { c.Scopes = []string{"*"} }, "scopes", true, true},
		"its_scope":     {func(c *store.ClientSpec) { c.Scopes = []string{"events:read", "users:write"} }, "scopes", false, true},
	} {
		for _, isPlatform := range []bool{true, false} {
			spec := store.ClientSpec{Name: "L", RedirectURIs: []string{storetest.CallbackURI}}
			if isPlatform {
				storetest.Platform("accounts:read")(&spec)
			}
			refuse.change(&spec)
			if isPlatform && !refuse.is || !isPlatform && !refuse.not {
				continue
			}
			_, _, err := f.CreateClient(ctx, spec)
			var bad *record.InvalidError
			if !errors.As(err, &bad) || bad.Field != refuse.field || bad.Hint == "" || (bad.Code == "invalid_scope") != (name == "its_scope") {
				t.Errorf("%s (platform %t): %v %+v, want an InvalidError with a hint for %s", name, isPlatform, err, bad, refuse.field)
			}
		}
	}
	t.Run("nor_by_a_change", func(t *testing.T) {
		other, _ := f.Client(t)
		for _, name := range store.PlatformScopeNames() {
			var bad *record.InvalidError
			if _, err := f.UpdateClient(ctx, other.ID, store.ClientChange{Scopes: &[]string{name}}); !errors.As(err, &bad) || bad.Code != "invalid_scope" {
				t.Errorf("UpdateClient(%s) = %v, want invalid_scope", name, err)
			}
		}
		for _, change := range []store.ClientChange{
			{Scopes: &[]string{}}, {Grants: &[]string{"password"}}, {AddRedirectURIs: []string{storetest.CallbackURI}}, {Account: new("acct_x")},
		} {
			var bad *record.InvalidError
			if _, err := f.UpdateClient(ctx, c.ID, change); !errors.As(err, &bad) {
				t.Errorf("UpdateClient(platform, %+v) = %v, want an InvalidError", change, err)
			}
		}
	})
}

// acts issues a token to a new platform client, with all data scopes.
func acts(t testing.TB, f *storetest.Fixture, account string) (store.Client, store.Issued) {
	t.Helper()
	c, _ := f.Client(t, storetest.Platform(append(store.ScopeNames(), "accounts:act")...))
	scope := c.Scope
	if account != "" {
		scope &= store.ScopeData
	}
	return c, must.Get(f.IssueForClient(context.Background(), store.By{}, c, account, scope))(t)
}

// Promise (Platform §1): its tokens live an hour at most and have no refresh token; disabling the
// client, or taking accounts:act from it, ends them and its webhook endpoints immediately
func TestTokensOfAPlatformClient(t *testing.T) {
	t.Parallel()
	t.Run("an_hour_at_most", func(t *testing.T) {
		for ttl, want := range map[time.Duration]time.Duration{3 * time.Hour: time.Hour, 5 * time.Minute: 5 * time.Minute} {
			f := storetest.New(t, func(o *store.Options) { o.Lifetimes.AccessToken = ttl })
			for _, account := range []string{"", "acct_larkspur"} {
				f.User(t, "mara"+account, "acct_larkspur")
				_, issued := acts(t, f, account)
				if issued.ExpiresIn != want || !issued.RefreshToken.IsZero() {
					t.Errorf("with --access-ttl %s it lives %s, want %s without a refresh token", ttl, issued.ExpiresIn, want)
				}
				f.Clock.Advance(want)
				_, err := f.FindPrincipal(t.Context(), issued.AccessToken)
				refused(t, "FindPrincipal(after its end)", err, record.ErrNotFound)
			}
		}
	})
	for name, end := range map[string]func(*storetest.Fixture, string) error{
		"disabled": func(f *storetest.Fixture, id string) error {
			_, err := f.DisableClient(context.Background(), id)
			return err
		},
		"without_accounts_act": func(f *storetest.Fixture, id string) error {
			_, err := f.UpdateClient(context.Background(), id, store.ClientChange{Scopes: &[]string{"events:read", "webhooks:write"}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := parallelGrant(t)
			c, all := acts(t, g.Fixture, "")
			one := must.Get(g.IssueForClient(t.Context(), store.By{}, c, "acct_larkspur", store.ScopeData))(t)
			p := must.Get(g.ActFor(t.Context(), must.Get(g.FindPrincipal(t.Context(), all.AccessToken))(t), "acct_larkspur"))(t)
			by := webhook.By{Account: p.Account, Owner: p.WebhookOwner(), Platform: true, Live: g.LiveIn(p, nil)}
			e, _, err := g.Webhooks.Create(t.Context(), by, p.Account, webhook.Settings{URL: "https://hooks.example/1"})
			must.Do(t, err)
			must.Do(t, end(g.Fixture, c.ID))
			for _, token := range []store.Issued{all, one} {
				_, err := g.FindPrincipal(t.Context(), token.AccessToken)
				refused(t, "FindPrincipal()", err, record.ErrNotFound)
			}
			if now := g.endpointNow(t, e); now.Disabled.Reason != webhook.AuthorizationEnded {
				t.Errorf("its endpoint is %+v, want it disabled: authorization_ended", now.Disabled)
			}
			must.Get(g.EnableClient(t.Context(), c.ID))(t)
			if _, err := g.FindPrincipal(t.Context(), all.AccessToken); !errors.Is(err, record.ErrNotFound) {
				t.Errorf("enabled again, FindPrincipal() = %v, want ErrNotFound", err)
			}
		})
	}
}

// Promise (Platform §2): a webhook endpoint that it makes belongs to the account; it ends when the
// client may no longer have events pushed
func TestWebhooksOfAPlatformClient(t *testing.T) {
	g := parallelGrant(t)
	c, issued := acts(t, g.Fixture, "")
	p := must.Get(g.ActFor(t.Context(), must.Get(g.FindPrincipal(t.Context(), issued.AccessToken))(t), "acct_larkspur"))(t)
	by := webhook.By{Account: p.Account, Owner: p.WebhookOwner(), Name: p.ClientName, Platform: true, Live: g.LiveIn(p, nil)}
	e, _, err := g.Webhooks.Create(t.Context(), by, p.Account, webhook.Settings{URL: "https://hooks.example/1"})
	must.Do(t, err)
	if list := must.Get(g.Webhooks.List(t.Context(), g.byToken(t, g.first.AccessToken), "", "", 9))(t); len(list) != 1 || list[0].ID != e.ID || list[0].Account != "acct_larkspur" {
		t.Errorf("the account's endpoints are %+v, want the one", list)
	}
	must.Do(t, g.RevokeToken(t.Context(), store.By{}, c, issued.AccessToken.Reveal()))
	if now := g.endpointNow(t, e); !now.Enabled() {
		t.Error("the end of one token disables the client's endpoint")
	}
	must.Get(g.UpdateClient(t.Context(), c.ID, store.ClientChange{Scopes: &[]string{"accounts:act", "webhooks:write"}}))(t)
	if now := g.endpointNow(t, e); now.Disabled.Reason != webhook.ClientEnded {
		t.Errorf("without events:read it is %+v, want client_ended", now.Disabled)
	}
}

// TestPromotionOfWhatAPlatformClientKnows: who may create users and clients must not become an operator
// or introspect by a later promotion.
//
// Promise (Platform §3): a user whose password, or a client whose secret, a platform client may know is
// promoted only with another one, at any server; a code that it made ends with the promotion
func TestPromotionOfWhatAPlatformClientKnows(t *testing.T) {
	f := newGrantIn(t, storetest.New(t))
	machine := t.Context()
	platform := store.WithActor(machine, store.Actor{ClientID: "tollhouse_platform"})
	const password = "correct horse battery staple"
	redeem := func(name string, code secret.Token) {
		t.Helper()
		must.Get(f.RedeemUserCode(machine, store.UserCodeUse{Username: name, Code: code, Password: password}))(t)
	}
	promoted := func(name string, want bool) {
		t.Helper()
		u, err := f.PromoteUser(machine, name)
		var bad *record.InvalidError
		if want && (err != nil || !u.Operator) || !want && (!errors.As(err, &bad) || bad.Hint == "") {
			t.Errorf("PromoteUser(%s) = %v, want it done: %t", name, err, want)
		}
	}
	made := func(ctx context.Context, name string, spec store.UserSpec) secret.Token {
		t.Helper()
		spec.Username, spec.Account = name, "acct_larkspur"
		_, code, err := f.CreateUser(ctx, spec)
		must.Do(t, err)
		return code
	}
	made(platform, "typed", store.UserSpec{Password: password})
	promoted("typed", false)
	must.Get(f.SetPassword(machine, "typed", password))(t)
	promoted("typed", true)
	redeem("invited", made(platform, "invited", store.UserSpec{Code: true}))
	promoted("invited", false)
	_, code, err := f.CreateUserCode(machine, "invited", 0)
	must.Do(t, err)
	redeem("invited", code)
	promoted("invited", true)
	made(machine, "recovered", store.UserSpec{Password: password})
	_, code, err = f.CreateUserCode(platform, "recovered", 0)
	must.Do(t, err)
	redeem("recovered", code)
	promoted("recovered", false)
	made(machine, "own", store.UserSpec{Password: password})
	_, code, err = f.CreateUserCode(platform, "own", 0)
	must.Do(t, err)
	promoted("own", true)
	_, err = f.RedeemUserCode(machine, store.UserCodeUse{Username: "own", Code: code, Password: password})
	refused(t, "RedeemUserCode(of before the promotion)", err, record.ErrMismatch)

	spec := store.ClientSpec{Name: "Larkspur", RedirectURIs: []string{storetest.CallbackURI}}
	introspects := func(id string, want bool) {
		t.Helper()
		_, err := f.UpdateClient(machine, id, store.ClientChange{Introspect: new(true)})
		var bad *record.InvalidError
		if want && err != nil || !want && (!errors.As(err, &bad) || bad.Field != "introspect" || bad.Hint == "") {
			t.Errorf("UpdateClient(introspect) = %v, want it done: %t", err, want)
		}
	}
	byPlatform, _, err := f.CreateClient(platform, spec)
	must.Do(t, err)
	introspects(byPlatform.ID, false)
	_, _, _, err = f.PutClient(machine, byPlatform.ID, store.ClientSpec{Name: "Larkspur", Scopes: []string{"audit:read"}, Platform: true, Grants: []string{"client_credentials"}})
	if bad := (*record.InvalidError)(nil); !errors.As(err, &bad) || bad.Field != "platform" {
		t.Errorf("PutClient(platform) = %v, want it refused", err)
	}
	_, _, err = f.RotateClientSecret(machine, byPlatform.ID, false)
	must.Do(t, err)
	introspects(byPlatform.ID, false) // the other still works
	_, _, err = f.RotateClientSecret(machine, byPlatform.ID, true)
	must.Do(t, err)
	introspects(byPlatform.ID, true)
	byMachine, _, err := f.CreateClient(machine, spec)
	must.Do(t, err)
	_, _, err = f.RotateClientSecret(platform, byMachine.ID, false)
	must.Do(t, err)
	introspects(byMachine.ID, false)
	_, _, err = f.RotateClientSecret(machine, byMachine.ID, true)
	must.Do(t, err)
	introspects(byMachine.ID, true)
}

// Promise (Platform §2): to revoke an account ends the endpoints that tokens for it alone made, and not
// those made with the header; to disable and enable it ends neither
func TestWebhooksOfARevokedAccountByPlatformClients(t *testing.T) {
	g := parallelGrant(t)
	c, all := acts(t, g.Fixture, "")
	one := must.Get(g.IssueForClient(t.Context(), store.By{}, c, "acct_larkspur", store.ScopeData))(t)
	found := must.Get(g.FindPrincipal(t.Context(), all.AccessToken))(t)
	made := func(p store.Principal, url string) webhook.Endpoint {
		by := webhook.By{Account: p.Account, Owner: p.WebhookOwner(), Platform: true, Live: g.LiveIn(p, nil)}
		e, _, err := g.Webhooks.Create(t.Context(), by, p.Account, webhook.Settings{URL: url})
		must.Do(t, err)
		return e
	}
	byHeader := made(must.Get(g.ActFor(t.Context(), found, "acct_larkspur"))(t), "https://hooks.example/1")
	byToken := made(must.Get(g.FindPrincipal(t.Context(), one.AccessToken))(t), "https://hooks.example/2")
	must.Get(g.DisableAccount(t.Context(), "acct_larkspur"))(t)
	must.Get(g.EnableAccount(t.Context(), "acct_larkspur"))(t)
	for _, e := range []webhook.Endpoint{byHeader, byToken} {
		if now := g.endpointNow(t, e); !now.Enabled() {
			t.Errorf("disabled and enabled, %s is %+v, want it enabled", e.URL, now.Disabled)
		}
	}
	must.Get(g.RevokeAccount(t.Context(), "acct_larkspur"))(t)
	if now := g.endpointNow(t, byHeader); !now.Enabled() {
		t.Errorf("that of the header is %+v, want it enabled", now.Disabled)
	}
	if now := g.endpointNow(t, byToken); now.Disabled.Reason != webhook.AuthorizationEnded {
		t.Errorf("that of the token for one account is %+v, want it disabled: authorization_ended", now.Disabled)
	}
}

// change sets the resource c1 of an account.
func change(f *storetest.Fixture, account string, p store.Principal) (eventlog.Changed, error) {
	body, err := snapshot.Parse([]byte(`{"notes":"x"}`), snapshot.DepthMax)
	if err != nil {
		return eventlog.Changed{}, err
	}
	return f.Events.PutResource(context.Background(), eventlog.ResourceChange{
		Owner: account, Kind: "customer", ID: "c1", Source: p.ClientName, Location: "api", Live: f.LiveIn(p, nil), Platform: true,
	}, body)
}

// TestActingCreatesNoAccount looks at what one transaction does. The account was there when the
// client named it.
//
// Promise (Platform §2): it never creates an account: a write that arrives after the account was
// erased, or the token revoked, changes nothing
func TestActingCreatesNoAccount(t *testing.T) {
	g := parallelGrant(t)
	c, issued := acts(t, g.Fixture, "")
	must.Get(g.CreateAccount(t.Context(), "acct_gone", ""))(t)
	found := must.Get(g.FindPrincipal(t.Context(), issued.AccessToken))(t)
	p := must.Get(g.ActFor(t.Context(), found, "acct_gone"))(t)
	must.Get(change(g.Fixture, "acct_gone", p))(t)
	must.Do(t, g.DeleteAccount(t.Context(), "acct_gone"))
	g.unchanged(t, func() {
		_, err := change(g.Fixture, "acct_gone", p)
		refused(t, "PutResource(of an erased account)", err, store.ErrUnknownAccount)
		_, _, err = g.Webhooks.Create(t.Context(), webhook.By{Account: p.Account, Owner: p.WebhookOwner(), Platform: true, Live: g.LiveIn(p, nil)}, p.Account, webhook.Settings{URL: "https://hooks.example/1"})
		refused(t, "Create(of an erased account)", err, store.ErrUnknownAccount)
		for _, name := range []string{"acct_gone", "acct_never", "", "*", "ACCT_X"} {
			_, err := g.ActFor(t.Context(), found, name)
			refused(t, "ActFor("+name+")", err, store.ErrUnknownAccount)
		}
		_, err = g.IssueForClient(t.Context(), store.By{}, c, "acct_gone", store.ScopeEventsRead)
		refused(t, "IssueForClient(acct_gone)", err, store.ErrUnknownAccount)
	})
	if _, err := g.FindAccount(t.Context(), "acct_gone"); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("FindAccount() = %v, want ErrNotFound", err)
	}
	p = must.Get(g.ActFor(t.Context(), found, "acct_larkspur"))(t)
	must.Do(t, g.RevokeToken(t.Context(), store.By{}, c, issued.AccessToken.Reveal()))
	_, err := change(g.Fixture, "acct_larkspur", p)
	refused(t, "PutResource(of a revoked token)", err, record.ErrRevoked)
}

// Promise (Platform §2): what a platform client writes uses up no merchant's budget
func TestActingUsesUpNoBudget(t *testing.T) {
	g := parallelGrant(t, func(o *store.Options) { o.AccountWrites = 64 << 10 })
	_, issued := acts(t, g.Fixture, "")
	p := must.Get(g.ActFor(t.Context(), must.Get(g.FindPrincipal(t.Context(), issued.AccessToken))(t), "acct_larkspur"))(t)
	for range 40 {
		must.Get(g.Events.DeleteResource(t.Context(), eventlog.ResourceChange{
			Owner: "acct_larkspur", Kind: "customer", ID: must.Get(change(g.Fixture, "acct_larkspur", p))(t).ID, Live: g.LiveIn(p, nil), Platform: true,
		}))(t)
	}
	own := must.Get(g.FindPrincipal(t.Context(), g.first.AccessToken))(t)
	body := must.Get(snapshot.Parse([]byte(`{"notes":"x"}`), snapshot.DepthMax))(t)
	mine := func(id string) error {
		_, err := g.Events.PutResource(t.Context(), eventlog.ResourceChange{Owner: own.Account, Kind: "customer", ID: id, Source: "mara"}, body)
		return err
	}
	must.Do(t, mine("c1"))
	var overdrawn *record.BudgetError
	var err error
	for i := 0; i < 40 && err == nil; i++ {
		err = mine("d" + string(rune('a'+i%26)) + string(rune('a'+i/26)))
	}
	if !errors.As(err, &overdrawn) {
		t.Errorf("the account itself = %v, want its budget used up", err)
	}
}

// Promise (Platform §8, §16): two servers agree about platform clients, their tokens and the accounts
// they act for
func TestPlatformAtTwoServers(t *testing.T) {
	onShared(t, func(t *testing.T, a, b grant) {
		c, all := acts(t, a.Fixture, "")
		one := must.Get(b.IssueForClient(t.Context(), store.By{}, c, "acct_larkspur", store.ScopeData))(t)
		must.Get(b.CreateAccount(t.Context(), "acct_gone", ""))(t)
		p := must.Get(a.ActFor(t.Context(), must.Get(a.FindPrincipal(t.Context(), all.AccessToken))(t), "acct_gone"))(t)
		must.Do(t, b.DeleteAccount(t.Context(), "acct_gone"))
		_, err := change(a.Fixture, "acct_gone", p)
		refused(t, "PutResource(of an account that the other server erased)", err, store.ErrUnknownAccount)
		_, err = b.ActFor(t.Context(), must.Get(b.FindPrincipal(t.Context(), all.AccessToken))(t), "acct_gone")
		refused(t, "ActFor()", err, store.ErrUnknownAccount)
		must.Get(b.DisableClient(t.Context(), c.ID))(t)
		for _, token := range []store.Issued{all, one} {
			_, err := a.FindPrincipal(t.Context(), token.AccessToken)
			refused(t, "FindPrincipal(disabled at the other server)", err, record.ErrNotFound)
		}
	})
}

// Promise (Platform §8, §16): each promise of the platform API is kept on Badger, and by two servers
// on one PostgreSQL that get the requests in turns
//
// Promise (Platform §9): so is each promise of imports and exports
func TestPlatformOnEngines(t *testing.T) {
	storetest.Again(t, `Platform §(?:[1-9]|1[0-3])`, "badger", "postgres")
}

package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// rememberingGrant is a grant whose client remembers consent.
func rememberingGrant(t *testing.T) grant {
	t.Helper()
	f := storetest.New(t)
	return rememberingOn(t, f)
}

func rememberingOn(t *testing.T, f *storetest.Fixture) grant {
	t.Helper()
	client, _ := f.Client(t, func(c *store.ClientSpec) {
		c.Consent, c.RedirectURIs = store.ConsentRemember, append(c.RedirectURIs, "http://127.0.0.1/cb")
	})
	return grant{Fixture: f, client: client, user: f.User(t, "mara", "acct_larkspur")}
}

// shown is a decision on a screen that showed the client as it is, for the scope.
func (g grant) shown(scope store.Scope) store.Consent {
	c := g.consent("")
	c.Scope, c.Epoch = scope, g.client.ConsentEpoch
	return c
}

func (g grant) remembers(t testing.TB, scope store.Scope) {
	t.Helper()
	must.Get(g.Allow(context.Background(), g.shown(scope)))(t)
}

// now is the grant with its client and user as they are.
func (g grant) now(t testing.TB) grant {
	t.Helper()
	ctx := context.Background()
	if c, err := g.FindClient(ctx, g.client.ID); err == nil {
		g.client = c
	}
	if u, err := g.FindUser(ctx, "mara"); err == nil {
		g.user = u
	}
	return g
}

// isAsked reports whether the user must be asked for c.
func (g grant) isAsked(t testing.TB, c store.Consent) bool {
	t.Helper()
	_, err := g.AllowRemembered(context.Background(), c)
	if err != nil && !errors.Is(err, record.ErrNotFound) {
		t.Fatalf("AllowRemembered() = %v", err)
	}
	return err != nil
}

func TestRememberedConsent(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	t.Run("lets_through_what_was_allowed_and_less", func(t *testing.T) {
		t.Parallel()
		g := rememberingGrant(t)
		if !g.isAsked(t, g.shown(store.ScopeEventsRead)) {
			t.Fatal("who has allowed nothing is let through")
		}
		g.remembers(t, store.ScopeEventsRead|store.ScopeResourcesRead)
		for _, scope := range []store.Scope{store.ScopeEventsRead, store.ScopeResourcesRead, store.ScopeEventsRead | store.ScopeResourcesRead} {
			if g.isAsked(t, g.shown(scope)) {
				t.Errorf("%s: asked again", scope)
			}
		}
		for _, scope := range []store.Scope{store.ScopeUnstated, store.ScopeResourcesWrite, store.ScopeEventsRead | store.ScopeResourcesWrite} {
			if !g.isAsked(t, g.shown(scope)) {
				t.Errorf("%q: let through, want asked for more than was allowed", scope)
			}
		}
	})
	t.Run("the_audit_line_of_the_grant_says_remembered", func(t *testing.T) {
		t.Parallel()
		g := rememberingGrant(t)
		for _, code := range []secret.Token{
			must.Get(g.Allow(ctx, g.shown(store.ScopeUnstated)))(t), must.Get(g.AllowRemembered(ctx, g.shown(store.ScopeUnstated)))(t),
		} {
			must.Get(g.redeem(code, ""))(t)
		}
		lines := auditOf(t, g.Fixture, store.AuditGrant)
		if len(lines) != 2 || lines[0].Reason != "authorization_code" || lines[1].Reason != "authorization_code, remembered" {
			t.Errorf("audit lines %+v, want only the second remembered", lines)
		}
	})
	t.Run("belongs_to_one_user_client_account_and_redirect_uri", func(t *testing.T) {
		t.Parallel()
		g := rememberingGrant(t)
		loopback := g.shown(store.ScopeUnstated)
		loopback.RedirectURI = "http://127.0.0.1:4000/cb"
		must.Get(g.Allow(ctx, loopback))(t)
		g.remembers(t, store.ScopeUnstated)
		twin, _ := g.Client(t, func(c *store.ClientSpec) { c.Consent, c.RedirectURIs = store.ConsentRemember, g.client.RedirectURIs })
		nils := g.User(t, "nils", "acct_larkspur")
		moved := g.user
		moved.Account = "acct_other"
		for name, change := range map[string]func(c *store.Consent){
			"another user":                            func(c *store.Consent) { c.User = nils },
			"another client of the same name":         func(c *store.Consent) { c.Client = twin },
			"another account":                         func(c *store.Consent) { c.User = moved },
			"another redirect URI":                    func(c *store.Consent) { c.RedirectURI = "http://127.0.0.1/cb" },
			"the same loopback URI with another port": func(c *store.Consent) { c.RedirectURI = "http://127.0.0.1:4001/cb" },
		} {
			c := g.shown(store.ScopeUnstated)
			if change(&c); !g.isAsked(t, c) {
				t.Errorf("%s: let through, want asked", name)
			}
		}
		if g.isAsked(t, loopback) || g.isAsked(t, g.shown(store.ScopeUnstated)) {
			t.Error("two redirect URIs were allowed; one is asked for again")
		}
	})
	t.Run("lasts_a_year_from_the_decision", func(t *testing.T) {
		t.Parallel()
		g := rememberingGrant(t)
		g.remembers(t, store.ScopeUnstated)
		g.Clock.Advance(365*24*time.Hour - tick)
		if g.isAsked(t, g.shown(store.ScopeUnstated)) {
			t.Error("asked within the year")
		}
		if got := g.granted(t, g.user); len(got) != 1 || !got[0].Remembered.Equal(g.Now().Add(tick)) {
			t.Errorf("ListGranted() = %+v, want it until the end of the year", got)
		}
		g.Clock.Advance(tick)
		if !g.isAsked(t, g.shown(store.ScopeUnstated)) {
			t.Error("let through after a year; a grant without a screen must not extend it")
		}
		if got := g.granted(t, g.user); len(got) != 0 {
			t.Errorf("ListGranted() = %+v, want nothing after the year", got)
		}
	})
	t.Run("less_allowed_later_extends_no_more_than_that", func(t *testing.T) {
		t.Parallel()
		g := rememberingGrant(t)
		g.remembers(t, store.ScopeUnstated)
		g.Clock.Advance(time.Hour)
		g.remembers(t, store.ScopeEventsRead)
		if g.isAsked(t, g.shown(store.ScopeUnstated)) {
			t.Error("a smaller decision ended the larger one")
		}
		g.Clock.Advance(365*24*time.Hour - time.Hour)
		if g.isAsked(t, g.shown(store.ScopeEventsRead)) || !g.isAsked(t, g.shown(store.ScopeUnstated)) {
			t.Error("want the later, smaller decision alone to stand")
		}
	})
	t.Run("a_client_that_asks_each_time_stores_nothing", func(t *testing.T) {
		g := parallelGrant(t)
		g.allow(t, "")
		if n := g.Count(t, 'R'); n != 0 || !g.isAsked(t, g.shown(store.ScopeUnstated)) {
			t.Errorf("%d records, want none", n)
		}
	})
	t.Run("a_screen_from_before_a_change_is_not_remembered", func(t *testing.T) {
		t.Parallel()
		g := rememberingGrant(t)
		screen := g.shown(store.ScopeUnstated)
		must.Get(g.UpdateClient(ctx, g.client.ID, store.ClientChange{Name: new("Larkspur Bank")}))(t)
		must.Get(g.Allow(ctx, screen))(t)
		if g = g.now(t); !g.isAsked(t, g.shown(store.ScopeUnstated)) {
			t.Error("the user allowed another name and is let through")
		}
	})
	t.Run("a_private_use_scheme_is_not_remembered", func(t *testing.T) {
		t.Parallel()
		g := rememberingGrant(t)
		must.Do(t, g.changed(store.ClientChange{AddRedirectURIs: []string{"com.example.app:/cb"}}))
		g = g.now(t)
		c := g.shown(store.ScopeUnstated)
		c.RedirectURI = "com.example.app:/cb"
		if must.Get(g.Allow(ctx, c))(t); !g.isAsked(t, c) || g.Count(t, 'R') != 0 {
			t.Error("let through to an app that anybody can write")
		}
	})
	t.Run("the_latest_16_decisions_are_kept", func(t *testing.T) {
		t.Parallel()
		g := rememberingGrant(t)
		at := func(port int) store.Consent {
			c := g.shown(store.ScopeUnstated)
			c.RedirectURI = fmt.Sprintf("http://127.0.0.1:%d/cb", 4000+port)
			return c
		}
		for port := range 17 {
			must.Get(g.Allow(ctx, at(port)))(t)
		}
		if !g.isAsked(t, at(0)) || g.isAsked(t, at(1)) || g.isAsked(t, at(16)) {
			t.Error("want the first of 17 forgotten and the others kept")
		}
		if _, err := g.CheckAll(ctx); err != nil {
			t.Errorf("CheckAll() = %v", err)
		}
	})
}

// ends are the events that end what is remembered, and what leaves it.
var ends = map[string]struct {
	does  func(g grant) error
	stays bool
}{
	"revoked on the account page": {does: func(g grant) error { return g.RevokeGranted(context.Background(), store.By{}, g.user, g.client.ID) }},
	"revoked by an operator": {does: func(g grant) error {
		_, err := g.RevokeFamilyOf(context.Background(), store.By{}, g.first.AccessToken.Reveal())
		return err
	}},
	"denied on a screen that the client asked for": {does: func(g grant) error { _, err := g.Deny(context.Background(), g.shown(0)); return err }},
	"new password with the tick":                   {does: func(g grant) error { return g.newPassword(true) }},
	"new password without the tick":                {does: func(g grant) error { return g.newPassword(false) }, stays: true},
	"password set by an operator": {does: func(g grant) error {
		_, err := g.SetPassword(context.Background(), "mara", "another long phrase")
		return err
	}},
	"user disabled and enabled": {does: func(g grant) error {
		_, err := g.DisableUser(context.Background(), "mara")
		_, enabled := g.EnableUser(context.Background(), "mara")
		return errors.Join(err, enabled)
	}},
	"account disabled and enabled": {does: func(g grant) error {
		_, err := g.DisableAccount(context.Background(), "acct_larkspur")
		_, enabled := g.EnableAccount(context.Background(), "acct_larkspur")
		return errors.Join(err, enabled)
	}},
	"account revoked": {does: func(g grant) error {
		_, err := g.RevokeAccount(context.Background(), "acct_larkspur")
		return err
	}},
	"client disabled and enabled": {does: func(g grant) error {
		_, err := g.DisableClient(context.Background(), g.client.ID)
		_, enabled := g.EnableClient(context.Background(), g.client.ID)
		return errors.Join(err, enabled)
	}},
	"client deleted and made again": {does: func(g grant) error {
		ctx, token := context.Background(), secret.New(nil, secret.ClientSecret)
		_, err := g.CreateFixedClient(ctx, g.client.ID, token, store.ClientSpec{Name: g.client.Name, RedirectURIs: g.client.RedirectURIs, Consent: store.ConsentRemember})
		return err
	}},
	"client renamed, and back": {does: func(g grant) error {
		return g.changed(store.ClientChange{Name: new("Larkspur Bank")}, store.ClientChange{Name: &g.client.Name})
	}},
	"redirect URI added": {does: func(g grant) error {
		return g.changed(store.ClientChange{AddRedirectURIs: []string{"https://evil.example/cb"}})
	}},
	"redirect URI removed, and back": {does: func(g grant) error {
		return g.changed(store.ClientChange{RemoveRedirectURIs: []string{storetest.CallbackURI}}, store.ClientChange{RedirectURIs: &g.client.RedirectURIs})
	}},
	"scopes narrowed, and back": {does: func(g grant) error {
		return g.changed(store.ClientChange{Scopes: &[]string{"events:read"}}, store.ClientChange{Scopes: &[]string{}})
	}},
	"grants narrowed, and back": {does: func(g grant) error {
		return g.changed(store.ClientChange{Grants: &[]string{"authorization_code"}}, store.ClientChange{Grants: &[]string{}})
	}},
	"asked each time, and back": {does: func(g grant) error {
		return g.changed(store.ClientChange{Consent: new("ask")}, store.ClientChange{Consent: new("remember")})
	}},
	"secret leaked": {does: func(g grant) error {
		_, _, err := g.RotateClientSecret(context.Background(), g.client.ID, true)
		return err
	}},
	"secret rotated": {does: func(g grant) error {
		_, _, err := g.RotateClientSecret(context.Background(), g.client.ID, false)
		return err
	}, stays: true},
	"client saved as it is": {does: func(g grant) error {
		return g.changed(store.ClientChange{Name: &g.client.Name, RedirectURIs: &g.client.RedirectURIs, Consent: new("remember"), Introspect: new(true)})
	}, stays: true},
	"tokens revoked by the client": {does: func(g grant) error {
		return g.RevokeToken(context.Background(), store.By{}, g.client, g.first.RefreshToken.Reveal())
	}, stays: true},
	"revoked by another user": {does: func(g grant) error {
		nils, _, err := g.CreateUser(context.Background(), store.UserSpec{Username: "nils", Account: "acct_larkspur", Password: storetest.Password})
		return errors.Join(err, g.RevokeGranted(context.Background(), store.By{}, nils, g.client.ID))
	}, stays: true},
}

func (g grant) changed(changes ...store.ClientChange) error {
	for _, change := range changes {
		if _, err := g.UpdateClient(context.Background(), g.client.ID, change); err != nil {
			return err
		}
	}
	return nil
}

func (g grant) newPassword(endAll bool) error {
	ctx := context.Background()
	user, err := g.AuthenticateUser(ctx, secret.Caller{}, "mara", storetest.Password)
	token, _, started := g.CreateSession(ctx, store.By{}, user, secret.Token{}, "")
	_, _, changed := g.ChangePassword(ctx, store.PasswordChange{User: user, Session: token, New: "another long phrase", EndAll: endAll})
	return errors.Join(err, started, changed)
}

// Promise (RFC 7662, RFC 8252 §8.6): what is remembered, and what ends it; prompt, max_age
func TestWhatEndsRememberedConsent(t *testing.T) {
	t.Parallel()
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := rememberingGrant(t)
			g.first = must.Get(g.redeem(must.Get(g.Allow(t.Context(), g.shown(store.ScopeUnstated)))(t), ""))(t)
			if name == "client deleted and made again" {
				must.Do(t, g.DeleteClient(t.Context(), g.client.ID))
			}
			must.Do(t, end.does(g))
			g = g.now(t)
			if asked := g.isAsked(t, g.shown(store.ScopeUnstated)); asked == end.stays {
				t.Errorf("asked again: %t, want %t", asked, !end.stays)
			}
			listed := slices.ContainsFunc(g.granted(t, g.user), func(c store.Granted) bool { return !c.Remembered.IsZero() })
			if listed != end.stays {
				t.Errorf("the account page says it is let through: %t, want %t", listed, end.stays)
			}
			g.remembers(t, store.ScopeUnstated)
			if g.isAsked(t, g.shown(store.ScopeUnstated)) {
				t.Error("allowed once more, and asked again")
			}
		})
	}
}

func TestRememberedConsentOnTheAccountPage(t *testing.T) {
	ctx := context.Background()
	t.Parallel()
	g := rememberingGrant(t)
	since := g.Now()
	g.remembers(t, store.ScopeEventsRead)
	want := store.Granted{ClientID: g.client.ID, Name: g.client.Name, Permissions: []string{"events:read"}, Since: since}
	got := g.granted(t, g.user)
	if len(got) != 1 || !sameGranted(got[0], want) || got[0].IsLive || !got[0].Remembered.Equal(since.Add(365*24*time.Hour)) {
		t.Errorf("without a token: ListGranted() = %+v, want %+v for a year, and not live", got, want)
	}
	g.first = g.issue(t, store.ScopeUnstated)
	want.Permissions = store.ScopeNames()
	if got = g.granted(t, g.user); len(got) != 1 || !sameGranted(got[0], want) || !got[0].IsLive || got[0].Remembered.IsZero() {
		t.Errorf("with a token: ListGranted() = %+v, want one entry that is live", got)
	}
	must.Do(t, g.RevokeGranted(ctx, store.By{Source: "192.0.2.7"}, g.user, g.client.ID))
	must.Do(t, g.RevokeGranted(ctx, store.By{Source: "192.0.2.7"}, g.user, g.client.ID))
	lines := slices.DeleteFunc(auditOf(t, g.Fixture, store.AuditRevoke), func(l store.AuditLine) bool { return l.Reason != store.ReasonForgotten })
	if len(lines) != 1 || lines[0].ClientID != g.client.ID || lines[0].UserID != g.user.Subject() || lines[0].Source != "192.0.2.7" {
		t.Errorf("audit lines %+v, want one that says what was revoked", lines)
	}
	g.remembers(t, store.ScopeEventsRead)
	must.Do(t, g.DeleteUser(ctx, "mara"))
	if n := g.Count(t, 'R'); n != 0 {
		t.Errorf("%d remembered consents of a deleted user are left", n)
	}
}

func TestRememberedConsentAtTwoServers(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(a grant) error{
		"revoked at the other":         ends["revoked on the account page"].does,
		"client renamed at the other":  func(a grant) error { return a.changed(store.ClientChange{Name: new("Larkspur Bank")}) },
		"password set at the other":    ends["password set by an operator"].does,
		"client disabled at the other": ends["client disabled and enabled"].does,
	} {
		t.Run(name, func(t *testing.T) {
			onShared(t, func(t *testing.T, a, b grant) {
				must.Do(t, a.changed(store.ClientChange{Consent: new("remember")}))
				a = a.now(t)
				b.client = a.client
				a.remembers(t, store.ScopeUnstated)
				if b.isAsked(t, b.shown(store.ScopeUnstated)) {
					t.Fatal("the other server asks again")
				}
				must.Do(t, end(a))
				if !b.isAsked(t, b.shown(store.ScopeUnstated)) {
					t.Error("the other server lets a request through that it read before")
				}
				if b = b.now(t); !b.isAsked(t, b.shown(store.ScopeUnstated)) {
					t.Error("the other server lets it through")
				}
			})
		})
	}
}

// TestRevocationBesideRememberedGrants: of 64 grants without a screen, none outlives a
// revocation beside them.
func TestRevocationBesideRememberedGrants(t *testing.T) {
	t.Parallel()
	g := rememberingGrant(t)
	g.remembers(t, store.ScopeUnstated)
	var revoked error
	var revocation sync.WaitGroup
	revocation.Go(func() { revoked = g.RevokeGranted(context.Background(), store.By{}, g.user, g.client.ID) })
	given, errs := together(func() (store.Issued, error) {
		code, err := g.AllowRemembered(context.Background(), g.shown(store.ScopeUnstated))
		if err != nil {
			return store.Issued{}, err
		}
		return g.redeem(code, "")
	})
	revocation.Wait()
	must.Do(t, revoked)
	for i, err := range errs {
		if err != nil && !errors.Is(err, record.ErrNotFound) {
			t.Errorf("caller %d: %v", i, err)
		}
		if err == nil && g.accessLives(t, given[i]) {
			t.Errorf("caller %d has a token that outlives the revocation", i)
		}
	}
	if !g.isAsked(t, g.shown(store.ScopeUnstated)) {
		t.Error("let through after the revocation")
	}
}

// TestRememberedGrantsAtOnce: 64 at once each get a code of their own.
func TestRememberedGrantsAtOnce(t *testing.T) {
	t.Parallel()
	g := rememberingGrant(t)
	g.remembers(t, store.ScopeUnstated)
	given, errs := together(func() (store.Issued, error) {
		code, err := g.AllowRemembered(context.Background(), g.shown(store.ScopeUnstated))
		if err != nil {
			return store.Issued{}, err
		}
		return g.redeem(code, "")
	})
	families := map[string]bool{}
	for i, err := range errs {
		if must.Do(t, err); !g.accessLives(t, given[i]) {
			t.Errorf("caller %d has no live token", i)
		}
		families[given[i].FamilyID] = true
	}
	if len(families) != callersMax {
		t.Errorf("%d families, want one for each of %d", len(families), callersMax)
	}
}

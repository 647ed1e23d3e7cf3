package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook"
)

// pushedTo creates a webhook endpoint with a token.
func (g grant) pushedTo(t testing.TB, access secret.Token, url string) webhook.Endpoint {
	t.Helper()
	by := g.byToken(t, access)
	e, _, err := g.Webhooks.Create(context.Background(), by, by.Account, webhook.Settings{URL: url})
	must.Do(t, err)
	return e
}

// grantOnDisk is a grant on an engine that keeps expired records for a while.
func grantOnDisk(t *testing.T) grant {
	t.Helper()
	f := storetest.OnDisk(t)
	g := grant{Fixture: f, user: f.User(t, "mara", "acct_larkspur")}
	g.client, _ = f.Client(t)
	g.first = g.issue(t, store.ScopeUnstated)
	return g
}

func (g grant) endpointNow(t testing.TB, e webhook.Endpoint) webhook.Endpoint {
	t.Helper()
	return must.Get(g.Webhooks.Find(context.Background(), webhook.System, e.ID))(t)
}

// authorizationEnds are the ways in which the authorization of g.first ends. alone is set for
// those that end no other authorization of the same client and user.
var authorizationEnds = map[string]struct {
	alone bool
	end   func(ctx context.Context, g grant) error
}{
	"a_refresh_token_is_used_twice": {true, func(ctx context.Context, g grant) error {
		return endsIn(g, record.ErrReplayed, func() error {
			second, err := g.refresh(g.first)
			if err != nil {
				return err
			}
			if _, err := g.refresh(second); err != nil {
				return err
			}
			_, err = g.refresh(g.first)
			return err
		})
	}},
	"a_refresh_token_is_revoked": {true, func(ctx context.Context, g grant) error {
		return g.RevokeToken(ctx, store.By{}, g.client, g.first.RefreshToken.Reveal())
	}},
	"the_operator_revokes_the_family": {true, func(ctx context.Context, g grant) error {
		_, err := g.RevokeFamily(ctx, store.By{}, g.first.FamilyID)
		return err
	}},
	"the_operator_revokes_by_a_token": {true, func(ctx context.Context, g grant) error {
		_, err := g.RevokeFamilyOf(ctx, store.By{}, g.first.AccessToken.Reveal())
		return err
	}},
	"the_user_revokes_the_client": {false, func(ctx context.Context, g grant) error { return g.RevokeGranted(ctx, store.By{}, g.user, g.client.ID) }},
	"an_operator_sets_a_password": {false, func(ctx context.Context, g grant) error {
		_, err := g.SetPassword(ctx, "mara", "another correct horse battery")
		return err
	}},
	"a_password_is_set_by_code": {false, func(ctx context.Context, g grant) error {
		_, code, err := g.CreateUserCode(ctx, "mara", 0)
		if err == nil {
			_, err = g.RedeemUserCode(ctx, store.UserCodeUse{Username: "mara", Code: code, Password: "another correct horse battery"})
		}
		return err
	}},
	"the_user_changes_the_password_and_ends_the_rest": {false, func(ctx context.Context, g grant) error {
		session, _, err := g.CreateSession(ctx, store.By{}, g.user, secret.Token{}, "")
		u, findErr := g.FindUser(ctx, "mara")
		if err = errors.Join(err, findErr); err == nil {
			_, _, err = g.ChangePassword(ctx, store.PasswordChange{User: u, Session: session, New: "another correct horse battery", EndAll: true})
		}
		return err
	}},
	"the_user_is_disabled": {false, func(ctx context.Context, g grant) error { _, err := g.DisableUser(ctx, "mara"); return err }},
	"the_user_is_deleted":  {false, func(ctx context.Context, g grant) error { return g.DeleteUser(ctx, "mara") }},
	"all_of_the_account_is_revoked": {false, func(ctx context.Context, g grant) error {
		_, err := g.RevokeAccount(ctx, "acct_larkspur")
		return err
	}},
	"the_client_is_disabled": {false, func(ctx context.Context, g grant) error { _, err := g.DisableClient(ctx, g.client.ID); return err }},
	"the_client_is_deleted":  {false, func(ctx context.Context, g grant) error { return g.Store.DeleteClient(ctx, g.client.ID) }},
	"the_clients_tokens_are_revoked": {false, func(ctx context.Context, g grant) error {
		_, _, err := g.RotateClientSecret(ctx, g.client.ID, true)
		return err
	}},
}

// endsIn runs steps of which the last is refused.
func endsIn(g grant, want error, steps func() error) error {
	if err := steps(); !errors.Is(err, want) {
		return fmt.Errorf("the last step: %w, want %w", err, want)
	}
	return nil
}

// TestWebhooksEndWithTheirAuthorization: whatever ends the authorization of the token that
// created an endpoint disables it in the same transaction, with its event and its audit line.
//
// Promise (Webhooks): an endpoint is disabled in the transaction that revokes the authorization of
// the token that created it or last changed its URL or secret; its cursor stays
func TestWebhooksEndWithTheirAuthorization(t *testing.T) {
	for name, way := range authorizationEnds {
		t.Run(name, func(t *testing.T) {
			g := parallelGrant(t)
			e := g.pushedTo(t, g.first.AccessToken, "https://hooks.example/1")
			second := g.pushedTo(t, g.issue(t, store.ScopeUnstated).AccessToken, "https://hooks.example/2")
			operators, _, err := g.Webhooks.Create(t.Context(), webhook.System, e.Account, webhook.Settings{URL: "https://hooks.example/3"})
			must.Do(t, err)
			must.Do(t, way.end(t.Context(), g))
			now := g.endpointNow(t, e)
			if want := (webhook.Disabled{By: webhook.BySystem, Reason: webhook.AuthorizationEnded, At: g.Now()}); now.Disabled != want || now.Cursor != e.Cursor {
				t.Errorf("the endpoint is disabled %+v at %s, want %+v at %s", now.Disabled, now.Cursor, want, e.Cursor)
			}
			if got := g.endpointNow(t, second); got.Enabled() != way.alone {
				t.Errorf("the endpoint of another authorization of the client and the user is enabled: %t, want %t", got.Enabled(), way.alone)
			}
			if got := g.endpointNow(t, operators); !got.Enabled() {
				t.Error("the operator's endpoint is disabled")
			}
			if n := len(disabledLines(t, g, e)); n != 1 {
				t.Errorf("%d audit lines, want 1", n)
			}
			must.Get(g.CheckAll(t.Context()))(t)
		})
		t.Run(name+"_in_one_transaction", func(t *testing.T) {
			for number := range 12 {
				g := newGrant(t)
				e := g.pushedTo(t, g.first.AccessToken, "https://hooks.example/1")
				g.Rest()
				g.CutAt(number, true)
				err := way.end(t.Context(), g)
				g.Faults.Repair()
				if now := g.endpointNow(t, e); !g.accessLives(t, g.first) && now.Enabled() {
					t.Fatalf("killed behind commit %d the authorization has ended and the endpoint is enabled", number)
				}
				if err == nil {
					break
				}
			}
		})
	}
}

func disabledLines(t testing.TB, g grant, e webhook.Endpoint) []store.AuditLine {
	t.Helper()
	return slices.DeleteFunc(auditOf(t, g.Fixture, store.AuditWebhook), func(l store.AuditLine) bool {
		return !strings.Contains(l.Reason, e.ID) || !strings.HasSuffix(l.Reason, "disabled by system (authorization_ended)")
	})
}

// TestWebhooksEndWithARevokedAccessToken: RFC 7009 leaves the rest of the family alone, but
// not what one of its tokens has sent to somebody's URL.
//
// Promise (Webhooks): an endpoint is disabled in the transaction that revokes the authorization of
// the token that created it or last changed its URL or secret; its cursor stays
func TestWebhooksEndWithARevokedAccessToken(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(t *testing.T, g grant){
		"that_is_live":     func(*testing.T, grant) {},
		"that_has_expired": func(_ *testing.T, g grant) { g.Clock.Advance(2 * time.Hour) },
		"whose_family_is_revoked": func(t *testing.T, g grant) {
			must.Do(t, g.RevokeToken(t.Context(), store.By{}, g.client, g.first.RefreshToken.Reveal()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := grantOnDisk(t)
			e := g.pushedTo(t, g.first.AccessToken, "https://hooks.example/1")
			prepare(t, g)
			other, _ := g.Client(t)
			if name != "whose_family_is_revoked" {
				must.Do(t, g.RevokeToken(t.Context(), store.By{}, other, g.first.AccessToken.Reveal()))
				if now := g.endpointNow(t, e); !now.Enabled() {
					t.Error("another client's revocation disables the endpoint")
				}
			}
			must.Do(t, g.RevokeToken(t.Context(), store.By{}, g.client, g.first.AccessToken.Reveal()))
			if now := g.endpointNow(t, e); now.Disabled.Reason != webhook.AuthorizationEnded {
				t.Errorf("disabled %+v", now.Disabled)
			}
		})
	}
}

// TestExpiryDisablesNoWebhook: an endpoint outlives the lifetime of its authorization, also
// after the family's record was removed. Revoking the family by its id ends it then.
//
// Promise (Webhooks): it is bound to the caller who created it or changed where it sends; of a
// client that acts for itself, to the client; expiry alone disables none
func TestExpiryDisablesNoWebhook(t *testing.T) {
	t.Parallel()
	for name, removed := range map[string]bool{"expired": false, "removed": true} {
		t.Run(name, func(t *testing.T) {
			g := grantOnDisk(t)
			e := g.pushedTo(t, g.first.AccessToken, "https://hooks.example/1")
			g.Clock.Advance(3 * 365 * 24 * time.Hour)
			if removed {
				digits, _ := secret.ParseCrockford(strings.TrimPrefix(g.first.FamilyID, "fam_"))
				must.Do(t, g.DB.Update(t.Context(), func(tx kv.Txn) error { return tx.Delete(record.FamilyKey(digits)) }))
			}
			must.Do(t, g.Webhooks.Start(t.Context()))
			if now := must.Get(g.Webhooks.Load(t.Context(), e.ID))(t); !now.Enabled() {
				t.Fatalf("disabled %+v", now.Disabled)
			}
			r := must.Get(g.RevokeFamily(t.Context(), store.By{}, g.first.FamilyID))(t)
			if now := g.endpointNow(t, e); now.Disabled.Reason != webhook.AuthorizationEnded || !r.HadEnded || r.Webhooks != 1 || r.ID != g.first.FamilyID {
				t.Errorf("disabled %+v, revoked %+v", now.Disabled, r)
			}
			if _, err := g.RevokeFamily(t.Context(), store.By{}, g.first.FamilyID); !errors.Is(err, record.ErrNotFound) {
				t.Errorf("a second time: %v, want ErrNotFound", err)
			}
		})
	}
}

// byToken is a caller with an access token.
func (g grant) byToken(t testing.TB, access secret.Token) webhook.By {
	t.Helper()
	p := must.Get(g.FindPrincipal(context.Background(), access))(t)
	return webhook.By{Account: p.Account, Owner: p.WebhookOwner(), Name: p.Username, Live: g.LiveIn(p, nil)}
}

// TestWebhooksAreBoundToWhoDirectsThem: a new URL, secret or position and enabling bind an
// endpoint to the caller, and nothing else does. An operator is bound to no authorization.
//
// Promise (Webhooks): it is bound to the caller who created it or changed where it sends; of a
// client that acts for itself, to the client; expiry alone disables none
func TestWebhooksAreBoundToWhoDirectsThem(t *testing.T) {
	t.Parallel()
	url := "https://hooks.example/new"
	text := "a new description"
	type call = func(ctx context.Context, g grant, by webhook.By, id string) error
	update := func(c webhook.Change) call {
		return func(ctx context.Context, g grant, by webhook.By, id string) error {
			_, err := g.Webhooks.Update(ctx, by, id, c)
			return err
		}
	}
	enable := func(from webhook.From) call {
		return func(ctx context.Context, g grant, by webhook.By, id string) error {
			_, _, err := g.Webhooks.Enable(ctx, by, id, from)
			return err
		}
	}
	for name, tt := range map[string]struct {
		binds bool
		do    call
	}{
		"a_new_url": {true, update(webhook.Change{URL: &url})},
		"a_new_secret": {true, func(ctx context.Context, g grant, by webhook.By, id string) error {
			_, _, err := g.Webhooks.RotateSecret(ctx, by, id, 0, secret.Token{})
			return err
		}},
		"a_new_position": {true, enable(webhook.FromStart())},
		"enabling": {true, func(ctx context.Context, g grant, by webhook.By, id string) error {
			_, err := g.Webhooks.Disable(ctx, by, id)
			return errors.Join(err, enable(webhook.From{})(ctx, g, by, id))
		}},
		"new_types":                {false, update(webhook.Change{Types: []string{"plan.*"}})},
		"a_new_description":        {false, update(webhook.Change{Description: &text})},
		"enabling_what_is_enabled": {false, enable(webhook.From{})},
	} {
		t.Run(name+"_by_a_token", func(t *testing.T) {
			g := parallelGrant(t)
			e, second := g.pushedTo(t, g.first.AccessToken, "https://hooks.example/1"), g.issue(t, store.ScopeUnstated)
			must.Do(t, tt.do(t.Context(), g, g.byToken(t, second.AccessToken), e.ID))
			must.Get(g.RevokeFamily(t.Context(), store.By{}, g.first.FamilyID))(t)
			if now := g.endpointNow(t, e); now.Enabled() != tt.binds {
				t.Errorf("after the end of its creator's authorization it is enabled: %t", now.Enabled())
			}
			must.Get(g.RevokeFamily(t.Context(), store.By{}, second.FamilyID))(t)
			if now := g.endpointNow(t, e); now.Enabled() {
				t.Error("it outlives both authorizations")
			}
		})
		t.Run(name+"_by_an_operator", func(t *testing.T) {
			g := parallelGrant(t)
			e := g.pushedTo(t, g.first.AccessToken, "https://hooks.example/1")
			must.Do(t, tt.do(t.Context(), g, webhook.System, e.ID))
			if now := g.endpointNow(t, e); now.IsOperator() != tt.binds {
				t.Errorf("it is bound to no authorization: %t", now.IsOperator())
			}
			must.Get(g.DisableUser(t.Context(), "mara"))(t)
			if now := g.endpointNow(t, e); now.Enabled() != tt.binds {
				t.Errorf("after the end of its creator's authorization it is enabled: %t", now.Enabled())
			}
		})
	}
}

// TestWebhooksOfAClientThatActsForItself are bound to the client, not to one of its tokens.
//
// Promise (Webhooks): it is bound to the caller who created it or changed where it sends; of a
// client that acts for itself, to the client; expiry alone disables none
func TestWebhooksOfAClientThatActsForItself(t *testing.T) {
	t.Parallel()
	g := newGrant(t)
	account, grants := "acct_larkspur", []string{"client_credentials"}
	c := must.Get(g.UpdateClient(t.Context(), g.client.ID, store.ClientChange{Account: &account, Grants: &grants}))(t)
	issued := must.Get(g.IssueForClient(t.Context(), store.By{}, c, "", store.ScopeUnstated))(t)
	e := g.pushedTo(t, issued.AccessToken, "https://hooks.example/1")
	must.Do(t, g.RevokeToken(t.Context(), store.By{}, c, issued.AccessToken.Reveal()))
	if now := g.endpointNow(t, e); !now.Enabled() {
		t.Error("the end of one token disables the client's endpoint")
	}
	_, _, err := g.RotateClientSecret(t.Context(), c.ID, true)
	must.Do(t, err)
	if now := g.endpointNow(t, e); now.Disabled.Reason != webhook.AuthorizationEnded {
		t.Errorf("after the client's tokens were revoked: %+v", now.Disabled)
	}
}

// TestRevocationOfTheLargestWebhooks: those of an account fit into one transaction, or whoever
// has a token could make its revocation fail.
//
// Promise (Webhooks): the same when the generation of its user or client rises; however many there
// are; what two servers do at the same time leaves none enabled
func TestRevocationOfTheLargestWebhooks(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	var types []string
	for i := range webhook.TypesMax {
		types = append(types, fmt.Sprintf("%s%02d.%s", strings.Repeat("k", 30), i, strings.Repeat("e", 30)))
	}
	for name, way := range authorizationEnds {
		t.Run(name, func(t *testing.T) {
			g := parallelGrant(t)
			by := g.byToken(t, g.first.AccessToken)
			var all []webhook.Endpoint
			for i := range webhook.AccountMax {
				long := fmt.Sprintf("https://hooks.example/%d/%s", i, strings.Repeat("x", 2020))
				e, _, err := g.Webhooks.Create(t.Context(), by, by.Account, webhook.Settings{URL: long, Types: types, Description: strings.Repeat("<", webhook.DescriptionMax)})
				must.Do(t, err)
				for range webhook.SecretsMax - 1 {
					_, _, err := g.Webhooks.RotateSecret(t.Context(), by, e.ID, webhook.OverlapMax, secret.Token{})
					must.Do(t, err)
				}
				all = append(all, e)
			}
			must.Do(t, way.end(t.Context(), g))
			for _, e := range all {
				if now := g.endpointNow(t, e); now.Disabled.Reason != webhook.AuthorizationEnded {
					t.Fatalf("disabled %+v", now.Disabled)
				}
				if n := len(disabledLines(t, g, e)); n != 1 {
					t.Fatalf("%d audit lines, want 1", n)
				}
			}
		})
	}
}

// TestWebhooksOfManyAccountsEndWithTheirClient: a client's endpoints may be more than one
// transaction disables. The sender asks before each request, so none begins in between.
//
// Promise (Webhooks): the same when the generation of its user or client rises; however many there
// are; what two servers do at the same time leaves none enabled
func TestWebhooksOfManyAccountsEndWithTheirClient(t *testing.T) {
	t.Parallel()
	g := newGrant(t)
	var all []webhook.Endpoint
	for i := range webhook.AccountMax + 20 {
		u := g.User(t, fmt.Sprint("user", i), fmt.Sprint("acct_", i))
		issued := must.Get(g.IssueForPassword(t.Context(), store.By{}, g.client, u, store.ScopeUnstated))(t)
		all = append(all, g.pushedTo(t, issued.AccessToken, "https://hooks.example/1"))
	}
	g.Rest()
	updates, left := 0, 0
	g.Faults.OnUpdate(func(run func() error) error {
		err := run()
		if updates++; updates == 1 { // the client's generation is raised
			list := must.Get(g.Webhooks.List(t.Context(), webhook.System, "", "", 100))(t)
			left = len(slices.DeleteFunc(list, func(e webhook.Endpoint) bool { return !e.Enabled() }))
			g.Faults.Repair()
			for _, e := range all {
				if now := must.Get(g.Webhooks.Load(t.Context(), e.ID))(t); now.Enabled() {
					t.Error("a sender that asks gets an enabled endpoint")
				}
			}
		}
		return err
	})
	_, _, err := g.RotateClientSecret(t.Context(), g.client.ID, true)
	must.Do(t, err)
	if left != 20 {
		t.Errorf("%d endpoints did not fit into the transaction, want 20", left)
	}
	for _, e := range all {
		if now := g.endpointNow(t, e); now.Disabled.Reason != webhook.AuthorizationEnded || len(disabledLines(t, g, e)) != 1 {
			t.Fatalf("disabled %+v, %d audit lines", now.Disabled, len(disabledLines(t, g, e)))
		}
	}
	must.Get(g.CheckAll(t.Context()))(t)
}

// TestWebhookCreatedWhileItsTokenIsRevoked: of a creation and a revocation at the same time,
// by two servers, either the creation is refused or the revocation ends what it made.
//
// Promise (Webhooks): the same when the generation of its user or client rises; however many there
// are; what two servers do at the same time leaves none enabled
func TestWebhookCreatedWhileItsTokenIsRevoked(t *testing.T) {
	t.Parallel()
	for engine, open := range storetest.SharedEngines() {
		for name, end := range map[string]func(ctx context.Context, s *storetest.Fixture, g grant) error{
			"by_its_family": func(ctx context.Context, s *storetest.Fixture, g grant) error {
				return s.RevokeToken(ctx, store.By{}, g.client, g.first.RefreshToken.Reveal())
			},
			"by_its_user": func(ctx context.Context, s *storetest.Fixture, _ grant) error {
				_, err := s.DisableUser(ctx, "mara")
				return err
			},
			"by_its_client": func(ctx context.Context, s *storetest.Fixture, g grant) error {
				_, err := s.DisableClient(ctx, g.client.ID)
				return err
			},
		} {
			t.Run(engine+"_"+name, func(t *testing.T) {
				t.Parallel()
				dbA, dbB := open(t)
				a, b := storetest.Two(t, dbA, dbB)
				client, _ := a.Client(t)
				g := grant{Fixture: a, client: client, user: a.User(t, "mara", "acct_larkspur")}
				g.first = g.issue(t, store.ScopeUnstated)
				by := g.byToken(t, g.first.AccessToken)
				_, _, err := a.Webhooks.Create(t.Context(), by, by.Account, webhook.Settings{URL: "https://hooks.example/first"})
				must.Do(t, err)
				var creations sync.WaitGroup
				begun := make(chan struct{}, 4)
				for worker := range 4 {
					creations.Go(func() {
						for i := range 12 {
							if i == 1 {
								begun <- struct{}{}
							}
							url := fmt.Sprintf("https://hooks.example/%d/%d", worker, i)
							if _, _, err := a.Webhooks.Create(context.Background(), by, by.Account, webhook.Settings{URL: url}); err != nil {
								return
							}
						}
					})
				}
				<-begun
				must.Do(t, end(t.Context(), b, g))
				creations.Wait()
				must.Do(t, a.Webhooks.Each(t.Context(), func(e webhook.Endpoint) error {
					if e.Enabled() {
						t.Errorf("%s at %s outlives its authorization", e.ID, e.URL)
					}
					return nil
				}))
			})
		}
	}
}

// Promise (Platform §3): nothing is sent to the endpoints of a disabled account: they are shown as
// disabled by the system (account_disabled), nothing is written to them, and they go on at their
// cursors when it is enabled
func TestWebhooksOfADisabledAccount(t *testing.T) {
	onShared(t, func(t *testing.T, a, b grant) {
		ctx := t.Context()
		e := a.pushedTo(t, a.first.AccessToken, "https://hooks.example/1")
		elsewhere, _, err := a.Webhooks.Create(ctx, webhook.System, "acct_other", webhook.Settings{URL: "https://hooks.example/2"})
		must.Do(t, err)
		records := func() string {
			return everything(t, a.DB)[string(a.FirstKey(t, record.TagWebhook))]
		}
		before, disabledEver := records(), b.Webhooks.Counts().Disabled[webhook.BySystem]
		instance := must.Get(b.Webhooks.Instance(ctx))(t)
		must.Get(a.DisableAccount(ctx, "acct_larkspur"))(t)
		loaded := must.Get(b.Webhooks.Load(ctx, e.ID))(t)
		listed := must.Get(b.Webhooks.List(ctx, webhook.System, "", "", 10))(t)
		listed = slices.DeleteFunc(listed, func(of webhook.Endpoint) bool { return of.ID == elsewhere.ID })
		for name, now := range map[string]webhook.Endpoint{"Load": loaded, "Find": b.endpointNow(t, e), "List": listed[0]} {
			o := now.Object()
			want := webhook.ObjectDisabled{By: webhook.BySystem, Reason: webhook.AccountDisabled, At: a.Now().Unix()}
			if o.Status.Health != webhook.HealthDisabled || o.State != "disabled" || o.Disabled == nil || *o.Disabled != want || now.IsSendable() {
				t.Errorf("%s() = %s %s %+v", name, o.Status.Health, o.State, o.Disabled)
			}
			if now.Cursor != e.Cursor || now.Revision != e.Revision || !now.Enabled() {
				t.Errorf("%s() = %+v, want what was written as it was", name, now)
			}
		}
		if other := must.Get(b.Webhooks.Load(ctx, elsewhere.ID))(t); !other.IsSendable() {
			t.Error("an endpoint of another account is disabled")
		}
		if records() != before || b.Webhooks.Counts().Disabled[webhook.BySystem] != disabledEver {
			t.Error("something was written to the endpoint")
		}
		if now := must.Get(b.Webhooks.Instance(ctx))(t); now.Changes == instance.Changes {
			t.Error("the senders were not told")
		}
		must.Get(b.EnableAccount(ctx, "acct_larkspur"))(t)
		if now := must.Get(a.Webhooks.Load(ctx, e.ID))(t); !now.IsSendable() || now.Cursor != e.Cursor || now.Object().Disabled != nil {
			t.Errorf("enabled again: %+v", now)
		}
	})
}

// Revoking all of an account leaves the endpoints of operators.
func TestRevokingAnAccountLeavesEndpointsOfOperators(t *testing.T) {
	ctx := t.Context()
	g := parallelGrant(t)
	bound, _ := g.Client(t, func(c *store.ClientSpec) { c.Account, c.Grants = "acct_larkspur", []string{"client_credentials"} })
	make := func(name string, by webhook.By) webhook.Endpoint {
		e, _, err := g.Webhooks.Create(ctx, by, "acct_larkspur", webhook.Settings{URL: "https://hooks.example/" + name})
		must.Do(t, err)
		return e
	}
	ofBound := make("bound", g.byToken(t, must.Get(g.IssueForClient(ctx, store.By{}, bound, "", store.ScopeUnstated))(t).AccessToken))
	ofOperator := make("operator", webhook.System)
	must.Get(g.RevokeAccount(ctx, "acct_larkspur"))(t)
	if e := g.endpointNow(t, ofBound); e.Disabled.Reason != webhook.AuthorizationEnded {
		t.Errorf("the bound client's endpoint: %+v", e.Disabled)
	}
	if e := g.endpointNow(t, ofOperator); !e.IsSendable() {
		t.Errorf("the operator's endpoint: %+v", e.Disabled)
	}
}

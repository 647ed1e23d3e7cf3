package store_test

import (
	"context"
	"errors"
	"maps"
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

// byToken is a change of somebody whose token may end while the change waits.
type byToken struct {
	grant
	user, family string
	hook         string // a webhook endpoint of the account
	guard        store.Guard
	by           webhook.By
}

func (c byToken) resource(id string) eventlog.ResourceChange {
	return eventlog.ResourceChange{Owner: "acct_larkspur", Kind: "customer", ID: id, Live: c.guard.Live, Platform: c.by.Platform}
}

// managed are the changes that platform clients make below /api/platform.
var managed = map[string]func(ctx context.Context, c byToken) error{
	"PutAccount": func(ctx context.Context, c byToken) error {
		return failed2(c.PutAccount(ctx, "acct_new", nil, c.guard))
	},
	"PutAccount(to rename)": func(ctx context.Context, c byToken) error {
		return failed2(c.PutAccount(ctx, "acct_empty", new("Aster"), c.guard))
	},
	"DisableAccount": func(ctx context.Context, c byToken) error {
		return failed(c.Store.DisableAccount(ctx, "acct_empty", c.guard))
	},
	"EnableAccount": func(ctx context.Context, c byToken) error {
		return failed(c.Store.EnableAccount(ctx, "acct_off", c.guard))
	},
	"RevokeAccount": func(ctx context.Context, c byToken) error {
		return failed(c.Store.RevokeAccount(ctx, "acct_empty", c.guard))
	},
	"DeleteAccount": func(ctx context.Context, c byToken) error { return c.Store.DeleteAccount(ctx, "acct_empty", c.guard) },
	"CreateUser": func(ctx context.Context, c byToken) error {
		return failed2(c.CreateUser(ctx, store.UserSpec{Username: "nora", Account: "acct_empty", Code: true}, c.guard))
	},
	"RenameUser":  func(ctx context.Context, c byToken) error { return failed(c.RenameUser(ctx, c.user, "nora", c.guard)) },
	"DisableUser": func(ctx context.Context, c byToken) error { return failed(c.DisableUser(ctx, c.user, c.guard)) },
	"EnableUser":  func(ctx context.Context, c byToken) error { return failed(c.EnableUser(ctx, "odile", c.guard)) },
	"RevokeUser":  func(ctx context.Context, c byToken) error { return failed(c.RevokeUser(ctx, c.user, c.guard)) },
	"DeleteUser":  func(ctx context.Context, c byToken) error { return c.DeleteUser(ctx, c.user, c.guard) },
	"CreateUserCode": func(ctx context.Context, c byToken) error {
		return failed2(c.CreateUserCode(ctx, c.user, 0, c.guard))
	},
	"CreateClient": func(ctx context.Context, c byToken) error {
		return failed2(c.CreateClient(ctx, store.ClientSpec{Name: "Aster", RedirectURIs: []string{storetest.CallbackURI}}, c.guard))
	},
	"PutClient": func(ctx context.Context, c byToken) error {
		_, _, _, err := c.PutClient(ctx, "aster", store.ClientSpec{Name: "Aster", RedirectURIs: []string{storetest.CallbackURI}}, c.guard)
		return err
	},
	"PutClient(to replace)": func(ctx context.Context, c byToken) error {
		_, _, _, err := c.PutClient(ctx, c.client.ID, store.ClientSpec{Name: "Aster", RedirectURIs: []string{storetest.CallbackURI}}, c.guard)
		return err
	},
	"UpdateClient": func(ctx context.Context, c byToken) error {
		return failed(c.UpdateClient(ctx, c.client.ID, store.ClientChange{Name: new("Aster")}, c.guard))
	},
	"DisableClient": func(ctx context.Context, c byToken) error { return failed(c.DisableClient(ctx, c.client.ID, c.guard)) },
	"EnableClient":  func(ctx context.Context, c byToken) error { return failed(c.EnableClient(ctx, "off", c.guard)) },
	"RevokeClient":  func(ctx context.Context, c byToken) error { return failed(c.RevokeClient(ctx, c.client.ID, c.guard)) },
	"RotateClientSecret": func(ctx context.Context, c byToken) error {
		return failed2(c.RotateClientSecret(ctx, c.client.ID, true, c.guard))
	},
	"DeleteClient": func(ctx context.Context, c byToken) error { return c.Store.DeleteClient(ctx, c.client.ID, c.guard) },
	"RevokeFamily": func(ctx context.Context, c byToken) error {
		return failed(c.RevokeFamily(ctx, store.By{}, c.family, c.guard))
	},
}

// written are the changes that the tokens of all clients make.
var written = map[string]func(ctx context.Context, c byToken) error{
	"PutResource": func(ctx context.Context, c byToken) error {
		return failed(c.Events.PutResource(ctx, c.resource("c2"), snapshot.ObjectOf()))
	},
	"PatchResource": func(ctx context.Context, c byToken) error {
		body, err := snapshot.Parse([]byte(`{"notes":"y"}`), snapshot.DepthMax)
		return errors.Join(err, failed(c.Events.PatchResource(ctx, c.resource("c1"), body)))
	},
	"DeleteResource": func(ctx context.Context, c byToken) error {
		return failed(c.Events.DeleteResource(ctx, c.resource("c1")))
	},
	"Webhooks.Create": func(ctx context.Context, c byToken) error {
		return failed2(c.Webhooks.Create(ctx, c.by, "acct_larkspur", webhook.Settings{URL: "https://hooks.example/2"}))
	},
	"Webhooks.Update": func(ctx context.Context, c byToken) error {
		return failed(c.Webhooks.Update(ctx, c.by, c.hook, webhook.Change{Description: new("x")}))
	},
	"Webhooks.Delete": func(ctx context.Context, c byToken) error { return c.Webhooks.Delete(ctx, c.by, c.hook) },
	"Webhooks.Enable": func(ctx context.Context, c byToken) error {
		return failed2(c.Webhooks.Enable(ctx, c.by, c.hook, webhook.FromStart()))
	},
	"Webhooks.Disable": func(ctx context.Context, c byToken) error { return failed(c.Webhooks.Disable(ctx, c.by, c.hook)) },
	"Webhooks.Skip":    func(ctx context.Context, c byToken) error { return failed(c.Webhooks.Skip(ctx, c.by, c.hook, "")) },
	"Webhooks.Tested":  func(ctx context.Context, c byToken) error { return c.Webhooks.Tested(ctx, c.by, c.hook) },
	"Webhooks.RotateSecret": func(ctx context.Context, c byToken) error {
		return failed2(c.Webhooks.RotateSecret(ctx, c.by, c.hook, time.Hour, secret.Token{}))
	},
}

func failed[T any](_ T, err error) error { return err }

func failed2[T, U any](_ T, _ U, err error) error { return err }

// errNarrowed is why a token is refused that has lost its scopes.
var errNarrowed = errors.New("narrowed")

// isAllowed is for tokens that need events:read.
func isAllowed(p store.Principal) error {
	if p.Permissions()&store.ScopeEventsRead == 0 {
		return errNarrowed
	}
	return nil
}

// TestATokenEndsWhileItsChangeWaits ends the token, or takes its scope away, before each of the
// transactions of a change. What is stored then stays as it is.
//
// Promise (Platform §1): a change whose token ends or loses its scope while it waits for its turn is
// refused and changes nothing: accounts, users, clients, codes and authorizations, and each step
// of a deletion
// Promise (Platform §2): the same holds for resources and webhook endpoints, and for the tokens of all
// clients: none brings an erased account back
func TestATokenEndsWhileItsChangeWaits(t *testing.T) {
	t.Parallel()
	type issue = func(t *testing.T, g grant) (store.Client, store.Issued)
	ofUser := func(_ *testing.T, g grant) (store.Client, store.Issued) { return g.client, g.first }
	forAll := func(t *testing.T, g grant) (store.Client, store.Issued) { return acts(t, g.Fixture, "") }
	forOne := func(t *testing.T, g grant) (store.Client, store.Issued) { return acts(t, g.Fixture, "acct_larkspur") }
	for _, of := range []struct {
		whose   string
		token   issue
		changes map[string]func(context.Context, byToken) error
	}{
		{"managing", forAll, managed}, {"acting", forAll, written}, {"for_one_account", forOne, written}, {"of_a_user", ofUser, written},
	} {
		for name, change := range of.changes {
			t.Run(of.whose+"/"+name, func(t *testing.T) {
				t.Parallel()
				for ending := range tokenEnds {
					for step := 1; endedAt(t, of.token, change, ending, step); step++ {
					}
				}
			})
		}
	}
}

// tokenEnds are the ways in which a token ends or loses its scope.
var tokenEnds = map[string]func(ctx context.Context, g grant, c store.Client, i store.Issued) error{
	"client_disabled": func(ctx context.Context, g grant, c store.Client, _ store.Issued) error {
		return failed(g.DisableClient(ctx, c.ID))
	},
	"revoked": func(ctx context.Context, g grant, c store.Client, i store.Issued) error {
		return g.RevokeToken(ctx, store.By{}, c, i.AccessToken.Reveal())
	},
	"narrowed": func(ctx context.Context, g grant, c store.Client, _ store.Issued) error {
		return failed(g.UpdateClient(ctx, c.ID, store.ClientChange{Scopes: &[]string{"resources:read"}}))
	},
	"expired": func(_ context.Context, g grant, _ store.Client, _ store.Issued) error {
		g.Clock.Advance(lives.AccessToken)
		return nil
	},
}

// endedAt makes a change whose token ends before its transaction of that number, and reports whether
// there is one.
func endedAt(t *testing.T, token func(*testing.T, grant) (store.Client, store.Issued), change func(context.Context, byToken) error, ending string, step int) (reached bool) {
	t.Helper()
	g, ctx := newGrant(t), t.Context()
	client, issued := token(t, g)
	p := must.Get(g.FindPrincipal(ctx, issued.AccessToken))(t)
	if p.Platform && p.Account == "" {
		p = must.Get(g.ActFor(ctx, p, "acct_larkspur"))(t)
	}
	for _, account := range []string{"acct_empty", "acct_off"} {
		must.Get(g.CreateAccount(ctx, account, ""))(t)
	}
	must.Get(g.Store.DisableAccount(ctx, "acct_off"))(t)
	g.User(t, "odile", "acct_larkspur")
	must.Get(g.DisableUser(ctx, "odile"))(t)
	must.Get(g.CreateFixedClient(ctx, "off", secret.New(nil, secret.ClientSecret), store.ClientSpec{Name: "Off", RedirectURIs: []string{storetest.CallbackURI}}))(t)
	must.Get(g.DisableClient(ctx, "off"))(t)
	must.Get(g.Events.PutResource(ctx, eventlog.ResourceChange{Owner: "acct_larkspur", Kind: "customer", ID: "c1"}, snapshot.ObjectOf()))(t)

	live := store.Guard{Live: g.LiveIn(p, isAllowed)}
	by := webhook.By{Account: p.Account, Owner: p.WebhookOwner(), Platform: p.Platform, Live: live.Live}
	e, _, err := g.Webhooks.Create(ctx, by, "acct_larkspur", webhook.Settings{URL: "https://hooks.example/1"})
	must.Do(t, err)
	g.Rest()
	updates, before := 0, map[string]string(nil)
	g.Faults.OnUpdate(func(run func() error) error {
		if updates++; updates == step {
			g.Faults.Repair()
			must.Do(t, tokenEnds[ending](ctx, g, client, issued))
			g.Rest()
			before = contents(t, g.DB)
		}
		return run()
	})
	err = change(ctx, byToken{grant: g, user: g.user.Subject(), family: g.first.FamilyID, hook: e.ID, guard: live, by: by})
	g.Faults.Repair()
	if before == nil {
		if err != nil && !errors.Is(err, webhook.ErrNoHead) {
			t.Errorf("with a token that does not end: %v", err)
		}
		return false
	}
	want := record.ErrRevoked
	if ending == "narrowed" {
		want = errNarrowed
	}
	if !errors.Is(err, want) && !(ending == "narrowed" && errors.Is(err, record.ErrRevoked)) {
		t.Errorf("%s before transaction %d: %v, want %v", ending, step, err, want)
	}
	if after := contents(t, g.DB); !maps.Equal(before, after) {
		t.Errorf("%s before transaction %d: the store changed", ending, step)
	}
	return true
}

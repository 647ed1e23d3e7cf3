package store_test

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook"
)

// byOperator is a change at the desk, whose operator may be signed out or lose the role while the
// change waits.
type byOperator struct {
	grant
	other     store.User // with a session
	session   string     // its name
	held, due string     // webhook endpoints: one without, one with something to do
	guard     store.Guard
	by        webhook.By
}

// atDesk are the changes that operators make at the desk.
var atDesk = map[string]func(ctx context.Context, c byOperator) error{
	"CreateClient": func(ctx context.Context, c byOperator) error {
		return failed2(c.CreateClient(ctx, store.ClientSpec{Name: "Aster", RedirectURIs: []string{storetest.CallbackURI}}, c.guard))
	},
	"UpdateClient": func(ctx context.Context, c byOperator) error {
		return failed(c.UpdateClient(ctx, c.client.ID, store.ClientChange{Name: new("Aster")}, c.guard))
	},
	"RotateClientSecret": func(ctx context.Context, c byOperator) error {
		return failed2(c.RotateClientSecret(ctx, c.client.ID, true, c.guard))
	},
	"DisableClient": func(ctx context.Context, c byOperator) error {
		return failed(c.DisableClient(ctx, c.client.ID, c.guard))
	},
	"EnableClient": func(ctx context.Context, c byOperator) error {
		return failed(c.EnableClient(ctx, c.client.ID, c.guard))
	},
	"CreateUser": func(ctx context.Context, c byOperator) error {
		return failed2(c.CreateUser(ctx, store.UserSpec{Username: "nora", Account: "acct_larkspur", Code: true, Operator: true}, c.guard))
	},
	"CreateUserCode": func(ctx context.Context, c byOperator) error {
		return failed2(c.CreateUserCode(ctx, c.user.Subject(), 0, c.guard))
	},
	"DisableUser": func(ctx context.Context, c byOperator) error {
		return failed(c.DisableUser(ctx, c.user.Subject(), c.guard))
	},
	"EnableUser": func(ctx context.Context, c byOperator) error {
		return failed(c.EnableUser(ctx, c.user.Subject(), c.guard))
	},
	"PromoteUser": func(ctx context.Context, c byOperator) error {
		return failed(c.PromoteUser(ctx, c.user.Subject(), c.guard))
	},
	"DemoteUser": func(ctx context.Context, c byOperator) error {
		return failed(c.DemoteUser(ctx, c.user.Subject(), c.guard))
	},
	"DeleteSessions": func(ctx context.Context, c byOperator) error {
		return failed(c.DeleteSessions(ctx, store.By{}, c.other, c.guard))
	},
	"DeleteSessionNamed": func(ctx context.Context, c byOperator) error {
		return failed(c.DeleteSessionNamed(ctx, c.session, c.guard))
	},
	"RevokeFamily": func(ctx context.Context, c byOperator) error {
		return failed(c.RevokeFamily(ctx, store.By{}, c.first.FamilyID, c.guard))
	},
	"RevokeAccess": func(ctx context.Context, c byOperator) error {
		return c.RevokeAccess(ctx, store.By{}, c.first.FamilyID, c.guard)
	},
	"Webhooks.Create": func(ctx context.Context, c byOperator) error {
		return failed2(c.Webhooks.Create(ctx, c.by, "acct_larkspur", webhook.Settings{URL: "https://hooks.example/2"}))
	},
	"Webhooks.Enable": func(ctx context.Context, c byOperator) error {
		return failed2(c.Webhooks.Enable(ctx, c.by, c.held, webhook.FromStart()))
	},
	"Webhooks.Disable": func(ctx context.Context, c byOperator) error { return failed(c.Webhooks.Disable(ctx, c.by, c.due)) },
	"Webhooks.RotateSecret": func(ctx context.Context, c byOperator) error {
		return failed2(c.Webhooks.RotateSecret(ctx, c.by, c.due, time.Hour, secret.Token{}))
	},
	"Webhooks.Hold":   func(ctx context.Context, c byOperator) error { return failed(c.Webhooks.Hold(ctx, c.by)) },
	"Webhooks.Resume": func(ctx context.Context, c byOperator) error { return failed(c.Webhooks.Resume(ctx, c.by)) },
	"Webhooks.Tested": func(ctx context.Context, c byOperator) error { return c.Webhooks.Tested(ctx, c.by, c.due) },
}

var operatorEnds = map[string]func(ctx context.Context, g grant, token secret.Token) error{
	"signed_out": func(ctx context.Context, g grant, token secret.Token) error { return g.DeleteSession(ctx, token) },
	"demoted":    func(ctx context.Context, g grant, _ secret.Token) error { return failed(g.DemoteUser(ctx, "olga")) },
	"disabled":   func(ctx context.Context, g grant, _ secret.Token) error { return failed(g.DisableUser(ctx, "olga")) },
	"expired": func(_ context.Context, g grant, _ secret.Token) error {
		g.Clock.Advance(lives.SessionIdle)
		return nil
	},
}

// TestAnOperatorEndsWhileTheChangeWaits signs the operator out, or takes the role away, before each
// of the transactions of a change at the desk. What is stored then stays as it is.
//
// Promise (Browsers): a change at the desk whose operator is signed out or demoted while it waits for
// its turn is refused and changes nothing, in each of its steps
func TestAnOperatorEndsWhileTheChangeWaits(t *testing.T) {
	t.Parallel()
	for name, change := range atDesk {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for ending := range operatorEnds {
				for step := 1; operatorEndedAt(t, change, ending, step); step++ {
				}
			}
		})
	}
}

var errOperatorEnded = errors.New("no longer an operator")

// operatorEndedAt is [endedAt] for an operator's session.
func operatorEndedAt(t *testing.T, change func(context.Context, byOperator) error, ending string, step int) (reached bool) {
	t.Helper()
	g, ctx := newGrant(t), t.Context()
	olga := g.User(t, "olga", "acct_larkspur")
	olga = must.Get(g.PromoteUser(ctx, olga.Username))(t)
	token, _, err := g.CreateSession(ctx, store.By{}, olga, secret.Token{}, "")
	must.Do(t, err)
	other := g.User(t, "odile", "acct_larkspur")
	_, session, err := g.CreateSession(ctx, store.By{}, other, secret.Token{}, "")
	must.Do(t, err)
	c := byOperator{grant: g, other: other, session: session.Name(), guard: store.Guard{Live: g.OperatorIn(token, errOperatorEnded)}}
	for _, url := range []string{"https://hooks.example/held", "https://hooks.example/due"} {
		e, _, err := g.Webhooks.Create(ctx, webhook.By{}, "acct_larkspur", webhook.Settings{URL: url})
		must.Do(t, err)
		c.held, c.due = c.due, e.ID
	}
	must.Get(g.Webhooks.Disable(ctx, webhook.By{}, c.held))(t)
	c.by.Live = c.guard.Live
	g.Rest()
	updates, before := 0, map[string]string(nil)
	g.Faults.OnUpdate(func(run func() error) error {
		if updates++; updates == step {
			g.Faults.Repair()
			must.Do(t, operatorEnds[ending](ctx, g, token))
			g.Rest()
			before = contents(t, g.DB)
		}
		return run()
	})
	err = change(ctx, c)
	g.Faults.Repair()
	if before == nil {
		must.Do(t, err)
		return false
	}
	if !errors.Is(err, errOperatorEnded) {
		t.Errorf("%s before transaction %d: %v, want %v", ending, step, err, errOperatorEnded)
	}
	if after := contents(t, g.DB); !maps.Equal(before, after) {
		t.Errorf("%s before transaction %d: the store changed", ending, step)
	}
	return true
}

package store_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest/must"
)

// states brings a grant into each state of a refresh token. The token is that of the
// first pair, except for the retired one.
var states = []struct {
	name  string
	bring func(t *testing.T, g grant) (asked store.Issued)
}{
	{"unspent", func(_ *testing.T, g grant) store.Issued { return g.first }},
	{"spent_in_the_grace", func(t *testing.T, g grant) store.Issued { g.mustRefresh(t, g.first); return g.first }},
	{"spent_and_successor_rotated", func(t *testing.T, g grant) store.Issued {
		g.mustRefresh(t, g.mustRefresh(t, g.first))
		return g.first
	}},
	{"spent_later_and_used", func(t *testing.T, g grant) store.Issued {
		g.use(t, g.mustRefresh(t, g.first))
		g.Clock.Advance(lives.RefreshGrace + tick)
		return g.first
	}},
	{"spent_later_and_lost", func(t *testing.T, g grant) store.Issued {
		g.mustRefresh(t, g.first)
		g.Clock.Advance(lives.RefreshGrace + tick)
		return g.first
	}},
	{"retired", func(t *testing.T, g grant) store.Issued { unseen, _ := lose(t, g); return unseen }},
	{"expired", func(_ *testing.T, g grant) store.Issued { g.Clock.Advance(lives.RefreshToken); return g.first }},
}

// Promise (RFC 9700 §4.5, §4.14): another client's refresh token; a refresh that asks for more; one
// kind of token used as another
func TestRotateRefreshByAnotherClient(t *testing.T) {
	t.Parallel()
	for _, s := range states {
		t.Run(s.name+"_changes_nothing", func(t *testing.T) {
			g := parallelGrant(t)
			other, _ := g.Client(t)
			asked := s.bring(t, g)
			g.unchanged(t, func() {
				_, err := g.RotateRefresh(context.Background(), store.Refresh{Client: other, Token: asked.RefreshToken})
				refused(t, "RotateRefresh(another client's)", err, record.ErrMismatch)
			})
		})
	}
}

// Promise (RFC 9700 §4.5, §4.14): another client's refresh token; a refresh that asks for more; one
// kind of token used as another
func TestRotateRefreshScope(t *testing.T) {
	t.Parallel()
	events, both := store.ScopeEventsRead, store.ScopeEventsRead|store.ScopeResourcesRead
	t.Run("subset_applies_to_the_access_token_only", func(t *testing.T) {
		g := parallelGrant(t)
		first := g.issue(t, both)
		second, err := g.refreshFor(first, events)
		if err != nil || second.Scope != events {
			t.Fatalf("RotateRefresh(subset) = %q, %v, want %q", second.Scope, err, events)
		}
		third := g.mustRefresh(t, second) // the refresh token kept the full scope
		if third.Scope != both {
			t.Errorf("RotateRefresh(no scope).Scope = %q, want %q", third.Scope, both)
		}
	})
	t.Run("superset_spends_nothing", func(t *testing.T) {
		g := parallelGrant(t)
		first := g.issue(t, events)
		g.unchanged(t, func() {
			_, err := g.refreshFor(first, both)
			refused(t, "RotateRefresh(superset)", err, record.ErrScope)
		})
		g.mustRefresh(t, first)
	})
	t.Run("another_scope_on_a_retry_changes_nothing", func(t *testing.T) {
		t.Parallel()
		for name, later := range map[string]time.Duration{"in_the_grace": 0, "after_a_loss": lives.RefreshGrace + tick} {
			t.Run(name, func(t *testing.T) {
				g := parallelGrant(t)
				first := g.issue(t, both)
				second := must.Get(g.refreshFor(first, events))(t)
				g.Clock.Advance(later)
				g.unchanged(t, func() {
					for _, asked := range []store.Scope{store.ScopeUnstated, both, store.ScopeResourcesRead} {
						_, err := g.refreshFor(first, asked)
						refused(t, "RotateRefresh(scope "+asked.String()+")", err, record.ErrScope)
					}
				})
				g.mustRefresh(t, second)
			})
		}
	})
}

// With another server key the pair cannot be derived again; the derivation would return
// two tokens that were never stored.
func TestRotateRefreshUnderAnotherServerKey(t *testing.T) {
	ctx := context.Background()
	g := parallelGrant(t)
	g.mustRefresh(t, g.first)
	other := must.Get(store.Open(ctx, g.DB, store.Options{
		Now: g.Clock.Now, Key: secret.NewKey(nil), Hasher: secret.NewHasher(), Lifetimes: lives, Log: slog.New(slog.DiscardHandler),
	}))(t)
	for _, moment := range []string{"in the grace", "later"} {
		g.unchanged(t, func() {
			_, err := other.RotateRefresh(ctx, store.Refresh{Client: g.client, Token: g.first.RefreshToken})
			refused(t, "RotateRefresh("+moment+")", err, record.ErrNotFound)
		})
		g.Clock.Advance(lives.RefreshGrace + tick)
	}
}

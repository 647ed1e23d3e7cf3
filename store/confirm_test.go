package store_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest/must"
)

// TestFlushEndsWhenUsesAreWritten: a backup or a saved state has the uses before it, also
// those that Run is writing just then.
func TestFlushEndsWhenUsesAreWritten(t *testing.T) {
	g := parallelGrant(t)
	second := g.mustRefresh(t, g.first)
	stuck, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var released atomic.Bool
	g.Faults.OnUpdate(func(run func() error) error {
		once.Do(func() { close(stuck) })
		<-release
		return run()
	})
	must.Get(g.FindPrincipal(t.Context(), second.AccessToken))(t)
	<-stuck
	go func() {
		for range 1000 {
			runtime.Gosched() // Flush may end now, if it does not wait
		}
		released.Store(true)
		close(release)
	}()
	g.Flush(t.Context())
	if !released.Load() {
		t.Error("Flush() ended before the use was written")
	}
}

// TestConfirmationNeverDelaysTheBearerCheck: the first use of a pair decides whether a
// retry is a theft, but the call that uses it does not wait for that to be recorded.
// Over Badger, where a View itself could wait for the commit, TestViewNeverWaits in
// store/kv/badgerkv checks the same.
func TestConfirmationNeverDelaysTheBearerCheck(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	t.Run("it_makes_no_commit", func(t *testing.T) {
		g := parallelGrant(t)
		second := g.mustRefresh(t, g.first)
		g.Rest() // no other commits
		var commits atomic.Int64
		g.Faults.OnUpdate(func(run func() error) error {
			commits.Add(1)
			return run()
		})
		for range 10 {
			must.Get(g.FindPrincipal(ctx, second.AccessToken))(t)
			must.Get(g.Introspect(ctx, g.client, second.AccessToken.Reveal()))(t)
		}
		if n := commits.Load(); n != 0 {
			t.Errorf("20 checks made %d commits, want none", n)
		}
	})
	t.Run("it_passes_while_no_commit_ends", func(t *testing.T) {
		t.Parallel()
		// In a bubble a check that waits for a commit is a deadlock, which synctest
		// reports at once.
		synctest.Test(t, func(t *testing.T) {
			g := newGrant(t)
			var pairs []store.Issued
			for range 20 {
				pairs = append(pairs, g.mustRefresh(t, g.issue(t, store.ScopeUnstated)))
			}
			stuck, release := make(chan struct{}), make(chan struct{})
			g.Faults.OnUpdate(func(run func() error) error {
				close(stuck)
				<-release
				return run()
			})
			for i, pair := range pairs {
				if !g.accessLives(t, pair) {
					t.Errorf("FindPrincipal() of pair %d is refused while the engine stands still, want a principal", i)
				}
				<-stuck // the first use is still being written, and the others wait behind it
			}
			g.Faults.Repair()
			close(release)
		})
	})
}

// TestPairUsedJustBeforeALateRetryIsJudgedUsed: the pair is used in the last moment of
// the grace period, and the retry comes a millisecond later, when only that use
// distinguishes a theft from a lost answer.
func TestPairUsedJustBeforeALateRetryIsJudgedUsed(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	revoke := func(t *testing.T, g grant, pair store.Issued) {
		must.Do(t, g.RevokeToken(ctx, store.By{}, g.client, pair.AccessToken.Reveal()))
	}
	introspect := func(t *testing.T, g grant, by store.Client, token secret.Token) {
		must.Get(g.Introspect(ctx, by, token.Reveal()))(t)
	}
	resourceServer := store.Client{ID: "tollhouse_gateway", Introspect: true}
	cases := []struct {
		name string
		use  func(t *testing.T, g grant, pair store.Issued)
		want error
	}{
		{"while_the_note_waits_to_be_written", func(t *testing.T, g grant, pair store.Issued) {
			g.Rest() // from now on no uses are written
			if !g.accessLives(t, pair) {
				t.Fatal("FindPrincipal() refused the pair")
			}
		}, record.ErrReplayed},
		{"while_the_note_is_being_written", func(t *testing.T, g grant, pair store.Issued) {
			t.Cleanup(g.useUncommitted(t, pair))
		}, record.ErrReplayed},
		{"when_the_note_is_written", func(t *testing.T, g grant, pair store.Issued) { g.use(t, pair) }, record.ErrReplayed},
		{"by_an_introspection_of_its_own_client", func(t *testing.T, g grant, pair store.Issued) {
			g.Rest()
			introspect(t, g, g.client, pair.AccessToken)
		}, record.ErrReplayed},
		{"by_a_revocation_of_its_access_token", revoke, record.ErrReplayed},
		{"and_its_access_token_revoked_before_the_note_is_written", func(t *testing.T, g grant, pair store.Issued) {
			g.Rest()
			if !g.accessLives(t, pair) {
				t.Fatal("FindPrincipal() refused the pair")
			}
			revoke(t, g, pair)
			g.FlushLastUsed(ctx)
		}, record.ErrReplayed},
		{"by_an_introspection_of_a_resource_server", func(t *testing.T, g grant, pair store.Issued) {
			introspect(t, g, resourceServer, pair.AccessToken)
		}, record.ErrReplayed},
		{"by_an_introspection_of_its_refresh_token", func(t *testing.T, g grant, pair store.Issued) {
			g.Rest()
			introspect(t, g, resourceServer, pair.RefreshToken)
		}, record.ErrReplayed},
		{"by_an_introspection_of_its_refresh_token_that_is_written", func(t *testing.T, g grant, pair store.Issued) {
			g.Rest()
			introspect(t, g, resourceServer, pair.RefreshToken)
			g.FlushLastUsed(ctx)
		}, record.ErrReplayed},
		{"but_not_by_a_refused_introspection_of_another", func(t *testing.T, g grant, pair store.Issued) {
			other, _ := g.Client(t)
			for _, token := range []secret.Token{pair.AccessToken, pair.RefreshToken} {
				if _, err := g.Introspect(ctx, other, token.Reveal()); !errors.Is(err, record.ErrNotFound) {
					t.Fatalf("Introspect() = %v, want %v", err, record.ErrNotFound)
				}
			}
		}, nil},
		{"but_not_by_the_revocation_of_another", func(t *testing.T, g grant, pair store.Issued) {
			other, _ := g.Client(t)
			must.Do(t, g.RevokeToken(ctx, store.By{}, other, pair.AccessToken.Reveal()))
		}, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g := parallelGrant(t)
			second := g.mustRefresh(t, g.first)
			g.Clock.Advance(lives.RefreshGrace)
			c.use(t, g, second)
			g.Clock.Advance(tick)
			third, err := g.refresh(g.first)
			refused(t, "RotateRefresh()", err, c.want)
			if c.want != nil {
				g.familyIsDead(t, g.first, second)
				return
			}
			if err == nil && same(third, second) {
				t.Error("RotateRefresh() gave the unseen pair again, want a fresh one")
			}
		})
	}
}

package store_test

import (
	"context"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest/must"
)

func TestLatestSignIn(t *testing.T) {
	ctx := context.Background()
	g := parallelGrant(t)
	other := g.User(t, "nils", "acct_larkspur")
	latest := func() []time.Time { return must.Get(g.LatestSignIns(ctx, g.user, other))(t) }
	if at := latest(); !at[0].IsZero() || !at[1].IsZero() {
		t.Errorf("before any sign-in: %v, want never", at)
	}
	g.Clock.Advance(time.Hour)
	g.issue(t, store.ScopeUnstated) // a token is no sign-in
	signedIn := g.Clock.Now()
	token := g.signIn(t, secret.Token{})
	g.Clock.Advance(time.Minute)
	must.Do(t, g.DeleteSession(ctx, token))
	g.signIn(t, secret.Token{})
	g.Clock.Advance(lives.Session + time.Hour)
	again := signedIn.Add(time.Minute)
	if at := latest(); !at[0].Equal(again) || !at[1].IsZero() {
		t.Errorf("after sign-out and expiry: %v, want %v and never", at, again)
	}
	if _, err := g.CheckAll(ctx); err != nil {
		t.Errorf("CheckAll() = %v", err)
	}
}

func TestLatestUseOfAClient(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	latest := func(g grant) time.Time { return must.Get(g.LatestUses(ctx, g.client.ID))(t)[0] }
	t.Run("any_family_counts_and_revocation_does_not_hide_it", func(t *testing.T) {
		g := parallelGrant(t)
		if at := latest(g); !at.IsZero() {
			t.Errorf("a client without a use was used at %v", at)
		}
		for range 20 {
			last := g.issue(t, store.ScopeUnstated)
			g.Clock.Advance(time.Minute)
			g.use(t, last)
			if at := latest(g); !at.Equal(g.Clock.Now()) {
				t.Fatalf("latest use = %v, want %v", at, g.Clock.Now())
			}
		}
		used := g.Clock.Now()
		g.Clock.Advance(time.Hour)
		must.Get(g.SetPassword(ctx, "mara", "another long phrase"))(t)
		if at := latest(g); !at.Equal(used) {
			t.Errorf("after the families have ended: %v, want %v", at, used)
		}
		if _, err := g.CheckAll(ctx); err != nil {
			t.Errorf("CheckAll() = %v", err)
		}
	})
	t.Run("a_late_use_of_a_deleted_client_leaves_no_record", func(t *testing.T) {
		g := parallelGrant(t)
		written := make(chan error, 1)
		g.Faults.OnUpdate(func(run func() error) error { // the write of the use
			g.Faults.Repair()
			written <- g.DB.Update(ctx, func(tx kv.Txn) error { return tx.Delete(record.ClientKey(g.client.ID)) })
			return run()
		})
		must.Get(g.FindPrincipal(ctx, g.first.AccessToken))(t)
		must.Do(t, <-written)
		g.Rest()
		if n := g.Count(t, record.TagClientUse); n != 0 {
			t.Errorf("%d records of uses, want none", n)
		}
	})
}

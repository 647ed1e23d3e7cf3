package store_test

import (
	"errors"
	"sync"
	"testing"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/storetest"
)

// callersMax callers at once, over Badger on disk with every commit synced: as many as
// a retrying client, two tabs or a thief cause.
const callersMax = 64

// rounds is how often each race runs.
func rounds() int {
	if testing.Short() {
		return 50
	}
	return 1000
}

func onDisk(t *testing.T) grant {
	t.Helper()
	f := storetest.OnDisk(t)
	client, _ := f.Client(t)
	return grant{Fixture: f, client: client, user: f.User(t, "mara", "acct_larkspur")}
}

// together runs act from all callers at once and returns what each received.
func together[T any](act func() (T, error)) (given []T, errs []error) {
	given, errs = make([]T, callersMax), make([]error, callersMax)
	var callers sync.WaitGroup
	start := make(chan struct{})
	for i := range callersMax {
		callers.Go(func() {
			<-start
			given[i], errs[i] = act()
		})
	}
	close(start)
	callers.Wait()
	return given, errs
}

// Promise (RFC 6749 §4): of parallel redemptions exactly one succeeds
// Promise (RFC 9700 §4.5, §4.14): 64 redemptions of one code at once; 64 uses of one refresh token
// at once
func TestParallelOnDisk(t *testing.T) {
	t.Parallel()
	t.Run("one_of_64_redemptions_succeeds", func(t *testing.T) {
		t.Parallel()
		g := onDisk(t)
		for round := range rounds() {
			// The losers are a page that sends twice, and the winner's tokens stay live.
			pkce := round%2 == 0
			raceRedemptions(t, g, pkce)
			if t.Failed() {
				t.Fatalf("round %d, with PKCE: %t", round, pkce)
			}
		}
	})
	t.Run("all_of_64_refreshes_give_one_pair", func(t *testing.T) {
		t.Parallel()
		g := onDisk(t)
		pair := g.issue(t, store.ScopeUnstated)
		for round := range rounds() {
			if pair = raceRefreshes(t, g, pair); t.Failed() {
				t.Fatalf("round %d", round)
			}
		}
		if made := g.Count(t, 'r') - 1; made != rounds() {
			t.Errorf("%d refresh tokens were made in %d rounds, want one each", made, rounds())
		}
	})
}

func raceRedemptions(t *testing.T, g grant, pkce bool) {
	t.Helper()
	proof, proven := "", ""
	if pkce {
		proof, proven = verifier, challenge
	}
	code := g.allow(t, proven)
	given, errs := together(func() (store.Issued, error) { return g.redeem(code, proof) })
	winner := -1
	for i, err := range errs {
		switch {
		case err == nil && winner >= 0:
			t.Error("two redemptions of one code succeeded, want one")
		case err == nil:
			winner = i
		case !errors.Is(err, record.ErrReplayed):
			t.Errorf("RedeemCode() = %v, want %v", err, record.ErrReplayed)
		}
	}
	if winner < 0 {
		t.Error("no redemption succeeded, want one")
		return
	}
	if !g.accessLives(t, given[winner]) {
		t.Error("the winner's token is dead, want it alive")
	}
}

func raceRefreshes(t *testing.T, g grant, pair store.Issued) store.Issued {
	t.Helper()
	given, errs := together(func() (store.Issued, error) { return g.refresh(pair) })
	fresh := 0
	for i, err := range errs {
		if err != nil || !same(given[i], given[0]) {
			t.Errorf("RotateRefresh() = %v and the same pair: %t, want one identical pair for all", err, same(given[i], given[0]))
			return pair
		}
		if !given[i].Retried {
			fresh++
		}
	}
	if fresh != 1 {
		t.Errorf("%d callers rotated the token, want one and %d repeats", fresh, callersMax-1)
	}
	return given[0]
}

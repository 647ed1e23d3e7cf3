package pgkv_test

import (
	"context"
	"testing"
	"time"

	"tollhouse/store/kv/pgkv"
	"tollhouse/store/kv/pgkv/pgtest"
)

// TestFailover kills the leader of a cluster, and its agent, under the writers of two
// processes. Both go on at another leader by themselves, and nothing that they
// acknowledged is lost.
func TestFailover(t *testing.T) {
	t.Parallel()
	cluster := pgtest.StartPatroni(t)
	one, two := openWith(t, pgkv.Options{URL: cluster.DSN()}), openWith(t, pgkv.Options{URL: cluster.DSN()})
	ctx, stop := context.WithCancel(t.Context())
	a, b := startWriters(ctx, one, "one"), startWriters(ctx, two, "two")
	a.until(t, 200)
	b.until(t, 200)
	before := cluster.KillLeader(t)
	killed := time.Now()
	cluster.AwaitLeader(t, before)
	a.until(t, writersMax)
	b.until(t, writersMax)
	gap := time.Since(killed)
	stop()
	a.wg.Wait()
	b.wg.Wait()
	t.Logf("both processes go on %v after the leader was killed", gap)
	if most := 2 * (pgtest.PatroniTTL + 15*time.Second); gap > most {
		t.Errorf("the processes went on after %v, want %v at most", gap, most)
	}
	keys, n := contents(t, one)
	a.check(t, keys, n)
	b.check(t, keys, n)
}

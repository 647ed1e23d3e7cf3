package pgkv_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"tollhouse/store/kv/pgkv"
	"tollhouse/store/kv/pgkv/pgtest"
	"tollhouse/store/storetest/must"
)

// TestFailover kills the leader of a cluster, and its agent, under the writers of two
// processes. Both go on at another leader by themselves, and nothing that they
// acknowledged is lost.
func TestFailover(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	failovers, acknowledged, lost, slowest := 0, 0, 0, time.Duration(0)
	for must.More(failovers, 1, 20) {
		before := failovers
		t.Run(strconv.Itoa(failovers+1), func(t *testing.T) {
			acks, gone, gap := failOver(t)
			acknowledged, lost, slowest = acknowledged+acks, lost+gone, max(slowest, gap)
			failovers++
		})
		if failovers == before || t.Failed() {
			return // no Patroni here, or a failure
		}
	}
	must.Figure(t, "failovers", failovers)
	must.Figure(t, "acknowledged", acknowledged)
	must.Figure(t, "lost", lost)
	must.Figure(t, "gap_worst_s", slowest.Seconds())
}

// failOver returns how many writes were acknowledged and lost, and for how long there was
// no leader.
func failOver(t *testing.T) (acknowledged, lost int, gap time.Duration) {
	t.Helper()
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
	gap = time.Since(killed)
	stop()
	a.wg.Wait()
	b.wg.Wait()
	t.Logf("both processes go on %v after the leader was killed", gap)
	if most := 2 * (pgtest.PatroniTTL + 15*time.Second); gap > most {
		t.Errorf("the processes went on after %v, want %v at most", gap, most)
	}
	keys, n := contents(t, one)
	return a.acks() + b.acks(), a.check(t, keys, n) + b.check(t, keys, n), gap
}

package proof

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tollhouse/store/kv/pgkv/pgtest"
	"tollhouse/store/storetest/must"
)

// gapMax is how long one server may hold the others up when it stops in its turn. The
// limit itself is 5 s.
const gapMax = margin * 5 * time.Second

// writeWhile lets all writers write while disturb runs, and returns the longest time
// without an acknowledged change. What a server does not know counts as lost.
func (l *ledger) writeWhile(t *testing.T, writers []writer, disturb func()) (gap time.Duration) {
	t.Helper()
	l.cutAt = -1
	var stopped atomic.Bool
	go func() {
		defer stopped.Store(true)
		disturb()
	}()
	watched := make(chan time.Duration)
	go func() {
		longest, since, acks := time.Duration(0), time.Now(), l.acks.Load()
		for ; !stopped.Load(); time.Sleep(time.Millisecond) {
			longest = max(longest, time.Since(since))
			if now := l.acks.Load(); now != acks {
				since, acks = time.Now(), now
			}
		}
		watched <- longest
	}()
	l.each(t, writers, func(w writer, r *rand.Rand) error {
		for !stopped.Load() {
			if err := w.write(t.Context(), l, r); errors.Is(err, errLost) {
				return nil
			} else if err != nil {
				return err
			}
		}
		return nil
	}, rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0)))
	return <-watched
}

// awaitAcks returns when so many more changes were acknowledged.
func (l *ledger) awaitAcks(t *testing.T, more int64) {
	t.Helper()
	want := l.acks.Load() + more
	for begun := time.Now(); l.acks.Load() < want; time.Sleep(time.Millisecond) {
		if time.Since(begun) > 2*time.Minute {
			t.Errorf("after 2 minutes %d changes are missing of %d", want-l.acks.Load(), more)
			return
		}
	}
}

// TestAServerThatIsStoppedHoldsTheOthersUpBriefly stops one of two servers as SIGSTOP
// does, which may come while it holds the turn to commit. The other goes on, and so does
// the first once it may.
func TestAServerThatIsStoppedHoldsTheOthersUpBriefly(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	const stoppedFor = 7 * time.Second
	p := onDatabase(t, pgtest.Start(t))
	s := p.serve(t, "--public-url", "http://127.0.0.1")
	l, writers := newLedger(t, s)
	l.moveTo(s.beside)
	gap := l.writeWhile(t, writers, func() {
		l.awaitAcks(t, 200)
		_ = s.process.Signal(syscall.SIGSTOP)
		time.Sleep(stoppedFor)
		_ = s.process.Signal(syscall.SIGCONT)
		l.awaitAcks(t, 200)
	})
	t.Logf("the longest time without an acknowledged change was %v; %d refused as busy", gap, l.busy.Load())
	if gap > gapMax {
		t.Errorf("nothing was acknowledged for %v, want at most %v", gap, gapMax)
	}
	l.moveTo(s)
	l.audit(t, writers)
	l.closeBooks(t, writers)
}

// goesOnMax is how long a server may wait for another that is stopped, on a busy machine. The
// limit itself is 5 s, and 7 until changes that began after it are acknowledged.
const goesOnMax = 3 * 7 * time.Second

// Promise (Postgres §5): one server that is stopped at any moment, with large documents under way,
// holds the others up for at most 5 seconds
func TestAServerThatIsStoppedAtAnyMoment(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	p := onDatabase(t, pgtest.Start(t))
	s := p.serve(t, "--public-url", "http://127.0.0.1")
	l := openLedger(t, s)
	both := [2]*server{s, s.beside}
	text := strings.Repeat("as large as it may be; ", 980) // an event has it before and after
	var callers [2]*client
	var puts atomic.Int64
	// put changes a large customer at a server, and reports whether that was acknowledged.
	put := func(at int) bool {
		n := puts.Add(1)
		body := fmt.Sprintf(`{"displayName":"Large","notes":"%d %s"}`, n, text)
		a, err := callers[at].call(t.Context(), l.reader, http.MethodPut, fmt.Sprintf("/api/resources/customer/cus_large_%d", n%64), body)
		return err == nil && a.status/100 == 2
	}
	var loading sync.WaitGroup
	var ended atomic.Bool
	defer loading.Wait()
	defer ended.Store(true)
	for i := range both {
		callers[i] = both[i].asClient(l.credentials)
		callers[i].base = "http://" + both[i].ready.Listen[0] // not the balancer's
		for range 4 {
			loading.Go(func() {
				for !ended.Load() {
					put(i)
				}
			})
		}
	}
	stops, longest := 0, time.Duration(0)
	for ; must.More(stops, 4, 200); stops++ {
		stopped := rand.IntN(2)
		time.Sleep(time.Duration(rand.Int64N(int64(300 * time.Millisecond))))
		_ = both[stopped].process.Signal(syscall.SIGSTOP)
		begun, done := time.Now(), 0
		for done < 3 && time.Since(begun) < goesOnMax {
			if put(1 - stopped) {
				done++
			}
		}
		took := time.Since(begun)
		_ = both[stopped].process.Signal(syscall.SIGCONT)
		if longest = max(longest, took); done < 3 {
			t.Fatalf("stop %d of server %d: the other acknowledged %d changes within %v, want 3", stops+1, stopped+1, done, took)
		}
		for begun := time.Now(); !put(stopped); time.Sleep(10 * time.Millisecond) {
			if time.Since(begun) > goesOnMax {
				t.Fatalf("stop %d: server %d does not go on when it may", stops+1, stopped+1)
			}
		}
	}
	must.Figure(t, "stops", stops)
	must.Figure(t, "longest_ms", longest.Milliseconds())
}

// TestTheDatabaseIsKilledUnderTwoServers kills PostgreSQL and starts it again. Both
// servers live on and lose nothing that they acknowledged.
func TestTheDatabaseIsKilledUnderTwoServers(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	database := pgtest.New(t)
	p := onDatabase(t, database.Database(t))
	s := p.serve(t, "--public-url", "http://127.0.0.1")
	l, writers := newLedger(t, s)
	kills := 0
	for ; must.More(kills, 3, 1000); kills++ {
		l.writeWhile(t, writers, func() {
			l.awaitAcks(t, 200)
			database.Kill(t)
			for busy := l.busy.Load(); l.busy.Load() < busy+int64(len(writers)); {
				time.Sleep(time.Millisecond)
			}
			database.Restart(t)
			l.awaitAcks(t, 200)
		})
		l.audit(t, writers)
		if t.Failed() {
			t.FailNow()
		}
	}
	if !s.running() || !s.beside.running() {
		t.Error("a server has ended with its database")
	}
	l.closeBooks(t, writers)
	must.Figure(t, "kills", kills)
	must.Figure(t, "refused_as_busy", l.busy.Load())
	l.report(t)
}

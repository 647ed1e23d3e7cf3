package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// windows are what a reader lists: seconds that a clock makes shorter, so that many end.
type windows struct {
	count, speed int
	begun        time.Time
}

// clock is behind by d.
func (w windows) clock(d time.Duration) func(*store.Options) {
	return func(o *store.Options) {
		o.Now = func() time.Time {
			return time.Unix(1_773_070_200, 0).Add(time.Since(w.begun)*time.Duration(w.speed) - d).UTC().Truncate(time.Millisecond)
		}
	}
}

// TestAWindowThatWasReadAfterItsEndStaysAsItWas: a reader lists each second after its end,
// while many write, and nothing appears there later.
//
// Promise (§2.2): a second that was listed after its end stays as it was, also with two servers;
// the list waits at most a second
func TestAWindowThatWasReadAfterItsEndStaysAsItWas(t *testing.T) {
	const quick = 20
	seconds := 30
	if testing.Short() {
		seconds = 10
	}
	t.Run("in_memory", func(t *testing.T) {
		w := windows{seconds, quick, time.Now()}
		f := storetest.New(t, w.clock(0))
		w.read(t, f, f)
	})
	t.Run("on_disk", func(t *testing.T) {
		w := windows{seconds, quick, time.Now()}
		f := storetest.OnDisk(t, w.clock(0))
		w.read(t, f, f)
	})
	// The clock of one server is behind by less than may be.
	t.Run("two_servers_on_postgres", func(t *testing.T) {
		a, b := storetest.SharedEngines()["in_postgres"](t)
		w := windows{3, 1, time.Now()}
		fa, fb := storetest.Two(t, a, b)
		late := storetest.Open(t, b, fb.Clock, w.clock(200*time.Millisecond), func(o *store.Options) { o.Key = fa.Key })
		w.read(t, storetest.Open(t, a, fa.Clock, w.clock(0), func(o *store.Options) { o.Key = fa.Key }), late)
	})
}

// read lists windows at one store while both write to logs of their own and to one.
func (w windows) read(t *testing.T, reader, other *storetest.Fixture) {
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	defer writers.Wait()
	defer stop()
	accounts := []string{"acct_reader", "acct_other", "acct_both"}
	for i := range 18 {
		account, s := accounts[i%3], []*storetest.Fixture{reader, other, other}[i%3]
		if i == 2 {
			s = reader
		}
		must.Get(s.Events.RecordEvent(ctx, newEvent(account, "plan.created", fmt.Sprintf("p%d", i))))(t)
		writers.Go(func() {
			for ctx.Err() == nil {
				_, err := s.Events.RecordEvent(ctx, newEvent(account, "plan.updated", fmt.Sprintf("p%d", i)))
				if err != nil && ctx.Err() == nil && !errors.Is(err, record.ErrUnavailable) {
					t.Error(err)
					return
				}
			}
		})
	}
	read := map[int64]map[string][]string{}
	for range w.count {
		second := reader.Now().Unix()
		for reader.Now().Unix() == second {
			time.Sleep(100 * time.Microsecond)
		}
		begun := time.Now()
		reader.Events.Settle(ctx, second)
		if time.Since(begun) < time.Second { // else a commit on this machine took longer than a list waits
			read[second] = eventsOfSecond(t, reader, accounts, second)
		}
	}
	stop()
	writers.Wait()
	total, late := 0, 0
	for second, before := range read {
		after := eventsOfSecond(t, reader, accounts, second)
		for _, account := range accounts {
			total, late = total+len(after[account]), late+len(after[account])-len(before[account])
			if !slices.Equal(after[account], before[account]) {
				t.Errorf("second %d of %s had %d events when it was read after its end, and has %d", second, account, len(before[account]), len(after[account]))
			}
		}
	}
	if t.Logf("%d of %d events were late", late, total); total < len(read) || total == 0 {
		t.Errorf("only %d events in %d seconds", total, len(read))
	}
}

func eventsOfSecond(t testing.TB, s *storetest.Fixture, accounts []string, second int64) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, account := range accounts {
		found[account] = eventsOfOne(t, s, account, second)
	}
	return found
}

func eventsOfOne(t testing.TB, s *storetest.Fixture, account string, second int64) (ids []string) {
	t.Helper()
	filter := eventlog.Filter{From: second, To: second, Ascending: true, Limit: 1000}
	filter.Row = func(dst []byte, p record.Position, _ []byte) []byte {
		ids = append(ids, p.String())
		return dst
	}
	for {
		page := must.Get(s.Events.ListEvents(t.Context(), account, filter, nil))(t)
		if !page.More {
			return ids
		}
		filter.After = eventlog.CursorAt(page.Next)
	}
}

// holdTurn makes every other update wait until endTurn.
func holdTurn(t testing.TB, db kv.DB) (endTurn func()) {
	t.Helper()
	runs, run := 0, 0 // an engine may run an update first to learn what it reads
	must.Do(t, db.Update(t.Context(), func(kv.Txn) error { runs++; return nil }))
	running, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_ = db.Update(context.Background(), func(kv.Txn) error {
			if run++; run == runs {
				close(running)
				<-goOn
			}
			return nil
		})
	}()
	<-running
	return func() { close(goOn); <-ended }
}

// TestAnEventTakesItsTimeInItsTurn: a change that waits for another one gets the time at
// which its own turn begins. With an earlier time it would appear in a second that has
// ended, wherever it waited.
func TestAnEventTakesItsTimeInItsTurn(t *testing.T) {
	for name, f := range map[string]*storetest.Fixture{"in_memory": storetest.New(t), "on_disk": storetest.OnDisk(t)} {
		for change, record := range map[string]func() error{
			"record": func() error {
				_, err := f.Events.RecordEvent(t.Context(), newEvent("acct_a", "plan.updated", "p1"))
				return err
			},
			"put": func() error {
				_, err := f.Events.PutResource(t.Context(), eventlog.ResourceChange{Owner: "acct_a", Kind: "plan", ID: "p2"}, snapshot.ObjectOf(snapshot.Member{Name: "at", Value: snapshot.Text(f.Clock.Now().String())}))
				return err
			},
		} {
			endTurn := holdTurn(t, f.DB)
			var work sync.WaitGroup
			work.Go(func() {
				if err := record(); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(50 * time.Millisecond) // it waits behind the other one
			f.Clock.Advance(2 * time.Second)
			endTurn()
			work.Wait()
			now := f.Clock.Now().Unix()
			page := must.Get(f.Events.ListEvents(t.Context(), "acct_a", eventlog.Filter{To: eventlog.CreatedAtMax, Limit: 1}, nil))(t)
			if got := page.Next.Millis() / 1000; got != now {
				t.Errorf("%s, %s: the event has the time %d, want %d", name, change, got, now)
			}
		}
	}
}

// TestAListWaitsForACommitAtMostASecond: a window that is open, or ended long ago, does
// not wait for a commit that hangs, and one that has just ended waits a second.
func TestAListWaitsForACommitAtMostASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := storetest.New(t)
		ended := f.Clock.Now().Unix() - 1
		hangs := make(chan struct{})
		f.Faults.OnUpdate(func(run func() error) error { <-hangs; return run() })
		defer func() { close(hangs); synctest.Wait() }() // the turn ends before the store is closed
		for _, c := range []struct {
			name string
			to   int64
			want time.Duration
		}{
			{"open", ended + 1, 0},
			{"without_an_end", eventlog.CreatedAtMax, 0},
			{"ended_long_ago", ended - 61, 0},
			{"before_all_time", -1, 0},
			{"just_ended", ended, time.Second},
		} {
			begun := time.Now()
			f.Events.Settle(t.Context(), c.to)
			if took := time.Since(begun); took != c.want {
				t.Errorf("%s: it waited %s, want %s", c.name, took, c.want)
			}
		}
		gone, stop := context.WithCancel(t.Context())
		stop()
		begun := time.Now()
		if f.Events.Settle(gone, ended); time.Since(begun) > 0 {
			t.Error("it waited for a caller who has gone")
		}
	})
}

// TestManyReadersOfAnEndedSecondShareATurn: they cannot fill the queue of the writers.
func TestManyReadersOfAnEndedSecondShareATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := storetest.New(t)
		ended := f.Clock.Now().Unix() - 1
		turns, hangs := atomic.Int64{}, make(chan struct{})
		f.Faults.OnUpdate(func(run func() error) error { turns.Add(1); <-hangs; return run() })
		var readers sync.WaitGroup
		for range 500 {
			readers.Go(func() { f.Events.Settle(t.Context(), ended) })
		}
		synctest.Wait() // all wait, the first for a turn that has begun
		close(hangs)
		readers.Wait()
		if n := turns.Load(); n < 1 || n > 2 {
			t.Errorf("500 readers took %d turns, want one and the one that had begun", n)
		}
	})
}

package datadir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/kv/memkv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

const owner = "acct_larkspur"

// opened opens a store in memory until the test ends.
func opened(t testing.TB, change func(*Options)) *Opened {
	t.Helper()
	k := open(t, change)
	t.Cleanup(func() { _ = k.Close() })
	return k
}

func open(t testing.TB, change func(*Options)) *Opened {
	t.Helper()
	o := Options{Key: secret.NewKey(nil), Log: slog.New(slog.DiscardHandler)}
	change(&o)
	k, err := Open(context.Background(), o)
	if err != nil {
		t.Fatalf("Open() = %v, want nil", err)
	}
	return k
}

func over(state *memkv.State) func(*Options) {
	return func(o *Options) { o.State = state }
}

// addEvents imports the events with the numbers from first to last-1.
func addEvents(t testing.TB, s *store.Store, first, last int) {
	t.Helper()
	var lines []string
	for i := first; i < last; i++ {
		lines = append(lines, fmt.Sprintf(`{"type":"customer.updated","resource":"r%d","eventData":{"object":{"note":"%040d"}},"createdAt":%d}`, i%50, i, 1_773_000_000+i))
	}
	storetest.ImportLines(t, s, owner, lines...)
}

func countEvents(t testing.TB, s *store.Store) int {
	t.Helper()
	page, err := s.Events.ListEvents(context.Background(), owner, eventlog.Filter{To: eventlog.CreatedAtMax, Limit: 1000}, nil)
	if err != nil && !errors.Is(err, record.ErrNotFound) {
		t.Fatalf("ListEvents() = %v, want nil", err)
	}
	return bytes.Count(page.Data, []byte(`"customer.updated"`))
}

func TestStateIsOpenedAgain(t *testing.T) {
	t.Parallel()
	first := opened(t, func(*Options) {})
	addEvents(t, first.Store, 0, 10)
	first.Store.Audit(store.AuditLine{What: store.AuditAdmin, Reason: "a line that waits"})
	state := must.Get(first.State(t.Context()))(t)
	addEvents(t, first.Store, 10, 17)

	second, third := opened(t, over(state)), opened(t, over(state))
	addEvents(t, second.Store, 10, 13)
	for _, c := range []struct {
		name string
		k    *Opened
		want int
	}{{"first", first, 17}, {"second", second, 13}, {"third", third, 10}} {
		if got := countEvents(t, c.k.Store); got != c.want {
			t.Errorf("the %s store has %d events, want %d", c.name, got, c.want)
		}
	}
	if got, want := third.Store.InstanceID(), first.Store.InstanceID(); got != want {
		t.Errorf("InstanceID() = %s, want that of the state, %s", got, want)
	}
	lines, err := third.Store.ListAudit(t.Context(), record.Position{}, 10)
	if err != nil || len(lines) == 0 || lines[0].Reason != "a line that waits" {
		t.Errorf("ListAudit() = %v, %v, want the line that waited when the state was taken", lines, err)
	}
}

func TestEnginesInMemory(t *testing.T) {
	t.Parallel()
	for _, engine := range []EngineName{"", EngineMemory, EngineBadger} {
		t.Run("engine_"+string(engine), func(t *testing.T) {
			t.Parallel()
			var commits atomic.Int64
			k := opened(t, func(o *Options) {
				o.Engine = engine
				o.OnCommit = func(updates int, _ time.Duration) { commits.Add(int64(updates)) }
			})
			if _, isMemory := k.DB.(memoryEngine); isMemory != (engine != EngineBadger) {
				t.Errorf("Engine %q opens %T", engine, k.DB)
			}
			before := commits.Load()
			addEvents(t, k.Store, 0, 10)
			if commits.Load() == before {
				t.Error("an import counts no commit")
			}
			if err := errors.Join(k.DB.Ready(), k.DB.Check(t.Context())); err != nil {
				t.Errorf("Ready() and Check() = %v, want nil", err)
			}
			if _, onDisk, err := SpaceOf(k.DB); onDisk || err != nil {
				t.Errorf("Space() = %t, %v, want none", onDisk, err)
			}
			var file bytes.Buffer
			if _, err := k.Store.Backup(t.Context(), &file, store.BackupNotes{}); err != nil {
				t.Fatalf("Backup() = %v, want nil", err)
			}
			b, err := store.OpenBackup(&file)
			if err != nil {
				t.Fatalf("OpenBackup() = %v, want nil", err)
			}
			defer b.Close()
			other := memkv.New(nil)
			if _, err := b.Load(t.Context(), other, time.Now()); err != nil {
				t.Errorf("Load() = %v, want nil", err)
			}
			if got := countEvents(t, opened(t, over(other.State())).Store); got != 10 {
				t.Errorf("the backup has %d events, want 10", got)
			}
			if err := k.Close(); err != nil {
				t.Errorf("Close() = %v, want nil", err)
			}
			if err := k.DB.Ready(); engine != EngineBadger && !errors.Is(err, kv.ErrUnavailable) {
				t.Errorf("Ready() after Close = %v, want ErrUnavailable", err)
			}
		})
	}
}

// TestExpiredRecordsStayForADay: an expired token is then refused as expired.
func TestExpiredRecordsStayForADay(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock()
	k := opened(t, func(o *Options) { o.Now = clock.Now })
	key := []byte("q")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	found := func() bool {
		t.Helper()
		must(k.DB.Update(t.Context(), func(kv.Txn) error { return nil }))
		err := k.DB.View(t.Context(), func(r kv.Reader) error { _, err := r.Get(key); return err })
		if err != nil && !errors.Is(err, kv.ErrNotFound) {
			t.Fatal(err)
		}
		return err == nil
	}
	must(k.DB.Update(t.Context(), func(tx kv.Txn) error { return tx.Set(key, nil, clock.Now().Add(time.Hour)) }))
	if clock.Advance(25*time.Hour - time.Second); !found() {
		t.Error("a record is gone less than a day after it expired")
	}
	if clock.Advance(time.Second); found() {
		t.Error("a record is in memory a day after it expired")
	}
}

// TestOpeningAStateIsIndependentOfItsSize compares allocations, which do not depend on
// the machine.
func TestOpeningAStateIsIndependentOfItsSize(t *testing.T) {
	const spare = 20 // for what other goroutines allocate
	var allocs []float64
	for _, events := range []int{10, 5_000} {
		source := opened(t, func(*Options) {})
		addEvents(t, source.Store, 0, events)
		state := must.Get(source.State(t.Context()))(t)
		allocs = append(allocs, testing.AllocsPerRun(50, func() {
			openAndClose(t, over(state))
		}))
	}
	if allocs[1] > allocs[0]+spare {
		t.Errorf("opening a state of 10 events allocates %v times, one of 5,000 events %v times", allocs[0], allocs[1])
	}
}

func openAndClose(t testing.TB, change func(*Options)) {
	must.Do(t, open(t, change).Close())
}

// BenchmarkReset takes the state of a store with 10,000 events and opens it again,
// beside the same with 10 events. Each time is of 100 resets.
//
//	go test ./cli/datadir -run '^$' -bench 'Reset|Start' -benchmem
func BenchmarkReset(b *testing.B) {
	const resets = 100
	reset := func(events int) storetest.Work {
		source := opened(b, func(*Options) {})
		addEvents(b, source.Store, 0, events)
		return storetest.Timed(func() {
			for range resets {
				openAndClose(b, over(must.Get(source.State(b.Context()))(b)))
			}
		})
	}
	large, small := reset(10_000), reset(10)
	var pairs storetest.Pairs
	for b.Loop() {
		pairs.Take(large, small)
	}
	pairs.Report(b, "10000-events", "10-events")
}

// BenchmarkStart opens each engine with nothing in it.
func BenchmarkStart(b *testing.B) {
	for _, engine := range []EngineName{EngineMemory, EngineBadger} {
		b.Run(string(engine), func(b *testing.B) {
			for b.Loop() {
				openAndClose(b, func(o *Options) { o.Engine = engine })
			}
		})
	}
}

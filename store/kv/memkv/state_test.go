package memkv

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
	"weak"

	"pgregory.net/rapid"

	"tollhouse/store/kv"
)

// many is enough keys for a tree of several levels.
const many = 10_000

func write(t testing.TB, db *DB, fn func(kv.Txn) error) {
	t.Helper()
	if err := db.Update(context.Background(), fn); err != nil {
		t.Errorf("Update() = %v, want nil", err)
	}
}

// fill sets keys 0 to n-1 to the value.
func fill(t testing.TB, db *DB, n int, value string) {
	t.Helper()
	for first := 0; first < n; first += kv.UpdateWritesMax {
		write(t, db, func(tx kv.Txn) error {
			for i := first; i < min(n, first+kv.UpdateWritesMax); i++ {
				if err := tx.Set(fmt.Appendf(nil, "k%06d", i), []byte(value), time.Time{}); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// content returns everything in db.
func content(t testing.TB, db *DB) map[string]string {
	t.Helper()
	all := map[string]string{}
	last := ""
	err := db.View(context.Background(), func(r kv.Reader) error {
		for key, value := range r.Scan(kv.Range{}) {
			if string(key) <= last {
				t.Errorf("Scan() yields %q after %q", key, last)
			}
			last = string(key)
			all[last] = string(value)
		}
		return nil
	})
	if err != nil {
		t.Errorf("View() = %v, want nil", err)
	}
	return all
}

// TestStateStays keeps states of a tree of several levels at random moments, opens
// stores over them, and writes to all of those in turns.
func TestStateStays(t *testing.T) {
	t.Parallel()
	type branch struct {
		db   *DB
		want map[string]string
	}
	type kept struct {
		state *State
		want  map[string]string
	}
	random := rand.New(rand.NewPCG(1, 2))
	first := &branch{New(nil), map[string]string{}}
	fill(t, first.db, many, "begun")
	first.want = content(t, first.db)
	branches, states := []*branch{first}, []kept{}
	for range 400 {
		b := branches[random.IntN(len(branches))]
		write(t, b.db, func(tx kv.Txn) error {
			lo := random.IntN(many)
			for i := lo; i < lo+1+random.IntN(200); i++ {
				key := fmt.Sprintf("k%06d", i)
				if random.IntN(2) == 0 {
					b.want[key] = strconv.FormatUint(random.Uint64(), 36)
					if err := tx.Set([]byte(key), []byte(b.want[key]), time.Time{}); err != nil {
						return err
					}
					continue
				}
				delete(b.want, key)
				if err := tx.Delete([]byte(key)); err != nil {
					return err
				}
			}
			return nil
		})
		switch random.IntN(20) {
		case 0:
			states = append(states, kept{b.db.State(), maps.Clone(b.want)})
		case 1:
			if len(states) > 0 {
				from := states[random.IntN(len(states))]
				branches = append(branches, &branch{NewFrom(from.state, nil), maps.Clone(from.want)})
			}
		}
	}
	for i, b := range branches {
		if got := content(t, b.db); !maps.Equal(got, b.want) {
			t.Errorf("store %d of %d differs: %d keys, want %d", i, len(branches), len(got), len(b.want))
		}
	}
	for i, s := range states {
		if got := content(t, NewFrom(s.state, nil)); !maps.Equal(got, s.want) {
			t.Errorf("state %d of %d changed: %d keys, want %d", i, len(states), len(got), len(s.want))
		}
	}
	if len(branches) < 4 || len(states) < 4 {
		t.Errorf("%d stores and %d states, want more", len(branches), len(states))
	}
}

// TestStoresOverOneStateShareNoWrites opens a state many times at once while its own
// store goes on writing.
func TestStoresOverOneStateShareNoWrites(t *testing.T) {
	t.Parallel()
	const stores, updates = 8, 40
	source := New(time.Now)
	fill(t, source, 2000, "begun")
	state := source.State()
	want := content(t, source)
	var wg sync.WaitGroup
	for n := range stores {
		wg.Go(func() {
			db := source
			if n > 0 {
				db = NewFrom(state, time.Now)
			}
			own, mine := strconv.Itoa(n), maps.Clone(want)
			for i := range updates {
				key := fmt.Sprintf("k%06d", i*47)
				write(t, db, func(tx kv.Txn) error {
					for found, value := range tx.Scan(kv.Range{Lo: []byte(key), Limit: 3}) {
						if string(value) != mine[string(found)] {
							t.Errorf("store %d reads %q = %q, want %q", n, found, value, mine[string(found)])
						}
						if err := tx.Set(fmt.Appendf(nil, "expired %s", found), []byte(own), time.Unix(1, 0)); err != nil {
							return err
						}
					}
					return tx.Set([]byte(key), []byte(own), time.Time{})
				})
				mine[key] = own
				if got := content(t, db); !maps.Equal(got, mine) {
					t.Errorf("store %d differs after update %d", n, i)
				}
			}
		})
	}
	wg.Wait()
	if got := content(t, NewFrom(state, nil)); !maps.Equal(got, want) {
		t.Error("the state changed under the writes of stores over it")
	}
}

// TestStateIsOpenedByManyAtOnce is for the race detector: the first write of every store
// copies the same state.
func TestStateIsOpenedByManyAtOnce(t *testing.T) {
	t.Parallel()
	source := New(nil)
	fill(t, source, 10, "begun")
	state := source.State()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 500 {
				fill(t, NewFrom(state, nil), 1, "changed")
			}
		})
	}
	wg.Wait()
}

// TestStateTakesConstantTime counts allocations, which do not depend on the machine.
func TestStateTakesConstantTime(t *testing.T) {
	for _, keys := range []int{10, many} {
		db := New(nil)
		fill(t, db, keys, "begun")
		if n := testing.AllocsPerRun(100, func() { NewFrom(db.State(), nil) }); n > 1 {
			t.Errorf("State and NewFrom over %d keys allocate %v times, want once: the DB", keys, n)
		}
	}
}

// TestUpdateCopiesOnlyItsPath bounds what one write to a large store allocates.
func TestUpdateCopiesOnlyItsPath(t *testing.T) {
	const bytesMax = 64 << 10 // the whole tree of 100,000 keys has over 1 MiB of pointers
	db := New(nil)
	fill(t, db, 10*many, "begun")
	const updates = 100
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range updates {
		write(t, db, func(tx kv.Txn) error { return tx.Set([]byte("k050000"), []byte("changed"), time.Time{}) })
	}
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) / updates; got > bytesMax {
		t.Errorf("an update of one key of %d allocates %d bytes, want at most %d", 10*many, got, bytesMax)
	}
}

// TestDroppedEntriesAreGarbage looks for entries that only a dropped store had, while
// another store over the same beginning goes on.
func TestDroppedEntriesAreGarbage(t *testing.T) {
	t.Parallel()
	source := New(nil)
	fill(t, source, many, "begun")
	state := source.State()
	dropped := func() (gone []weak.Pointer[entry]) {
		db := NewFrom(state, nil)
		fill(t, db, many, "changed")
		db.current.Load().entries.Scan(func(e *entry) bool {
			gone = append(gone, weak.Make(e))
			return true
		})
		return gone
	}()
	alive := func(e weak.Pointer[entry]) bool { return e.Value() != nil }
	for range 10 {
		if runtime.GC(); !slices.ContainsFunc(dropped, alive) {
			break
		}
	}
	if n := len(slices.DeleteFunc(dropped, func(e weak.Pointer[entry]) bool { return !alive(e) })); n > 0 {
		t.Errorf("%d of %d entries of a dropped store are still in memory", n, many)
	}
	if got := content(t, NewFrom(state, nil)); len(got) != many || got["k000007"] != "begun" {
		t.Errorf("the state has %d keys, want %d", len(got), many)
	}
}

// TestExpiryIsIndexed checks the index against the entries after every kind of change.
func TestExpiryIsIndexed(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_700_000_000, 0)
	now := start
	db := New(func() time.Time { return now })
	set := func(tx kv.Txn, key string, in time.Duration) {
		var expiresAt time.Time
		if in != 0 {
			expiresAt = start.Add(in)
		}
		if err := tx.Set([]byte(key), []byte("v"), expiresAt); err != nil {
			t.Errorf("Set() = %v, want nil", err)
		}
	}
	write(t, db, func(tx kv.Txn) error {
		for _, key := range []string{"dies", "dies too", "renewed", "shortened", "made lasting", "deleted", "set again"} {
			set(tx, key, time.Minute)
		}
		set(tx, "lasts", 0)
		return nil
	})
	write(t, db, func(tx kv.Txn) error {
		set(tx, "renewed", time.Hour)
		set(tx, "shortened", time.Second)
		set(tx, "made lasting", 0)
		set(tx, "lasts", 0)
		for _, key := range []string{"deleted", "set again"} {
			if err := tx.Delete([]byte(key)); err != nil {
				return err
			}
		}
		set(tx, "set again", time.Hour)
		return nil
	})
	before := db.State()
	for _, step := range []struct {
		at       time.Duration
		want     []string
		expiring int
	}{
		{time.Second - 1, []string{"dies", "dies too", "lasts", "made lasting", "renewed", "set again", "shortened"}, 5},
		{time.Second, []string{"dies", "dies too", "lasts", "made lasting", "renewed", "set again"}, 4},
		{time.Minute, []string{"lasts", "made lasting", "renewed", "set again"}, 2},
		{time.Hour, []string{"lasts", "made lasting"}, 0},
	} {
		now = start.Add(step.at)
		write(t, db, func(kv.Txn) error { return nil })
		if got := slices.Sorted(maps.Keys(content(t, db))); !slices.Equal(got, step.want) {
			t.Errorf("after %s the keys are %q, want %q", step.at, got, step.want)
		}
		if got := db.State().expiring.Len(); got != step.expiring {
			t.Errorf("after %s the index has %d entries, want %d", step.at, got, step.expiring)
		}
	}
	now = start
	if got := content(t, NewFrom(before, db.now)); len(got) != 7 {
		t.Errorf("a state from before has %d keys, want 7", len(got))
	}
}

// BenchmarkCopy saves the state and opens a store over it that writes one key: a reset
// and the first request after it.
//
//	go test ./store/kv/memkv -run '^$' -bench Copy -count 5
func BenchmarkCopy(b *testing.B) {
	for _, keys := range []int{10, many, 10 * many} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			db := New(time.Now)
			fill(b, db, keys, "begun")
			for b.Loop() {
				fill(b, NewFrom(db.State(), time.Now), 1, "changed")
			}
		})
	}
}

// TestSize: the size of what is stored is exact after writes, overwrites, removals and
// expiry.
func TestSize(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1000, 0)
		db := New(func() time.Time { return now })
		for range rapid.IntRange(1, 20).Draw(t, "updates") {
			err := db.Update(ctx, func(tx kv.Txn) error {
				for range rapid.IntRange(0, 5).Draw(t, "writes") {
					key := []byte(rapid.StringMatching("[a-d]{1,2}").Draw(t, "key"))
					if rapid.Bool().Draw(t, "delete") {
						_ = tx.Delete(key)
						continue
					}
					var expires time.Time
					if rapid.Bool().Draw(t, "expires") {
						expires = now.Add(time.Duration(rapid.IntRange(1, 5).Draw(t, "after")) * time.Second)
					}
					_ = tx.Set(key, []byte(rapid.StringN(0, 9, -1).Draw(t, "value")), expires)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			now = now.Add(time.Second)
			want := 0
			err = db.Snapshot(ctx, func(page []kv.Record) error {
				for _, r := range page {
					want += len(r.Key) + len(r.Value)
				}
				return nil
			})
			if err != nil || db.Size() != want {
				t.Fatalf("Size() = %d, want %d; %v", db.Size(), want, err)
			}
		}
	})
}

package badgerkv

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/storetest/must"
)

// ledger is a model of a store with several writers. The store numbers the updates, and
// the ledger knows what each did, so that it knows the state after any number of them.
type ledger struct {
	mu   sync.Mutex
	done map[uint64]map[string]string // "" is a removal
}

var countKey = []byte("count")

// write makes one update of a writer: it changes or removes some keys of its own and
// shared ones, and counts the update.
func (l *ledger) write(ctx context.Context, db *DB, writer, turn int) error {
	return l.update(ctx, db, func(n uint64) map[string]string {
		return map[string]string{
			fmt.Sprintf("a/%d/%d", writer, turn%300):       fmt.Sprint(n),
			fmt.Sprintf("z/%d/%d", writer, turn%300):       fmt.Sprint(n),
			fmt.Sprintf("shared/%d", turn%50):              strings.Repeat(fmt.Sprint(n), 200),
			fmt.Sprintf("a/%d/%d", writer, (turn+150)%300): "",
		}
	})
}

// fill makes the store so large that a backup takes several pages.
func (l *ledger) fill(ctx context.Context, db *DB, part int) error {
	return l.update(ctx, db, func(uint64) map[string]string {
		did := map[string]string{}
		for i := range 900 {
			did[fmt.Sprintf("m/%d/%d", part, i)] = strings.Repeat("m", 1000)
		}
		return did
	})
}

func (l *ledger) update(ctx context.Context, db *DB, change func(n uint64) map[string]string) error {
	return db.Update(ctx, func(tx kv.Txn) error {
		n := uint64(1)
		if v, err := tx.Get(countKey); err == nil {
			n += binary.BigEndian.Uint64(v)
		}
		did := change(n)
		for key, value := range did {
			write := func() error { return tx.Set([]byte(key), []byte(value), time.Time{}) }
			if value == "" {
				write = func() error { return tx.Delete([]byte(key)) }
			}
			if err := write(); err != nil {
				return err
			}
		}
		l.mu.Lock()
		l.done[n] = did // an update that runs again is the same
		l.mu.Unlock()
		return tx.Set(countKey, binary.BigEndian.AppendUint64(nil, n), time.Time{})
	})
}

// after returns the state after n updates.
func (l *ledger) after(n uint64) map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	state := map[string]string{}
	for i := uint64(1); i <= n; i++ {
		maps.Copy(state, l.done[i])
	}
	maps.DeleteFunc(state, func(_, value string) bool { return value == "" })
	return state
}

// judge reports whether the records are the state after the number of updates that they
// name.
func (l *ledger) judge(read map[string]string) bool {
	n := uint64(0)
	if count, ok := read[string(countKey)]; ok {
		n = binary.BigEndian.Uint64([]byte(count))
		delete(read, string(countKey))
	}
	return maps.Equal(read, l.after(n))
}

// TestSnapshotsUnderLoad takes backups while four writers write. The same judge must
// refuse one whose pages are of different moments.
//
// Promise (Backup): a backup beside writers is complete and consistent
func TestSnapshotsUnderLoad(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	const writers, backups = 4, 50
	now := time.Now() // stands still, so that no snapshot rests
	db := mustOpen(t, Options{Dir: t.TempDir(), wall: func() time.Time { return now }})
	l := &ledger{done: map[uint64]map[string]string{}}
	for part := range 2 {
		must.Do(t, l.fill(t.Context(), db, part))
	}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for turn := 0; ctx.Err() == nil; turn++ {
				if err := l.write(ctx, db, w, turn); err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("writer %d: %v", w, err)
				}
			}
		})
	}
	defer func() { stop(); all.Wait() }()
	torn, moments := 0, map[string]bool{}
	for range backups {
		read := map[string]string{}
		first := true
		must.Do(t, db.Snapshot(t.Context(), func(page []kv.Record) error {
			for _, r := range page {
				read[string(r.Key)] = string(r.Value)
			}
			if first {
				waitForCommit(db)
			}
			first = false
			return nil
		}))
		moments[read[string(countKey)]] = true
		if !l.judge(read) {
			torn++
		}
	}
	must.Figure(t, "backups", backups)
	must.Figure(t, "torn", torn)
	if torn > 0 || len(moments) < backups {
		t.Errorf("%d of %d backups are torn, of %d different moments", torn, backups, len(moments))
	}
	torn = 0
	for range backups {
		read := map[string]string{}
		for lo := []byte(nil); ; {
			before := len(read)
			must.Do(t, db.View(t.Context(), func(r kv.Reader) error {
				for key, value := range r.Scan(kv.Range{Lo: lo, Limit: 100}) {
					read[string(key)] = string(value)
					lo = append(bytes.Clone(key), 0)
				}
				return nil
			}))
			if len(read) == before {
				break
			}
			if before == 0 {
				waitForCommit(db)
			}
		}
		if !l.judge(read) {
			torn++
		}
	}
	if torn == 0 {
		t.Error("backups of pages that are each of their own moment are not torn, so this test cannot fail")
	}
}

// waitForCommit returns when another group has been committed.
func waitForCommit(db *DB) {
	for seen := db.snapshots.last(); db.snapshots.last() == seen; {
		runtime.Gosched()
	}
}

// TestSnapshotHoldsNothingUp takes a backup whose reader blocks until updates, views and
// Check are through.
func TestSnapshotHoldsNothingUp(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{Dir: t.TempDir()})
	put(t, db, "a", "1")
	err := db.Snapshot(t.Context(), func(page []kv.Record) error {
		for i := range 50 {
			put(t, db, "a", fmt.Sprint(i))
		}
		wantValue(t, db, "a", "49")
		return db.Check(t.Context())
	})
	if err != nil {
		t.Errorf("Snapshot() = %v, want nil", err)
	}
}

func TestSnapshotRefusesDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	value := noise("value", 300)
	db := mustOpen(t, Options{Dir: dir})
	put(t, db, "ka", "whole", "kb", value)
	mustClose(t, db)
	flip(t, dir, "*.sst", value)
	damaged := mustOpen(t, Options{Dir: dir})
	err := damaged.Snapshot(t.Context(), func([]kv.Record) error {
		t.Error("a page of a damaged store was handed out")
		return nil
	})
	if !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("Snapshot(damaged) = %v, want ErrCorrupt", err)
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*.sst")); len(files) == 0 {
		t.Error("the damaged table is gone")
	}
}

// TestLoadKeepsExpiry: records expire at the same second after a restore.
func TestLoadKeepsExpiry(t *testing.T) {
	t.Parallel()
	from, to := mustOpen(t, Options{InMemory: true}), mustOpen(t, Options{InMemory: true})
	expiresAt := time.Now().Add(time.Hour)
	err := from.Update(t.Context(), func(tx kv.Txn) error { return tx.Set([]byte("token"), []byte("1"), expiresAt) })
	must.Do(t, err)
	var given, stored []kv.Record
	note := func(to *[]kv.Record) func([]kv.Record) error {
		return func(page []kv.Record) error {
			for _, r := range page {
				*to = append(*to, kv.Record{Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value), ExpiresAt: r.ExpiresAt})
			}
			return nil
		}
	}
	err = from.Snapshot(t.Context(), note(&given))
	if err == nil {
		err = to.Load(t.Context(), func(yield func(kv.Record, error) bool) {
			for _, r := range given {
				if !yield(r, nil) {
					return
				}
			}
		})
	}
	if err == nil {
		err = to.Snapshot(t.Context(), note(&stored))
	}
	want := expiresAt.Add(engineExpiryMargin).Unix()
	if err != nil || len(stored) != 1 || stored[0].ExpiresAt != want {
		t.Errorf("after a restore the record is %+v, %v; want it to expire at %d", stored, err, want)
	}
}

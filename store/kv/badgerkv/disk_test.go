package badgerkv

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/storetest/must"
)

func TestReopen(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "made", "on", "the", "way")
	db := mustOpen(t, Options{Dir: dir})
	put(t, db, "a", "1", "b", "2")
	put(t, db, "a", "3")
	left := crash(t, dir)
	mustClose(t, db)

	for name, dir := range map[string]string{"closed": dir, "killed": left} {
		again := mustOpen(t, Options{Dir: dir})
		wantValue(t, again, "a", "3")
		wantValue(t, again, "b", "2")
		put(t, again, "b", name)
		wantValue(t, again, "b", name)
	}
}

// TestDeletedLastIsNotBehind compacts a store whose newest writes are deletes: Badger
// then drops them, and with them its own highest version.
func TestDeletedLastIsNotBehind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	session := func(run func(*DB)) {
		t.Helper()
		db := mustOpen(t, Options{Dir: dir})
		run(db)
		mustClose(t, db)
	}
	const tables = 8 // one per session, and more than the first level holds
	for range tables {
		session(func(db *DB) { put(t, db, "a", "1", "b", "2") })
	}
	session(func(db *DB) {
		for _, key := range []string{"a", "b"} {
			must.Do(t, db.Update(t.Context(), func(tx kv.Txn) error { return tx.Delete([]byte(key)) }))
		}
	})
	session(func(db *DB) {
		must.Do(t, db.engine.Flatten(compactors))
		if n := len(db.engine.Tables()); n != 1 {
			t.Errorf("%d tables after compaction, want 1", n)
		}
	})
	session(func(db *DB) { wantAbsent(t, db, "a") })
}

// TestHighestVersionStays writes groups that set, delete and expire, has them stored in
// tables and compacted repeatedly, and finds the version of the last commit each time.
func TestHighestVersionStays(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	opts := Options{Dir: t.TempDir()}
	random := rand.New(rand.NewPCG(3, 4))
	soon := time.Now().Add(-48 * time.Hour) // past, with the day of grace
	for session := range 12 {
		db := mustOpen(t, opts)
		for range 1 + random.IntN(6) {
			kind, key := random.IntN(4), fmt.Appendf(nil, "k%d", random.IntN(5))
			must.Do(t, db.Update(t.Context(), func(tx kv.Txn) error {
				switch kind {
				case 0:
					return tx.Set(key, []byte("stays"), time.Time{})
				case 1:
					return tx.Set(key, []byte("goes"), soon)
				}
				return tx.Delete(key)
			}))
		}
		last := db.committer.version
		mustClose(t, db)
		db = mustOpen(t, opts)
		must.Do(t, db.engine.Flatten(compactors))
		mustClose(t, db)
		db = mustOpen(t, opts)
		if found := db.engine.MaxVersion(); found != last {
			t.Fatalf("session %d: the highest version is %d, want %d", session, found, last)
		}
		mustClose(t, db)
	}
}

// TestNoAnchorInAnImport: an update that only sets lasting keys needs none.
func TestNoAnchorInAnImport(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, Options{InMemory: true})
	defer mustClose(t, db)
	anchored := func() bool {
		tx := db.engine.NewTransactionAt(db.committer.version, false)
		defer tx.Discard()
		_, err := tx.Get(anchorKey)
		return err == nil
	}
	put(t, db, "a", "1")
	put(t, db, "a", "2", "b", "1")
	if anchored() {
		t.Error("the anchor was written beside what stays")
	}
	must.Do(t, db.Update(t.Context(), func(tx kv.Txn) error { return tx.Delete([]byte("a")) }))
	if !anchored() {
		t.Error("the anchor was not written with a group that only deletes")
	}
}

func TestCutLogIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := mustOpen(t, Options{Dir: dir})
	for i := range 20 {
		put(t, db, fmt.Sprint("key", i), noise("value", 500))
	}
	left := crash(t, dir)
	logs, err := filepath.Glob(filepath.Join(left, "*.mem"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("logs = %q, %v, want one", logs, err)
	}
	must.Do(t, os.Truncate(logs[0], 6000))

	for range 2 { // the refusal does not change the stamp
		_, err = Open(Options{Dir: left})
		var behind *BehindError
		if !errors.As(err, &behind) || behind.Stamped != 20 || behind.Found >= 20 || behind.Found == 0 {
			t.Fatalf("Open(cut log) = %v, want a BehindError with 20 stamped and fewer found", err)
		}
	}
	if want := fmt.Sprintf("the last %d commits are lost", behindBy(err)); !strings.Contains(err.Error(), want) {
		t.Errorf("%q does not say %q", err, want)
	}

	// The remedy in its hint.
	must.Do(t, os.Remove(stampPath(left)))
	again := mustOpen(t, Options{Dir: left})
	wantAbsent(t, again, "key19")
	put(t, again, "key19", "again")
}

func behindBy(err error) uint64 {
	var behind *BehindError
	errors.As(err, &behind)
	return behind.Stamped - behind.Found
}

func TestDamagedStampIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mustClose(t, mustOpen(t, Options{Dir: dir}))
	good := must.Get(os.ReadFile(stampPath(dir)))(t)
	flipped := bytes.Clone(good)
	flipped[9] ^= 1
	for name, content := range map[string][]byte{"empty": nil, "short": good[:20], "flipped": flipped, "foreign": []byte("not a stamp of ours, at all.")} {
		must.Do(t, os.WriteFile(stampPath(dir), content, 0o600))
		var behind *BehindError
		if _, err := Open(Options{Dir: dir}); !errors.As(err, &behind) || behind.Damage == "" {
			t.Errorf("Open(%s stamp) = %v, want a BehindError about the stamp", name, err)
		}
	}
}

func TestWrongClockIsRefused(t *testing.T) {
	t.Parallel()
	written := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	dir := t.TempDir()
	at := func(wall time.Time) Options {
		return Options{Dir: dir, wall: func() time.Time { return wall }}
	}
	cases := []struct {
		name    string
		wall    time.Time
		refused bool
	}{
		{"the same", written, false},
		{"60 s behind", written.Add(-60 * time.Second), false},
		{"61 s behind", written.Add(-61 * time.Second), true},
		{"1970", time.Unix(0, 0), true},
		{"400 days ahead", written.AddDate(0, 0, 400), false},
		{"401 days ahead", written.AddDate(0, 0, 401), true},
	}
	for _, c := range cases {
		opts := at(written)
		opts.AcceptClock = true
		mustClose(t, mustOpen(t, opts))

		db, err := Open(at(c.wall))
		var clock *ClockError
		if errors.As(err, &clock) != c.refused || (!c.refused && err != nil) {
			t.Errorf("%s: Open() = %v, want refused %t", c.name, err, c.refused)
		}
		if err == nil {
			mustClose(t, db)
			continue
		}
		if !strings.Contains(clock.Error(), "2030-01-02T03:04:05Z") || !strings.Contains(clock.Hint(), "--accept-clock") {
			t.Errorf("%s: %q, hint %q: want both times and the cure", c.name, clock, clock.Hint())
		}
		opts = at(c.wall)
		opts.AcceptClock = true
		mustClose(t, mustOpen(t, opts))
		mustClose(t, mustOpen(t, at(c.wall))) // once is enough
	}
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	var free atomic.Uint64
	free.Store(math.MaxUint64)
	space := func(string) (uint64, error) { return free.Load(), nil }

	t.Run("at_open_nothing_is_touched", func(t *testing.T) {
		dir := t.TempDir()
		_, err := Open(Options{Dir: dir, FreeSpace: func(string) (uint64, error) { return freeSpaceMin - 1, nil }})
		var disk *DiskError
		if !errors.As(err, &disk) || !strings.Contains(disk.Hint(), "96 MiB") {
			t.Errorf("Open(full disk) = %v, want a DiskError that names the need", err)
		}
		if files, _ := os.ReadDir(dir); len(files) != 0 {
			t.Errorf("Open(full disk) left %v", files)
		}
	})
	t.Run("later_writes_are_refused_and_come_back", func(t *testing.T) {
		db := mustOpen(t, Options{Dir: t.TempDir(), FreeSpace: space})
		put(t, db, "a", "1")
		free.Store(freeSpaceOrdinary - 1)
		err := db.Update(t.Context(), func(tx kv.Txn) error { _ = setAll(tx, "a", "2"); return nil })
		if !errors.Is(err, kv.ErrFull) {
			t.Errorf("Update(full disk) = %v, want ErrFull, even if the error of the write is dropped", err)
		}
		if err := db.Update(t.Context(), func(tx kv.Txn) error { return nil }); err != nil {
			t.Errorf("an Update that writes nothing on a full disk = %v", err)
		}
		var disk *DiskError
		if !errors.As(err, &disk) || !strings.Contains(disk.Hint(), "160 MiB") {
			t.Errorf("Update(full disk) = %v, want a DiskError that names the need", err)
		}
		wantValue(t, db, "a", "1")
		free.Store(freeSpaceOrdinary)
		put(t, db, "a", "2")
		wantValue(t, db, "a", "2")
	})
	t.Run("the_system_is_asked", func(t *testing.T) {
		if n, err := freeSpace(t.TempDir()); err != nil || n == 0 {
			t.Errorf("freeSpace() = %d, %v, want more than 0", n, err)
		}
	})
}

func TestOpenRefusals(t *testing.T) {
	t.Parallel()
	t.Run("directory_is_a_file", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "file")
		must.Do(t, os.WriteFile(path, nil, 0o600))
		var disk *DiskError
		if _, err := Open(Options{Dir: path}); !errors.As(err, &disk) {
			t.Errorf("Open(a file) = %v, want a DiskError", err)
		}
	})
	t.Run("disk_that_fails", func(t *testing.T) {
		t.Parallel()
		failed := fmt.Errorf("while opening memtables: %v", &os.PathError{Op: "sync", Path: "00001.mem", Err: syscall.EIO})
		var disk *DiskError
		if err := openError(Options{Dir: "data"}, failed); !errors.As(err, &disk) || disk.Hint() == "" || !strings.Contains(err.Error(), "00001.mem") {
			t.Errorf("error = %v, want a DiskError that names the file and the next step", err)
		}
	})
	t.Run("open_already", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		db := mustOpen(t, Options{Dir: dir})
		put(t, db, "a", "1")
		if _, err := Open(Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("Open(open already) = %v, want an error that names the directory", err)
		}
		put(t, db, "a", "2")
		wantValue(t, db, "a", "2")
	})
}

// TestValuesStayOutOfTheValueLog stores the largest values, and finds none in the log,
// which returns damaged values silently.
func TestValuesStayOutOfTheValueLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := mustOpen(t, Options{Dir: dir})
	value := noise("largest", kv.ValueSizeMax)
	put(t, db, "a", value)
	left := crash(t, dir)
	logs, err := filepath.Glob(filepath.Join(left, "*.vlog"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("value logs = %q, %v, want one", logs, err)
	}
	content := must.Get(os.ReadFile(logs[0]))(t)
	if bytes.Contains(content, []byte(value[:64])) {
		t.Error("a value is in the value log")
	}
	wantValue(t, mustOpen(t, Options{Dir: left}), "a", value)
}

package badgerkv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/storetest/must"
)

// putAs stores a pair as an update of the class.
func putAs(t testing.TB, db *DB, c kv.Class, key, value string) error {
	t.Helper()
	return db.Update(t.Context(), func(tx kv.Txn) error {
		tx.As(c)
		return setAll(tx, key, value)
	})
}

// TestClassesAreRefusedInOrder: while the disk runs low, ordinary updates are refused first
// and what operators end last. A refusal says what the class needs, and that everything
// is possible again with what ordinary updates need; Ready names the classes.
//
// Promise (Credentials, memory, connections): on a nearly full disk changes are refused first, then
// sign-ins and refreshes, of those who wrote most before the others, and what ends something last,
// operators' at the very end
func TestClassesAreRefusedInOrder(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	var free atomic.Uint64
	free.Store(plentyFree)
	db := mustOpen(t, Options{Dir: t.TempDir(), FreeSpace: func(string) (uint64, error) { return free.Load(), nil }})
	for c := range kv.Class(kv.Classes) {
		for least, needs := range classSpace {
			for _, missing := range []uint64{0, 1} {
				free.Store(freeSpaceMin + needs - missing)
				err := putAs(t, db, c, "a", "1")
				if allowed := int(c) >= least+int(missing); allowed != (err == nil) || err != nil && !errors.Is(err, kv.ErrFull) {
					t.Errorf("with %d MiB less %d B free, %s: %v, want allowed %t", (freeSpaceMin+needs)>>20, missing, c, err, allowed)
				}
			}
		}
	}
	free.Store(freeSpaceMin + classSpace[kv.Access] - 1)
	refusing, is := errors.AsType[*RefusingError](db.Ready())
	if want := []string{"changes", "access_of_busiest", "access"}; !is || !slices.Equal(refusing.Refused(), want) || !strings.Contains(refusing.Error(), kv.Access.String()) {
		t.Errorf("Ready() = %v, want that it refuses %q", refusing, want)
	}
	full, is := errors.AsType[*DiskError](putAs(t, db, kv.Access, "a", "1"))
	if !is || !strings.Contains(full.Error(), "need 144") || !strings.Contains(full.Hint(), "160 MiB") {
		t.Errorf("refusal = %v, want what the class needs, and what all need", full)
	}
	if got := db.Stats().DiskFull; got[kv.Ordinary] == 0 || got[kv.Ruling] == 0 {
		t.Errorf("Stats().DiskFull = %v, want refusals of each class", got)
	}
	err := db.Update(t.Context(), func(tx kv.Txn) error {
		tx.As(kv.Ending)
		tx.As(kv.Ordinary) // of a part of it
		return setAll(tx, "a", "2")
	})
	if err != nil {
		t.Errorf("an update of two classes = %v, want that the higher one counts", err)
	}
}

// TestEndingsDoNotWaitForAMerge: a merge has taken space that it will give back. Ordinary
// updates wait for that, endings do not.
//
// Promise (Credentials, memory, connections): endings do not wait for a merge, and use up no more
// space than is kept for them; a server killed then starts again, and commands end things without
// one
func TestEndingsDoNotWaitForAMerge(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	const written = 3 << 20
	var free atomic.Uint64
	free.Store(plentyFree)
	opts := Options{Dir: t.TempDir(), FreeSpace: beside(&free)}
	db := mustOpen(t, opts)
	for n := range 60 {
		put(t, db, fmt.Sprint("key", n), noise(fmt.Sprint(n), 60<<10))
	}
	mustClose(t, db)
	db = mustOpen(t, opts)
	merges := db.SpaceMin() - freeSpaceOrdinary
	if merges < written {
		t.Fatalf("merges need %d bytes, want at least %d", merges, written)
	}
	free.Store(freeSpaceMin + merges + classSpace[kv.Ruling] - written)
	if err := putAs(t, db, kv.Ruling, "a", "1"); !errors.Is(err, kv.ErrFull) {
		t.Errorf("an ending without room for merges = %v, want ErrFull", err)
	}
	left := filepath.Join(opts.Dir, "000999.sst") // what a merge has written so far
	must.Do(t, os.WriteFile(left, []byte(noise("merged", written)), 0o600))
	eventually(t, "an ending while a merge has the space", func() bool { return putAs(t, db, kv.Ruling, "a", "1") == nil })
	if err := putAs(t, db, kv.Ordinary, "a", "1"); !errors.Is(err, kv.ErrFull) {
		t.Errorf("a change while a merge has the space = %v, want ErrFull", err)
	}
	must.Do(t, os.Remove(left))
	eventually(t, "no more than was taken is counted", func() bool { return putAs(t, db, kv.Ruling, "a", "1") != nil })
}

// eventually waits until is holds.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it does not become true: %s", what)
		}
	}
}

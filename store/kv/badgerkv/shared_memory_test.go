package badgerkv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/storetest/must"
)

// TestWritersShareNoBytes has many concurrent writers whose updates end in every possible
// way: committed, refused, with a panic, without their goroutine, or skipped after one of
// those. They share groups. What the updates read, during, after and after a restart, is
// what was written under that key and nothing else.
func TestWritersShareNoBytes(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	dir := t.TempDir()
	db := mustOpen(t, Options{Dir: dir})
	stored := map[string]string{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			w := writer{
				name: fmt.Appendf(nil, "w%d/", n), random: rand.New(rand.NewPCG(uint64(n), 0x5ab)),
				stored: map[string]string{}, key: make([]byte, 0, kv.KeySizeMax), value: make([]byte, kv.ValueSizeMax),
			}
			for round := range 60 {
				w.round(t, db, round)
			}
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(stored, w.stored)
		})
	}
	all.Wait()
	wantStored(t, db, stored)
	mustClose(t, db)
	wantStored(t, mustOpen(t, Options{Dir: dir}), stored)
}

// writer writes under keys of its own, from memory that it reuses.
type writer struct {
	name       []byte
	random     *rand.Rand
	stored     map[string]string // the result of its updates
	key, value []byte
}

var errRefused = errors.New("refused")

// round runs a few updates in one call; one of them may fail.
func (w *writer) round(t *testing.T, db *DB, round int) {
	count, bad := 1+w.random.IntN(3), w.random.IntN(6)
	ends := make([]map[string]string, count)
	fns := make([]func(kv.Txn) error, count)
	for i := range fns {
		fns[i] = func(tx kv.Txn) error {
			before := w.stored
			if i > 0 {
				before = ends[i-1]
			}
			ends[i] = maps.Clone(before)
			if err := w.write(tx, ends[i]); err != nil {
				t.Errorf("round %d: %v", round, err)
			}
			if i != bad {
				return nil
			}
			if w.random.IntN(2) == 0 {
				return errRefused
			}
			panic(errRefused)
		}
	}
	ended := make(chan struct{})
	go func() { // in which an update may panic
		defer close(ended)
		defer func() { _ = recover() }()
		for i, err := range kv.UpdateEach(context.Background(), db, fns) {
			if want := i < bad; want != (err == nil) {
				t.Errorf("round %d: update %d = %v, well: %t", round, i, err, want)
			}
		}
	}()
	<-ended
	if well := min(bad, count); well > 0 {
		w.stored = ends[well-1]
	}
}

// write sets and removes some keys, and reads all of the writer's in between.
func (w *writer) write(tx kv.Txn, now map[string]string) error {
	var got []byte // the first value, which must not change
	var gotWas string
	for range w.random.IntN(12) {
		key := append(append(w.key[:0], w.name...), byte('a'+w.random.IntN(20)))
		if w.random.IntN(5) == 0 {
			delete(now, string(key))
			if err := tx.Delete(key); err != nil {
				return err
			}
			continue
		}
		value := w.value[:w.random.IntN([...]int{2, 300, 3000, kv.ValueSizeMax}[w.random.IntN(4)])]
		for i, c := 0, byte(w.random.Uint32()); i < len(value); i++ {
			value[i] = c + byte(i)
		}
		now[string(key)] = string(value)
		if err := tx.Set(key, value, time.Time{}); err != nil {
			return err
		}
		if got == nil {
			got, _ = tx.Get(key)
			gotWas = string(got)
		}
		clear(key)
		clear(value)
	}
	if string(got) != gotWas {
		return errors.New("a value that Get returned has changed since")
	}
	for k, v := range now {
		if found, err := tx.Get([]byte(k)); err != nil || string(found) != v {
			return fmt.Errorf("Get(%q) = %d bytes, %v, want the %d that were set", k, len(found), err, len(v))
		}
	}
	return differs(tx, kv.Range{Lo: w.name, Hi: append(slices.Clip(w.name), 0xff)}, now)
}

func wantStored(t *testing.T, db *DB, want map[string]string) {
	t.Helper()
	err := db.View(t.Context(), func(r kv.Reader) error { return differs(r, kv.Range{}, want) })
	if err != nil || len(want) < 20 {
		t.Errorf("in the end: %v, want what was written under %d keys", err, len(want))
	}
}

// differs describes how a range differs from the expected one.
func differs(r kv.Reader, rng kv.Range, want map[string]string) error {
	found := 0
	for k, v := range r.Scan(rng) {
		found++
		if w, ok := want[string(k)]; !ok || !bytes.Equal(v, []byte(w)) {
			return fmt.Errorf("Scan gives %q = %d bytes, want %d: %t", k, len(v), len(w), ok)
		}
	}
	if found != len(want) {
		return fmt.Errorf("Scan gives %d keys, want %d", found, len(want))
	}
	return nil
}

// TestGroupsShareNoBytes: later commits do not change stored values.
func TestGroupsShareNoBytes(t *testing.T) {
	t.Parallel()
	for _, opts := range []Options{{InMemory: true}, {Dir: t.TempDir()}} {
		db := mustOpen(t, opts)
		value := func(n byte) []byte { return bytes.Repeat([]byte{n}, 500) }
		for n := range byte(50) {
			must.Do(t, db.Update(t.Context(), func(tx kv.Txn) error {
				for part := range byte(20) {
					if err := tx.Set([]byte{'k', n, part}, value(n), time.Time{}); err != nil {
						return err
					}
				}
				return nil
			}))
		}
		must.Do(t, db.View(t.Context(), func(r kv.Reader) error {
			for n := range byte(50) {
				for part := range byte(20) {
					got, err := r.Get([]byte{'k', n, part})
					if err != nil || !bytes.Equal(got, value(n)) {
						t.Fatalf("Get(%d, %d) = %v, %v, want what was set", n, part, got, err)
					}
				}
			}
			return nil
		}))
	}
}

// TestPendingRollback_gives_back_its_memory: a group of failing updates, as in a dry run,
// holds none of their values.
func TestPendingRollback_gives_back_its_memory(t *testing.T) {
	t.Parallel()
	p := newPending()
	write := func(key string, value []byte) {
		p.write([]byte(key), change{kind: changeSet, sealed: kv.Seal([]byte(key), value)})
	}
	write("stays", []byte("what it was"))
	for range 100 {
		p.begin()
		for _, key := range []string{"a", "stays", "b"} {
			write(key, make([]byte, 60<<10))
		}
		p.rollback()
	}
	held := 0
	for _, s := range p.slots {
		held += len(s.sealed)
	}
	for _, u := range p.undo[:cap(p.undo)] {
		held += len(u.was.sealed)
	}
	if want := len("what it was") + kv.ChecksumSize; held != want {
		t.Errorf("%d bytes of values are held after the rollbacks, want the %d that stay", held, want)
	}
	if got := p.get([]byte("stays")).value(); string(got) != "what it was" {
		t.Errorf("after the rollbacks the value is %q, want what it was", got)
	}
}

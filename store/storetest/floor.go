package storetest

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/kv/memkv"
	"tollhouse/store/storetest/must"
)

// Record is one written key.
type Record struct{ Key, Value []byte }

// Tape is an engine that records each commit, so that a benchmark can write the same
// bytes without the work that led to them. It is not safe for concurrent use.
type Tape struct {
	kv.DB
	Commits [][]Record
}

// NewTaped returns an empty store in memory over a tape. It is at rest: what is
// written is what the caller waits for.
func NewTaped(t testing.TB) (*Fixture, *Tape) {
	t.Helper()
	tape := &Tape{DB: memkv.New(nil)}
	f := Open(t, tape, NewClock())
	f.Rest()
	return f, tape
}

// Update is the engine's; what it writes is remembered.
func (t *Tape) Update(ctx context.Context, fn func(kv.Txn) error) error {
	var written []Record
	err := t.DB.Update(ctx, func(tx kv.Txn) error {
		written = written[:0]
		return fn(tapedTxn{tx, &written})
	})
	if err == nil && len(written) > 0 {
		t.Commits = append(t.Commits, written)
	}
	return err
}

type tapedTxn struct {
	kv.Txn
	written *[]Record
}

func (t tapedTxn) Set(key, value []byte, expiresAt time.Time) error {
	*t.written = append(*t.written, Record{slices.Clone(key), slices.Clone(value)})
	return t.Txn.Set(key, value, expiresAt)
}

// Floor measures the least time that durable work can take on this disk: committing
// the same bytes to the same kind of engine, and syncing a page.
type Floor struct {
	db    kv.DB
	file  *os.File
	count atomic.Uint64
}

// NewFloor returns a Floor in a temporary directory.
func NewFloor(t testing.TB) *Floor {
	t.Helper()
	db := openBadger(t, t.TempDir(), nil)
	file, err := os.Create(filepath.Join(t.TempDir(), "floor"))
	if err != nil {
		t.Fatalf("storetest: %v", err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("storetest: close: %v", err)
		}
		if err := file.Close(); err != nil {
			t.Errorf("storetest: close: %v", err)
		}
	})
	return &Floor{db: db, file: file}
}

// Commit writes records of the same sizes under new keys, each commit durable before
// the next. It is safe for concurrent use.
func (f *Floor) Commit(t testing.TB, commits [][]Record) {
	for _, records := range commits {
		n := f.count.Add(1)
		err := f.db.Update(context.Background(), func(tx kv.Txn) error {
			for i, r := range records {
				if err := tx.Set(numbered(r.Key, n*kv.UpdateWritesMax+uint64(i)), r.Value, time.Time{}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Errorf("storetest: commit: %v", err)
		}
	}
}

// numbered returns a unique key of the same length, or of 8 bytes if that is more.
func numbered(key []byte, n uint64) []byte {
	const size = 8
	numbered := binary.BigEndian.AppendUint64(nil, n)
	return append(numbered, key[min(size, len(key)):]...)
}

const pageSize = 4096

// Sync overwrites and syncs one page of a file, once per commit.
func (f *Floor) Sync(t testing.TB, commits [][]Record) {
	var page [pageSize]byte
	for range commits {
		binary.BigEndian.PutUint64(page[:], f.count.Add(1))
		must.Get(f.file.WriteAt(page[:], 0))(t)
		must.Do(t, f.file.Sync())
	}
}

// FirstKey returns the first key with the tag.
func (f *Fixture) FirstKey(t testing.TB, tag byte) (key []byte) {
	t.Helper()
	err := f.DB.View(context.Background(), func(r kv.Reader) error {
		for k := range r.Scan(kv.Range{Lo: []byte{tag}, Hi: []byte{tag + 1}, KeysOnly: true, Limit: 1}) {
			key = slices.Clone(k)
		}
		return nil
	})
	if err != nil || key == nil {
		t.Fatalf("storetest: first key of %c: %v", tag, err)
	}
	return key
}

package pgkv_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/kv/pgkv"
	"tollhouse/store/kv/pgkv/pgtest"
	"tollhouse/store/storetest/must"
)

// TestAFullDatabaseIsNotReady: writes that fit into pages which the database has already would
// still succeed, and must not make it ready.
//
// Promise (Postgres §9): a server whose database has a full disk is not ready from the first refused write
// on until a write that needs space succeeds; doctor's test write is refused too
func TestAFullDatabaseIsNotReady(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	server := pgtest.New(t)
	dsn, disk := server.SmallDatabase(t, 24)
	var logged lockedBuffer
	db := must.Get(pgkv.Open(t.Context(), pgkv.Options{URL: dsn, Log: slog.New(slog.NewTextHandler(&logged, nil))}.Patient(20)))(t)
	defer db.Close()
	must.Do(t, db.Ready(t.Context()))
	wrote, random := 0, rand.NewChaCha8([32]byte{})
	write := func() error {
		value := make([]byte, 60<<10)
		_, _ = random.Read(value)
		wrote++
		return db.Update(t.Context(), func(tx kv.Txn) error {
			return tx.Set([]byte(fmt.Sprint("key ", wrote)), value, time.Time{})
		})
	}
	must.Do(t, write())
	filler := filepath.Join(disk, "filler")
	fill := func() {
		f := must.Get(os.OpenFile(filler, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))(t)
		defer f.Close()
		for block := make([]byte, 4096); ; {
			if _, err := f.Write(block); err != nil {
				return
			}
		}
	}
	fill()
	err := write()
	for begun := time.Now(); err == nil && time.Since(begun) < patience; err = write() {
		fill()
	}
	if !errors.Is(err, kv.ErrFull) {
		t.Fatalf("Update() = %v on a full disk, want ErrFull", err)
	}
	looker := dial(t, must.Get(pgkv.ParseAddress(dsn))(t))
	for range 8 {
		if err := db.Ready(t.Context()); !errors.Is(err, kv.ErrFull) {
			t.Fatalf("Ready() = %v while the disk is full, want ErrFull", err)
		}
		if err := looker.TryWrite(t.Context()); !errors.Is(err, kv.ErrFull) {
			t.Fatalf("TryWrite() = %v while the disk is full, want ErrFull", err)
		}
		time.Sleep(500 * time.Millisecond)
	}
	must.Do(t, os.Remove(filler))
	for begun := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		err := db.Ready(t.Context())
		if err == nil {
			break
		}
		if time.Since(begun) > patience {
			t.Fatalf("Ready() = %v after there is space again", err)
		}
	}
	must.Do(t, write())
	must.Do(t, looker.TryWrite(t.Context()))
	for _, line := range []string{"database refuses writes", "database accepts writes again"} {
		if n := strings.Count(logged.String(), line); n != 1 {
			t.Errorf("the log has %q %d times, want once: %s", line, n, &logged)
		}
	}
}

// lockedBuffer is a bytes.Buffer for several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestAWriteThatDoesNotEndIsNotReady: the standby that a commit waits for does not exist.
//
// Promise (Postgres §9): a server whose write has not ended for 10 seconds is not ready; doctor's test
// write says so too
func TestAWriteThatDoesNotEndIsNotReady(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	server := pgtest.New(t)
	dsn := server.Database(t)
	db := must.Get(pgkv.Open(t.Context(), pgkv.Options{URL: dsn}))(t)
	looker := dial(t, must.Get(pgkv.ParseAddress(dsn))(t))
	must.Do(t, looker.TryWrite(t.Context()))
	configure := func(names string) {
		server.Exec(t, dsn, "alter system set synchronous_standby_names = '"+names+"'")
		server.Exec(t, dsn, "select pg_reload_conf()")
	}
	configure("nobody")
	t.Cleanup(func() {
		configure("")
		_ = db.Close()
	})
	ready := func() error { return db.Ready(t.Context()) }
	for begun := time.Now(); ready() == nil; time.Sleep(100 * time.Millisecond) {
		if time.Since(begun) > patience {
			t.Fatal("Ready() = nil while each commit waits")
		}
		go func() {
			_ = db.Update(t.Context(), func(tx kv.Txn) error { return tx.Set([]byte("k"), []byte("v"), time.Time{}) })
		}()
	}
	if err := ready(); err == nil || !strings.Contains(err.Error(), "has not ended a write for 1") {
		t.Errorf("Ready() = %v, want that a write has not ended", err)
	}
	if err := dial(t, must.Get(pgkv.ParseAddress(dsn))(t)).TryWrite(t.Context()); err == nil || !strings.Contains(err.Error(), "in time") {
		t.Errorf("TryWrite() = %v, want that it was not answered in time", err)
	}
	configure("")
	for begun := time.Now(); ready() != nil; time.Sleep(100 * time.Millisecond) {
		if time.Since(begun) > patience {
			t.Fatalf("Ready() = %v after commits wait no longer", ready())
		}
	}
}

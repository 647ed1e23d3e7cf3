package badgerkv

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
	"go.uber.org/goleak"

	"tollhouse/store/kv"
	"tollhouse/store/storetest/must"
)

// TestMain fails on goroutines that outlive the tests, except the two that Badger 4.9.6
// leaks when it refuses to open. A store that is not closed leaves others as well.
func TestMain(m *testing.M) {
	must.ManyAtATime(2) // they wait for the disk
	must.FilesInMemory()
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("github.com/dgraph-io/badger/v4.(*DB).monitorCache"),
		goleak.IgnoreTopFunction("github.com/dgraph-io/ristretto/v2/z.(*AllocatorPool).freeupAllocators"))
}

// mustOpen opens a store that is closed at the end of t, if not before.
func mustOpen(t testing.TB, opts Options) *DB {
	t.Helper()
	db := must.Get(Open(opts))(t)
	t.Cleanup(func() { mustClose(t, db) })
	return db
}

func mustClose(t testing.TB, db *DB) {
	t.Helper()
	if err := db.Close(); err != nil {
		t.Errorf("Close() = %v, want nil", err)
	}
}

// put stores pairs of key and value in one Update.
func put(t testing.TB, db *DB, pairs ...string) {
	t.Helper()
	err := db.Update(t.Context(), func(tx kv.Txn) error { return setAll(tx, pairs...) })
	if err != nil {
		t.Errorf("Update() = %v, want nil", err)
	}
}

func setAll(tx kv.Txn, pairs ...string) error {
	for i := 0; i < len(pairs); i += 2 {
		if err := tx.Set([]byte(pairs[i]), []byte(pairs[i+1]), time.Time{}); err != nil {
			return err
		}
	}
	return nil
}

// get returns the value of key in a View of its own.
func get(t testing.TB, db *DB, key string) (string, error) {
	t.Helper()
	var value []byte
	err := db.View(t.Context(), func(r kv.Reader) (err error) {
		value, err = r.Get([]byte(key))
		value = bytes.Clone(value)
		return err
	})
	return string(value), err
}

func wantValue(t testing.TB, db *DB, key, want string) {
	t.Helper()
	if got, err := get(t, db, key); err != nil || got != want {
		t.Errorf("Get(%q) = %q, %v, want %q", key, got, err, want)
	}
}

func wantAbsent(t testing.TB, db *DB, key string) {
	t.Helper()
	if got, err := get(t, db, key); !errors.Is(err, kv.ErrNotFound) {
		t.Errorf("Get(%q) = %q, %v, want ErrNotFound", key, got, err)
	}
}

// crash copies the files of an open store as a killed process leaves them.
func crash(t testing.TB, dir string) string {
	t.Helper()
	left := t.TempDir()
	if err := os.CopyFS(left, os.DirFS(dir)); err != nil {
		t.Fatalf("copy %s: %v", dir, err)
	}
	return left
}

// noise returns n incompressible bytes, always the same for name.
func noise(name string, n int) string {
	var out []byte
	for i := 0; len(out) < n; i++ {
		sum := sha256.Sum256([]byte(fmt.Sprint(name, i)))
		out = append(out, sum[:]...)
	}
	return string(out[:n])
}

// flip changes one byte within what, in the one file of dir that matches pattern and
// contains it.
func flip(t testing.TB, dir, pattern, what string) {
	t.Helper()
	paths := must.Get(filepath.Glob(filepath.Join(dir, pattern)))(t)
	for _, path := range paths {
		content := must.Get(os.ReadFile(path))(t)
		at := bytes.Index(content, []byte(what))
		if at < 0 {
			continue
		}
		content[at+len(what)/2] ^= 0x40
		must.Do(t, os.WriteFile(path, content, 0o600))
		return
	}
	t.Fatalf("no %s in %s holds the bytes to flip", pattern, dir)
}

// gate is a commit that tests can delay and make fail.
type gate struct {
	began chan struct{} // receives when a commit begins
	pass  chan error    // send nil to let it through, or the error of the commit
}

func newGate() *gate { return &gate{began: make(chan struct{}), pass: make(chan error)} }

func (g *gate) commitAt(tx *badger.Txn, version uint64) error {
	g.began <- struct{}{}
	if err := <-g.pass; err != nil {
		return err
	}
	return tx.CommitAt(version, nil)
}

// waitQueued returns when n updates wait behind the commit in flight.
func waitQueued(t testing.TB, db *DB, n int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); len(db.committer.queue) != n; {
		if time.Now().After(deadline) {
			t.Fatalf("%d updates wait, want %d", len(db.committer.queue), n)
		}
		runtime.Gosched()
	}
}

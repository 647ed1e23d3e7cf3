package badgerkv

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/storetest/must"
)

// TestAMovedDirectoryKeepsItsFilesAndItsReplacementIsUntouched moves the directory while the
// engine flushes and merges, and puts a copy in its place, whose files have the same names.
func TestAMovedDirectoryKeepsItsFilesAndItsReplacementIsUntouched(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	above := t.TempDir()
	dir, aside, other := filepath.Join(above, "db"), filepath.Join(above, "aside"), filepath.Join(above, "other")
	fatal := make(chan error, 1)
	db := must.Get(Open(Options{Dir: dir, OnFatal: func(err error) { fatal <- err }}))(t)
	const writes = 1200 // 70 MB: eight tables, so that a merge begins
	for i := range writes {
		put(t, db, fmt.Sprintf("key-%05d", (i*7919)%writes), noise(fmt.Sprint(i), 60<<10))
	}
	must.Do(t, os.CopyFS(other, os.DirFS(dir)))
	before := listOf(t, other)
	must.Do(t, os.Rename(dir, aside))
	must.Do(t, os.Rename(other, dir))

	err := db.Update(t.Context(), func(tx kv.Txn) error { return setAll(tx, "late", "1") })
	if !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("Update() = %v after the move, want ErrUnavailable", err)
	}
	if moved, is := errors.AsType[*MovedError](<-fatal); !is || moved.Path != dir || !moved.Replaced {
		t.Errorf("OnFatal got %v, want that %s was replaced", moved, dir)
	}
	if err := db.Ready(); !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("Ready() = %v, want ErrUnavailable", err)
	}
	stamped := must.Get(os.ReadFile(stampPath(aside)))(t)
	if _, is := errors.AsType[*MovedError](db.Close()); !is {
		t.Error("Close() did not say that the directory was moved")
	}
	if now := must.Get(os.ReadFile(stampPath(aside)))(t); string(now) != string(stamped) {
		t.Error("Close() wrote the stamp")
	}
	// What the engine does when it closes, it does in the directory that was moved. A process
	// ends instead, but a flush or a merge may be under way.
	must.Do(t, db.engine.Close())
	close(db.closed)
	<-db.watched
	if after := listOf(t, dir); after != before {
		t.Errorf("the directory in its place has changed:\n%s\nbefore:\n%s", after, before)
	}
	reopened := mustOpen(t, Options{Dir: aside})
	for i := range writes {
		wantValue(t, reopened, fmt.Sprintf("key-%05d", (i*7919)%writes), noise(fmt.Sprint(i), 60<<10))
	}
	wantAbsent(t, reopened, "late")
}

// TestAnIdleStoreNoticesThatItsDirectoryIsGone needs no write.
func TestAnIdleStoreNoticesThatItsDirectoryIsGone(t *testing.T) {
	t.Parallel()
	dir, fatal := filepath.Join(t.TempDir(), "db"), make(chan error, 1)
	db := must.Get(Open(Options{Dir: dir, OnFatal: func(err error) { fatal <- err }}))(t)
	put(t, db, "a", "1")
	must.Do(t, os.Rename(dir, dir+".old"))
	select {
	case err := <-fatal:
		if moved, is := errors.AsType[*MovedError](err); !is || moved.Replaced {
			t.Errorf("OnFatal got %v, want that the directory is gone", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("nothing noticed within 10 s")
	}
	_ = db.Close()
	must.Do(t, db.engine.Close())
	close(db.closed)
	<-db.watched
}

// TestMessagesNameTheDirectoryAsTheOperatorDoes: its files are opened by another path.
func TestMessagesNameTheDirectoryAsTheOperatorDoes(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "db")
	put(t, mustOpen(t, Options{Dir: dir}), "a", "1")
	_, err := Open(Options{Dir: dir}) // which the engine refuses, because the store is open
	if err == nil || !strings.Contains(err.Error(), dir) || strings.Contains(err.Error(), "/proc/") {
		t.Errorf("Open() = %v, want %s named and no path below /proc", err, dir)
	}
}

// listOf lists the files of dir with what they contain.
func listOf(t testing.TB, dir string) string {
	t.Helper()
	var list strings.Builder
	for _, e := range must.Get(os.ReadDir(dir))(t) {
		info := must.Get(e.Info())(t)
		content := must.Get(os.ReadFile(filepath.Join(dir, e.Name())))(t)
		fmt.Fprintf(&list, "%s %d %v %.8x\n", e.Name(), info.Size(), info.ModTime(), sha256.Sum256(content))
	}
	return list.String()
}

// TestCloseHasABound closes a store while a reader does not end.
func TestCloseHasABound(t *testing.T) {
	t.Parallel()
	db := must.Get(Open(Options{InMemory: true, closeMax: 10 * time.Millisecond}))(t)
	reads, end, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_ = db.View(context.Background(), func(kv.Reader) error { close(reads); <-end; return nil })
	}()
	<-reads
	if err := db.Close(); !errors.Is(err, kv.ErrUnknownOutcome) {
		t.Errorf("Close() = %v beside a reader that hangs, want ErrUnknownOutcome", err)
	}
	close(end)
	<-ended
}

package storetest

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"tollhouse/store"
	"tollhouse/store/kv"
	"tollhouse/store/kv/badgerkv"
	"tollhouse/store/secret"
)

// House is a store over Badger on disk, every commit synced, that is closed or
// killed under callers who never pause, and opened again from what then lies on
// the disk. Clock, key and records go on; what was only in memory is gone.
type House struct {
	Clock *Clock

	key secret.Key

	mu   sync.RWMutex // read by callers; written while there is no store
	dir  string
	open *Fixture
}

// NewHouse returns a house with an empty store.
func NewHouse(t testing.TB) *House {
	t.Helper()
	h := &House{Clock: NewClock(), key: secret.NewKey(), dir: t.TempDir()}
	h.reopen(t)
	return h
}

// Enter calls fn with the store that is open now, and waits for one while there
// is none. The next one is opened when every fn has returned: no call goes from
// one to the other.
func (h *House) Enter(fn func(*Fixture)) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	fn(h.open)
}

// Restart ends the store as an operator does, but with callers inside: what was
// accepted is finished, what comes after is refused with kv.ErrUnavailable.
func (h *House) Restart(t testing.TB) {
	t.Helper()
	h.open.Rest()
	h.close(t)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reopen(t)
}

// Crash kills the store. As many Updates as unanswered says, unless the callers
// are gone before, end in kv.ErrUnknownOutcome: every other one was committed,
// the rest never began. Then the files, as they lie at that moment, are opened
// as another process would; notes not yet written are lost.
func (h *House) Crash(t testing.TB, unanswered int64, gone <-chan struct{}) {
	t.Helper()
	var updates atomic.Int64
	enough := make(chan struct{})
	h.open.Faults.OnUpdate(func(run func() error) error {
		n := updates.Add(1)
		if n == unanswered {
			close(enough)
		}
		if n > unanswered {
			return run()
		}
		if n%2 == 0 {
			_ = run() // whatever came of it, nobody is told
		}
		return kv.ErrUnknownOutcome
	})
	select {
	case <-enough:
	case <-gone:
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open.Faults.Break(kv.ErrUnavailable)
	h.open.Rest()
	left := h.copy(t)
	h.close(t)
	if err := os.RemoveAll(h.dir); err != nil {
		t.Fatalf("storetest: remove %s: %v", h.dir, err)
	}
	h.dir = left
	h.reopen(t)
}

const copiesMax = 50

// copy returns a directory with the files as they lie now. Nobody writes any
// more, but Badger may be moving what was written from one file into another;
// then the copy is of no one moment, and is made again.
func (h *House) copy(t testing.TB) string {
	t.Helper()
	for range copiesMax {
		before := h.files(t)
		left := t.TempDir()
		err := os.CopyFS(left, os.DirFS(h.dir))
		if err == nil && maps.Equal(before, h.files(t)) {
			return left
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("storetest: copy %s: %v", h.dir, err)
		}
	}
	t.Fatalf("storetest: %s did not stand still for one of %d copies", h.dir, copiesMax)
	return ""
}

// files returns the sizes of the files by their names.
func (h *House) files(t testing.TB) map[string]int64 {
	t.Helper()
	entries, err := os.ReadDir(h.dir)
	if err != nil {
		t.Fatalf("storetest: read %s: %v", h.dir, err)
	}
	sizes := map[string]int64{}
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil {
			sizes[entry.Name()] = info.Size()
		}
	}
	return sizes
}

func (h *House) close(t testing.TB) {
	t.Helper()
	if err := h.open.DB.Close(); err != nil {
		t.Fatalf("storetest: close %s: %v", h.dir, err)
	}
}

func (h *House) reopen(t testing.TB) {
	t.Helper()
	db, err := badgerkv.Open(badgerkv.Options{Dir: h.dir, Now: h.Clock.Now})
	if err != nil {
		t.Fatalf("storetest: open %s: %v", h.dir, err)
	}
	faults := NewFaults(db)
	h.open = Open(t, faults, h.Clock, func(o *store.Options) { o.Key = h.key })
	h.open.Faults = faults
}

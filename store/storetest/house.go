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
	"tollhouse/store/kv/memkv"
	"tollhouse/store/kv/pgkv/pgtest"
	"tollhouse/store/secret"
)

// House is a store over Badger on disk, every commit synced, that is closed or killed
// under continuous load and opened again from the files. Clock, key and records
// survive; what was only in memory is lost. With [EnvEngine] the store is in memory, and
// its state replaces the files, or in a database, which stays.
type House struct {
	Clock *Clock

	key secret.Key

	mu   sync.RWMutex // read by callers; written while no store is open
	dir  string
	kept *memkv.DB // in place of dir, or nil
	dsn  string    // in place of dir, or empty
	open *Fixture
	stay *stay

	site Site
}

// stay is the test of one store of a House, whose cleanups do not wait for the end of the
// test: they hold all that the store has in memory.
type stay struct {
	testing.TB
	cleanups []func()
}

func (s *stay) Cleanup(fn func()) { s.cleanups = append(s.cleanups, fn) }

func (s *stay) end() {
	for i := range s.cleanups {
		s.cleanups[len(s.cleanups)-1-i]()
	}
	s.cleanups = nil
}

// Site says how a House differs from the usual one.
type Site struct {
	InMemory bool                  // a state in memory replaces the files
	Engine   func(*memkv.DB) kv.DB // around the engine in memory, or nil
	Options  func(*store.Options)  // or nil
	Quiet    bool                  // every Update comes from the test, which calls Flush
}

// NewHouse returns a House with an empty store.
func NewHouse(t testing.TB) *House {
	t.Helper()
	return NewHouseAt(t, Site{})
}

// NewHouseAt returns a House with an empty store at the site.
func NewHouseAt(t testing.TB, site Site) *House {
	t.Helper()
	h := &House{Clock: NewClock(), key: secret.NewKey(nil), site: site}
	switch {
	case site.InMemory || durableInMemory():
		h.kept = memkv.New(nil)
	case isInTurns():
		h.dsn = pgtest.Emptied(t)
	default:
		h.dir = t.TempDir()
	}
	h.reopen(t)
	t.Cleanup(func() { h.stay.end() })
	return h
}

// Enter calls fn with the open store, and waits while none is open. The next store opens
// when every fn has returned, so no call spans two.
func (h *House) Enter(fn func(*Fixture)) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	fn(h.open)
}

// Restart closes the store under load, as an operator does: accepted work is finished,
// later work is refused with kv.ErrUnavailable.
func (h *House) Restart(t testing.TB) {
	t.Helper()
	h.open.Rest()
	h.stay.end()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reopen(t)
}

// LoseAnswers lets the next n Updates end in kv.ErrUnknownOutcome: every other one is
// committed, the rest never begin. The channel is closed when the last of them began.
func (h *House) LoseAnswers(n int64) <-chan struct{} {
	var updates atomic.Int64
	all := make(chan struct{})
	h.open.Faults.OnUpdate(func(run func() error) error {
		at := updates.Add(1)
		if at == n {
			close(all)
		}
		if at > n {
			return run()
		}
		if at%2 == 0 {
			_ = run() // the caller does not learn the outcome
		}
		return kv.ErrUnknownOutcome
	})
	return all
}

// Crash kills the store and opens a copy of its files, as another process would. Uses
// not yet written are lost.
func (h *House) Crash(t testing.TB) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open.Faults.Break(kv.ErrUnavailable)
	h.open.Rest()
	left := h.copy(t)
	h.stay.end()
	if err := os.RemoveAll(h.dir); err != nil {
		t.Fatalf("storetest: remove %s: %v", h.dir, err)
	}
	h.dir = left
	h.reopen(t)
}

const copiesMax = 50

// copy returns a directory with a copy of the files. Badger may still move data
// between files; then the copy is inconsistent and is made again.
func (h *House) copy(t testing.TB) string {
	t.Helper()
	if h.dir == "" {
		return ""
	}
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
	t.Fatalf("storetest: %s kept changing during %d copies", h.dir, copiesMax)
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

func (h *House) reopen(t testing.TB) {
	t.Helper()
	var db kv.DB
	switch {
	case h.dsn != "":
		db = inTurnsOn(t, h.dsn)
	case h.kept != nil:
		h.kept = memkv.NewFrom(h.kept.State(), nil)
		db = h.kept
		if h.site.Engine != nil {
			db = h.site.Engine(h.kept)
		}
	default:
		db = openBadger(t, h.dir, h.Clock.Now)
	}
	faults := NewFaults(db)
	h.stay = &stay{TB: t}
	h.open = Open(h.stay, faults, h.Clock, func(o *store.Options) {
		if o.Key = h.key; h.site.Options != nil {
			h.site.Options(o)
		}
	})
	h.open.Faults = faults
	if h.site.Quiet {
		h.open.Rest()
	}
}

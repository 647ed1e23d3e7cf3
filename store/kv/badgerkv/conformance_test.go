package badgerkv

import (
	"testing"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/kv/kvtest"
)

func TestConformanceInMemory(t *testing.T) {
	t.Parallel()
	kvtest.Run(t, func(t *testing.T) kv.DB { return mustOpen(t, Options{InMemory: true}) })
}

func TestConformanceOnDisk(t *testing.T) {
	t.Parallel()
	kvtest.Run(t, func(t *testing.T) kv.DB { return mustOpen(t, Options{Dir: t.TempDir()}) })
}

func TestConformanceUnderInjectedClock(t *testing.T) {
	t.Parallel()
	now := func() time.Time { return time.Unix(1_000_000_000, 0) }
	kvtest.Run(t, func(t *testing.T) kv.DB { return mustOpen(t, Options{InMemory: true, Now: now}) })
}

// mustOpen opens a store that is closed at the end of t, if not before.
func mustOpen(t testing.TB, opts Options) *DB {
	t.Helper()
	db, err := Open(opts)
	if err != nil {
		t.Fatalf("Open() = %v, want nil", err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("Close() = %v, want nil", err)
		}
	})
	return db
}

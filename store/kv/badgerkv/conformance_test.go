package badgerkv

import (
	"testing"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/kv/kvtest"
	"tollhouse/store/storetest/must"
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
	must.SkipInShort(t)
	t.Parallel()
	now := func() time.Time { return time.Unix(1_000_000_000, 0) }
	kvtest.Run(t, func(t *testing.T) kv.DB { return mustOpen(t, Options{InMemory: true, Now: now}) })
}

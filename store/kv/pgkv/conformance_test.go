package pgkv_test

import (
	"testing"

	"tollhouse/store/kv"
	"tollhouse/store/kv/kvtest"
	"tollhouse/store/kv/pgkv"
	"tollhouse/store/kv/pgkv/pgtest"
	"tollhouse/store/storetest/must"
)

// open opens a store that waits long for a slow machine.
func open(t testing.TB, dsn string) *pgkv.DB {
	t.Helper()
	return openWith(t, pgkv.Options{URL: dsn}.Patient(20))
}

func openWith(t testing.TB, o pgkv.Options) *pgkv.DB {
	t.Helper()
	db, err := pgkv.Open(t.Context(), o)
	if err != nil {
		t.Fatalf("Open() = %v, want nil", err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func TestConformance(t *testing.T) {
	t.Parallel()
	kvtest.Run(t, func(t *testing.T) kv.DB { return open(t, pgtest.Start(t)) })
}

func TestConformanceOfTwoProcesses(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	kvtest.RunShared(t, func(t *testing.T) (a, b kv.DB) {
		dsn := pgtest.Start(t)
		return open(t, dsn), open(t, dsn)
	})
}

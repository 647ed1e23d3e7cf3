package pgkv_test

import (
	"testing"

	"tollhouse/store/kv"
	"tollhouse/store/kv/kvtest"
	"tollhouse/store/kv/pgkv"
	"tollhouse/store/kv/pgkv/pgtest"
)

func open(t testing.TB, dsn string) *pgkv.DB {
	t.Helper()
	db, err := pgkv.Open(t.Context(), pgkv.Options{URL: dsn})
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

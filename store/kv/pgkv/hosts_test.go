package pgkv_test

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"tollhouse/store/kv"
	"tollhouse/store/kv/pgkv"
	"tollhouse/store/kv/pgkv/pgtest"
	"tollhouse/store/storetest/must"
)

// TestAHostThatSaysNothing: the first host has no power. The server behind it is found, and
// asked first from then on.
func TestAHostThatSaysNothing(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	silent := t.TempDir()
	l := must.Get(net.Listen("unix", filepath.Join(silent, ".s.PGSQL.5432")))(t) // accepts, and never answers
	t.Cleanup(func() { _ = l.Close() })
	dsn := pgtest.Start(t)
	must.Have(t, strings.Contains(dsn, "host=/"), "a server on a Unix socket")
	open(t, dsn) // the tables
	dsn = strings.Replace(strings.Replace(dsn, "host=", "host="+silent+",", 1), "connect_timeout=60", "connect_timeout=2", 1)
	db := openWith(t, pgkv.Options{URL: dsn})
	db.ForgetPrimary()
	must.Do(t, db.View(t.Context(), func(kv.Reader) error { return nil }))
	must.Do(t, db.Update(t.Context(), appended("behind it")))
	unlock, held, err := db.TryLock(t.Context(), "a job")
	if err != nil || !held {
		t.Fatalf("TryLock() = %t, %v", held, err)
	}
	unlock()
}

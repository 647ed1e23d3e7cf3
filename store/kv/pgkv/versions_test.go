package pgkv_test

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/kv/kvtest"
	"tollhouse/store/kv/pgkv"
	"tollhouse/store/kv/pgkv/pgtest"
	"tollhouse/store/storetest/must"
)

// oldSnapshot opens a snapshot as pg_dump does, and lets so many transactions begin after
// it that changes add versions. It stays open until end is called.
func oldSnapshot(t *testing.T, dsn string) (end func()) {
	t.Helper()
	holder, others := sql(t, dsn), sql(t, dsn)
	run(t, holder, "begin isolation level repeatable read; select 1")
	for range 250 {
		run(t, others, "select pg_current_xact_id()")
	}
	return func() { run(t, holder, "rollback") }
}

// Promise (Postgres §2): beside an open snapshot such as pg_dump's a changed key gets a new row
// that reads find first, so that they pass none of those that the snapshot keeps
func TestChangesBesideASnapshotAddVersions(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t).Database(t) // snapshots of other tests hold rows back too
	db := openWith(t, pgkv.Options{URL: dsn}.Patient(20))
	conn := sql(t, dsn)
	changes := 0
	change := func() (rows, version int64) {
		must.Do(t, db.Update(t.Context(), counted))
		changes++
		must.Do(t, conn.QueryRow(t.Context(), "select count(*), max(n) from tollhouse.kv_0001 where k = 'head'").Scan(&rows, &version))
		if rows != 1 {
			t.Fatalf("after %d changes the key has %d rows, want 1", changes, rows)
		}
		return rows, version
	}
	_, _ = change()
	if _, version := change(); version != 0 {
		t.Errorf("without a snapshot the key has version %d, want it changed in place", version)
	}
	end := oldSnapshot(t, dsn)
	version := int64(0)
	for version == 0 { // snapshots are looked for every second
		_, version = change()
	}
	for range 20 {
		before := version
		if _, version = change(); version != before+1 {
			t.Fatalf("beside a snapshot version %d is followed by %d, want a new one for each change", before, version)
		}
	}
	end()
	for before := int64(-1); version != before; {
		before = version
		_, version = change()
	}
	must.Do(t, db.View(t.Context(), func(r kv.Reader) error {
		value, err := r.Get([]byte("head"))
		if got := binary.BigEndian.Uint64(value); err != nil || got != uint64(changes) {
			t.Errorf("Get() = %d, %v, want %d", got, err, changes)
		}
		return nil
	}))
}

func counted(tx kv.Txn) error {
	value, err := tx.Get([]byte("head"))
	if errors.Is(err, kv.ErrNotFound) {
		value, err = make([]byte, 8), nil
	}
	if err != nil {
		return err
	}
	return tx.Set([]byte("head"), binary.BigEndian.AppendUint64(nil, binary.BigEndian.Uint64(value)+1), time.Time{})
}

// TestConformanceBesideASnapshot: nobody sees which form the changes have.
func TestConformanceBesideASnapshot(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	kvtest.Run(t, func(t *testing.T) kv.DB {
		dsn := pgtest.Start(t)
		db := open(t, dsn)
		oldSnapshot(t, dsn)
		return db
	})
}

// layout1 makes the tables those of layout 1.
const layout1 = `
alter table tollhouse.kv_0001 drop constraint kv_0001_pkey, drop column n, add primary key (k);
alter table tollhouse.mark drop constraint mark_pkey;
delete from tollhouse.mark m where seq < (select max(seq) from tollhouse.mark where server = m.server);
alter table tollhouse.mark add primary key (server);
update tollhouse.site set value = '1' where name = 'layout'`

// Promise (Postgres §1): tables of an older layout are converted by the first server that starts,
// with all they hold, and never under a running server
func TestTablesOfLayout1AreConverted(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Start(t)
	db := open(t, dsn)
	must.Do(t, db.Update(t.Context(), counted))
	must.Do(t, db.Close())
	run(t, sql(t, dsn), layout1)
	holder := sql(t, dsn)
	run(t, holder, "select pg_advisory_lock_shared(1953459308, 1)") // as a server does
	_, err := pgkv.Open(t.Context(), pgkv.Options{URL: dsn})
	if refused := (*pgkv.RefusedError)(nil); !errors.As(err, &refused) || !strings.Contains(refused.Hint(), "stop them first") {
		t.Errorf("Open() under a server = %v, want a RefusedError", err)
	}
	run(t, holder, "select pg_advisory_unlock_all()")
	for range 2 {
		db = open(t, dsn)
		must.Do(t, db.Update(t.Context(), counted))
		must.Do(t, db.Close())
	}
	must.Do(t, open(t, dsn).View(t.Context(), func(r kv.Reader) error {
		value, err := r.Get([]byte("head"))
		if err != nil || binary.BigEndian.Uint64(value) != 3 {
			t.Errorf("Get() = %v, %v, want 3", value, err)
		}
		return nil
	}))
}

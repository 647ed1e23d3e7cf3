package store_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/kv"
	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest"
)

// turnBack turns a store back into one of an older schema: as it was before its
// logs had parts and, of schema 1, before codes were listed, but for the lists that
// are kept.
func turnBack(t testing.TB, f *storetest.Fixture, schema byte, keep func(key []byte) bool) {
	t.Helper()
	ctx := context.Background()
	f.FlushMarks(ctx)
	if _, err := f.ListAudit(ctx, store.Position{}, 1); err != nil { // writes the line that waits
		t.Fatal(err)
	}
	var gone [][]byte
	var older []kv.Record
	var meta []byte
	err := f.DB.View(ctx, func(r kv.Reader) (err error) {
		for k := range r.Scan(kv.Range{Lo: []byte{'K'}, Hi: []byte{'L'}, KeysOnly: true}) {
			if schema == 1 && !keep(k) {
				gone = append(gone, bytes.Clone(k))
			}
		}
		for _, tag := range []byte("Eh") {
			for k, v := range r.Scan(kv.Range{Lo: []byte{tag}, Hi: []byte{tag + 1}}) {
				was, err := store.Unparted(kv.Record{Key: bytes.Clone(k), Value: bytes.Clone(v)})
				if err != nil {
					return err
				}
				gone, older = append(gone, bytes.Clone(k)), append(older, was)
			}
		}
		meta, err = r.Get([]byte("mstore\x00"))
		meta = bytes.Clone(meta)
		return err
	})
	if err == nil {
		meta[1] = schema
		err = f.DB.Update(ctx, func(tx kv.Txn) error {
			for _, k := range gone {
				if err := tx.Delete(k); err != nil {
					return err
				}
			}
			for _, r := range older {
				if err := tx.Set(r.Key, r.Value, time.Time{}); err != nil {
					return err
				}
			}
			return tx.Set([]byte("mstore\x00"), meta, time.Time{})
		})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// backUpOlder backs up a store that cannot be opened any more.
func backUpOlder(t testing.TB, db kv.DB) []byte {
	t.Helper()
	var file bytes.Buffer
	if _, err := store.BackupOlder(context.Background(), db, &file, time.Now(), store.BackupNotes{Version: "test"}); err != nil {
		t.Fatalf("BackupOlder() = %v", err)
	}
	return file.Bytes()
}

// unparted are the records of a store, as lines, each as it would be without parts.
func unparted(t testing.TB, db kv.DB) (lines []string) {
	t.Helper()
	err := db.(kv.Snapshotter).Snapshot(context.Background(), func(page []kv.Record) error {
		for _, r := range page {
			r, err := store.Unparted(r)
			if err != nil {
				return err
			}
			lines = append(lines, recordLine(r))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(lines)
	return lines
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	older := func(t *testing.T, schema byte, keep func([]byte) bool) (f *storetest.Fixture, was []string) {
		t.Helper()
		f = furnished(t)
		for range 3 { // beside the one that is there
			_, err := f.Allow(ctx, store.Consent{Client: clientOf(t, f), User: userOf(t, f), RedirectURI: storetest.CallbackURI,
				Ticket: secret.HashOf(secret.Text()), TicketEnds: f.Now().Add(2 * time.Hour)})
			if err != nil {
				t.Fatal(err)
			}
		}
		f.FlushMarks(ctx)
		if _, err := f.ListAudit(ctx, store.Position{}, 1); err != nil {
			t.Fatal(err)
		}
		was = unparted(t, f.DB)
		turnBack(t, f, schema, keep)
		return f, was
	}
	none := func([]byte) bool { return false }
	t.Run("reliability_R15_an_older_schema_is_told_and_opened_as_it_is_by_nobody", func(t *testing.T) {
		t.Parallel()
		f, _ := older(t, 1, none)
		before := recordsOf(t, f.DB)
		var told *store.OlderError
		_, err := store.Open(ctx, f.DB, store.Options{Now: f.Clock.Now, Lifetimes: store.DefaultLifetimes()})
		if !errors.As(err, &told) || told.Found != 1 || told.Known <= told.Found || !strings.Contains(err.Error(), "the store has schema 1, and this tollhouse writes 3") {
			t.Errorf("Open(schema 1) = %v, want an OlderError that names both", err)
		}
		if !equal(recordsOf(t, f.DB), before) {
			t.Error("Open has changed a store that it refused")
		}
	})
	for name, c := range map[string]struct {
		schema byte
		keep   func([]byte) bool
	}{
		"from_before_codes_were_listed": {1, none},
		"with_some_codes_listed":        {1, func(k []byte) bool { return k[len(k)-1]&1 == 0 }},
		"with_all_codes_listed":         {1, func([]byte) bool { return true }},
		"from_before_logs_had_parts":    {2, none},
	} {
		t.Run("reliability_R15_a_backup_of_it_is_whole_and_loads_as_the_store_of_today/"+name, func(t *testing.T) {
			t.Parallel()
			f, was := older(t, c.schema, c.keep)
			file := backUpOlder(t, f.DB)
			b, err := store.OpenBackup(bytes.NewReader(file))
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			if _, err := check(bytes.NewReader(file)); err != nil || b.Schema != uint64(c.schema) || b.Instance != f.InstanceID() {
				t.Errorf("the backup: schema %d, instance %s, Check() = %v; want %d, %s, nil", b.Schema, b.Instance, err, c.schema, f.InstanceID())
			}
			db := storetest.EmptyOnDisk(t)
			if _, err := b.Load(ctx, db, time.Now()); err != nil {
				t.Fatalf("Load() = %v", err)
			}
			if got := unparted(t, db); !equal(got, was) {
				t.Errorf("migrated: %d records, want the %d of the store before it was turned back:\n%s", len(got), len(was), differing(got, was))
			}
			again := storetest.Open(t, db, f.Clock)
			if _, err := again.CheckAll(ctx); err != nil {
				t.Errorf("CheckAll() = %v, want nil", err)
			}
			// What is recorded from then on begins a part, and is read on from the first.
			parts := func() (starts []uint64) {
				err := db.View(ctx, func(r kv.Reader) (err error) { starts, err = store.PartsOf(r, "acct_larkspur"); return err })
				if err != nil {
					t.Fatal(err)
				}
				return starts
			}
			if got := parts(); len(got) != 1 {
				t.Errorf("the migrated log has the parts %v, want the first alone", got)
			}
			if _, err := again.RecordEvent(ctx, store.NewEvent{Owner: "acct_larkspur", Resource: "r1", Type: "plan.renewed", Object: snapshot.ObjectOf()}); err != nil {
				t.Fatal(err)
			}
			if got := parts(); len(got) != 2 {
				t.Errorf("with one event more the log has the parts %v, want another one", got)
			}
			if n, err := again.CheckEvents(ctx, "acct_larkspur"); err != nil || n < 60 {
				t.Errorf("CheckEvents() = %d, %v", n, err)
			}
		})
	}
	t.Run("reliability_R15_what_is_damaged_is_not_migrated", func(t *testing.T) {
		t.Parallel()
		f, _ := older(t, 1, none)
		err := f.DB.Update(ctx, func(tx kv.Txn) error {
			return tx.Set(append([]byte{'k'}, make([]byte, 32)...), []byte{1, 2}, time.Time{})
		})
		if err != nil {
			t.Fatal(err)
		}
		b, err := store.OpenBackup(bytes.NewReader(backUpOlder(t, f.DB)))
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		if _, err := b.Load(ctx, storetest.EmptyInMemory(), time.Now()); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("Load(a code that cannot be read) = %v, want ErrCorrupt", err)
		}
	})
	t.Run("a_schema_that_never_was_is_damage", func(t *testing.T) {
		t.Parallel()
		f, _ := older(t, 1, none)
		if err := f.DB.Update(ctx, func(tx kv.Txn) error {
			meta, err := tx.Get([]byte("mstore\x00"))
			if err != nil {
				return err
			}
			meta = bytes.Clone(meta)
			meta[1] = 0
			return tx.Set([]byte("mstore\x00"), meta, time.Time{})
		}); err != nil {
			t.Fatal(err)
		}
		b, err := store.OpenBackup(bytes.NewReader(backUpOlder(t, f.DB)))
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		if _, err := b.Load(ctx, storetest.EmptyInMemory(), time.Now()); !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), "there is no schema 0") {
			t.Errorf("Load(schema 0) = %v, want ErrCorrupt", err)
		}
	})
}

// differing are lines of one list that the other does not have.
func differing(a, b []string) string {
	in := func(list []string) map[string]bool {
		has := map[string]bool{}
		for _, line := range list {
			has[line] = true
		}
		return has
	}
	var lines []string
	for sign, pair := range map[string][2][]string{"+ ": {a, b}, "- ": {b, a}} {
		for other, i := in(pair[1]), 0; i < len(pair[0]); i++ {
			if !other[pair[0][i]] {
				lines = append(lines, sign+pair[0][i])
			}
		}
	}
	return strings.Join(lines, "\n")
}

func clientOf(t testing.TB, f *storetest.Fixture) store.Client {
	t.Helper()
	clients, err := f.ListClients(context.Background(), "", 1)
	if err != nil || len(clients) != 1 {
		t.Fatalf("ListClients() = %v, %v", clients, err)
	}
	return clients[0]
}

func userOf(t testing.TB, f *storetest.Fixture) store.User {
	t.Helper()
	u, err := f.FindUser(context.Background(), "mara")
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// forgetful is an engine that hands out something else than it was given.
type forgetful struct {
	kv.DB
	change func([]kv.Record) []kv.Record
}

func (f forgetful) Load(ctx context.Context, records iter.Seq2[kv.Record, error]) error {
	return f.DB.(kv.Loader).Load(ctx, records)
}

func (f forgetful) Snapshot(ctx context.Context, fn func([]kv.Record) error) error {
	return f.DB.(kv.Snapshotter).Snapshot(ctx, func(page []kv.Record) error { return fn(f.change(slices.Clone(page))) })
}

// TestLoadComparesWhatWasStored: what an engine has made of a backup is read back
// and compared, record by record, in whatever order it comes.
func TestLoadComparesWhatWasStored(t *testing.T) {
	t.Parallel()
	file := backUp(t, furnished(t))
	for name, c := range map[string]struct {
		change func([]kv.Record) []kv.Record
		same   bool
	}{
		"nothing_changed":  {func(page []kv.Record) []kv.Record { return page }, true},
		"in_another_order": {func(page []kv.Record) []kv.Record { slices.Reverse(page); return page }, true},
		"one_lost":         {func(page []kv.Record) []kv.Record { return page[1:] }, false},
		"one_twice":        {func(page []kv.Record) []kv.Record { return append(page, page[0]) }, false},
		"two_swapped": {func(page []kv.Record) []kv.Record {
			other := slices.IndexFunc(page, func(r kv.Record) bool { return len(r.Value) != len(page[0].Value) })
			page[0].Value, page[other].Value = page[other].Value, page[0].Value
			return page
		}, false},
		"one_replaced_by_another": {func(page []kv.Record) []kv.Record { page[0] = page[1]; return page }, false},
		"another_expiry":          {func(page []kv.Record) []kv.Record { page[0].ExpiresAt = 1 << 40; return page }, false},
	} {
		t.Run("reliability_R14_"+name, func(t *testing.T) {
			t.Parallel()
			b, err := store.OpenBackup(bytes.NewReader(file))
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			_, err = b.Load(context.Background(), forgetful{storetest.EmptyInMemory(), c.change}, time.Now())
			if c.same && err != nil || !c.same && !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("Load() = %v, want it to be the same: %v", err, c.same)
			}
		})
	}
}

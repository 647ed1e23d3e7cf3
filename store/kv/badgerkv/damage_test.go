package badgerkv

import (
	"errors"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"tollhouse/store/kv"
)

func TestFlippedByteIsCorruptNotAbsent(t *testing.T) {
	t.Parallel()
	value := noise("value", 300)
	cases := []struct{ name, pattern string }{
		{"in_a_table", "*.sst"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			db := mustOpen(t, Options{Dir: dir})
			put(t, db, "ka", "whole", "kb", value, "kc", "whole")
			mustClose(t, db)
			flip(t, dir, c.pattern, value)
			damaged := mustOpen(t, Options{Dir: dir})
			wantValue(t, damaged, "ka", "whole")
			wantDamage(t, damaged)
			if err := damaged.Check(t.Context()); !errors.Is(err, kv.ErrCorrupt) {
				t.Errorf("Check() = %v, want ErrCorrupt", err)
			}
		})
	}
}

// TestRawDamage plants what no engine of ours would write.
func TestRawDamage(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		stored []byte
	}{
		{"nothing_at_all", nil},
		{"shorter_than_a_checksum", []byte("abc")},
		{"wrong_checksum", []byte("value\x00\x00\x00\x00")},
		{"the_value_of_another_key", seal([]byte("ka"), []byte("whole"))},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := mustOpen(t, Options{InMemory: true})
			put(t, db, "ka", "whole", "kc", "whole")
			tx := db.engine.NewTransactionAt(1, true)
			if err := tx.SetEntry(&badger.Entry{Key: []byte("kb"), Value: c.stored}); err != nil {
				t.Fatal(err)
			}
			if err := tx.CommitAt(1, nil); err != nil {
				t.Fatal(err)
			}
			wantDamage(t, db)
		})
	}
}

// wantDamage expects every way of reading "kb" to say that it is damaged.
func wantDamage(t *testing.T, db *DB) {
	t.Helper()
	readers := []struct {
		name string
		read func(kv.Reader) error
	}{
		{"Get", func(r kv.Reader) error { _, err := r.Get([]byte("kb")); return err }},
		{"GetMany", func(r kv.Reader) error {
			for i := range r.GetMany([][]byte{[]byte("ka"), []byte("kb"), []byte("kc")}) {
				if i != 0 {
					t.Errorf("GetMany goes on to %d after damage", i)
				}
			}
			return nil
		}},
		{"Scan", func(r kv.Reader) error {
			for key := range r.Scan(kv.Range{}) {
				if string(key) != "ka" {
					t.Errorf("Scan goes on to %q after damage", key)
				}
			}
			return nil
		}},
		{"Scan, then ErrNotFound", func(r kv.Reader) error {
			for range r.Scan(kv.Range{Lo: []byte("kb"), Hi: []byte("kc"), Reverse: true}) {
				return nil
			}
			return kv.ErrNotFound
		}},
	}
	for _, c := range readers {
		wantCorrupt(t, "View "+c.name, db.View(t.Context(), c.read))
		wantCorrupt(t, "Update "+c.name, db.Update(t.Context(), func(tx kv.Txn) error { return c.read(tx) }))
	}
	keys := 0
	err := db.View(t.Context(), func(r kv.Reader) error {
		for range r.Scan(kv.Range{KeysOnly: true}) {
			keys++
		}
		return nil
	})
	if err != nil || keys != 3 {
		t.Errorf("Scan(KeysOnly) = %d keys, %v, want 3: it reads no values", keys, err)
	}
}

func wantCorrupt(t *testing.T, what string, err error) {
	t.Helper()
	var damage *kv.CorruptError
	if !errors.As(err, &damage) || !errors.Is(err, kv.ErrCorrupt) || errors.Is(err, kv.ErrNotFound) || damage.Kind != 'k' {
		t.Errorf("%s = %v, want a CorruptError of kind 'k'", what, err)
	}
}

func TestCheckOfAWholeStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := mustOpen(t, Options{Dir: dir})
	put(t, db, "a", noise("a", 5000))
	mustClose(t, db)
	var checker kv.Checker = mustOpen(t, Options{Dir: dir})
	if err := checker.Check(t.Context()); err != nil {
		t.Errorf("Check() = %v, want nil", err)
	}
}

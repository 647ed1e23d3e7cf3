package badgerkv

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/table"

	"tollhouse/store/kv"
	"tollhouse/store/storetest/must"
)

func TestFlippedByteIsCorruptNotAbsent(t *testing.T) {
	t.Parallel()
	value := noise("value", 300)
	dir := t.TempDir()
	db := mustOpen(t, Options{Dir: dir})
	put(t, db, "ka", "whole", "kb", value, "kc", "whole")
	mustClose(t, db)
	flip(t, dir, "*.sst", value)
	damaged := mustOpen(t, Options{Dir: dir})
	wantValue(t, damaged, "ka", "whole")
	wantDamage(t, damaged)
}

// TestFlipsAreNamed flips bits all over a table of compressible values. Some of them keep
// Badger from decoding a block, whose keys then seem absent: one Check must name each
// flip, and reads of keys that it may hide are refused.
func TestFlipsAreNamed(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	const flips = 24
	dir := t.TempDir()
	db := mustOpen(t, Options{Dir: dir})
	for i := range 100 {
		put(t, db, fmt.Sprintf("k%03d", i), strings.Repeat(fmt.Sprintf(`{"id":%d,"object":"event"}`, i), 8))
	}
	mustClose(t, db)
	paths, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(paths) != 1 {
		t.Fatalf("tables = %q, %v, want one", paths, err)
	}
	whole := must.Get(os.ReadFile(paths[0]))(t)
	opened := 0
	for i := range flips {
		at := (len(whole) - 1) * i / flips
		flipped := bytes.Clone(whole)
		flipped[at] ^= 1 << (i % 8)
		must.Do(t, os.WriteFile(paths[0], flipped, 0o600))
		damaged, err := Open(Options{Dir: dir})
		if err != nil {
			continue // named at once
		}
		opened++
		err = damaged.Check(t.Context())
		if !errors.Is(err, kv.ErrCorrupt) || !strings.Contains(err.Error(), filepath.Base(paths[0])) {
			t.Errorf("byte %d of %d flipped: Check() = %v, want ErrCorrupt that names the table", at, len(whole), err)
		}
		wantRefused(t, damaged, (*damaged.damage.Load())[0].last != nil)
		mustClose(t, damaged)
	}
	if opened < flips/2 {
		t.Errorf("%d of %d flipped tables could be opened, want most of them", opened, flips)
	}
}

// TestFlippedIndexesAreNamedAtOpen flips bits all over a small table, which is mostly its
// index and the lengths and checksum of that. At some of them Badger would panic in a
// goroutine of its own.
func TestFlippedIndexesAreNamedAtOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := mustOpen(t, Options{Dir: dir})
	put(t, db, "ka", "whole", "kb", "whole")
	mustClose(t, db)
	paths := must.Get(filepath.Glob(filepath.Join(dir, "*.sst")))(t)
	whole := must.Get(os.ReadFile(paths[0]))(t)
	engine := Options{Dir: dir}.withDefaults().engine(engineLogger{})
	must.Do(t, checkIndexes(Options{Dir: dir, path: dir}, engine))
	named := 0
	for bit := 0; bit < 8*len(whole); bit += 3 {
		flipped := bytes.Clone(whole)
		flipped[bit/8] ^= 1 << (bit % 8)
		must.Do(t, os.WriteFile(paths[0], flipped, 0o600))
		var damage *DamageError
		err := checkIndexes(Options{Dir: dir, path: dir}, engine)
		if err == nil {
			continue // Check names it
		}
		if named++; !errors.As(err, &damage) || !errors.Is(err, kv.ErrCorrupt) || !strings.Contains(damage.Tables, filepath.Base(paths[0])) {
			t.Fatalf("bit %d of %d flipped: %v, want a DamageError that names the table", bit, 8*len(whole), err)
		}
		if bit >= 8*(len(whole)-4) { // the length of the checksum
			if _, err := Open(Options{Dir: dir}); !errors.As(err, &damage) {
				t.Errorf("bit %d of %d flipped: Open() = %v, want a DamageError", bit, 8*len(whole), err)
			}
		}
	}
	if named < 8*len(whole)/6 {
		t.Errorf("%d of %d flips were named", named, 8*len(whole)/3)
	}
}

// TestFlippedManifestsLoseNoTable flips every bit of a manifest: it is refused, or names
// the same tables. Cut at any byte, as a crash may leave it, it is not refused.
func TestFlippedManifestsLoseNoTable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 3 {
		db := mustOpen(t, Options{Dir: dir})
		put(t, db, "ka", "whole")
		mustClose(t, db)
	}
	engine := Options{Dir: dir}.withDefaults().engine(engineLogger{})
	path := filepath.Join(dir, badger.ManifestFilename)
	whole := must.Get(os.ReadFile(path))(t)
	tables := func(content []byte) (ids []uint64, err error) {
		must.Do(t, os.WriteFile(path, content, 0o600))
		if err := checkIndexes(Options{Dir: dir, path: dir}, engine); err != nil {
			return nil, err
		}
		file := must.Get(os.Open(path))(t)
		defer file.Close()
		manifest, _, err := badger.ReplayManifestFile(file, 0, engine)
		return slices.Sorted(maps.Keys(manifest.Tables)), err
	}
	want := must.Get(tables(whole))(t)
	if len(want) < 2 {
		t.Fatalf("the manifest has the tables %v, want several", want)
	}
	for bit := range 8 * len(whole) {
		flipped := bytes.Clone(whole)
		flipped[bit/8] ^= 1 << (bit % 8)
		if got, err := tables(flipped); err == nil && !slices.Equal(got, want) {
			t.Errorf("bit %d of byte %d flipped: the tables are %v, want %v or an error", bit%8, bit/8, got, want)
		}
	}
	for n := 8; n < len(whole); n++ { // Badger refuses a shorter one
		if _, err := tables(whole[:n]); err != nil {
			t.Errorf("cut at byte %d of %d: %v, want nil", n, len(whole), err)
		}
	}
}

// wantRefused: no key of the damaged table reads as absent, and no key after it is
// refused, if the table's end is known.
func wantRefused(t *testing.T, db *DB, endKnown bool) {
	t.Helper()
	for _, key := range []string{"k000", "k050", "k050 absent", "k099"} {
		if _, err := get(t, db, key); !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("Get(%q) after Check = %v, want ErrCorrupt", key, err)
		}
	}
	if _, err := get(t, db, "z is in no table"); errors.Is(err, kv.ErrNotFound) != endKnown {
		t.Errorf("Get(behind the table) after Check = %v, want absent %t", err, endKnown)
	}
	for _, c := range []struct {
		rng     kv.Range
		refused bool
	}{
		{kv.Range{}, true},
		{kv.Range{Lo: []byte("k099"), Hi: []byte("l"), Reverse: true}, true},
		{kv.Range{Lo: []byte("k0990"), Hi: []byte("l"), KeysOnly: true}, !endKnown},
		{kv.Range{Lo: []byte("l")}, !endKnown},
	} {
		err := db.Update(t.Context(), func(tx kv.Txn) error {
			for range tx.Scan(c.rng) {
				continue
			}
			return nil
		})
		if errors.Is(err, kv.ErrCorrupt) != c.refused || (!c.refused && err != nil) {
			t.Errorf("Scan(%q to %q) after Check = %v, want refused %t", c.rng.Lo, c.rng.Hi, err, c.refused)
		}
	}
}

// FuzzFooter reads damaged ends of a table.
func FuzzFooter(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{9, 0, 0, 0, 1, 7, 7, 0, 0, 0, 2})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		if footerFits(data) && len(data) < 8 {
			t.Errorf("footerFits(%x) although two lengths do not", data)
		}
	})
}

// TestRawDamage writes what our engine never would.
func TestRawDamage(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		stored []byte
	}{
		{"nothing_at_all", nil},
		{"shorter_than_a_checksum", []byte("abc")},
		{"wrong_checksum", []byte("value\x00\x00\x00\x00")},
		{"the_value_of_another_key", kv.Seal([]byte("ka"), []byte("whole"))},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := mustOpen(t, Options{InMemory: true})
			put(t, db, "ka", "whole", "kc", "whole")
			tx := db.engine.NewTransactionAt(1, true)
			must.Do(t, tx.SetEntry(&badger.Entry{Key: []byte("kb"), Value: c.stored}))
			must.Do(t, tx.CommitAt(1, nil))
			wantDamage(t, db)
		})
	}
}

// wantDamage: every way of reading "kb" returns that it is damaged.
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
					t.Errorf("GetMany continues to %d after damage", i)
				}
			}
			return nil
		}},
		{"Scan", func(r kv.Reader) error {
			for key := range r.Scan(kv.Range{}) {
				if string(key) != "ka" {
					t.Errorf("Scan continues to %q after damage", key)
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
	if err := mustOpen(t, Options{Dir: dir}).Check(t.Context()); err != nil {
		t.Errorf("Check() = %v, want nil", err)
	}
}

// TestCheckBesideCompaction: files that a compaction removes while Check reads them are
// not damage. Badger truncates a file before it removes it.
func TestCheckBesideCompaction(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := mustOpen(t, Options{Dir: dir})
	put(t, db, "ka", "whole")
	mustClose(t, db)
	db = mustOpen(t, Options{Dir: dir})
	used := db.engine.Tables()[0]
	whole := must.Get(os.ReadFile(filepath.Join(dir, table.IDToFilename(used.ID))))(t)
	flipped := bytes.Clone(whole)
	flipped[0] ^= 1
	for i, c := range []struct {
		name    string
		content []byte // nil: no file
		damaged bool
	}{
		{"removed", nil, false},
		{"about_to_be_removed", []byte{}, false},
		{"whole", whole, false},
		{"damaged_and_as_large_as_it_was", flipped, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			replaced := used
			replaced.ID += uint64(1000 + i) // no longer of any level
			path := filepath.Join(dir, table.IDToFilename(replaced.ID))
			if c.content != nil {
				must.Do(t, os.WriteFile(path, c.content, 0o600))
				defer os.Remove(path)
			}
			if d, is, err := db.examineTable(replaced); is != c.damaged || err != nil {
				t.Errorf("examineTable() = %+v, %t, %v, want %t", d, is, err, c.damaged)
			}
		})
	}
	t.Run("missing_although_it_is_in_use", func(t *testing.T) {
		path := filepath.Join(dir, table.IDToFilename(used.ID))
		must.Do(t, os.Rename(path, path+".away"))
		defer func() {
			if err := os.Rename(path+".away", path); err != nil {
				t.Error(err)
			}
		}()
		if _, is, _ := db.examineTable(used); !is {
			t.Error("a table in use whose file is missing is no damage")
		}
	})
}

// TestACleanCheckClearsTheFinding: a table that reads well again was read badly before, by a
// disk or a memory that has recovered. One that was merged meanwhile may have lost records.
func TestACleanCheckClearsTheFinding(t *testing.T) {
	t.Parallel()
	dir, value := t.TempDir(), noise("value", 300)
	db := mustOpen(t, Options{Dir: dir})
	put(t, db, "ka", "whole", "kb", value)
	mustClose(t, db)
	db = mustOpen(t, Options{Dir: dir})
	path := must.Get(filepath.Glob(filepath.Join(dir, "*.sst")))(t)[0]
	whole := must.Get(os.ReadFile(path))(t)
	at := int64(bytes.Index(whole, []byte(value)))
	write := func(b byte) {
		f := must.Get(os.OpenFile(path, os.O_WRONLY, 0))(t)
		defer f.Close()
		must.Get(f.WriteAt([]byte{b}, at))(t)
	}
	write(whole[at] ^ 1)
	if err := db.Check(t.Context()); !errors.Is(err, kv.ErrCorrupt) || len(db.DamagedKeys()) != 1 {
		t.Fatalf("Check() = %v with %d ranges of keys, want ErrCorrupt and one", err, len(db.DamagedKeys()))
	}
	if err := db.Check(t.Context()); !errors.Is(err, kv.ErrCorrupt) || len(db.DamagedKeys()) != 1 {
		t.Errorf("the second Check() = %v with %d ranges of keys, want ErrCorrupt and one", err, len(db.DamagedKeys()))
	}
	write(whole[at])
	if err := db.Check(t.Context()); err != nil {
		t.Errorf("Check() = %v of tables that are whole again, want nil", err)
	}
	wantValue(t, db, "ka", "whole")

	db.updateDamage([]damagedTable{{name: "000999.sst", reason: "merged since", first: []byte("x")}}, nil)
	if err := db.Check(t.Context()); !errors.Is(err, kv.ErrCorrupt) || !strings.Contains(err.Error(), "000999.sst") {
		t.Errorf("Check() = %v, want the damage of a table that was merged since", err)
	}
}

// TestOnlyBytesThatWereReadAreDamage separates what the system lacks from what is stored.
func TestOnlyBytesThatWereReadAreDamage(t *testing.T) {
	t.Parallel()
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EACCES, syscall.EINTR} {
		if _, reason, err := unreadable(&os.PathError{Op: "open", Path: "x", Err: errno}); reason != "" || !errors.Is(err, errno) {
			t.Errorf("%v: damage %q, error %v, want no damage", errno, reason, err)
		}
		opened := openError(Options{Dir: "/data"}, fmt.Errorf("000001.sst: %w", errno))
		if errors.Is(opened, kv.ErrCorrupt) || errno != syscall.EINTR && !strings.Contains(fmt.Sprint(opened), "cannot be opened") {
			t.Errorf("%v while the store is opened: %v, want no damage", errno, opened)
		}
	}
	for _, errno := range []syscall.Errno{syscall.ENOENT, syscall.EIO} {
		if _, reason, err := unreadable(&os.PathError{Op: "open", Path: "x", Err: errno}); reason == "" || err != nil {
			t.Errorf("%v: damage %q, error %v, want damage", errno, reason, err)
		}
	}
}

// TestFewFilesRefuseTheStart: the tables, those of the next merges and 64 others must fit.
func TestFewFilesRefuseTheStart(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	dir, limit := t.TempDir(), uint64(1<<20)
	opts := Options{Dir: dir, filesMax: func() uint64 { return limit }}
	db := mustOpen(t, opts)
	for i := range 1200 {
		put(t, db, fmt.Sprintf("key-%05d", (i*7919)%1200), noise(fmt.Sprint(i), 60<<10))
	}
	mustClose(t, db)
	db = mustOpen(t, opts)
	tables, need := len(db.engine.Tables()), db.Files().Need
	mustClose(t, db)
	if tables < 20 || need <= uint64(tables)+filesSpare {
		t.Fatalf("%d tables need %d files, want more for the merges", tables, need)
	}
	for _, limit = range []uint64{0, filesSpare, uint64(tables) + filesSpare - 1} {
		refused, err := Open(opts)
		if few, is := errors.AsType[*FilesError](err); !is || few.Limit != limit || few.Need <= limit {
			t.Errorf("Open() = %v, %v with %d files, want a FilesError", refused, err, limit)
		}
	}
	limit = 2 * need
	mustClose(t, must.Get(Open(opts))(t))
}

package badgerkv

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/badger/v4/y"
	"github.com/dgraph-io/ristretto/v2/z"

	"tollhouse/store/kv"
)

// damagedNamed is how many damaged tables an error names.
const damagedNamed = 5

// damagedTable is a table that Check could not read to its end.
type damagedTable struct {
	name, reason string
	first, last  []byte // its keys; a nil last is unknown, and may be any
}

// Check reads every table on disk and verifies the checksums of its blocks, which no
// other read does: when Badger cannot decode a block, it silently skips its keys or
// returns older values. Once a table is known to be damaged, every read of a key or
// range that it may hold returns a *kv.CorruptError, until a later Check finds that table whole
// or the store is opened again.
//
// The error matches kv.ErrCorrupt and names the tables, or kv.ErrUnavailable if none is known
// to be damaged and some could not be read, for instance because too many files are open. Check
// returns soon after ctx is done; Close waits for it.
func (db *DB) Check(ctx context.Context) error {
	if err := db.snapshots.enter(); err != nil {
		return err
	}
	defer db.snapshots.leave()
	if db.opts.InMemory {
		return ctx.Err()
	}
	tables := db.engine.Tables()
	var found []damagedTable
	whole, unread, why := map[string]bool{}, 0, error(nil)
	for _, info := range tables {
		if err := ctx.Err(); err != nil {
			return err
		}
		turn := db.begin()
		damaged, is, err := db.examineTable(info)
		switch {
		case is:
			found = append(found, damaged)
		case err != nil:
			unread, why = unread+1, err
		default:
			whole[table.IDToFilename(info.ID)] = true
		}
		turn.giveWay(ctx)
	}
	if all := db.updateDamage(found, whole); len(all) > 0 {
		return fmt.Errorf("%w: %d of %d tables in %s: %s", kv.ErrCorrupt, len(all), len(tables), db.opts.Dir, nameDamage(all))
	}
	if unread > 0 {
		return fmt.Errorf("%w: %d of %d tables in %s could not be checked: %w", kv.ErrUnavailable, unread, len(tables), db.opts.Dir, why)
	}
	return nil
}

// examineTable checks a table that was in use, and returns any damage, or why it could not be
// read.
func (db *DB) examineTable(info badger.TableInfo) (d damagedTable, is bool, err error) {
	name := table.IDToFilename(info.ID)
	last, reason, err := readMapped(db.file(name), func(data []byte) ([]byte, string) {
		return readTable(data, info.KeyCount, db.engine.Opts())
	})
	if reason == "" && err == nil || db.isGone(info.ID) {
		return damagedTable{}, false, nil
	}
	if err != nil {
		return damagedTable{}, false, err
	}
	// Badger takes the first key from the index, which has a checksum, but the last
	// key from a block, unchecked.
	return damagedTable{name, reason, y.ParseKey(info.Left), last}, true, nil
}

// updateDamage adds found to earlier damage, removes that of tables which are whole now, and
// returns what remains. Earlier damage of a table that is gone remains: a compaction may have
// rewritten it without the keys that it could not read.
func (db *DB) updateDamage(found []damagedTable, whole map[string]bool) []damagedTable {
	for {
		known := db.damage.Load()
		all := slices.Clone(found)
		if known != nil {
			for _, d := range *known {
				again := slices.ContainsFunc(found, func(f damagedTable) bool { return f.name == d.name })
				if !again && !whole[d.name] {
					all = append(all, d)
				}
			}
		}
		var next *[]damagedTable
		if len(all) > 0 {
			next = &all
		}
		if db.damage.CompareAndSwap(known, next) {
			return all
		}
	}
}

// DamagedKeys returns the key ranges, both ends included, whose records may be hidden
// by damage that Check has found. A nil last key means the end of the store.
func (db *DB) DamagedKeys() (ranges [][2][]byte) {
	if found := db.damage.Load(); found != nil {
		for _, d := range *found {
			ranges = append(ranges, [2][]byte{d.first, d.last})
		}
	}
	return ranges
}

func nameDamage(found []damagedTable) string {
	var named []string
	for _, d := range found[:min(len(found), damagedNamed)] {
		named = append(named, d.name+" ("+d.reason+")")
	}
	if len(found) > damagedNamed {
		named = append(named, "…")
	}
	return strings.Join(named, ", ")
}

// checkIndexes reads of every table what Badger reads when it opens. Badger does so in
// goroutines of its own and panics on some kinds of damage, which would crash the process.
func checkIndexes(opts Options, engine badger.Options) (err error) {
	dir := opts.Dir
	manifest, err := os.Open(filepath.Join(opts.path, badger.ManifestFilename))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer manifest.Close()
	tables, end, err := badger.ReplayManifestFile(manifest, 0, engine)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(manifest.Name())
	if err != nil {
		return err
	}
	if isWhole(content[min(end, int64(len(content))):]) {
		return &DamageError{Dir: dir, Tables: badger.ManifestFilename + " (the length of a change is damaged)"}
	}
	var found []damagedTable
	for id, info := range tables.Tables {
		name := table.IDToFilename(id)
		_, reason, err := readMapped(filepath.Join(opts.path, name), func(data []byte) ([]byte, string) {
			engine.Compression = info.Compression
			_, reason := openTable(data, engine, engine.ChecksumVerificationMode)
			return nil, reason
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if reason != "" {
			found = append(found, damagedTable{name: name, reason: reason})
		}
	}
	if len(found) == 0 {
		return nil
	}
	return &DamageError{Dir: dir, Tables: nameDamage(found)}
}

// isWhole reports whether the end of a manifest, which Badger would cut off as a change
// that a crash interrupted, begins with a whole change whose length is wrong. Without it
// Badger would remove the tables that the change added.
func isWhole(tail []byte) bool {
	const headerSize = 8 // the length of the change and its checksum
	if len(tail) <= headerSize {
		return false
	}
	want, sum := binary.BigEndian.Uint32(tail[4:]), uint32(0)
	for i := headerSize; i < len(tail); i++ {
		if sum = crc32.Update(sum, y.CastagnoliCrcTable, tail[i:i+1]); sum == want {
			return true
		}
	}
	return false
}

// readMapped returns what read does of the file at path: the last key of a table, if
// known, and what is wrong with it, or "". err is why the file could not be read, if that says
// nothing about its content. It maps the file itself, to bypass Badger's caches.
func readMapped(path string, read func(data []byte) ([]byte, string)) (last []byte, reason string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return unreadable(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return unreadable(err)
	}
	if info.Size() == 0 {
		return nil, "it is empty", nil
	}
	data, err := z.Mmap(file, false, info.Size())
	if err != nil {
		return unreadable(err)
	}
	defer func() {
		if unmapErr := z.Munmap(data); reason == "" {
			err = unmapErr
		}
	}()
	// An unreadable disk faults the map, and Badger panics on some kinds of damage.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			last, reason = nil, unreadableDisk
		}
	}()
	last, reason = read(data)
	return last, reason, nil
}

const unreadableDisk = "it cannot be read"

// unreadable separates damage from what the process or the system lacks at the moment: files
// (EMFILE, ENFILE), memory (ENOMEM) or permission (EACCES). A missing file and a disk that
// cannot read are damage.
func unreadable(cause error) (last []byte, reason string, err error) {
	switch {
	case errors.Is(cause, fs.ErrNotExist):
		return nil, "its file is missing", nil // if it was not compacted away in the meantime
	case errors.Is(cause, syscall.EIO):
		return nil, unreadableDisk, nil
	}
	return nil, "", reasonOf(cause)
}

// isGone reports whether a compaction removed a table while it was being read. Badger
// truncates such a file before it removes it, which looks like damage. A table is out
// of use before its file is truncated, so a file of full length was read correctly.
func (db *DB) isGone(id uint64) bool {
	info, err := os.Stat(db.file(table.IDToFilename(id)))
	if err == nil && info.Size() > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	return !slices.ContainsFunc(db.engine.Tables(), func(t badger.TableInfo) bool { return t.ID == id })
}

// readTable reads all blocks of the table in data.
func readTable(data []byte, keys uint32, engine badger.Options) (last []byte, reason string) {
	t, reason := openTable(data, engine, options.OnBlockRead)
	if reason != "" {
		return nil, reason
	}
	last = bytes.Clone(y.ParseKey(t.Biggest()))
	it := t.NewIterator(table.NOCACHE)
	defer it.Close()
	count := uint32(0)
	for it.Rewind(); it.Valid(); it.Next() {
		count++
	}
	// The iterator returns the same for an unreadable block as for the end.
	if count != keys || count != t.KeyCount() {
		return last, fmt.Sprintf("a block is damaged behind key %d of %d", count, keys)
	}
	return last, ""
}

func openTable(data []byte, engine badger.Options, checks options.ChecksumVerificationMode) (t *table.Table, reason string) {
	if !footerFits(data) {
		return nil, "its footer is damaged"
	}
	t, err := table.OpenInMemoryTable(data, 0, &table.Options{
		ReadOnly:    true,
		BlockSize:   engine.BlockSize,
		Compression: engine.Compression,
		ChkMode:     checks,
	})
	if err != nil {
		return nil, "its index or its last block is damaged"
	}
	return t, ""
}

// footerFits reports whether the lengths at the end of a table are within it. If not,
// Badger would crash the process.
func footerFits(data []byte) bool {
	const lengthSize = 4
	rest := data
	for range 2 { // the checksum of the index, then the index
		if len(rest) < lengthSize {
			return false
		}
		rest, data = rest[:len(rest)-lengthSize], rest[len(rest)-lengthSize:]
		n := binary.BigEndian.Uint32(data)
		if uint64(n) > uint64(len(rest)) {
			return false
		}
		rest = rest[:len(rest)-int(n)]
	}
	return true
}

// damagedKey returns the error for reading key, or nil.
func damagedKey(damage *[]damagedTable, key []byte) error {
	if damage == nil {
		return nil
	}
	for _, d := range *damage {
		if bytes.Compare(d.first, key) <= 0 && d.reaches(key) {
			return kv.Corrupt(key, d.refusal())
		}
	}
	return nil
}

// damagedRange returns the error for scanning rng, or nil.
func damagedRange(damage *[]damagedTable, rng kv.Range) error {
	if damage == nil {
		return nil
	}
	for _, d := range *damage {
		if (rng.Hi == nil || bytes.Compare(d.first, rng.Hi) < 0) && d.reaches(rng.Lo) {
			return kv.Corrupt(rng.Lo, d.refusal())
		}
	}
	return nil
}

// reaches reports whether the table may hold key or a later one.
func (d damagedTable) reaches(key []byte) bool {
	return d.last == nil || bytes.Compare(key, d.last) <= 0
}

func (d damagedTable) refusal() string { return d.name + ", which may hold it, is damaged" }

package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"sync"
	"time"

	"tollhouse/store/backup"
	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// A backup is a snapshot of the engine in the format of package backup. It is written
// while the server runs, and restored only into a new store.

var errNoSnapshots = errors.New("this engine has no snapshots")

// BackupNotes are facts for a backup's header that the store does not know.
type BackupNotes struct {
	Version string // of the product
	Key     string // the server key's fingerprint, or "" if unknown

	Frugal bool // the backup is read while it is written, in the same process
}

// Backup writes everything acknowledged before the call to w. It blocks no writer and
// yields to them. Only one backup runs at a time; a second one gets ErrUnavailable.
// Errors: ErrCorrupt when the store is damaged, the engine's, and those of w.
func (s *Store) Backup(ctx context.Context, w io.Writer, n BackupNotes) (backup.Totals, error) {
	engine, ok := s.db.(kv.Snapshotter)
	if !ok {
		return backup.Totals{}, errNoSnapshots
	}
	unlock, ok, err := s.tryLock(ctx, "backup", &s.backingUp)
	if err == nil && !ok {
		err = fmt.Errorf("%w: another backup is running", record.ErrUnavailable)
	}
	if err != nil {
		return backup.Totals{}, err
	}
	defer unlock()
	s.Flush(ctx) // the backup includes recent uses
	return backUp(ctx, engine, w, n.Frugal, backup.Header{Schema: formatVersion, Instance: s.InstanceID(), Created: s.Now(), Version: n.Version, Key: n.Key})
}

// tryLock allows one holder of a lock at a time, on an engine with locks by all processes
// together. It reports false if there is another.
func (s *Store) tryLock(ctx context.Context, name string, own *sync.Mutex) (unlock func(), ok bool, err error) {
	if engine, ok := s.db.(kv.Locker); ok {
		return engine.TryLock(ctx, name)
	}
	return own.Unlock, own.TryLock(), nil
}

// backUp writes the contents of the engine to w.
func backUp(ctx context.Context, engine kv.Snapshotter, w io.Writer, frugal bool, h backup.Header) (totals backup.Totals, err error) {
	var b *backup.Writer
	begin := backup.NewWriter
	if frugal {
		begin = backup.NewFrugalWriter
	}
	err = engine.Snapshot(ctx, func(page []kv.Record) (err error) {
		if b == nil { // only after the engine has found no damage
			if b, err = begin(w, h); err != nil {
				return err
			}
		}
		return b.Add(page)
	})
	if err == nil {
		totals, err = b.Close()
	}
	if err != nil {
		return backup.Totals{}, fmt.Errorf("back up: %w", err)
	}
	return totals, nil
}

// BackupFile is a backup opened for reading.
type BackupFile struct {
	backup.Header
	r        *backup.Reader
	fixtures bool // of what was read so far
}

// OpenBackup reads the header of a backup. Close it when done. Errors: those of
// backup.NewReader, and *FormatError.
func OpenBackup(r io.Reader) (*BackupFile, error) {
	b, err := backup.NewReader(r)
	if err != nil {
		return nil, err
	}
	if b.Header.Schema != formatVersion {
		b.Close()
		return nil, &FormatError{Found: b.Header.Schema, Needs: b.Header.Version}
	}
	return &BackupFile{Header: b.Header, r: b}, nil
}

// Close releases the BackupFile's memory.
func (f *BackupFile) Close() { f.r.Close() }

// Check reads the backup to its end and checks what Load relies on: it is complete and
// unaltered, every record can be decoded, and every index matches its records. Errors:
// backup.ErrTruncated, backup.ErrDamaged, those of the reader.
func (f *BackupFile) Check(ctx context.Context) (backup.Totals, error) {
	for _, err := range f.checked(ctx) {
		if err != nil {
			return backup.Totals{}, err
		}
	}
	totals, _ := f.r.Totals()
	return totals, nil
}

// HasFixtures reports whether the backup, read to its end, has test fixtures. Then Load
// refuses it.
func (f *BackupFile) HasFixtures() bool { return f.fixtures }

// Load checks the backup, stores it in an empty engine, and reads the engine back to
// compare. now is the wall clock's time; records that expire soon after it may be
// missing. After an error discard the engine. Errors: those of Check, *FixturesError,
// and the engine's.
func (f *BackupFile) Load(ctx context.Context, db kv.DB, now time.Time) (backup.Totals, error) {
	engine, ok := db.(interface {
		kv.Loader
		kv.Snapshotter
	})
	if !ok {
		return backup.Totals{}, errNoSnapshots
	}
	given, stored := newRecordSum(now), newRecordSum(now)
	err := engine.Load(ctx, func(yield func(kv.Record, error) bool) {
		for r, err := range f.checked(ctx) {
			if err == nil {
				given.add(r)
			}
			if !yield(r, err) {
				return
			}
		}
	})
	if err == nil && f.fixtures {
		err = &FixturesError{}
	}
	if err == nil {
		err = engine.Snapshot(ctx, func(page []kv.Record) error {
			for _, r := range page {
				stored.add(r)
			}
			return nil
		})
	}
	if err == nil && !stored.equal(given) {
		err = fmt.Errorf("%w: the stored records differ from the backup", record.ErrCorrupt)
	}
	totals, _ := f.r.Totals()
	return totals, err
}

// checked yields the records, each checked, and then checks the whole.
func (f *BackupFile) checked(ctx context.Context) iter.Seq2[kv.Record, error] {
	return func(yield func(kv.Record, error) bool) {
		v, n := newVerifier(), 0
		for r, err := range f.r.Records() {
			if n++; err == nil {
				err = ctx.Err()
			}
			if err == nil {
				if err = v.record(r.Key, r.Value); err != nil {
					err = fmt.Errorf("%w: record %d: %w", backup.ErrDamaged, n, err)
				}
			}
			f.fixtures = v.fixtures
			if !yield(r, err) || err != nil {
				return
			}
		}
		if err := f.agree(v); err != nil {
			yield(kv.Record{}, fmt.Errorf("%w: %w", backup.ErrDamaged, err))
		}
	}
}

// agree compares the records with the header.
func (f *BackupFile) agree(v *verifier) error {
	if err := v.finish(); err != nil {
		return err
	}
	if instance := nameInstance(v.id); v.format != f.Schema || instance != f.Instance {
		return record.Damaged("the header has format %d and instance %s, the records have format %d and instance %s", f.Schema, f.Instance, v.format, instance)
	}
	return nil
}

// expirySlack bounds the time that a restore takes. A record that expires within it
// may be missing afterwards.
const expirySlack = time.Hour

// recordSum sums up records except those that expire soon: their number and the sum of
// their hashes, independent of order.
type recordSum struct {
	hash    hash.Hash
	sum     [4]uint64
	soon    int64 // Unix seconds
	kept    int64
	passing int64 // number of records that expire soon
}

func newRecordSum(now time.Time) *recordSum {
	return &recordSum{hash: sha256.New(), soon: now.Add(expirySlack).Unix()}
}

func (s *recordSum) add(r kv.Record) {
	if r.ExpiresAt != 0 && r.ExpiresAt <= s.soon {
		s.passing++
		return
	}
	s.kept++
	var sizes [24]byte
	binary.BigEndian.PutUint64(sizes[0:], uint64(len(r.Key)))
	binary.BigEndian.PutUint64(sizes[8:], uint64(len(r.Value)))
	binary.BigEndian.PutUint64(sizes[16:], uint64(r.ExpiresAt))
	s.hash.Reset()
	s.hash.Write(sizes[:])
	s.hash.Write(r.Key)
	s.hash.Write(r.Value)
	var digest [sha256.Size]byte
	s.hash.Sum(digest[:0])
	for i := range s.sum {
		s.sum[i] += binary.BigEndian.Uint64(digest[8*i:])
	}
}

// equal reports whether s, read from an engine, matches what it was given.
func (s *recordSum) equal(given *recordSum) bool {
	return s.kept == given.kept && s.passing <= given.passing && s.sum == given.sum
}

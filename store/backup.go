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
	"time"

	"tollhouse/store/backup"
	"tollhouse/store/kv"
)

// A backup is a snapshot of the engine in the form of package backup. It goes
// out while others write, and comes back in as a store of its own: nothing is
// ever restored into one that is in use.

// errNoSnapshots says that the engine has no backups.
var errNoSnapshots = errors.New("this engine hands out no snapshots")

// BackupNotes is what a backup says of itself beyond what the store knows.
type BackupNotes struct {
	Version string // of the product
	Key     string // the server key's fingerprint, or "" when it is not known
}

// Backup writes a backup of the store to w: everything that was acknowledged
// when it is called. It holds nobody up, and gives way to those who write. Two at
// once would only be slower, so a second one is refused with ErrUnavailable. Errors:
// ErrCorrupt when there is damage in the store, the engine's, and those of w.
func (s *Store) Backup(ctx context.Context, w io.Writer, n BackupNotes) (backup.Totals, error) {
	engine, ok := s.db.(kv.Snapshotter)
	if !ok {
		return backup.Totals{}, errNoSnapshots
	}
	if !s.backingUp.TryLock() {
		return backup.Totals{}, fmt.Errorf("%w: another backup is being made", ErrUnavailable)
	}
	defer s.backingUp.Unlock()
	s.FlushMarks(ctx) // what was done is to be in it
	s.flushAudit(ctx)
	return backUp(ctx, engine, w, backup.Header{Schema: schemaVersion, Instance: s.InstanceID(), Created: s.Now(), Version: n.Version, Key: n.Key})
}

// backUp writes all that the engine holds to w.
func backUp(ctx context.Context, engine kv.Snapshotter, w io.Writer, h backup.Header) (totals backup.Totals, err error) {
	var b *backup.Writer
	err = engine.Snapshot(ctx, func(page []kv.Record) (err error) {
		if b == nil { // not before the engine has found no damage
			if b, err = backup.NewWriter(w, h); err != nil {
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

// BackupFile is a backup that is being read.
type BackupFile struct {
	backup.Header
	r *backup.Reader
}

// OpenBackup reads the header of a backup. Close must be called at the end. Errors: those of
// backup.NewReader, and *SchemaError.
func OpenBackup(r io.Reader) (*BackupFile, error) {
	b, err := backup.NewReader(r)
	if err != nil {
		return nil, err
	}
	if b.Header.Schema > schemaVersion {
		b.Close()
		return nil, &SchemaError{Found: b.Header.Schema, Known: schemaVersion}
	}
	return &BackupFile{Header: b.Header, r: b}, nil
}

// Close releases what the BackupFile holds.
func (f *BackupFile) Close() { f.r.Close() }

// Check reads the backup to its end and checks all that a Load would rely on:
// that it is whole and what was written, that every record can be decoded, and
// that every index agrees with what it lists. Errors: backup.ErrTruncated,
// backup.ErrDamaged, those of the reader.
func (f *BackupFile) Check(ctx context.Context) (backup.Totals, error) {
	for _, err := range f.checked(ctx) {
		if err != nil {
			return backup.Totals{}, err
		}
	}
	totals, _ := f.r.Totals()
	return totals, nil
}

// Load checks the backup and stores it in an engine that holds nothing, migrated
// if it is of an older schema, and then reads all that this engine has stored, to
// see that it is the same. now is the time by the wall clock: what expires soon
// after may be gone already. After an error the engine is to be thrown away.
// Errors: those of Check, and the engine's.
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
		for r, err := range migrated(f.checked(ctx), f.Schema) {
			if err == nil {
				given.add(r)
			}
			if !yield(r, err) {
				return
			}
		}
	})
	if err == nil {
		err = engine.Snapshot(ctx, func(page []kv.Record) error {
			for _, r := range page {
				stored.add(r)
			}
			return nil
		})
	}
	if err == nil && f.Schema < schemaVersion {
		_, err = checkAll(ctx, engine) // nobody has read it in this form before
	}
	if err == nil && !stored.equal(given) {
		err = fmt.Errorf("%w: what was stored is not what the backup holds", ErrCorrupt)
	}
	totals, _ := f.r.Totals()
	return totals, err
}

// checked yields the records, each checked; the end of it all is checked too.
func (f *BackupFile) checked(ctx context.Context) iter.Seq2[kv.Record, error] {
	return func(yield func(kv.Record, error) bool) {
		v, n := newVerifier(f.Schema), 0
		for r, err := range f.r.Records() {
			if n++; err == nil {
				err = ctx.Err()
			}
			if err == nil {
				if err = v.record(r.Key, r.Value); err != nil {
					err = fmt.Errorf("%w: record %d: %w", backup.ErrDamaged, n, err)
				}
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
		if err := f.agree(v); err != nil {
			yield(kv.Record{}, fmt.Errorf("%w: %w", backup.ErrDamaged, err))
		}
	}
}

// agree checks what the records say of the store against the header.
func (f *BackupFile) agree(v *verifier) error {
	if err := v.finish(); err != nil {
		return err
	}
	if told := nameInstance(v.id); v.schema != f.Schema || told != f.Instance {
		return damaged("its header tells of schema %d and instance %s, and its records of schema %d and instance %s", f.Schema, f.Instance, v.schema, told)
	}
	return nil
}

// expirySlack is how soon after a restore a record may expire for it not to
// matter whether it is still there: a restore takes no longer.
const expirySlack = time.Hour

// recordSum sums up records, but for those that expire soon: the number of them,
// and the sum of what each hashes to, so that it is the same in any order.
type recordSum struct {
	hash    hash.Hash
	sum     [4]uint64
	soon    int64 // Unix seconds
	kept    int64
	passing int64 // records that expire soon
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

// equal reports whether s, of an engine, is what was given to it.
func (s *recordSum) equal(given *recordSum) bool {
	return s.kept == given.kept && s.passing <= given.passing && s.sum == given.sum
}

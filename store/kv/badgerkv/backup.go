package badgerkv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/dgraph-io/badger/v4"

	"tollhouse/store/kv"
)

// Badger's own DB.Backup panics under managed versions, and its stream over
// several goroutines is torn by concurrent writes. A snapshot here is one
// version, kept from compaction by the same count as a View's, and read in
// order, a page at a time, each page in a transaction of its own: an
// iterator left open while a slow reader takes the bytes would hold files
// that compaction has long replaced.

const (
	// snapshotPageSize is the size of a page of records: large enough to hide the cost
	// of its transaction, small enough for memory.
	snapshotPageSize = 1 << 20 // bytes
	// After each page or table that took time t while updates were committed, a full
	// read pauses for restShare × t, at most restMax, so that writers go first. It
	// then uses a tenth of a processor.
	restShare = 9
	restMax   = 500 * time.Millisecond
)

var errNotEmpty = errors.New("badgerkv: records are loaded into an empty store only")

// Snapshot passes on every record of the last acknowledged version, after a Check of
// all tables: Badger skips what it cannot decode.
func (db *DB) Snapshot(ctx context.Context, fn func([]kv.Record) error) error {
	if err := db.Check(ctx); err != nil {
		return err
	}
	at, err := db.snapshots.open()
	if err != nil {
		return err
	}
	defer db.snapshots.release(at)
	var page recordPage
	for next := []byte{}; next != nil; {
		turn := db.begin()
		if next, err = db.readPage(ctx, at.version, next, &page); err != nil {
			return err
		}
		if err := fn(page.records); err != nil {
			return err
		}
		turn.giveWay(ctx)
	}
	return ctx.Err()
}

// held is a version that is kept from compaction.
type held struct {
	db *DB
	at *snapshot
}

// Hold is kv.Holder.
func (db *DB) Hold(ctx context.Context) (kv.Held, error) {
	if err := db.Check(ctx); err != nil {
		return nil, err
	}
	at, err := db.snapshots.open()
	if err != nil {
		return nil, err
	}
	return held{db, at}, nil
}

func (h held) View(ctx context.Context, fn func(kv.Reader) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return h.db.viewAt(h.at.version, fn)
}

func (h held) Release() { h.db.snapshots.release(h.at) }

// readPage reads records from the key lo on until the page is full, and returns the
// first key of the next page, or nil at the end.
func (db *DB) readPage(ctx context.Context, version uint64, lo []byte, page *recordPage) (next []byte, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := damagedRange(db.damage.Load(), kv.Range{Lo: lo}); err != nil {
		return nil, err
	}
	base := db.engine.NewTransactionAt(version, false)
	defer base.Discard()
	c := openCursor(base, kv.Range{Lo: lo})
	defer c.close()
	page.reset()
	for key := c.key(); key != nil && c.err == nil; key = c.key() {
		if page.isFull() {
			next = bytes.Clone(key)
			break
		}
		page.add(key, c.value(), c.it.Item())
		c.advance()
	}
	if c.err != nil {
		return nil, c.err
	}
	// As in View: a commit that failed in the meantime may have been a failed fsync.
	return next, db.stopped()
}

// recordPage is a page of records and the bytes that they point into.
type recordPage struct {
	records []kv.Record
	bytes   []byte
}

func (p *recordPage) reset() {
	if p.bytes == nil {
		p.bytes = make([]byte, 0, snapshotPageSize)
	}
	clear(p.records)
	p.records, p.bytes = p.records[:0], p.bytes[:0]
}

// isFull reports whether the largest record might not fit.
func (p *recordPage) isFull() bool {
	return len(p.bytes)+kv.KeySizeMax+kv.ValueSizeMax > snapshotPageSize
}

func (p *recordPage) add(key, value []byte, item *badger.Item) {
	p.records = append(p.records, kv.Record{Key: p.keep(key), Value: p.keep(value), ExpiresAt: int64(item.ExpiresAt())})
}

// keep copies b into the page.
func (p *recordPage) keep(b []byte) []byte {
	start := len(p.bytes)
	p.bytes = append(p.bytes, b...)
	return p.bytes[start:len(p.bytes):len(p.bytes)]
}

// Load stores records in an empty store, in updates within the contract's limits, each
// durable.
func (db *DB) Load(ctx context.Context, records iter.Seq2[kv.Record, error]) error {
	if err := db.mustBeEmpty(ctx); err != nil {
		return err
	}
	var batch recordPage
	batch.reset()
	for record, err := range records {
		if err != nil {
			return err
		}
		if batch.isFull() || len(batch.records) == kv.UpdateWritesMax {
			if err := db.store(ctx, batch.records); err != nil {
				return err
			}
			batch.reset()
		}
		batch.records = append(batch.records, kv.Record{Key: batch.keep(record.Key), Value: batch.keep(record.Value), ExpiresAt: record.ExpiresAt})
	}
	return db.store(ctx, batch.records)
}

func (db *DB) mustBeEmpty(ctx context.Context) error {
	return db.View(ctx, func(r kv.Reader) error {
		for range r.Scan(kv.Range{KeysOnly: true, Limit: 1}) {
			return errNotEmpty
		}
		return nil
	})
}

// store writes records with their expiry in one update.
func (db *DB) store(ctx context.Context, records []kv.Record) error {
	err := db.Update(ctx, func(tx kv.Txn) error {
		t := tx.(*txn)
		for _, r := range records {
			if err := t.budget.Spend(r.Key, r.Value); err != nil {
				return err
			}
			t.pending.write(r.Key, change{kind: changeSet, sealed: kv.Seal(r.Key, r.Value), expiresAt: uint64(r.ExpiresAt)})
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("badgerkv: load: %w", err)
	}
	return nil
}

// last returns the last acknowledged version.
func (s *snapshots) last() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest.version
}

// turn is a piece of work that yields to writers.
type turn struct {
	db    *DB
	began time.Time
	seen  uint64 // the last version then
}

func (db *DB) begin() turn { return turn{db: db, began: db.opts.wall(), seen: db.snapshots.last()} }

// giveWay ends a turn with a pause if updates were committed in the meantime.
func (t turn) giveWay(ctx context.Context) {
	if t.db.snapshots.last() == t.seen {
		return
	}
	timer := time.NewTimer(min(restShare*t.db.opts.wall().Sub(t.began), restMax))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Turn is [kv.Turn].
func (db *DB) Turn() (giveWay func(context.Context)) { return db.begin().giveWay }

package pgkv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"tollhouse/store/kv"
)

const (
	// snapshotPageSize is about the size of a page of records.
	snapshotPageSize = 1 << 20 // bytes
	snapshotRowsMin  = 16      // of the largest size
	snapshotRowsMax  = 4096
	// snapshotMax bounds the time of a snapshot. While it is open the server keeps every version of
	// every row.
	snapshotMax = 6 * time.Hour
)

var errNotEmpty = errors.New("pgkv: records are loaded into an empty store only")

var readRecords = statement{"records", "select k, v, x from KV where k > $1 order by k limit $2"}

// Snapshot passes on every record of one transaction, which stays open while fn runs: the
// one exception to contract line 8. It checks the checksums of all records.
func (db *DB) Snapshot(ctx context.Context, fn func([]kv.Record) error) error {
	h, err := db.hold(ctx)
	if err != nil {
		return err
	}
	defer h.Release()
	ctx, cancel := context.WithDeadline(ctx, h.ends)
	defer cancel()
	return db.pages(ctx, h.c, fn)
}

// held is a transaction that stays open between Views.
type held struct {
	db   *DB
	c    *conn
	ends time.Time // see snapshotMax
}

// Hold is kv.Holder. The transaction stays open until Release, at most for snapshotMax.
func (db *DB) Hold(ctx context.Context) (kv.Held, error) {
	h, err := db.hold(ctx)
	if err != nil {
		return nil, err
	}
	return h, nil
}

func (db *DB) hold(ctx context.Context) (*held, error) {
	if err := db.enter(ctx); err != nil {
		return nil, err
	}
	h := &held{db: db, ends: time.Now().Add(snapshotMax)}
	c, err := db.dial(ctx, roleBackup)
	if err == nil {
		// Its snapshot is that of the first statement that reads.
		first := call{statement: db.in(readRecords), params: [][]byte{{}, int8Param(1)}, row: func([][]byte) {}}
		h.c, err = c, c.exchange(0, call{statement: beginView}, first)
	}
	if err != nil {
		h.Release()
		return nil, db.unavailable(err)
	}
	return h, nil
}

func (h *held) View(ctx context.Context, fn func(kv.Reader) error) error {
	ctx, cancel := context.WithDeadline(ctx, h.ends)
	defer cancel()
	v := newView(ctx, h.db)
	v.c = h.c
	defer func() { v.ended = true }()
	return v.outcome(fn(&v.reader))
}

func (h *held) Release() {
	if h.c != nil {
		h.c.discard()
	}
	h.db.inFlight.Done()
}

// pages passes on all records that c sees.
func (db *DB) pages(ctx context.Context, c *conn, fn func([]kv.Record) error) error {
	last, rows := []byte{}, 256
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		var page []kv.Record
		var damaged error
		size := 0
		err := c.exchange(0, call{
			statement: db.in(readRecords),
			params:    [][]byte{last, int8Param(int64(rows))},
			row: func(v [][]byte) {
				sealed := cloneValue(v[1])
				r := kv.Record{Key: cloneValue(v[0]), ExpiresAt: int8Value(v[2])}
				var err error
				if r.Value, err = kv.Unseal(r.Key, sealed); err != nil {
					damaged = cmp.Or(damaged, err)
				}
				size += len(r.Key) + len(sealed)
				page = append(page, r)
			},
		})
		switch {
		case err != nil:
			return db.unavailable(err)
		case damaged != nil:
			return damaged
		case len(page) == 0:
			return nil
		}
		last = page[len(page)-1].Key
		full := len(page) == rows
		rows = min(max(snapshotPageSize*len(page)/size, snapshotRowsMin), snapshotRowsMax)
		if err := fn(page); err != nil {
			return err
		}
		if !full {
			return nil
		}
	}
}

// Load copies records into a store that is empty, in one transaction.
func (db *DB) Load(ctx context.Context, records iter.Seq2[kv.Record, error]) error {
	if err := db.enter(ctx); err != nil {
		return err
	}
	defer db.inFlight.Done()
	c, err := db.dial(ctx, roleLoader)
	if err != nil {
		return db.unavailable(err)
	}
	defer c.discard()
	var source error
	err = pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		// A second Load waits here, and finds the records of the first.
		if _, err := tx.Exec(ctx, db.address.lockTables()); err != nil {
			return err
		}
		filled := false
		if err := tx.QueryRow(ctx, in("select exists (select from KV)", db.site.generation)).Scan(&filled); err != nil {
			return err
		}
		if filled {
			source = errNotEmpty
			return source
		}
		next, stop := iter.Pull2(records)
		defer stop()
		_, err := tx.CopyFrom(ctx, pgx.Identifier{db.address.schema, tableName(db.site.generation)}, []string{"k", "v", "x"},
			pgx.CopyFromFunc(func() ([]any, error) {
				r, err, ok := next()
				if err != nil {
					source = err
				}
				if !ok || err != nil {
					return nil, err
				}
				return []any{r.Key, kv.Seal(r.Key, r.Value), r.ExpiresAt}, nil
			}))
		return err
	})
	switch {
	case source != nil:
		return source
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("pgkv: load: %w", db.unavailable(err))
	}
	_, err = c.Exec(ctx, in("analyze KV", db.site.generation))
	if err != nil {
		return db.unavailable(err)
	}
	return nil
}

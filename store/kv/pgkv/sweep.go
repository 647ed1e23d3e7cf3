package pgkv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"tollhouse/store/kv"
)

const (
	// sweepRows expired rows are dropped in one commit.
	sweepRows = 500
	// checkRows are read between two pauses.
	checkRows = 1000
	// After a piece of reading or dropping that took time t while updates were
	// committed, background work pauses for restShare × t, at most restMax.
	restShare = 3
	restMax   = 500 * time.Millisecond
)

var (
	// Expiry is judged by the database's clock. statement_timestamp is constant in a
	// statement, so that the index on x finds what has expired. A sweep may stop between two
	// batches: then what is left must have all its index entries. They expire in the same
	// second as their record, and their tags sort before its tag.
	findExpired = statement{"find expired", "select k from KV where x > 0 and x <= extract(epoch from statement_timestamp())::bigint" +
		" order by x, k desc limit $1"}
	dropExpired  = statement{"drop expired", "delete from KV where k = any($1) and x > 0 and x <= extract(epoch from clock_timestamp())::bigint"}
	dropOldMarks = statement{"drop old marks", "delete from mark where at < clock_timestamp() - interval '30 days'" +
		" and at < (select max(at) from mark)"}
)

// Sweep drops the rows that expired more than a day ago, a few at a time, and the marks of
// processes that exited long ago. One process at a time should do it.
func (db *DB) Sweep(ctx context.Context) (dropped int, err error) {
	if err := db.read(ctx, call{statement: dropOldMarks}); err != nil {
		return 0, err
	}
	for {
		giveWay := db.Turn()
		var keys [][]byte
		err := db.read(ctx, call{
			statement: db.in(findExpired), params: [][]byte{int8Param(sweepRows)},
			row: func(v [][]byte) { keys = append(keys, cloneValue(v[0])) },
		})
		if err == nil && len(keys) > 0 {
			err = db.dropExpired(ctx, keys)
		}
		if err != nil {
			return dropped, err
		}
		if dropped += len(keys); len(keys) < sweepRows {
			return dropped, nil
		}
		giveWay(ctx)
	}
}

// dropExpired drops those of keys that are still expired in their turn.
func (db *DB) dropExpired(ctx context.Context, keys [][]byte) error {
	if err := db.enter(ctx); err != nil {
		return err
	}
	defer db.inFlight.Done()
	o := newOp(func(kv.Txn) error { return nil })
	o.expired = keys
	if err := db.committer.submit(ctx, o); err != nil {
		return err
	}
	db.await(ctx, o)
	return o.outcome()
}

// Check reads every row, with pauses, and verifies its checksum. The error matches
// [kv.ErrCorrupt] and says how many are damaged.
func (db *DB) Check(ctx context.Context) error {
	var first error
	damaged, rows := 0, 0
	rest := kv.Range{}
	for {
		giveWay := db.Turn()
		page, err := readPage(db, rest, checkRows, func(one call) error { return db.read(ctx, one) })
		if err != nil {
			return err
		}
		for _, r := range page {
			if _, err := kv.Unseal(r.key, r.sealed); err != nil {
				damaged++
				first = cmp.Or(first, err)
			}
		}
		rows += len(page)
		if len(page) < checkRows {
			break
		}
		rest.Lo = append(page[len(page)-1].key, 0)
		giveWay(ctx)
	}
	var corrupt *kv.CorruptError
	if errors.As(first, &corrupt) {
		return fmt.Errorf("%w: %d of %d rows, the first of kind %q", kv.ErrCorrupt, damaged, rows, corrupt.Kind)
	}
	return nil
}

// Turn is [kv.Turn].
func (db *DB) Turn() (giveWay func(context.Context)) {
	begun, commits := time.Now(), db.counts.commits.Load()
	return func(ctx context.Context) {
		if db.counts.commits.Load() != commits {
			sleep(ctx, min(restShare*time.Since(begun), restMax))
		}
	}
}

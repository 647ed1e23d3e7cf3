package store

import (
	"context"
	"fmt"
	"io"
	"iter"
	"time"

	"tollhouse/store/backup"
	"tollhouse/store/kv"
	"tollhouse/store/secret"
)

// A store of an older schema is never changed where it lies. It is backed up as
// it is ([BackupOlder]), and a Load of the backup builds another one, in which
// every record has become what it is today; a backup that was made long ago goes
// the same way. Whatever ends it in the middle leaves the older store whole.
//
// A schema is a number that is raised when a store that was written before could
// not be worked on as it lies: a record that means something else, or an index
// that would lack what was written before there was one.

// schemaCodesListed is the first schema in which every code that was not redeemed
// yet is listed by its user and client. In stores of schema 1 a code may be
// listed, since the list came before the number.
const schemaCodesListed = 2

// schemaLogParted is the first schema in which the head of a log says where its
// parts begin (event_part.go). What an older log holds is its first part, however
// much that is, and what is recorded from then on begins another.
const schemaLogParted = 3

// migration turns a record of one schema into those of the next. It knows no
// other record, so that a store of any size goes through it.
type migration func(r kv.Record) ([]kv.Record, error)

// migrations has, by its schema, the way from each older one to the next.
var migrations = map[uint64]migration{
	1: listCode,
	2: partLog,
}

// listCode lists a code that was not redeemed yet. It drops the lists as they
// were, because a key may come once only, and what was listed is listed again.
func listCode(r kv.Record) ([]kv.Record, error) {
	switch r.Key[0] {
	case tagUserCode:
		return nil, nil
	case tagCode:
		c, err := decodeCode(secret.Hash(r.Key[1:]), r.Value)
		if err != nil || !c.usedAt.IsZero() {
			return []kv.Record{r}, err
		}
		return []kv.Record{r, {Key: c.indexKey(), ExpiresAt: r.ExpiresAt}}, nil
	}
	return []kv.Record{r}, nil
}

// partLog has the head of a log know of parts: what there is, is the first, and it
// is full.
func partLog(r kv.Record) ([]kv.Record, error) {
	if r.Key[0] == tagEventHead {
		h, err := decodeUnpartedHead(r.Value)
		if err != nil {
			return nil, err
		}
		h.recorded = partEvents
		r.Value = encodeEventHead(h)
	}
	return []kv.Record{r}, nil
}

// unpartedHeadRecord is the version of the head of a log before there were parts.
const unpartedHeadRecord = 1

func decodeUnpartedHead(v []byte) (eventHead, error) {
	d := newDecoder("event head", unpartedHeadRecord, v)
	h := eventHead{last: d.position(), removed: d.position(), generation: d.uint()}
	return h, d.done()
}

// migrated returns the records of a store of an older schema as they are today.
// They come in no order, each key once.
func migrated(records iter.Seq2[kv.Record, error], from uint64) iter.Seq2[kv.Record, error] {
	if from == schemaVersion {
		return records
	}
	return func(yield func(kv.Record, error) bool) {
		for r, err := range records {
			become := []kv.Record{r}
			if err == nil {
				become, err = migrateRecord(r, from)
			}
			if err != nil {
				yield(kv.Record{}, err)
				return
			}
			for _, r := range become {
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}

// migrateRecord takes a record through every schema from the one it is of.
func migrateRecord(r kv.Record, from uint64) ([]kv.Record, error) {
	if string(r.Key) == string(metaKey(metaStore)) {
		_, instance, err := decodeMeta(r.Value)
		return []kv.Record{{Key: r.Key, Value: encodeMeta(schemaVersion, instance)}}, err
	}
	become := []kv.Record{r}
	for ; from < schemaVersion; from++ {
		step, known := migrations[from]
		if !known {
			return nil, damaged("there is no schema %d", from)
		}
		var next []kv.Record
		for _, r := range become {
			records, err := step(r)
			if err != nil {
				return nil, fmt.Errorf("migrate from schema %d: %w", from, err)
			}
			next = append(next, records...)
		}
		become = next
	}
	return become, nil
}

// BackupOlder is Backup of a store that Open refuses with an *OlderError. Nobody
// else may be at work on the engine. now is the time by the store's clock.
func BackupOlder(ctx context.Context, db kv.DB, w io.Writer, now time.Time, n BackupNotes) (backup.Totals, error) {
	engine, ok := db.(kv.Snapshotter)
	if !ok {
		return backup.Totals{}, errNoSnapshots
	}
	h := backup.Header{Created: now, Version: n.Version, Key: n.Key}
	err := db.View(ctx, func(r kv.Reader) error {
		value, err := r.Get(metaKey(metaStore))
		if err != nil {
			return err
		}
		var instance secret.ID
		h.Schema, instance, err = decodeMeta(value)
		h.Instance = nameInstance(instance)
		return err
	})
	if err != nil {
		return backup.Totals{}, fmt.Errorf("back up: %w", err)
	}
	return backUp(ctx, engine, w, h)
}

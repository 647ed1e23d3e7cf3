package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tollhouse/store/kv"
)

// Retention removes events by their age, and nothing else does but a purge and
// the end of an account. It works from the oldest on, a batch at a time, each
// batch whole in itself: an event is in every list that it belongs into, or it
// is nowhere. The head says how far it came, so that whoever goes on reading
// from an older place is told that something is missing.
//
// The snapshots of resources are not events: they say what is true now, and
// stay although all that led to them is gone.

// RetentionMin is the shortest time for which events may be kept.
const RetentionMin = 24 * time.Hour

const (
	retentionName   = "retention" // of the record that remembers it
	retentionRecord = 1
)

// SetRetention says how long events are kept; 0 is for ever. The store
// remembers it, so that a command without a server judges ids and imports as
// the server does. Errors: *InvalidError.
func (s *Store) SetRetention(ctx context.Context, kept time.Duration) error {
	if kept != 0 && kept < RetentionMin {
		return invalid("retain", "give 1d or more, or leave it out to keep every event", "events would be kept for %s, too short for anybody to read them", kept)
	}
	if kept == s.Retention() {
		return nil
	}
	e := newEncoder(retentionRecord)
	e.uint(uint64(kept))
	err := s.db.Update(ctx, func(tx kv.Txn) error { return tx.Set(metaKey(retentionName), e.b, time.Time{}) })
	if err != nil {
		return fmt.Errorf("set retention: %w", err)
	}
	s.retained.Store(int64(kept))
	return nil
}

// Retention returns how long events are kept; 0 is for ever.
func (s *Store) Retention() time.Duration { return time.Duration(s.retained.Load()) }

// recallRetention reads what SetRetention wrote last.
func (s *Store) recallRetention(ctx context.Context) error {
	return s.db.View(ctx, func(r kv.Reader) error {
		v, err := r.Get(metaKey(retentionName))
		if errors.Is(err, kv.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		d := newDecoder("meta", retentionRecord, v)
		s.retained.Store(int64(d.uint()))
		return d.done()
	})
}

// horizon is the least position that is young enough to be kept, the first of
// its second: createdAt, by which callers judge, has seconds too.
func (s *Store) horizon() Position {
	kept := s.Retention()
	if kept == 0 {
		return Position{}
	}
	return firstPosition(s.Now().Add(-kept).Unix())
}

// oldestEvent returns the place of the oldest event that retention has left, or
// the head when it left none: all there is has been seen there. A Scan that
// breaks off fails the View around it.
func oldestEvent(r kv.Reader, owner string, head eventHead) Position {
	prefix := eventsKey(owner)
	rest := prefix.from(append(eventsKey(owner).position(head.removed), 0))
	rest.KeysOnly, rest.Limit = true, 1
	for k := range r.Scan(rest) {
		return positionAt(k)
	}
	return head.last
}

package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
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

// retention is what the store knows of how long events are kept.
type retention struct {
	kept atomic.Int64 // nanoseconds; 0 is for ever
	// passed is a place below which nothing was left, in any account, when all
	// were last looked through. A look begins there: an engine goes on passing
	// over what was removed, be it by a purge, for as long as it likes.
	passed atomic.Pointer[Position]
}

// importTakesMax is within which time an event is committed that was judged to
// be young enough: passed stays so far behind the horizon.
const importTakesMax = time.Hour

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
	s.retention.passed.Store(nil)
	s.retention.kept.Store(int64(kept))
	return nil
}

// Retention returns how long events are kept; 0 is for ever.
func (s *Store) Retention() time.Duration { return time.Duration(s.retention.kept.Load()) }

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
		s.retention.kept.Store(int64(d.uint()))
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

const accountsPageMax = 500 // accounts read in one View

// TrimEvents removes the events that are older than they are kept, of every
// account, in batches, and returns how many those were. It goes on behind an
// account whose events cannot be removed. What it has removed stays removed when
// it is cut short; another run goes on from there.
func (s *Store) TrimEvents(ctx context.Context) (removed int, err error) {
	horizon := s.horizon()
	if horizon.IsZero() {
		return 0, nil
	}
	var passed Position
	if p := s.retention.passed.Load(); p != nil && p.Compare(horizon) < 0 { // else the clock was stepped back
		passed = *p
	}
	var faults error
	after := ""
	for {
		accounts, err := s.ListAccounts(ctx, after, accountsPageMax)
		if err = errors.Join(faults, err); len(accounts) == 0 {
			if err == nil {
				behind := firstPosition(horizon.Time().Add(-importTakesMax).Unix())
				s.retention.passed.Store(&behind)
			}
			return removed, err
		}
		for _, a := range accounts {
			n, err := s.trimLog(ctx, a.ID, passed, horizon)
			removed += n
			if ctx.Err() != nil {
				return removed, ctx.Err()
			}
			if err != nil {
				faults = errors.Join(faults, fmt.Errorf("trim the events of %s: %w", a.ID, err))
			}
		}
		after = accounts[len(accounts)-1].ID
	}
}

// trimLog removes an account's events below the horizon, of which none lies
// below passed. Every batch begins behind what was removed before it.
func (s *Store) trimLog(ctx context.Context, owner string, passed, horizon Position) (removed int, err error) {
	for {
		var places []Position
		err := s.db.View(ctx, func(r kv.Reader) error {
			head, err := readEventHead(r, owner)
			if err != nil {
				return err
			}
			old := stretch{list: eventsOf(owner), lo: through(laterOf(head.removed, passed)), hi: horizon[:], limit: head.parts.removeBatch()}
			places = old.places(r, head.parts)
			return nil
		})
		if err != nil || len(places) == 0 {
			return removed, err
		}
		n, err := s.removeEvents(ctx, owner, "", places, true)
		removed += n
		if err != nil {
			return removed, err
		}
	}
}

// removeEvents removes what is left of the events at the places, at most a
// batch, and returns how many those were. A kind leaves the others alone.
func (s *Store) removeEvents(ctx context.Context, owner, kind string, places []Position, retained bool) (removed int, err error) {
	err = s.db.Update(ctx, func(tx kv.Txn) error {
		rm, err := newRemover(tx, owner, kind)
		if err != nil {
			return err
		}
		for _, p := range places {
			if err := rm.remove(p); err != nil {
				return err
			}
		}
		removed = rm.count
		return rm.finish(retained)
	})
	if err != nil {
		return 0, err
	}
	return removed, nil
}

// oldestEvent returns the place of the oldest event that retention has left, or
// the head when it left none: all there is has been seen there. A Scan that
// breaks off fails the View around it.
func oldestEvent(r kv.Reader, owner string, head eventHead) Position {
	rest := stretch{list: eventsOf(owner), lo: through(head.removed), hi: through(head.last), keysOnly: true, limit: 1}
	for p := range rest.rows(r, head.parts) {
		return p
	}
	return head.last
}

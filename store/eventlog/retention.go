package eventlog

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// Retention removes events by age. It starts with the oldest and works in atomic
// batches, so that an event is in all of its lists or in none. The head records how
// far it got; a reader that continues from an older position learns that events are
// missing.
//
// Resources are not events. A resource's current state stays even when all its events
// are gone.

// RetentionMin is the shortest retention period.
const RetentionMin = 24 * time.Hour

// retention is the store's retention setting and progress.
type retention struct {
	kept atomic.Int64 // nanoseconds; 0 means for ever
	// passed is a position below which the last complete run left no event in any
	// account. The next run starts there, because the engine must skip deleted keys
	// for a long time.
	passed atomic.Pointer[record.Position]
}

// importTakesMax bounds the time between checking that an imported event is young enough and
// committing it; passed stays that far behind the horizon.
const importTakesMax = time.Hour

const (
	retentionName   = "retention" // name of the stored setting
	retentionRecord = 1
)

// SetRetention sets how long events are kept; 0 means for ever. The setting is stored,
// so that commands without a server treat ids and imports as the server does. Errors:
// *InvalidError.
func (l *Log) SetRetention(ctx context.Context, kept time.Duration) error {
	if kept != 0 && kept < RetentionMin {
		return record.Invalid("retain", "give 1d or more, or leave it out to keep every event", "%s is too short a time to keep events", kept)
	}
	if kept == l.Retention() {
		return nil
	}
	e := record.NewEncoder(retentionRecord)
	e.Uint(uint64(kept))
	err := record.UpdateAs(ctx, l.db, kv.Ruling, func(tx kv.Txn) error { return tx.Set(record.MetaKey(retentionName), e.B, time.Time{}) })
	if err != nil {
		return fmt.Errorf("set retention: %w", err)
	}
	l.retention.passed.Store(nil)
	l.retention.kept.Store(int64(kept))
	return nil
}

// Retention returns how long events are kept; 0 means for ever.
func (l *Log) Retention() time.Duration { return time.Duration(l.retention.kept.Load()) }

// recallRetention reads the stored setting.
func (l *Log) recallRetention(ctx context.Context) error {
	return l.db.View(ctx, func(r kv.Reader) error {
		v, err := r.Get(record.MetaKey(retentionName))
		if errors.Is(err, kv.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		d := record.NewDecoder("meta", retentionRecord, v)
		l.retention.kept.Store(int64(d.Uint()))
		return d.Done()
	})
}

// horizon is the least position young enough to be kept. It is the first of its
// second, because createdAt, by which callers judge, has whole seconds.
func (l *Log) horizon() record.Position {
	kept := l.Retention()
	if kept == 0 {
		return record.Position{}
	}
	return record.FirstPosition(l.now().Add(-kept).Unix())
}

// Trim removes the events of every account that are past the retention period,
// in batches, and returns their number. An account that fails does not stop the
// others. After an interruption, another run continues.
func (l *Log) Trim(ctx context.Context) (removed int, err error) {
	horizon := l.horizon()
	if horizon.IsZero() {
		return 0, nil
	}
	var passed record.Position
	if p := l.retention.passed.Load(); p != nil && p.Compare(horizon) < 0 { // otherwise the clock was stepped back
		passed = *p
	}
	var faults error
	err = l.eachHead(ctx, func(owner string, _ []byte) error {
		n, err := l.trimLog(ctx, owner, passed, horizon)
		removed += n
		if err != nil {
			faults = errors.Join(faults, fmt.Errorf("trim the events of %s: %w", owner, err))
		}
		return ctx.Err()
	})
	if err = errors.Join(faults, err); err == nil {
		behind := record.FirstPosition(horizon.Time().Add(-importTakesMax).Unix())
		l.retention.passed.Store(&behind)
	}
	return removed, err
}

// trimLog removes an account's events from passed to the horizon. Every batch starts
// after the one before it.
func (l *Log) trimLog(ctx context.Context, owner string, passed, horizon record.Position) (removed int, err error) {
	for {
		var positions []record.Position
		err := l.db.View(ctx, func(r kv.Reader) error {
			head, err := ReadHead(r, owner)
			if err != nil {
				return err
			}
			old := stretch{list: eventsOf(owner), lo: through(record.LaterOf(head.removed, passed)), hi: horizon[:]}
			positions = old.removable(r, head.Segments)
			return nil
		})
		if err != nil || len(positions) == 0 {
			return removed, err
		}
		n, err := l.removeEvents(ctx, owner, "", positions, true)
		removed += n
		if err != nil {
			return removed, err
		}
	}
}

// removeEvents removes the remaining events at the positions, at most a batch, and
// returns their number. With a kind it removes only events of that kind.
func (l *Log) removeEvents(ctx context.Context, owner, kind string, positions []record.Position, retained bool) (removed int, err error) {
	var raised uint64
	err = record.UpdateAs(ctx, l.db, kv.Ending, func(tx kv.Txn) error {
		rm, err := newRemover(tx, owner, kind)
		if err != nil {
			return err
		}
		rm.prefetch(positions)
		for _, p := range positions {
			if err := rm.remove(p); err != nil {
				return err
			}
		}
		removed = rm.count
		err = rm.finish(retained)
		raised = rm.head.generation
		return err
	})
	if err != nil {
		return 0, err
	}
	if removed > 0 {
		l.announce(logChange{owner: owner, raised: raised})
	}
	return removed, nil
}

// oldestEvent returns the position of the oldest event that retention has left, or the
// head when it left none. A failed Scan fails the View around it.
func oldestEvent(r kv.Reader, owner string, head Head) record.Position {
	rest := stretch{list: eventsOf(owner), lo: through(head.removed), hi: through(head.last), keysOnly: true, limit: 1}
	for p := range rest.rows(r, head.Segments) {
		return p
	}
	return head.last
}

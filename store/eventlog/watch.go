package eventlog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"tollhouse/store/record"
)

// watchesMax bounds the live readers of one account's log.
const watchesMax = 64

// ErrTooManyWatches means that an account has its maximum of live readers.
var ErrTooManyWatches = errors.New("too many live readers")

// Span is a range of an account's log, both ends included.
type Span struct{ First, Last record.Position }

// Watch signals one live reader that an account's log has changed. It does not hold
// the changes: the reader reads the log.
type Watch struct {
	changed  chan struct{}
	log      *watchLog
	owner    string
	backfill *Span  // covers the events recorded below the head since TakeBackfill; guarded by log.mu
	ended    func() // called by Close, of a reader that does not count for the account; or nil
}

// watchLog holds the live readers of every account in this process.
type watchLog struct {
	recorded atomic.Uint64 // events since the log was opened

	mu   sync.Mutex
	logs map[string]*watchedLog // by owner
	all  map[*WatchAll]struct{}
}

// watchedLog is an account's log that has live readers.
type watchedLog struct {
	readers map[*Watch]struct{}
	counted int // readers that count for the account
	polled  polled
}

// logChange is what a commit changed in an account's log.
type logChange struct {
	owner    string
	recorded int    // events
	raised   uint64 // the generation of the head after the commit, or 0 if that is as before
	backfill *Span  // of events recorded below the head
}

// isRemoval reports whether the commit only removed events, for which no reader waits.
func (c logChange) isRemoval() bool { return c.raised > 0 && c.backfill == nil }

// WatchEvents starts to watch an account's log, or the feed. A reader that reads the log after this
// call misses no change. Call Close when done. Errors: ErrTooManyWatches, and the
// engine's if other processes share it.
func (l *Log) WatchEvents(ctx context.Context, owner string) (*Watch, error) {
	return l.WatchEventsFor(ctx, owner, nil)
}

// WatchEventsFor is WatchEvents for a reader that counts elsewhere, unless ended is nil: not
// among those of the account. Close calls ended, and so does an error.
func (l *Log) WatchEventsFor(ctx context.Context, owner string, ended func()) (*Watch, error) {
	w := &Watch{changed: make(chan struct{}, 1), log: &l.watches, owner: owner, ended: ended}
	if !l.watches.add(w) {
		return nil, ErrTooManyWatches
	}
	if err := l.beginPolling(ctx, owner); err != nil {
		w.Close()
		return nil, fmt.Errorf("watch events: %w", err)
	}
	return w, nil
}

// add reports false if the account has too many readers.
func (l *watchLog) add(w *Watch) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	log := l.logs[w.owner]
	if log == nil {
		log = &watchedLog{readers: map[*Watch]struct{}{}, polled: polled{raised: map[uint64]struct{}{}}}
	}
	if w.ended == nil {
		if log.counted >= watchesMax {
			return false
		}
		log.counted++
	}
	if l.logs == nil {
		l.logs = map[string]*watchedLog{}
	}
	log.readers[w], l.logs[w.owner] = struct{}{}, log
	return true
}

// Close stops the watch.
func (w *Watch) Close() {
	if w.ended != nil {
		w.ended()
	}
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	log := w.log.logs[w.owner]
	if log == nil {
		return
	}
	delete(log.readers, w)
	if w.ended == nil {
		log.counted--
	}
	if len(log.readers) == 0 {
		delete(w.log.logs, w.owner)
	}
}

// Changed receives a value after the log has changed.
func (w *Watch) Changed() <-chan struct{} { return w.changed }

// TakeBackfill returns a span that covers the events recorded below the head since the
// last call, or nil. In the feed the pages have it.
func (w *Watch) TakeBackfill() *Span {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	span := w.backfill
	w.backfill = nil
	return span
}

// notify wakes the live readers of an account's log after a change.
func (l *watchLog) notify(c logChange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !c.isRemoval() {
		l.recordedBy(c.owner)
	}
	if log := l.logs[c.owner]; log != nil {
		log.polled.heard(c.raised)
	}
	if c.isRemoval() {
		return
	}
	if log := l.logs[c.owner]; log != nil {
		log.wake(c.backfill)
	}
	if feed := l.logs[AllAccounts]; feed != nil {
		feed.wake(nil)
	}
}

func (log *watchedLog) wake(backfill *Span) {
	for w := range log.readers {
		w.backfill = w.backfill.join(backfill)
		select {
		case w.changed <- struct{}{}:
		default: // a signal is already pending
		}
	}
}

// join returns the span that covers both; either may be nil.
func (s *Span) join(t *Span) *Span {
	switch {
	case s == nil:
		return t
	case t == nil:
		return s
	}
	joined := *s
	if t.First.Compare(joined.First) < 0 {
		joined.First = t.First
	}
	joined.Last = record.LaterOf(joined.Last, t.Last)
	return &joined
}

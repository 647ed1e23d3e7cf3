package eventlog

import (
	"errors"
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
	backfill *Span // events recorded below the head since TakeBackfill; guarded by log.mu
}

// watchLog holds the live readers of every account.
type watchLog struct {
	recorded atomic.Uint64 // events since the log was opened

	mu      sync.Mutex
	readers map[string]map[*Watch]struct{}
}

// WatchEvents starts to watch an account's log. A reader that reads the log after this
// call misses no change. Call Close at the end. Errors: ErrTooManyWatches.
func (l *Log) WatchEvents(owner string) (*Watch, error) {
	w := &Watch{changed: make(chan struct{}, 1), log: &l.watches, owner: owner}
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	if len(w.log.readers[owner]) >= watchesMax {
		return nil, ErrTooManyWatches
	}
	if w.log.readers == nil {
		w.log.readers = map[string]map[*Watch]struct{}{}
	}
	if w.log.readers[owner] == nil {
		w.log.readers[owner] = map[*Watch]struct{}{}
	}
	w.log.readers[owner][w] = struct{}{}
	return w, nil
}

// Close ends the watch.
func (w *Watch) Close() {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	delete(w.log.readers[w.owner], w)
	if len(w.log.readers[w.owner]) == 0 {
		delete(w.log.readers, w.owner)
	}
}

// Changed receives a value after the log has changed.
func (w *Watch) Changed() <-chan struct{} { return w.changed }

// TakeBackfill returns a span that covers the events recorded below the head since the
// last call, or nil.
func (w *Watch) TakeBackfill() *Span {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	span := w.backfill
	w.backfill = nil
	return span
}

// notify counts what was just committed to an account's log and wakes its live readers.
func (l *watchLog) notify(owner string, recorded int, backfill *Span) {
	l.recorded.Add(uint64(recorded))
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range l.readers[owner] {
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

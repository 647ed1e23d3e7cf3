package store

import (
	"errors"
	"sync"
	"sync/atomic"
)

// watchesMax bounds the live readers of one account's events.
const watchesMax = 64

// ErrTooManyWatches says that an account has as many live readers as it may.
var ErrTooManyWatches = errors.New("too many live readers")

// Span is a stretch of an account's log, both ends included.
type Span struct{ First, Last Position }

// EventWatch tells one live reader that an account's log has changed. It keeps
// nothing of what changed: the reader reads the log.
type EventWatch struct {
	changed  chan struct{}
	log      *watchLog
	owner    string
	backfill *Span // what came to lie below the head and was not taken yet; guarded by log.mu
}

// watchLog knows the live readers of every account.
type watchLog struct {
	recorded atomic.Uint64 // events since the store was opened

	mu      sync.Mutex
	readers map[string]map[*EventWatch]struct{}
}

// WatchEvents begins to watch an account's log; whoever reads it afterwards
// misses no change. Close ends it. Errors: ErrTooManyWatches.
func (s *Store) WatchEvents(owner string) (*EventWatch, error) {
	w := &EventWatch{changed: make(chan struct{}, 1), log: &s.watches, owner: owner}
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	if len(w.log.readers[owner]) >= watchesMax {
		return nil, ErrTooManyWatches
	}
	if w.log.readers == nil {
		w.log.readers = map[string]map[*EventWatch]struct{}{}
	}
	if w.log.readers[owner] == nil {
		w.log.readers[owner] = map[*EventWatch]struct{}{}
	}
	w.log.readers[owner][w] = struct{}{}
	return w, nil
}

// Close ends the watch.
func (w *EventWatch) Close() {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	delete(w.log.readers[w.owner], w)
	if len(w.log.readers[w.owner]) == 0 {
		delete(w.log.readers, w.owner)
	}
}

// Changed is sent to when the log has changed since the last time it was
// received from.
func (w *EventWatch) Changed() <-chan struct{} { return w.changed }

// TakeBackfill returns the stretch in which events came to lie below the head
// since it was last asked, or nil. Several are told as one that holds them.
func (w *EventWatch) TakeBackfill() *Span {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	span := w.backfill
	w.backfill = nil
	return span
}

// tell counts what was just committed to an account's log, and wakes its live
// readers.
func (l *watchLog) tell(owner string, recorded int, backfill *Span) {
	l.recorded.Add(uint64(recorded))
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range l.readers[owner] {
		w.backfill = w.backfill.join(backfill)
		select {
		case w.changed <- struct{}{}:
		default: // it has not looked since the last change
		}
	}
}

// join returns the stretch that holds both, of which either may be nil.
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
	joined.Last = laterOf(joined.Last, t.Last)
	return &joined
}

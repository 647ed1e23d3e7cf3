package eventlog

import "tollhouse/store/record"

// WatchAll signals one reader that events were recorded in logs, and in which ones. A
// reader of many logs that are mostly idle needs no goroutine for each.
type WatchAll struct {
	changed chan struct{}
	log     *watchLog
	owners  map[string]struct{} // since Take; guarded by log.mu
	// heads are the newest events that looks at a shared engine have shown, of every log:
	// about 100 bytes each; guarded by log.mu
	heads map[string]record.Position
}

// WatchAll starts to watch all logs. Call Close when done.
func (l *Log) WatchAll() *WatchAll {
	w := &WatchAll{changed: make(chan struct{}, 1), log: &l.watches, owners: map[string]struct{}{}, heads: map[string]record.Position{}}
	l.watches.mu.Lock()
	defer l.watches.mu.Unlock()
	if l.watches.all == nil {
		l.watches.all = map[*WatchAll]struct{}{}
	}
	l.watches.all[w] = struct{}{}
	return w
}

// Close stops the watch.
func (w *WatchAll) Close() {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	delete(w.log.all, w)
}

// Changed receives a value after events were recorded.
func (w *WatchAll) Changed() <-chan struct{} { return w.changed }

// Take returns the owners in whose logs events were recorded since the last call.
func (w *WatchAll) Take() []string {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	owners := make([]string, 0, len(w.owners))
	for owner := range w.owners {
		owners = append(owners, owner)
	}
	clear(w.owners)
	return owners
}

// recordedBy wakes the readers of all logs. The caller holds mu.
func (l *watchLog) recordedBy(owner string) {
	for w := range l.all {
		w.wake(owner)
	}
}

// sawHead wakes the readers of all logs that have not seen this newest event of a log. The
// event may be old and still be news to them.
func (l *watchLog) sawHead(owner string, newest record.Position) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range l.all {
		if w.heads[owner] != newest {
			w.heads[owner] = newest
			w.wake(owner)
		}
	}
}

// wake notes that events were recorded in a log. The caller holds log.mu.
func (w *WatchAll) wake(owner string) {
	w.owners[owner] = struct{}{}
	select {
	case w.changed <- struct{}{}:
	default: // a signal is already pending
	}
}

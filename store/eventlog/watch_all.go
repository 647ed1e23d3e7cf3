package eventlog

// WatchAll signals one reader that events were recorded in logs, and in which ones. A
// reader of many logs that are mostly idle needs no goroutine for each.
type WatchAll struct {
	changed chan struct{}
	log     *watchLog
	owners  map[string]struct{} // since Take; guarded by log.mu
}

// WatchAll starts to watch all logs. Call Close at the end.
func (l *Log) WatchAll() *WatchAll {
	w := &WatchAll{changed: make(chan struct{}, 1), log: &l.watches, owners: map[string]struct{}{}}
	l.watches.mu.Lock()
	defer l.watches.mu.Unlock()
	if l.watches.all == nil {
		l.watches.all = map[*WatchAll]struct{}{}
	}
	l.watches.all[w] = struct{}{}
	return w
}

// Close ends the watch.
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
		w.owners[owner] = struct{}{}
		select {
		case w.changed <- struct{}{}:
		default: // a signal is already pending
		}
	}
}

// recordedElsewhere is recordedBy for events of another process that sent no note.
func (l *watchLog) recordedElsewhere(owner string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recordedBy(owner)
}

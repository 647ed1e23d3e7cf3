package badgerkv

import (
	"fmt"
	"sync"

	"tollhouse/store/kv"
)

// snapshots counts the readers of each version, so that compaction keeps what the
// oldest reader sees, and counts all transactions, so that Close can wait for them. A
// View locks the mutex twice, briefly.
type snapshots struct {
	mu             sync.Mutex
	idle           sync.Cond // inFlight has become 0
	inFlight       int       // open transactions, updates included
	closed         bool
	oldest, newest *snapshot // a queue by version; newest is the last acknowledged
}

// snapshot is a version with its number of readers.
type snapshot struct {
	version uint64
	readers int
	next    *snapshot
}

func newSnapshots(version uint64) *snapshots {
	only := &snapshot{version: version}
	s := &snapshots{oldest: only, newest: only}
	s.idle.L = &s.mu
	return s
}

// open registers a reader of the last acknowledged version; release removes it.
func (s *snapshots) open() (*snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.countIn(); err != nil {
		return nil, err
	}
	s.newest.readers++
	return s.newest, nil
}

func (s *snapshots) release(at *snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at.readers--
	s.countOut()
}

// enter registers a transaction without a version; leave removes it.
func (s *snapshots) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.countIn()
}

func (s *snapshots) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.countOut()
}

// publish makes version the current one. It returns the oldest version that a reader
// may still see; older data may be discarded.
func (s *snapshots) publish(version uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.newest.readers == 0 {
		s.newest.version = version
	} else {
		s.newest.next = &snapshot{version: version}
		s.newest = s.newest.next
	}
	for s.oldest != s.newest && s.oldest.readers == 0 {
		s.oldest = s.oldest.next
	}
	return s.oldest.version
}

// closeAndWait refuses new transactions and waits for the running ones.
func (s *snapshots) closeAndWait() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for s.inFlight > 0 {
		s.idle.Wait()
	}
}

// countIn and countOut are called with mu held.
func (s *snapshots) countIn() error {
	if s.closed {
		return fmt.Errorf("%w: the store is closed", kv.ErrUnavailable)
	}
	s.inFlight++
	return nil
}

func (s *snapshots) countOut() {
	s.inFlight--
	if s.inFlight == 0 {
		s.idle.Broadcast()
	}
}

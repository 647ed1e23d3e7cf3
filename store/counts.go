package store

// Counts is what the store has done since it was opened, for whoever watches
// over it. It names nobody.
type Counts struct {
	EventsRecorded uint64 // committed to the logs of all accounts; imported ones too
	LiveReaders    int    // that wait for events now
	AuditLost      uint64 // lines of the audit record that could not be written
}

// Counts returns the counts of this moment. It reads no record.
func (s *Store) Counts() Counts {
	c := Counts{EventsRecorded: s.watches.recorded.Load(), AuditLost: s.audits.lostEver.Load()}
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	for _, readers := range s.watches.readers {
		c.LiveReaders += len(readers)
	}
	return c
}

package store

// Counts counts what the store has done since it was opened, for monitoring.
type Counts struct {
	EventsRecorded uint64 // in all accounts, including imported ones
	LiveReaders    int    // live readers now
	AuditLost      uint64 // audit lines that could not be written
}

// Counts returns the current counts. It does not read the store.
func (s *Store) Counts() Counts {
	l := s.LogCounts()
	return Counts{EventsRecorded: l.Recorded, LiveReaders: l.Readers, AuditLost: s.audits.lostEver.Load()}
}

package store

import (
	"context"

	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// Counts counts what the store has done since it was opened, for monitoring.
type Counts struct {
	EventsRecorded uint64 // in all accounts, including imported ones
	LiveReaders    int    // live readers now
	AuditLost      uint64 // audit lines that could not be written
	BudgetRefused  uint64 // updates refused because their account had written too much
}

// Counts returns the current counts. It does not read the store.
func (s *Store) Counts() Counts {
	l := s.Events.LogCounts()
	return Counts{EventsRecorded: l.Recorded, LiveReaders: l.Readers, AuditLost: s.audits.lostEver.Load(), BudgetRefused: s.overdrawn.Load()}
}

// Totals counts the records of a store.
type Totals struct{ Clients, Users, Accounts, Events, Resources int }

// Totals counts records. It reads the keys of all but events.
func (s *Store) Totals(ctx context.Context) (t Totals, err error) {
	err = s.db.View(ctx, func(r kv.Reader) error {
		for tag, count := range map[byte]*int{
			record.TagClient: &t.Clients, record.TagUser: &t.Users, record.TagAccount: &t.Accounts, record.TagResource: &t.Resources,
		} {
			*count = countKeys(r, tag)
		}
		return nil
	})
	if err == nil {
		t.Events, err = s.Events.CountEvents(ctx)
	}
	return t, err
}

// CountUsers counts the users. It reads their keys.
func (s *Store) CountUsers(ctx context.Context) (users int, err error) {
	err = s.db.View(ctx, func(r kv.Reader) error {
		users = countKeys(r, record.TagUser)
		return nil
	})
	return users, err
}

func countKeys(r kv.Reader, tag byte) (n int) {
	keys := record.NewKey(tag).All()
	keys.KeysOnly = true
	for range r.Scan(keys) {
		n++
	}
	return n
}

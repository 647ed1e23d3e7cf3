package store

import (
	"context"

	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// PurgeEvents removes the events and snapshots of an account or one of its resources,
// as [eventlog.Log.Purge] does, and writes an audit line. Errors: ErrNotFound if the account
// does not exist, and those of [eventlog.Log.Purge].
func (s *Store) PurgeEvents(ctx context.Context, by By, p eventlog.Purge) (eventlog.Purged, error) {
	now, tail := s.Now(), secret.NewTail(s.random)
	purged, err := s.Events.Purge(ctx, p, func(tx kv.Txn) error {
		if record.CheckAccountID(p.Account) != nil {
			return record.ErrNotFound
		}
		if _, err := readAccount(tx, p.Account); err != nil {
			return err
		}
		return appendAudit(tx, purgeLine(by, p), now, tail)
	})
	if err == nil {
		err = s.Webhooks.SweepPurged(ctx, p.Account)
	}
	return purged, err
}

// purgeLine is the audit line of a purge.
//
// Our choice: it does not name the resource, whose id may identify a person. The
// record of an erasure must not keep what was erased.
func purgeLine(by By, p eventlog.Purge) AuditLine {
	line := AuditLine{What: AuditAdmin, Reason: "events purged, of the account", By: by, AccountID: p.Account}
	if p.Resource != "" {
		line.Reason = "events purged, of one " + p.Kind
	}
	return line
}

// RecordEvent is [eventlog.Log.RecordEvent] for an operator, with an audit line.
func (s *Store) RecordEvent(ctx context.Context, e eventlog.NewEvent) ([]byte, error) {
	line := s.change(ctx, "event recorded")
	return s.Events.RecordEvent(ctx, e, func(tx kv.Txn) error { return line.ofAccount(tx, e.Owner) })
}

// NewImporter is [eventlog.Log.NewImporter] for an operator, with an audit line unless nothing is
// recorded.
func (s *Store) NewImporter(ctx context.Context, account string, o eventlog.ImportOptions) (*eventlog.Importer, error) {
	line := s.change(ctx, "events imported")
	o.Begin = func(tx kv.Txn) error { return line.ofAccount(tx, account) }
	return s.Events.NewImporter(account, o)
}

package store

import (
	"context"
	"fmt"

	"tollhouse/store/kv"
	"tollhouse/store/secret"
)

// Purge says what is removed for good, because somebody has a right to it.
type Purge struct {
	Account string
	// Kind and Resource name one resource of the account; both are "" for all.
	Kind, Resource string
}

// Purged counts what a purge removed.
type Purged struct {
	Events    int
	Resources int // snapshots
}

// PurgeEvents removes the events that an account, or one of its resources, has
// when it begins, and the snapshots that they led to. The first Update removes
// the snapshot of the resource and writes the audit line, and from then on
// batches follow, each whole in itself: meanwhile a reader finds some of the
// events, and each of those in every list that it belongs into. A purge that
// was cut short is finished by calling it again. What is recorded after it began
// stays, with the snapshot of it.
//
// Errors: *InvalidError, ErrNotFound when there is no such account. What was
// removed before an error is counted.
func (s *Store) PurgeEvents(ctx context.Context, by By, p Purge) (Purged, error) {
	if err := p.check(); err != nil {
		return Purged{}, err
	}
	var removed Purged
	end, err := s.beginPurge(ctx, by, p, &removed)
	if err == nil && p.Resource == "" {
		err = s.purgeResources(ctx, p.Account, end, &removed)
	}
	if err == nil {
		err = s.purgeLog(ctx, p, end, &removed)
	}
	if err != nil {
		return removed, fmt.Errorf("purge events: %w", err)
	}
	return removed, nil
}

func (p Purge) check() error {
	switch {
	case p.Kind == "" && p.Resource == "":
		return nil
	case p.Resource == "":
		return invalid("resource", "name the resource, or leave the kind out to purge the whole account", "a kind alone names no resource")
	case p.Kind == "":
		return invalid("kind", "name the kind, for example customer", "resources of several kinds may share an id")
	case !IsKind(p.Kind):
		return invalid("kind", "use a kind such as customer", "kind must have 1 to 32 characters of a-z, 0-9 and _, the first a letter")
	case !IsID(p.Resource):
		return invalid("resource", "use an id such as cus_4tn8k2w1", "resource must have 1 to 64 characters of A-Z, a-z, 0-9, _ and -")
	}
	return nil
}

// beginPurge returns the last place that is purged.
func (s *Store) beginPurge(ctx context.Context, by By, p Purge, removed *Purged) (end Position, err error) {
	now, tail := s.Now(), secret.NewTail()
	snapshots := 0
	err = s.db.Update(ctx, func(tx kv.Txn) error {
		snapshots = 0
		if checkAccountID(p.Account) != nil {
			return ErrNotFound
		}
		if _, err := readAccount(tx, p.Account); err != nil {
			return err
		}
		head, err := readEventHead(tx, p.Account)
		if err != nil {
			return err
		}
		end = head.last
		if p.Resource != "" {
			if snapshots, err = removeSnapshot(tx, resourceKey(p.Account, p.Kind, p.Resource), end); err != nil {
				return err
			}
		}
		return appendAudit(tx, p.auditLine(by), now, tail)
	})
	removed.Resources += snapshots
	return end, err
}

// auditLine tells of a purge.
//
// Our choice: it does not name the resource, whose id may be a person's: what
// was to be forgotten must not stay in the record of its forgetting.
func (p Purge) auditLine(by By) AuditLine {
	line := AuditLine{What: AuditAdmin, Reason: "events purged, of the account", By: by, AccountID: p.Account}
	if p.Resource != "" {
		line.Reason = "events purged, of one " + p.Kind
	}
	return line
}

// removeSnapshot removes a resource whose last event is not behind end, and
// returns how many snapshots went with it. The record of a removed resource
// goes too, although it has none.
func removeSnapshot(tx kv.Txn, k key, end Position) (int, error) {
	v, err := tx.Get(k)
	if err != nil {
		return 0, goneIsNil(err)
	}
	rec, err := decodeResource(v)
	if err != nil {
		return 0, err
	}
	if rec.last.Compare(end) > 0 {
		return 0, nil
	}
	if err := tx.Delete(k); err != nil || !rec.exists() {
		return 0, err
	}
	return 1, nil
}

// purgeResources removes all resources whose last event is not behind end.
func (s *Store) purgeResources(ctx context.Context, account string, end Position, removed *Purged) error {
	r := newKey(tagResource).str(account).all()
	r.KeysOnly, r.Limit = true, deleteBatchMax
	for {
		var keys [][]byte
		err := s.db.View(ctx, func(rd kv.Reader) error {
			for k := range rd.Scan(r) {
				keys = append(keys, append([]byte(nil), k...))
			}
			return nil
		})
		if err != nil || len(keys) == 0 {
			return err
		}
		snapshots := 0
		err = s.db.Update(ctx, func(tx kv.Txn) error {
			snapshots = 0
			for _, k := range keys {
				n, err := removeSnapshot(tx, k, end)
				if err != nil {
					return err
				}
				snapshots += n
			}
			return nil
		})
		if err != nil {
			return err
		}
		removed.Resources += snapshots
		r.Lo = append(keys[len(keys)-1], 0)
	}
}

// purgeLog removes the events up to end. A resource's are found by their marks,
// which resources of other kinds may share.
func (s *Store) purgeLog(ctx context.Context, p Purge, end Position, removed *Purged) error {
	rest := stretch{list: eventsOf(p.Account), hi: through(end)}
	if p.Resource != "" {
		rest.list = eventsOfResource(p.Account, p.Resource)
	}
	for {
		var places []Position
		err := s.db.View(ctx, func(r kv.Reader) error {
			head, err := readEventHead(r, p.Account)
			if err != nil {
				return err
			}
			rest.limit = head.parts.removeBatch()
			places = rest.places(r, head.parts)
			return nil
		})
		if err != nil || len(places) == 0 {
			return err
		}
		n, err := s.removeEvents(ctx, p.Account, p.Kind, places, false)
		if err != nil {
			return err
		}
		removed.Events += n
		rest.lo = through(places[len(places)-1])
	}
}

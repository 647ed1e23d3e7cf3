package eventlog

import (
	"bytes"
	"context"
	"fmt"

	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// Purge says which events to remove for good, as a person may demand by law.
type Purge struct {
	Account string
	// Kind and Resource name one resource of the account; if both are "", all events
	// are removed.
	Kind, Resource string
}

// Purged counts what a purge removed.
type Purged struct {
	Events    int
	Resources int // snapshots
}

// Purge removes the events that an account, or one of its resources, has when it
// begins, and their snapshots. The first Update removes the resource's snapshot and
// calls begin, which writes the audit line. Then the events are removed in atomic
// batches: a reader may still find some events, each in all of its lists. After an
// interruption, call Purge again. Events recorded after it began stay, with their
// snapshot. Older events that an import adds in the meantime stay, or are removed with
// their snapshot.
//
// Errors: *InvalidError, and those of begin. Purged counts what was removed before an
// error.
func (l *Log) Purge(ctx context.Context, p Purge, begin func(kv.Txn) error) (Purged, error) {
	if err := p.check(); err != nil {
		return Purged{}, err
	}
	var removed Purged
	end, err := l.beginPurge(ctx, p, begin, &removed)
	if err == nil && p.Resource == "" {
		err = l.purgeResources(ctx, p, end, false, &removed)
	}
	if err == nil {
		err = l.purgeLog(ctx, p, end, &removed)
	}
	if err == nil { // an import may have set snapshots in the meantime
		err = l.purgeResources(ctx, p, end, true, &removed)
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
		return record.Invalid("resource", "name the resource, or leave the kind out to purge the whole account", "a kind alone does not identify a resource")
	case p.Kind == "":
		return record.Invalid("kind", "name the kind, for example customer", "resources of different kinds may share an id")
	case !IsKind(p.Kind):
		return record.Invalid("kind", "use a kind such as customer", "kind "+KindRule)
	case !IsID(p.Resource):
		return record.Invalid("resource", "use an id such as cus_4tn8k2w1", "resource must have 1 to 64 characters of A-Z, a-z, 0-9, _ and -")
	}
	return nil
}

// resources returns the keys of the resources to purge.
func (p Purge) resources() kv.Range {
	if p.Resource == "" {
		return record.NewKey(record.TagResource).Str(p.Account).All()
	}
	return record.ResourceKey(p.Account, p.Kind, p.Resource).All()
}

// beginPurge returns the last position to purge.
func (l *Log) beginPurge(ctx context.Context, p Purge, begin func(kv.Txn) error, removed *Purged) (end record.Position, err error) {
	snapshots := 0
	err = record.UpdateAs(ctx, l.db, kv.Ruling, func(tx kv.Txn) error {
		snapshots = 0
		if err := begin(tx); err != nil {
			return err
		}
		head, err := ReadHead(tx, p.Account)
		if err != nil {
			return err
		}
		end = head.last
		if p.Resource != "" {
			if snapshots, err = removeSnapshot(tx, p.Account, record.ResourceKey(p.Account, p.Kind, p.Resource), end, false); err != nil {
				return err
			}
		}
		return nil
	})
	removed.Resources += snapshots
	return end, err
}

// removeSnapshot removes a resource whose last event is at or before end, even the
// record of a removed one, and returns how many snapshots were removed. With orphans it
// leaves a resource whose last event exists.
func removeSnapshot(tx kv.Txn, account string, k record.Key, end record.Position, orphans bool) (int, error) {
	v, err := tx.Get(k)
	if err != nil {
		return 0, record.GoneIsNil(err)
	}
	rec, err := decodeResource(v)
	if err != nil {
		return 0, err
	}
	if rec.last.Compare(end) > 0 {
		return 0, nil
	}
	if orphans {
		if exists, err := hasEvent(tx, account, rec.last); exists || err != nil {
			return 0, err
		}
	}
	if err := tx.Delete(k); err != nil || !rec.exists() {
		return 0, err
	}
	return 1, nil
}

func hasEvent(r kv.Reader, account string, p record.Position) (bool, error) {
	head, err := ReadHead(r, account)
	if err != nil {
		return false, err
	}
	_, err = r.Get(eventsOf(account).in(head.Segments.of(p)).Position(p))
	return err == nil, record.GoneIsNil(err)
}

// purgeResources removes the resources whose last event is at or before end; with
// orphans, those of them whose last event was removed.
func (l *Log) purgeResources(ctx context.Context, p Purge, end record.Position, orphans bool, removed *Purged) error {
	r := p.resources()
	r.KeysOnly, r.Limit = true, record.DeleteBatchMax
	for {
		var keys [][]byte
		err := l.db.View(ctx, func(rd kv.Reader) error {
			for k := range rd.Scan(r) {
				keys = append(keys, bytes.Clone(k))
			}
			return nil
		})
		if err != nil || len(keys) == 0 {
			return err
		}
		snapshots := 0
		err = record.UpdateAs(ctx, l.db, kv.Ending, func(tx kv.Txn) error {
			snapshots = 0
			kv.Prefetch(tx, keys)
			for _, k := range keys {
				n, err := removeSnapshot(tx, p.Account, k, end, orphans)
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

// purgeLog removes the events up to end. It finds those of a resource by the
// resource's list, which resources of other kinds may share.
func (l *Log) purgeLog(ctx context.Context, p Purge, end record.Position, removed *Purged) error {
	rest := stretch{list: eventsOf(p.Account), hi: through(end)}
	if p.Resource != "" {
		rest.list = eventsOfResource(p.Account, p.Resource)
	}
	for {
		var positions []record.Position
		err := l.db.View(ctx, func(r kv.Reader) error {
			head, err := ReadHead(r, p.Account)
			if err != nil {
				return err
			}
			positions = rest.removable(r, head.Segments)
			return nil
		})
		if err != nil || len(positions) == 0 {
			return err
		}
		n, err := l.removeEvents(ctx, p.Account, p.Kind, positions, false)
		if err != nil {
			return err
		}
		removed.Events += n
		rest.lo = through(positions[len(positions)-1])
	}
}

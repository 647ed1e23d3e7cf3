package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// Start makes this process the sender: what another one settles from now on fails with
// record.ErrConflict. It also disables endpoints whose secrets are lost, or whose owner's
// authorization ended without them, as when a command was killed, and removes what such a
// command has left of deleted endpoints.
func (w *Webhooks) Start(ctx context.Context) error {
	var in Instance
	err := record.UpdateAs(ctx, w.db, kv.Ruling, func(tx kv.Txn) (err error) {
		if in, err = readInstance(tx); err != nil {
			return err
		}
		in.fence++
		return writeInstance(tx, in)
	})
	if err != nil {
		return fmt.Errorf("start webhooks: %w", err)
	}
	w.fence.Store(in.fence)
	err = w.Each(ctx, func(e Endpoint) error {
		if !e.Enabled() {
			return nil
		}
		reason, err := w.ended(ctx, &e)
		if err != nil || reason == "" {
			return err
		}
		_, err = w.endIf(ctx, e.ID, w.endedIn)
		return record.GoneIsNil(err)
	})
	if err == nil {
		err = w.removeLeft(ctx, record.TagWebhookLine)
	}
	if err == nil {
		err = w.removeLeft(ctx, record.TagWebhookSet)
	}
	return err
}

// removeLeft removes the keys of a tag that belong to an endpoint that does not exist. It
// reads one key of each other endpoint.
func (w *Webhooks) removeLeft(ctx context.Context, tag byte) error {
	rest := record.NewKey(tag).All()
	rest.KeysOnly, rest.Limit = true, 1
	for {
		var all record.Key // of the next endpoint, or nil
		exists := false
		err := w.db.View(ctx, func(r kv.Reader) error {
			for k := range r.Scan(rest) {
				account, tail := record.CutString(k[1:])
				if len(tail) < len(secret.ID{}) { // damaged, which the check of the tables finds
					all, exists = bytes.Clone(k), true
					continue
				}
				id := secret.ID(tail[:len(secret.ID{})])
				_, err := r.Get(endpointKey(account, id))
				all, exists = record.WebhooksKey(tag, account).ID(id), err == nil
				return record.GoneIsNil(err)
			}
			return nil
		})
		if err == nil && all != nil && !exists {
			err = record.DeleteAll(ctx, w.db, all.All())
		}
		if err != nil {
			return fmt.Errorf("remove what is left of deleted webhook endpoints: %w", err)
		}
		if all == nil {
			return nil
		}
		rest.Lo = record.After(all)
	}
}

// ended returns why an endpoint may no longer be sent to, or "".
func (w *Webhooks) ended(ctx context.Context, e *Endpoint) (reason Reason, err error) {
	err = w.db.View(ctx, func(r kv.Reader) error {
		reason, err = w.endedIn(r, e)
		return err
	})
	return reason, err
}

func (w *Webhooks) endedIn(r kv.Reader, e *Endpoint) (Reason, error) {
	if _, ok := w.Open(e); !ok {
		return SecretLost, nil
	}
	return w.Ended(r, e.Account, e.Owner)
}

// Each visits all endpoints by id, outside a transaction, with their records and Stopped alone: Held
// and Behind are not set.
func (w *Webhooks) Each(ctx context.Context, visit func(Endpoint) error) error {
	var after secret.ID
	for first := true; ; first = false {
		var list []Endpoint
		err := w.db.View(ctx, func(r kv.Reader) (err error) {
			list, err = page(r, "", after, first, setPage)
			kv.Prefetch(r, accountKeys(list))
			for i := range list {
				if err == nil {
					list[i].Stopped, err = w.Stopped(r, list[i].Account)
				}
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("list webhook endpoints: %w", err)
		}
		for _, e := range list {
			if err := visit(e); err != nil {
				return err
			}
			after = e.key
		}
		if len(list) < setPage {
			return nil
		}
	}
}

func accountKeys(list []Endpoint) (keys [][]byte) {
	for _, e := range list {
		if !e.ofAll() {
			keys = append(keys, record.AccountKey(e.Account))
		}
	}
	return keys
}

// Load returns an endpoint with its record alone, Held, Stopped and Changes: Behind is not set. It disables
// an endpoint whose owner's authorization has ended. Errors: record.ErrNotFound.
func (w *Webhooks) Load(ctx context.Context, id string) (e Endpoint, err error) {
	var ended Reason
	err = w.db.View(ctx, func(r kv.Reader) error {
		if e, err = find(r, System, id); err != nil {
			return err
		}
		if e.Stopped, err = w.Stopped(r, e.Account); err != nil {
			return err
		}
		in, err := readInstance(r)
		if e.Held, e.Changes = in.Held, in.Changes; err == nil && e.Enabled() {
			ended, err = w.Ended(r, e.Account, e.Owner)
		}
		return err
	})
	if err == nil && ended != "" {
		if _, err = w.endIf(ctx, e.ID, w.endedIn); err == nil {
			return w.Load(ctx, id)
		}
	}
	if err != nil {
		return Endpoint{}, fmt.Errorf("load webhook endpoint: %w", err)
	}
	return e, nil
}

// Next returns the next events for an endpoint after a position, at most limit, and how
// far it has read; see [eventlog.Log.Follow]. Errors: *eventlog.CursorError if retention
// has removed events after the position; then call PassGap.
func (w *Webhooks) Next(ctx context.Context, e *Endpoint, after record.Position, limit int) (eventlog.Stretch, error) {
	s, err := w.Log.Follow(ctx, e.Account, e.Types, after, limit)
	s.Events = slices.DeleteFunc(s.Events, func(event eventlog.Followed) bool { return event.Position == e.born })
	return s, err
}

// pauseMax is more than an attempt waits. What is due later was set aside before the clock
// stepped back.
const pauseMax = 29 * time.Hour

// Due returns the events set aside whose next attempt is due, oldest first, at most
// limit, and when the next of the others is due, or zero.
func (w *Webhooks) Due(ctx context.Context, e *Endpoint, now time.Time, limit int) (due []Delivery, next time.Time, err error) {
	err = w.eachSetPage(ctx, e.set().All(), func(page []Delivery) error {
		for _, x := range page {
			x = e.current(x)
			at := x.NextAt
			if at.After(now.Add(pauseMax)) {
				at = now
			}
			switch {
			case x.State.isDead():
			case !at.After(now) && len(due) < limit:
				due = append(due, x)
			case next.IsZero() || at.Before(next):
				next = at
			}
		}
		return nil
	})
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read the events set aside: %w", err)
	}
	return due, next, nil
}

// Progress is what the sender has found out about an endpoint since its last write.
type Progress struct {
	Cursor  record.Position   // everything up to here is settled; zero leaves it
	Done    []Delivery        // results of events, by State; at most ProgressMax
	Gone    []record.Position // of events set aside that no longer exist
	Head    *Delivery         // the event that blocks a strict endpoint from now on, or nil
	Trouble Trouble
	Last    Attempt
	Disable Reason // Gone, Failing or SecretLost, or ""
}

// ProgressMax bounds the events of one Progress.
const ProgressMax = 200

// Settle stores a Progress in one write, if the endpoint is still as it was read: enabled,
// with its turn, and of this sender. It disables the endpoint if p says so or its owner's
// authorization has ended. It returns the endpoint as it is now. Errors:
// record.ErrNotFound; record.ErrConflict, after which the endpoint must be read again; ErrFull.
// When an endpoint was disabled, enabled, its head skipped or its URL or types changed in the
// meantime, what was accepted before still counts, so that it is not repeated, as far as one
// call of Follow reads; nothing else does, and nothing at all once the cursor was moved by hand.
// The cursor passes no event that matches types given since.
func (w *Webhooks) Settle(ctx context.Context, e *Endpoint, p Progress) (Endpoint, error) {
	random, was, isStale := w.draw(), e, false
	ctx = kv.Naming(ctx, func() [][]byte { return e.setKeys(p.Done) })
	now, err := w.settle(ctx, e, func(tx kv.Txn, e *Endpoint) (string, error) {
		if p.Disable != "" {
			tx.As(kv.Ruling)
		}
		if e.turn/aMove != was.turn/aMove {
			return "", record.ErrConflict
		}
		isStale = e.turn != was.turn || !e.Enabled()
		passed, err := settledTo(tx, e, was.Types, p)
		if err != nil {
			return "", err
		}
		e.Cursor = record.LaterOf(e.Cursor, passed)
		if err := e.drop(tx, p.Gone); err != nil {
			return "", err
		}
		if e.Renewal() != was.Renewal() {
			revive(p.Done)
		}
		if err := e.put(tx, was.turn, p.Done...); err != nil {
			return "", err
		}
		for _, x := range p.Done {
			e.Gap.Settle(x)
		}
		if isStale {
			e.checkHead()
			return "", nil
		}
		e.Head, e.Trouble, e.Last = p.Head, p.Trouble, p.Last
		e.checkHead()
		cause, reason := BySystem, p.Disable
		switch reason {
		case Gone:
			cause = ByReceiver
		case "":
			ended, err := w.Ended(tx, e.Account, e.Owner)
			if err != nil || ended == "" {
				return "", err
			}
			reason = ended
		}
		e.disable(cause, reason, w.Now())
		return "disabled", nil
	}, random)
	if err == nil && isStale {
		err = record.ErrConflict
	}
	if err != nil {
		return Endpoint{}, fmt.Errorf("settle webhook deliveries: %w", err)
	}
	return now, nil
}

// revive has events tried again that died at a receiver from before a renewal.
func revive(list []Delivery) {
	for i := range list {
		if list[i].State == Dead {
			list[i].State = Parked
		}
	}
}

// settledTo returns the position up to which every event that matches the endpoint's types
// is settled. The cursor of a Progress holds for the types under which its events were read.
func settledTo(tx kv.Txn, e *Endpoint, was []string, p Progress) (record.Position, error) {
	if p.Cursor.Compare(e.Cursor) <= 0 || slices.Equal(e.Types, was) {
		return p.Cursor, nil
	}
	s, err := eventlog.FollowIn(tx, e.Account, e.Types, e.Cursor, p.Cursor, ProgressMax)
	if _, gone := errors.AsType[*eventlog.CursorError](err); gone {
		return e.Cursor, nil
	}
	at := e.Cursor
	for _, event := range s.Events {
		if !slices.ContainsFunc(p.Done, func(x Delivery) bool { return x.Position == event.Position }) {
			return at, err
		}
		at = event.Position
	}
	return s.Passed, err
}

// checkHead drops a head that no longer blocks, because the endpoint lost its order or the
// head's type while it was tried.
func (e *Endpoint) checkHead() {
	switch {
	case e.Head == nil:
	case e.Order == None:
		e.Head = nil
	case e.Cursor.Compare(e.Head.Position) >= 0:
		e.Head, e.Trouble = nil, Trouble{}
	default:
		e.Head.State = Retrying
	}
}

// PassGap moves the cursor past events that retention has removed, and records the gap.
// A gap that grows while it is pending is not recorded again. Without a gap it changes
// nothing. Errors: as Settle.
func (w *Webhooks) PassGap(ctx context.Context, e *Endpoint) (Endpoint, error) {
	random, was := w.draw(), e
	now, err := w.settle(ctx, e, func(tx kv.Txn, e *Endpoint) (string, error) {
		extent, err := eventlog.ReadExtent(tx, e.Account)
		if err != nil || e.Cursor.Compare(extent.Removed) >= 0 {
			return "", err
		}
		if e.turn != was.turn || !e.Enabled() {
			return "", record.ErrConflict
		}
		cursor := e.Cursor
		e.Cursor, e.Head = extent.Removed, nil
		if e.Gap.Pending {
			e.Gap.Oldest = extent.Oldest()
			return "", nil
		}
		e.Gap = Gap{After: cursor, Oldest: extent.Oldest(), At: w.Now(), Pending: true}
		return "gap", nil
	}, random)
	if err != nil {
		return Endpoint{}, fmt.Errorf("pass a gap: %w", err)
	}
	return now, nil
}

// settle changes an endpoint for the sender. fn returns the action of the change's event,
// or "" for none, and may run again.
func (w *Webhooks) settle(ctx context.Context, was *Endpoint, fn func(tx kv.Txn, e *Endpoint) (action string, err error), random drawn) (e Endpoint, err error) {
	var action string
	ctx = kv.Naming(ctx, func() [][]byte {
		return [][]byte{record.MetaKey(MetaName), endpointKey(was.Account, was.key), record.AccountKey(was.Account)}
	})
	err = w.db.Update(ctx, func(tx kv.Txn) error {
		in, err := readInstance(tx)
		if err != nil {
			return err
		}
		if e, err = read(tx, was.Account, was.key); err != nil {
			return err
		}
		if in.fence != w.fence.Load() {
			return record.ErrConflict
		}
		before := e
		e.Held, e.Changes = in.Held, in.Changes
		if action, err = fn(tx, &e); err != nil {
			return err
		}
		if action != "" {
			e.Revision++
			if _, err := w.recordChange(tx, System, before, e, action, random); err != nil {
				return err
			}
		}
		if err := write(tx, e); err != nil {
			return err
		}
		e.Stopped, err = w.Stopped(tx, e.Account) // last: events of changes do not show it
		return err
	})
	if err == nil && action != "" {
		w.committed(&e, action)
	}
	return e, err
}

// drop takes events out of the set.
func (e *Endpoint) drop(tx kv.Txn, gone []record.Position) error {
	list := make([]Delivery, len(gone))
	for i, p := range gone {
		list[i].Position = p
	}
	aside, err := e.aside(tx, list)
	if err != nil {
		return err
	}
	for p, x := range aside {
		e.count(x.State, -1)
		if err := tx.Delete(e.setKey(p)); err != nil {
			return err
		}
	}
	return nil
}

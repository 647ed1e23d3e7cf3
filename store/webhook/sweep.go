package webhook

import (
	"context"
	"fmt"

	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// EndAccount removes the endpoints of an account that is being erased, without events.
// still is checked by every Update.
func (w *Webhooks) EndAccount(ctx context.Context, account string, still func(kv.Reader) error) error {
	db := record.GuardedDB{DB: w.db, Check: still}
	for {
		var list []Endpoint
		err := record.UpdateAs(ctx, db, kv.Ruling, func(tx kv.Txn) (err error) {
			if list, err = page(tx, account, secret.ID{}, true, AccountMax); err != nil {
				return err
			}
			for _, e := range list {
				if err := remove(tx, e); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("end the webhook endpoints of an account: %w", err)
		}
		for _, e := range list {
			w.changed(e.ID)
		}
		if len(list) < AccountMax {
			break
		}
	}
	return record.DeleteAll(ctx, db, record.WebhooksKey(record.TagWebhookLine, account).All(), record.WebhooksKey(record.TagWebhookSet, account).All())
}

// SweepPurged drops what the endpoints that get an account's events have set aside of events
// that a purge, or the erasure of the account, has removed.
func (w *Webhooks) SweepPurged(ctx context.Context, account string) error {
	err := w.Each(ctx, func(e Endpoint) error {
		if e.Account != account && !e.ofAll() {
			return nil
		}
		return w.sweep(ctx, &e)
	})
	if err != nil {
		return fmt.Errorf("drop purged events: %w", err)
	}
	return nil
}

// SweepRemoved drops what endpoints have set aside of events that retention has removed.
// It reads what it drops and no event, so it costs the same however much is set aside.
func (w *Webhooks) SweepRemoved(ctx context.Context) error {
	err := w.Each(ctx, func(e Endpoint) error {
		if e.Head == nil && e.Parked+e.Dead == 0 {
			return nil
		}
		var removed record.Position
		err := w.db.View(ctx, func(r kv.Reader) error {
			extent, err := eventlog.ReadExtent(r, e.Account)
			removed = extent.Removed
			return err
		})
		if err == nil && e.Head != nil && e.Head.Position.Compare(removed) <= 0 {
			err = w.dropHead(ctx, &e)
		}
		if err != nil {
			return err
		}
		upTo := kv.Range{Lo: e.set(), Hi: append(e.setKey(removed), 0)}
		return w.eachSetPage(ctx, upTo, func(list []Delivery) error {
			return w.editSet(ctx, e.ID, list, func(Delivery) bool { return true })
		})
	})
	if err != nil {
		return fmt.Errorf("drop removed events: %w", err)
	}
	return nil
}

func (w *Webhooks) sweep(ctx context.Context, e *Endpoint) error {
	if e.Head != nil {
		if _, gone, err := w.exist(ctx, e, []Delivery{*e.Head}); err != nil || gone == 0 {
			if err != nil {
				return err
			}
		} else if err := w.dropHead(ctx, e); err != nil {
			return err
		}
	}
	if e.Parked+e.Dead == 0 {
		return nil
	}
	return w.eachSetPage(ctx, e.set().All(), func(list []Delivery) error {
		left, gone, err := w.exist(ctx, e, list)
		if err != nil || gone == 0 {
			return err
		}
		return w.editSet(ctx, e.ID, list, func(x Delivery) bool { return !left[x.Position] })
	})
}

// exist returns which of the events are still in the log, and how many are not.
func (w *Webhooks) exist(ctx context.Context, e *Endpoint, list []Delivery) (left map[record.Position]bool, gone int, err error) {
	positions := make([]record.Position, len(list))
	for i, x := range list {
		positions[i] = x.Position
	}
	events, err := w.Log.EventsAt(ctx, e.Account, positions)
	left = map[record.Position]bool{}
	for _, event := range events {
		left[event.Position] = true
	}
	return left, len(list) - len(events), err
}

// dropHead forgets the event that blocks the endpoint, if it is still the one in was.
func (w *Webhooks) dropHead(ctx context.Context, was *Endpoint) error {
	_, err := w.edit(ctx, System, was.ID, func(tx kv.Txn, e *Endpoint) (bool, error) {
		tx.As(kv.Ending)
		if e.Head == nil || e.Head.Position != was.Head.Position {
			return false, nil
		}
		e.Head = nil
		e.turn++
		return true, nil
	})
	return record.GoneIsNil(err)
}

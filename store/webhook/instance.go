package webhook

import (
	"context"
	"fmt"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// Why an instance is held.
const (
	HeldRestored = "restored" // from a backup, which may be a copy
	HeldCopied   = "copied"   // its database is another one, which may be a copy
	HeldAsked    = "asked"
)

// Instance is the state shared by the endpoints of all accounts.
type Instance struct {
	Held      bool // nothing is sent
	Since     time.Time
	Reason    string
	Endpoints int
	// Changes rises with every change of an endpoint or of the instance, other than by
	// the sender: servers that share a database look at it.
	Changes uint64

	fence uint64 // of the server that may settle
}

// MetaName is the name of the instance's record among the notes of the store.
const MetaName = "webhooks"

const instanceRecord = 1

func encodeInstance(in Instance) []byte {
	return record.NewEncoder(instanceRecord).Time(in.Since).Str(in.Reason).Uint(uint64(in.Endpoints)).Uint(in.Changes).Uint(in.fence).B
}

func decodeInstance(v []byte) (Instance, error) {
	d := record.NewDecoder("webhooks", instanceRecord, v)
	in := Instance{Since: d.Time(), Reason: d.Str(), Endpoints: int(d.Uint()), Changes: d.Uint(), fence: d.Uint()}
	in.Held = !in.Since.IsZero()
	return in, d.Done()
}

func readInstance(r kv.Reader) (Instance, error) {
	v, err := r.Get(record.MetaKey(MetaName))
	if record.IsAbsent(err) {
		return Instance{}, nil
	}
	if err != nil {
		return Instance{}, err
	}
	return decodeInstance(v)
}

func writeInstance(tx kv.Txn, in Instance) error {
	return tx.Set(record.MetaKey(MetaName), encodeInstance(in), time.Time{})
}

// changeInstance counts a change, after which added more endpoints exist.
func changeInstance(tx kv.Txn, added int) error {
	in, err := readInstance(tx)
	if err != nil {
		return err
	}
	in.Changes++
	if in.Endpoints += added; in.Endpoints > InstanceMax {
		return &LimitError{Instance: true, Max: InstanceMax}
	}
	return writeInstance(tx, in)
}

// Instance returns the state shared by all endpoints. It reads one record.
func (w *Webhooks) Instance(ctx context.Context) (in Instance, err error) {
	err = w.db.View(ctx, func(r kv.Reader) error {
		in, err = readInstance(r)
		return err
	})
	if err != nil {
		return Instance{}, fmt.Errorf("read the state of webhooks: %w", err)
	}
	return in, nil
}

// Hold stops all deliveries until Resume. It is idempotent.
func (w *Webhooks) Hold(ctx context.Context, by By) (Instance, error) {
	return w.setHeld(ctx, by, w.Now(), HeldAsked, "webhooks held")
}

// Resume ends a hold. It is idempotent.
func (w *Webhooks) Resume(ctx context.Context, by By) (Instance, error) {
	return w.setHeld(ctx, by, time.Time{}, "", "webhooks resumed")
}

func (w *Webhooks) setHeld(ctx context.Context, by By, since time.Time, reason, audit string) (in Instance, err error) {
	random := w.draw()
	err = record.UpdateAs(ctx, w.db, kv.Ruling, func(tx kv.Txn) error {
		if err := by.mustLive(tx); err != nil {
			return err
		}
		if in, err = readInstance(tx); err != nil || in.Held == !since.IsZero() {
			return err
		}
		in.Held, in.Since, in.Reason = !since.IsZero(), since, reason
		in.Changes++
		if err := w.Audit(tx, by, "", audit, random.audit); err != nil {
			return err
		}
		return writeInstance(tx, in)
	})
	if err != nil {
		return Instance{}, fmt.Errorf("%s: %w", audit, err)
	}
	w.changed("")
	return in, nil
}

// HoldUnasked holds an instance that may be a copy, if it has endpoints: a copy must not talk
// to the receivers of its original. It reports whether it is held now.
func HoldUnasked(ctx context.Context, db kv.DB, reason string, now time.Time) (held bool, err error) {
	err = record.UpdateAs(ctx, db, kv.Ruling, func(tx kv.Txn) error {
		in, err := readInstance(tx)
		if held = in.Held; err != nil || held || in.Endpoints == 0 {
			return err
		}
		held = true
		in.Held, in.Since, in.Reason = true, now, reason
		in.Changes++
		return writeInstance(tx, in)
	})
	return held, err
}

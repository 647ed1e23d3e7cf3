package webhook

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// Ending disables endpoints in the transaction that ends the authorizations to which they
// are bound. Those of an account fit into it, even the largest.
type Ending struct {
	w    *Webhooks
	by   By
	tail [8]byte
	done []Endpoint
	rest []end // whose endpoints did not all fit into the transaction

	look []string // endpoints that senders must look at
}

// end is what has ended, and the reason that its endpoints get.
type end struct {
	owner  Owner
	reason Reason
}

// NewEnding returns an Ending for one transaction. tail was drawn for it; the events and
// audit lines derive theirs from it.
func (w *Webhooks) NewEnding(by By, tail [8]byte) *Ending {
	return &Ending{w: w, by: by, tail: tail}
}

// Begin forgets what an earlier run of the transaction did.
func (n *Ending) Begin() { n.done, n.rest, n.look = nil, nil, nil }

// Commit follows the transaction, whose error it returns. After a commit it disables the
// endpoints that did not fit into it. The sender sends nothing to those: it asks
// [Options.Ended].
func (n *Ending) Commit(ctx context.Context, err error) error {
	if err != nil {
		return err
	}
	for i := range n.done {
		n.w.committed(&n.done[i], "disabled")
		n.w.changed(n.done[i].ID)
	}
	for _, id := range n.look {
		n.w.changed(id)
	}
	for _, of := range n.rest {
		if err := n.endRest(context.WithoutCancel(ctx), of); err != nil {
			return err
		}
	}
	return nil
}

// Count returns how many endpoints were disabled so far.
func (n *Ending) Count() int { return len(n.done) }

// In ends what an owner made in an account, which is all that its tokens reach. The record
// of the instance guards the list: whoever adds an endpoint writes it.
func (n *Ending) In(tx kv.Txn, account string, o Owner) error {
	list, err := endpointsOf(tx, account)
	if err != nil {
		return err
	}
	return n.disable(tx, list, end{o, AuthorizationEnded})
}

// InIf is In for the owners of whom ends reports that they have ended.
func (n *Ending) InIf(tx kv.Txn, account string, ends func(Owner) (bool, error)) error {
	list, err := endpointsOf(tx, account)
	list = slices.DeleteFunc(list, func(e Endpoint) bool {
		var ended bool
		if err == nil {
			ended, err = ends(e.Owner)
		}
		return !ended
	})
	if err != nil {
		return err
	}
	return n.disable(tx, list, end{Owner{}, AuthorizationEnded})
}

// Look has the senders look at the endpoints of an account that was disabled or enabled.
func (n *Ending) Look(tx kv.Txn, account string) error {
	list, err := endpointsOf(tx, account)
	if err != nil || len(list) == 0 {
		return err
	}
	for _, e := range list {
		n.look = append(n.look, e.ID)
	}
	return changeInstance(tx, 0)
}

func endpointsOf(tx kv.Txn, account string) ([]Endpoint, error) {
	in, err := readInstance(tx)
	if err != nil || in.Endpoints == 0 {
		return nil, err
	}
	return page(tx, account, secret.ID{}, true, AccountMax)
}

// Bound are the endpoints of a client in all accounts, as they were before a transaction.
type Bound struct {
	ids     []string
	changes uint64
	more    bool
}

// boundMax bounds the endpoints that one transaction disables.
const boundMax = AccountMax

// BoundTo returns the endpoints that are bound to a client.
func (w *Webhooks) BoundTo(ctx context.Context, client string) (Bound, error) {
	in, err := w.Instance(ctx)
	b := Bound{changes: in.Changes}
	if err != nil || in.Endpoints == 0 {
		return b, err
	}
	err = w.Each(ctx, func(e Endpoint) error {
		switch {
		case !e.Enabled() || e.Client != client:
		case len(b.ids) == boundMax:
			b.more = true
		default:
			b.ids = append(b.ids, e.ID)
		}
		return nil
	})
	return b, err
}

// OfFamily returns the account and the owner of an endpoint that is enabled and bound to a
// family. Errors: record.ErrNotFound.
func (w *Webhooks) OfFamily(ctx context.Context, family secret.ID) (account string, o Owner, err error) {
	err = w.Each(ctx, func(e Endpoint) error {
		if e.Enabled() && e.Family == family {
			account, o = e.Account, e.Owner
		}
		return nil
	})
	if err == nil && account == "" {
		err = record.ErrNotFound
	}
	return account, o, err
}

// Owned returns the enabled endpoints of an account that are bound to a user's
// authorizations.
func (w *Webhooks) Owned(ctx context.Context, account, user string) (list []Endpoint, err error) {
	err = w.db.View(ctx, func(r kv.Reader) (err error) {
		list, err = page(r, account, secret.ID{}, true, AccountMax)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the webhook endpoints of a user: %w", err)
	}
	return slices.DeleteFunc(list, func(e Endpoint) bool { return !e.Enabled() || e.User != user }), nil
}

// Client ends what a client made in all accounts.
func (n *Ending) Client(tx kv.Txn, client string, b Bound, reason Reason) error {
	in, err := readInstance(tx)
	if err != nil || in.Endpoints == 0 {
		return err
	}
	of := end{Owner{Client: client}, reason}
	if b.more || in.Changes != b.changes {
		n.rest = append(n.rest, of)
	}
	var list []Endpoint
	for _, id := range b.ids {
		e, err := find(tx, System, id)
		if record.IsAbsent(err) {
			continue
		}
		if err != nil {
			return err
		}
		list = append(list, e)
	}
	if err := n.disable(tx, list, of); err != nil || len(n.rest) == 0 {
		return err
	}
	return changeInstance(tx, 0) // so that every sender asks again
}

func (n *Ending) disable(tx kv.Txn, list []Endpoint, of end) error {
	before := len(n.done)
	for _, e := range list {
		if !e.Enabled() || !of.owner.covers(e.Owner) {
			continue
		}
		was := e
		e.disable(BySystem, of.reason, n.w.Now())
		e.Revision++
		if _, err := n.w.recordChange(tx, n.by, was, e, "disabled", n.drawn(e.ID)); err != nil {
			return err
		}
		if err := write(tx, e); err != nil {
			return err
		}
		n.done = append(n.done, e)
	}
	if len(n.done) == before {
		return nil
	}
	return changeInstance(tx, 0)
}

// drawn derives the random bits of an endpoint's event and audit line: how many are needed
// is known in the transaction only.
func (n *Ending) drawn(id string) drawn {
	sum := sha256.Sum256(append(n.tail[:], id...))
	return drawn{event: [8]byte(sum[:8]), audit: [8]byte(sum[8:16])}
}

// endRest disables the endpoints of an owner one by one.
func (n *Ending) endRest(ctx context.Context, of end) error {
	err := n.w.Each(ctx, func(e Endpoint) error {
		if !e.Enabled() || !of.owner.covers(e.Owner) {
			return nil
		}
		e, err := n.w.endIf(ctx, e.ID, func(r kv.Reader, e *Endpoint) (Reason, error) {
			// A new authorization may have taken the endpoint over since.
			return n.w.Ended(r, e.Account, e.Owner)
		})
		if err == nil && !e.Enabled() {
			n.done = append(n.done, e)
		}
		return record.GoneIsNil(err)
	})
	if err != nil {
		return fmt.Errorf("disable the webhook endpoints of what was revoked: %w", err)
	}
	return nil
}

// endIf disables an enabled endpoint for the reason that why returns, if any.
func (w *Webhooks) endIf(ctx context.Context, id string, why func(r kv.Reader, e *Endpoint) (Reason, error)) (Endpoint, error) {
	return w.change(ctx, System, id, func(tx kv.Txn, e *Endpoint) (string, error) {
		tx.As(kv.Ruling)
		if !e.Enabled() {
			return "", nil
		}
		reason, err := why(tx, e)
		if err != nil || reason == "" {
			return "", err
		}
		e.disable(BySystem, reason, w.Now())
		return "disabled", nil
	})
}

package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode"
	"unicode/utf8"

	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
)

// New endpoint settings.
type Settings struct {
	URL         string   // as target.ParseURL returned it
	Types       []string // patterns; nil means all
	Description string
	Order       Order        // "" is the default: Strict, or None for all accounts
	From        From         // where to begin
	Secret      secret.Token // of the caller's own, or zero
}

// Change says what to change of an endpoint; nil leaves it.
type Change struct {
	URL         *string
	Description *string
	Types       []string
	Order       *Order // "" is the default
	// If is the condition on the revision (RFC 9110 §13.1.1), or nil. It has no side
	// effects, since it may be called again.
	If func(revision uint64) bool
}

// From is a position in the log. The zero From is none.
type From struct {
	now, start bool
	event      string
	time       *int64
	ifDisabled bool // ErrEnabled otherwise
}

func FromNow() From               { return From{now: true} }
func FromStart() From             { return From{start: true} }    // the oldest event there is
func FromEvent(id string) From    { return From{event: id} }      // the event after it
func FromTime(seconds int64) From { return From{time: &seconds} } // the first event in or after the second
func (f From) IsZero() bool       { return f == From{} }

// IfDisabled is the same position, for a disabled endpoint only: Enable returns ErrEnabled otherwise.
func (f From) IfDisabled() From {
	f.ifDisabled = true
	return f
}

// resolve returns the cursor for a position. Errors: *record.InvalidError,
// *eventlog.CursorError.
func (f From) resolve(r kv.Reader, account string, now time.Time) (p record.Position, err error) {
	extent, err := eventlog.ReadExtent(r, account)
	if err != nil {
		return p, err
	}
	switch {
	case f.start:
		return extent.Removed, nil
	case f.event != "":
		p, err = eventlog.PositionOf(r, account, f.event)
		if errors.Is(err, record.ErrNotFound) || err == nil && p.Compare(extent.Last) > 0 {
			return p, notAPosition("from", account, f.event)
		}
		if err != nil {
			return p, err
		}
	case f.time != nil && account == eventlog.AllAccounts:
		return p, record.Invalid("from", feedHint, "from must not be a time: the feed is in the order of recording")
	case f.time != nil:
		if *f.time < 0 || *f.time > now.Unix() {
			return p, record.Invalid("from", "use now, or a time in the past", "from must not be in the future")
		}
		p = record.PositionBefore(*f.time)
		if extent.Removed.IsZero() || p.Compare(extent.Last) > 0 {
			return minOf(p, extent.Last), nil
		}
	default:
		return extent.Last, nil
	}
	if p.Compare(extent.Removed) < 0 {
		return p, &eventlog.CursorError{Param: "from", Oldest: extent.Oldest(), Resume: extent.Removed, Feed: account == eventlog.AllAccounts}
	}
	return p, nil
}

func minOf(p, q record.Position) record.Position {
	if p.Compare(q) < 0 {
		return p
	}
	return q
}

const (
	positionHint = "use now, start, a time, or the id of an event of the account"
	feedHint     = "use now, start, or a position in the feed, such as a nextCursor of it"
	typesHint    = "use types such as customer.updated, or patterns such as customer.*, *.created and *"
)

func notAPosition(param, account, text string) error {
	if account == eventlog.AllAccounts {
		return record.Invalid(param, feedHint, "%s %q is not a position in the feed", param, text)
	}
	return record.Invalid(param, positionHint, "%s %q is not the id of an event of the account", param, text)
}

// checkTypes returns the types without duplicates. Errors: *record.InvalidError.
func checkTypes(types []string) ([]string, error) {
	var merged []string
	for _, t := range types {
		if !eventlog.IsEventType(t) && !eventlog.IsTypePattern(t) {
			return nil, record.Invalid("types", typesHint, "types has %.64q, which is not an event type or pattern", t)
		}
		if !slices.Contains(merged, t) {
			merged = append(merged, t)
		}
	}
	if len(merged) == 0 || len(merged) > TypesMax {
		return nil, record.Invalid("types", typesHint, "types must have 1 to %d entries", TypesMax)
	}
	return merged, nil
}

// checkDescription also guards it as a snapshot, because the events of the endpoint contain it.
func (w *Webhooks) checkDescription(ctx context.Context, account, text string) error {
	if utf8.RuneCountInString(text) > DescriptionMax || slices.ContainsFunc([]rune(text), unicode.IsControl) {
		return record.Invalid("description", "shorten it to one line", "description must have at most %d characters and no control characters", DescriptionMax)
	}
	return w.Log.CheckText(ctx, account, objectKind, "description", text)
}

// checkAccount checks the account of an endpoint. Only an operator may have the events of all
// accounts pushed.
func checkAccount(by By, account string) error {
	if account == eventlog.AllAccounts && !by.hasToken() && by.Account == "" {
		return nil
	}
	return record.CheckAccountID(account)
}

// defaultOrder is Strict for an account. An event of one account must not stop those of the
// others.
func defaultOrder(account string) Order {
	if account == eventlog.AllAccounts {
		return None
	}
	return Strict
}

func checkOrder(o Order) error {
	if o != Strict && o != None {
		return record.Invalid("order", "use strict or none", "order must be strict or none, not %.64q", o)
	}
	return nil
}

// Create adds an endpoint and returns it with its secret, which is not shown again. Its
// cursor is at its own created event, unless s.From says otherwise. The endpoint is
// bound to the caller. Errors: *record.InvalidError, *snapshot.Error, *ExistsError, *LimitError,
// *eventlog.CursorError, and record.ErrDisabled when the caller's authorization has ended in
// the meantime, or record.ErrRevoked when the token has, as for every change.
func (w *Webhooks) Create(ctx context.Context, by By, account string, s Settings) (Endpoint, secret.Token, error) {
	e := Endpoint{Account: account, URL: s.URL, Description: s.Description, Order: s.Order, Owner: by.Owner, Revision: 1, CreatedAt: w.Now()}
	e.Order = cmp.Or(e.Order, defaultOrder(account))
	if s.Types == nil {
		s.Types = []string{"*"}
	}
	var err error
	e.Types, err = checkTypes(s.Types)
	if err = errors.Join(checkAccount(by, account), err, w.checkDescription(ctx, account, e.Description), checkOrder(e.Order)); err != nil {
		return Endpoint{}, secret.Token{}, err
	}
	if by.Account != "" && by.Account != account {
		return Endpoint{}, secret.Token{}, fmt.Errorf("create webhook endpoint: %w", record.ErrNotFound)
	}
	token := s.Secret
	if token.IsZero() {
		token = secret.NewWebhookSecret(w.Random)
	}
	e.key = secret.NewID(w.Random)
	e.ID = formatID(e.key)
	e.Secrets = []Secret{w.seal(e.ID, token)}
	made, random := e, w.draw()
	err = w.update(ctx, by, func(tx kv.Txn) error {
		made = e
		if err := errors.Join(w.checkOwner(tx, account, by.Owner), changeInstance(tx, 1)); err != nil {
			return err
		}
		if err := checkPlace(tx, made, true); err != nil {
			return err
		}
		if made.ofAll() {
			if err := eventlog.CheckFeed(tx); err != nil {
				return err
			}
		}
		if made.Cursor, err = s.From.resolve(tx, account, made.CreatedAt); err != nil {
			return err
		}
		if made.born, err = w.record(tx, by, made, "created", snapshot.Value{}, random); err != nil {
			return err
		}
		if (s.From.IsZero() || s.From.now) && !made.ofAll() {
			made.Cursor = made.born
		}
		if err := tx.Set(record.WebhookIDKey(made.key), []byte(account), time.Time{}); err != nil {
			return err
		}
		return write(tx, made)
	})
	if err != nil {
		return Endpoint{}, secret.Token{}, fmt.Errorf("create webhook endpoint: %w", err)
	}
	w.recorded(&made)
	w.changed(made.ID)
	return w.answer(ctx, by, made), token, nil
}

// answer returns an endpoint as callers get it, after a change was committed. If it cannot
// be read, this is what was written: an error would deny the change, and hide a secret that
// is shown once.
func (w *Webhooks) answer(ctx context.Context, by By, e Endpoint) Endpoint {
	if now, err := w.Find(ctx, by, e.ID); err == nil {
		return now
	}
	e.Secrets, e.Behind = live(e.Secrets, w.Now()), true
	return e
}

// checkPlace checks that the account has room for an endpoint with that URL. The
// record of the instance, which every change writes, guards it. Errors: *ExistsError,
// *LimitError.
func checkPlace(tx kv.Txn, e Endpoint, isNew bool) error {
	others, err := page(tx, e.Account, secret.ID{}, true, AccountMax)
	if err != nil {
		return err
	}
	for _, other := range others {
		if other.key != e.key && other.URL == e.URL {
			return &ExistsError{ID: other.ID}
		}
	}
	if isNew && len(others) == AccountMax {
		return &LimitError{Max: AccountMax}
	}
	return nil
}

// record appends the event and the audit line of a change. The action is that of the
// event. It returns the event's position, which is zero without one.
func (w *Webhooks) record(tx kv.Txn, by By, e Endpoint, action string, previous snapshot.Value, random drawn) (p record.Position, err error) {
	if !e.ofAll() {
		if p, err = w.recordEvent(tx, by, e, action, previous, random); err != nil {
			return record.Position{}, err
		}
	}
	reason := action
	if action == "disabled" {
		reason += " by " + string(e.Disabled.By) + " (" + string(e.Disabled.Reason) + ")"
	}
	return p, w.audit(tx, by, e, reason, random)
}

func (w *Webhooks) recordEvent(tx kv.Txn, by By, e Endpoint, action string, previous snapshot.Value, random drawn) (record.Position, error) {
	object, err := e.snapshot(action == "gap")
	if err != nil {
		return record.Position{}, err
	}
	source, location := "system", "system"
	if by.hasToken() {
		source, location = cmp.Or(by.Name, by.User, by.Client), cmp.Or(by.Location, "api")
	}
	p, err := w.Log.AppendEvent(tx, eventlog.NewEvent{
		Owner: e.Account, Resource: e.ID, Source: source, Location: location, Type: objectKind + "." + action, Object: object, Previous: previous,
	}, random.event)
	if errors.Is(err, record.ErrConflict) && (action == "disabled" || action == "gap") {
		// The account is being erased and takes no event. Nothing may keep an endpoint
		// from being disabled, or one account would stop the sender for all.
		p, err = record.Position{}, nil
	}
	return p, err
}

// audit appends an audit line about an endpoint.
func (w *Webhooks) audit(tx kv.Txn, by By, e Endpoint, what string, random drawn) error {
	return w.Audit(tx, by, e.Account, "webhook endpoint "+e.ID+" at "+e.Host()+": "+what, random.audit)
}

// edit changes an endpoint in one transaction. fn reports whether it changed anything,
// and may run again.
func (w *Webhooks) edit(ctx context.Context, by By, id string, fn func(tx kv.Txn, e *Endpoint) (changed bool, err error)) (e Endpoint, err error) {
	var changed bool
	err = w.update(ctx, by, func(tx kv.Txn) error {
		if e, err = find(tx, by, id); err != nil {
			return err
		}
		if changed, err = fn(tx, &e); err != nil || !changed {
			return err
		}
		if err := changeInstance(tx, 0); err != nil {
			return err
		}
		return write(tx, e)
	})
	if err != nil {
		return Endpoint{}, fmt.Errorf("change webhook endpoint: %w", err)
	}
	if changed {
		w.changed(e.ID)
	}
	return e, nil
}

// change is edit with an event and an audit line. fn returns the action of the event;
// "" means that nothing changed, except perhaps the turn.
func (w *Webhooks) change(ctx context.Context, by By, id string, fn func(tx kv.Txn, e *Endpoint) (action string, err error)) (Endpoint, error) {
	random, done := w.draw(), ""
	e, err := w.edit(ctx, by, id, func(tx kv.Txn, e *Endpoint) (bool, error) {
		before := *e
		action, err := fn(tx, e)
		if done = action; err != nil || action == "" {
			return e.turn != before.turn, err
		}
		e.Revision++
		p, err := w.recordChange(tx, by, before, *e, action, random)
		if e.atNow && !e.ofAll() {
			e.Cursor = p
		}
		return true, err
	})
	if err != nil {
		return Endpoint{}, err
	}
	if done != "" {
		w.committed(&e, done)
	}
	return w.answer(ctx, by, e), nil
}

func (w *Webhooks) recordChange(tx kv.Txn, by By, before, after Endpoint, action string, random drawn) (p record.Position, err error) {
	old, err := before.snapshot(false)
	if err != nil {
		return p, err
	}
	now, err := after.snapshot(false)
	if err != nil {
		return p, err
	}
	previous, _ := snapshot.Previous(old, now)
	return w.record(tx, by, after, action, previous, random)
}

// Update changes the settings of an endpoint. Types apply from the cursor onwards. A new URL
// binds the endpoint to the caller. Errors: record.ErrNotFound, *record.InvalidError,
// *snapshot.Error, *ExistsError, record.ErrPrecondition, and record.ErrDisabled when the caller's
// authorization has ended in the meantime.
func (w *Webhooks) Update(ctx context.Context, by By, id string, c Change) (Endpoint, error) {
	var err error
	if c.Types != nil {
		c.Types, err = checkTypes(c.Types)
	}
	if c.Description != nil {
		err = errors.Join(err, w.checkDescription(ctx, by.Account, *c.Description))
	}
	if c.Order != nil && *c.Order != "" {
		err = errors.Join(err, checkOrder(*c.Order))
	}
	if err != nil {
		return Endpoint{}, err
	}
	return w.change(ctx, by, id, func(tx kv.Txn, e *Endpoint) (string, error) {
		if c.If != nil && !c.If(e.Revision) {
			return "", record.ErrPrecondition
		}
		before := *e
		if c.URL != nil {
			e.URL = *c.URL
		}
		if c.Description != nil {
			e.Description = *c.Description
		}
		if c.Order != nil {
			e.Order = cmp.Or(*c.Order, defaultOrder(e.Account))
		}
		if c.Types != nil {
			e.Types = c.Types
		}
		if e.URL == before.URL && e.Description == before.Description && e.Order == before.Order && slices.Equal(e.Types, before.Types) {
			return "", nil
		}
		if e.Order == None {
			e.Head = nil // it is tried again as any other
		}
		if !slices.Equal(e.Types, before.Types) {
			e.turn++
		}
		if e.URL != before.URL {
			e.renew(false)
			if err := w.bind(tx, e, by); err != nil {
				return "", err
			}
		}
		return "updated", checkPlace(tx, *e, false)
	})
}

// Delete immediately removes an endpoint with its secrets, and then its deliveries and events
// set aside; it continues if the caller goes away. What a killed process has
// left is removed by Start. Errors: record.ErrNotFound.
func (w *Webhooks) Delete(ctx context.Context, by By, id string) error {
	random := w.draw()
	var e Endpoint
	err := w.update(ctx, by, func(tx kv.Txn) (err error) {
		tx.As(by.ending())
		if e, err = find(tx, by, id); err != nil {
			return err
		}
		if _, err := w.record(tx, by, e, "deleted", snapshot.Value{}, random); err != nil {
			return err
		}
		return remove(tx, e)
	})
	if err == nil {
		w.recorded(&e)
		w.changed(e.ID)
		err = record.DeleteAll(context.WithoutCancel(ctx), w.db, e.lineKeys().All(), e.set().All())
	}
	if err != nil {
		return fmt.Errorf("delete webhook endpoint: %w", err)
	}
	return nil
}

// remove removes an endpoint's record.
func remove(tx kv.Txn, e Endpoint) error {
	if err := changeInstance(tx, -1); err != nil {
		return err
	}
	return record.DeleteKeys(tx, endpointKey(e.Account, e.key), record.WebhookIDKey(e.key))
}

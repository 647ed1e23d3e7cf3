package eventlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
)

// ResourceChange says who changes which resource, and under what condition.
type ResourceChange struct {
	Owner, Kind, ID string
	// Action names what happened, for example autoupdate, and forces an event even
	// when nothing changed. "" derives the action from the change.
	Action    string
	Source    string // who acts
	Location  string // where the change comes from
	Condition Condition
	// Live is for a change by a token. It is called within the transaction and checks that the
	// token is valid still and that the account exists, which is then not created: a change that
	// arrives late must not bring an erased account back.
	Live func(r kv.Reader) error
	// Platform is a platform client, which acts for the account. What it writes counts for no
	// account.
	Platform bool
}

// Condition is the state that a resource must be in (RFC 9110 §13.1). The zero
// Condition always holds.
type Condition struct {
	Exists bool     // it must exist
	Absent bool     // it must not exist
	OneOf  []string // its last event must be one of these, unless nil
	NoneOf []string // its last event must be none of these
}

// holds reports whether rec meets the condition.
func (c Condition) holds(rec resourceRecord) bool {
	exists := rec.exists()
	switch {
	case c.Exists && !exists, c.Absent && exists:
		return false
	case c.OneOf != nil && (!exists || !slices.Contains(c.OneOf, rec.eventID())):
		return false
	case exists && slices.Contains(c.NoneOf, rec.eventID()):
		return false
	}
	return true
}

// Changed is the outcome of a change.
type Changed struct {
	Resource        // its current or last state
	Recorded string // id of the recorded event, or "" when nothing changed
	Created  bool
}

// PutResource sets the whole snapshot of a resource and records the event in the same
// transaction: created, updated, or none when nothing changed. With an Action the
// resource must exist. Errors: *snapshot.Error, ErrNotFound, record.ErrPrecondition,
// *record.BudgetError, and ErrUnavailable when concurrent changes to the resource kept
// getting in first.
func (l *Log) PutResource(ctx context.Context, c ResourceChange, body snapshot.Value) (Changed, error) {
	if err := l.checkBody(ctx, c, body); err != nil {
		return Changed{}, err
	}
	today := l.now().Format(time.DateOnly)
	return l.changeResource(ctx, c, func(before snapshot.Value, exists bool) (step, error) {
		if !exists && c.Action != "" {
			return step{}, record.ErrNotFound
		}
		return step{action: "updated", after: l.Rules().Complete(c.Kind, c.ID, body, before, today)}, nil
	})
}

// PatchResource applies a merge patch (RFC 7396) to a resource and records the event
// in the same transaction. It changes what the patch names and nothing else. Errors: as
// for PutResource.
func (l *Log) PatchResource(ctx context.Context, c ResourceChange, patch snapshot.Value) (Changed, error) {
	if err := l.checkBody(ctx, c, patch); err != nil {
		return Changed{}, err
	}
	return l.changeResource(ctx, c, func(before snapshot.Value, exists bool) (step, error) {
		if !exists {
			return step{}, record.ErrNotFound
		}
		// A list in the patch may hold objects with nulls.
		after := snapshot.Merge(before, patch).WithoutNulls()
		return step{action: "updated", after: after}, l.Rules().CheckMerged(c.Kind, before, after)
	})
}

// DeleteResource removes a resource and records the event, with its last snapshot, in
// the same transaction. Errors: as for PutResource.
func (l *Log) DeleteResource(ctx context.Context, c ResourceChange) (Changed, error) {
	return l.changeResource(ctx, c, func(before snapshot.Value, exists bool) (step, error) {
		if !exists {
			return step{}, record.ErrNotFound
		}
		return step{action: "deleted", after: before, remove: true}, nil
	})
}

func (l *Log) checkBody(ctx context.Context, c ResourceChange, body snapshot.Value) error {
	if err := l.checkChange(ctx, c); err != nil {
		return err
	}
	if err := l.Rules().Check(c.Kind, c.ID, body); err != nil {
		return err
	}
	return l.guard(ctx, c.Owner, c.Kind, body)
}

// step is the result that a change computes.
type step struct {
	action string // of the event, unless the caller gives one
	after  snapshot.Value
	remove bool
}

// changeTries bounds how often a change is recomputed after a concurrent one.
const changeTries = 8

// errOvertaken means that a concurrent change was committed first.
var errOvertaken = errors.New("resource has changed in the meantime")

// changeResource computes a change outside a transaction, and commits it if the
// resource has not changed since.
func (l *Log) changeResource(ctx context.Context, c ResourceChange, next func(before snapshot.Value, exists bool) (step, error)) (Changed, error) {
	for range changeTries {
		changed, err := l.tryChange(ctx, c, next)
		if errors.Is(err, errOvertaken) {
			continue
		}
		if err != nil {
			return Changed{}, fmt.Errorf("change resource: %w", err)
		}
		return changed, nil
	}
	return Changed{}, fmt.Errorf("change resource: %w: %w %d times", record.ErrUnavailable, errOvertaken, changeTries)
}

func (l *Log) tryChange(ctx context.Context, c ResourceChange, next func(before snapshot.Value, exists bool) (step, error)) (Changed, error) {
	rec, err := l.loadResource(ctx, c.Owner, c.Kind, c.ID)
	if err != nil {
		return Changed{}, err
	}
	before := snapshot.ObjectOf()
	if rec.exists() {
		if before, err = snapshot.Parse(rec.json, snapshot.DepthMax); err != nil {
			return Changed{}, fmt.Errorf("%w: resource record: %w", record.ErrCorrupt, err)
		}
	}
	st, err := next(before, rec.exists())
	if err != nil {
		return Changed{}, err
	}
	if !c.Condition.holds(rec) {
		return Changed{}, record.ErrPrecondition
	}
	e, differs := c.event(before, rec.exists(), st)
	if !differs && c.Action == "" {
		return Changed{Resource: Resource{Kind: c.Kind, ID: c.ID, Event: rec.eventID(), JSON: rec.json}}, nil
	}
	to := resourceRecord{removed: st.remove, json: rec.json}
	if !st.remove {
		if to.json, err = encodeSnapshot(st.after); err != nil {
			return Changed{}, err
		}
	}
	d, err := newDraft(e, to.json)
	if err != nil {
		return Changed{}, err
	}
	return l.commitChange(ctx, c, rec, to, d)
}

// event returns the event of a step, and false if the step records none.
func (c ResourceChange) event(before snapshot.Value, exists bool, st step) (*NewEvent, bool) {
	e := &NewEvent{Owner: c.Owner, Resource: c.ID, Source: c.Source, Location: c.Location, Object: st.after}
	action, differs := st.action, true
	switch {
	case st.remove:
	case !exists:
		action = "created"
	default:
		var previous snapshot.Value
		if previous, differs = snapshot.Previous(before, st.after); differs {
			e.Previous = previous
		}
	}
	if c.Action != "" {
		action = c.Action
	}
	e.Type = c.Kind + "." + action
	return e, differs
}

// open checks within tx that a change may be recorded into the account.
func (l *Log) open(tx kv.Txn, c ResourceChange) error {
	if c.Live != nil {
		return c.Live(tx)
	}
	return l.ensureAccount(tx, c.Owner)
}

// commitChange sets a resource's new state and records the event, unless another
// change came first.
func (l *Log) commitChange(ctx context.Context, c ResourceChange, from, to resourceRecord, d *draft) (Changed, error) {
	tail := secret.NewTail(l.random)
	var position record.Position
	charged := c.Owner
	if c.Platform {
		charged = ""
	}
	err := l.budget.Update(l.naming(ctx, c.Owner, d.typ, c.ID), l.db, charged, func(tx kv.Txn) error {
		if err := l.open(tx, c); err != nil {
			return err
		}
		current, err := readResource(tx, c.Owner, c.Kind, c.ID)
		if err != nil {
			return err
		}
		if current.last != from.last {
			return errOvertaken
		}
		if position, err = l.appendEvent(tx, d, tail); err != nil {
			return err
		}
		record := to
		record.last = position
		return writeResource(tx, c.Owner, c.Kind, c.ID, record)
	})
	if err != nil {
		return Changed{}, err
	}
	l.committed(logChange{owner: c.Owner, recorded: 1})
	id := position.String()
	l.log.LogAttrs(ctx, slog.LevelDebug, "resource changed", slog.String("account_id", c.Owner), slog.String("event_id", id))
	return Changed{
		Resource: Resource{Kind: c.Kind, ID: c.ID, Event: id, JSON: to.json},
		Recorded: id, Created: !from.exists(),
	}, nil
}

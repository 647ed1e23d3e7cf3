package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
)

// ErrPrecondition says that a resource is not in the state that a change was
// made conditional on.
var ErrPrecondition = errors.New("precondition does not hold")

// ResourceChange is who changes which resource, and on what condition.
type ResourceChange struct {
	Owner, Kind, ID string
	// Action names what happened, for example autoupdate, and makes its event
	// be recorded even when nothing changed; "" leaves it to what did change.
	Action    string
	Source    string // who acts
	Location  string // from where
	Condition Condition
}

// Condition is the state that a resource must be in (RFC 9110 §13.1). The zero
// Condition always holds.
type Condition struct {
	Exists bool     // there must be one
	Absent bool     // there must be none
	OneOf  []string // its last event must be one of these, unless nil
	NoneOf []string // its last event must be none of these
}

// holds reports whether rec is in the state.
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
	Resource        // as it is now, or as it last was
	Recorded string // id of the event that was recorded, or "" when nothing changed
	Created  bool
}

// PutResource sets the whole snapshot of a resource, and records the event of
// it in the same transaction: created, updated, or none when nothing changed. A
// change with an Action needs the resource to exist. Errors: *snapshot.Error,
// ErrNotFound, ErrPrecondition, and ErrUnavailable when others kept changing
// the resource at the same time.
func (s *Store) PutResource(ctx context.Context, c ResourceChange, body snapshot.Value) (Changed, error) {
	if err := s.checkBody(ctx, c, body); err != nil {
		return Changed{}, err
	}
	today := s.Now().Format(time.DateOnly)
	return s.changeResource(ctx, c, func(before snapshot.Value, exists bool) (step, error) {
		if !exists && c.Action != "" {
			return step{}, ErrNotFound
		}
		return step{action: "updated", after: snapshot.Complete(c.Kind, c.ID, body, before, today)}, nil
	})
}

// PatchResource applies a merge patch (RFC 7396) to a resource, and records the
// event of it in the same transaction. Errors: as PutResource's.
func (s *Store) PatchResource(ctx context.Context, c ResourceChange, patch snapshot.Value) (Changed, error) {
	if err := s.checkBody(ctx, c, patch); err != nil {
		return Changed{}, err
	}
	today := s.Now().Format(time.DateOnly)
	return s.changeResource(ctx, c, func(before snapshot.Value, exists bool) (step, error) {
		if !exists {
			return step{}, ErrNotFound
		}
		after := snapshot.Complete(c.Kind, c.ID, snapshot.Merge(before, patch), before, today)
		return step{action: "updated", after: after}, nil
	})
}

// DeleteResource removes a resource, and records the event of it, with its last
// snapshot, in the same transaction. Errors: as PutResource's.
func (s *Store) DeleteResource(ctx context.Context, c ResourceChange) (Changed, error) {
	return s.changeResource(ctx, c, func(before snapshot.Value, exists bool) (step, error) {
		if !exists {
			return step{}, ErrNotFound
		}
		return step{action: "deleted", after: before, remove: true}, nil
	})
}

func (s *Store) checkBody(ctx context.Context, c ResourceChange, body snapshot.Value) error {
	if err := snapshot.Check(c.Kind, c.ID, body); err != nil {
		return err
	}
	return s.guard(ctx, c.Owner, c.Kind, body)
}

// step is what a change makes of a resource.
type step struct {
	action string // of the event, unless the caller names one
	after  snapshot.Value
	remove bool
}

// changeTries bounds how often a change is computed again because another one
// came first.
const changeTries = 8

// errOvertaken says that another change came first.
var errOvertaken = errors.New("resource has changed meanwhile")

// changeResource computes a change outside of any transaction, and commits it if
// the resource is still what it was computed from.
func (s *Store) changeResource(ctx context.Context, c ResourceChange, next func(before snapshot.Value, exists bool) (step, error)) (Changed, error) {
	for range changeTries {
		changed, err := s.tryChange(ctx, c, next)
		if errors.Is(err, errOvertaken) {
			continue
		}
		if err != nil {
			return Changed{}, fmt.Errorf("change resource: %w", err)
		}
		return changed, nil
	}
	return Changed{}, fmt.Errorf("change resource: %w: %w %d times", ErrUnavailable, errOvertaken, changeTries)
}

func (s *Store) tryChange(ctx context.Context, c ResourceChange, next func(before snapshot.Value, exists bool) (step, error)) (Changed, error) {
	rec, err := s.loadResource(ctx, c.Owner, c.Kind, c.ID)
	if err != nil {
		return Changed{}, err
	}
	before := snapshot.ObjectOf()
	if rec.exists() {
		if before, err = snapshot.Parse(rec.json, snapshot.DepthMax); err != nil {
			return Changed{}, fmt.Errorf("%w: resource record: %w", ErrCorrupt, err)
		}
	}
	st, err := next(before, rec.exists())
	if err != nil {
		return Changed{}, err
	}
	if !c.Condition.holds(rec) {
		return Changed{}, ErrPrecondition
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
	return s.commitChange(ctx, c, rec, to, d)
}

// event returns the event that tells of a step, and whether there is anything
// to tell.
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

// commitChange takes a resource from one state to the next, with the event of it,
// unless another change came first.
func (s *Store) commitChange(ctx context.Context, c ResourceChange, from, to resourceRecord, d *draft) (Changed, error) {
	now, tail := s.Now(), secret.NewTail()
	var place Position
	err := s.db.Update(ctx, func(tx kv.Txn) error {
		if err := s.ensureAccount(tx, c.Owner); err != nil {
			return err
		}
		current, err := readResource(tx, c.Owner, c.Kind, c.ID)
		if err != nil {
			return err
		}
		if current.last != from.last {
			return errOvertaken
		}
		if place, err = appendEvent(tx, d, now, tail); err != nil {
			return err
		}
		record := to
		record.last = place
		return writeResource(tx, c.Owner, c.Kind, c.ID, record)
	})
	if err != nil {
		return Changed{}, err
	}
	s.watches.tell(c.Owner, 1, nil)
	id := place.String()
	s.log.LogAttrs(ctx, slog.LevelDebug, "resource changed", slog.String("account_id", c.Owner), slog.String("event_id", id))
	return Changed{
		Resource: Resource{Kind: c.Kind, ID: c.ID, Event: id, JSON: to.json},
		Recorded: id, Created: !from.exists(),
	}, nil
}

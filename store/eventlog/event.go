package eventlog

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
)

// The size limits of names that appear in events and keys. None may contain NUL.
const (
	kindSizeMax   = 32
	actionSizeMax = 48
	idSizeMax     = 64
)

// IsEventType reports whether text has the form <resource_kind>.<action>.
func IsEventType(text string) bool {
	kind, action, found := strings.Cut(text, ".")
	return found && IsKind(kind) && IsAction(action)
}

// KindRule completes a sentence that begins with the name of the field.
const KindRule = "must have 1 to 32 characters from a-z, 0-9 and _, and start with a letter"

// IsKind reports whether text has the form of a resource kind; see [KindRule].
func IsKind(text string) bool { return record.IsWord(text, kindSizeMax) }

// IsAction reports whether text has the form of an action.
func IsAction(text string) bool { return record.IsWord(text, actionSizeMax) }

// IsID reports whether text has the form of a resource id or a foreign event id.
func IsID(text string) bool { return record.IsTag(text, idSizeMax) }

// appendEvent records d at the end of its account's log within tx and returns its
// position. Positions only grow: max(now, the last one + 1), decided under the
// account's head, so that no event appears before a position that a reader has passed.
// The time is taken here, in the committer's turn: see [Log.Settle].
func (l *Log) appendEvent(tx kv.Txn, d *draft, tail [8]byte) (record.Position, error) {
	h, err := headToExtend(tx, d.owner)
	if err != nil {
		return record.Position{}, err
	}
	h.advance(h.last.Next(l.now(), tail), l.segmentEvents)
	if err := countEvent(tx, d.owner, d.typ, h.last); err != nil {
		return record.Position{}, err
	}
	arena := eventArena{key: make([]byte, 0, 96), value: make([]byte, 0, len(d.rest)+96)}
	if err := arena.write(tx, d, h.Segments.of(h.last), h.last, h.last.String()); err != nil {
		return record.Position{}, err
	}
	if err := l.enterFeed(tx, &arena, d.owner, h, nil, h.last); err != nil {
		return record.Position{}, err
	}
	return h.last, writeEventHead(tx, d.owner, h)
}

// naming names to [kv.Naming] what a new event reads.
func (l *Log) naming(ctx context.Context, owner, typ, resource string) context.Context {
	if l.others.engine == nil {
		return ctx
	}
	return kv.Naming(ctx, func() [][]byte {
		return [][]byte{record.AccountKey(owner), record.EventHeadKey(owner), record.KnownTypesKey(owner).Str(typ),
			record.ResourceKey(owner, kindOf(typ), resource), feedHeadKey}
	})
}

// RecordEvent records one event now. It also sets the event's resource, or removes it
// when the action is deleted, and creates the account if needed. What also writes is in the
// same Update. It returns the event as JSON. Errors: *InvalidError, *snapshot.Error, and those
// of also.
func (l *Log) RecordEvent(ctx context.Context, e NewEvent, also ...func(kv.Txn) error) ([]byte, error) {
	if err := record.CheckAccountID(e.Owner); err != nil {
		return nil, err
	}
	if err := errors.Join(l.checkEvent(ctx, &e), l.CheckTypes(ctx, e.Owner, e.Type)); err != nil {
		return nil, err
	}
	object, err := encodeSnapshot(e.Object)
	if err != nil {
		return nil, err
	}
	d, err := newDraft(&e, object)
	if err != nil {
		return nil, err
	}
	kind, action, _ := strings.Cut(e.Type, ".")
	state := resourceRecord{removed: action == "deleted", json: object}
	tail := secret.NewTail(l.random)
	var wire []byte
	err = l.db.Update(l.naming(ctx, e.Owner, e.Type, e.Resource), func(tx kv.Txn) error {
		if err := l.ensureAccount(tx, e.Owner); err != nil {
			return err
		}
		p, err := l.appendEvent(tx, d, tail)
		if err != nil {
			return err
		}
		wire = d.appendWire(nil, p.String(), p.Millis()/1000)
		for _, write := range also {
			if err := write(tx); err != nil {
				return err
			}
		}
		if hasNoSnapshot(kind) {
			return nil
		}
		state := state
		state.last = p
		return writeResource(tx, e.Owner, kind, e.Resource, state)
	})
	if err != nil {
		return nil, fmt.Errorf("record event: %w", err)
	}
	l.committed(logChange{owner: e.Owner, recorded: 1})
	return wire, nil
}

// Unrecorded returns an event with the current time that is in no log, as JSON.
func (l *Log) Unrecorded(e NewEvent) (p record.Position, wire []byte, err error) {
	object, err := encodeSnapshot(e.Object)
	if err != nil {
		return p, nil, err
	}
	d, err := newDraft(&e, object)
	if err != nil {
		return p, nil, err
	}
	p = record.NewPosition(l.now().UnixMilli(), 0, secret.NewTail(l.random))
	return p, d.appendWire(nil, p.String(), p.Millis()/1000), nil
}

// labelSizeMax bounds source and location in bytes; 80 characters of any script fit.
const labelSizeMax = 320

// checkEvent checks a caller's event against the specification and normalizes its
// snapshot.
func (l *Log) checkEvent(ctx context.Context, e *NewEvent) error {
	if err := checkLabels(e); err != nil {
		return err
	}
	kind, _, _ := strings.Cut(e.Type, ".")
	if err := completeObject(e, kind); err != nil {
		return err
	}
	if err := l.guard(ctx, e.Owner, kind, e.Object); err != nil {
		return underEventData(err, "object")
	}
	if err := l.guard(ctx, e.Owner, kind, e.Previous); err != nil {
		return underEventData(err, "previousAttributes")
	}
	return nil
}

// notText completes a sentence about a text of the wrong form; see [snapshot.Value.NotThis].
func notText(text string) string { return snapshot.Text(text).NotThis() }

func checkLabels(e *NewEvent) error {
	if !IsEventType(e.Type) {
		return record.Invalid("type", "use a type such as customer.updated", "type must be <resource_kind>.<action> in lower-case letters, digits and _%s", notText(e.Type))
	}
	if !IsID(e.Resource) {
		return record.Invalid("resource", "use an id such as cus_4tn8k2w1", "resource must have 1 to 64 characters of A-Z, a-z, 0-9, _ and -%s", notText(e.Resource))
	}
	if len(e.Source) > labelSizeMax {
		return record.Invalid("source", "give a short name", "source has more than %d bytes", labelSizeMax)
	}
	if len(e.Location) > labelSizeMax {
		return record.Invalid("location", "give a short name", "location has more than %d bytes", labelSizeMax)
	}
	return nil
}

// completeObject checks the id and object of a snapshot that came with its event and
// puts them first. Other members stay as given: history is recorded as it was, and the
// documented fields bind only changes made here.
func completeObject(e *NewEvent, kind string) error {
	if e.Object.Kind() != snapshot.Object {
		return record.Invalid("eventData.object", "give the resource as it was after the change", "eventData.object must be an object%s", e.Object.NotThis())
	}
	object := e.Object
	if !hasNoSnapshot(kind) { // an endpoint's nulls stay, or an export would not be what it was
		object = object.WithoutNulls()
	}
	given := object.Members()
	if len(given) >= 2 && isText(given[0], "id", e.Resource) && isText(given[1], "object", kind) {
		e.Object = object // already in order
		return nil
	}
	members := make([]snapshot.Member, 2, len(given)+2)
	members[0] = snapshot.Member{Name: "id", Value: snapshot.Text(e.Resource)}
	members[1] = snapshot.Member{Name: "object", Value: snapshot.Text(kind)}
	for _, m := range given {
		want := snapshot.Value{}
		switch m.Name {
		case "id":
			want = members[0].Value
		case "object":
			want = members[1].Value
		default:
			members = append(members, m)
			continue
		}
		if !m.Value.Equal(want) {
			return record.Invalid("eventData.object."+m.Name, "leave it out or make them agree", "eventData.object.%s does not agree with the event: it must be %s%s", m.Name, want, m.Value.NotThis())
		}
	}
	e.Object = snapshot.ObjectOf(members...)
	return nil
}

// isText reports whether m has that name and is that text.
func isText(m snapshot.Member, name, text string) bool {
	return m.Name == name && m.Value.Kind() == snapshot.String && m.Value.Text() == text
}

// encodeSnapshot returns the stored form of a snapshot. Errors: *snapshot.Error with
// TooLarge.
func encodeSnapshot(v snapshot.Value) ([]byte, error) {
	return appendSnapshot(make([]byte, 0, 512), v)
}

// appendSnapshot is encodeSnapshot into existing memory.
func appendSnapshot(b []byte, v snapshot.Value) ([]byte, error) {
	before := len(b)
	b = v.Append(b)
	if size := len(b) - before; size > snapshot.SizeMax {
		return nil, &snapshot.Error{Fault: snapshot.TooLarge, Reason: fmt.Sprintf("the snapshot has %d bytes, more than the limit of %d", size, snapshot.SizeMax)}
	}
	return b, nil
}

// underEventData turns a path within a snapshot into one within its event.
func underEventData(err error, member string) error {
	var e *snapshot.Error
	if !errors.As(err, &e) {
		return err
	}
	within := *e
	within.Path = "eventData." + member + "." + e.Path
	within.Reason = strings.Replace(e.Reason, e.Path, within.Path, 1)
	return &within
}

// FindEvent appends the owner's event with that id to dst as JSON. Errors: ErrExpired
// for every native id older than the retention period, whether or not it ever existed;
// ErrNotFound for every other id that is not the owner's, for whatever reason.
func (l *Log) FindEvent(ctx context.Context, owner, id string, dst []byte) ([]byte, error) {
	if !IsID(id) {
		return dst, fmt.Errorf("find event: %w", record.ErrNotFound)
	}
	p, native := record.ParsePosition(id)
	horizon := l.horizon()
	if native && p.Compare(horizon) < 0 {
		return dst, fmt.Errorf("find event: %w", record.ErrExpired)
	}
	err := l.db.View(ctx, func(r kv.Reader) (err error) {
		if !native {
			if p, err = readForeign(r, owner, id); err != nil {
				return err
			}
			// A foreign id carries no time. An event older than the horizon is not
			// found, whether or not it has been removed yet.
			if p.Compare(horizon) < 0 {
				return record.ErrNotFound
			}
		}
		head, err := ReadHead(r, owner)
		if err != nil {
			return err
		}
		l.guesses.note(owner, head)
		v, err := r.Get(eventsOf(owner).in(head.Segments.of(p)).Position(p))
		if err != nil {
			return err
		}
		wire, err := wireOf(v)
		// An imported event has its own position and is found only by its own id, so
		// that every event has one address.
		if err == nil && !hasID(wire, id) {
			return record.ErrNotFound
		}
		dst = append(dst, wire...)
		return err
	})
	if err != nil {
		return dst, fmt.Errorf("find event: %w", record.Found(err))
	}
	return dst, nil
}

// hasID reports whether an event's JSON has that id.
func hasID(wire []byte, id string) bool {
	rest := wire[len(eventOpening):]
	return len(rest) > len(id) && string(rest[:len(id)]) == id && rest[len(id)] == '"'
}

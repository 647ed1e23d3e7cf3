package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
)

// The sizes of names that appear in events, and so in keys. None lets a NUL in.
const (
	kindSizeMax   = 32
	actionSizeMax = 48
	idSizeMax     = 64
)

// IsEventType reports whether text has the form of an event type,
// <resource_kind>.<action>.
func IsEventType(text string) bool {
	kind, action, found := strings.Cut(text, ".")
	return found && IsKind(kind) && IsAction(action)
}

// IsKind reports whether text has the form of a kind of resource.
func IsKind(text string) bool { return isWord(text, kindSizeMax) }

// IsAction reports whether text may name what happened to a resource.
func IsAction(text string) bool { return isWord(text, actionSizeMax) }

// IsID reports whether text has the form of a resource's id, or of an event's
// that was given elsewhere.
func IsID(text string) bool { return isTag(text, idSizeMax) }

// appendEvent records d at the end of its account's log, within tx, and returns
// its place. Places only ever grow: max(now, the last one + 1), decided under
// the account's head, so that nobody who has read to some place can later find
// an event before it.
func appendEvent(tx kv.Txn, d *draft, now time.Time, tail [8]byte) (Position, error) {
	h, err := readEventHead(tx, d.owner)
	if err != nil {
		return Position{}, err
	}
	h.advance(h.last.next(now, tail))
	known, err := readKnownType(tx, d.owner, d.typ)
	if err != nil {
		return Position{}, err
	}
	known.count++
	known.last = h.last
	if err := writeKnownType(tx, d.owner, d.typ, known); err != nil {
		return Position{}, err
	}
	if err := writeEvent(tx, d, h.parts.of(h.last), h.last); err != nil {
		return Position{}, err
	}
	return h.last, writeEventHead(tx, d.owner, h)
}

// writeEvent stores an event in its part of the log, its covering copy under its
// type, and its mark under its resource.
func writeEvent(tx kv.Txn, d *draft, in part, p Position) error {
	room := eventRoom{key: make([]byte, 0, 96), value: make([]byte, 0, len(d.rest)+96)}
	return room.write(tx, d, in, p, p.String())
}

// RecordEvent records one event now, whose resource it also sets, or removes
// when its action is deleted. It returns the event as on the wire. The account
// is made when it does not exist. Errors: *InvalidError, *snapshot.Error.
func (s *Store) RecordEvent(ctx context.Context, e NewEvent) ([]byte, error) {
	if err := checkAccountID(e.Owner); err != nil {
		return nil, err
	}
	if err := s.checkEvent(ctx, &e); err != nil {
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
	now, tail := s.Now(), secret.NewTail()
	var wire []byte
	err = s.db.Update(ctx, func(tx kv.Txn) error {
		if err := s.ensureAccount(tx, e.Owner); err != nil {
			return err
		}
		p, err := appendEvent(tx, d, now, tail)
		if err != nil {
			return err
		}
		wire = d.appendWire(nil, p.String(), p.Millis()/1000)
		state := state
		state.last = p
		return writeResource(tx, e.Owner, kind, e.Resource, state)
	})
	if err != nil {
		return nil, fmt.Errorf("record event: %w", err)
	}
	s.watches.tell(e.Owner, 1, nil)
	return wire, nil
}

// labelSizeMax bounds source and location, in bytes: a name of 80 characters of
// any script fits.
const labelSizeMax = 320

// checkEvent holds an event that somebody composed to the specification's form,
// and puts its snapshot in order.
func (s *Store) checkEvent(ctx context.Context, e *NewEvent) error {
	if err := checkLabels(e); err != nil {
		return err
	}
	kind, _, _ := strings.Cut(e.Type, ".")
	if err := completeObject(e, kind); err != nil {
		return err
	}
	if err := s.guard(ctx, e.Owner, kind, e.Object); err != nil {
		return underEventData(err, "object")
	}
	if err := s.guard(ctx, e.Owner, kind, e.Previous); err != nil {
		return underEventData(err, "previousAttributes")
	}
	return nil
}

func checkLabels(e *NewEvent) error {
	if !IsEventType(e.Type) {
		return invalid("type", "use a type such as customer.updated", "type must be <resource_kind>.<action> in lower-case letters, digits and _")
	}
	if !IsID(e.Resource) {
		return invalid("resource", "use an id such as cus_4tn8k2w1", "resource must have 1 to 64 characters of A-Z, a-z, 0-9, _ and -")
	}
	if len(e.Source) > labelSizeMax {
		return invalid("source", "give a short name", "source has more than %d bytes", labelSizeMax)
	}
	if len(e.Location) > labelSizeMax {
		return invalid("location", "give a short name", "location has more than %d bytes", labelSizeMax)
	}
	return nil
}

// completeObject checks the id and object of a snapshot that came with its
// event, and puts them first. Its other members are kept as they were given:
// history is recorded as it was, and the documented fields bind only changes
// that are made here.
func completeObject(e *NewEvent, kind string) error {
	if e.Object.Sort() != snapshot.Object {
		return invalid("eventData.object", "give the resource as it was after the change", "eventData.object must be an object, not %s", e.Object.Sort())
	}
	object := e.Object.WithoutNulls()
	given := object.Members()
	if len(given) >= 2 && isText(given[0], "id", e.Resource) && isText(given[1], "object", kind) {
		e.Object = object // in order already
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
			return invalid("eventData.object."+m.Name, "leave it out or make them agree", "eventData.object.%s does not agree with the event: it must be %s", m.Name, want)
		}
	}
	e.Object = snapshot.ObjectOf(members...)
	return nil
}

// isText reports whether a member has that name and that text.
func isText(m snapshot.Member, name, text string) bool {
	return m.Name == name && m.Value.Sort() == snapshot.String && m.Value.Text() == text
}

// encodeSnapshot returns a snapshot as it is kept. Errors: *snapshot.Error with
// TooLarge.
func encodeSnapshot(v snapshot.Value) ([]byte, error) {
	return appendSnapshot(make([]byte, 0, 512), v)
}

// appendSnapshot is encodeSnapshot in memory that is there already.
func appendSnapshot(b []byte, v snapshot.Value) ([]byte, error) {
	before := len(b)
	b = v.Append(b)
	if size := len(b) - before; size > snapshot.SizeMax {
		return nil, &snapshot.Error{Fault: snapshot.TooLarge, Reason: fmt.Sprintf("the snapshot has %d bytes, more than %d", size, snapshot.SizeMax)}
	}
	return b, nil
}

// underEventData makes a path within a snapshot one within its event.
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

// FindEvent appends the event with that id to dst, as on the wire, if it is the
// owner's. Errors: ErrExpired for every native id that says it is older than
// events are kept, whosever it is and whether it ever was one; ErrNotFound for
// every other id that is not the owner's, whatever the reason.
func (s *Store) FindEvent(ctx context.Context, owner, id string, dst []byte) ([]byte, error) {
	if !IsID(id) {
		return dst, fmt.Errorf("find event: %w", ErrNotFound)
	}
	p, native := ParsePosition(id)
	horizon := s.horizon()
	if native && p.Compare(horizon) < 0 {
		return dst, fmt.Errorf("find event: %w", ErrExpired)
	}
	err := s.db.View(ctx, func(r kv.Reader) (err error) {
		if !native {
			if p, err = readForeign(r, owner, id); err != nil {
				return err
			}
			// A foreign id does not tell its age. What it once named is not found
			// from the horizon on, whether it has been removed already or not.
			if p.Compare(horizon) < 0 {
				return ErrNotFound
			}
		}
		head, err := readEventHead(r, owner)
		if err != nil {
			return err
		}
		v, err := r.Get(eventsOf(owner).in(head.parts.of(p)).position(p))
		if err != nil {
			return err
		}
		wire, err := wireOf(v)
		// An imported event lies at a place of its own and answers to its own id
		// only, so that an event has one address.
		if err == nil && !hasID(wire, id) {
			return ErrNotFound
		}
		dst = append(dst, wire...)
		return err
	})
	if err != nil {
		return dst, fmt.Errorf("find event: %w", found(err))
	}
	return dst, nil
}

// hasID reports whether an event on the wire has that id.
func hasID(wire []byte, id string) bool {
	rest := wire[len(eventOpening):]
	return len(rest) > len(id) && string(rest[:len(id)]) == id && rest[len(id)] == '"'
}

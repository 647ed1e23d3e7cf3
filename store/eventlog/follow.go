package eventlog

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// Followed is an event for a reader that goes through a log in order.
type Followed struct {
	Position record.Position
	ID       string // a foreign one differs from the position
	Type     string
	Wire     []byte // the JSON that callers get
}

// Stretch is what one call of [Log.Follow] has read.
type Stretch struct {
	Events []Followed
	Passed record.Position // the reader continues here
	More   bool            // the log continues after Passed
}

// The bounds of one call of Follow.
const (
	followedRowsMax  = 10_000
	followedBytesMax = 1 << 20 // of the events returned
)

// Follow returns up to limit events of a log, or of the feed, after a position whose type matches one of the
// patterns, oldest first. It reads the log row by row: unlike a page of ListEvents, its
// work does not depend on how many types there are. Errors: *CursorError if retention
// has removed events after the position.
func (l *Log) Follow(ctx context.Context, owner string, types []string, after record.Position, limit int) (s Stretch, err error) {
	err = l.db.View(ctx, func(r kv.Reader) error {
		s, err = follow(r, owner, types, after, record.LastPosition, limit, followedRowsMax)
		return err
	})
	if err != nil {
		return Stretch{}, fmt.Errorf("follow events: %w", err)
	}
	return s, nil
}

// FollowUntil is Follow up to a last position.
func (l *Log) FollowUntil(ctx context.Context, owner string, types []string, after, last record.Position, limit int) (s Stretch, err error) {
	err = l.db.View(ctx, func(r kv.Reader) error {
		s, err = follow(r, owner, types, after, last, limit, followedRowsMax)
		return err
	})
	if err != nil {
		return Stretch{}, fmt.Errorf("follow events: %w", err)
	}
	return s, nil
}

// FollowIn is FollowUntil within a transaction.
func FollowIn(r kv.Reader, owner string, types []string, after, last record.Position, limit int) (Stretch, error) {
	return follow(r, owner, types, after, last, limit, followedRowsMax)
}

func follow(r kv.Reader, owner string, types []string, after, last record.Position, limit, rowsMax int) (s Stretch, err error) {
	if owner == AllAccounts {
		return followFeed(r, types, after, last, limit, rowsMax)
	}
	head, err := ReadHead(r, owner)
	if err != nil {
		return s, err
	}
	if after.Compare(head.removed) < 0 {
		return s, &CursorError{Param: "after", Oldest: oldestEvent(r, owner, head), Resume: head.removed}
	}
	if last.Compare(head.last) > 0 {
		last = head.last
	}
	s.Passed = after
	rest := stretch{list: eventsOf(owner), lo: through(after), hi: through(last), limit: rowsMax}
	if slices.Contains(types, anyType) {
		rest.limit = min(rest.limit, limit+1)
	}
	rows, size, searched := 0, 0, 0
	for p, v := range rest.rows(r, head.Segments) {
		rows++
		searched += len(v)
		typ, err := typeOf(v)
		if err != nil {
			return s, err
		}
		if MatchesTypes(types, string(typ)) {
			if size += len(v); len(s.Events) == limit || len(s.Events) > 0 && size > followedBytesMax {
				s.More = true
				return s, nil
			}
			e, err := followed(p, v)
			if err != nil {
				return s, err
			}
			s.Events = append(s.Events, e)
		}
		if s.Passed = p; searched > searchedBytesMax {
			s.More = p.Compare(last) < 0
			return s, nil
		}
	}
	s.More = rows == rest.limit
	if !s.More {
		s.Passed = record.LaterOf(after, last)
	}
	return s, nil
}

// MatchesTypes reports whether an event type matches one of the patterns.
func MatchesTypes(patterns []string, typ string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return matchesType(pattern, typ) })
}

func followed(p record.Position, v []byte) (Followed, error) {
	wire, err := wireOf(v)
	if err != nil {
		return Followed{}, err
	}
	names, err := namesOf(wire)
	if err != nil {
		return Followed{}, err
	}
	return Followed{Position: p, ID: names.id, Type: names.typ, Wire: bytes.Clone(wire)}, nil
}

// EventsAt returns the owner's events at the positions that still exist, in their order.
func (l *Log) EventsAt(ctx context.Context, owner string, positions []record.Position) (events []Followed, err error) {
	err = l.db.View(ctx, func(r kv.Reader) error {
		events = events[:0]
		keys, err := eventKeys(r, owner, positions)
		if err != nil {
			return err
		}
		for i, v := range r.GetMany(keys) {
			e, err := followed(positions[i], v)
			if err != nil {
				return err
			}
			events = append(events, e)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("find events: %w", err)
	}
	return events, nil
}

// eventKeys returns the keys of the events at positions.
func eventKeys(r kv.Reader, owner string, positions []record.Position) ([][]byte, error) {
	if owner == AllAccounts {
		return feedKeys(r, positions)
	}
	head, err := ReadHead(r, owner)
	keys := make([][]byte, len(positions))
	for i, p := range positions {
		keys[i] = eventsOf(owner).in(head.Segments.of(p)).Position(p)
	}
	return keys, err
}

// PositionOf returns the position of an event id of the owner, or reads one in the feed. A
// native id is one whether or not it has an event. Errors: ErrNotFound.
func PositionOf(r kv.Reader, owner, id string) (record.Position, error) {
	if owner == AllAccounts {
		if p, ok := record.ParseFeedPosition(id); ok {
			return p, nil
		}
		return record.Position{}, record.ErrNotFound
	}
	if p, native := record.ParsePosition(id); native {
		return p, nil
	}
	if !IsID(id) {
		return record.Position{}, record.ErrNotFound
	}
	p, err := readForeign(r, owner, id)
	return p, record.Found(err)
}

// Extent says how far a log reaches.
type Extent struct {
	Last    record.Position // of the newest event
	Removed record.Position // retention has removed events up to here, or zero
	// Oldest looks for the oldest event left, and returns Last if there is none. After a purge it
	// passes over what the engine has not dropped yet.
	Oldest func() record.Position
}

// ReadExtent returns how far the owner's log reaches. Its Oldest reads with r.
func ReadExtent(r kv.Reader, owner string) (Extent, error) {
	if owner == AllAccounts {
		h, err := readFeedHead(r)
		return Extent{h.last, h.removed, func() record.Position { return h.oldest(r) }}, err
	}
	head, err := ReadHead(r, owner)
	if err != nil {
		return Extent{}, err
	}
	return Extent{head.last, head.removed, func() record.Position { return oldestEvent(r, owner, head) }}, nil
}

// hasNoSnapshot reports whether the resources of a kind are kept elsewhere: package webhook
// keeps the endpoints. Events that others record about them are history and create none.
func hasNoSnapshot(kind string) bool { return kind == "webhook_endpoint" }

// AppendEvent records an event within tx. Its resource gets no snapshot: the caller
// keeps it in a record of its own. Call Recorded after the commit. tail was drawn before
// the transaction.
func (l *Log) AppendEvent(tx kv.Txn, e NewEvent, tail [8]byte) (record.Position, error) {
	if err := l.ensureAccount(tx, e.Owner); err != nil {
		return record.Position{}, err
	}
	object, err := encodeSnapshot(e.Object)
	if err != nil {
		return record.Position{}, err
	}
	d, err := newDraft(&e, object)
	if err != nil {
		return record.Position{}, err
	}
	return l.appendEvent(tx, d, tail)
}

// Recorded wakes live readers after AppendEvent has recorded an event of an account.
func (l *Log) Recorded(owner string) { l.committed(logChange{owner: owner, recorded: 1}) }

// CheckFeed returns ErrFeedOff if no feed is kept.
func CheckFeed(r kv.Reader) error {
	_, err := newFeedReader(r)
	return err
}

// HasEvents reports whether Follow would find an event after a position, other than the
// one at except. If it would have to read more rows than rowsMax, it reports true.
func (l *Log) HasEvents(r kv.Reader, owner string, types []string, after, except record.Position, rowsMax int) bool {
	s, err := follow(r, owner, types, after, record.LastPosition, 2, rowsMax)
	s.Events = slices.DeleteFunc(s.Events, func(e Followed) bool { return e.Position == except })
	return err != nil || s.More || len(s.Events) > 0
}

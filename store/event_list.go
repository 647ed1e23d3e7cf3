package store

import (
	"bytes"
	"context"
	"fmt"

	"tollhouse/store/kv"
)

// CreatedAtMax is the greatest createdAt, in seconds, that a filter can name.
const CreatedAtMax = 99_999_999_999

// Cursor is a place in a list of events that a caller names: an event's id, or
// the head of the log. The zero Cursor names none.
type Cursor struct {
	latest   bool
	foreign  string
	position *Position
}

// LatestCursor is the place of the newest event there is when it is used.
func LatestCursor() Cursor { return Cursor{latest: true} }

// ParseCursor reads an event's id. A native one is a place whether or not an
// event stands there; another is looked up when the cursor is used.
func ParseCursor(text string) (Cursor, bool) {
	if p, ok := ParsePosition(text); ok {
		return Cursor{position: &p}, true
	}
	return Cursor{foreign: text}, IsID(text)
}

// CursorAt is the place of a position.
func CursorAt(p Position) Cursor { return Cursor{position: &p} }

// IsZero reports whether c names no place.
func (c Cursor) IsZero() bool { return c == Cursor{} }

// EventFilter says which events of an account are wanted, and which page.
type EventFilter struct {
	// Types are the types wanted; customer.*, *.created and * stand for all that
	// match. None is all.
	Types         []string
	Resources     []string // of any of these resources; none is of all
	From, To      int64    // the least and the greatest createdAt, in seconds
	After, Before Cursor   // at most one of them
	Ascending     bool     // oldest first; else newest first
	Limit         int      // at most so many; 1 at least
	// Row appends a row to a page; nil appends the event as on the wire, with
	// commas between rows.
	Row func(dst []byte, p Position, wire []byte) []byte
}

// EventPage is one page of a list of events.
type EventPage struct {
	Data     []byte   // the rows, appended to what ListEvents was given
	Count    int      // of the rows in Data
	More     bool     // whether there are more in the direction of the page
	Next     Position // to go on after this page
	Previous Position // to go back before it
	Cursor   Position // that was named, or the zero Position
	Version  LogVersion
	Unseen   []UnseenType
}

// LogVersion changes whenever a page of the account's events may: with a new
// event, with a purge, and with any write below the newest event.
type LogVersion struct {
	Head       Position // of the newest event
	Generation uint64
}

// EventsVersion returns the version of an account's log.
func (s *Store) EventsVersion(ctx context.Context, owner string) (LogVersion, error) {
	var h eventHead
	err := s.db.View(ctx, func(r kv.Reader) (err error) {
		h, err = readEventHead(r, owner)
		return err
	})
	if err != nil {
		return LogVersion{}, fmt.Errorf("version of events: %w", err)
	}
	return LogVersion{h.last, h.generation}, nil
}

// UnseenType is a type, or a pattern of types, that was asked for and that no
// event of the account has.
type UnseenType struct {
	Type    string
	Nearest string // one that some event has and that may be meant, or ""
}

// CursorError says that a cursor cannot be used.
type CursorError struct {
	Param  string   // after or before
	Oldest Position // when not zero: retention removed events behind the cursor, and this is the oldest left
	Resume Position // then the place to go on from with what is left
}

func (e *CursorError) Error() string {
	if e.Oldest.IsZero() {
		return e.Param + ": no event has this id"
	}
	return e.Param + ": the events there have been removed"
}

// pageSizeMax bounds the bytes of a page, which ends early when its events are
// large: a thousand of the usual size are under one MiB.
const pageSizeMax = 4 << 20

// ListEvents returns one page of an account's events, read from one snapshot,
// appended to dst. Errors: *CursorError.
func (s *Store) ListEvents(ctx context.Context, owner string, f EventFilter, dst []byte) (EventPage, error) {
	var page EventPage
	err := s.db.View(ctx, func(r kv.Reader) error {
		l := eventList{r: r, owner: owner, filter: f, recent: &s.types}
		if err := l.find(); err != nil {
			return err
		}
		var err error
		page, err = l.read(dst)
		return err
	})
	if err != nil {
		return EventPage{Data: dst}, fmt.Errorf("list events: %w", err)
	}
	return page, nil
}

// eventList reads one page within one transaction.
type eventList struct {
	r      kv.Reader
	owner  string
	filter EventFilter
	recent *recentTypes

	head    eventHead
	cursor  *Position // the place that was named, if any
	lo, hi  []byte    // the bounds of places, as in a stretch
	reverse bool      // whether rows are read from hi down
	flip    bool      // whether rows are read against the order that was asked for
	unseen  []string  // types asked for that no event has
	err     error     // the fault that ended the rows early
	stopped *Position // where the rows ended early, since too many had been passed over
}

// find turns the filter into bounds of keys and a direction.
func (l *eventList) find() (err error) {
	if l.head, err = readEventHead(l.r, l.owner); err != nil {
		return err
	}
	f := l.filter
	from, to := firstPosition(f.From), firstPosition(f.To+1)
	l.lo, l.hi, l.reverse = from[:], to[:], !f.Ascending
	if err := l.resolve(); err != nil || l.cursor == nil {
		return err
	}
	at := l.cursor[:]
	forward := f.Ascending // whether the rows wanted lie above the cursor
	if !f.Before.IsZero() {
		// The rows just before a place are found from that place outwards.
		forward, l.flip, l.reverse = !forward, true, !l.reverse
	}
	if forward {
		l.lo = maxBytes(l.lo, append(bytes.Clone(at), 0)) // the least key past the cursor
	} else if bytes.Compare(at, l.hi) < 0 {
		l.hi = at
	}
	return nil
}

// resolve finds the place that the cursor names.
func (l *eventList) resolve() error {
	c, param := l.filter.After, "after"
	if c.IsZero() {
		c, param = l.filter.Before, "before"
	}
	switch {
	case c.IsZero():
		return nil
	case c.latest:
		l.cursor = &l.head.last
	case c.position != nil:
		l.cursor = c.position
	default:
		p, err := readForeign(l.r, l.owner, c.foreign)
		if isAbsent(err) {
			return &CursorError{Param: param}
		}
		if err != nil {
			return err
		}
		l.cursor = &p
	}
	if param == "after" && l.filter.Ascending && l.cursor.Compare(l.head.removed) < 0 {
		return &CursorError{Param: param, Oldest: oldestEvent(l.r, l.owner, l.head), Resume: l.head.removed}
	}
	return nil
}

func (l *eventList) version() LogVersion { return LogVersion{l.head.last, l.head.generation} }

func maxBytes(a, b []byte) []byte {
	if bytes.Compare(a, b) >= 0 {
		return a
	}
	return b
}

// read makes the page.
func (l *eventList) read(dst []byte) (EventPage, error) {
	page := EventPage{Data: dst, Version: l.version()}
	if l.cursor != nil {
		page.Cursor = *l.cursor
	}
	rows, err := l.rows()
	if err != nil {
		return page, err
	}
	start := len(dst)
	var ends []int // of the rows, for a page that is read backwards
	var first, last Position
	for p, v := range rows {
		if page.Count == l.filter.Limit {
			page.More = true
			break
		}
		wire, err := wireOf(v)
		if err != nil {
			return page, err
		}
		if page.Count == 0 {
			first = p
		} else if len(page.Data)-start+len(wire) > pageSizeMax {
			page.More = true
			break
		}
		page.Data = l.appendRow(page.Data, page.Count, p, wire)
		page.Count++
		last = p
		if l.flip {
			ends = append(ends, len(page.Data)-start)
		}
	}
	switch {
	case l.err != nil:
		return page, l.err
	case l.stopped != nil:
		page.More, last = true, *l.stopped
		if page.Count == 0 {
			first = last
		}
	case page.Count == 0:
		last = l.placeOfEmpty()
		first = last
	}
	if l.flip {
		l.flipRows(page.Data[start:], ends)
		first, last = last, first
	}
	page.Next, page.Previous = last, first
	page.Unseen = l.notices()
	return page, nil
}

func (l *eventList) appendRow(dst []byte, row int, p Position, wire []byte) []byte {
	if l.filter.Row != nil {
		return l.filter.Row(dst, p, wire)
	}
	if row > 0 {
		dst = append(dst, ',')
	}
	return append(dst, wire...)
}

// placeOfEmpty is where to go on after a page without rows: where everything
// there is has been seen, so that a poller neither loses nor repeats.
func (l *eventList) placeOfEmpty() Position {
	switch {
	case l.cursor == nil:
		return l.head.last
	case l.filter.Ascending && l.cursor.Compare(l.head.last) < 0:
		return l.head.last
	}
	return *l.cursor
}

// flipRows puts the rows of a page, which end at ends, into the opposite order.
func (l *eventList) flipRows(rows []byte, ends []int) {
	comma := 0 // its length, where there is one between rows
	if l.filter.Row == nil {
		comma = 1
	}
	flipped := make([]byte, 0, len(rows))
	for i := len(ends) - 1; i >= 0; i-- {
		from := 0
		if i > 0 {
			from = ends[i-1] + comma
		}
		flipped = append(flipped, rows[from:ends[i]]...)
		if i > 0 {
			flipped = append(flipped, ","[:comma]...)
		}
	}
	copy(rows, flipped)
}

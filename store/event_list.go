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

// IsZero reports whether c names no place.
func (c Cursor) IsZero() bool { return c == Cursor{} }

// EventFilter says which events of an account are wanted, and which page.
type EventFilter struct {
	Types         []string // of any of these types; none is of all
	From, To      int64    // the least and the greatest createdAt, in seconds
	After, Before Cursor   // at most one of them
	Ascending     bool     // oldest first; else newest first
	Limit         int      // at most so many; 1 at least
}

// EventPage is one page of a list of events.
type EventPage struct {
	Data     []byte   // the events as on the wire, with commas between, appended to what ListEvents was given
	Count    int      // of the events in Data
	More     bool     // whether there are more in the direction of the page
	Next     Position // to go on after this page
	Previous Position // to go back before it
	Unseen   []UnseenType
}

// UnseenType is a type that was asked for and that no event of the account has.
type UnseenType struct {
	Type    string
	Nearest string // a type that some event has and that may be meant, or ""
}

// CursorError says that a cursor cannot be used.
type CursorError struct {
	Param  string   // after or before
	Oldest Position // when not zero: what lay at the cursor was removed, and this is the oldest left
}

func (e *CursorError) Error() string {
	if e.Oldest.IsZero() {
		return e.Param + ": no event has this id"
	}
	return e.Param + ": the events there have been removed"
}

// pageSizeMax bounds the bytes of a page, which ends early when its events are
// large: a thousand of the usual size are under one MiB.
const pageSizeMax = 8 << 20

// ListEvents returns one page of an account's events, read from one snapshot,
// appended to dst. Errors: *CursorError.
func (s *Store) ListEvents(ctx context.Context, owner string, f EventFilter, dst []byte) (EventPage, error) {
	var page EventPage
	err := s.db.View(ctx, func(r kv.Reader) error {
		l := eventList{r: r, owner: owner, filter: f}
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

	head    eventHead
	cursor  *Position // the place that was named, if any
	lo, hi  []byte    // what follows the prefix in the least key, and past the greatest
	reverse bool      // whether rows are read from hi down
	flip    bool      // whether rows are read against the order that was asked for
	unseen  []string  // types asked for that no event has
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
	if param == "after" && l.filter.Ascending && l.cursor.Compare(l.head.oldest) < 0 {
		return &CursorError{Param: param, Oldest: l.head.oldest}
	}
	return nil
}

func maxBytes(a, b []byte) []byte {
	if bytes.Compare(a, b) >= 0 {
		return a
	}
	return b
}

// read makes the page.
func (l *eventList) read(dst []byte) (EventPage, error) {
	page := EventPage{Data: dst}
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
		if page.Count > 0 {
			if len(page.Data)-start+len(wire) > pageSizeMax {
				page.More = true
				break
			}
			page.Data = append(page.Data, ',')
		} else {
			first = p
		}
		last = p
		page.Data = append(page.Data, wire...)
		page.Count++
		if l.flip {
			ends = append(ends, len(page.Data))
		}
	}
	if page.Count == 0 {
		page.Next = l.placeOfEmpty()
		page.Previous = page.Next
		if len(l.filter.Types) == 1 { // merged has looked already
			if _, err := l.known(l.filter.Types[0]); err != nil {
				return page, err
			}
		}
		page.Unseen = l.notices()
		return page, nil
	}
	if l.flip {
		flipRows(page.Data[start:], start, ends)
		first, last = last, first
	}
	page.Next, page.Previous = last, first
	page.Unseen = l.notices()
	return page, nil
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

// flipRows puts rows, which are separated by commas and end at ends (counted
// from start before the first), into the opposite order.
func flipRows(rows []byte, start int, ends []int) {
	flipped := make([]byte, 0, len(rows))
	for i := len(ends) - 1; i >= 0; i-- {
		from := 0
		if i > 0 {
			from = ends[i-1] - start + 1
		}
		flipped = append(flipped, rows[from:ends[i]-start]...)
		if i > 0 {
			flipped = append(flipped, ',')
		}
	}
	copy(rows, flipped)
}

package eventlog

import (
	"bytes"
	"context"
	"fmt"

	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// CreatedAtMax is the greatest createdAt of a filter, in seconds.
const CreatedAtMax = 99_999_999_999

// Cursor is a position that a caller names: an event's id, or the head of the log. The
// zero Cursor names none.
type Cursor struct {
	latest   bool
	start    bool // of the feed
	foreign  string
	position *record.Position
}

// LatestCursor is the position of the newest event at the time of use.
func LatestCursor() Cursor { return Cursor{latest: true} }

// ParseCursor reads an event id. A native id is a position whether or not it has an
// event; a foreign id is looked up when the cursor is used.
func ParseCursor(text string) (Cursor, bool) {
	if p, ok := record.ParsePosition(text); ok {
		return Cursor{position: &p}, true
	}
	return Cursor{foreign: text}, IsID(text)
}

// CursorAt returns the cursor of a position.
func CursorAt(p record.Position) Cursor { return Cursor{position: &p} }

// IsZero reports whether c names no position.
func (c Cursor) IsZero() bool { return c == Cursor{} }

// Native returns the position of c, or false if c is a foreign id, the head or none.
func (c Cursor) Native() (record.Position, bool) {
	if c.position == nil {
		return record.Position{}, false
	}
	return *c.position, true
}

// IsAt reports whether c is that position.
func (c Cursor) IsAt(p record.Position) bool { return c.position != nil && *c.position == p }

// Filter selects events of an account and a page of them.
type Filter struct {
	// Types are event types or patterns such as customer.*, *.created and *. Empty
	// means all.
	Types         []string
	Resources     []string // empty means all
	From, To      int64    // bounds of createdAt, in seconds, both inclusive
	After, Before Cursor   // at most one of them
	Ascending     bool     // oldest first; otherwise newest first
	Limit         int      // at least 1
	Fits          Fits     // whether the page may grow; nil means up to PageSizeMax
	// Row appends a row to a page. If nil, rows are the events' JSON, separated by
	// commas.
	Row func(dst []byte, p record.Position, wire []byte) []byte
}

// Page is one page of a list of events.
type Page struct {
	Data     []byte          // the rows, appended to dst
	Count    int             // number of rows in Data
	More     bool            // more rows follow in the page's direction
	Next     record.Position // cursor of the following page
	Previous record.Position // cursor of the page before
	Cursor   record.Position // the filter's cursor, or zero
	Version  Version
	Unseen   []UnseenType
	Searched bool // the log was searched for a wildcard, because the account has more than KnownTypesMax types
	// Backfills are those that the page of the feed passed, one for each account.
	Backfills []Backfill
}

// Version changes whenever a page of the account's events may change: with a new
// event, a purge, or a write below the newest event.
type Version struct {
	Head       record.Position // of the newest event
	Generation uint64
}

// EventsVersion returns the version of an account's log, or that of the feed, which changes
// only with a new entry.
func (l *Log) EventsVersion(ctx context.Context, owner string) (version Version, err error) {
	err = l.db.View(ctx, func(r kv.Reader) error {
		v, err := r.Get(headKey(owner))
		if err == nil {
			version, err = versionOf(owner, v)
		}
		return record.GoneIsNil(err)
	})
	if err != nil {
		return Version{}, fmt.Errorf("version of events: %w", err)
	}
	return version, nil
}

// headKey returns the key of a log's head, or of the feed's.
func headKey(owner string) []byte {
	if owner == AllAccounts {
		return feedHeadKey
	}
	return record.EventHeadKey(owner)
}

// versionOf reads the value under headKey.
func versionOf(owner string, v []byte) (Version, error) {
	if owner == AllAccounts {
		h, err := decodeFeedHead(v)
		return Version{Head: h.last}, err
	}
	h, err := decodeEventHead(v)
	return Version{h.last, h.generation}, err
}

// UnseenType is a requested type or pattern that no event of the account has.
type UnseenType struct {
	Type    string
	Nearest string // a similar known type, or ""
}

// String is a notice for the caller.
func (u UnseenType) String() string {
	text := `no event has type "` + u.Type + `"`
	if u.Nearest != "" {
		text += "; nearest: " + u.Nearest
	}
	return text
}

// CursorError means that a cursor cannot be used.
type CursorError struct {
	Param  string          // after or before
	Oldest record.Position // if not zero, retention removed events after the cursor, and this is the oldest left
	Resume record.Position // then the position to continue from
	Feed   bool            // these are positions in the feed
}

// OldestText returns Oldest as callers see it.
func (e *CursorError) OldestText() string {
	if e.Feed {
		return PositionText(AllAccounts, e.Oldest)
	}
	return e.Oldest.String()
}

func (e *CursorError) Error() string {
	if e.Oldest.IsZero() {
		return e.Param + ": no event has this id"
	}
	return e.Param + ": the events there have been removed"
}

// PageSizeMax bounds a page in bytes; a page with large events ends early. A thousand
// events of usual size take less than 1 MiB. A slow client holds its page in memory
// until the server's write timeout.
const PageSizeMax = 1 << 20

// Fits reports whether a page may have that many bytes; otherwise it ends early. Every page
// has at least one row.
type Fits func(size int) bool

// UpTo allows pages of at most sizeMax bytes.
func UpTo(sizeMax int) Fits { return func(size int) bool { return size <= sizeMax } }

func (f Fits) allow(size int) bool { return size <= PageSizeMax && (f == nil || f(size)) }

// ListEvents appends one page of an account's events, read from one snapshot, to dst. For
// [AllAccounts] it reads the feed, by Types, Resources, After and Limit alone. Errors:
// *CursorError, ErrFeedOff.
func (l *Log) ListEvents(ctx context.Context, owner string, f Filter, dst []byte) (Page, error) {
	if owner == AllAccounts {
		return l.listFeed(ctx, f, dst)
	}
	var page Page
	var fresh *accountTypes
	err := l.db.View(ctx, func(r kv.Reader) error {
		list := query{r: r, owner: owner, filter: f, recent: &l.types}
		if err := list.find(); err != nil {
			return err
		}
		var err error
		page, err = list.read(dst)
		fresh = list.fresh
		return err
	})
	if err != nil {
		return Page{Data: dst}, fmt.Errorf("list events: %w", err)
	}
	if fresh != nil { // not before, since a scan that fails ends early and looks complete
		l.types.keep(owner, fresh)
	}
	return page, nil
}

// query reads one page within one transaction.
type query struct {
	r      kv.Reader
	owner  string
	filter Filter
	recent *recentTypes
	fresh  *accountTypes // read from the log, to be kept

	head     Head
	cursor   *record.Position // the filter's cursor, if any
	lo, hi   []byte           // position bounds, as in a stretch
	reverse  bool             // rows are read from hi down
	flip     bool             // rows are read in the opposite of the requested order
	unseen   []string         // requested types without events
	searched bool             // as in Page
	err      error            // the error that ended the rows early
	stopped  *record.Position // where the rows ended early because too many were skipped
}

// find turns the filter into key bounds and a direction.
func (l *query) find() (err error) {
	if l.head, err = ReadHead(l.r, l.owner); err != nil {
		return err
	}
	f := l.filter
	from, to := record.FirstPosition(f.From), record.FirstPosition(f.To+1)
	l.lo, l.hi, l.reverse = from[:], to[:], !f.Ascending
	if err := l.resolve(); err != nil || l.cursor == nil {
		return err
	}
	at := l.cursor[:]
	forward := f.Ascending // the wanted rows are above the cursor
	if !f.Before.IsZero() {
		// Rows just before a position are read from there outwards.
		forward, l.flip, l.reverse = !forward, true, !l.reverse
	}
	if forward {
		l.lo = maxBytes(l.lo, append(bytes.Clone(at), 0)) // the least key past the cursor
	} else if bytes.Compare(at, l.hi) < 0 {
		l.hi = at
	}
	return nil
}

// resolve finds the position of the filter's cursor.
func (l *query) resolve() error {
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
		if record.IsAbsent(err) {
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

func (l *query) version() Version { return Version{l.head.last, l.head.generation} }

func maxBytes(a, b []byte) []byte {
	if bytes.Compare(a, b) >= 0 {
		return a
	}
	return b
}

func (l *query) read(dst []byte) (Page, error) {
	page := Page{Data: dst, Version: l.version()}
	if l.cursor != nil {
		page.Cursor = *l.cursor
	}
	rows, err := l.rows()
	if err != nil {
		return page, err
	}
	start := len(dst)
	var ends []int // end of each row, for a page read backwards
	var first, last record.Position
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
		} else if !l.filter.Fits.allow(len(page.Data) - start + len(wire)) {
			page.More = true
			break
		}
		page.Data = l.filter.appendRow(page.Data, page.Count, p, wire)
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
		last = l.positionOfEmpty()
		first = last
	}
	if l.flip {
		l.flipRows(page.Data[start:], ends)
		first, last = last, first
	}
	page.Next, page.Previous = last, first
	page.Unseen, page.Searched = l.notices(), l.searched
	return page, nil
}

func (f *Filter) appendRow(dst []byte, row int, p record.Position, wire []byte) []byte {
	if f.Row != nil {
		return f.Row(dst, p, wire)
	}
	if row > 0 {
		dst = append(dst, ',')
	}
	return append(dst, wire...)
}

// positionOfEmpty is where to continue after an empty page: at the end of what has
// been read, so that a poller neither loses nor repeats events.
func (l *query) positionOfEmpty() record.Position {
	switch {
	case l.cursor == nil:
		return l.head.last
	case l.filter.Ascending && l.cursor.Compare(l.head.last) < 0:
		return l.head.last
	}
	return *l.cursor
}

// flipRows reverses the order of a page's rows, which end at ends.
func (l *query) flipRows(rows []byte, ends []int) {
	comma := 0 // length of the separator
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

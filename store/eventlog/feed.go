package eventlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// The feed lists the events of all accounts in the order in which they were committed. The
// position of an event is one in its own account's log: logs may be ahead of the clock, so
// across accounts an event may be committed after another with a later position, and a
// reader that goes by these would miss it. Therefore the feed has positions of its own,
// taken under the feed's head in the Update that records the event.
//
// An entry only names an event. Readers pass over entries whose event was removed. Entries
// are kept for a time of their own. Events recorded below the head of their log have no
// entries: one entry names the range of those that were committed together.

// AllAccounts is the owner of the feed, where an account is named. No account has this id.
const AllAccounts = "*"

// The bounds of how long entries of the feed are kept.
const (
	FeedMin = time.Hour
	FeedMax = 400 * 24 * time.Hour
)

// AppendPosition appends a position in an owner's log, or in the feed, as callers see it.
func AppendPosition(b []byte, owner string, p record.Position) []byte {
	if owner == AllAccounts {
		return p.AppendFeed(b)
	}
	return p.Append(b)
}

// PositionText is AppendPosition to a string.
func PositionText(owner string, p record.Position) string {
	return string(AppendPosition(nil, owner, p))
}

// StartCursor is the position before every event of the feed that is kept.
func StartCursor() Cursor { return Cursor{start: true} }

// ErrFeedOff means that the server keeps no feed.
var ErrFeedOff = errors.New("the feed is off")

const (
	FeedName           = "feed" // name of the record of the head
	feedHeadRecord     = 1
	feedEntryRecord    = 1
	feedBackfillRecord = 2
	// feedEntrySizeMax is more than an entry has in an engine, with its key.
	feedEntrySizeMax = 100
)

var feedHeadKey = record.MetaKey(FeedName) // never modified

// feedHead is the summary of the feed. The zero feedHead is that of a feed that was never on.
type feedHead struct {
	kept    time.Duration   // how long entries are kept; 0 if the feed is off
	last    record.Position // of the newest entry
	removed record.Position // entries up to here were removed, or not written because the feed was off
}

// feedEntry names an event, or a range of backfill. origin distinguishes the logs that an
// account has had.
type feedEntry struct {
	owner  string
	event  record.Position
	origin uint64
	until  record.Position // the end of a backfill that begins at event; zero for an event
}

// Backfill is a range of an account's log in which events were recorded below its head.
type Backfill struct {
	Account string
	Span
	at record.Position // in the feed
}

// origin is the number of accounts that had been erased when the log began.
func (h Head) origin() uint64 { return h.generation >> erasedShift }

func readFeedHead(r kv.Reader) (feedHead, error) {
	v, err := r.Get(feedHeadKey)
	if err != nil {
		return feedHead{}, record.GoneIsNil(err)
	}
	return decodeFeedHead(v)
}

func writeFeedHead(tx kv.Txn, h feedHead) error {
	return tx.Set(feedHeadKey, h.append(nil), time.Time{})
}

func (h feedHead) append(b []byte) []byte {
	e := record.Encoder{B: append(b, feedHeadRecord)}
	return e.Uint(uint64(h.kept)).Position(h.last).Position(h.removed).B
}

func decodeFeedHead(v []byte) (feedHead, error) {
	d := record.NewDecoder("feed", feedHeadRecord, v)
	h := feedHead{kept: time.Duration(d.Uint()), last: d.Position(), removed: d.Position()}
	return h, d.Done()
}

func (x feedEntry) append(b []byte) []byte {
	if x.until.IsZero() {
		e := record.Encoder{B: append(b, feedEntryRecord)}
		return e.Str(x.owner).Position(x.event).Uint(x.origin).B
	}
	e := record.Encoder{B: append(b, feedBackfillRecord)}
	return e.Str(x.owner).Position(x.event).Uint(x.origin).Position(x.until).B
}

func decodeFeedEntry(v []byte) (feedEntry, error) {
	version := byte(feedEntryRecord)
	if len(v) > 0 && v[0] == feedBackfillRecord {
		version = feedBackfillRecord
	}
	d := record.NewDecoder("feed entry", version, v)
	x := feedEntry{owner: d.Str(), event: d.Position(), origin: d.Uint()}
	if version == feedBackfillRecord {
		x.until = d.Position()
	}
	return x, d.Done()
}

// SetFeed sets how long entries of the feed are kept, or with 0 turns it off. The setting is
// stored, so that commands without a server write entries too. A feed that is turned on
// begins now: readers from before learn that entries are missing. Errors: *InvalidError.
func (l *Log) SetFeed(ctx context.Context, kept time.Duration) error {
	if kept != 0 && (kept < FeedMin || kept > FeedMax) {
		return record.Invalid("feed", "give 1h to 400d, or leave it out to keep no feed", "%s is too short or too long a time to keep the feed of all accounts", kept)
	}
	err := l.db.Update(ctx, func(tx kv.Txn) error {
		h, err := readFeedHead(tx)
		if err != nil || h.kept == kept {
			return err
		}
		tx.As(kv.Ruling)
		if h.kept == 0 {
			h.last = l.nextInFeed(h)
			h.removed = h.last
		}
		h.kept = kept
		return writeFeedHead(tx, h)
	})
	if err != nil {
		return fmt.Errorf("set the feed: %w", err)
	}
	l.feedOff.Store(kept == 0)
	return nil
}

// recallFeed reads the stored setting.
func (l *Log) recallFeed(ctx context.Context) error {
	return l.db.View(ctx, func(r kv.Reader) error {
		h, err := readFeedHead(r)
		l.feedOff.Store(h.kept == 0)
		return err
	})
}

// isFeedOff reports whether no event is entered in the feed. Where other processes may have
// turned it on, only the head says so.
func (l *Log) isFeedOff() bool { return l.feedOff.Load() && l.others.engine == nil }

func (l *Log) nextInFeed(h feedHead) record.Position { return h.last.Next(l.now(), [8]byte{}) }

// enterFeed adds what tx records in an account's log to the feed, unless that is off: the
// range of the events below its head, if any, and those at its end, in their order there.
// head is that of the log.
func (l *Log) enterFeed(tx kv.Txn, arena *eventArena, owner string, head Head, backfill *Span, events ...record.Position) error {
	if len(events) == 0 && backfill == nil || l.isFeedOff() {
		return nil
	}
	feed, err := readFeedHead(tx)
	if err != nil || feed.kept == 0 {
		return err
	}
	enter := func(x feedEntry) error {
		feed.last = l.nextInFeed(feed)
		arena.value = x.append(arena.value[:0])
		return arena.set(tx, record.Key(arena.key[:0]).Feed(feed.last), arena.value)
	}
	if backfill != nil {
		if err := enter(feedEntry{owner, backfill.First, head.origin(), backfill.Last}); err != nil {
			return err
		}
	}
	for _, p := range events {
		if err := enter(feedEntry{owner: owner, event: p, origin: head.origin()}); err != nil {
			return err
		}
	}
	arena.value = feed.append(arena.value[:0])
	return tx.Set(feedHeadKey, arena.value, time.Time{})
}

// TrimFeed removes entries that have been kept long enough, or all if the feed is off, in
// batches, and returns their number. After an interruption, another run continues.
func (l *Log) TrimFeed(ctx context.Context) (removed int, err error) {
	old := kv.Range{Lo: record.FeedKey(record.Position{}), KeysOnly: true, Limit: record.DeleteBatchMax}
	if p := l.feedPassed.Load(); p != nil {
		old.Lo = append(record.FeedKey(*p), 0)
	}
	for {
		var keys [][]byte
		err := l.db.View(ctx, func(r kv.Reader) error {
			keys = nil
			h, err := readFeedHead(r)
			if err != nil {
				return err
			}
			old.Hi = append(record.FeedKey(h.removed), 0)
			if horizon := record.FeedKey(h.horizon(l.now())); bytes.Compare(horizon, old.Hi) > 0 {
				old.Hi = horizon
			}
			for k := range r.Scan(old) {
				keys = append(keys, bytes.Clone(k))
			}
			return nil
		})
		if err != nil || len(keys) == 0 {
			return removed, err
		}
		last := record.FeedPositionAt(keys[len(keys)-1])
		err = record.UpdateAs(ctx, l.db, kv.Ending, func(tx kv.Txn) error {
			h, err := readFeedHead(tx)
			if err != nil {
				return err
			}
			h.removed = record.LaterOf(h.removed, last)
			return errors.Join(record.DeleteKeys(tx, keys...), writeFeedHead(tx, h))
		})
		if err != nil {
			return removed, err
		}
		removed += len(keys)
		old.Lo = append(record.FeedKey(last), 0)
		l.feedPassed.Store(&last) // the engine skips deleted keys slowly
	}
}

// horizon is the least position of an entry that is kept.
func (h feedHead) horizon(now time.Time) record.Position {
	if h.kept == 0 {
		return record.LastPosition
	}
	return record.NewPosition(max(now.Add(-h.kept).UnixMilli(), 0), 0, [8]byte{})
}

// oldest returns the position of the oldest entry left, or of the newest when none is left.
func (h feedHead) oldest(r kv.Reader) record.Position {
	rest := kv.Range{Lo: append(record.FeedKey(h.removed), 0), Hi: append(record.FeedKey(h.last), 0), KeysOnly: true, Limit: 1}
	for k := range r.Scan(rest) {
		return record.FeedPositionAt(k)
	}
	return h.last
}

// feedReader reads entries with their events within one transaction.
type feedReader struct {
	r         kv.Reader
	head      feedHead
	heads     map[string]Head // of the logs that the entries name
	backfills []Backfill      // that the rows passed
	err       error           // that ended the rows early
}

func newFeedReader(r kv.Reader) (*feedReader, error) {
	head, err := readFeedHead(r)
	if err == nil && head.kept == 0 {
		err = ErrFeedOff
	}
	return &feedReader{r: r, head: head, heads: map[string]Head{}}, err
}

// feedRowsMax bounds the entries that are read together.
const feedRowsMax = 250

// rows yields the entries after a position, up to a last one, with the stored event, or nil
// for one that was removed and for a backfill. Events are valid until the next step. wanted is how many of
// those that match the caller takes.
func (f *feedReader) rows(after, last record.Position, limit, wanted int, m matcher) iter.Seq2[record.Position, []byte] {
	atOnce := feedRowsMax
	if m.isAll() {
		atOnce = min(atOnce, wanted+1)
	}
	return func(yield func(record.Position, []byte) bool) {
		rest := kv.Range{Lo: append(record.FeedKey(after), 0), Hi: append(record.FeedKey(last), 0)}
		for bytes.Compare(rest.Lo, rest.Hi) < 0 && limit > 0 {
			rest.Limit = min(limit, atOnce)
			places, keys := f.entries(rest)
			if f.err != nil || len(places) == 0 {
				return
			}
			next := 0
			for i, v := range f.r.GetMany(keys) {
				for ; next < i; next++ {
					if !yield(places[next], nil) {
						return
					}
				}
				if next++; !yield(places[i], v) {
					return
				}
			}
			for ; next < len(places); next++ {
				if !yield(places[next], nil) {
					return
				}
			}
			rest.Lo = append(record.FeedKey(places[len(places)-1]), 0)
			limit -= len(places)
		}
	}
}

// entries returns the positions of entries and the keys of their events.
func (f *feedReader) entries(of kv.Range) (places []record.Position, keys [][]byte) {
	var entries []feedEntry
	for k, v := range f.r.Scan(of) {
		x, err := decodeFeedEntry(v)
		if err != nil {
			f.err = err
			return nil, nil
		}
		places, entries = append(places, record.FeedPositionAt(k)), append(entries, x)
	}
	keys, f.err = f.keys(entries)
	for i, x := range entries {
		if head := f.heads[x.owner]; !x.until.IsZero() && x.origin == head.origin() && !head.last.IsZero() {
			f.backfills = append(f.backfills, Backfill{x.owner, Span{x.event, x.until}, places[i]})
		}
	}
	return places, keys
}

// backfilled returns the backfills up to a position, one for each account.
func (f *feedReader) backfilled(last record.Position) (all []Backfill) {
	index := map[string]int{}
	for _, b := range f.backfills {
		if b.at.Compare(last) > 0 {
			break
		}
		if i, has := index[b.Account]; has {
			all[i].Span = *all[i].join(&b.Span)
			continue
		}
		index[b.Account], all = len(all), append(all, b)
	}
	return all
}

// keys returns the keys of the events that entries name. An event of a log that was erased,
// and a backfill, have a key under which nothing is stored.
func (f *feedReader) keys(entries []feedEntry) (keys [][]byte, err error) {
	var unread [][]byte
	var owners []string
	for _, x := range entries {
		if _, has := f.heads[x.owner]; !has {
			f.heads[x.owner] = Head{} // that of an account that is gone
			owners, unread = append(owners, x.owner), append(unread, record.EventHeadKey(x.owner))
		}
	}
	for i, v := range f.r.GetMany(unread) {
		if f.heads[owners[i]], err = decodeEventHead(v); err != nil {
			return nil, err
		}
	}
	for _, x := range entries {
		head := f.heads[x.owner]
		if x.origin != head.origin() || !x.until.IsZero() {
			x.event = record.LastPosition
		}
		keys = append(keys, eventsOf(x.owner).in(head.Segments.of(x.event)).Position(x.event))
	}
	return keys, nil
}

// feedKeys returns the keys of the events at positions of the feed.
func feedKeys(r kv.Reader, positions []record.Position) ([][]byte, error) {
	named := make([][]byte, len(positions))
	for i, p := range positions {
		named[i] = record.FeedKey(p)
	}
	entries := make([]feedEntry, len(positions)) // one that is missing is of no account
	for i, v := range r.GetMany(named) {
		var err error
		if entries[i], err = decodeFeedEntry(v); err != nil {
			return nil, err
		}
	}
	f := feedReader{r: r, heads: map[string]Head{}}
	return f.keys(entries)
}

// start resolves the cursor of a reader. Errors: *CursorError.
func (f *feedReader) start(after Cursor) (record.Position, error) {
	switch {
	case after.latest:
		return f.head.last, nil
	case after.start, after.position == nil:
		return f.head.removed, nil
	case after.position.Compare(f.head.removed) < 0:
		return record.Position{}, f.expired()
	}
	return *after.position, nil
}

func (f *feedReader) expired() error {
	return &CursorError{Param: "after", Oldest: f.head.oldest(f.r), Resume: f.head.removed, Feed: true}
}

// listFeed is ListEvents for the feed, whose filter has Types, Resources, After and Limit. It
// reads entry by entry: a page for which it would read too many ends early. Errors:
// *CursorError, ErrFeedOff.
func (l *Log) listFeed(ctx context.Context, f Filter, dst []byte) (page Page, err error) {
	err = l.db.View(ctx, func(r kv.Reader) error {
		feed, err := newFeedReader(r)
		if err != nil {
			return err
		}
		page, err = feed.list(f, dst)
		page.Backfills = feed.backfilled(page.Next)
		return err
	})
	if err != nil {
		return Page{Data: dst}, fmt.Errorf("list the feed: %w", err)
	}
	return page, nil
}

func (f *feedReader) list(filter Filter, dst []byte) (Page, error) {
	at, err := f.start(filter.After)
	page := Page{Data: dst, Cursor: at, Previous: at, Next: at, Version: Version{Head: f.head.last}}
	if err != nil {
		return page, err
	}
	wanted, looked, size := matcher{filter.Types, filter.Resources}, 0, 0
	for p, v := range f.rows(at, f.head.last, SearchedMax, filter.Limit, wanted) {
		looked, size = looked+1, size+len(v)
		wire, matches, err := wanted.match(v)
		if err != nil {
			return page, err
		}
		if matches {
			if page.Count == filter.Limit || page.Count > 0 && !filter.Fits.allow(len(page.Data)-len(dst)+len(wire)) {
				page.More = true
				return page, nil
			}
			if page.Count == 0 {
				page.Previous = p
			}
			page.Data = filter.appendRow(page.Data, page.Count, p, wire)
			page.Count++
		}
		page.Next = p
		if size > searchedBytesMax {
			looked = SearchedMax
			break
		}
	}
	if page.More = looked == SearchedMax; !page.More {
		page.Next = record.LaterOf(page.Next, f.head.last)
	}
	if page.Count == 0 {
		page.Previous = page.Next
	}
	return page, f.err
}

// followFeed is follow for the feed.
func followFeed(r kv.Reader, types []string, after, last record.Position, limit, rowsMax int) (s Stretch, err error) {
	f, err := newFeedReader(r)
	if err != nil && !errors.Is(err, ErrFeedOff) { // a follower of a feed that is off waits for it
		return s, err
	}
	if after.Compare(f.head.removed) < 0 {
		return s, f.expired()
	}
	if last.Compare(f.head.last) > 0 {
		last = f.head.last
	}
	s.Passed = after
	wanted, rows, size, searched := matcher{types: types}, 0, 0, 0
	for p, v := range f.rows(after, last, rowsMax, limit, wanted) {
		rows++
		searched += len(v)
		_, matches, err := wanted.match(v)
		if err != nil {
			return s, err
		}
		if matches {
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
	if s.More = rows == rowsMax; !s.More {
		s.Passed = record.LaterOf(after, last)
	}
	return s, f.err
}

// matcher selects events of the feed; nil selects all.
type matcher struct{ types, resources []string }

// match returns the JSON of a stored event, and whether it is wanted. One that was removed
// is not.
func (m matcher) match(v []byte) (wire []byte, matches bool, err error) {
	if v == nil {
		return nil, false, nil
	}
	if wire, err = wireOf(v); err != nil || m.isAll() {
		return wire, err == nil, err
	}
	names, err := namesOf(wire)
	return wire, err == nil && (len(m.types) == 0 || MatchesTypes(m.types, names.typ)) && (len(m.resources) == 0 || slices.Contains(m.resources, names.resource)), err
}

func (m matcher) isAll() bool {
	return (len(m.types) == 0 || slices.Contains(m.types, anyType)) && len(m.resources) == 0
}

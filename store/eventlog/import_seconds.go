package eventlog

import (
	"context"
	"crypto/sha256"
	"maps"
	"math"
	"slices"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// A line without a native id goes after what its second holds in the log, so that a
// history keeps its order in one file or in many. A line without any id may also be an
// event of that second: it is the first that equals it in every member and that no
// earlier line of the import was. Events that the import itself made of such lines do
// not count, because equal lines in one file are separate events.
//
// The events of a second are read before the transaction, and only as far as the lines
// ask. The transaction reads the rest if another writer was faster. A file in the order
// of time that is newer than the log reads nothing.

// digest identifies the content of an event without its id, within an account.
type digest [16]byte

// tail is the part of a position that is derived from the content.
func (d digest) tail() [8]byte { return [8]byte(d[:8]) }

// digest returns the digest of a draft with that id, or without one if that is "".
func (d *draft) digest(account, id string, createdAt int64, buffer *[]byte) digest {
	b := append(append((*buffer)[:0], account...), 0)
	b = d.appendWire(b, id, createdAt)
	*buffer = b
	sum := sha256.Sum256(b)
	return digest(sum[:])
}

// seconds is what an import knows of the seconds that its lines belong to.
type seconds struct {
	account string
	known   map[int64]*second
	floor   int64 // seconds up to this one have been forgotten
	held    int   // digests, over all seconds
	// last and generation describe the log that was read. Another log means that
	// somebody else has written, and begins another epoch.
	last       record.Position
	generation uint64
	epoch      int
	looked     bool
	changes    []secondChange // by the updates that are running, to take back if they run again
	marks      []int          // where each of those updates began
	buffer     []byte
}

// second is one second of the log.
type second struct {
	// read is how far the second was read. Every event up to it is in held, was taken,
	// or was made of a line of this import.
	read record.Position
	// whole is the epoch in which read was the end of the second.
	whole int
	// held counts the events with native ids that lines without an id may be.
	held map[digest]int32
	// crowded means that the events of the second are too many to hold.
	crowded bool
}

// secondChange is a change to undo.
type secondChange struct {
	at     int64
	s      *second
	was    second // its fields before, if no digest is given
	digest digest
	delta  int32 // what was added to held
	made   bool  // the second was not known
}

const (
	// secondsKept bounds the memory of an import to about 64 MiB. A file sorted by time
	// needs only the last second.
	secondsKept = 1 << 19
	// secondHeldMax bounds the digests held to about 64 MiB. Lines that repeat a file in
	// its order hold almost none.
	secondHeldMax = 1 << 20
	// rowsBetween is how many rows of other seconds are read rather than another scan
	// begun.
	rowsBetween = 64
)

func newSeconds(account string) seconds {
	return seconds{account: account, known: map[int64]*second{}, floor: math.MinInt64, epoch: 1}
}

// sees begins an epoch unless the head is that of the known log.
func (q *seconds) sees(head Head) {
	if head.last != q.last || head.generation != q.generation {
		q.last, q.generation = head.last, head.generation
		q.epoch++
	}
}

// begin starts an update that may be run again, the nth of those that run together.
func (q *seconds) begin(n int, head Head) {
	if n < len(q.marks) {
		q.undo(q.marks[n])
		q.marks = q.marks[:n]
	}
	q.marks = append(q.marks, len(q.changes))
	q.sees(head)
}

// wrote notes the head that an update has written.
func (q *seconds) wrote(head Head) { q.last, q.generation = head.last, head.generation }

// settled forgets how to undo the changes: their updates have finished.
func (q *seconds) settled() {
	q.changes, q.marks = q.changes[:0], q.marks[:0]
	if len(q.known) > secondsKept || q.held > secondHeldMax {
		q.forget()
	}
}

func (q *seconds) undo(mark int) {
	for i := len(q.changes) - 1; i >= mark; i-- {
		switch c := q.changes[i]; {
		case c.made:
			delete(q.known, c.at)
		case c.delta != 0:
			q.count(c.s, c.digest, -c.delta)
		default:
			held := c.s.held
			*c.s = c.was
			c.s.held = held
		}
	}
	q.changes = q.changes[:mark]
	q.epoch++ // what the update saw may not be there
}

// forget drops the older half of the seconds.
func (q *seconds) forget() {
	known := make([]int64, 0, len(q.known))
	for at := range q.known {
		known = append(known, at)
	}
	slices.Sort(known)
	for _, at := range known[:len(known)/2] {
		q.held -= len(q.known[at].held)
		delete(q.known, at)
		q.floor = at
	}
}

// find returns the second, which may not have been read.
func (q *seconds) find(at int64) *second {
	s := q.known[at]
	if s == nil {
		s = &second{read: record.PositionBefore(at)}
		q.known[at] = s
		q.changes = append(q.changes, secondChange{at: at, s: s, made: true})
	}
	return s
}

// count adds to how many events with a digest are held.
func (q *seconds) count(s *second, d digest, delta int32) {
	n := s.held[d] + delta
	switch {
	case n == 0:
		delete(s.held, d)
		q.held--
		return
	case s.held == nil:
		s.held = map[digest]int32{}
	}
	if n == delta {
		q.held++
	}
	s.held[d] = n
}

// take reports whether an event with that digest is held, and takes one.
func (q *seconds) take(s *second, d digest) bool {
	if s.held[d] == 0 {
		return false
	}
	q.add(s, d, -1)
	return true
}

// add is count with a note how to undo it.
func (q *seconds) add(s *second, d digest, delta int32) {
	q.count(s, d, delta)
	q.changes = append(q.changes, secondChange{s: s, digest: d, delta: delta})
}

// set changes what is known of a second, with a note how to undo it.
func (q *seconds) set(s *second, to second) {
	q.changes = append(q.changes, secondChange{s: s, was: *s})
	to.held = s.held
	*s = to
}

// place decides the position of a line without a native id. If it is an event already
// recorded, it returns known. Errors: *InvalidError.
func (q *seconds) place(r kv.Reader, head Head, l *importLine) (p record.Position, known bool, err error) {
	if l.foreign == "" && l.createdAt <= q.floor {
		return p, false, record.Invalid("createdAt", "sort the file by createdAt, or import it in parts",
			"the file is not in the order of time: more than %d different seconds are between this line and its neighbours", secondsKept)
	}
	s := q.find(l.createdAt)
	if l.foreign == "" && q.take(s, l.digest) {
		return p, true, nil
	}
	if err := q.readOn(r, head, l.createdAt, s); err != nil {
		return p, false, err
	}
	if l.foreign == "" && q.take(s, l.digest) {
		return p, true, nil
	}
	if l.foreign == "" && s.crowded {
		return p, false, record.Invalid("id", "give every line of the second an id", "the second %d holds too many events to find whether this line is one of them", l.createdAt)
	}
	p, err = s.behind(l)
	return p, false, err
}

// isRead reports whether the whole second is known.
func (q *seconds) isRead(at int64) bool {
	s := q.known[at]
	return s != nil && s.whole == q.epoch || at > q.last.Millis()/1000
}

// readOn reads the second to its end.
func (q *seconds) readOn(r kv.Reader, head Head, at int64, s *second) error {
	if s.whole == q.epoch {
		return nil
	}
	read := s.read
	if at <= head.last.Millis()/1000 {
		rest := stretch{list: eventsOf(q.account), lo: through(read), hi: through(record.PositionBefore(at + 1))}
		for p, v := range rest.rows(r, head.Segments) {
			if _, _, err := q.hold(s, v); err != nil {
				return err
			}
			read = p
		}
	}
	end := *s
	end.read, end.whole = read, q.epoch
	q.set(s, end)
	return nil
}

// hold counts an event that was read, if a line without an id may be it.
func (q *seconds) hold(s *second, v []byte) (d digest, held bool, err error) {
	d, native, err := q.digestOfStored(v)
	if err != nil || !native || s.crowded {
		return d, false, err
	}
	if q.held >= 2*secondHeldMax {
		full := *s
		full.crowded = true
		q.set(s, full)
		return d, false, nil
	}
	q.add(s, d, 1)
	return d, true, nil
}

// digestOfStored returns the digest of a stored event and whether its id is native.
func (q *seconds) digestOfStored(v []byte) (digest, bool, error) {
	wire, err := wireOf(v)
	if err != nil {
		return digest{}, false, err
	}
	id, rest, err := cutText(wire[len(eventOpening)-1:])
	if err != nil {
		return digest{}, false, err
	}
	if _, native := record.ParsePosition(string(id)); !native {
		return digest{}, false, nil
	}
	q.buffer = append(append(append(q.buffer[:0], q.account...), 0), eventOpening...)
	q.buffer = append(append(q.buffer, '"'), rest...)
	sum := sha256.Sum256(q.buffer)
	return digest(sum[:]), true, nil
}

// behind returns the next position of a second that was read to its end: for a line
// without an id the one after the last event, so that milliseconds and counter are the
// line's rank.
//
// Our choice: a line with a foreign id takes the least position after the last event.
// Its id identifies it anyway, and an export, which mixes such lines with others, keeps
// its order when imported into another store. Errors: *InvalidError.
func (s *second) behind(l *importLine) (record.Position, error) {
	p := s.read.Next(time.UnixMilli(0), l.digest.tail())
	if l.foreign != "" {
		p = s.read.Behind(l.digest.tail())
	}
	if p.Millis()/1000 != l.createdAt {
		return p, record.Invalid("createdAt", "give the line another second", "the second %d has no position left after its last event", l.createdAt)
	}
	return p, nil
}

// brought notes that the import has recorded an event.
func (q *seconds) brought(l *importLine) {
	s := q.known[l.createdAt]
	if s == nil {
		return // it will be read if a later line asks
	}
	behind := l.placed.Compare(s.read) > 0
	if behind && s.whole != q.epoch {
		return
	}
	if l.native {
		q.add(s, l.draft.digest(q.account, "", l.createdAt, &q.buffer), 1)
	}
	if behind {
		end := *s
		end.read = l.placed
		q.set(s, end)
	}
}

// wanted is what the lines of some batches ask of a second: these events, or its end.
type wanted struct {
	digests map[digest]int32
	missing int // of them
	toEnd   bool
}

// wantedOf collects what batches ask of seconds that are not known well enough.
func (q *seconds) wantedOf(batches []*importBatch) map[int64]*wanted {
	all := map[int64]*wanted{}
	for _, b := range batches {
		for i := range b.lines {
			l := &b.lines[i]
			if l.refused != nil || l.native || l.foreign == "" && l.createdAt <= q.floor || q.isRead(l.createdAt) {
				continue
			}
			w := all[l.createdAt]
			if w == nil {
				w = &wanted{digests: map[digest]int32{}}
				all[l.createdAt] = w
			}
			if l.foreign != "" {
				w.toEnd = true
				continue
			}
			w.digests[l.digest]++
			if s := q.known[l.createdAt]; s == nil || s.held[l.digest] < w.digests[l.digest] {
				w.missing++
			}
		}
	}
	maps.DeleteFunc(all, func(_ int64, w *wanted) bool { return w.missing == 0 && !w.toEnd })
	return all
}

// look reads from the log what batches are about to ask.
func (q *seconds) look(ctx context.Context, db kv.DB, batches []*importBatch) error {
	if q.looked && len(q.wantedOf(batches)) == 0 {
		return nil
	}
	q.looked = true
	return db.View(ctx, func(r kv.Reader) error {
		head, err := ReadHead(r, q.account)
		if err != nil {
			return err
		}
		q.sees(head)
		all := q.wantedOf(batches)
		for ats := slices.Sorted(maps.Keys(all)); len(ats) > 0; {
			if ats, err = q.scan(r, head, ats, all); err != nil {
				return err
			}
		}
		return nil
	})
}

// scan reads the first of the seconds ats, and those after it that are near, and returns
// the others.
func (q *seconds) scan(r kv.Reader, head Head, ats []int64, all map[int64]*wanted) ([]int64, error) {
	between := 0
	part := stretch{list: eventsOf(q.account), lo: through(q.find(ats[0]).read), hi: through(record.PositionBefore(ats[len(ats)-1] + 1))}
	for p, v := range part.rows(r, head.Segments) {
		at := p.Millis() / 1000
		if ats = q.ended(ats, at); len(ats) == 0 {
			return nil, nil
		}
		s := q.find(ats[0])
		if at < ats[0] || p.Compare(s.read) <= 0 {
			if between++; between == rowsBetween {
				return ats, nil
			}
			continue
		}
		d, held, err := q.hold(s, v)
		if err != nil {
			return nil, err
		}
		s.read = p
		w := all[at]
		if held && s.held[d] <= w.digests[d] {
			w.missing--
		}
		if w.missing == 0 && !w.toEnd {
			ats = ats[1:]
		}
	}
	return q.ended(ats, math.MaxInt64), nil
}

// ended notes that the seconds before at were read to their ends, and returns the others.
func (q *seconds) ended(ats []int64, at int64) []int64 {
	for len(ats) > 0 && ats[0] < at {
		q.find(ats[0]).whole = q.epoch
		ats = ats[1:]
	}
	return ats
}

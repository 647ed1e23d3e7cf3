package eventlog

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// The bounds of one pass. What is left is counted by the next one.
const (
	passEventsMax = 5_000 // events behind the head; an hour counted anew may exceed it
	passHoursMax  = 4096  // hours of one account
	passOwnersMax = 64
	passMarksMax  = 512 // dirty hours of one account
	// A pass reads some positions of each type at a time, so that it holds no iterator
	// open for each of them.
	typeKeysMin, typeKeysMax = 16, 4096
)

// errCountsDiffer means that a count would become negative.
var errCountsDiffer = errors.New("the counts differ from the log")

// countPass reads what is not counted in one snapshot, gives way to commits, and
// writes the counts. It returns whether another pass is due.
func (l *Log) countPass(ctx context.Context) (more bool, err error) {
	ru := &l.rollup
	ru.passing.Lock()
	defer ru.passing.Unlock()
	if err := l.beginCounts(ctx); err != nil {
		return false, err
	}
	owners, recent, rest := l.dueCounts()
	if len(owners) == 0 {
		return false, nil
	}
	var passes []*accountPass
	giveWay := kv.Turn(l.db)
	err = l.db.View(ctx, func(r kv.Reader) error {
		passes = passes[:0]
		whole, err := readRollup(r)
		if err == nil && whole.stopped {
			err = errCountsMoved
		}
		if err != nil {
			return err
		}
		budget := passEventsMax
		for _, p := range owners {
			p := &accountPass{whole: whole, owner: p.owner, before: p.before, seen: p.seen, recent: recent, budget: budget, pace: &ru.pace, hours: map[uint32]*hourCount{}}
			if err := p.read(r); err != nil {
				return err
			}
			passes, ru.last = append(passes, p), p.owner
			if budget = p.budget; budget <= 0 {
				break
			}
		}
		return nil
	})
	if errors.Is(err, errCountsMoved) {
		ru.mu.Lock()
		ru.begun = false
		ru.mu.Unlock()
		return true, nil
	}
	if err != nil {
		return false, err
	}
	giveWay(ctx)
	more, err = l.writePasses(ctx, passes)
	return more || err == nil && rest+len(owners) > len(passes), err
}

// dueCount is an account that has events to count.
type dueCount struct {
	owner  string
	before uint64 // how many, as far as known
	seen   slotsSeen
}

// dueCounts returns accounts to count, in turn, the first recent hour, and how many
// further accounts are due.
func (l *Log) dueCounts() (owners []dueCount, recent uint32, rest int) {
	ru := &l.rollup
	ru.mu.Lock()
	defer ru.mu.Unlock()
	due := slices.Sorted(maps.Keys(ru.behind))
	next, _ := slices.BinarySearch(due, ru.last+"\x00")
	for _, owner := range append(due[next:], due[:next]...) {
		owners = append(owners, dueCount{owner, ru.behind[owner], ru.recent.seen[owner]})
		if len(owners) == passOwnersMax {
			break
		}
	}
	return owners, ru.recent.from, len(due) - len(owners)
}

// accountPass is what a pass finds out about one account.
type accountPass struct {
	whole  counted // the record of all accounts
	owner  string
	before uint64
	seen   slotsSeen
	recent uint32 // hours from here on are counted by slot too
	budget int    // events that may still be read
	pace   *pace

	was      counted
	changes  uint64           // the head's generation
	afresh   bool             // the slots known before are wrong
	missed   map[uint32]Tally // by slot, see followSlots
	slotsTo  record.Position  // where missed ends
	reached  record.Position
	total    uint64 // events in the log
	complete bool   // nothing is left to count
	skipped  bool   // the account is being erased, or has no log
	hours    map[uint32]*hourCount

	written []counted // after each Update
	chunks  [][]uint32
}

// hourCount is what a pass counts in one hour.
type hourCount struct {
	anew  bool   // base replaces the stored count
	mark  uint64 // the dirty mark seen
	base  Tally  // up to the position reached before
	added Tally  // behind it
	slots map[uint32]Tally
}

// eventType is a type of an account's log.
type eventType struct {
	name string
	last record.Position
}

// typesOf returns the types of an account's log and its number of events.
func typesOf(r kv.Reader, owner string) (types []eventType, events uint64, err error) {
	prefix := record.KnownTypesKey(owner)
	for k, v := range r.Scan(prefix.All()) {
		known, err := decodeKnownType(v)
		if err != nil {
			return nil, 0, err
		}
		name, _ := record.CutString(k[len(prefix):])
		types = append(types, eventType{name, known.last})
		events += known.count
	}
	return types, events, nil
}

// read counts the events after the position reached, and then the dirty hours.
func (p *accountPass) read(r kv.Reader) error {
	head, err := ReadHead(r, p.owner)
	if err != nil {
		return err
	}
	if p.was, err = readCounted(r, p.owner); err != nil {
		return err
	}
	if p.skipped = head.last.IsZero() || p.was.stopped; p.skipped {
		return nil
	}
	types, total, err := typesOf(r, p.owner)
	if err != nil {
		return err
	}
	p.total, p.changes = total, head.generation
	if p.reached = p.was.position; !p.followSlots(r, head, types) {
		return nil
	}
	p.complete = p.walk(r, head, types)
	dirty, err := p.dirtyHours(r, passMarksMax)
	if err != nil {
		return err
	}
	for i, hour := range slices.Sorted(maps.Keys(dirty)) {
		if p.budget <= 0 && i > 0 {
			p.complete = false
			break
		}
		p.countAnew(r, head, types, hour, dirty[hour])
	}
	p.complete = p.complete && len(dirty) < passMarksMax
	return nil
}

// walk counts events from the position reached on, in the order of the log, and
// reports whether it came to the head.
func (p *accountPass) walk(r kv.Reader, head Head, types []eventType) bool {
	from := through(p.was.position)
	types = slices.DeleteFunc(slices.Clone(types), func(t eventType) bool { return t.last.Compare(p.was.position) <= 0 })
	size := min(max(p.budget/max(1, len(types)), typeKeysMin), typeKeysMax)
	for sg := range head.Segments.between(from, through(head.last), false) {
		m := merge{}
		for _, t := range types {
			keys := &typeKeys{r: r, pace: p.pace, in: sg, rest: stretch{list: eventsOfType(p.owner, t.name), lo: from, hi: through(head.last), keysOnly: true, limit: size}}
			if src := (&source{next: keys.next, kind: kindOf(t.name)}); src.step() {
				m.sources = append(m.sources, src)
			}
		}
		m.order()
		for len(m.sources) > 0 {
			first := m.sources[0]
			hour := ByHour.unit(first.position.Millis())
			if p.hours[hour] == nil && len(p.hours) == passHoursMax || p.budget <= 0 {
				return false
			}
			h := p.hour(hour)
			h.added = h.added.with(first.kind, 1)
			p.countSlot(&h.slots, first.position, first.kind)
			p.reached = first.position
			p.spend()
			m.next()
		}
	}
	p.reached = head.last
	return true
}

// followSlots counts by slot, up to the position reached before the pass, what this
// process has not counted: after a start, or when another process has counted. If the
// log was changed below the head meanwhile, it counts all recent slots afresh. It
// reports whether it came to that position.
func (p *accountPass) followSlots(r kv.Reader, head Head, types []eventType) bool {
	end := p.was.position
	if p.slotsTo = end; p.seen.whole == p.whole && p.seen.was == p.was {
		return true
	}
	lo := p.seen.was.position
	p.afresh = p.seen.whole != p.whole || p.seen.changes != p.changes || lo.Compare(end) > 0
	if recent := record.FirstPosition(ByHour.start(p.recent).Unix()); p.afresh || lo.Compare(recent) < 0 {
		lo = recent.Before()
	}
	p.missed = map[uint32]Tally{}
	for lo.Compare(end) < 0 && p.budget > 0 {
		hi := record.FirstPosition(BySlot.start(BySlot.unit(lo.Millis()) + 1).Unix())
		if hi = hi.Before(); hi.Compare(lo) <= 0 { // lo ends its slot
			hi = record.FirstPosition(BySlot.start(BySlot.unit(lo.Millis()) + 2).Unix()).Before()
		}
		if hi.Compare(end) > 0 {
			hi = end
		}
		for _, t := range types {
			if t.last.Compare(lo) <= 0 {
				continue
			}
			rows := stretch{list: eventsOfType(p.owner, t.name), lo: through(lo), hi: through(hi), keysOnly: true}
			for at := range rows.rows(r, head.Segments) {
				p.countSlot(&p.missed, at, kindOf(t.name))
				p.spend()
			}
		}
		lo = hi
	}
	if lo.Compare(end) < 0 {
		p.slotsTo = lo
	}
	return p.slotsTo == end
}

// typeKeys reads the keys of a type's list in one segment.
type typeKeys struct {
	r    kv.Reader
	pace *pace
	in   Segment
	rest stretch
	read []record.Position
	at   int
	last bool // nothing follows what was read
}

func (k *typeKeys) next() (key, value []byte, ok bool) {
	if k.at == len(k.read) && !k.last {
		k.read, k.at = k.read[:0], 0
		for key := range k.r.Scan(k.rest.in(k.in)) {
			k.read = append(k.read, record.PositionAt(key))
			k.pace.step()
		}
		if k.last = len(k.read) < k.rest.limit; !k.last {
			k.rest.lo = through(k.read[len(k.read)-1])
		}
	}
	if k.at == len(k.read) {
		return nil, nil, false
	}
	k.at++
	return k.read[k.at-1][:], nil, true
}

// spend takes an event from the budget.
func (p *accountPass) spend() {
	p.budget--
	p.pace.step()
}

// pace makes counting rest for longer than it works, so that requests find a core free.
// Measured, see docs/performance.md.
type pace struct {
	steps int
	began time.Time // of the present stretch of work
}

const (
	paceSteps = 64 // between two looks at the clock
	paceWork  = 800 * time.Microsecond
	paceRest  = time.Millisecond
)

// step is called for each event that is read or counted.
func (p *pace) step() {
	if p.steps++; p.steps%paceSteps != 0 {
		return
	}
	switch {
	case p.began.IsZero():
		p.began = time.Now()
	case time.Since(p.began) > paceWork:
		time.Sleep(paceRest)
		p.began = time.Now()
	}
}

func (p *accountPass) hour(hour uint32) *hourCount {
	h := p.hours[hour]
	if h == nil {
		h = &hourCount{}
		p.hours[hour] = h
	}
	return h
}

func (p *accountPass) countSlot(slots *map[uint32]Tally, at record.Position, kind string) {
	if slot := BySlot.unit(at.Millis()); slot/slotsOfHour >= p.recent {
		if *slots == nil {
			*slots = map[uint32]Tally{}
		}
		(*slots)[slot] = (*slots)[slot].with(kind, 1)
	}
}

// dirtyHours returns the hours to count anew with their marks. A limit of 0 means all.
func (p *accountPass) dirtyHours(r kv.Reader, limit int) (map[uint32]uint64, error) {
	dirty := map[uint32]uint64{}
	marks := record.DirtyHoursKey(p.owner).All()
	marks.Limit = limit
	for k, v := range r.Scan(marks) {
		raised, err := decodeMark(v)
		if err != nil {
			return nil, err
		}
		dirty[record.Uint32At(k)] = raised
	}
	return dirty, nil
}

// countAnew counts an hour up to the position reached before the pass.
func (p *accountPass) countAnew(r kv.Reader, head Head, types []eventType, hour uint32, mark uint64) {
	h := p.hour(hour)
	h.anew, h.mark = true, mark
	lo := record.FirstPosition(ByHour.start(hour).Unix())
	hi := record.FirstPosition(ByHour.start(hour + 1).Unix())
	end := through(p.was.position)
	if p.was.position.Compare(hi) >= 0 {
		end = hi[:]
	}
	for _, t := range types {
		if t.last.Compare(lo) < 0 {
			continue
		}
		kind, n := kindOf(t.name), uint64(0)
		rows := stretch{list: eventsOfType(p.owner, t.name), lo: lo[:], hi: end, keysOnly: true}
		for at := range rows.rows(r, head.Segments) {
			p.countSlot(&h.slots, at, kind)
			n++
			p.spend()
		}
		h.base = h.base.with(kind, n)
	}
}

// writePasses commits what was counted, each account's hours in order and in Updates
// of their own.
func (l *Log) writePasses(ctx context.Context, passes []*accountPass) (more bool, err error) {
	ru := &l.rollup
	var updates []func(kv.Txn) error
	for _, p := range passes {
		if p.skipped {
			continue
		}
		p.chunks = slices.Collect(slices.Chunk(slices.Sorted(maps.Keys(p.hours)), ru.updateMax))
		if len(p.chunks) == 0 {
			p.chunks = [][]uint32{nil} // the position alone
		}
		p.written = make([]counted, len(p.chunks))
		for i := range p.chunks {
			updates = append(updates, func(tx kv.Txn) error { return p.write(tx, i) })
		}
	}
	for _, failed := range kv.UpdateEach(ctx, l.db, updates) {
		switch {
		case failed == nil:
		case errors.Is(failed, errCountsMoved):
			return true, nil
		case errors.Is(failed, kv.ErrTooLarge) && ru.updateMax > 1:
			ru.updateMax /= 2
			return true, nil
		case errors.Is(failed, errCountsDiffer) && !ru.remade:
			return true, l.remakeCounts(ctx)
		default:
			return false, failed
		}
	}
	differ := false
	ru.mu.Lock()
	for _, p := range passes {
		if ru.settle(p); !p.agrees() {
			differ = true
		}
		more = more || !p.skipped && !p.complete
	}
	ru.mu.Unlock()
	if differ && !ru.remade { // a version of tollhouse without a rollup has changed the log
		return true, l.remakeCounts(ctx)
	}
	return more, nil
}

// settle takes a committed pass into memory.
func (ru *rollup) settle(p *accountPass) {
	left := ru.behind[p.owner] - min(ru.behind[p.owner], p.before)
	if p.afresh {
		ru.recent.forgetAll(p.owner)
	}
	for slot, t := range p.missed {
		ru.recent.add(p.owner, slot, t)
	}
	for hour, h := range p.hours {
		if h.anew {
			ru.recent.forget(p.owner, hour)
		}
		for slot, t := range h.slots {
			ru.recent.add(p.owner, slot, t)
		}
	}
	if !p.skipped {
		seen := slotsSeen{whole: p.whole, was: p.after(), changes: p.seen.changes}
		if p.complete || p.afresh {
			seen.changes = p.changes
		}
		if p.slotsTo != p.was.position {
			seen.was.position = p.slotsTo
		}
		ru.recent.seen[p.owner] = seen
	}
	if !p.skipped && !p.complete {
		left += max(1, p.total-min(p.total, p.after().events))
	}
	if ru.behind[p.owner] = left; left == 0 {
		delete(ru.behind, p.owner)
	}
}

// agrees reports whether a complete pass has counted as many events as the log has.
func (p *accountPass) agrees() bool {
	return p.skipped || !p.complete || p.after().events == p.total
}

// after says how far a committed pass came.
func (p *accountPass) after() counted { return p.written[len(p.written)-1] }

// write moves the counts of a chunk of hours, and the position to the end of its last
// hour, or, in the last chunk, as far as the pass came.
func (p *accountPass) write(tx kv.Txn, chunk int) error {
	done := p.was
	if chunk > 0 {
		done = p.written[chunk-1]
	}
	was := done
	p.prefetch(tx, p.chunks[chunk])
	if err := errors.Join(mustBeAt(tx, allAccounts, p.whole), mustBeAt(tx, p.owner, was)); err != nil {
		return err
	}
	moved := tallies{tx: tx, read: map[string]Tally{}}
	for _, hour := range p.chunks[chunk] {
		h := p.hours[hour]
		old, now, err := moved.setHour(p.owner, hour, h)
		if err != nil {
			return err
		}
		done.events += now - old
		if err := p.unmark(tx, hour, h.mark); err != nil {
			return err
		}
		if end := record.FirstPosition(ByHour.start(hour + 1).Unix()).Before(); end.Compare(done.position) > 0 && end.Compare(p.reached) < 0 {
			done.position = end
		}
	}
	if chunk == len(p.chunks)-1 {
		done.position = p.reached
	}
	err := moved.write()
	if err == nil && (done != was || len(p.chunks[chunk]) > 0) {
		done, err = writeCounted(tx, p.owner, done)
	}
	p.written[chunk] = done
	return err
}

// prefetch announces to a remote engine what write reads.
func (p *accountPass) prefetch(tx kv.Txn, hours []uint32) {
	if _, remote := tx.(kv.Prefetcher); !remote {
		return
	}
	keys := [][]byte{record.CountedKey(allAccounts), record.CountedKey(p.owner)}
	for _, hour := range hours {
		keys = append(keys, hourKey(p.owner, hour), dayKey(p.owner, hour), hourKey(allAccounts, hour), dayKey(allAccounts, hour), record.DirtyHoursKey(p.owner).Uint32(hour))
	}
	kv.Prefetch(tx, keys)
}

// unmark takes the mark of an hour away unless it was raised again.
func (p *accountPass) unmark(tx kv.Txn, hour uint32, seen uint64) error {
	if seen == 0 {
		return nil
	}
	k := record.DirtyHoursKey(p.owner).Uint32(hour)
	if raised, err := readMark(tx, k); err != nil || raised != seen {
		return err
	}
	return tx.Delete(k)
}

// tallies are counts that one Update changes.
type tallies struct {
	tx   kv.Txn
	read map[string]Tally
}

// setHour sets an account's hour, moves its day and those of all accounts by the
// difference, and returns the number of events before and after.
func (m *tallies) setHour(owner string, hour uint32, h *hourCount) (old, now uint64, err error) {
	was, err := readTally(m.tx, hourKey(owner, hour))
	if err != nil {
		return 0, 0, err
	}
	is := slices.Clone(was)
	if h.anew {
		is = slices.Clone(h.base)
	}
	is = is.Add(h.added)
	if slices.Equal(was, is) {
		return was.Total(), is.Total(), nil
	}
	m.read[string(hourKey(owner, hour))] = is
	for _, k := range []record.Key{dayKey(owner, hour), hourKey(allAccounts, hour), dayKey(allAccounts, hour)} {
		if err := m.move(k, was, is); err != nil {
			return 0, 0, err
		}
	}
	return was.Total(), is.Total(), nil
}

// move replaces the events of from by those of to.
func (m *tallies) move(k record.Key, from, to Tally) (err error) {
	t, has := m.read[string(k)]
	if !has {
		if t, err = readTally(m.tx, k); err != nil {
			return err
		}
	}
	for _, c := range from {
		if t, has = t.without(c.Kind, c.Count); !has {
			return errCountsDiffer
		}
	}
	m.read[string(k)] = t.Add(to)
	return nil
}

func (m *tallies) write() error {
	for k, t := range m.read {
		err := error(nil)
		if len(t) == 0 {
			err = m.tx.Delete([]byte(k))
		} else {
			err = m.tx.Set([]byte(k), encodeTally(t), time.Time{})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

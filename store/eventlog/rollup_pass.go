package eventlog

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// The bounds of one pass. What is left is counted by the next one.
const (
	passEventsMax = 25_000 // events behind the head; an hour counted anew may exceed it
	passHoursMax  = 4096   // hours of one account
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
		budget := passEventsMax
		for _, p := range owners {
			p := &accountPass{owner: p.owner, before: p.before, unknown: p.unknown, recent: recent, budget: budget, hours: map[uint32]*hourCount{}}
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
	if err != nil {
		return false, err
	}
	giveWay(ctx)
	more, err = l.writePasses(ctx, passes)
	return more || err == nil && rest+len(owners) > len(passes), err
}

// dueCount is an account that has events to count.
type dueCount struct {
	owner   string
	before  uint64 // how many, as far as known
	unknown bool   // its recent slots are not counted
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
		_, unknown := ru.recent.unknown[owner]
		owners = append(owners, dueCount{owner, ru.behind[owner], unknown})
		if len(owners) == passOwnersMax {
			break
		}
	}
	return owners, ru.recent.from, len(due) - len(owners)
}

// accountPass is what a pass finds out about one account.
type accountPass struct {
	owner   string
	before  uint64
	unknown bool
	recent  uint32 // hours from here on are counted by slot too
	budget  int    // events that may still be read

	was      counted
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
	p.total = total
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
	p.reached = p.was.position
	from := through(p.was.position)
	types = slices.DeleteFunc(slices.Clone(types), func(t eventType) bool { return t.last.Compare(p.was.position) <= 0 })
	size := min(max(p.budget/max(1, len(types)), typeKeysMin), typeKeysMax)
	for sg := range head.Segments.between(from, through(head.last), false) {
		m := merge{}
		for _, t := range types {
			keys := &typeKeys{r: r, in: sg, rest: stretch{list: eventsOfType(p.owner, t.name), lo: from, hi: through(head.last), keysOnly: true, limit: size}}
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
			p.countSlot(h, first.position, first.kind)
			p.reached = first.position
			p.spend()
			m.next()
		}
	}
	p.reached = head.last
	return true
}

// typeKeys reads the keys of a type's list in one segment.
type typeKeys struct {
	r    kv.Reader
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

// yieldEvery is how many events are counted before goroutines that serve requests may
// go first. Measured, see docs/performance.md.
const yieldEvery = 64

// spend takes an event from the budget.
func (p *accountPass) spend() {
	if p.budget--; p.budget%yieldEvery == 0 {
		runtime.Gosched()
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

func (p *accountPass) countSlot(h *hourCount, at record.Position, kind string) {
	if slot := BySlot.unit(at.Millis()); slot/slotsOfHour >= p.recent {
		if h.slots == nil {
			h.slots = map[uint32]Tally{}
		}
		h.slots[slot] = h.slots[slot].with(kind, 1)
	}
}

// dirtyHours returns the hours to count anew with their marks, 0 if only
// the slots of an hour are unknown. A limit of 0 means all.
func (p *accountPass) dirtyHours(r kv.Reader, limit int) (map[uint32]uint64, error) {
	dirty := map[uint32]uint64{}
	marks := record.DirtyHoursKey(p.owner).All()
	marks.Limit = limit
	for k, v := range r.Scan(marks) {
		raised, err := decodeMark(v)
		if err != nil {
			return nil, err
		}
		dirty[unitAt(k)] = raised
	}
	if p.unknown && len(dirty) < limit {
		for hour := p.recent; hour <= ByHour.unit(p.was.position.Millis()); hour++ {
			dirty[hour] += 0
		}
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
			p.countSlot(h, at, kind)
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
		case errors.Is(failed, kv.ErrTooLarge) && ru.updateMax > 1:
			ru.updateMax /= 2
			l.forgetSlots(passes)
			return true, nil
		case errors.Is(failed, errCountsDiffer) && !ru.remade:
			return true, l.remakeCounts(ctx)
		default:
			l.forgetSlots(passes)
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

// forgetSlots has recent slots counted anew, because some Updates of a pass may have
// been committed.
func (l *Log) forgetSlots(passes []*accountPass) {
	ru := &l.rollup
	ru.mu.Lock()
	defer ru.mu.Unlock()
	for _, p := range passes {
		if ru.recent.unknown == nil {
			ru.recent.unknown = map[string]struct{}{}
		}
		ru.recent.unknown[p.owner] = struct{}{}
	}
}

// settle takes a committed pass into memory.
func (ru *rollup) settle(p *accountPass) {
	left := ru.behind[p.owner] - min(ru.behind[p.owner], p.before)
	for hour, h := range p.hours {
		if h.anew {
			ru.recent.forget(p.owner, hour)
		}
		for slot, t := range h.slots {
			ru.recent.add(p.owner, slot, t)
		}
	}
	if p.skipped || p.complete {
		delete(ru.recent.unknown, p.owner)
	} else {
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
	p.written[chunk] = done
	if err := moved.write(); err != nil || done == p.was {
		return err
	}
	return writeCounted(tx, p.owner, done)
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

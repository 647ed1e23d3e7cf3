package badgerkv

import (
	"bytes"
	"slices"
	"sort"
	"time"
	"unsafe"

	"tollhouse/store/kv"
)

// writeOverhead bounds what Badger adds to a write when it sizes a transaction:
// version, flags and entry header, beside our checksum.
const writeOverhead = 32

const (
	// slotsKept bounds the map kept from group to group: to clear one costs what
	// the largest group ever in it took.
	slotsKept = 4096
	// The pieces of memory in which a group's writes lie. The largest key and the
	// largest value each fit into one.
	slotsAtOnce = 256
	keysAtOnce  = 16 << 10
	bytesAtOnce = 128 << 10
)

// pending holds the writes of one group: those of the updates that have run,
// and those of the one that is running, which can be rolled back alone. A read
// is one look into a map; only a scan has to sort, and sorts new keys only.
type pending struct {
	slots  map[string]*slot
	sorted []*slot // by key
	fresh  []*slot // seen since the last scan, in any order
	undo   []undone
	count  int // slots that hold a write
	size   int // of what they hold, as Badger will count it

	// Where the slots, their keys and what is stored under them lie. A group has
	// thousands, so they are not made one by one, and the next group gets the
	// memory of this one: the engine has copied what it keeps when a commit ends.
	room     slab[slot]
	keyRoom  slab[byte]
	byteRoom slab[byte]
	begun    slabMark // of byteRoom, when the update that is running began
}

// slot is a key of the group and what is to be written under it.
type slot struct {
	key []byte
	change
}

// change is one write, or none at all.
type change struct {
	kind      changeKind
	sealed    []byte // as it is stored
	expiresAt uint64 // for Badger, in Unix seconds; 0 is never
}

type changeKind uint8

const (
	changeNone changeKind = iota // rolled back: what is stored counts
	changeSet
	changeDelete
)

type undone struct {
	slot *slot
	was  change
}

// pendingWrite is a change as a scan shows it.
type pendingWrite struct {
	key, value []byte
	deleted    bool
}

func newPending() *pending {
	return &pending{
		slots:    make(map[string]*slot),
		room:     slab[slot]{atOnce: slotsAtOnce},
		keyRoom:  slab[byte]{atOnce: keysAtOnce},
		byteRoom: slab[byte]{atOnce: bytesAtOnce},
	}
}

// reset forgets everything, and keeps a usual group's memory for the next one.
func (p *pending) reset() {
	if len(p.slots) > slotsKept {
		*p = *newPending()
		return
	}
	clear(p.slots)
	clear(p.sorted)
	clear(p.fresh)
	p.sorted, p.fresh = p.sorted[:0], p.fresh[:0]
	p.room.reset()
	p.keyRoom.reset()
	p.byteRoom.reset()
	p.begin()
	p.count, p.size = 0, 0
}

// begin marks the point to which rollback returns.
func (p *pending) begin() {
	clear(p.undo)
	p.undo = p.undo[:0]
	p.begun = p.byteRoom.mark()
}

// rollback takes back what was written since begin, and the room of its values:
// a group may hold hundreds of updates that fail.
func (p *pending) rollback() {
	for _, u := range slices.Backward(p.undo) {
		p.put(u.slot, u.was)
	}
	p.byteRoom.rewind(p.begun)
	p.begin()
}

// seal returns value as it is stored under key, until the group has ended.
func (p *pending) seal(key, value []byte) []byte {
	return sealTo(p.byteRoom.take(len(value)+checksumSize), key, value)
}

// get returns the change under key; changeNone sends the caller to the store.
func (p *pending) get(key []byte) change {
	if s := p.slots[string(key)]; s != nil {
		return s.change
	}
	return change{}
}

// write notes c under key, and what it replaces.
func (p *pending) write(key []byte, c change) {
	s := p.slots[string(key)]
	if s == nil {
		s = &p.room.take(1)[0]
		s.key = p.keyRoom.take(len(key))
		copy(s.key, key)
		p.slots[unsafe.String(&s.key[0], len(s.key))] = s // it never changes while the map holds it
		p.fresh = append(p.fresh, s)
	}
	p.undo = append(p.undo, undone{slot: s, was: s.change})
	p.put(s, c)
}

func (p *pending) put(s *slot, c change) {
	p.account(s, -1)
	s.change = c
	p.account(s, +1)
}

// account adds s to the sums, or takes it away.
func (p *pending) account(s *slot, sign int) {
	if s.kind != changeNone {
		p.count += sign
		p.size += sign * (len(s.key) + len(s.sealed) + writeOverhead)
	}
}

// all calls fn for each slot, in no order.
func (p *pending) all(fn func(*slot) error) error {
	for _, list := range [][]*slot{p.sorted, p.fresh} {
		for _, s := range list {
			if err := fn(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// within returns the changes in rng, in its order, as they are now.
func (p *pending) within(rng kv.Range) []pendingWrite {
	p.sortFresh()
	from := p.search(rng.Lo)
	to := len(p.sorted)
	if rng.Hi != nil {
		to = p.search(rng.Hi)
	}
	if from >= to {
		return nil
	}
	found := make([]pendingWrite, 0, to-from)
	for _, s := range p.sorted[from:to] {
		switch s.kind {
		case changeSet:
			found = append(found, pendingWrite{key: s.key, value: s.value()})
		case changeDelete:
			found = append(found, pendingWrite{key: s.key, deleted: true})
		}
	}
	if rng.Reverse {
		slices.Reverse(found)
	}
	return found
}

// value returns what was set, without its checksum.
func (c change) value() []byte {
	n := len(c.sealed) - checksumSize
	return c.sealed[:n:n]
}

// search returns the index of the first sorted slot at or behind key.
func (p *pending) search(key []byte) int {
	return sort.Search(len(p.sorted), func(i int) bool {
		return bytes.Compare(p.sorted[i].key, key) >= 0
	})
}

// sortFresh merges the fresh slots into the sorted ones, from the end.
func (p *pending) sortFresh() {
	if len(p.fresh) == 0 {
		return
	}
	slices.SortFunc(p.fresh, func(a, b *slot) int { return bytes.Compare(a.key, b.key) })
	i, j := len(p.sorted)-1, len(p.fresh)-1
	p.sorted = append(p.sorted, p.fresh...)
	for at := len(p.sorted) - 1; j >= 0; at-- {
		if i >= 0 && bytes.Compare(p.sorted[i].key, p.fresh[j].key) > 0 {
			p.sorted[at] = p.sorted[i]
			i--
		} else {
			p.sorted[at] = p.fresh[j]
			j--
		}
	}
	clear(p.fresh)
	p.fresh = p.fresh[:0]
}

// engineExpiry returns when Badger may drop what expires at expiresAt. Badger
// compares with the wall clock, to the second, and drops for good; so it gets
// a day more than the record, against a clock that steps.
func engineExpiry(expiresAt time.Time, wallClock bool) uint64 {
	if expiresAt.IsZero() || !wallClock {
		return 0
	}
	// A time before 1970 would wrap round to never; 1 is long past.
	return uint64(max(1, expiresAt.Add(engineExpiryMargin).Unix()))
}

const engineExpiryMargin = 24 * time.Hour

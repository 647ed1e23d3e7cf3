package badgerkv

import (
	"bytes"
	"slices"
	"sort"
	"time"
	"unsafe"

	"tollhouse/store/kv"
)

// writeOverhead bounds what Badger adds to the size of a write besides our checksum:
// version, flags and entry header.
const writeOverhead = 32

// slotsKept bounds the map kept between groups, because clearing a map costs as much as
// its largest use.
const slotsKept = 4096

// pending holds the writes of one group: those of finished updates, and those of the
// running one, which can be rolled back. A read is one map lookup; only a scan sorts,
// and only new keys.
type pending struct {
	slots  map[string]*slot
	sorted []*slot // by key
	fresh  []*slot // seen since the last scan, in any order
	undo   []undone
	count  int // slots that hold a write
	size   int // their total size as Badger counts it
}

// slot is a key of the group with its pending change.
type slot struct {
	key []byte
	change
}

// change is one write, or none.
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

// pendingWrite is a change in a scan.
type pendingWrite struct {
	key, value []byte
	deleted    bool
}

func newPending() *pending { return &pending{slots: make(map[string]*slot)} }

// reset clears everything but keeps the maps and lists of a usual group.
func (p *pending) reset() {
	if len(p.slots) > slotsKept {
		*p = *newPending()
		return
	}
	clear(p.slots)
	clear(p.sorted)
	clear(p.fresh)
	p.sorted, p.fresh = p.sorted[:0], p.fresh[:0]
	p.begin()
	p.count, p.size = 0, 0
}

// begin sets the point to which rollback returns.
func (p *pending) begin() {
	clear(p.undo)
	p.undo = p.undo[:0]
}

// rollback undoes the writes since begin.
func (p *pending) rollback() {
	for _, u := range slices.Backward(p.undo) {
		p.put(u.slot, u.was)
	}
	p.begin()
}

// get returns the change under key; changeNone sends the caller to the store.
func (p *pending) get(key []byte) change {
	if s := p.slots[string(key)]; s != nil {
		return s.change
	}
	return change{}
}

// write records c under key.
func (p *pending) write(key []byte, c change) {
	s := p.slots[string(key)]
	if s == nil {
		s = &slot{key: bytes.Clone(key)}
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

// account adds s to the totals, or subtracts it.
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
	n := len(c.sealed) - kv.ChecksumSize
	return c.sealed[:n:n]
}

// search returns the index of the first sorted slot at or after key.
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

// engineExpiry returns when Badger may drop a record that expires at expiresAt. Badger
// goes by the wall clock and drops permanently, so it gets a day of margin in case the
// clock steps.
func engineExpiry(expiresAt time.Time, wallClock bool) uint64 {
	if expiresAt.IsZero() || !wallClock {
		return 0
	}
	// A time before 1970 would wrap around to never; 1 is long past.
	return uint64(max(1, expiresAt.Add(engineExpiryMargin).Unix()))
}

const engineExpiryMargin = 24 * time.Hour

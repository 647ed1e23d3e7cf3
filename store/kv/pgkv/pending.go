package pgkv

import (
	"bytes"
	"slices"

	"tollhouse/store/kv"
)

// pending holds the writes of one group: those of finished updates, and those of the
// running one, which can be rolled back.
type pending struct {
	changes map[string]change
	undo    []undone
	size    int // of all keys and values
}

// change is one write; the zero value is none.
type change struct {
	sealed  []byte // nil if deleted
	x       int64
	deleted bool
}

func (c change) isNone() bool { return c.sealed == nil && !c.deleted }

type undone struct {
	key string
	was change
}

// ownWrite is a change in a scan.
type ownWrite struct {
	key []byte
	change
}

func newPending() *pending { return &pending{changes: map[string]change{}} }

func (p *pending) reset() {
	clear(p.changes)
	p.size = 0
	p.mark()
}

// mark sets the point to which rollback returns.
func (p *pending) mark() { p.undo = p.undo[:0] }

// rollback undoes the writes since mark.
func (p *pending) rollback() {
	for _, u := range slices.Backward(p.undo) {
		p.put(u.key, u.was)
	}
	p.mark()
}

func (p *pending) write(key []byte, c change) {
	k := string(key)
	p.undo = append(p.undo, undone{k, p.changes[k]})
	p.put(k, c)
}

func (p *pending) put(key string, c change) {
	if was, found := p.changes[key]; found {
		p.size -= len(key) + len(was.sealed)
	}
	if c.isNone() {
		delete(p.changes, key)
		return
	}
	p.changes[key] = c
	p.size += len(key) + len(c.sealed)
}

// within returns the changes in rng, in its order, as they are now.
func (p *pending) within(rng kv.Range) []ownWrite {
	var found []ownWrite
	for key, c := range p.changes {
		if key >= string(rng.Lo) && (rng.Hi == nil || key < string(rng.Hi)) {
			found = append(found, ownWrite{[]byte(key), c})
		}
	}
	slices.SortFunc(found, func(a, b ownWrite) int { return bytes.Compare(a.key, b.key) })
	if rng.Reverse {
		slices.Reverse(found)
	}
	return found
}

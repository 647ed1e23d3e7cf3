package badgerkv

import (
	"bytes"

	"github.com/dgraph-io/badger/v4"

	"tollhouse/store/kv"
)

// scan yields the keys of rng in order: the stored ones, overlaid with own, which is
// in the same order.
func (r *reader) scan(rng kv.Range, own []pendingWrite, yield func(key, value []byte) bool) {
	c := r.cursor(rng)
	if c == nil {
		return
	}
	defer c.close()
	for n := 0; rng.Limit <= 0 || n < rng.Limit; {
		stored := c.key()
		if c.err != nil {
			r.fail(c.err)
			return
		}
		if stored == nil && len(own) == 0 {
			return
		}
		var key, value []byte
		order := c.compare(stored, own)
		if order <= 0 {
			w := own[0]
			own = own[1:]
			if order == 0 {
				c.advance() // own[0] hides it
			}
			if w.deleted {
				continue
			}
			key, value = w.key, w.value
		} else {
			key, value = stored, c.value()
			if c.err != nil {
				r.fail(c.err)
				return
			}
		}
		if rng.KeysOnly {
			value = nil
		}
		n++
		if !yield(key, value) {
			return
		}
		if order > 0 {
			c.advance()
		}
	}
}

// Pull is kv.Pull, directly on the cursor.
func (r *reader) Pull(rng kv.Range) (next func() (key, value []byte, ok bool), stop func()) {
	r.mustBeOpen()
	c := r.cursor(rng)
	n := 0
	stop = func() {
		if c != nil {
			c.close()
			c = nil
		}
	}
	next = func() (key, value []byte, ok bool) {
		if c == nil {
			return nil, nil, false
		}
		if n > 0 {
			c.advance()
		}
		if n++; rng.Limit <= 0 || n <= rng.Limit {
			if key = c.key(); key != nil {
				value = c.value()
			}
		}
		if c.err != nil {
			r.fail(c.err)
		}
		if key == nil || c.err != nil {
			stop()
			return nil, nil, false
		}
		return key, value, true
	}
	return next, stop
}

// cursor returns a cursor for rng, or nil when rng is empty or may be damaged.
func (r *reader) cursor(rng kv.Range) *cursor {
	if rng.Hi != nil && bytes.Compare(rng.Lo, rng.Hi) >= 0 {
		return nil
	}
	if err := damagedRange(r.damage, rng); err != nil {
		r.fail(err)
		return nil
	}
	c := openCursor(r.base.open(), rng)
	r.cursors = append(r.cursors, c)
	return c
}

// cursor walks the stored keys of one range.
type cursor struct {
	kv.Range
	it       *badger.Iterator
	reserved bool // whether the range may include keys of the engine's own
	err      error
}

func openCursor(base *badger.Txn, rng kv.Range) *cursor {
	opts := badger.IteratorOptions{
		PrefetchValues: false, // values cost 4 to 7 times more when prefetched
		Reverse:        rng.Reverse,
		// Every key between two bounds has their common prefix, by which Badger skips
		// tables. This also works in reverse, as long as the walk seeks to a key:
		// Rewind would start at the prefix, below all keys.
		Prefix: commonPrefix(rng.Lo, rng.Hi),
	}
	start := rng.Lo
	if rng.Reverse {
		start = rng.Hi
	}
	c := &cursor{Range: rng, it: base.NewIterator(opts), reserved: len(rng.Lo) == 0 || rng.Lo[0] <= kv.ReservedPrefix}
	c.seek(start)
	return c
}

func (c *cursor) close() { c.it.Close() }

// key returns the key under the cursor, or nil past the end of the range.
func (c *cursor) key() []byte {
	if c.err != nil || !c.it.Valid() {
		return nil
	}
	key := c.it.Item().Key()
	if c.Reverse && bytes.Compare(key, c.Lo) < 0 {
		return nil
	}
	if !c.Reverse && c.Hi != nil && bytes.Compare(key, c.Hi) >= 0 {
		return nil
	}
	return key
}

// compare returns a negative number if own comes first, a positive one if stored does,
// and 0 for the same key. At most one of them may be at its end.
func (c *cursor) compare(stored []byte, own []pendingWrite) int {
	switch {
	case len(own) == 0:
		return 1
	case stored == nil:
		return -1
	case c.Reverse:
		return bytes.Compare(stored, own[0].key)
	default:
		return bytes.Compare(own[0].key, stored)
	}
}

// value returns the value under the cursor, valid until advance.
func (c *cursor) value() []byte {
	if c.KeysOnly {
		return nil
	}
	defer c.recoverDamage()
	item := c.it.Item()
	value, err := itemValue(item.Key(), item)
	if err != nil {
		c.err = err
	}
	return value
}

// seek moves to start or the next key; an empty start means the first key of the walk.
func (c *cursor) seek(start []byte) {
	defer c.recoverDamage()
	if c.Reverse && c.Hi != nil {
		c.it.Seek(start)
		if c.it.Valid() && bytes.Equal(c.it.Item().Key(), c.Hi) {
			c.it.Next()
		}
	} else {
		c.it.Seek(start)
	}
	c.skipReserved()
}

// advance moves to the next key.
func (c *cursor) advance() {
	defer c.recoverDamage()
	c.it.Next()
	c.skipReserved()
}

// skipReserved skips the engine's own keys.
func (c *cursor) skipReserved() {
	for c.reserved && c.it.Valid() && c.it.Item().Key()[0] == kv.ReservedPrefix {
		c.it.Next()
	}
}

// recoverDamage turns a panic of Badger, caused by some kinds of damage, into the
// cursor's error.
func (c *cursor) recoverDamage() {
	if recover() != nil {
		c.err = kv.Corrupt(c.Lo, engineUnreadable)
	}
}

// commonPrefix returns the longest common prefix of both bounds; an open bound has
// none.
func commonPrefix(lo, hi []byte) []byte {
	n := 0
	for n < len(lo) && n < len(hi) && lo[n] == hi[n] {
		n++
	}
	return lo[:n]
}

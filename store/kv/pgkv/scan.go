package pgkv

import (
	"bytes"
	"iter"

	"tollhouse/store/kv"
)

// A range is read in pages, so that no cursor stays open and loops may be nested.
const (
	firstPageRows = 100
	pageRows      = 1000
)

var (
	scanUp       = statement{"scan up", "select k, v from KV where k >= $1 and k < $2 order by k limit $3"}
	scanDown     = statement{"scan down", "select k, v from KV where k >= $1 and k < $2 order by k desc limit $3"}
	scanKeysUp   = statement{"scan keys up", "select k from KV where k >= $1 and k < $2 order by k limit $3"}
	scanKeysDown = statement{"scan keys down", "select k from KV where k >= $1 and k < $2 order by k desc limit $3"}
)

// pastAllKeys is above every key.
var pastAllKeys = bytes.Repeat([]byte{0xff}, kv.KeySizeMax+1)

// pageCall passes the first n rows of rng on, in memory of their own.
func (db *DB) pageCall(rng kv.Range, n int, row func(stored)) call {
	s := scanUp
	switch {
	case rng.Reverse && rng.KeysOnly:
		s = scanKeysDown
	case rng.Reverse:
		s = scanDown
	case rng.KeysOnly:
		s = scanKeysUp
	}
	lo, hi := cloneValue(rng.Lo), rng.Hi
	if hi == nil {
		hi = pastAllKeys
	}
	return call{
		statement: db.in(s),
		params:    [][]byte{lo, hi, int8Param(int64(n))},
		row: func(v [][]byte) {
			r := stored{key: bytes.Clone(v[0])}
			if len(v) > 1 {
				r.sealed = cloneValue(v[1])
			}
			row(r)
		},
	}
}

func readPage(db *DB, rng kv.Range, n int, exchange func(call) error) (page []stored, err error) {
	err = exchange(db.pageCall(rng, n, func(r stored) { page = append(page, r) }))
	return page, err
}

// Scan yields the stored rows of rng, overlaid with pending writes as they are now.
func (r *reader) Scan(rng kv.Range) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		r.mustBeOpen()
		c := r.cursor(rng)
		for {
			key, value, ok := c.next()
			if !ok || !yield(key, value) {
				return
			}
		}
	}
}

// Pull is kv.Pull.
func (r *reader) Pull(rng kv.Range) (next func() (key, value []byte, ok bool), stop func()) {
	r.mustBeOpen()
	c := r.cursor(rng)
	return c.next, func() { c.ended = true }
}

func (r *reader) cursor(rng kv.Range) *cursor {
	c := &cursor{r: r, rest: rng, left: rng.Limit}
	c.ended = rng.Hi != nil && bytes.Compare(rng.Lo, rng.Hi) >= 0
	if r.pending != nil {
		c.own = r.pending.within(rng)
	}
	return c
}

// cursor walks one range.
type cursor struct {
	r     *reader
	rest  kv.Range   // what was not read yet
	page  []stored   // read and not yielded
	read  bool       // all pages were read
	own   []ownWrite // pending writes not yielded
	left  int        // of the limit; 0 is no limit
	pages int
	ended bool
}

func (c *cursor) next() (key, value []byte, ok bool) {
	for !c.ended {
		if len(c.page) == 0 && !c.read && !c.turnPage() {
			break
		}
		row, deleted, ok := c.first()
		if !ok {
			break
		}
		if deleted {
			continue
		}
		if c.left--; c.left == 0 {
			c.ended = true
		}
		if c.rest.KeysOnly {
			return row.key, nil, true
		}
		value, err := kv.Unseal(row.key, row.sealed)
		if err != nil {
			c.r.fail(err)
			break
		}
		return row.key, value, true
	}
	c.ended = true
	return nil, nil, false
}

// turnPage reads the next page, and reports whether that worked.
func (c *cursor) turnPage() bool {
	n := pageRows
	if c.pages == 0 {
		n = firstPageRows
		if 0 < c.left && c.left <= pageRows {
			n = c.left
		}
	}
	c.pages++
	if c.r.err != nil {
		return false
	}
	page, err := c.r.source.page(c.rest, n)
	if err != nil {
		c.r.fail(err)
		return false
	}
	c.page, c.read = page, len(page) < n
	if !c.read {
		last := page[n-1].key
		if c.rest.Reverse {
			c.rest.Hi = last
		} else {
			c.rest.Lo = append(bytes.Clone(last), 0)
		}
	}
	return true
}

// first removes and returns the first row of the page or of the own writes, which hide
// the page's.
func (c *cursor) first() (row stored, deleted, ok bool) {
	order := 1
	switch {
	case len(c.own) == 0 && len(c.page) == 0:
		return stored{}, false, false
	case len(c.own) == 0:
	case len(c.page) == 0:
		order = -1
	case c.rest.Reverse:
		order = bytes.Compare(c.page[0].key, c.own[0].key)
	default:
		order = bytes.Compare(c.own[0].key, c.page[0].key)
	}
	if order >= 0 {
		row, c.page = c.page[0], c.page[1:]
	}
	if order <= 0 {
		w := c.own[0]
		c.own = c.own[1:]
		return stored{w.key, w.sealed}, w.deleted, true
	}
	return row, false, true
}

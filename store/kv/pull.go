package kv

import "iter"

// Puller is a Reader that gives the rows of a range on demand, at the cost of a
// row.
type Puller interface {
	// Pull is [Pull] of this reader.
	Pull(r Range) (next func() (key, value []byte, ok bool), stop func())
}

// Pull is a Scan turned round: next returns row after row, for whoever reads
// several ranges at once. A key and its value are valid until next is called
// again; stop ends the reading early. It is iter.Pull2 of a Scan, without the
// two coroutine switches a row where the reader is a [Puller].
func Pull(r Reader, rng Range) (next func() (key, value []byte, ok bool), stop func()) {
	if p, ok := r.(Puller); ok {
		return p.Pull(rng)
	}
	return iter.Pull2(r.Scan(rng))
}

package kv

import "iter"

// Puller is a Reader that returns the rows of a range on demand.
type Puller interface {
	// Pull is [Pull] of this reader.
	Pull(r Range) (next func() (key, value []byte, ok bool), stop func())
}

// Pull is a Scan with control inverted, for reading several ranges together: next
// returns row after row, valid until it is called again; stop ends early. It equals
// iter.Pull2 of a Scan, without two coroutine switches per row if the reader is a
// [Puller].
func Pull(r Reader, rng Range) (next func() (key, value []byte, ok bool), stop func()) {
	if p, ok := r.(Puller); ok {
		return p.Pull(rng)
	}
	return iter.Pull2(r.Scan(rng))
}

package storetest

import (
	"context"
	"iter"

	"tollhouse/store/kv"
)

// KeysRead is an engine that counts in N the keys that are read outside a write. It is not
// safe for concurrent use.
type KeysRead struct {
	kv.DB
	N int
}

// View is the engine's.
func (d *KeysRead) View(ctx context.Context, fn func(kv.Reader) error) error {
	return d.DB.View(ctx, func(r kv.Reader) error { return fn(keyReader{r, &d.N}) })
}

type keyReader struct {
	kv.Reader
	n *int
}

func (r keyReader) Get(key []byte) ([]byte, error) {
	*r.n++
	return r.Reader.Get(key)
}

func (r keyReader) GetMany(keys [][]byte) iter.Seq2[int, []byte] {
	*r.n += len(keys)
	return r.Reader.GetMany(keys)
}

func (r keyReader) Scan(at kv.Range) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		for k, v := range r.Reader.Scan(at) {
			if *r.n++; !yield(k, v) {
				return
			}
		}
	}
}

package kv

import "context"

// Prefetcher is a Reader that gains from knowing early what will be read.
type Prefetcher interface {
	// Prefetch is [Prefetch] of this reader.
	Prefetch(keys [][]byte)
}

// Prefetch announces that keys will be read with Get: a remote engine reads them in one
// round trip. It does nothing on an engine that is no [Prefetcher]. A failure shows in
// the Get, and View or Update returns it even if fn returns nil.
func Prefetch(r Reader, keys [][]byte) {
	if p, ok := r.(Prefetcher); ok {
		p.Prefetch(keys)
	}
}

// Naming returns a context with which Update is told which keys fn is likely to read: a
// remote engine reads them with its first round trip, under the turn. They are only
// hints: a key that is missing among them is read when fn reads it, and one too many
// changes nothing. Those of an outer context are added. On other engines keys is not called.
func Naming(ctx context.Context, keys func() [][]byte) context.Context {
	return context.WithValue(ctx, namedKey, named{ctx, keys})
}

type named struct {
	outer context.Context
	keys  func() [][]byte
}

// NamedBy returns the keys of [Naming].
func NamedBy(ctx context.Context) (all [][]byte) {
	for {
		n, ok := ctx.Value(namedKey).(named)
		if !ok {
			return all
		}
		all, ctx = append(all, n.keys()...), n.outer
	}
}

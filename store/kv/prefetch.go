package kv

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

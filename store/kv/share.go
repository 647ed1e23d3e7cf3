package kv

import "context"

type contextKey int

const (
	sharedKey contextKey = iota
	namedKey
	boundKey
	yieldingKey
)

// Shared is the snapshot that the Views of one context share. It is for one goroutine.
type Shared struct {
	Snapshot any    // the engine's; nil before the first View
	Release  func() // frees it
	ended    bool
}

// Share returns a context whose Views share the snapshot of the first one, until end is
// called, which may be called again. An Update with this context ends it too, so that the
// caller sees its own writes. Call end before anything is waited for (contract line 8).
// On an engine that gains nothing by it, each View has a snapshot of its own.
func Share(ctx context.Context) (shared context.Context, end func()) {
	s := &Shared{}
	return context.WithValue(ctx, sharedKey, s), s.End
}

// SharedOf returns what the Views of ctx share, or nil.
func SharedOf(ctx context.Context) *Shared {
	if s, ok := ctx.Value(sharedKey).(*Shared); ok && !s.ended {
		return s
	}
	return nil
}

// End releases the snapshot. Later Views of the context have their own. A nil Shared has
// none.
func (s *Shared) End() {
	if s == nil {
		return
	}
	if s.ended = true; s.Release != nil {
		s.Release()
	}
	s.Snapshot, s.Release = nil, nil
}

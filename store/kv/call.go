package kv

import "context"

// Caller is an engine that several processes share. It carries notes among them: what
// one commits, the others should look at soon. The store takes an engine to be shared
// if and only if it is a Caller.
type Caller interface {
	// Call sends a note to every process on the engine's database, which may include
	// this one. It does not block. The note arrives soon: it may be lost, late, sent
	// together with others or replaced by a nil note. So it only makes work earlier
	// that is also done without it.
	Call(note []byte)
	// Hear calls fn with every note that arrives, one after another, until ctx is
	// done. A nil note means that any number of notes may have been missed: look at
	// everything. Hear begins with one.
	Hear(ctx context.Context, fn func(note []byte))
}

package kv

import "context"

// Yielder is an engine on which background work can give way to commits.
type Yielder interface {
	// Turn is the engine's [Turn].
	Turn() (giveWay func(context.Context))
}

// Turn begins some background reading. Call giveWay after it, outside a transaction:
// if updates were committed in the meantime, it waits for a multiple of the time that the
// reading took, or until ctx is done. On an engine that is no [Yielder] it does nothing.
func Turn(db DB) (giveWay func(context.Context)) {
	if engine, ok := db.(Yielder); ok {
		return engine.Turn()
	}
	return func(context.Context) {}
}

package kv

import "context"

// Locker is an engine that several processes share, with locks among them.
type Locker interface {
	// TryLock takes the lock with that name, or reports false if another has it, in
	// this process or elsewhere. unlock gives it back; it is also released when the process exits.
	TryLock(ctx context.Context, name string) (unlock func(), ok bool, err error)
}

package pgkv

import "context"

// TakeOver keeps servers off the database until the session ends. It reports false if one
// runs.
func (s *Session) TakeOver(ctx context.Context) (bool, error) {
	return s.tryLock(ctx, lockServer)
}

// HasTakenOver reports whether the session still keeps servers off.
func (s *Session) HasTakenOver(ctx context.Context) (bool, error) {
	return one[bool](ctx, s, "select exists ("+s.address.heldLock(lockServer)+" and pid = pg_backend_pid() and mode = 'ExclusiveLock')")
}

// Generation returns the number of the generation that is open.
func (db *DB) Generation() int { return db.site.generation }

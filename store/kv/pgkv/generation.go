package pgkv

import "context"

// TakeOver keeps servers off the database until the session ends. It reports false if one
// runs.
func (s *Session) TakeOver(ctx context.Context) (bool, error) { return s.tryLock(ctx, lockServer) }

// Generation returns the number of the generation that is open.
func (db *DB) Generation() int { return db.site.generation }

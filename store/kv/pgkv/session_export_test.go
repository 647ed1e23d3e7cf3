package pgkv

import "context"

// Terminate ends another session of the database.
func (s *Session) Terminate(ctx context.Context, backend int) error {
	_, err := one[bool](ctx, s, "select pg_terminate_backend($1)", backend)
	return err
}

// ServerAlone reports whether no server has its lock.
func (s *Session) ServerAlone(ctx context.Context) (bool, error) { return s.tryLock(ctx, lockServer) }

// BeatToTheEnd looks at the others as Run does.
func (p *Presence) BeatToTheEnd(ctx context.Context) error { return p.toTheEnd(ctx, p.beat) }

// ForgetPrimary makes the first host the one that is asked first, as before a fail-over.
func (db *DB) ForgetPrimary() { db.address.primary.Store(0) }

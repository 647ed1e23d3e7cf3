package pgkv

import "context"

// Terminate ends another session of the database.
func (s *Session) Terminate(ctx context.Context, backend int) error {
	_, err := one[bool](ctx, s, "select pg_terminate_backend($1)", backend)
	return err
}

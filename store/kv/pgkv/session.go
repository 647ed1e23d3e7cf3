package pgkv

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/jackc/pgx/v5"

	"tollhouse/store/kv"
)

// Session is one connection for what concerns the database as a whole: its servers, their
// shared settings, its condition. It is not safe for concurrent use.
type Session struct {
	conn    *pgx.Conn
	address *Address
}

// AwayError means that no primary answers as it should. It matches [kv.ErrAway].
type AwayError struct {
	Reason string
	Remedy string // the next step, or ""
	Lasts  bool   // until somebody changes a setting, so that waiting is no use
}

func newAwayError(err error) *AwayError {
	c := causeOf(err)
	return &AwayError{Reason: c.reason, Remedy: c.remedy, Lasts: c.lasts}
}

func (e *AwayError) Error() string { return "the database does not answer: " + e.Reason }

// Unwrap makes it a [kv.ErrAway].
func (e *AwayError) Unwrap() error { return kv.ErrAway }

// Dial connects to the primary. Errors: *[AwayError].
func Dial(ctx context.Context, a *Address) (*Session, error) { return dialAs(ctx, a, roleManager) }

func dialAs(ctx context.Context, a *Address, r role) (*Session, error) {
	c, err := a.dial(ctx, r, func(config *pgx.ConnConfig) {
		config.DefaultQueryExecMode = pgx.QueryExecModeExec // it also works through a pooler
	})
	if err != nil {
		return nil, asAway(ctx, err)
	}
	return &Session{conn: c.Conn, address: a}, nil
}

// DialFirst is Dial for a program that has not used the database yet. It refuses another product
// or version, a pooler in transaction or statement mode, and a user that lacks privileges.
// Errors: *[RefusedError], *[AwayError].
func DialFirst(ctx context.Context, a *Address) (*Session, error) {
	s, err := Dial(ctx, a)
	if err != nil {
		return nil, err
	}
	refusal, err := checkServer(ctx, s.conn)
	if refusal == nil && err == nil {
		refusal, err = s.checkPooler(ctx, a)
	}
	if refusal == nil && err == nil {
		refusal, err = a.checkPrivileges(ctx, s.conn, false)
	}
	if err != nil {
		refusal = asAway(ctx, err)
	}
	if refusal != nil {
		s.Close()
		return nil, refusal
	}
	return s, nil
}

// asAway describes a failure of the connection or of the database. What the caller cancelled is
// not the database's failure.
func asAway(ctx context.Context, err error) error {
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return ctx.Err()
	}
	var away *AwayError
	if errors.As(err, &away) {
		return away
	}
	return newAwayError(err)
}

// Close closes the connection and releases its locks.
func (s *Session) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
	defer cancel()
	_ = s.conn.Close(ctx)
}

// one reads one value.
func one[T any](ctx context.Context, s *Session, sql string, args ...any) (v T, err error) {
	if err = s.conn.QueryRow(ctx, sql, args...).Scan(&v); err != nil {
		return v, asAway(ctx, err)
	}
	return v, nil
}

func (s *Session) exec(ctx context.Context, sql string, args ...any) error {
	if _, err := s.conn.Exec(ctx, sql, args...); err != nil {
		return asAway(ctx, err)
	}
	return nil
}

// The advisory locks on the database. Both numbers are ours alone; they are freed with the
// session that holds them. The first is the same for all locks of a schema.
const lockClass = 0x746f6c6c // "toll", of the default schema

const (
	lockServer = 1 // shared by all servers; exclusive to write the shared settings
	lockSchema = 2 // to create or fill tables
	lockJobs   = 16
)

func (a *Address) lock(lock int) string { return fmt.Sprintf("%d, %d", a.lockClass(), lock) }

func (a *Address) lockClass() int32 {
	if a.schema == SchemaDefault {
		return lockClass
	}
	return int32(crc32.ChecksumIEEE([]byte("tollhouse locks of the schema " + a.schema)))
}

// tryLock takes a lock unless another session holds it.
func (s *Session) tryLock(ctx context.Context, lock int) (bool, error) {
	return one[bool](ctx, s, "select pg_try_advisory_lock("+s.address.lock(lock)+")")
}

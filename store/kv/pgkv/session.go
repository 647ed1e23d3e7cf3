package pgkv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"tollhouse/store/kv"
)

// Session is one connection for what concerns the database as a whole: who is on it, what
// they agree on, how it is. It is not safe for concurrent use.
type Session struct {
	conn *pgx.Conn
}

// AwayError means that no primary answers. It matches [kv.ErrAway].
type AwayError struct{ Reason string }

func (e *AwayError) Error() string { return "the database does not answer: " + e.Reason }

// Unwrap makes it a [kv.ErrAway].
func (e *AwayError) Unwrap() error { return kv.ErrAway }

// sessionSetup bounds every statement. The keepalives are the database's: it releases the
// locks of a server that lost its network after 11 seconds, and not after two hours.
const sessionSetup = `set statement_timeout = 5000; set lock_timeout = 3000; set idle_session_timeout = 0;
set tcp_keepalives_idle = 5; set tcp_keepalives_interval = 2; set tcp_keepalives_count = 3`

// Dial connects to the primary. Errors: *[AwayError].
func Dial(ctx context.Context, a *Address) (*Session, error) {
	config := a.config.Copy()
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // it also works through a pooler
	config.RuntimeParams["application_name"] = "tollhouse"
	config.DialFunc = (&net.Dialer{Timeout: connectTimeout, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3}}).DialContext
	conn, err := connectAny(ctx, config)
	if err != nil {
		return nil, asAway(ctx, err)
	}
	s := &Session{conn: conn}
	if _, err := conn.Exec(ctx, sessionSetup, pgx.QueryExecModeSimpleProtocol); err != nil {
		s.Close()
		return nil, asAway(ctx, err)
	}
	return s, nil
}

// connectAny tries all hosts. pgx believes the first one that refuses the user, the password
// or the database, but a standby may not have replayed their creation.
func connectAny(ctx context.Context, config *pgx.ConnConfig) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, config)
	var refused *pgconn.PgError
	if err == nil || len(config.Fallbacks) == 0 || !errors.As(err, &refused) || !slices.Contains([]string{"28P01", "28000", "3D000", "42501"}, refused.Code) {
		return conn, err
	}
	for _, f := range config.Fallbacks {
		one := config.Copy()
		one.Host, one.Port, one.TLSConfig, one.Fallbacks = f.Host, f.Port, f.TLSConfig, nil
		if conn, another := pgx.ConnectConfig(ctx, one); another == nil {
			return conn, nil
		}
	}
	return nil, err
}

// asAway describes a failure of the connection or of the database. What the caller ended is
// not the database's failure.
func asAway(ctx context.Context, err error) error {
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return ctx.Err()
	}
	return &AwayError{Reason: Reason(err)}
}

// Close ends the connection and releases its locks.
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
// session that holds them.
const lockClass = 0x746f6c6c // "toll"

const (
	lockServer = 1 // shared by all servers; alone by who sets what they agree on
	lockSchema = 2 // by who creates or fills tables
	lockJobs   = 16
)

func lockOf(lock int) string { return fmt.Sprintf("%d, %d", lockClass, lock) }

// tryLock takes a lock unless another session holds it.
func (s *Session) tryLock(ctx context.Context, lock int) (bool, error) {
	return one[bool](ctx, s, "select pg_try_advisory_lock("+lockOf(lock)+")")
}

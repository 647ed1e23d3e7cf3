package pgtest

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Stranger is a session of a role that has no rights but those that PUBLIC has.
type Stranger struct {
	PID  uint32
	conn *pgx.Conn
	dsn  string // by which its end is seen
}

// Stranger creates the role, if need be, and connects it to a database until the test ends.
func (s *Server) Stranger(t testing.TB, dsn, role, application string) *Stranger {
	t.Helper()
	s.Exec(t, dsn, "do $$ begin create role "+role+" login; exception when duplicate_object then null; end $$")
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("user", role)
	q.Set("application_name", application)
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20") // as pgx reads it
	conn, err := pgx.Connect(t.Context(), u.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return &Stranger{PID: conn.PgConn().PID(), conn: conn, dsn: dsn}
}

// Exec runs a statement.
func (s *Stranger) Exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	if _, err := s.conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// Heard returns the payloads of notifications that arrive within d, for a session that
// listens.
func (s *Stranger) Heard(t testing.TB, d time.Duration) (payloads []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	for {
		n, err := s.conn.WaitForNotification(ctx)
		if err != nil {
			return payloads
		}
		payloads = append(payloads, n.Payload)
	}
}

// Close ends the session, and waits until its locks are free: the server gives them up some
// time after the connection is closed.
func (s *Stranger) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_ = s.conn.Close(ctx)
	look, err := pgx.Connect(ctx, s.dsn)
	if err != nil {
		return // the server is gone, and the session with it
	}
	defer look.Close(ctx)
	for lives := true; lives && err == nil; time.Sleep(time.Millisecond) {
		err = look.QueryRow(ctx, "select exists (select from pg_stat_activity where pid = $1)", int64(s.PID)).Scan(&lives)
	}
}

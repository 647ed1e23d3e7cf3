package pgkv

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Locks, LISTEN, settings and prepared statements belong to a session. A pooler in session mode
// keeps them; in another mode it gives each transaction any of its connections.

// poolerLooks is how often a pooler is given the chance to use one of its connections for two
// sessions. Quiet ones do the first time, and busy ones now and then.
const poolerLooks = 10

const process = "select pg_backend_pid()"

// checkPooler refuses a pooler in transaction or statement mode. Only a pooler has told the client
// another process than the one that answers.
func (s *Session) checkPooler(ctx context.Context, a *Address) (refusal, err error) {
	pid, err := one[uint32](ctx, s, process)
	if err != nil || pid == s.conn.PgConn().PID() {
		return nil, err
	}
	return s.checkShared(ctx, a)
}

// checkShared checks whether this session keeps its process of the database while another session
// is in a transaction: a pooler in transaction mode gives that one the process. It takes no lock
// for this, because another role could hold it.
func (s *Session) checkShared(ctx context.Context, a *Address) (refusal, err error) {
	other, err := Dial(ctx, a)
	if err != nil {
		return nil, err
	}
	defer other.Close()
	own, err := one[uint32](ctx, s, process)
	if err != nil {
		return nil, err
	}
	for range poolerLooks {
		shared, err := other.inTransaction(ctx, func(held uint32) (bool, error) {
			if held == own {
				return true, nil
			}
			now, err := one[uint32](ctx, s, process)
			return now != own, err
		})
		switch {
		case isStatementMode(err):
			return pooledError(ctx, a, "statement"), nil
		case err != nil:
			return nil, asAway(ctx, err)
		case shared:
			return pooledError(ctx, a, "transaction"), nil
		}
	}
	return nil, nil
}

// inTransaction calls fn with the process that this session has for a transaction.
func (s *Session) inTransaction(ctx context.Context, fn func(held uint32) (bool, error)) (shared bool, err error) {
	err = pgx.BeginFunc(ctx, s.conn, func(tx pgx.Tx) error {
		var held uint32
		if err := tx.QueryRow(ctx, process).Scan(&held); err != nil {
			return err
		}
		shared, err = fn(held)
		return err
	})
	return shared, err
}

func isStatementMode(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && strings.Contains(refused.Message, "statement pooling mode")
}

// pooledError names PgBouncer, the only pooler that refuses a startup parameter of ours.
func pooledError(ctx context.Context, a *Address, mode string) error {
	name := "a connection pooler"
	c, err := a.dial(ctx, roleReader, func(config *pgx.ConnConfig) { config.RuntimeParams["tollhouse.pooler"] = "" })
	if err == nil {
		c.discard()
	}
	var refused *pgconn.PgError
	if errors.As(err, &refused) && strings.HasPrefix(refused.Message, bouncerRefuses) {
		name = "PgBouncer"
	}
	return &RefusedError{
		Reason: name + " in " + mode + " mode is in front of the database: it would mix the sessions of servers and commands",
		Remedy: "set pool_mode = session for this database, or connect to PostgreSQL itself",
	}
}

// PgBouncer speaks English, and has one SQLSTATE for all it has to say.
const bouncerRefuses = "unsupported startup parameter"

func poolerCause(message string) cause {
	says := func(parts ...string) bool {
		for _, part := range parts {
			if strings.Contains(message, part) {
				return true
			}
		}
		return false
	}
	switch {
	case says("authentication failed", "no such user"):
		return wrongPassword
	case says("no such database", "does not exist"):
		return unknownDatabase
	case says("no more connections"):
		return cause{reason: "PgBouncer has too many connections", remedy: "raise max_client_conn of PgBouncer, or lower --store-connections"}
	case says("query_wait_timeout", "server_login_retry", "cannot connect to server"):
		return cause{reason: "PgBouncer has no connection to the database", remedy: "check PgBouncer's log and the size of its pool"}
	case says("statement pooling mode"):
		return cause{"PgBouncer in statement mode is in front of the database", "set pool_mode = session for this database, or connect to PostgreSQL itself", true}
	case says(bouncerRefuses):
		return cause{"PgBouncer does not accept a parameter of the URL", "leave it out, or name it in ignore_startup_parameters of PgBouncer", true}
	}
	return cause{}
}

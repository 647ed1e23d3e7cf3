package pgkv

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"tollhouse/store/kv"
)

// The source of an address, its pass file and its certificates are read for each dial, so
// that they can be replaced while servers run. After a dial that was refused for what they
// say, the next is made after refusedPause, however many callers want a connection.

const refusedPause = 2 * time.Second

// CredentialsError means that the last new connection was refused for its password, user or
// certificate, or that a file with them cannot be used. It matches [kv.ErrAway].
type CredentialsError struct {
	Reason string
	public string
}

func (e *CredentialsError) Error() string {
	return "new connections to the database are refused: " + e.Reason
}

// Hint returns the next step.
func (e *CredentialsError) Hint() string {
	return "correct the password, the user or the certificates; their files are read again every 2 seconds"
}

// Public is the reason that everybody may read.
func (e *CredentialsError) Public() string {
	return "New connections to the database are refused: " + e.public + "."
}

// Unwrap makes it a [kv.ErrAway].
func (e *CredentialsError) Unwrap() error { return kv.ErrAway }

// refusal is a dial that was refused for its credentials.
type refusal struct {
	err error
	at  time.Time
}

// refusedFor returns why the last dial was refused, or nil.
func (a *Address) refusedFor() error {
	last := a.refused.Load()
	if last == nil {
		return nil
	}
	e := &CredentialsError{Reason: Reason(last.err), public: "a certificate or a file is not accepted"} // others would name hosts and files
	if answer := (*pgconn.PgError)(nil); errors.As(last.err, &answer) {
		e.public = sqlCause(answer).reason
	}
	return e
}

// again reads the address once more, with its files as they are now.
func (a *Address) again() (*Address, error) {
	if a.Again == nil {
		return ParseAddress(a.url)
	}
	now, err := a.Again()
	if wrong := (*AddressError)(nil); err != nil && !errors.As(err, &wrong) {
		err = &AddressError{Reason: err.Error()}
	}
	return now, err
}

// dial connects to the primary, unless the database has just refused the credentials.
func (a *Address) dial(ctx context.Context, r role, change func(*pgx.ConnConfig)) (*conn, error) {
	if last := a.refused.Load(); last != nil && time.Since(last.at) < refusedPause {
		return nil, last.err
	}
	return a.try(ctx, r, change)
}

// try is dial without a pause. After a wrong password it reads the files once more: they may
// have been replaced since.
func (a *Address) try(ctx context.Context, r role, change func(*pgx.ConnConfig)) (c *conn, err error) {
	now, err := a.again()
	if err == nil {
		c, err = a.ask(ctx, now, r, change)
	}
	if hasCode(err, codeWrongPassword) {
		next, failed := a.again()
		if failed == nil && (next.url != now.url || next.config.Password != now.config.Password) {
			c, err = a.ask(ctx, next, r, change)
		}
	}
	switch {
	case err == nil:
		a.refused.Store(nil)
	case isRefusal(err):
		a.refused.Store(&refusal{err, time.Now()})
	}
	return c, err
}

// isRefusal reports whether a dial failed for its credentials, or for files that cannot be
// used. A host that says nothing does not count, and one that is only a standby, for
// example, has accepted them.
func isRefusal(err error) bool {
	each := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		each = joined.Unwrap()
	}
	refused := false
	for _, err := range each {
		var silent net.Error
		switch {
		case concernsCredentials(err):
			refused = true
		case !errors.As(err, &silent) && !errors.Is(err, context.DeadlineExceeded):
			return false
		}
	}
	return refused
}

func concernsCredentials(err error) bool {
	var (
		answer    *pgconn.PgError
		address   *AddressError
		theirs    *tls.CertificateVerificationError // as sslmode=verify-full finds it
		authority x509.UnknownAuthorityError        // as sslmode=verify-ca finds it
		invalid   x509.CertificateInvalidError
		op        *net.OpError
	)
	switch {
	case errors.As(err, &answer):
		return answer.Code[:2] == "28"
	case errors.As(err, &op):
		return op.Op == "remote error" // a TLS alert: the database does not take our certificate
	}
	return errors.As(err, &address) || errors.As(err, &theirs) || errors.As(err, &authority) || errors.As(err, &invalid)
}

const (
	codeWrongPassword = "28P01"
	codeTooMany       = "53300"
)

func hasCode(err error, code string) bool {
	var answer *pgconn.PgError
	return errors.As(err, &answer) && answer.Code == code
}

// heed tries to connect while the database refuses the credentials, and logs when it
// begins and ends to do so. said is whether it has logged the begin.
func (db *DB) heed(ctx context.Context, said bool) bool {
	refused := db.address.refused.Load()
	switch {
	case refused == nil && said:
		db.opts.Log.Info("database accepts new connections again")
	case refused != nil && !said:
		db.opts.Log.Warn("database refuses new connections", "reason", Reason(refused.err), "next", (&CredentialsError{}).Hint())
	}
	if refused != nil {
		dialing, cancel := context.WithTimeout(ctx, db.opts.wait(connectionWait))
		defer cancel()
		if c, err := db.address.try(dialing, roleReader, func(*pgx.ConnConfig) {}); err == nil {
			c.discard()
		}
	}
	return refused != nil
}

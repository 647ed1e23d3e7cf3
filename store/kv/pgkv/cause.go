package pgkv

import (
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// cause is why the database cannot be used, without the names and addresses that pgx puts
// into its errors.
type cause struct {
	reason string
	remedy string // the next step, or ""
	lasts  bool   // until somebody changes a setting, so that waiting is no use
}

// Reason returns why the database refused or did not answer.
func Reason(err error) string { return causeOf(err).reason }

// hostError is why a host was not connected to.
type hostError struct {
	host   string
	config *pgx.ConnConfig
	err    error
}

func (e *hostError) Error() string { return e.host + ": " + causeOf(e).reason }
func (e *hostError) Unwrap() error { return e.err }

// hostsError is why none of several hosts was connected to.
type hostsError []*hostError

func (e hostsError) Error() string { return causeOf(e).reason }

func (e hostsError) Unwrap() (each []error) {
	for _, one := range e {
		each = append(each, one)
	}
	return each
}

var (
	errReplica  = errors.New("pgkv: a replica")
	errReadOnly = errors.New("pgkv: read-only")
)

func causeOf(err error) cause {
	var several hostsError
	var host *hostError
	var refused *pgconn.PgError
	var address *AddressError
	var dns *net.DNSError
	var op *net.OpError
	var timeout net.Error
	switch {
	case errors.As(err, &several) && len(several) > 1:
		return causeOfHosts(several)
	case errors.As(err, &host):
		return host.cause()
	case errors.As(err, &refused):
		return sqlCause(refused)
	case errors.As(err, &address): // a file of it has changed
		return cause{reason: address.Reason, lasts: true}
	case errors.Is(err, errReplica):
		return cause{reason: "it is only a replica", remedy: "name the primary in the URL, or all hosts of the cluster"}
	case errors.Is(err, errReadOnly):
		return cause{reason: "it is read-only: default_transaction_read_only is on", remedy: "turn default_transaction_read_only off for the database and the user; a managed database turns it on when its disk is full"}
	case errors.As(err, &dns):
		return cause{reason: "its name does not resolve"}
	case errors.As(err, &timeout) && timeout.Timeout():
		return cause{reason: "it did not answer in time"}
	case errors.As(err, &op) && op.Op == "remote error": // a TLS alert
		return cause{reason: "it refused the TLS connection: " + op.Err.Error(), remedy: "check sslcert and sslkey of the URL, and what pg_hba.conf asks for", lasts: true}
	case errors.As(err, &op):
		return cause{reason: op.Err.Error()}
	}
	if c, is := certificateCause(err); is {
		return c
	}
	if strings.Contains(err.Error(), "server refused TLS connection") { // pgx has no type for it
		return cause{reason: "it does not accept TLS", remedy: "set ssl = on at the database, or check its port", lasts: true}
	}
	return cause{reason: "the connection broke"}
}

// causeOfHosts lets waiting end only when every host has to be corrected: one that is starting
// may be the primary, and a replica may not know the password or database yet.
func causeOfHosts(hosts hostsError) cause {
	all := cause{lasts: true}
	reasons := make([]string, len(hosts))
	for i, host := range hosts {
		one := causeOf(host)
		reasons[i] = host.host + ": " + one.reason
		all.lasts = all.lasts && one.lasts
		if all.remedy == "" {
			all.remedy = one.remedy
		}
	}
	all.reason = strings.Join(reasons, "; ")
	return all
}

// cause is what an error means while a connection is made.
func (e *hostError) cause() cause {
	c := causeOf(e.err)
	var refused *pgconn.PgError
	if !errors.As(e.err, &refused) {
		return c
	}
	name := e.parameterIn(refused.Message)
	switch code := refused.Code; {
	case e.config.Password == "" && strings.HasPrefix(c.reason, wrongPassword.reason):
		return cause{"it asks for a password, and none was given", "put the password into the file of --store-file, or into ~/.pgpass (PGPASSFILE)", true}
	case code == "42704" && name != "":
		return cause{"the URL has an unknown parameter: " + name + " (42704)", "correct " + name + ", or leave it out", true}
	case (code == "22023" || code == "55P02" || code == "42501" || code == "08P01") && name != "":
		return cause{"it does not accept the parameter " + name + " of the URL (" + code + ")", "correct " + name + ", or leave it out", true}
	case code == "42501":
		return cause{"the user may not connect to this database (42501)", "grant connect on the database to the user", true}
	}
	return c
}

// parameterIn returns the parameter of the URL that a message of the server names, or "".
func (e *hostError) parameterIn(message string) string {
	words := strings.FieldsFunc(message, func(r rune) bool {
		return r != '_' && r != '.' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
	for name := range e.config.RuntimeParams {
		if slices.ContainsFunc(words, func(word string) bool { return strings.EqualFold(word, name) }) {
			return name
		}
	}
	if _, has := e.config.RuntimeParams["options"]; has {
		return "options"
	}
	return ""
}

func certificateCause(err error) (cause, bool) {
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &authority):
		return cause{reason: "its certificate is not from an authority that is trusted here", remedy: "name the file with the certificate of its authority: sslrootcert=FILE in the URL", lasts: true}, true
	case errors.As(err, &name):
		return cause{reason: "its certificate has another name: " + certifiedNames(name.Certificate) + " and not " + name.Host, remedy: "use a name of the certificate as the host in the URL, or get a certificate for this one", lasts: true}, true
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return cause{reason: "its certificate has expired or is not valid yet", remedy: "renew the certificate of the database, and check the clock of this machine", lasts: true}, true
	case errors.As(err, &invalid):
		return cause{reason: "its certificate is not valid", remedy: "check the certificate of the database and sslrootcert of the URL", lasts: true}, true
	}
	return cause{}, false
}

const namesShown = 3 // of a certificate

func certifiedNames(c *x509.Certificate) string {
	names := c.DNSNames
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	switch {
	case len(names) == 0:
		return "none"
	case len(names) > namesShown:
		names = append(names[:namesShown:namesShown], "…")
	}
	return strings.Join(names, ", ")
}

var (
	wrongPassword   = cause{"the password is wrong, or the user is unknown", "correct the user or the password; a password may also have expired (VALID UNTIL)", true}
	unknownDatabase = cause{"the database does not exist", "create it, or correct the name in the URL", true}
	tooMany         = cause{reason: "it has too many connections", remedy: "raise max_connections, or the limit of the user or database; or lower --store-connections"}
)

// sqlCause names the errors that an operator can act on. Messages of PostgreSQL can
// contain names and values.
func sqlCause(e *pgconn.PgError) cause {
	var c cause
	switch e.Code {
	case "28P01":
		c = wrongPassword
	case "28000":
		c = cause{"pg_hba.conf does not allow this user, database or machine, or the user is unknown or may not log in", "correct the user, or add a line to pg_hba.conf", true}
	case "3D000":
		c = unknownDatabase
	case "42501":
		c = cause{"the user lacks a privilege", "grant the user its privileges on the database and the schema", true}
	case "53300":
		c = tooMany
	case "53100":
		c = cause{reason: "its disk is full"}
	case "57P03":
		c = cause{reason: "it is starting or stopping"}
	case "57P01", "57P02":
		c = cause{reason: "it is stopping or starting again"}
	case "25006":
		c = cause{reason: "it is read-only"}
	case "55000":
		c = cause{reason: "the database is not ready, or does not accept connections"}
	case "08P01":
		c = poolerCause(e.Message)
	}
	if c.reason == "" {
		return cause{reason: "SQLSTATE " + e.Code}
	}
	c.reason += " (" + e.Code + ")"
	return c
}

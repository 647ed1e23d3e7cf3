package pgkv

import (
	"cmp"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Address says where the database is and how to connect to it. Its String masks the
// password.
type Address struct {
	url     string
	schema  string // of the tables
	config  *pgx.ConnConfig
	primary atomic.Int64            // the host that was it last
	refused atomic.Pointer[refusal] // since the last dial that was accepted, or nil

	// Again, if set, reads the address again, for each dial. Without it the URL stays, and
	// only its pass file and certificates are read.
	Again func() (*Address, error)
}

// AddressError says what is wrong with the URL of a database. It does not repeat the URL.
type AddressError struct {
	Param  string // the parameter at fault, or ""
	Reason string
}

func (e *AddressError) Error() string { return e.Reason }

// SchemaDefault is the schema of the tables if no other is named.
const SchemaDefault = "tollhouse"

// UseSchema makes the address that of another schema; "" is [SchemaDefault]. A name has at
// most 40 letters, digits and _. Errors: *AddressError.
func (a *Address) UseSchema(name string) error {
	a.schema = cmp.Or(name, SchemaDefault)
	switch {
	case !isSchemaName.MatchString(a.schema):
		return &AddressError{Reason: "a schema has at most 40 letters, digits and _"}
	case a.schema == "public" || a.schema == "information_schema" || strings.HasPrefix(a.schema, "pg_"):
		return &AddressError{Reason: "tollhouse needs a schema of its own"}
	}
	return nil
}

var isSchemaName = regexp.MustCompile(`^[A-Za-z0-9_]{1,40}$`)

// Schema returns the schema of the tables.
func (a *Address) Schema() string { return a.schema }

func (a *Address) quotedSchema() string { return pgx.Identifier{a.schema}.Sanitize() }

// connectTimeout is for each host. A host that is down must not use up the time of those
// after it.
const connectTimeout = 2 * time.Second

// ParseAddress parses a URL as libpq and pgx do, with their environment variables and
// files. Errors: *AddressError.
func ParseAddress(text string) (*Address, error) {
	if !isDatabaseURL(text) {
		return nil, &AddressError{Reason: "it does not begin with postgres://"}
	}
	query := paramsOf(text)
	switch attrs := query.Get("target_session_attrs"); {
	case attrs != "" && attrs != "read-write":
		// A standby may still show a revoked token as valid.
		return nil, &AddressError{Param: "target_session_attrs", Reason: "tollhouse reads and writes on the primary only"}
	case attrs == "":
		text = addParam(text, "target_session_attrs=read-write")
	}
	config, err := pgx.ParseConfig(text)
	if err != nil {
		return nil, parseFault(err)
	}
	if config.ConnectTimeout == 0 || config.ConnectTimeout > connectTimeout && !query.Has("connect_timeout") {
		text = addParam(text, "connect_timeout="+strconv.Itoa(int(connectTimeout.Seconds())))
		if config, err = pgx.ParseConfig(text); err != nil {
			return nil, parseFault(err)
		}
	}
	if err := takeOutParams(config); err != nil {
		return nil, err
	}
	return &Address{url: text, schema: SchemaDefault, config: config}, nil
}

// parseFault keeps what pgx says after the URL, without what it quotes: part of a password
// that is not escaped may look like a port.
func parseFault(err error) error {
	reason := err.Error()
	if i := strings.LastIndex(reason, "`: "); i >= 0 {
		reason = reason[i+len("`: "):]
	}
	reason, _, _ = strings.Cut(reason, " (")
	if cause := errors.Unwrap(err); cause != nil && reason == "failed to configure TLS" {
		reason = cause.Error() // of files
	}
	return &AddressError{Reason: reason}
}

func isDatabaseURL(text string) bool {
	return strings.HasPrefix(text, "postgres://") || strings.HasPrefix(text, "postgresql://")
}

// paramsOf returns the parameters of a database URL. The password may contain a question
// mark, but no unescaped slash.
func paramsOf(text string) url.Values {
	_, rest := splitUser(text)
	_, query, _ := strings.Cut(rest, "?")
	values, _ := url.ParseQuery(query) // what cannot be parsed pgx refuses
	return values
}

func addParam(text, param string) string {
	_, rest := splitUser(text)
	if strings.Contains(rest, "?") {
		return text + "&" + param
	}
	return text + "?" + param
}

// splitUser returns the user part of a database URL, as pgx finds it, and what follows.
func splitUser(text string) (user, rest string) {
	_, rest, _ = strings.Cut(text, "://")
	if i := strings.IndexAny(rest, "@/"); i >= 0 && rest[i] == '@' {
		return rest[:i], rest[i+1:]
	}
	return "", rest
}

// HasPassword reports whether the URL itself contains a password.
func HasPassword(text string) bool {
	if !isDatabaseURL(text) {
		return false
	}
	user, rest := splitUser(text)
	_, password, _ := strings.Cut(user, ":")
	params := paramsOf(text)
	before, _, _ := strings.Cut(rest, "?")
	return password != "" || slices.ContainsFunc(secretParams, params.Has) || strings.Contains(before, "@")
}

const mask = "xxxxx"

// Mask returns the URL of a database without its passwords. It hides any other text.
func Mask(text string) string {
	if !isDatabaseURL(text) {
		return mask
	}
	scheme, _, _ := strings.Cut(text, "://")
	user, rest := splitUser(text)
	if strings.Contains(rest, "@") {
		return scheme + "://" + mask // a password with a slash looks like a path
	}
	if name, _, has := strings.Cut(user, ":"); has {
		user = name + ":" + mask
	}
	if user != "" {
		user += "@"
	}
	place, query, has := strings.Cut(rest, "?")
	if has {
		place += "?" + maskParams(query)
	}
	return scheme + "://" + user + place
}

func maskParams(query string) string {
	params := strings.Split(query, "&")
	for i, param := range params {
		raw, _, _ := strings.Cut(param, "=")
		name, err := url.QueryUnescape(raw)
		if err != nil || slices.Contains(secretParams, name) {
			params[i] = raw + "=" + mask
		}
	}
	return strings.Join(params, "&")
}

// String returns the URL without its passwords.
func (a *Address) String() string { return Mask(a.url) }

// URL returns the whole URL, for Options.
func (a *Address) URL() string { return a.url }

// SecretFiles returns the pass file and the key of the client certificate that are used if they exist.
func (a *Address) SecretFiles() []string {
	params := paramsOf(a.url)
	home, _ := os.UserHomeDir()
	return []string{
		cmp.Or(params.Get("passfile"), os.Getenv("PGPASSFILE"), filepath.Join(home, ".pgpass")),
		cmp.Or(params.Get("sslkey"), os.Getenv("PGSSLKEY"), filepath.Join(home, ".postgresql", "postgresql.key")),
	}
}

// Exposed returns the first host to which passwords and tokens would go over the network
// without a verified certificate, or "".
func (a *Address) Exposed() string {
	if isExposed(a.config.Host, a.config.Port, a.config.TLSConfig) {
		return a.config.Host
	}
	for _, f := range a.config.Fallbacks {
		if isExposed(f.Host, f.Port, f.TLSConfig) {
			return f.Host
		}
	}
	return ""
}

func isExposed(host string, port uint16, c *tls.Config) bool {
	if network, _ := pgconn.NetworkAddress(host, port); network == "unix" {
		return false
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return false
	}
	switch {
	case c == nil:
		return true
	case !c.InsecureSkipVerify: // verify-full
		return false
	}
	return c.VerifyPeerCertificate == nil || c.RootCAs == nil // unless verify-ca
}

// Hosts returns the hosts in the order in which they are tried.
func (a *Address) Hosts() []string {
	hosts := []string{hostPort(a.config.Host, a.config.Port)}
	for _, f := range a.config.Fallbacks {
		host := hostPort(f.Host, f.Port)
		if host != hosts[len(hosts)-1] { // one host has a fallback without TLS
			hosts = append(hosts, host)
		}
	}
	return hosts
}

func hostPort(host string, port uint16) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

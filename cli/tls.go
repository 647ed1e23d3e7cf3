package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/crypto/acme/autocert"
	"golang.org/x/net/idna"

	"tollhouse/handlers"
)

// serve speaks TLS itself when it has a certificate: one from files, which
// somebody else renews and which is taken over when they change, or one that it
// fetches and renews by ACME (tls_acme.go). Beside it there may be a listener of
// plain http that leads people on.

// tlsFlags are serve's settings of TLS.
type tlsFlags struct {
	mode, cert, key string
	directory, ca   string
	redirect        string
}

const (
	tlsOff   = "off"
	tlsAuto  = "auto"
	tlsFiles = "files"
)

func (f *tlsFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.mode, "tls", tlsOff, "off, auto (a certificate by ACME) or files; unless given, files when --tls-cert or --tls-key is")
	flags.StringVar(&f.cert, "tls-cert", "", "PEM `file` of the certificate and the issuers' behind it; taken over when it changes")
	flags.StringVar(&f.key, "tls-key", "", "PEM `file` of the certificate's private key")
	flags.StringVar(&f.directory, "acme-directory", autocert.DefaultACMEDirectory, "`URL` of the ACME directory that issues the certificate; to use it is to agree to its terms")
	flags.StringVar(&f.ca, "acme-ca", "", "PEM `file` of the issuers by which the ACME directory itself is known (default: the system's)")
	flags.StringVar(&f.redirect, "http-redirect", "", "`address` of a plain http listener that leads to https, and answers ACME")
}

// inferMode returns the mode, and takes files for the mode when files are named and no mode is.
// Our choice: --tls off turns off all of the others, so that one flag is enough
// to start without TLS in an environment that has it.
func inferMode(flags *pflag.FlagSet) (mode string) {
	named := flags.Lookup("tls-cert").Value.String() + flags.Lookup("tls-key").Value.String()
	f := flags.Lookup("tls")
	if !f.Changed && named != "" {
		_ = f.Value.Set(tlsFiles) // a string takes every value
	}
	return f.Value.String()
}

func (f *tlsFlags) on() bool { return f.mode != tlsOff }

// check refuses settings that do not go together, and returns the name that the
// certificate must be for, or "" when any will do.
func (f *tlsFlags) check(flags *pflag.FlagSet, c serverConfig) (host string, err error) {
	switch f.mode {
	case tlsOff:
		if flags.Changed("tls") {
			f.redirect = ""
			return "", nil
		}
	case tlsFiles:
		if f.cert == "" || f.key == "" {
			return "", usage("name the certificate's file with --tls-cert and its private key's with --tls-key", "--tls files needs two files")
		}
	case tlsAuto:
		if f.cert != "" || f.key != "" {
			return "", usage("leave them out, or say --tls files", "--tls auto fetches a certificate, and --tls-cert and --tls-key bring one")
		}
	default:
		return "", usage("give off, auto or files", "--tls %q is not a mode", f.mode)
	}
	for _, name := range []string{"acme-directory", "acme-ca"} {
		if f.mode != tlsAuto && flags.Changed(name) {
			return "", usage("say --tls auto, or leave it out", "--%s has no meaning unless certificates are fetched", name)
		}
	}
	if err := f.checkRedirect(c); err != nil || !f.on() {
		return "", err
	}
	if c.publicURL != nil && c.publicURL.Scheme != "https" {
		return "", fail(exitConfig, "write it as https://"+c.publicURL.Host+c.publicURL.Path+", or say --tls off", "--public-url %s is plain http, and --tls %s serves https", c.publicURL, f.mode)
	}
	if f.mode == tlsAuto {
		return acmeHost(c)
	}
	if c.publicURL == nil || len(c.proxies) > 0 {
		return "", nil // a proxy may reach us under another name than people reach it
	}
	return c.publicURL.Hostname(), nil
}

// open reads what the certificate comes from, or returns nil without TLS.
func (f *tlsFlags) open(host string, log *slog.Logger) (certificates, error) {
	switch f.mode {
	case tlsFiles:
		return openCertificateFiles(f.cert, f.key, host, log)
	case tlsAuto:
		return newACMECertificates(*f, host, log)
	}
	return nil, nil
}

func (f *tlsFlags) checkRedirect(c serverConfig) error {
	if f.redirect == "" {
		return nil
	}
	if !f.on() {
		return usage("say --tls auto or --tls files; behind a proxy, let that lead to https", "--http-redirect leads to https, which this server does not serve")
	}
	if err := checkAddress("http-redirect", f.redirect); err != nil {
		return err
	}
	if _, port, _ := net.SplitHostPort(f.redirect); port != "0" && slices.Contains(c.listen, f.redirect) {
		return usage("give each its own port, such as 443 and 80", "--http-redirect %s is where https is served", f.redirect)
	}
	return nil
}

// acmeHost is the name for which a certificate can be fetched.
func acmeHost(c serverConfig) (string, error) {
	if c.publicURL == nil {
		return "", fail(exitConfig, "add --public-url https://…, the address by which clients reach it", "--tls auto does not know for which name to fetch a certificate")
	}
	given := c.publicURL.Hostname()
	host, err := idna.Lookup.ToASCII(given)
	if _, isAddress := netip.ParseAddr(given); err != nil || isAddress == nil || !strings.Contains(strings.Trim(host, "."), ".") {
		return "", fail(exitConfig, "give a full DNS name that leads to this machine, or bring a certificate with --tls files", "no certificate can be fetched for %s", given)
	}
	return strings.TrimSuffix(host, "."), nil
}

// certificates has the certificate of a server that speaks TLS.
type certificates interface {
	config() *tls.Config
	status() certificateStatus
	// plain returns the handler of the plain http listener, over the one that it
	// has when there is nothing to add.
	plain(http.Handler) http.Handler
	// run does what is to be done behind the answers until ctx is done.
	run(ctx context.Context)
}

// certificateStatus is the certificate in use, as status and metrics tell it.
type certificateStatus struct {
	Source  string   `json:"source"`            // files or acme
	Names   []string `json:"names"`             // that it is for, or is to be for
	Expires int64    `json:"expires"`           // Unix seconds; 0 while there is none
	Problem string   `json:"problem,omitempty"` // why there is none, or no newer one
}

func (s *certificateStatus) describe(now time.Time) string {
	names := strings.Join(s.Names, ", ")
	text := "none yet for " + names
	if s.Expires != 0 {
		left := time.Unix(s.Expires, 0).Sub(now)
		text = fmt.Sprintf("%s, until %s (%s)", names, showTime(s.Expires), showDays(left))
	}
	text += ", from " + map[string]string{tlsFiles: "files", sourceACME: "ACME"}[s.Source]
	if s.Problem != "" {
		text += ": " + printable(s.Problem)
	}
	return text
}

func showDays(left time.Duration) string {
	switch days := int(left.Hours() / 24); {
	case left < 0:
		return "expired"
	case days == 0:
		return "less than a day"
	case days == 1:
		return "1 day"
	default:
		return fmt.Sprintf("%d days", days)
	}
}

// newTLSConfig spells out what an attacker would like to have otherwise: nothing
// below TLS 1.2 (RFC 9325 §3.1.1), whatever GODEBUG says. The cipher suites are
// Go's, which follow what is known; its defaults have no RC4 and no 3DES.
func newTLSConfig(get func(*tls.ClientHelloInfo) (*tls.Certificate, error), protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: get,
		NextProtos:     append([]string{"h2", "http/1.1"}, protocols...),
	}
}

// The limits of HTTP/2, where one connection carries many requests. Each has
// still its own deadlines, which the handlers move as they do over HTTP/1.1.
const (
	streamsMax        = 100       // at once; the least that RFC 9113 §6.5.2 recommends
	connectionReceive = 256 << 10 // bytes of bodies that nobody has read yet
	streamReceive     = 64 << 10  // of one request; as large as a token request may be
	silenceMax        = 30 * time.Second
	pingWait          = 15 * time.Second
)

// newSecureServer is a server of TLS.
func newSecureServer(h http.Handler, c *tls.Config, log *slog.Logger) *http.Server {
	s := handlers.NewHTTPServer(h, log)
	s.TLSConfig = c
	s.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams:          streamsMax,
		MaxReceiveBufferPerConnection: connectionReceive,
		MaxReceiveBufferPerStream:     streamReceive,
		// A reader of a stream who is gone without a word, and one who takes
		// nothing, give their connection back.
		SendPingTimeout:  silenceMax,
		PingTimeout:      pingWait,
		WriteByteTimeout: silenceMax,
	}
	return s
}

// publicListeners are the listeners with all that stands before their requests.
func (r *running) publicListeners() []net.Listener {
	var config *tls.Config
	if r.certificates != nil {
		config = r.certificates.config()
	}
	listeners := make([]net.Listener, len(r.listeners))
	for i, l := range r.listeners {
		if listeners[i] = r.visitors.through(l); config != nil {
			listeners[i] = tls.NewListener(listeners[i], config)
		}
	}
	return listeners
}

// publicServers are the servers of the public listeners and of that of plain http.
// Without TLS nothing listens for the second.
func (r *running) publicServers() (public, plain *http.Server) {
	if r.certificates == nil {
		return handlers.NewHTTPServer(r.server.Public(), r.log), handlers.NewHTTPServer(r.server.Plain(), r.log)
	}
	public = newSecureServer(r.server.Secure(), r.certificates.config(), r.log)
	if r.plain == nil {
		// Nor is the issuer told of a challenge that nobody would answer there.
		return public, handlers.NewHTTPServer(r.server.Plain(), r.log)
	}
	return public, handlers.NewHTTPServer(r.certificates.plain(r.server.Plain()), r.log)
}

const (
	lookEvery    = time.Second // at the files, at most
	lookIdle     = time.Minute // at the files, when nobody comes
	pemSizeMax   = 1 << 20     // bytes
	modeOfOthers = 0o007       // a group may be there to read the key: Debian's ssl-cert is
)

// certificateFiles is a certificate that somebody else renews.
type certificateFiles struct {
	cert, key, host string
	log             *slog.Logger

	used    atomic.Pointer[tls.Certificate]
	problem atomic.Pointer[error] // of the pair that was looked at last, or nil

	mu     sync.Mutex // held by whoever looks at the files
	looked time.Time
	seen   [2]fs.FileInfo // what was looked at last, sound or not
	warned string
}

// openCertificateFiles reads a certificate that is good for host, if that is
// named.
func openCertificateFiles(cert, key, host string, log *slog.Logger) (*certificateFiles, error) {
	c := &certificateFiles{cert: cert, key: key, host: host, log: log, looked: time.Now()}
	seen, err := c.stat()
	if err != nil {
		return nil, err
	}
	c.seen = seen
	pair, err := c.read(time.Now())
	if err != nil {
		return nil, err
	}
	c.use(pair)
	return c, nil
}

// use has handshakes use the pair that was seen last.
func (c *certificateFiles) use(pair *tls.Certificate) {
	c.used.Store(pair)
	if c.seen[1].Mode().Perm()&modeOfOthers != 0 {
		c.log.Warn("private key of TLS is open to other users", "path", c.key)
	}
}

func (c *certificateFiles) config() *tls.Config {
	return newTLSConfig(func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current(), nil })
}

func (c *certificateFiles) plain(h http.Handler) http.Handler { return h }

func (c *certificateFiles) run(ctx context.Context) {
	for sleep(ctx, lookIdle) == nil {
		c.current()
	}
}

func (c *certificateFiles) status() certificateStatus {
	leaf := c.current().Leaf
	s := certificateStatus{Source: tlsFiles, Names: namesOf(leaf), Expires: leaf.NotAfter.Unix()}
	if problem := c.problem.Load(); problem != nil {
		s.Problem = (*problem).Error()
	}
	return s
}

// current returns the certificate to use. It looks at the files first, unless
// that was done within the last second or is being done: nobody waits for it.
func (c *certificateFiles) current() *tls.Certificate {
	if c.mu.TryLock() {
		if now := time.Now(); now.Sub(c.looked) >= lookEvery {
			c.looked = now
			c.look(now)
		}
		c.mu.Unlock()
	}
	return c.used.Load()
}

// look takes a new pair over. One that is broken is told of once, and the one in
// use stays in use: it may be that only one of the two files was written so far.
func (c *certificateFiles) look(now time.Time) {
	seen, err := c.stat()
	if err != nil {
		c.seen = [2]fs.FileInfo{} // when they are back, they are read again
		c.reject(err)
		return
	}
	if unchanged(seen[0], c.seen[0]) && unchanged(seen[1], c.seen[1]) {
		return
	}
	pair, err := c.read(now)
	if err != nil {
		// It is read again at the next look: an owner, a clock or a limit may
		// change, and neither file shows that.
		c.seen = [2]fs.FileInfo{}
		c.reject(err)
		return
	}
	c.seen = seen
	c.use(pair)
	c.problem.Store(nil)
	c.warned = ""
	c.log.Info("certificate taken over", "names", strings.Join(namesOf(pair.Leaf), " "), "expires", pair.Leaf.NotAfter.UTC())
}

func (c *certificateFiles) reject(err error) {
	c.problem.Store(&err)
	if text := err.Error(); text != c.warned {
		c.warned = text
		c.log.Warn("changed certificate not taken over: the one from before stays in use", "err", err)
	}
}

func (c *certificateFiles) stat() (seen [2]fs.FileInfo, err error) {
	for i, path := range []string{c.cert, c.key} {
		if seen[i], err = os.Stat(path); err != nil {
			return seen, fileFault(path, err)
		}
	}
	return seen, nil
}

func unchanged(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// read reads the pair, and refuses one that no client would take.
func (c *certificateFiles) read(now time.Time) (*tls.Certificate, error) {
	cert, err := readPEM(c.cert)
	if err != nil {
		return nil, err
	}
	key, err := readPEM(c.key)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fail(exitConfig, "give the PEM files of a certificate and of the very key that it was made for, without a passphrase", "%s and %s are no pair: %w", c.cert, c.key, err)
	}
	leaf := pair.Leaf
	switch {
	case now.After(leaf.NotAfter):
		return nil, fail(exitConfig, "renew it, and start again", "the certificate %s expired on %s", c.cert, showTime(leaf.NotAfter.Unix()))
	case now.Before(leaf.NotBefore):
		return nil, fail(exitConfig, "check the clock of this machine", "the certificate %s is valid from %s on", c.cert, showTime(leaf.NotBefore.Unix()))
	case c.host != "" && leaf.VerifyHostname(c.host) != nil:
		return nil, fail(exitConfig, "have one made for "+c.host+", or correct --public-url", "the certificate %s is for %s, and not for %s", c.cert, strings.Join(namesOf(leaf), " "), c.host)
	}
	return &pair, nil
}

func readPEM(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fileFault(path, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, pemSizeMax))
	if err != nil {
		return nil, fileFault(path, err)
	}
	return text, nil
}

// fileFault is the fault of a file of TLS that cannot be read.
func fileFault(path string, err error) error {
	hint := "look what is there: ls -l " + quoteForShell(path)
	if errors.Is(err, fs.ErrPermission) {
		hint = "let " + userNamed(os.Geteuid()) + " read it, who serves; certbot's own files are for root alone, so have its deploy hook copy them"
	}
	return fail(exitConfig, hint, "cannot read %s: %w", path, pathReason(err))
}

const namesShown = 8

// namesOf lists what a certificate is for.
func namesOf(leaf *x509.Certificate) []string {
	names := slices.Clone(leaf.DNSNames)
	for _, ip := range leaf.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		names = []string{"no name"}
	}
	return names[:min(len(names), namesShown)]
}

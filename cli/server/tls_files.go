package server

import (
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
)

const (
	reloadEvery  = time.Second // at most, while there are handshakes
	reloadIdle   = time.Minute // without handshakes
	pemSizeMax   = 1 << 20     // bytes
	modeOfOthers = 0o007       // a group may read the key, such as Debian's ssl-cert
)

// certificateFiles is a certificate in files, renewed by another program.
type certificateFiles struct {
	cert, key string
	log       *slog.Logger

	used    atomic.Pointer[tls.Certificate]
	problem atomic.Pointer[error] // of the last pair read, or nil

	mu     sync.Mutex // held while the files are checked
	host   string
	looked time.Time
	seen   [2]fs.FileInfo // the last pair checked, valid or not
	warned string
}

// openCertificateFiles reads a certificate, which must be valid for host unless that is
// "".
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

// use makes handshakes use the pair.
func (c *certificateFiles) use(pair *tls.Certificate) {
	c.used.Store(pair)
	if c.seen[1].Mode().Perm()&modeOfOthers != 0 {
		c.log.Warn("tls private key is accessible to other users", "path", c.key)
	}
}

func (c *certificateFiles) config() *tls.Config {
	return newTLSConfig(func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current(), nil })
}

func (c *certificateFiles) plain(h http.Handler) http.Handler { return h }

func (c *certificateFiles) run(ctx context.Context) {
	for term.Sleep(ctx, reloadIdle) == nil {
		c.current()
	}
}

func (c *certificateFiles) status() admin.CertificateStatus {
	s := admin.CertificateStatus{Source: tlsFiles}
	fillCertificate(&s, c.current().Leaf)
	if problem := c.problem.Load(); problem != nil {
		s.Problem = (*problem).Error()
	}
	return s
}

// current returns the certificate to use. It checks the files first, unless that was done
// within the last second or is in progress: no handshake waits for another one's check.
func (c *certificateFiles) current() *tls.Certificate {
	if c.mu.TryLock() {
		if now := time.Now(); now.Sub(c.looked) >= reloadEvery {
			c.looked = now
			c.look(now)
		}
		c.mu.Unlock()
	}
	return c.used.Load()
}

// reload reads the files again, even if they look the same.
func (c *certificateFiles) reload() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looked, c.seen = time.Now(), [2]fs.FileInfo{}
	c.look(c.looked)
}

func (c *certificateFiles) rename(host string) {
	c.mu.Lock()
	c.host = host
	c.mu.Unlock()
	c.reload()
}

// look uses a changed pair. An invalid pair is logged once and the previous one stays
// in use: perhaps only one of the two files has been written so far.
func (c *certificateFiles) look(now time.Time) {
	seen, err := c.stat()
	if err != nil {
		c.seen = [2]fs.FileInfo{} // read them again when they are back
		c.reject(err)
		return
	}
	if unchanged(seen[0], c.seen[0]) && unchanged(seen[1], c.seen[1]) {
		return
	}
	pair, err := c.read(now)
	if err != nil {
		// Read it again next time: a change of the owner, the clock or a limit does not
		// show in the files.
		c.seen = [2]fs.FileInfo{}
		c.reject(err)
		return
	}
	c.seen = seen
	c.use(pair)
	c.problem.Store(nil)
	c.warned = ""
	c.log.Info("certificate reloaded", "names", strings.Join(namesOf(pair.Leaf), " "), "expires", pair.Leaf.NotAfter.UTC())
}

func (c *certificateFiles) reject(err error) {
	c.problem.Store(&err)
	if text := err.Error(); text != c.warned {
		c.warned = text
		c.log.Warn("changed certificate rejected: the previous one stays in use", "err", err)
	}
}

func (c *certificateFiles) stat() (seen [2]fs.FileInfo, err error) {
	for i, path := range []string{c.cert, c.key} {
		if seen[i], err = os.Stat(path); err != nil {
			return seen, fileError(path, err)
		}
	}
	return seen, nil
}

func unchanged(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// read reads the pair and refuses one that clients would reject.
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
	if err != nil { // perhaps only one of the two files has been written so far
		return nil, term.Fail(term.ExitBusy, "give the PEM files of a certificate and of its own private key, without a passphrase", "%s and %s do not match: %w", c.cert, c.key, err)
	}
	leaf := pair.Leaf
	switch {
	case now.After(leaf.NotAfter):
		return nil, term.Fail(term.ExitBusy, "renew it and start again", "the certificate %s expired on %s", c.cert, term.ShowTime(leaf.NotAfter.Unix()))
	case now.Before(leaf.NotBefore):
		return nil, term.Fail(term.ExitBusy, "check the clock of this machine", "the certificate %s is not valid before %s", c.cert, term.ShowTime(leaf.NotBefore.Unix()))
	case c.host != "" && leaf.VerifyHostname(c.host) != nil:
		return nil, term.Fail(term.ExitConfig, "get a certificate for "+c.host+", or correct --public-url", "the certificate %s is for %s, not for %s", c.cert, strings.Join(namesOf(leaf), " "), c.host)
	}
	return &pair, nil
}

func readPEM(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fileError(path, err)
	}
	defer f.Close()
	text, err := term.ReadText(f, pemSizeMax)
	if errors.Is(err, term.ErrUTF16) {
		return nil, term.Fail(term.ExitConfig, "save it as UTF-8", "cannot read %s: %w", path, err)
	}
	if err != nil {
		return nil, fileError(path, err)
	}
	return text, nil
}

// fileError is the error for a TLS file that cannot be read.
func fileError(path string, err error) error {
	hint := "check the file: ls -l " + term.ShellQuote(path)
	if errors.Is(err, fs.ErrPermission) {
		hint = "let the server's user, " + datadir.UserNamed(os.Geteuid()) + ", read it; only root can read certbot's files, so copy them in its deploy hook"
	}
	return term.Fail(term.UnreadableCode(err), hint, "cannot read %s: %w", path, term.PathReason(err))
}

package server

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
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
	"tollhouse/handlers"
)

const (
	reloadEvery  = time.Second // at the files, at most
	reloadIdle   = time.Minute // at the files, when nobody comes
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
		c.log.Warn("tls private key is open to other users", "path", c.key)
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

func (c *certificateFiles) status() handlers.CertificateStatus {
	s := handlers.CertificateStatus{Source: tlsFiles}
	fillCertificate(&s, c.current().Leaf)
	if problem := c.problem.Load(); problem != nil {
		s.Problem = (*problem).Error()
	}
	return s
}

// current returns the certificate to use. It looks at the files first, unless
// that was done within the last second or is being done: nobody waits for it.
func (c *certificateFiles) current() *tls.Certificate {
	if c.mu.TryLock() {
		if now := time.Now(); now.Sub(c.looked) >= reloadEvery {
			c.looked = now
			c.reload(now)
		}
		c.mu.Unlock()
	}
	return c.used.Load()
}

// reload takes a new pair over. One that is broken is told of once, and the one in
// use stays in use: it may be that only one of the two files was written so far.
func (c *certificateFiles) reload(now time.Time) {
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
		return nil, term.Fail(term.ExitConfig, "give the PEM files of a certificate and of its own private key, without a passphrase", "%s and %s do not match: %w", c.cert, c.key, err)
	}
	leaf := pair.Leaf
	switch {
	case now.After(leaf.NotAfter):
		return nil, term.Fail(term.ExitConfig, "renew it and start again", "the certificate %s expired on %s", c.cert, term.ShowTime(leaf.NotAfter.Unix()))
	case now.Before(leaf.NotBefore):
		return nil, term.Fail(term.ExitConfig, "check the clock of this machine", "the certificate %s is not valid before %s", c.cert, term.ShowTime(leaf.NotBefore.Unix()))
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
	text, err := io.ReadAll(io.LimitReader(f, pemSizeMax))
	if err != nil {
		return nil, fileError(path, err)
	}
	return text, nil
}

// fileError is the fault of a file of TLS that cannot be read.
func fileError(path string, err error) error {
	hint := "check the file: ls -l " + term.ShellQuote(path)
	if errors.Is(err, fs.ErrPermission) {
		hint = "let the server's user, " + datadir.UserNamed(os.Geteuid()) + ", read it; only root can read certbot's files, so copy them in its deploy hook"
	}
	return term.Fail(term.ExitConfig, hint, "cannot read %s: %w", path, term.PathReason(err))
}

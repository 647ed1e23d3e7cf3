package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"

	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
	"tollhouse/store"
	"tollhouse/store/record"
)

// acmeCertificates gets a certificate by ACME (RFC 8555) and renews it. Autocert alone
// would start an order for any name and key type that a handshake requests, so strangers
// could use up the issuer's rate limit. Here only run starts orders, by a handshake of
// its own (hello), for one name and for the key type that every TLS 1.2 client accepts,
// with pauses between them. All other handshakes get the current certificate.
type acmeCertificates struct {
	manager *autocert.Manager
	cache   *certificateCache
	reasons *acmeReasons
	host    atomic.Pointer[string]
	log     *slog.Logger

	mayOrder func() bool // whether this server orders the certificate

	renamed chan struct{}          // asks run for a certificate for another host
	first   chan struct{}          // closed after the first try
	has     atomic.Pointer[string] // the host whose certificate exists, and autocert renews it
	work    sync.WaitGroup
	problem atomic.Pointer[error]
}

const (
	sourceACME = "acme"

	acmeTimeout = 30 * time.Second // of one request to the directory

	// A try costs at most two validations, and Let's Encrypt allows five failed ones per
	// hour: two tries in the first hour, then one per hour.
	retryLeast = 5 * time.Minute
	retryMost  = time.Hour

	// A handshake waits this long for the first try: a stored certificate is ready
	// immediately, a new one usually within seconds.
	firstWait = 4 * time.Second

	// sharedLook is the time between two looks for a certificate that another server orders.
	sharedLook = 5 * time.Second

	// autocert renews when a third of the lifetime is left, and retries every hour.
	renewedLook = time.Hour
)

// newACMECertificates returns an ACME client for host. It sends no request before run.
func newACMECertificates(f tlsFlags, host, version string, log *slog.Logger) (*acmeCertificates, error) {
	if u, err := url.Parse(f.directory); err != nil || u.Scheme != "https" || u.Host == "" {
		return nil, term.Usage("give the URL that the issuer documents, for example "+autocert.DefaultACMEDirectory, "--acme-directory %q is not an https URL", term.MaskedURL(f.directory))
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if f.ca != "" {
		text, err := readPEM(f.ca)
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(text) {
			return nil, term.Fail(term.ExitConfig, "give a PEM file of the CA that signed the directory's own certificate", "%s contains no certificate", f.ca)
		}
	}
	a := &acmeCertificates{
		cache: &certificateCache{log: log}, reasons: &acmeReasons{next: transport}, log: log, renamed: make(chan struct{}, 1), first: make(chan struct{}),
		mayOrder: func() bool { return true },
	}
	a.host.Store(&host)
	a.manager = &autocert.Manager{
		Prompt: autocert.AcceptTOS, Cache: a.cache, HostPolicy: a.policy,
		Client: &acme.Client{
			DirectoryURL: f.directory, UserAgent: "tollhouse/" + version,
			HTTPClient: &http.Client{Transport: a.reasons, Timeout: acmeTimeout},
		},
	}
	return a, nil
}

// useStore sets the store that keeps the certificate. It must be called before run.
func (a *acmeCertificates) useStore(s *store.Store) { a.cache.store = s }

// share makes one of several servers order: the one for which mayOrder returns true. The
// others wait until the certificate is in the store. Challenges are there too, since any
// server may be asked.
func (a *acmeCertificates) share(mayOrder func() bool) {
	a.mayOrder, a.cache.shared = mayOrder, true
}

func (a *acmeCertificates) config() *tls.Config { return newTLSConfig(a.certificate, acme.ALPNProto) }

// plain answers the challenges of http-01 (RFC 8555 §8.3).
func (a *acmeCertificates) plain(h http.Handler) http.Handler { return a.manager.HTTPHandler(h) }

// policy allows orders and challenges for our host only, on any port.
func (a *acmeCertificates) policy(_ context.Context, host string) error {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(strings.TrimSuffix(host, "."), *a.host.Load()) {
		return nil
	}
	return errForeignName
}

var (
	errForeignName   = errors.New("the certificate is for another name")
	errNoCertificate = errors.New("no certificate yet")
)

// certificate answers a handshake.
func (a *acmeCertificates) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if slices.Equal(hello.SupportedProtos, []string{acme.ALPNProto}) {
		return a.manager.GetCertificate(hello) // a tls-alpn-01 challenge (RFC 8737)
	}
	if err := a.policy(hello.Context(), hello.ServerName); err != nil {
		return nil, err
	}
	select {
	case <-a.first:
	case <-time.After(firstWait):
	}
	return a.current()
}

// current returns the certificate in use.
func (a *acmeCertificates) current() (*tls.Certificate, error) {
	if a.has.Load() != a.host.Load() {
		return nil, errNoCertificate
	}
	return a.manager.GetCertificate(a.hello())
}

func (a *acmeCertificates) hello() *tls.ClientHelloInfo {
	return &tls.ClientHelloInfo{ServerName: *a.host.Load(), CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}}
}

func (a *acmeCertificates) reload() {}

// rename leaves the former certificate: no handshake gets it any more.
func (a *acmeCertificates) rename(host string) {
	if host == *a.host.Load() {
		return
	}
	a.host.Store(&host)
	select {
	case a.renamed <- struct{}{}:
	default:
	}
}

// run gets a certificate, unless one is stored, and watches its renewal.
func (a *acmeCertificates) run(ctx context.Context) {
	var firstTry sync.Once
	for ctx.Err() == nil {
		named, stop := context.WithCancel(ctx)
		a.work.Go(func() {
			a.runFor(named, &firstTry)
		})
		select {
		case <-a.renamed:
		case <-ctx.Done():
		}
		stop()
		a.work.Wait()
	}
}

// runFor is run for the present host, until ctx is done.
func (a *acmeCertificates) runFor(ctx context.Context, firstTry *sync.Once) {
	host := a.host.Load()
	for wait := retryLeast; ; wait = retryMost {
		for !a.mayOrder() && !a.cache.has(ctx, *host) {
			if term.Sleep(ctx, sharedLook) != nil {
				return
			}
		}
		err := a.fetch(ctx)
		if err == nil {
			a.problem.Store(nil)
			a.has.Store(host)
		}
		firstTry.Do(func() { close(a.first) })
		if err == nil || ctx.Err() != nil {
			break
		}
		a.problem.Store(&err)
		a.log.Warn("no certificate obtained", "err", err, "next_try_s", wait.Seconds())
		if term.Sleep(ctx, wait) != nil {
			return
		}
	}
	for known := a.logCertificate("certificate in use", nil); term.Sleep(ctx, renewedLook) == nil; {
		known = a.logCertificate("certificate renewed", known)
	}
}

// fetch makes autocert find or order the certificate. When ctx is done it does not wait
// for the order, which can take minutes.
func (a *acmeCertificates) fetch(ctx context.Context) error {
	a.reasons.forget()
	outcome := make(chan error, 1)
	go func() {
		_, err := a.manager.GetCertificate(a.hello())
		outcome <- err
	}()
	select {
	case err := <-outcome:
		if reason := a.reasons.last(); err != nil && reason != "" && !strings.Contains(err.Error(), reason) {
			return fmt.Errorf("%w: %s", err, reason)
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// logCertificate logs a certificate that differs from known, and one that is overdue.
func (a *acmeCertificates) logCertificate(what string, known *x509.Certificate) *x509.Certificate {
	cert, err := a.current()
	if err != nil {
		return known
	}
	leaf := cert.Leaf
	if known == nil || !leaf.Equal(known) {
		a.reasons.forget()
		a.log.Info(what, "names", strings.Join(namesOf(leaf), " "), "expires", leaf.NotAfter.UTC())
	}
	if isOverdue(leaf, time.Now()) {
		a.log.Warn("certificate not renewed", "expires", leaf.NotAfter.UTC(), "err", a.reasons.last())
	}
	return leaf
}

// isOverdue reports whether less than a quarter of the lifetime and less than 23 days are
// left. Autocert starts to renew at a third or 30 days, so it has been failing by then.
func isOverdue(leaf *x509.Certificate, now time.Time) bool {
	return leaf.NotAfter.Sub(now) < min(leaf.NotAfter.Sub(leaf.NotBefore)/4, 23*24*time.Hour)
}

func (a *acmeCertificates) status() admin.CertificateStatus {
	s := admin.CertificateStatus{Source: sourceACME, Names: []string{*a.host.Load()}}
	if problem := a.problem.Load(); problem != nil {
		s.Problem = (*problem).Error()
	}
	if cert, err := a.current(); err == nil {
		fillCertificate(&s, cert.Leaf)
		if isOverdue(cert.Leaf, time.Now()) {
			s.Problem = strings.TrimSuffix("not renewed: "+a.reasons.last(), ": ")
		}
	}
	return s
}

// certificateCache is autocert's cache: the account key and the certificate are in the
// store, challenges in memory, since the process that requested one answers it. Servers
// that share a store have the challenges there as well. A closed store refuses requests
// that autocert's timers still make.
type certificateCache struct {
	store    *store.Store
	shared   bool
	log      *slog.Logger
	inMemory sync.Map // challenges, and what the store refused, by name
}

// isChallenge reports whether name is autocert's for an http-01 or tls-alpn-01 challenge.
func isChallenge(name string) bool {
	return strings.HasSuffix(name, "+http-01") || strings.HasSuffix(name, "+token")
}

// Get implements autocert.Cache.
func (c *certificateCache) Get(ctx context.Context, name string) ([]byte, error) {
	if data, ok := c.inMemory.Load(name); ok {
		return data.([]byte), nil
	}
	if isChallenge(name) && !c.shared {
		return nil, autocert.ErrCacheMiss
	}
	data, err := c.store.FindCertificate(ctx, name)
	if errors.Is(err, record.ErrNotFound) {
		err = autocert.ErrCacheMiss
	}
	return data, err
}

// Put implements autocert.Cache. What the store refuses, for example on a full disk, is
// kept in memory: autocert would drop the certificate and order new ones until the
// issuer's rate limit.
func (c *certificateCache) Put(ctx context.Context, name string, data []byte) error {
	if isChallenge(name) && !c.shared {
		c.inMemory.Store(name, data)
		return nil
	}
	if err := c.store.UpdateCertificate(ctx, name, data); err != nil {
		c.log.Warn("certificate not stored: it is used until the server stops", "err", err)
		c.inMemory.Store(name, data)
		return nil
	}
	c.inMemory.Delete(name)
	return nil
}

// Delete implements autocert.Cache. Autocert deletes challenges only.
func (c *certificateCache) Delete(ctx context.Context, name string) error {
	c.inMemory.Delete(name)
	if c.shared && isChallenge(name) {
		return c.store.DeleteCertificate(ctx, name)
	}
	return nil
}

// has reports whether the cache has a certificate for host that is still valid. Autocert
// would order another one if it is not.
func (c *certificateCache) has(ctx context.Context, host string) bool {
	rest, err := c.Get(ctx, host)
	for err == nil {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type == "CERTIFICATE" { // the first is the host's
			leaf, err := x509.ParseCertificate(block.Bytes)
			return err == nil && time.Now().Before(leaf.NotAfter)
		}
	}
	return false
}

// acmeReasons collects errors from the directory's responses, because autocert reports
// only that a validation failed, while the issuer's own message ("connection refused",
// "no such name") is what an operator can act on.
type acmeReasons struct {
	next http.RoundTripper

	mu      sync.Mutex
	reasons []string // of one try
}

const (
	acmeAnswerMax  = 64 << 10 // bytes; an authorization is shorter
	acmeReasonMax  = 300      // characters of the issuer's message
	acmeReasonsMax = 2        // one for each kind of challenge
)

func (a *acmeReasons) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reasons = nil
}

func (a *acmeReasons) note(reason string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Contains(a.reasons, reason) {
		a.reasons = append(a.reasons[max(0, len(a.reasons)+1-acmeReasonsMax):], reason)
	}
}

func (a *acmeReasons) last() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Join(a.reasons, "; ")
}

// RoundTrip implements http.RoundTripper.
func (a *acmeReasons) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := a.next.RoundTrip(r)
	if err != nil {
		a.note(err.Error())
		return nil, err
	}
	if kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")); kind != "application/json" {
		return answer, nil
	}
	head, err := io.ReadAll(io.LimitReader(answer.Body, acmeAnswerMax))
	if err != nil {
		_ = answer.Body.Close()
		return nil, err
	}
	if reason := failedChallenge(head); reason != "" {
		a.note(reason)
	}
	answer.Body = readCloser{io.MultiReader(bytes.NewReader(head), answer.Body), answer.Body}
	return answer, nil
}

type readCloser struct {
	io.Reader
	io.Closer
}

// failedChallenge returns why a challenge of an authorization failed (RFC 8555
// §7.5.1), or "".
func failedChallenge(answer []byte) string {
	var authorization struct {
		Challenges []struct {
			Type  string `json:"type"`
			Error *struct {
				Detail string `json:"detail"`
			} `json:"error"`
		} `json:"challenges"`
	}
	if json.Unmarshal(answer, &authorization) != nil {
		return ""
	}
	for _, c := range authorization.Challenges {
		if c.Error != nil && c.Error.Detail != "" {
			text := []rune(c.Type + ": " + c.Error.Detail)
			return string(text[:min(len(text), acmeReasonMax)])
		}
	}
	return ""
}

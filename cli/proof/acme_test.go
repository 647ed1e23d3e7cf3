package proof

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tollhouse/store/storetest/must"

	"golang.org/x/net/dns/dnsmessage"
)

// pebble is the small ACME issuer of those who run the large one. It keeps to
// RFC 8555, forgets all when it stops, and refuses a part of all nonces, as the
// large one does under load.
const (
	pebblePackage = "github.com/letsencrypt/pebble/v2/cmd/pebble"
	pebbleVersion = "v2.10.1"
	pebbleWait    = 5 * time.Minute // to be built, once
)

var pebbleBuilt struct {
	once         sync.Once
	path, absent string
}

// pebbleProgram returns pebble, built outside of our module, which is to know
// nothing of it.
func pebbleProgram(t testing.TB) string {
	t.Helper()
	pebbleBuilt.once.Do(func() { pebbleBuilt.path, pebbleBuilt.absent = buildPebble() })
	must.Have(t, pebbleBuilt.absent == "", pebbleBuilt.absent)
	return pebbleBuilt.path
}

// buildPebble puts it into the user's cache, so that no other run has to.
func buildPebble() (path, absent string) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	home := filepath.Join(cache, "tollhouse-proof")
	path = filepath.Join(home, "pebble-"+pebbleVersion)
	if _, err := os.Stat(path); err == nil {
		return path, ""
	}
	if err := os.MkdirAll(home, 0o755); err != nil {
		return "", err.Error()
	}
	fresh, err := os.MkdirTemp(home, "pebble-new-")
	if err != nil {
		return "", err.Error()
	}
	defer os.RemoveAll(fresh)
	ctx, cancel := context.WithTimeout(context.Background(), pebbleWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "install", pebblePackage+"@"+pebbleVersion)
	cmd.Dir, cmd.Env = fresh, append(os.Environ(), "GOBIN="+fresh, "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Sprintf("pebble cannot be built: %v: %.500s", err, out)
	}
	// Whole or not at all; and another run may have been faster.
	if err := os.Rename(filepath.Join(fresh, "pebble"), path); err != nil {
		return "", err.Error()
	}
	return path, ""
}

// issuer is a running pebble.
type issuer struct {
	t             *testing.T
	directory, ca string         // what serve is told of it
	roots         *x509.CertPool // of the certificates that it issues
	said          *transcript
	process       *os.Process
	ended         chan struct{}
}

// startIssuer starts a pebble that finds every name on this machine, at these
// ports, and issues certificates for so many seconds.
func startIssuer(t *testing.T, tlsPort, httpPort, seconds int) *issuer {
	t.Helper()
	path := pebbleProgram(t)
	own := newKeyPair(t, false)
	i := &issuer{t: t, ca: own.cert, said: &transcript{}, ended: make(chan struct{})}
	address, management := must.FreeAddress(t), must.FreeAddress(t)
	config := map[string]any{"pebble": map[string]any{
		"listenAddress": address, "managementListenAddress": management, "certificate": own.cert, "privateKey": own.key,
		"tlsPort": tlsPort, "httpPort": httpPort, "keyAlgorithm": "ecdsa", "retryAfter": map[string]int{"authz": 1, "order": 1},
		"profiles": map[string]any{"default": map[string]any{"description": "the only one", "validityPeriod": seconds}},
	}}
	text := must.Get(json.Marshal(config))(t)
	file := filepath.Join(t.TempDir(), "pebble.json")
	must.Do(t, os.WriteFile(file, text, 0o600))
	cmd := exec.Command(path, "-config", file, "-dnsserver", startNames(t), "-strict")
	cmd.Env = append(environ(), "PEBBLE_VA_NOSLEEP=1")
	cmd.Stdout, cmd.Stderr = i.said, i.said
	must.Do(t, cmd.Start())
	i.process = cmd.Process
	go func() { _ = cmd.Wait(); close(i.ended) }()
	t.Cleanup(i.stop)
	i.directory = "https://" + address + "/dir"
	i.roots = x509.NewCertPool()
	caller := &http.Client{Timeout: requestWait, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: own.roots}, DisableKeepAlives: true}}
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		root, err := caller.Get("https://" + management + "/roots/0")
		if err == nil {
			text, err := io.ReadAll(root.Body)
			_ = root.Body.Close()
			if err != nil || !i.roots.AppendCertsFromPEM(text) {
				t.Fatalf("pebble's root is %q, %v", text, err)
			}
			return i
		}
		if time.Since(begun) > readyWait {
			t.Fatalf("pebble does not answer: %v\n%s", err, i.said.tail())
		}
	}
}

func (i *issuer) stop() {
	_ = i.process.Kill() // it keeps nothing
	<-i.ended
}

// count returns how often pebble said something.
func (i *issuer) count(what string) int { return strings.Count(i.said.all(), what) }

func portOf(t testing.TB, address string) int {
	t.Helper()
	resolved := must.Get(net.ResolveTCPAddr("tcp", address))(t)
	return resolved.Port
}

// startNames starts a name server, over TCP as pebble asks, for which every name
// is this machine and which knows nothing else.
func startNames(t *testing.T) (address string) {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	return answerEach(t, l, func(conn net.Conn) {
		for answerName(conn) == nil {
		}
	})
}

// answerName answers one question (RFC 1035 §4.2.2).
func answerName(conn net.Conn) error {
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return err
	}
	text := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(conn, text); err != nil {
		return err
	}
	var m dnsmessage.Message
	if err := m.Unpack(text); err != nil {
		return err
	}
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	for _, q := range m.Questions {
		if q.Type == dnsmessage.TypeA {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}, Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
			})
		}
	}
	text, err := m.Pack()
	if err != nil {
		return err
	}
	_, err = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(text))), text...))
	return err
}

// certificateStatus is what status tells of the certificate.
type certificateStatus struct {
	Source  string   `json:"source"`
	Names   []string `json:"names"`
	Expires int64    `json:"expires"`
	Problem string   `json:"problem"`
}

func (s *server) certificate() certificateStatus {
	s.t.Helper()
	var status struct {
		Certificate certificateStatus `json:"certificate"`
	}
	decode(s.t, s.run("status", "--json"), &status)
	return status.Certificate
}

// awaitCertificate waits until the server shows a certificate of the issuer that
// is good, for a name.
func (s *server) awaitCertificate(i *issuer, good func(*x509.Certificate) bool) *x509.Certificate {
	s.t.Helper()
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		shown, err := s.shownCertificate(i.roots, secureHost)
		if err == nil && good(shown) {
			return shown
		}
		if time.Since(begun) > acmeWait {
			s.t.Fatalf("no such certificate after %v: %v, status %+v\npebble said:\n%s", acmeWait, err, s.certificate(), i.said.tail())
		}
	}
}

const (
	acmeWait = time.Minute       // for what takes a few seconds
	acmeDays = 90 * 24 * 60 * 60 // seconds
)

func anyCertificate(*x509.Certificate) bool { return true }

// acmeServer starts a server that fetches its certificate.
func acmeServer(t *testing.T, i *issuer, dir, listen, redirect string) *server {
	t.Helper()
	s := start(t, "serve", "--data", dir, "--listen", listen, "--http-redirect", redirect, "--public-url", secureURL,
		"--tls", "auto", "--acme-directory", i.directory, "--acme-ca", i.ca)
	s.base = secureURL
	return s
}

// Promise (TLS and proxies): ACME by tls-alpn-01 and http-01: fetched and renewed for one name,
// never on a stranger's handshake
func TestACME(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	pebbleProgram(t)
	t.Run("acme_a_certificate_by_tls_alpn_01_is_kept_in_the_store", func(t *testing.T) {
		t.Parallel()
		listen, redirect, dir := must.FreeAddress(t), must.FreeAddress(t), filepath.Join(t.TempDir(), "data")
		i := startIssuer(t, portOf(t, listen), portOf(t, must.FreeAddress(t)), acmeDays)
		s := acmeServer(t, i, dir, listen, redirect)
		first := s.awaitCertificate(i, anyCertificate)
		if got := s.certificate(); got.Source != "acme" || got.Expires != first.NotAfter.Unix() || len(got.Names) != 1 || got.Names[0] != secureHost || got.Problem != "" {
			t.Errorf("status = %+v, want the certificate of %s until %v", got, secureHost, first.NotAfter)
		}
		issued := i.count("Issued certificate")
		for _, name := range []string{"bank.example", "www." + secureHost, "xn--pay.example"} {
			if _, err := s.shownCertificate(i.roots, name); err == nil {
				t.Errorf("a handshake for %s was answered", name)
			}
		}
		if conn, err := tls.Dial("tcp", listen, &tls.Config{InsecureSkipVerify: true}); err == nil {
			_ = conn.Close()
			t.Error("a handshake for no name was answered")
		}
		old := &tls.Config{RootCAs: i.roots, ServerName: secureHost, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}}
		if err := shakeHands(listen, old); err == nil {
			t.Error("a client that takes RSA only was served")
		}
		if now := i.count("Issued certificate"); issued != 1 || now != issued || i.count("Added order") != 1 {
			t.Errorf("%d certificates issued, then %d, want one and one order:\n%s", issued, now, i.said.tail())
		}
		caller := &http.Client{Transport: s.transport(i.roots, true), Timeout: requestWait}
		for path, want := range map[string]int{"/healthz": 200, "/login": 200} {
			a := must.Get(caller.Get(secureURL + path))(t)
			_ = a.Body.Close()
			if a.StatusCode != want || a.Header.Get("Strict-Transport-Security") == "" {
				t.Errorf("GET %s = %s, %v", path, a.Status, a.Header)
			}
		}
		s.stop()
		i.stop()

		s = acmeServer(t, i, dir, listen, redirect)
		if again := s.awaitCertificate(i, anyCertificate); !again.Equal(first) {
			t.Error("after a restart the certificate is another, want the one that was kept")
		}
		s.stop()

		// With another server key nobody can read what was kept.
		must.Do(t, os.Remove(filepath.Join(dir, "secret.key")))
		s = acmeServer(t, i, dir, listen, redirect)
		for begun := time.Now(); s.certificate().Problem == ""; time.Sleep(20 * time.Millisecond) {
			if time.Since(begun) > acmeWait {
				t.Fatalf("status = %+v, want why there is no certificate", s.certificate())
			}
		}
		if got := s.certificate(); got.Expires != 0 || !strings.Contains(got.Problem, "connection refused") {
			t.Errorf("status = %+v, want none, and that the issuer is not there", got)
		}
		if _, err := s.shownCertificate(i.roots, secureHost); err == nil {
			t.Error("a handshake without a certificate was answered")
		}
	})
	t.Run("acme_http_01_and_renewal", func(t *testing.T) {
		t.Parallel()
		const seconds = 12 // renewed when a third is left
		listen, redirect := must.FreeAddress(t), must.FreeAddress(t)
		i := startIssuer(t, portOf(t, must.FreeAddress(t)), portOf(t, redirect), seconds)
		s := acmeServer(t, i, filepath.Join(t.TempDir(), "data"), listen, redirect)
		first := s.awaitCertificate(i, anyCertificate)
		caller := &http.Client{Transport: s.transport(i.roots, false), Timeout: requestWait, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		for path, want := range map[string]int{"/login": 308, "/.well-known/acme-challenge/unknown": 404, "/.well-known/acme-challenge/a%00b": 404} {
			a := must.Get(caller.Get("http://" + secureHost + path))(t)
			_ = a.Body.Close()
			if a.StatusCode != want || a.Header.Get("X-Request-Id") == "" {
				t.Errorf("GET %s by plain http = %s, %v, want %d and a request id", path, a.Status, a.Header, want)
			}
		}
		second := s.awaitCertificate(i, func(c *x509.Certificate) bool { return !c.Equal(first) })
		if got := s.certificate(); got.Expires < second.NotAfter.Unix() || got.Problem != "" {
			t.Errorf("status = %+v, want the renewed certificate", got)
		}
	})
	t.Run("acme_a_refusal_is_told_in_the_issuers_words", func(t *testing.T) {
		t.Parallel()
		nobody := portOf(t, must.FreeAddress(t))
		i := startIssuer(t, nobody, nobody, acmeDays)
		s := acmeServer(t, i, filepath.Join(t.TempDir(), "data"), must.FreeAddress(t), must.FreeAddress(t))
		for begun := time.Now(); s.certificate().Problem == ""; time.Sleep(50 * time.Millisecond) {
			if time.Since(begun) > acmeWait {
				t.Fatal("status does not say why there is no certificate")
			}
		}
		got := s.certificate()
		for _, want := range []string{"tls-alpn-01: ", "http-01: ", "connection refused"} {
			if !strings.Contains(got.Problem, want) {
				t.Errorf("status = %+v, want %q in it", got, want)
			}
		}
		s.run("health") // it serves all the same
		if _, err := s.shownCertificate(i.roots, secureHost); err == nil {
			t.Error("a handshake without a certificate was answered")
		}
	})
}

package proof

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tollhouse/store/storetest/must"

	"golang.org/x/oauth2"
)

// The name and the address that the servers of these tests go by. The name leads
// nowhere; their callers dial the listeners.
const (
	secureHost = "pay.example"
	secureURL  = "https://" + secureHost
)

// keyPair is a certificate signed by its own key, in two files.
type keyPair struct {
	cert, key string
	roots     *x509.CertPool // that know it
}

// newKeyPair makes a certificate. Since Go 1.26 keys are random without a source
// of randomness.
func newKeyPair(t testing.TB, withRSA bool, names ...string) keyPair {
	t.Helper()
	dir := t.TempDir()
	p := keyPair{cert: filepath.Join(dir, "tls.crt"), key: filepath.Join(dir, "tls.key"), roots: x509.NewCertPool()}
	p.renew(t, withRSA, names...)
	return p
}

// renew replaces the files, as those do who renew certificates.
func (p keyPair) renew(t testing.TB, withRSA bool, names ...string) {
	t.Helper()
	var key crypto.Signer
	key, err := ecdsa.GenerateKey(elliptic.P256(), nil)
	if withRSA {
		key, err = rsa.GenerateKey(nil, 2048)
	}
	must.Do(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "tollhouse test"}, DNSNames: names,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(30 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der := must.Get(x509.CreateCertificate(nil, template, template, key.Public(), key))(t)
	secret := must.Get(x509.MarshalPKCS8PrivateKey(key))(t)
	for path, block := range map[string]*pem.Block{p.cert: {Type: "CERTIFICATE", Bytes: der}, p.key: {Type: "PRIVATE KEY", Bytes: secret}} {
		must.Do(t, os.WriteFile(path+".new", pem.EncodeToMemory(block), 0o600))
		must.Do(t, os.Rename(path+".new", path))
	}
	p.roots.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// startSecure starts a server that speaks TLS with a certificate of its own, and
// leads plain http there.
func startSecure(t testing.TB, p keyPair, args ...string) *server {
	t.Helper()
	s := startServe(t, filepath.Join(t.TempDir(), "data"), append([]string{
		"--public-url", secureURL, "--http-redirect", "127.0.0.1:0", "--tls-cert", p.cert, "--tls-key", p.key,
	}, args...)...)
	s.base = secureURL
	return s
}

// transport dials the server's listeners for every name: https where it listens,
// and http where it leads on.
func (s *server) transport(roots *x509.CertPool, http2 bool) *http.Transport {
	tr := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: http2, DisableCompression: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			to := s.ready.Listen[0]
			if strings.HasSuffix(address, ":80") {
				to = s.ready.Redirect
			}
			return (&net.Dialer{}).DialContext(ctx, network, to)
		},
	}
	if !http2 {
		tr.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	s.t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// shownCertificate is what the server shows in a handshake for a name.
func (s *server) shownCertificate(roots *x509.CertPool, name string) (*x509.Certificate, error) {
	ctx, cancel := context.WithTimeout(context.Background(), requestWait)
	defer cancel()
	d := &tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: name}}
	conn, err := d.DialContext(ctx, "tcp", s.ready.Listen[0])
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0], nil
}

// TestTLS is a server that speaks TLS itself.
//
// Promise (RFC 9110, RFC 9112): slow headers, bodies and readers; HTTP/2 and TLS on the plain port
// Promise (TLS and proxies): Strict-Transport-Security when TLS and the name are ours alone;
// sign-in, stream, long poll and stop work the same over TLS
func TestTLS(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	pair := newKeyPair(t, false, secureHost)
	s := startSecure(t, pair)
	creds := s.createClient("Larkspur Bookkeeping", callbackURI)
	s.createUser(odile, odileAccount, odilePassword)
	t.Run("a_handshake_that_never_comes_gives_its_place_back", func(t *testing.T) {
		t.Parallel()
		for _, begun := range []string{"", "\x16\x03\x01\x02"} {
			conn := must.Get(net.DialTimeout("tcp", s.ready.Listen[0], requestWait))(t)
			defer conn.Close()
			must.Get(io.WriteString(conn, begun))(t)
			must.Do(t, conn.SetReadDeadline(time.Now().Add(requestWait)))
			if _, err := io.Copy(io.Discard, conn); err != nil {
				t.Errorf("after %q and then nothing: %v, want the server to hang up", begun, err)
			}
		}
	})
	t.Run("plain_http_on_the_port_of_TLS", func(t *testing.T) {
		t.Parallel()
		a, err := (&http.Client{Timeout: requestWait}).PostForm("http://"+s.ready.Listen[0]+"/oauth/v2/token", url.Values{"client_secret": {creds.Secret}})
		must.Do(t, err)
		defer a.Body.Close()
		if text, err := io.ReadAll(a.Body); err != nil || a.StatusCode != http.StatusBadRequest || strings.Contains(string(text), creds.Secret) {
			t.Errorf("plain http is answered %s %q, %v; want 400 without what was sent", a.Status, text, err)
		}
	})
	for name, http2 := range map[string]bool{"HTTP_1.1": false, "HTTP_2": true} {
		t.Run("over_"+name, func(t *testing.T) {
			t.Parallel()
			s := s.in(t)
			t.Run("tls_a_sign_in_and_a_token", func(t *testing.T) { s.in(t).signInSecurely(t, creds, pair.roots, http2) })
			t.Run("tls_hsts_on_every_answer", func(t *testing.T) {
				caller := &http.Client{Transport: s.in(t).transport(pair.roots, http2), Timeout: requestWait}
				for _, path := range []string{"/", "/login", "/healthz", "/nothing", "/api/events", "/static/nothing"} {
					r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, secureURL+path, nil))(t)
					if a, err := exchange(caller, r); err != nil || a.header.Get("Strict-Transport-Security") != "max-age=31536000" {
						t.Errorf("GET %s = %v %v, want Strict-Transport-Security: max-age=31536000", path, a.header, err)
					}
				}
			})
			t.Run("what_is_live_goes_on_as_without_TLS", func(t *testing.T) {
				name := "lee." + strings.ToLower(name)
				liveOverTheWire(t, s.in(t).secureReader(t, creds, pair.roots, http2, name, "acct_live_"+strings.ToLower(strings.ReplaceAll(name, ".", "_"))))
			})
		})
	}
}

// signInSecurely is a person who types the address without https, signs in, and
// lets an application in.
func (s *server) signInSecurely(t *testing.T, creds credentials, roots *x509.CertPool, http2 bool) {
	t.Helper()
	tr := s.transport(roots, http2)
	client := must.Get(newVisitorClient(tr))(t)
	v := &visitor{t: t, http: client}
	config := &oauth2.Config{
		ClientID: creds.ID, ClientSecret: creds.Secret, RedirectURL: callbackURI,
		Endpoint: oauth2.Endpoint{AuthURL: "http://" + secureHost + "/oauth/v2/auth", TokenURL: secureURL + "/oauth/v2/token", AuthStyle: oauth2.AuthStyleInHeader},
	}
	verifier := oauth2.GenerateVerifier()
	question := v.signIn(config.AuthCodeURL("typed", oauth2.S256ChallengeOption(verifier)), odile, odilePassword)
	if question.url.Scheme != "https" || question.url.Host != secureHost {
		t.Errorf("http leads to %s, want %s", question.url, secureURL)
	}
	names := map[string]bool{}
	for _, c := range client.Jar.Cookies(mustParse(t, secureURL)) {
		names[c.Name] = true
	}
	if !names["__Host-tollhouse"] || len(client.Jar.Cookies(mustParse(t, "http://"+secureHost))) > 0 {
		t.Errorf("cookies %v, want __Host-tollhouse, and none for plain http", names)
	}
	arrived := v.allow(question).Query()
	if arrived.Get("iss") != secureURL || arrived.Get("state") != "typed" {
		t.Errorf("allow leads on with %v", arrived)
	}
	ctx := context.WithValue(t.Context(), oauth2.HTTPClient, &http.Client{Transport: tr, Timeout: requestWait})
	token := must.Get(config.Exchange(ctx, arrived.Get("code"), oauth2.VerifierOption(verifier)))(t)
	answer := must.Get(config.Client(ctx, token).Get(secureURL + "/api/events?limit=1"))(t)
	defer answer.Body.Close()
	want := "HTTP/1.1"
	if http2 {
		want = "HTTP/2.0"
	}
	if answer.StatusCode != http.StatusOK || answer.Proto != want {
		t.Errorf("the API answers %s over %s, want 200 over %s", answer.Status, answer.Proto, want)
	}
	plain, err := (&http.Client{Transport: tr, Timeout: requestWait}).PostForm("http://"+secureHost+"/oauth/v2/token", url.Values{"client_secret": {creds.Secret}})
	must.Do(t, err)
	defer plain.Body.Close()
	if text, _ := io.ReadAll(plain.Body); plain.StatusCode != http.StatusMethodNotAllowed || strings.Contains(string(text), creds.Secret) {
		t.Errorf("a secret by plain http is answered %s %s, want 405 without it", plain.Status, text)
	}
}

// secureReader is newReader over TLS.
func (s *server) secureReader(t *testing.T, c credentials, roots *x509.CertPool, http2 bool, name, account string) *reader {
	t.Helper()
	password := "the password of " + name
	s.createUser(name, account, password)
	r := &reader{client: &client{base: secureURL, credentials: c, http: &http.Client{Timeout: 2 * requestWait, Transport: s.transport(roots, http2)}}}
	pair, refused, err := r.grant(t.Context(), "password", "username", name, "password", password)
	if err != nil || pair.Access == "" {
		t.Fatalf("token of %s: %v %v", name, refused, err)
	}
	r.access = pair.Access
	return r
}

// TestTLSVersions offers what must not be taken any more, and shows that it was
// offered by having another server take it.
//
// Promise (Attacks on operations): broken TLS versions and ciphers
// Promise (Monitoring): TLS from 1.2 on
func TestTLSVersions(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	pair := newKeyPair(t, true, secureHost) // the old suites want RSA
	s := startSecure(t, pair)
	weak := weakServer(t, pair)
	const alertHandshake, alertVersion = "remote error: tls: handshake failure", "remote error: tls: protocol version not supported"
	for _, offer := range []struct {
		name   string
		config *tls.Config
		want   string
	}{
		{"TLS_1.0", &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS10}, alertVersion},
		{"TLS_1.1", &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, alertVersion},
		{"RC4", &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_RSA_WITH_RC4_128_SHA, tls.TLS_ECDHE_RSA_WITH_RC4_128_SHA}}, alertHandshake},
		{"3DES", &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_RSA_WITH_3DES_EDE_CBC_SHA, tls.TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA}}, alertHandshake},
		{"RSA_key_exchange", &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_RSA_WITH_AES_256_CBC_SHA}}, alertHandshake},
	} {
		t.Run(offer.name, func(t *testing.T) {
			t.Parallel()
			offer.config.RootCAs, offer.config.ServerName = pair.roots, secureHost
			if err := shakeHands(weak, offer.config); err != nil {
				t.Fatalf("a server that takes everything: %v; the offer is none", err)
			}
			if err := shakeHands(s.ready.Listen[0], offer.config); err == nil || err.Error() != offer.want {
				t.Errorf("handshake = %v, want %s", err, offer.want)
			}
		})
	}
	for name, version := range map[string]uint16{"TLS_1.2": tls.VersionTLS12, "TLS_1.3": tls.VersionTLS13} {
		t.Run("but_not_"+name, func(t *testing.T) {
			t.Parallel()
			if err := shakeHands(s.ready.Listen[0], &tls.Config{MinVersion: version, MaxVersion: version, RootCAs: pair.roots, ServerName: secureHost}); err != nil {
				t.Errorf("handshake = %v, want none", err)
			}
		})
	}
}

// shakeHands returns why there is no handshake. The server's last word in one of
// TLS 1.3 comes behind it, so that a byte is asked for too.
func shakeHands(address string, config *tls.Config) error {
	conn, err := net.DialTimeout("tcp", address, requestWait)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(requestWait)); err != nil {
		return err
	}
	c := tls.Client(conn, config)
	if _, err := io.WriteString(c, "GET /healthz HTTP/1.0\r\nHost: "+secureHost+"\r\n\r\n"); err != nil {
		return err
	}
	if n, err := c.Read(make([]byte, 1)); n == 0 {
		return err
	}
	return nil
}

// weakServer takes every version and every suite that Go still has.
func weakServer(t *testing.T, p keyPair) (address string) {
	t.Helper()
	pair := must.Get(tls.LoadX509KeyPair(p.cert, p.key))(t)
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS10}
	for _, suite := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		config.CipherSuites = append(config.CipherSuites, suite.ID)
	}
	l := must.Get(tls.Listen("tcp", "127.0.0.1:0", config))(t)
	return answerEach(t, l, func(conn net.Conn) { _, _ = io.CopyN(conn, conn, 1) })
}

// answerEach has each connection to l answered, until the test ends.
func answerEach(t *testing.T, l net.Listener, answer func(net.Conn)) (address string) {
	t.Helper()
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(requestWait))
				answer(conn)
			}()
		}
	}()
	return l.Addr().String()
}

// TestTLSReload renews the files under a server that runs.
//
// Promise (TLS and proxies): a certificate from files, reloaded when both change; a broken new pair
// leaves the old in use
func TestTLSReload(t *testing.T) {
	t.Parallel()
	t.Run("tls_files_renewed_under_a_running_server", func(t *testing.T) {
		t.Parallel()
		pair := newKeyPair(t, false, secureHost)
		s := startSecure(t, pair)
		caller := &http.Client{Transport: s.transport(pair.roots, true), Timeout: requestWait}
		asked := func() *x509.Certificate {
			t.Helper()
			a := must.Get(caller.Get(secureURL + "/healthz"))(t)
			defer a.Body.Close()
			_, _ = io.Copy(io.Discard, a.Body)
			return a.TLS.PeerCertificates[0]
		}
		first := asked()
		pair.renew(t, false, secureHost)
		var second *x509.Certificate
		for begun := time.Now(); second == nil || second.Equal(first); time.Sleep(20 * time.Millisecond) {
			var err error
			if second, err = s.shownCertificate(pair.roots, secureHost); err != nil || time.Since(begun) > requestWait {
				t.Fatalf("no new certificate after %v: %v", time.Since(begun), err)
			}
		}
		if !asked().Equal(first) {
			t.Error("the connection from before is another one now, want it to go on")
		}
	})
}

// TestHTTP2 is one connection over which an account's events are streamed to a
// reader who takes his time, while they are imported and while others ask.
//
// Promise (TLS and proxies): Strict-Transport-Security when TLS and the name are ours alone;
// sign-in, stream, long poll and stop work the same over TLS
func TestHTTP2(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	const account, events, askedMin = "acct_stream", 6000, 10
	pair := newKeyPair(t, false, secureHost)
	s := startSecure(t, pair)
	lee := s.secureReader(t, s.createClient("Live", callbackURI), pair.roots, true, "lee", account)
	var dials atomic.Int32
	tr := lee.http.Transport.(*http.Transport)
	tr.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10} // then the server has to wait
	dial := tr.DialContext
	tr.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		dials.Add(1)
		return dial(ctx, network, address)
	}
	tr.CloseIdleConnections()

	stream := lee.stream(t, "/api/events", "Last-Event-ID", noSuchEvent)
	stream.ready(t)
	history := filepath.Join(t.TempDir(), "history.ndjson")
	text := command(t, "", "event", "generate", "--seed", "11", "--events", fmt.Sprint(events), "--span", "30d")
	must.Do(t, os.WriteFile(history, text, 0o600))
	asking, enough := context.WithCancel(t.Context())
	others := make(chan int, 1)
	go func() {
		n := 0
		defer func() { others <- n }()
		for ; asking.Err() == nil || n < askedMin; n++ { // a quick import ends before a busy machine asks
			a, err := lee.send(t.Context(), http.MethodGet, "/api/events?limit=1", "", "Authorization", "Bearer "+lee.access)
			if err != nil || a.status != http.StatusOK {
				t.Errorf("beside a stream that is not read: %v, %v", a, err)
				return
			}
		}
	}()
	s.run("event", "import", history, "--account", account, "--quiet") // commands go by the admin socket, as ever
	enough()
	asked := <-others
	t.Run("http2_a_stream_outlives_the_deadlines_and_holds_up_nobody", func(t *testing.T) {
		for n := range events {
			if frame := stream.frame(t); !strings.HasPrefix(frame, "id: evt_") {
				t.Fatalf("frame %d = %.200s, want an event", n, frame)
			}
		}
		if must.Long() {
			time.Sleep(40 * time.Second) // longer than every deadline of a request
		}
		recorded := lee.recordOne(t, "last")
		if frame := stream.frame(t); !strings.HasPrefix(frame, "id: "+recorded+"\n") {
			t.Errorf("last frame = %.200s, want %s", frame, recorded)
		}
	})
	if n := dials.Load(); n != 1 || asked < askedMin {
		t.Errorf("%d connections for a stream and %d requests beside the import, want one", n, asked)
	}
	t.Run("http2_a_stop_tells_its_streams", func(t *testing.T) {
		ended := make(chan string, 1)
		go func() { ended <- stream.frame(t) }()
		s.stop()
		if got := <-ended; !strings.Contains(got, "event: end") || !strings.Contains(got, "restart") {
			t.Errorf("last frame = %q, want the end", got)
		}
	})
}

// recordOne records an event and returns its id.
func (r *reader) recordOne(t *testing.T, plan string) string {
	t.Helper()
	a, err := r.call(t.Context(), r.access, http.MethodPut, "/api/resources/plan/"+plan, `{}`)
	if err != nil || a.status != http.StatusCreated {
		t.Fatalf("PUT %s = %v %v", plan, a, err)
	}
	return a.header.Get("Tollhouse-Event")
}

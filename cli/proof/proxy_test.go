package proof

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"tollhouse/store/storetest/must"
)

// The proxies of docs/operations.md, each before the built binary: what stands in
// the document is what runs, with other ports, directories and certificate.

const (
	proxySection = "Behind nginx or Caddy"

	// The callers' addresses: one beyond the proxy, and what it claims to be.
	farAddress    = "127.0.0.2"
	forgedAddress = "203.0.113.9"

	hstsName = "Strict-Transport-Security"
)

// front is a proxy that runs before a server.
type front struct {
	*server
	public           string // the URL below which the server is
	transport        *http.Transport
	plain            string // the address where http is led on, or ""
	passesHost, hsts bool   // what the configuration says
	proxy            *os.Process
}

// TestProxies walks through a real nginx and a real Caddy.
func TestProxies(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile(filepath.Join("..", "..", "docs", "operations.md")))(t)
	chapter := section(string(text), proxySection)
	nginx, caddy := fencedBlocks(chapter, "nginx"), fencedBlocks(chapter, "caddy")
	if len(nginx) != 2 || len(caddy) != 2 {
		t.Fatalf("under %q stand %d blocks for nginx and %d for Caddy, want 2 and 2: for a name, and below a path", proxySection, len(nginx), len(caddy))
	}
	whole := regexp.MustCompile(`(?s)    location / \{\n        proxy_pass.*?\n    \}\n`)
	if !whole.MatchString(nginx[0]) {
		t.Fatal("the first block for nginx has no location / that passes on")
	}
	for _, tt := range []struct {
		name, path string
		start      func(t *testing.T, public, config string) *front
		config     string
	}{
		{"nginx_with_a_name_of_its_own", "", startNginx, nginx[0]},
		{"nginx_below_a_path", "/pay", startNginx, whole.ReplaceAllLiteralString(nginx[0], nginx[1]+"\n")},
		{"caddy_with_a_name_of_its_own", "", startCaddy, caddy[0]},
		{"caddy_below_a_path", "/pay", startCaddy, caddy[1]},
	} {
		t.Run("proxy_"+tt.name, func(t *testing.T) {
			t.Parallel()
			tt.start(t, secureURL+tt.path, tt.config).walk(t, tt.path)
		})
	}
}

// behind starts the server that the document has behind a proxy.
func behind(t *testing.T, public string) *server {
	t.Helper()
	return startServe(t, filepath.Join(t.TempDir(), "data"), "--public-url", public, "--trusted-proxies", "127.0.0.1/32")
}

// startNginx runs nginx on the configuration, in the foreground and in one
// process, so that it ends with its handle.
func startNginx(t *testing.T, public, config string) *front {
	f := &front{server: behind(t, public), public: public}
	f.runNginx(t, newKeyPair(t, false, secureHost), ownLoopback(t), config)
	return f
}

// runNginx runs it before the server, at ports 8443 and 8080 of an address.
func (f *front) runNginx(t *testing.T, pair keyPair, address, config string) {
	t.Helper()
	binary, dir := needTool(t, "nginx", "/usr/sbin/nginx"), t.TempDir()
	f.plain, f.passesHost, f.hsts = address+":8080", true, strings.Contains(config, hstsName)
	config = substituted(t, config, map[string]string{
		"listen 80;":            "listen " + address + ":8080;",
		"listen 443 ssl http2;": "listen " + address + ":8443 ssl http2;",
		"/var/www/html":         dir + "/html",
		"http://127.0.0.1:8080": f.base,
		"/etc/letsencrypt/live/" + secureHost + "/fullchain.pem": pair.cert,
		"/etc/letsencrypt/live/" + secureHost + "/privkey.pem":   pair.key,
	})
	whole := "daemon off;\nmaster_process off;\npid " + dir + "/nginx.pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n"
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		whole += kind + "_temp_path " + dir + "/" + kind + ";\n"
	}
	writeFile(t, filepath.Join(dir, "nginx.conf"), whole+config+"\n}\n")
	challenges := filepath.Join(dir, "html", ".well-known", "acme-challenge")
	must.Do(t, os.MkdirAll(challenges, 0o755))
	writeFile(t, filepath.Join(challenges, "asked"), "for")
	f.run(t, address+":8443", pair.roots, binary, "-p", dir, "-e", "stderr", "-c", filepath.Join(dir, "nginx.conf"))
}

// startCaddy runs Caddy on the configuration, with a certificate of ours in the
// place of the one that it would fetch.
func startCaddy(t *testing.T, public, config string) *front {
	binary := needTool(t, "caddy")
	s, pair, address, dir := behind(t, public), newKeyPair(t, false, secureHost), ownLoopback(t), t.TempDir()
	config = substituted(t, config, map[string]string{
		secureHost + " {\n": fmt.Sprintf("https://%s:8443 {\n\tbind %s\n\ttls %s %s\n", secureHost, address, pair.cert, pair.key),
		"127.0.0.1:8080":    s.ready.Listen[0],
	})
	config = "{\n\tadmin off\n\tauto_https disable_redirects\n\tstorage file_system " + dir + "\n}\n" + config
	writeFile(t, filepath.Join(dir, "Caddyfile"), config)
	f := &front{server: s, public: public, hsts: strings.Contains(config, hstsName)}
	f.run(t, address+":8443", pair.roots, binary, "run", "--adapter", "caddyfile", "--config", filepath.Join(dir, "Caddyfile"))
	return f
}

// substituted replaces each text of the configuration, which has to be there.
func substituted(t *testing.T, config string, places map[string]string) string {
	t.Helper()
	for from, to := range places {
		if !strings.Contains(config, from) {
			t.Fatalf("the configuration in docs/operations.md has no %q:\n%s", from, config)
		}
		config = strings.ReplaceAll(config, from, to)
	}
	return config
}

// run starts the proxy, has it stopped when the test ends, and waits until it
// takes connections.
func (f *front) run(t *testing.T, address string, roots *x509.CertPool, binary string, args ...string) {
	t.Helper()
	log := &transcript{}
	cmd := exec.Command(binary, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(environ(), "HOME="+t.TempDir())
	must.Do(t, cmd.Start())
	f.proxy = cmd.Process
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		// nginx in one process may go to sleep on a signal that it has just had.
		again, late := time.NewTicker(100*time.Millisecond), time.After(stopWait)
		defer again.Stop()
		for stopped := false; !stopped; {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			select {
			case <-ended:
				stopped = true
			case <-again.C:
			case <-late:
				_ = cmd.Process.Kill()
			}
		}
		if t.Failed() {
			t.Logf("the proxy's last words:\n%s", log.tail())
		}
	})
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(farAddress)}}
	f.transport = &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots}, DisableCompression: true, ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, network, asked string) (net.Conn, error) {
			switch asked {
			case secureHost + ":80":
				asked = f.plain
			case secureHost + ":443":
				asked = address
			}
			return dialer.DialContext(ctx, network, asked)
		},
	}
	t.Cleanup(f.transport.CloseIdleConnections)
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
			return
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("%s ended: %v\n%s", filepath.Base(binary), err, log.all())
		default:
		}
		if time.Since(begun) > readyWait {
			t.Fatalf("%s takes no connections: %v\n%s", filepath.Base(binary), err, log.all())
		}
	}
}

// walk is a client's and a person's way, and what strangers try.
func (f *front) walk(t *testing.T, path string) {
	caller := &client{base: f.public, http: &http.Client{Timeout: 2 * requestWait, Transport: f.transport}, credentials: f.createClient("Larkspur Bookkeeping", callbackURI)}
	f.createUser(odile, odileAccount, odilePassword)
	get := func(t *testing.T, address string, header ...string) answer {
		t.Helper()
		c := *caller
		c.base = ""
		c.http = &http.Client{Timeout: requestWait, Transport: f.transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		a, err := c.send(t.Context(), http.MethodGet, address, "", header...)
		if err != nil {
			t.Fatalf("GET %s: %v", address, err)
		}
		return a
	}

	t.Run("metadata_has_the_public_addresses", func(t *testing.T) {
		for _, at := range []string{f.public + "/.well-known/oauth-authorization-server", secureURL + "/.well-known/oauth-authorization-server" + path} {
			a, metadata := get(t, at), map[string]any{}
			decode(t, a.body, &metadata)
			if metadata["issuer"] != f.public {
				t.Errorf("%s: issuer %v, want %s", at, metadata["issuer"], f.public)
			}
			for name, value := range metadata {
				if address, is := value.(string); is && !strings.HasPrefix(address, f.public) {
					t.Errorf("%s: %s is %s, want it below %s", at, name, address, f.public)
				}
			}
		}
	})
	reader := &reader{client: caller}
	t.Run("sign_in_consent_code_token_refresh", func(t *testing.T) { reader.access = f.signIn(t, caller) })
	if reader.access == "" {
		return
	}
	t.Run("events_are_linked_and_streamed_by_the_public_address", func(t *testing.T) { f.follow(t, reader) })
	t.Run("a_stranger_to_the_site_is_led_to_the_public_address", func(t *testing.T) {
		a := get(t, f.public+"/account")
		to, err := mustParse(t, f.public+"/account").Parse(a.header.Get("Location"))
		if a.status/100 != 3 || err != nil || !strings.HasPrefix(to.String(), f.public+"/") {
			t.Errorf("GET /account = %d to %s, want a redirect below %s", a.status, to, f.public)
		}
	})
	t.Run("the_front_page_is_ours", func(t *testing.T) {
		for _, at := range []string{f.public, f.public + "/"} {
			if a := get(t, at); a.header.Get("X-Request-Id") == "" {
				t.Errorf("GET %s = %v, want an answer of ours", at, a)
			}
		}
	})
	t.Run("health_with_and_without_the_path", func(t *testing.T) {
		for _, at := range []string{f.public + "/healthz", f.public + "/readyz", f.base + "/healthz", f.base + path + "/readyz"} {
			if a := get(t, at); a.status != http.StatusOK {
				t.Errorf("GET %s = %v", at, a)
			}
		}
	})
	t.Run("what_is_not_ours_is_refused", func(t *testing.T) {
		foreign := &client{base: f.base, http: &http.Client{Timeout: requestWait, Transport: &hostTransport{"other.example", http.DefaultTransport}}}
		if a, err := foreign.send(t.Context(), http.MethodGet, path+"/account", ""); err != nil || !a.refused(http.StatusMisdirectedRequest, "misdirected_request") {
			t.Errorf("behind the proxy, by a foreign Host: %v, %v, want 421", a, err)
		}
		foreign.base, foreign.http.Transport = f.public, &hostTransport{"other.example", f.transport}
		a, err := foreign.send(t.Context(), http.MethodGet, "/account", "")
		if err != nil || strings.Contains(string(a.body), "<form") || a.status/100 == 3 {
			t.Errorf("by a foreign Host: %v, %v, want no page of ours", a, err)
		}
		if f.passesHost && !a.refused(http.StatusMisdirectedRequest, "misdirected_request") {
			t.Errorf("by a foreign Host: %v, want 421, since the proxy passes it on", a)
		}
		if a := get(t, secureURL+path+"/nowhere"); !a.refused(http.StatusNotFound, "not_found") {
			t.Errorf("GET /nowhere = %v, want our 404", a)
		}
		if path != "" {
			if a := get(t, secureURL+"/account"); strings.Contains(string(a.body), "<form") || a.status/100 == 3 {
				t.Errorf("GET /account beside %s = %v, want nothing of ours", path, a)
			}
			foreign.base, foreign.http.Transport = f.base, &hostTransport{secureHost, http.DefaultTransport}
			if a, err := foreign.send(t.Context(), http.MethodGet, "/account", ""); err != nil || !a.refused(http.StatusNotFound, "not_found") {
				t.Errorf("behind the proxy, without the path: %v, %v, want 404", a, err)
			}
		}
	})
	t.Run("the_record_has_the_callers_address_and_no_forged_one", func(t *testing.T) { f.forge(t, caller, path) })
	if f.plain != "" {
		t.Run("plain_http_leads_on_and_takes_no_secret", func(t *testing.T) { f.leadOn(t, get, path) })
	}
	t.Run("hsts_comes_from_the_proxy_alone", func(t *testing.T) {
		got := get(t, f.public+"/account").header.Values(hstsName)
		if f.hsts && (len(got) != 1 || got[0] != "max-age=31536000") || !f.hsts && len(got) > 0 {
			t.Errorf("%s %q, want what the proxy's configuration says", hstsName, got)
		}
	})
	t.Run("doctor_finds_the_proxy_well", func(t *testing.T) {
		for line := range strings.Lines(string(f.server.in(t).run("doctor", "--json"))) {
			var found struct{ Check, State, Detail string }
			decode(t, []byte(line), &found)
			// It warns of the caller above who was no proxy.
			if found.Check == "proxy" && !strings.Contains(found.Detail, farAddress+" sends X-Forwarded-For") {
				t.Errorf("doctor says %s", line)
			}
		}
	})
	t.Run("a_stop_reaches_those_who_stream", func(t *testing.T) {
		stream := reader.stream(t, "/api/events")
		stream.ready(t)
		f.server.in(t).stop()
		if got := stream.rest(t); !strings.HasSuffix(got, "event: end\ndata: {\"reason\":\"restart\"}\n\n") {
			t.Errorf("the stream ends with %q", got)
		}
		if a := get(t, f.public+"/healthz"); a.status != http.StatusBadGateway {
			t.Errorf("without a server the proxy answers %v, want 502", a)
		}
	})
}

// signIn walks from the login page to the second pair of tokens.
func (f *front) signIn(t *testing.T, caller *client) (access string) {
	recorded := &cookieRecorder{next: f.transport}
	browser := must.Get(newVisitorClient(recorded))(t)
	v := &visitor{t: t, http: browser}
	query := url.Values{"client_id": {caller.ID}, "response_type": {"code"}, "redirect_uri": {callbackURI}, "state": {"through the proxy"}}
	address := f.public + "/oauth/v2/auth?" + query.Encode()
	login := v.open(address)
	style := regexp.MustCompile(`href="([^"]*\.css)"`).FindStringSubmatch(login.body)
	if style == nil {
		t.Fatalf("the login page has no style sheet:\n%s", login.body)
	}
	at := must.Get(login.url.Parse(style[1]))(t)
	if sheet := v.open(at.String()); sheet.status != http.StatusOK || !strings.HasPrefix(at.String(), f.public+"/") {
		t.Errorf("the style sheet %s = %d, want 200 and it below %s", at, sheet.status, f.public)
	}
	arrived := v.allow(v.signIn(address, odile, odilePassword))
	q := arrived.Query()
	if !strings.HasPrefix(arrived.String(), callbackURI+"?") || q.Get("iss") != f.public || q.Get("state") != "through the proxy" {
		t.Errorf("allow leads to %s, want %s with the state and iss %s", arrived, callbackURI, f.public)
	}
	if len(recorded.lines) == 0 {
		t.Error("the sign-in set no cookie")
	}
	for _, line := range recorded.lines {
		if !strings.HasPrefix(line, "__Host-tollhouse") || !strings.Contains(line, "; Secure") || !strings.Contains(line, "; HttpOnly") || !strings.Contains(line, "; Path=/;") {
			t.Errorf("Set-Cookie: %s; want __Host-, Path=/, Secure and HttpOnly", line)
		}
	}
	first, refused, err := caller.grant(t.Context(), "authorization_code", "code", q.Get("code"), "redirect_uri", callbackURI)
	if err != nil || first.Access == "" {
		t.Fatalf("code grant: %v, %v", refused, err)
	}
	second, refused, err := caller.grant(t.Context(), "refresh_token", "refresh_token", first.Refresh)
	if err != nil || second.Access == "" || second.same(first) {
		t.Fatalf("refresh grant: %v, %v", refused, err)
	}
	return second.Access
}

// follow reads pages, a stream and a long poll, each with something to come.
func (f *front) follow(t *testing.T, r *reader) {
	r.recordOne(t, "first")
	r.recordOne(t, "second")
	a := r.get(t, "/api/events?limit=1")
	links := regexp.MustCompile(`<([^>]*)>`).FindAllStringSubmatch(a.header.Get("Link"), -1)
	if len(links) == 0 {
		t.Errorf("a page with more behind it has the Link header %q", a.header.Get("Link"))
	}
	for _, link := range links {
		to, err := a.url.Parse(link[1])
		if err != nil || !strings.HasPrefix(to.String(), f.public+"/api/events?") {
			t.Errorf("Link leads to %s, want it below %s", to, f.public)
		} else if next := r.get(t, strings.TrimPrefix(to.String(), f.public)); next.status != http.StatusOK {
			t.Errorf("%s leads to %v", to, next)
		}
	}
	stream := r.stream(t, "/api/events")
	stream.ready(t)
	polled := make(chan answer, 1)
	go func() {
		a, err := r.send(t.Context(), http.MethodGet, "/api/events?order=asc&after=latest&wait=50", "", "Authorization", "Bearer "+r.access)
		if err != nil {
			t.Errorf("long poll: %v", err)
		}
		polled <- a
	}()
	f.awaitReaders(t, 2)
	begun := time.Now()
	id := r.recordOne(t, "awaited")
	if frame := stream.frame(t); !strings.HasPrefix(frame, "id: "+id+"\n") {
		t.Errorf("frame = %s, want %s", frame, id)
	}
	var p eventPage
	if decode(t, (<-polled).body, &p); len(p.Data) != 1 || p.Data[0].ID != id {
		t.Errorf("the long poll gets %+v, want %s", p, id)
	}
	// What is held back comes with the next heartbeat, or not at all.
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("the event came after %v, want it at once", took)
	}
}

// awaitReaders returns when so many wait for events.
func (f *front) awaitReaders(t *testing.T, n int) {
	t.Helper()
	admin := &http.Client{Timeout: requestWait, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", f.ready.AdminSocket)
	}}}
	want := fmt.Sprintf("\ntollhouse_events_live_readers %d\n", n)
	for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		a := must.Get(admin.Get("http://tollhouse/metrics"))(t)
		text, _ := io.ReadAll(a.Body)
		a.Body.Close()
		if strings.Contains(string(text), want) {
			return
		}
		if time.Since(begun) > requestWait {
			t.Fatalf("no %d readers wait after %v", n, requestWait)
		}
	}
}

// forge asks with a wrong password, under addresses that are not the caller's.
func (f *front) forge(t *testing.T, caller *client, path string) {
	direct := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(farAddress)}}
	beside := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return direct.DialContext(ctx, network, f.ready.Listen[0])
	}}
	trusted := &http.Transport{DisableKeepAlives: true}
	for _, tt := range []struct {
		name, base, want string
		transport        http.RoundTripper
		claim            []string
	}{
		{"through the proxy", f.public, farAddress, f.transport, nil},
		{"through the proxy, with a claim", f.public, farAddress, f.transport, []string{"X-Forwarded-For", forgedAddress}},
		{"past the proxy, with a claim", f.base + path, farAddress, &hostTransport{secureHost, beside}, []string{"X-Forwarded-For", forgedAddress}},
		{"by the proxy's own word", f.base + path, forgedAddress, &hostTransport{secureHost, trusted}, []string{"X-Forwarded-For", forgedAddress}},
	} {
		c := &client{base: tt.base, http: &http.Client{Timeout: requestWait, Transport: tt.transport}, credentials: caller.credentials}
		form := url.Values{"grant_type": {"password"}, "client_id": {c.ID}, "client_secret": {c.Secret}, "username": {odile}, "password": {"not the right one"}}
		a, err := c.send(t.Context(), http.MethodPost, "/oauth/v2/token", form.Encode(), append(tt.claim, "Content-Type", "application/x-www-form-urlencoded")...)
		if err != nil || a.status != http.StatusBadRequest {
			t.Fatalf("%s: %v, %v, want 400", tt.name, a, err)
		}
		if got := f.sourceOf(t, a.header.Get("X-Request-Id")); got != tt.want {
			t.Errorf("%s: the record has the source %q, want %s", tt.name, got, tt.want)
		}
	}
}

// sourceOf finds a request in the audit record, which is written behind the answer.
func (f *front) sourceOf(t *testing.T, request string) string {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < requestWait; time.Sleep(50 * time.Millisecond) {
		for line := range strings.Lines(string(f.server.in(t).run("audit", "--json"))) {
			var l struct {
				Source  string `json:"source"`
				Request string `json:"request_id"`
			}
			must.Do(t, json.Unmarshal([]byte(line), &l))
			if l.Request == request {
				return l.Source
			}
		}
	}
	t.Fatalf("no line of the audit record is of request %q", request)
	return ""
}

// leadOn asks where http is spoken.
func (f *front) leadOn(t *testing.T, get func(*testing.T, string, ...string) answer, path string) {
	address := "http://" + secureHost + path + "/account?from=here"
	if a := get(t, address); a.status != http.StatusPermanentRedirect || a.header.Get("Location") != "https"+strings.TrimPrefix(address, "http") {
		t.Errorf("GET %s = %d to %s, want 308 to the same by https", address, a.status, a.header.Get("Location"))
	}
	c := &client{base: "http://" + secureHost + path, http: &http.Client{Timeout: requestWait, Transport: f.transport}}
	if a, err := c.send(t.Context(), http.MethodPost, "/oauth/v2/token", "client_secret=secret", "Content-Type", "application/x-www-form-urlencoded"); err != nil || a.status != http.StatusMethodNotAllowed {
		t.Errorf("a secret by plain http: %v, %v, want 405", a, err)
	}
	if a := get(t, "http://"+secureHost+"/.well-known/acme-challenge/asked"); a.status != http.StatusOK || string(a.body) != "for" {
		t.Errorf("the challenge of an issuer: %v, want the file", a)
	}
}

// hostTransport asks for another host than it connects to.
type hostTransport struct {
	host string
	next http.RoundTripper
}

func (h *hostTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Host = h.host
	return h.next.RoundTrip(r)
}

// cookieRecorder keeps the cookies that are set, as they are sent.
type cookieRecorder struct {
	next  http.RoundTripper
	lines []string
}

func (c *cookieRecorder) RoundTrip(r *http.Request) (*http.Response, error) {
	a, err := c.next.RoundTrip(r)
	if err == nil {
		c.lines = append(c.lines, a.Header.Values("Set-Cookie")...)
	}
	return a, err
}

// ownLoopback returns an address of this machine on which nobody else listens, so
// that ports can be chosen beforehand. Linux has all of 127.0.0.0/8.
func ownLoopback(t testing.TB) string {
	t.Helper()
	for range 5 {
		address := fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
		l, err := net.Listen("tcp", address+":0")
		if err == nil {
			l.Close()
			return address
		}
	}
	must.Have(t, false, "this system has no loopback address but 127.0.0.1")
	return ""
}

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
}

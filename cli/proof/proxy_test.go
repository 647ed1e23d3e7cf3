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
	proxySection = "Behind nginx, Apache or Caddy"

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

// TestProxies walks through a real nginx, a real Apache and a real Caddy.
//
// Promise (Browsers): behind a proxy on any port our own forms are ours, with a Host that lacks the
// port too; doctor sees that
// Promise (TLS and proxies): a whole walk behind nginx, Apache and Caddy, below a path and on other
// ports too; a newcomer with that page gets a token, TLS, and a backup restored elsewhere
func TestProxies(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	text := must.Get(os.ReadFile(filepath.Join("..", "..", "docs", "operations.md")))(t)
	chapter := section(string(text), proxySection)
	nginx, apache, caddy := fencedBlocks(chapter, "nginx"), fencedBlocks(chapter, "apache"), fencedBlocks(chapter, "caddy")
	if len(nginx) != 2 || len(apache) != 2 || len(caddy) != 2 {
		t.Fatalf("under %q stand %d blocks for nginx, %d for Apache and %d for Caddy, want 2 each: for a name, and below a path", proxySection, len(nginx), len(apache), len(caddy))
	}
	whole := regexp.MustCompile(`(?s)    location / \{\n        proxy_pass.*?\n    \}\n`)
	passes := regexp.MustCompile(`    ProxyPass / .*\n`)
	if !whole.MatchString(nginx[0]) || !passes.MatchString(apache[0]) {
		t.Fatal("the first block for nginx or Apache has no location / that passes on")
	}
	for _, tt := range []struct {
		name, path string
		start      func(t *testing.T, public, config string) *front
		config     string
	}{
		{"nginx_with_a_name_of_its_own", "", startNginx, nginx[0]},
		{"nginx_below_a_path", "/pay", startNginx, whole.ReplaceAllLiteralString(nginx[0], nginx[1]+"\n")},
		{"apache_with_a_name_of_its_own", "", startApache, apache[0]},
		{"apache_below_a_path", "/pay", startApache, passes.ReplaceAllLiteralString(apache[0], apache[1]+"\n")},
		{"caddy_with_a_name_of_its_own", "", startCaddy, caddy[0]},
		{"caddy_below_a_path", "/pay", startCaddy, caddy[1]},
	} {
		t.Run("proxy_"+tt.name, func(t *testing.T) {
			t.Parallel()
			tt.start(t, secureURL+tt.path, tt.config).walk(t, tt.path)
		})
	}
	for _, tt := range []struct {
		name, public string
		start        func(t *testing.T, public, config string) *front
		config       string
		passesPort   bool
	}{
		{"nginx", secureURL + ":8443", startNginx, nginx[0], true},
		{"nginx_that_removes_the_port", secureURL + ":8443", startNginx, strings.ReplaceAll(nginx[0], "$http_host", "$host"), false},
		{"nginx_over_plain_http", plainURL, startNginx, overPlainHTTP(nginx[0]), true},
		{"nginx_over_plain_http_that_removes_the_port", plainURL, startNginx, strings.ReplaceAll(overPlainHTTP(nginx[0]), "$http_host", "$host"), false},
		{"apache", secureURL + ":8443", startApache, apache[0], true},
		{"apache_over_plain_http", plainURL, startApache, overPlainHTTP(apache[0]), true},
		{"caddy", secureURL + ":8443", startCaddy, caddy[0], true},
		{"caddy_over_plain_http", plainURL, startCaddy, caddy[0], true},
	} {
		t.Run("another_port_"+tt.name, func(t *testing.T) {
			t.Parallel()
			tt.start(t, tt.public, tt.config).signInAtAPort(t, tt.passesPort)
		})
	}
}

const plainURL = "http://" + secureHost + ":8443"

// overPlainHTTP is a configuration without its certificate.
func overPlainHTTP(config string) string {
	config = regexp.MustCompile(`(?m)^    (SSL|ssl_).*\n`).ReplaceAllString(config, "")
	return strings.ReplaceAll(config, "listen 443 ssl http2;", "listen 443;")
}

// signInAtAPort signs in with a browser that sends no Fetch Metadata, and asks doctor.
func (f *front) signInAtAPort(t *testing.T, passesPort bool) {
	f.createUser(odile, odileAccount, odilePassword)
	browser := must.Get(newVisitorClient(&originTransport{f.public, f.transport}))(t)
	v := &visitor{t: t, http: browser}
	if p := v.submit(v.open(f.public+"/login"), "username", odile, "password", odilePassword); p.status != http.StatusOK || !strings.Contains(p.body, "Signed in as") {
		t.Errorf("sign-in ends with %d:\n%s", p.status, p.body)
	}
	browser.Transport = &originTransport{"http://evil.example", f.transport}
	if p := v.submit(v.open(f.public+"/"), "username", odile); p.status != http.StatusForbidden {
		t.Errorf("a form of another site ends with %d, want 403", p.status)
	}
	found := string(f.server.in(t).run("doctor", "--json"))
	if warned := strings.Contains(found, "lacks the port"); warned == passesPort {
		t.Errorf("doctor warns of the port: %t, want %t:\n%s", warned, !passesPort, found)
	}
}

// originTransport sends the Origin of a page with every form.
type originTransport struct {
	origin string
	next   http.RoundTripper
}

func (o *originTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPost {
		r = r.Clone(r.Context())
		r.Header.Set("Origin", o.origin)
	}
	return o.next.RoundTrip(r)
}

// behind starts the server that the document has behind a proxy.
func behind(t *testing.T, public string) *server {
	t.Helper()
	args := []string{"--public-url", public, "--trusted-proxies", "127.0.0.1/32"}
	if strings.HasPrefix(public, "http:") {
		args = append(args, "--insecure-http")
	}
	return startServe(t, filepath.Join(t.TempDir(), "data"), args...)
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
	places := map[string]string{
		"listen 80;":            "listen " + address + ":8080;",
		"listen 443":            "listen " + address + ":8443",
		"/var/www/html":         dir + "/html",
		"http://127.0.0.1:8080": f.base,
	}
	if f.isSecure() {
		places["/etc/letsencrypt/live/"+secureHost+"/fullchain.pem"], places["/etc/letsencrypt/live/"+secureHost+"/privkey.pem"] = pair.cert, pair.key
	}
	config = substituted(t, config, places)
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

func (f *front) isSecure() bool { return strings.HasPrefix(f.public, "https:") }

// apacheModules are those that Debian enables from the start, as far as the configuration
// needs them, and those that the document enables.
var apacheModules = []string{"mpm_event", "authz_core", "socache_shmcb", "headers", "proxy", "proxy_http", "ssl"}

// startApache runs Apache on the configuration, in the foreground.
func startApache(t *testing.T, public, config string) *front {
	binary := needTool(t, "apache2", "/usr/sbin/apache2")
	f := &front{server: behind(t, public), public: public, passesHost: true, hsts: strings.Contains(config, hstsName)}
	pair, address, dir := newKeyPair(t, false, secureHost), ownLoopback(t), t.TempDir()
	places := map[string]string{"<VirtualHost *:443>": "<VirtualHost " + address + ":8443>", "http://127.0.0.1:8080": f.base}
	if f.isSecure() {
		places["/etc/letsencrypt/live/"+secureHost+"/fullchain.pem"], places["/etc/letsencrypt/live/"+secureHost+"/privkey.pem"] = pair.cert, pair.key
	}
	whole := "ServerRoot " + dir + "\nDefaultRuntimeDir " + dir + "\nPidFile " + dir + "/pid\nErrorLog /dev/stderr\nListen " + address + ":8443\nServerName " + secureHost + "\n"
	if os.Geteuid() == 0 {
		whole += "User www-data\nGroup www-data\n"
	}
	for _, module := range apacheModules {
		whole += "LoadModule " + module + "_module /usr/lib/apache2/modules/mod_" + module + ".so\n"
	}
	writeFile(t, filepath.Join(dir, "apache2.conf"), whole+substituted(t, config, places)+"\n")
	f.run(t, address+":8443", pair.roots, binary, "-D", "FOREGROUND", "-f", filepath.Join(dir, "apache2.conf"))
	return f
}

// startCaddy runs Caddy on the configuration, with a certificate of ours in the
// place of the one that it would fetch.
func startCaddy(t *testing.T, public, config string) *front {
	binary := needTool(t, "caddy")
	s, pair, address, dir := behind(t, public), newKeyPair(t, false, secureHost), ownLoopback(t), t.TempDir()
	f := &front{server: s, public: public, hsts: strings.Contains(config, hstsName)}
	site := fmt.Sprintf("https://%s:8443 {\n\tbind %s\n\ttls %s %s\n", secureHost, address, pair.cert, pair.key)
	if !f.isSecure() {
		site = fmt.Sprintf("%s {\n\tbind %s\n", plainURL, address)
	}
	config = substituted(t, config, map[string]string{secureHost + " {\n": site, "127.0.0.1:8080": s.ready.Listen[0]})
	config = "{\n\tadmin off\n\tauto_https disable_redirects\n\tstorage file_system " + dir + "\n}\n" + config
	writeFile(t, filepath.Join(dir, "Caddyfile"), config)
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
			case secureHost + ":443", secureHost + ":8443":
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
	t.Run("a_long_state_comes_back", func(t *testing.T) { f.longState(t) })
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
		if a := get(t, f.public+"/healthz"); a.status != http.StatusBadGateway && a.status != http.StatusServiceUnavailable { // Apache's
			t.Errorf("without a server the proxy answers %v, want 502 or 503", a)
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

// longState has the longest query that the server takes: the client's state and its redirect
// URI pass the proxy on the way to the sign-in, behind it and after Allow.
func (f *front) longState(t *testing.T) {
	state := strings.Repeat("é", 1<<10) // 2 KiB, each byte encoded
	query := url.Values{"client_id": {"x"}, "response_type": {"code"}, "redirect_uri": {callbackURI + "/"}, "state": {state}}
	const queryMax = 8 << 10
	uri := callbackURI + "/" + strings.Repeat("u", queryMax-len(query.Encode())-64)
	client := f.server.in(t).createClient("Longwinded", uri)
	query.Set("client_id", client.ID)
	query.Set("redirect_uri", uri)
	v := &visitor{t: t, http: must.Get(newVisitorClient(f.transport))(t)}
	to := v.allow(v.signIn(f.public+"/oauth/v2/auth?"+query.Encode(), odile, odilePassword))
	if q := to.Query(); q.Get("state") != state || q.Get("code") == "" || !strings.HasPrefix(to.String(), uri+"?") {
		t.Errorf("Allow leads to %.200s, want a code and a state of %d bytes at %.60s…", to, len(state), uri)
	}
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

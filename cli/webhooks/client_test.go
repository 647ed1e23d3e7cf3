package webhooks_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tollhouse/cli/webhooks"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook/target"
)

const (
	longEnough = time.Minute // for an attempt that must not time out
	soon       = 500 * time.Millisecond
)

// names is a resolver that knows a few names, and returns their answers one after another.
type names struct {
	answers [][]string
	asked   atomic.Int32
	block   bool
}

func (n *names) LookupNetIP(ctx context.Context, _, host string) (found []netip.Addr, err error) {
	i := int(n.asked.Add(1)) - 1
	if n.block {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if len(n.answers) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	for _, text := range n.answers[min(i, len(n.answers)-1)] {
		found = append(found, netip.MustParseAddr(text))
	}
	return found, nil
}

var quietLog = log.New(io.Discard, "", 0)

func rules(t testing.TB, allow ...string) *target.Rules { return must.Get(target.NewRules(allow))(t) }

// send makes one attempt with a client of its own.
func send(t testing.TB, o webhooks.ClientOptions, to string) webhooks.Answer {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = longEnough
	}
	c := webhooks.NewClient(o)
	over := c.NewConnections()
	defer over.CloseIdleConnections()
	return must.Get(c.Send(t.Context(), over, message(to)))(t)
}

// receiver answers with h, and counts its connections.
type receiver struct {
	*httptest.Server
	connections, requests atomic.Int32
}

func newReceiver(t testing.TB, h http.HandlerFunc, prepare ...func(*httptest.Server)) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.requests.Add(1)
		body, _ := io.ReadAll(q.Body) // or the server does not notice that the sender has gone
		q.Body = io.NopCloser(bytes.NewReader(body))
		h(w, q)
	}))
	r.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			r.connections.Add(1)
		}
	}
	r.Config.ErrorLog = quietLog
	plain := true
	for _, p := range prepare {
		p(r.Server)
		plain = false
	}
	if plain {
		r.Start()
	}
	t.Cleanup(r.Close)
	return r
}

func startTLS(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() }

func answers(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
}

// named is the receiver's URL under another host name.
func (r *receiver) named(host string) string {
	scheme, address, _ := strings.Cut(r.URL, "://")
	_, port, _ := net.SplitHostPort(address)
	return scheme + "://" + net.JoinHostPort(host, port) + "/hook"
}

// raw answers each connection with f behind the head of a request.
func raw(t testing.TB, f func(net.Conn)) (address string) {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					f(conn)
				}
			}()
		}
	}()
	return l.Addr().String()
}

// Promise (Webhooks): private addresses are refused, again when dialling
func TestAddressesThatAreNotAllowed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		allow   []string
		host    string
		answers []string
	}{
		{name: "literal", host: "127.0.0.1"},
		{name: "name_of_a_private_address", host: "hook.test", answers: []string{"127.0.0.1"}},
		{name: "mapped_address", host: "hook.test", answers: []string{"::ffff:127.0.0.1"}},
		{name: "one_of_several", allow: []string{"127.0.0.1"}, host: "hook.test", answers: []string{"127.0.0.1", "10.0.0.1"}},
		{name: "metadata_of_an_allowed_name", allow: []string{"hook.test"}, host: "hook.test", answers: []string{"127.0.0.1", "169.254.169.254"}},
		{name: "http_that_is_no_longer_allowed", allow: []string{"127.0.0.1"}, host: "other.test", answers: []string{"127.0.0.1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t, answers(200), (*httptest.Server).StartTLS)
			to := r.named(c.host)
			if strings.HasPrefix(c.name, "http_") {
				r = newReceiver(t, answers(200))
				to = r.named(c.host)
			}
			roots := x509.NewCertPool()
			if r.Certificate() != nil {
				roots.AddCert(r.Certificate())
			}
			a := send(t, webhooks.ClientOptions{Rules: rules(t, c.allow...), Resolver: &names{answers: [][]string{c.answers}}, Roots: roots}, to)
			if a.Outcome != webhooks.AddressNotAllowed || r.connections.Load() != 0 {
				t.Errorf("Send = %+v with %d connections, want %s and none", a, r.connections.Load(), webhooks.AddressNotAllowed)
			}
		})
	}
	t.Run("a_name_is_resolved_once_for_a_connection", func(t *testing.T) {
		t.Parallel()
		r := newReceiver(t, answers(200))
		moving := &names{answers: [][]string{{"127.0.0.1"}, {"10.0.0.1"}}}
		o := webhooks.ClientOptions{Rules: rules(t, "hook.test"), Resolver: moving}
		if a := send(t, o, r.named("hook.test")); a.Outcome != webhooks.Accepted || moving.asked.Load() != 1 {
			t.Errorf("Send = %+v with %d lookups, want accepted with one", a, moving.asked.Load())
		}
	})
	t.Run("a_name_that_moves_is_judged_again_for_the_next_connection", func(t *testing.T) {
		t.Parallel()
		r := newReceiver(t, answers(200), startTLS)
		roots := x509.NewCertPool()
		roots.AddCert(r.Certificate())
		o := webhooks.ClientOptions{Rules: rules(t, "127.0.0.1"), Roots: roots, Resolver: &names{answers: [][]string{{"127.0.0.1"}, {"127.0.0.2"}}}}
		for _, want := range []webhooks.Outcome{webhooks.Accepted, webhooks.AddressNotAllowed} {
			if a := send(t, o, r.named("example.com")); a.Outcome != want {
				t.Errorf("Send = %+v, want %s", a, want)
			}
		}
	})
	t.Run("the_address_of_the_socket_is_judged_again", func(t *testing.T) {
		t.Parallel()
		// Without the second judgement this attempt would leave this machine.
		judge := rules(t)
		var judged atomic.Int32
		judge.Own = func() (own []netip.Addr, err error) {
			if judged.Add(1) > 1 {
				own = append(own, netip.MustParseAddr("9.9.9.9"))
			}
			return own, nil
		}
		a := send(t, webhooks.ClientOptions{Rules: judge, Timeout: 2 * time.Second, Resolver: &names{answers: [][]string{{"9.9.9.9"}}}}, "https://hook.test:9/")
		if a.Outcome != webhooks.AddressNotAllowed || judged.Load() != 2 {
			t.Errorf("Send = %+v after %d judgements, want %s after two", a, judged.Load(), webhooks.AddressNotAllowed)
		}
	})
}

// Promise (Webhooks): the request and its signature; what counts as accepted
func TestOutcomes(t *testing.T) {
	t.Parallel()
	local := func(t testing.TB) webhooks.ClientOptions {
		return webhooks.ClientOptions{Rules: rules(t, "127.0.0.1", "hook.test"), ShowAllowed: true}
	}
	t.Run("status", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			status int
			want   webhooks.Outcome
			silent bool
		}{
			{200, webhooks.Accepted, false}, {201, webhooks.Accepted, false}, {204, webhooks.Accepted, false}, {299, webhooks.Accepted, false},
			{300, webhooks.Refused, false}, {304, webhooks.Refused, false}, {400, webhooks.Refused, false}, {404, webhooks.Refused, false}, {410, webhooks.Refused, false},
			{500, webhooks.Refused, false}, {501, webhooks.Refused, false}, {999, webhooks.Refused, false},
			{408, webhooks.Refused, true}, {429, webhooks.Refused, true}, {502, webhooks.Refused, true}, {503, webhooks.Refused, true}, {504, webhooks.Refused, true},
		} {
			a := send(t, local(t), newReceiver(t, answers(c.status)).URL)
			if a.Outcome != c.want || a.Status != c.status || a.Silent() != c.silent {
				t.Errorf("Send = %+v, silent %t, want %s, silent %t", a, a.Silent(), c.want, c.silent)
			}
		}
	})
	t.Run("dns", func(t *testing.T) {
		t.Parallel()
		o := local(t)
		for _, o.Resolver = range []webhooks.Resolver{&names{}, &names{answers: [][]string{{}}}} {
			if a := send(t, o, "http://hook.test/"); a.Outcome != webhooks.DNS || !a.Silent() {
				t.Errorf("Send = %+v, want dns", a)
			}
		}
	})
	t.Run("connect", func(t *testing.T) {
		t.Parallel()
		r := newReceiver(t, answers(200))
		r.Close()
		if a := send(t, local(t), r.URL); a.Outcome != webhooks.Connect || !a.Silent() {
			t.Errorf("Send = %+v, want connect", a)
		}
	})
	t.Run("timeout", func(t *testing.T) {
		t.Parallel()
		silent := newReceiver(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		drips := raw(t, func(c net.Conn) {
			for err := error(nil); err == nil; _, err = c.Write([]byte("HTTP/1.1 103 Early Hints\r\n\r\n")) {
				time.Sleep(time.Millisecond)
			}
		})
		mute := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t) // takes connections, and never speaks
		t.Cleanup(func() { _ = mute.Close() })
		for name, to := range map[string]string{"headers": silent.URL, "interim answers": "http://" + drips, "handshake": "https://" + mute.Addr().String(), "lookup": "http://hook.test/"} {
			o := local(t)
			o.Timeout, o.Resolver = soon, &names{block: true}
			if a := send(t, o, to); a.Outcome != webhooks.Timeout || !a.Silent() {
				t.Errorf("Send with slow %s = %+v, want timeout", name, a)
			}
		}
	})
	t.Run("tls", func(t *testing.T) {
		t.Parallel()
		r := newReceiver(t, answers(200), startTLS)
		roots := x509.NewCertPool()
		roots.AddCert(r.Certificate())
		old := newReceiver(t, answers(200), func(s *httptest.Server) {
			s.TLS = &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}
			s.StartTLS()
		})
		plain := newReceiver(t, answers(200))
		o := local(t)
		o.Resolver = &names{answers: [][]string{{"127.0.0.1"}}}
		unknown := o
		o.Roots = roots
		for _, c := range []struct {
			name, to string
			o        webhooks.ClientOptions
			want     webhooks.Outcome
		}{
			{"a known root", r.named("127.0.0.1"), o, webhooks.Accepted},
			{"an unknown root", r.named("127.0.0.1"), unknown, webhooks.TLS},
			{"another name", r.named("hook.test"), o, webhooks.TLS},
			{"TLS 1.1", old.named("127.0.0.1"), o, webhooks.TLS},
			{"no TLS", "https" + strings.TrimPrefix(plain.URL, "http"), o, webhooks.TLS},
		} {
			if a := send(t, c.o, c.to); a.Outcome != c.want {
				t.Errorf("Send with %s = %+v, want %s", c.name, a, c.want)
			}
		}
	})
	t.Run("reset", func(t *testing.T) {
		t.Parallel()
		for _, begin := range []string{"", "HTTP/1.1 200 OK\r\nContent-Type: x\r\n"} {
			to := raw(t, func(c net.Conn) { _, _ = io.WriteString(c, begin) })
			if a := send(t, local(t), "http://"+to); a.Outcome != webhooks.Reset {
				t.Errorf("Send = %+v, want reset", a)
			}
		}
	})
	t.Run("response", func(t *testing.T) {
		t.Parallel()
		endless := func(line string) func(net.Conn) {
			return func(c net.Conn) {
				_, err := io.WriteString(c, "HTTP/1.1 ")
				for err == nil {
					_, err = io.WriteString(c, line)
				}
			}
		}
		for name, to := range map[string]string{
			"what is not HTTP":          raw(t, func(c net.Conn) { _, _ = io.WriteString(c, "SSH-2.0-OpenSSH\r\n") }),
			"an endless header":         raw(t, endless("200 OK\r\nx: "+strings.Repeat("x", 4096))),
			"endless headers":           raw(t, endless("200 OK\r\nx: y\r\nz: ")),
			"endless interim responses": raw(t, endless("103 Early Hints\r\n\r\nHTTP/1.1 ")),
		} {
			if a := send(t, local(t), "http://"+to); a.Outcome != webhooks.Response {
				t.Errorf("Send to %s = %+v, want response", name, a)
			}
		}
	})
	t.Run("interim_answers_are_ignored_but_101_fails", func(t *testing.T) {
		t.Parallel()
		interim := raw(t, func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n")
		})
		if a := send(t, local(t), "http://"+interim); a.Status != 204 {
			t.Errorf("Send = %+v, want 204", a)
		}
		switching := raw(t, func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
			_, _ = io.Copy(io.Discard, c)
		})
		if a := send(t, local(t), "http://"+switching); a.Status != 101 || a.Outcome != webhooks.Refused {
			t.Errorf("Send = %+v, want 101 refused", a)
		}
	})
	t.Run("redirects_are_not_followed", func(t *testing.T) {
		t.Parallel()
		elsewhere := newReceiver(t, answers(200))
		r := newReceiver(t, func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, elsewhere.URL, http.StatusTemporaryRedirect)
		})
		a := send(t, local(t), r.URL)
		if want := "redirects to " + elsewhere.Listener.Addr().String() + "; update the URL"; a.Redirect != want || a.Outcome != webhooks.Refused || elsewhere.requests.Load() != 0 {
			t.Errorf("Send = %+v with %d requests elsewhere, want %q and none", a, elsewhere.requests.Load(), want)
		}
	})
	t.Run("an_ended_context_is_no_outcome", func(t *testing.T) {
		t.Parallel()
		asked := make(chan struct{})
		r := newReceiver(t, func(_ http.ResponseWriter, r *http.Request) {
			close(asked)
			<-r.Context().Done()
		})
		o := local(t)
		o.Timeout = longEnough
		c := webhooks.NewClient(o)
		ctx, cut := context.WithCancel(t.Context())
		go func() { <-asked; cut() }()
		if a, err := c.Send(ctx, c.NewConnections(), message(r.URL)); !errors.Is(err, context.Canceled) {
			t.Errorf("Send = %+v, %v, want %v", a, err, context.Canceled)
		}
	})
}

// Promise (Webhooks): the request and its signature; what counts as accepted
func TestAnswers(t *testing.T) {
	t.Parallel()
	failing := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, body)
		}
	}
	t.Run("the_begin_of_a_failed_answer_is_printable", func(t *testing.T) {
		t.Parallel()
		for given, want := range map[string]string{
			"out of memory\n":              "out of memory",
			"a\x1b[2Jb\x00c\u202ed\xffe":   "a [2Jb c de",
			strings.Repeat("é", 200):       strings.Repeat("é", 128),
			"a" + strings.Repeat("é", 200): "a" + strings.Repeat("é", 127),
		} {
			a := send(t, webhooks.ClientOptions{Rules: rules(t, "127.0.0.1"), ShowAllowed: true}, newReceiver(t, failing(given)).URL)
			if a.Body != want {
				t.Errorf("Send answered %q gives the body %q, want %q", given, a.Body, want)
			}
		}
	})
	t.Run("an_allowed_host_is_not_shown", func(t *testing.T) {
		t.Parallel()
		r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://secret.internal/")
			w.WriteHeader(http.StatusFound)
			_, _ = io.WriteString(w, "secret")
		})
		secure := newReceiver(t, r.Config.Handler.ServeHTTP, startTLS)
		roots := x509.NewCertPool()
		roots.AddCert(secure.Certificate())
		for _, c := range []struct {
			allow, host string
			to          *receiver
		}{{"127.0.0.1", "127.0.0.1", r}, {"hook.test", "hook.test", r}, {"127.0.0.0/8", "example.com", secure}} {
			o := webhooks.ClientOptions{Rules: rules(t, c.allow), Roots: roots, Resolver: &names{answers: [][]string{{"127.0.0.1"}}}}
			if a := send(t, o, c.to.named(c.host)); a.Status != 302 || a.Body != "" || a.Redirect != "redirects; update the URL" {
				t.Errorf("Send to %s = %+v, want no byte of the answer", c.host, a)
			}
		}
	})
	t.Run("at_most_64_KiB_of_a_body_are_read", func(t *testing.T) {
		t.Parallel()
		for _, shown := range []*strings.Builder{nil, {}} {
			b := &endlessBody{}
			webhooks.ReadBody(&http.Response{Body: b}, func() {}, shown)
			if b.read > 64<<10 || b.read < 60<<10 || !b.closed {
				t.Errorf("%d bytes were read, closed %t, want 64 KiB and closed", b.read, b.closed)
			}
		}
	})
	t.Run("a_long_or_slow_body_ends_its_connection_only", func(t *testing.T) {
		t.Parallel()
		for _, status := range []int{200, 500} {
			long := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(status)
				for err := error(nil); err == nil; _, err = w.Write(make([]byte, 4096)) {
				}
			})
			slow := newReceiver(t, func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(status)
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			})
			for _, r := range []*receiver{long, slow} {
				if a := send(t, webhooks.ClientOptions{Rules: rules(t, "127.0.0.1")}, r.URL); a.Status != status {
					t.Errorf("Send = %+v, want the status %d", a, status)
				}
			}
		}
	})
	t.Run("retry_after", func(t *testing.T) {
		t.Parallel()
		for given, want := range map[string]time.Duration{
			"": 0, "soon": 0, "-1": 0, "1.5": 0, "0": time.Second, "120": 2 * time.Minute, "86401": 24 * time.Hour, "99999999999999999999999": 24 * time.Hour,
			"Thu, 01 Jan 2026 00:00:00 GMT": time.Second, "Thu, 01 Jan 2099 00:00:00 GMT": 24 * time.Hour,
		} {
			r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", given)
				w.WriteHeader(http.StatusServiceUnavailable)
			})
			if a := send(t, webhooks.ClientOptions{Rules: rules(t, "127.0.0.1")}, r.URL); a.RetryAfter != want {
				t.Errorf("Send answered Retry-After %q gives %s, want %s", given, a.RetryAfter, want)
			}
		}
	})
}

// endlessBody counts what is read of it.
type endlessBody struct {
	read   int
	closed bool
}

func (b *endlessBody) Read(p []byte) (int, error) { b.read += len(p); return len(p), nil }
func (b *endlessBody) Close() error               { b.closed = true; return nil }

func TestConnections(t *testing.T) {
	t.Parallel()
	t.Run("are_kept", func(t *testing.T) {
		t.Parallel()
		for _, prepare := range [][]func(*httptest.Server){nil, {startTLS}} {
			var protocols []string
			r := newReceiver(t, func(w http.ResponseWriter, r *http.Request) {
				protocols = append(protocols, r.Proto)
				for name := range r.Header {
					if slices.Contains([]string{"Accept-Encoding", "Cookie", "Authorization", "Idempotency-Key"}, name) {
						t.Errorf("the request has the header %s", name)
					}
				}
				w.WriteHeader(500)
				_, _ = io.WriteString(w, strings.Repeat("x", 8<<10))
			}, prepare...)
			roots, want := x509.NewCertPool(), "HTTP/1.1"
			if prepare != nil {
				roots.AddCert(r.Certificate())
				want = "HTTP/2.0"
			}
			c := webhooks.NewClient(webhooks.ClientOptions{Rules: rules(t, "127.0.0.1"), Timeout: longEnough, Roots: roots})
			over := c.NewConnections()
			for range 3 {
				if a := must.Get(c.Send(t.Context(), over, message(r.URL)))(t); a.Status != 500 {
					t.Fatalf("Send = %+v, want 500", a)
				}
			}
			if r.connections.Load() != 1 || !slices.Equal(protocols, []string{want, want, want}) {
				t.Errorf("three requests used %d connections by %v, want one by %s", r.connections.Load(), protocols, want)
			}
			over.CloseIdleConnections()
		}
	})
	t.Run("one_that_the_receiver_closed_fails_no_attempt", func(t *testing.T) {
		t.Parallel()
		to := raw(t, func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n") }) // and closes
		c := webhooks.NewClient(webhooks.ClientOptions{Rules: rules(t, "127.0.0.1"), Timeout: longEnough})
		over := c.NewConnections()
		for range 50 {
			if a := must.Get(c.Send(t.Context(), over, message("http://"+to)))(t); a.Outcome != webhooks.Accepted {
				t.Fatalf("Send = %+v, want accepted", a)
			}
		}
	})
}

func TestProxy(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 500) }, startTLS)
	roots := x509.NewCertPool()
	roots.AddCert(r.Certificate())
	var asked []string
	proxy := newReceiver(t, func(w http.ResponseWriter, q *http.Request) {
		asked = append(asked, q.Method+" "+q.Host)
		if q.Host != "example.com:443" {
			http.Error(w, "not allowed", http.StatusForbidden)
			return
		}
		there := must.Get(net.Dial("tcp", r.Listener.Addr().String()))(t)
		defer func() { _ = there.Close() }()
		w.WriteHeader(http.StatusOK)
		conn, buffered, err := http.NewResponseController(w).Hijack()
		must.Do(t, err)
		defer func() { _ = conn.Close() }()
		go func() { _, _ = io.Copy(there, buffered) }()
		_, _ = io.Copy(conn, there)
	})
	o := webhooks.ClientOptions{Rules: rules(t), Roots: roots, Proxy: must.Get(url.Parse(proxy.URL))(t), Resolver: &names{}}
	for _, c := range []struct {
		to   string
		want webhooks.Answer
	}{
		{"https://example.com/hook", webhooks.Answer{Outcome: webhooks.Refused, Status: 500, Body: "no"}},
		{"https://refused.test/hook", webhooks.Answer{Outcome: webhooks.Connect, Detail: "the proxy answered 403"}},
		{"https://127.0.0.1/hook", webhooks.Answer{Outcome: webhooks.AddressNotAllowed}},
		{"https://localhost/hook", webhooks.Answer{Outcome: webhooks.AddressNotAllowed}},
	} {
		a := send(t, o, c.to)
		if a.Took = 0; a != c.want {
			t.Errorf("Send to %s through a proxy = %+v, want %+v", c.to, a, c.want)
		}
	}
	if want := []string{"CONNECT example.com:443", "CONNECT refused.test:443"}; !slices.Equal(asked, want) {
		t.Errorf("the proxy was asked for %v, want %v", asked, want)
	}
}

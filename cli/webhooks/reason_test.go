package webhooks_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"

	"tollhouse/cli/webhooks"
	"tollhouse/store/storetest/must"
)

// lookup is a resolver that knows no name.
type lookup struct{ err error }

func (l lookup) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return nil, l.err
}

// TestLastErrorSaysWhyNoConnectionWasOpened, directly: the kind first, as before.
func TestLastErrorSaysWhyNoConnectionWasOpened(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	secure := newReceiver(t, answers(200), startTLS)
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	withClients := newReceiver(t, answers(200), func(s *httptest.Server) {
		s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
		s.StartTLS()
	})
	ends := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = ends.Close() })
	go func() {
		for c, err := ends.Accept(); err == nil; c, err = ends.Accept() {
			_ = c.Close()
		}
	}()
	mute := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = mute.Close() })
	away := newReceiver(t, answers(200))
	away.Close()
	silent := newReceiver(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	other := webhooks.Resolver(&names{answers: [][]string{{"127.0.0.1"}}})
	for _, c := range []struct {
		name, to string
		roots    *x509.CertPool
		resolver webhooks.Resolver
		soon     bool
		want     string
	}{
		{name: "nobody listens", to: away.URL, want: "connect: connection refused"},
		{name: "no such name", to: "http://hook.test/", resolver: lookup{&net.DNSError{Err: "no such host", Name: "hook.test", Server: "10.0.0.53:53", IsNotFound: true}}, want: "dns: no such host"},
		{name: "a name server that is silent", to: "http://hook.test/", resolver: lookup{&net.DNSError{Err: "i/o timeout", Server: "10.0.0.53:53", IsTimeout: true}}, want: "dns: no answer from the name server"},
		{name: "a name server that fails", to: "http://hook.test/", resolver: lookup{&net.DNSError{Err: "server misbehaving", Server: "10.0.0.53:53", IsTemporary: true}}, want: "dns: the name server failed"},
		{name: "a name without address", to: "http://hook.test/", resolver: lookup{}, want: "dns: no address"},
		{name: "an unknown root", to: secure.named("127.0.0.1"), want: "tls: certificate signed by an unknown authority"},
		{name: "another name", to: secure.named("hook.test"), roots: roots, resolver: other, want: "tls: certificate for another host"},
		{name: "no TLS", to: "https" + strings.TrimPrefix(silent.URL, "http"), want: "tls: the server does not speak TLS"},
		{name: "an end in the handshake", to: "https://" + ends.Addr().String(), want: "tls: connection"},
		{name: "a handshake that hangs", to: "https://" + mute.Addr().String(), soon: true, want: "timeout: no TLS handshake"},
		{name: "a lookup that hangs", to: "http://hook.test/", resolver: &names{block: true}, soon: true, want: "timeout: no connection"},
		{name: "an answer that hangs", to: silent.URL, soon: true, want: "timeout: no answer"},
	} {
		o := webhooks.ClientOptions{Rules: rules(t, "127.0.0.1", "hook.test"), Roots: c.roots, Resolver: c.resolver}
		if c.soon {
			o.Timeout = soon
		}
		// An end is a reset if the request was not read.
		if got := send(t, o, c.to).Error(); got != c.want && (c.want != "tls: connection" || got != "tls: connection closed" && got != "tls: connection reset") {
			t.Errorf("%s: lastError is %q, want %q", c.name, got, c.want)
		}
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(withClients.Certificate())
	a := send(t, webhooks.ClientOptions{Rules: rules(t, "127.0.0.1"), Roots: trusted}, withClients.named("127.0.0.1"))
	if got := a.Error(); !strings.HasPrefix(got, "tls: ") || !strings.Contains(got, "certificate") {
		t.Errorf("a server that wants a certificate of ours: lastError is %q, want its alert", got)
	}
}

// TestLastErrorSaysWhatTheProxyDid, and has no password of it.
//
// Promise (Webhooks): `lastError` says why
func TestLastErrorSaysWhatTheProxyDid(t *testing.T) {
	t.Parallel()
	away := newReceiver(t, answers(200))
	away.Close()
	closes := raw(t, func(net.Conn) {})
	mute := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = mute.Close() })
	for _, c := range []struct {
		proxy string
		soon  bool
		want  string
	}{
		{newReceiver(t, answers(407)).URL, false, "connect: the proxy answered 407"},
		{newReceiver(t, answers(502)).URL, false, "connect: the proxy answered 502"},
		{newReceiver(t, answers(204)).URL, false, "connect: the proxy answered 204"},
		{away.URL, false, "connect: to the proxy: connection refused"},
		{"http://" + closes, false, "connect: no answer from the proxy"},
		{"http://" + mute.Addr().String(), true, "timeout: no connection"},
		{newReceiver(t, answers(200), startTLS).URL, false, "tls: to the proxy: certificate signed by an unknown authority"},
		{"http://proxy.invalid:3128", false, "connect: to the proxy: no such host"},
	} {
		proxy := must.Get(url.Parse(c.proxy))(t)
		proxy.User = url.UserPassword("u", "hunter2")
		o := webhooks.ClientOptions{Rules: rules(t), Proxy: proxy}
		if c.soon {
			o.Timeout = soon
		}
		got := send(t, o, "https://example.com/hook").Error()
		if got != c.want && (proxy.Hostname() != "proxy.invalid" || !strings.HasPrefix(got, "connect: to the proxy: ")) {
			t.Errorf("through %s: lastError is %q, want %q", c.proxy, got, c.want)
		}
		if strings.Contains(got, "hunter2") || strings.Contains(got, proxy.Host) {
			t.Errorf("lastError %q has the proxy's password or address", got)
		}
	}
}

// TestReasonOfADialNamesWhatTheSystemSaid: what no test can bring about on every machine.
func TestReasonOfADialNamesWhatTheSystemSaid(t *testing.T) {
	t.Parallel()
	for errno, want := range map[syscall.Errno]string{
		syscall.EHOSTUNREACH: "no route to the host", syscall.ENETUNREACH: "network unreachable", syscall.EACCES: "",
	} {
		err := fmt.Errorf("dial: %w", &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 9)}, Err: os.NewSyscallError("connect", errno)})
		if got := webhooks.Reason(err); got != want {
			t.Errorf("%v is %q, want %q", err, got, want)
		}
	}
}

package cli

import (
	"errors"
	"net"
	"net/url"
	"path/filepath"
	"syscall"
	"testing"

	"tollhouse/store/storetest/must"
)

// TestListeningFamilies: an IPv4 address listens on IPv4 alone, so that a firewall for IPv4
// covers the server. An address without a host, and [::], listen on both.
//
// Promise (RFC 9110, RFC 9112): an IPv4 address listens on IPv4 alone
func TestListeningFamilies(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp6", "[::1]:0")
	must.Have(t, err == nil, "IPv6 on loopback")
	must.Do(t, l.Close())
	answers := func(host, address string) bool {
		_, port, err := net.SplitHostPort(address)
		must.Do(t, err)
		conn, err := net.Dial("tcp", net.JoinHostPort(host, port))
		if err == nil {
			_ = conn.Close()
		} else if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s at port %s: %v", host, port, err)
		}
		return err == nil
	}
	check := func(t *testing.T, listen, address string, want4, want6 bool) {
		t.Helper()
		if got4, got6 := answers("127.0.0.1", address), answers("::1", address); got4 != want4 || got6 != want6 {
			t.Errorf("%s listens on IPv4: %v, on IPv6: %v; want %v and %v", listen, got4, got6, want4, want6)
		}
	}
	for _, c := range []struct {
		name, listen string
		want4, want6 bool
	}{
		{"all_of_ipv4", "0.0.0.0:0", true, false},
		{"all_of_ipv4_in_ipv6_form", "[::ffff:0.0.0.0]:0", true, false},
		{"loopback_of_ipv4", "127.0.0.1:0", true, false},
		{"loopback_of_ipv6", "[::1]:0", false, true},
		{"all_of_both", "[::]:0", true, true},
		{"no_host", ":0", true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, "serve", "--data", filepath.Join(t.TempDir(), "data"), "--public-url", "http://pay.example", "--insecure-http",
				"--listen", c.listen, "--metrics-listen", c.listen)
			metrics := must.Get(url.Parse(s.text("metrics")))(t)
			check(t, "--listen "+c.listen, firstListener(s), c.want4, c.want6)
			check(t, "--metrics-listen "+c.listen, metrics.Host, c.want4, c.want6)
		})
	}
	t.Run("dev", func(t *testing.T) {
		t.Parallel()
		s := start(t, "dev", "--listen", "0.0.0.0:0")
		check(t, "dev --listen 0.0.0.0:0", firstListener(s), true, false)
	})
}

func firstListener(s *process) string { return s.ready["listen"].([]any)[0].(string) }

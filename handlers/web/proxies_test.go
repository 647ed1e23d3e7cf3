package web

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

// Promise (RFC 9700): forwarding headers from an untrusted peer are ignored
// Promise (RFC 9110, RFC 9112): forwarding headers; a forged source address, its port or zone
func TestSource(t *testing.T) {
	t.Parallel()
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for _, c := range []struct {
		name, peer string
		forwarded  []string
		want       string
	}{
		{"the_peer_when_nothing_is_forwarded", "10.0.0.1:5", nil, "10.0.0.1"},
		{"an_untrusted_peer_is_not_believed", "192.0.2.7:5", []string{"1.2.3.4"}, "192.0.2.7"},
		{"the_last_hop_that_is_no_proxy", "10.0.0.1:5", []string{"1.2.3.4, 198.51.100.9, 10.0.0.2"}, "198.51.100.9"},
		{"headers_are_one_list", "10.0.0.1:5", []string{"1.2.3.4", "198.51.100.9", "10.0.0.2"}, "198.51.100.9"},
		{"only_proxies_the_farthest_of_them", "10.0.0.1:5", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		{"a_hop_that_is_no_address_ends_the_trail", "10.0.0.1:5", []string{"1.2.3.4, unknown, 10.0.0.2"}, "10.0.0.2"},
		{"an_IPv6_proxy", "[fd00::1]:5", []string{"2001:db8::5"}, "2001:db8::5"},
		{"a_mapped_address_is_the_IPv4_one", "10.0.0.1:5", []string{"::ffff:198.51.100.9"}, "198.51.100.9"},
		{"an_address_without_its_zone", "10.0.0.1:5", []string{"fe80::7%evil"}, "fe80::7"},
		{"a_proxy_with_a_zone", "[fd00::1%eth0]:5", []string{"2001:db8::5, fd00::2%evil"}, "2001:db8::5"},
		{"an_address_with_a_port", "10.0.0.1:5", []string{"198.51.100.9:5678"}, "198.51.100.9"},
		{"an_address_with_a_port_behind_a_proxy_with_one", "10.0.0.1:5", []string{"1.2.3.4:80, 198.51.100.9:5678, 10.0.0.2:443"}, "198.51.100.9"},
		{"IPv6_in_brackets", "10.0.0.1:5", []string{"[2001:db8::5]"}, "2001:db8::5"},
		{"IPv6_in_brackets_with_a_port", "10.0.0.1:5", []string{"[2001:db8::5]:443, [fd00::2]:443"}, "2001:db8::5"},
		{"in_quotes", "10.0.0.1:5", []string{`"[2001:db8::5]:443", "10.0.0.2"`}, "2001:db8::5"},
		{"a_mapped_address_with_a_port", "10.0.0.1:5", []string{"[::ffff:198.51.100.9]:443"}, "198.51.100.9"},
		{"a_mapped_proxy_with_a_port", "10.0.0.1:5", []string{"198.51.100.9, [::ffff:10.0.0.2]:443"}, "198.51.100.9"},
		{"a_zone_and_a_port", "10.0.0.1:5", []string{"[fe80::7%evil]:443"}, "fe80::7"},
		{"empty_entries_are_none", "10.0.0.1:5", []string{"198.51.100.9, , 10.0.0.2,"}, "198.51.100.9"},
		{"no_entry_but_commas", "10.0.0.1:5", []string{" , "}, "10.0.0.1"},
		{"a_port_that_is_none_ends_the_trail", "10.0.0.1:5", []string{"198.51.100.9:x, 10.0.0.2:99999, 10.0.0.3"}, "10.0.0.3"},
		{"a_socket_has_no_address", "@", []string{"1.2.3.4"}, "invalid IP"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := &proxies{trusted: trusted, log: slog.New(slog.DiscardHandler)}
			r := &http.Request{RemoteAddr: c.peer, Header: http.Header{"X-Forwarded-For": c.forwarded}}
			if got := p.source(r).String(); got != c.want {
				t.Errorf("source(%s, %q) = %s, want %s", c.peer, c.forwarded, got, c.want)
			}
		})
	}

	t.Run("an_untrusted_sender_is_warned_of_once", func(t *testing.T) {
		t.Parallel()
		var log bytes.Buffer
		p := &proxies{trusted: trusted, log: slog.New(slog.NewTextHandler(&log, nil))}
		for range 3 {
			p.source(&http.Request{RemoteAddr: "192.0.2.7:5", Header: http.Header{"X-Forwarded-For": {"1.2.3.4"}}})
		}
		if n := strings.Count(log.String(), "X-Forwarded-For ignored"); n != 1 {
			t.Errorf("%d warnings, want 1:\n%s", n, log.String())
		}
	})
}

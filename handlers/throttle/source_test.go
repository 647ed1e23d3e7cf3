package throttle

import (
	"fmt"
	"net/netip"
	"testing"
)

// TestNetworks: every address counts for its source and for the networks around it.
//
// Promise (Credentials, memory, connections): an IPv6 /56 or /48 as many sources: failures, turns,
// connections, bodies, HTTP/2 requests
func TestNetworks(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"":                           "[]",
		"192.0.2.7":                  "[192.0.2.7/32 ×1]",
		"::ffff:192.0.2.7":           "[192.0.2.7/32 ×1]",
		"2001:db8:1:234:5:6:7:8":     "[2001:db8:1:234::/64 ×1 2001:db8:1:200::/56 ×8 2001:db8:1::/48 ×32]",
		"fe80::1%eth0":               "[fe80::/64 ×1 fe80::/56 ×8 fe80::/48 ×32]",
		"2002:c000:207:ffff:1:1:1:1": "[2002:c000:207:ffff::/64 ×1 2002:c000:207:ff00::/56 ×8 2002:c000:207::/48 ×32]",
	} {
		addr, _ := netip.ParseAddr(address)
		got := []string{}
		for n := range Networks(addr) {
			got = append(got, fmt.Sprintf("%s ×%d", n.Prefix, n.Sources))
			if part := n.Part(100); part < 25 || part > 75 {
				t.Errorf("%s may hold %d of 100", n.Prefix, part)
			}
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%s counts for %v, want %s", address, got, want)
		}
	}
}

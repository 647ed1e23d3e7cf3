package throttle

import (
	"iter"
	"net/netip"
)

// Network is what is counted and limited as one or more sources: an IPv4 address, or an
// IPv6 network, since whoever has one address of it has all.
type Network struct {
	netip.Prefix
	Sources  int // that it counts as
	quarters int // of what all share
}

// An IPv6 subscriber has a /64 at least, and often a /56 or a /48.
var networks6 = [...]struct{ bits, sources, quarters int }{{64, 1, 1}, {56, 8, 2}, {48, 32, 3}}

// Networks yields the networks around an address, the smallest first. A limit for a source
// must hold for each of them, multiplied by its Sources. No address has no networks.
func Networks(addr netip.Addr) iter.Seq[Network] {
	addr = addr.Unmap().WithZone("")
	return func(yield func(Network) bool) {
		if addr.Is4() {
			yield(Network{netip.PrefixFrom(addr, addr.BitLen()), 1, 1})
			return
		}
		for _, n := range networks6 {
			prefix, err := addr.Prefix(n.bits)
			if err != nil || !prefix.IsValid() || !yield(Network{prefix, n.sources, n.quarters}) {
				return
			}
		}
	}
}

// Part returns how much of a limited resource the network may hold: one source a quarter, a
// /56 half, a /48 three quarters. So none holds all.
func (n Network) Part(whole int64) int64 { return whole * int64(n.quarters) / 4 }

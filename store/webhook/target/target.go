// Package target decides where webhooks may be sent. It has no network: the API asks it
// when an endpoint is created or updated ([Rules.ParseURL]), and the sender asks again
// about each address that it is about to connect to ([Rules.CheckAddress]), because a
// name may resolve to another address by then.
//
// Only addresses of the public Internet pass, unless the operator allowed others with
// --webhook-allow. Some never pass: the metadata services of clouds give out the
// credentials of the machine.
package target

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Code is the error code of the API for a refused URL.
type Code string

const (
	InvalidURL        Code = "invalid_url"
	AddressNotAllowed Code = "address_not_allowed"
)

// Error says why a URL or an address is refused, and what to do. Its text is for the
// person who sent the URL.
type Error struct {
	Code   Code
	Reason string // a clause without a full stop
	Hint   string
}

func (e *Error) Error() string { return e.Reason }

func invalid(hint, format string, args ...any) error {
	return &Error{Code: InvalidURL, Reason: fmt.Sprintf(format, args...), Hint: hint}
}

const allowHint = "use a public address, or ask the operator for --webhook-allow"

func notAllowed(format string, args ...any) error {
	return &Error{Code: AddressNotAllowed, Reason: fmt.Sprintf(format, args...), Hint: allowHint}
}

// Rules are the default rules and what the operator allows beyond them. The zero value
// allows nothing more. Rules do not change, so goroutines may share them.
type Rules struct {
	// Own returns the addresses of this machine, which are refused like private ones, also
	// within a network that the operator allowed.
	// nil means that they are not known: for the commands that run without a server.
	Own func() ([]netip.Addr, error)

	hosts    []string
	networks []netip.Prefix
}

// DevAllowed is what dev allows by default.
var DevAllowed = []string{"127.0.0.0/8", "::1", "localhost"}

// NewRules parses the values of --webhook-allow: each is a host name, an address, or a
// network in CIDR form.
func NewRules(allow []string) (*Rules, error) {
	r := &Rules{}
	for _, text := range allow {
		network, isNetwork, err := parseNetwork(text)
		if err != nil {
			return nil, err
		}
		if isNetwork {
			r.networks = append(r.networks, network)
			continue
		}
		host, err := asciiHost(text)
		if err == nil {
			_, _, err = literal(host)
		}
		if err != nil {
			return nil, fmt.Errorf("%q is not a host name, an address or a network", text)
		}
		r.hosts = append(r.hosts, strings.TrimSuffix(host, "."))
	}
	return r, nil
}

// parseNetwork parses an address or a network. It reports false for what may be a name.
func parseNetwork(text string) (p netip.Prefix, found bool, err error) {
	if strings.Contains(text, "/") {
		p, err = netip.ParsePrefix(text)
	} else {
		var a netip.Addr
		if a, err = netip.ParseAddr(text); err != nil {
			return p, false, nil
		}
		p = netip.PrefixFrom(a, a.BitLen())
	}
	switch {
	case err != nil || p.Addr().Zone() != "":
		return p, false, fmt.Errorf("%q is not a host name, an address or a network", text)
	case p.Addr().Is4In6():
		return p, false, fmt.Errorf("%q must be written as IPv4", text)
	}
	for _, never := range neverAllowed {
		if never.Bits() <= p.Bits() && never.Contains(p.Addr()) {
			return p, false, fmt.Errorf("%q can never be allowed: %s is always refused", text, never)
		}
	}
	if p.IsSingleIP() && isNever(p.Addr()) {
		return p, false, fmt.Errorf("%q can never be allowed: it leads to a metadata address", text)
	}
	return p.Masked(), true, nil
}

// metadata are the known addresses at which clouds answer with the credentials of the
// machine. docs/webhooks.md lists them.
var metadata = prefixes(
	"169.254.0.0/16",         // most clouds, containers of AWS
	"100.100.100.200/32",     // Alibaba Cloud
	"168.63.129.16/32",       // wire server of Azure
	"192.0.0.192/32",         // Oracle Cloud, classic
	"fd00:ec2::254/128",      // AWS
	"fd00:ec2::23/128",       // pods of AWS
	"fd20:ce::254/128",       // Google Cloud
	"fd00:c1::a9fe:a9fe/128", // Oracle Cloud
	"fd00:42::42/128",        // Scaleway
	"fd00:a9fe:a9fe::1/128",  // Akamai
)

// neverAllowed are refused whatever the operator allows: metadata, link-local addresses,
// multicast, and the unspecified address, which means this machine.
var neverAllowed = slices.Concat(metadata, prefixes("0.0.0.0/32", "224.0.0.0/4", "::/128", "fe80::/10", "ff00::/8"))

// isNever reports whether the operator cannot allow a, or an IPv4 address that it contains.
func isNever(a netip.Addr) bool {
	return anyContains(neverAllowed, a) || slices.ContainsFunc(embedded4(a), func(inner netip.Addr) bool { return anyContains(metadata, inner) })
}

// special4 are the IPv4 networks of IANA's registry of special-purpose addresses, and
// multicast.
var special4 = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
	"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
	"198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
)

// global6 is all that IANA has assigned as global unicast. Loopback, unique local,
// link-local, NAT64 and multicast addresses are outside.
var global6 = netip.MustParsePrefix("2000::/3")

// special6 are the special-purpose networks within global6: Teredo and other protocols,
// documentation, and 6to4, whose addresses contain IPv4 ones.
var special6 = prefixes("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")

func prefixes(texts ...string) (list []netip.Prefix) {
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

func anyContains(list []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(a) })
}

// CheckAddress checks an address that host resolves to. host may be the address itself.
// Errors: *Error with AddressNotAllowed.
func (r *Rules) CheckAddress(host string, a netip.Addr) error {
	if !a.IsValid() || a.Zone() != "" {
		return notAllowed("the address %s is not allowed", a)
	}
	a = a.Unmap()
	if isNever(a) {
		return notAllowed("the address %s is never allowed", a)
	}
	switch {
	case r.allowsOwn(host, a):
		return nil
	case !isPublic(a) && !r.LetsIn(host, a):
		return notAllowed("the address %s is not public", a)
	case a.IsLoopback():
		return notAllowed("the address %s belongs to this machine", a)
	case r.Own == nil:
		return nil
	}
	own, err := r.Own()
	if err != nil {
		return notAllowed("the addresses of this machine are unknown: %v", err)
	}
	if slices.Contains(own, a) {
		return notAllowed("the address %s belongs to this machine", a)
	}
	return nil
}

// LetsIn reports whether the operator allowed that host by name or an address of it.
func (r *Rules) LetsIn(host string, a netip.Addr) bool {
	return r.allowsName(host) || anyContains(r.networks, a.Unmap())
}

// allowsOwn reports whether the operator allowed the address although it may be one of
// this machine: by name, as a single address, or by a network that has no others. A wider
// network is one of other machines.
func (r *Rules) allowsOwn(host string, a netip.Addr) bool {
	return r.allowsName(host) || slices.ContainsFunc(r.networks, func(p netip.Prefix) bool {
		return p.Contains(a) && (p.IsSingleIP() || p.Addr().IsLoopback())
	})
}

func (r *Rules) allowsName(host string) bool {
	return slices.Contains(r.hosts, strings.ToLower(strings.TrimSuffix(host, ".")))
}

func isPublic(a netip.Addr) bool {
	if a.Is4() {
		return !anyContains(special4, a)
	}
	return global6.Contains(a) && !anyContains(special6, a)
}

// embedded4 returns the IPv4 addresses to which a translator or a tunnel may send packets
// for a: NAT64 (RFC 6052 §2.2, RFC 8215), 6to4 (RFC 3056 §2), Teredo (RFC 4380 §4), ISATAP
// (RFC 5214 §6.1), and the translated and compatible forms. A translator with a prefix of
// its network's own cannot be known.
func embedded4(a netip.Addr) (inner []netip.Addr) {
	if !a.Is6() {
		return nil
	}
	b := a.As16()
	add := func(b ...byte) { inner = append(inner, netip.AddrFrom4([4]byte(b))) }
	switch {
	case nat64.Contains(a), translated4.Contains(a), compatible4.Contains(a):
		add(b[12:]...)
	case nat64Local.Contains(a): // whose prefix may have 48, 56, 64 or 96 bits
		add(b[6], b[7], b[9], b[10])
		add(b[7], b[9], b[10], b[11])
		add(b[9:13]...)
		add(b[12:]...)
	case sixToFour.Contains(a):
		add(b[2:6]...)
	case teredo.Contains(a):
		add(^b[12], ^b[13], ^b[14], ^b[15])
	}
	if b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe {
		add(b[12:]...)
	}
	return inner
}

var (
	nat64       = netip.MustParsePrefix("64:ff9b::/96")
	nat64Local  = netip.MustParsePrefix("64:ff9b:1::/48")
	translated4 = netip.MustParsePrefix("::ffff:0:0:0/96")
	compatible4 = netip.MustParsePrefix("::/96")
	sixToFour   = netip.MustParsePrefix("2002::/16")
	teredo      = netip.MustParsePrefix("2001::/32")
)

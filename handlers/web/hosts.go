package web

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Hosts makes a Site of dev answer to several hosts, because a browser and a container may
// know one instance by two names. It answers to the host of the public URL, to Named, to
// loopback addresses, and to localhost and all below it; with OnNetwork also to any other
// address, to names without a dot, and to all below .test and .internal.
//
// Our choice: an attacker's page can point the name of its own site at our address. The
// public DNS has none of these names, but a router, a search domain or a hotel's resolver
// can answer for those of OnNetwork, and so reach a server that listens on loopback only.
// So no option switches the check off.
type Hosts struct {
	// Named are further hosts. One that starts with a dot stands for all below it.
	Named []string
	// OnNetwork says that a listener is not loopback: other machines and containers reach
	// the server by names that it does not know.
	OnNetwork bool
	// AsAsked makes the address that a request was sent to its issuer, and the base of
	// every link in the response. It is for a server that was given no public URL,
	// and that speaks plain http, perhaps behind a tunnel.
	AsAsked bool
}

// neverPublic are domains that the public DNS never has: RFC 6761 §6.2, and .internal,
// which ICANN reserved in 2024.
var neverPublic = []string{".test", ".internal"}

// include reports whether a Host header names one of the hosts. public is the host of
// the public URL.
func (h *Hosts) include(hostport, public string) bool {
	host, port := splitHost(hostport)
	if strings.Trim(port, "0123456789") != "" {
		return false
	}
	host = strings.ToLower(host)
	if inBrackets, ok := strings.CutPrefix(host, "["); ok {
		address, closed := strings.CutSuffix(inBrackets, "]")
		ip, err := netip.ParseAddr(address)
		return closed && err == nil && ip.Is6() && ip.Zone() == "" && (h.includeAddress(ip) || address == public)
	}
	switch {
	case !IsHostName(host):
		return false
	case host == public, host == "localhost", strings.HasSuffix(host, ".localhost"): // RFC 6761 §6.3
		return true
	case slices.ContainsFunc(h.Named, func(name string) bool {
		return host == name || strings.HasPrefix(name, ".") && strings.HasSuffix(host, name)
	}):
		return true
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Is4() && h.includeAddress(ip)
	}
	return h.OnNetwork && (!strings.Contains(host, ".") ||
		slices.ContainsFunc(neverPublic, func(domain string) bool { return strings.HasSuffix(host, domain) }))
}

func (h *Hosts) includeAddress(ip netip.Addr) bool { return h.OnNetwork || ip.Unmap().IsLoopback() }

// splitHost splits a Host header into the host, with its brackets if it has any, and
// the port.
func splitHost(hostport string) (host, port string) {
	if i := strings.LastIndexByte(hostport, ':'); i >= 0 && !strings.HasSuffix(hostport, "]") {
		return hostport[:i], hostport[i+1:]
	}
	return hostport, ""
}

const (
	hostSizeMax  = 253 // RFC 1035 §2.3.4, as text
	labelSizeMax = 63
)

// IsHostName reports whether the text is a name of labels and dots, or an IPv4 address.
// Underscores are allowed: names of containers have them.
func IsHostName(text string) bool {
	if len(text) > hostSizeMax {
		return false
	}
	for label := range strings.SplitSeq(text, ".") {
		if label == "" || len(label) > labelSizeMax || strings.IndexFunc(label, isNotOfALabel) >= 0 {
			return false
		}
	}
	return true
}

func isNotOfALabel(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_'
}

// IssuerOf returns the issuer for the caller of a request.
func (s *Site) IssuerOf(r *http.Request) string {
	if s.hosts == nil || !s.hosts.AsAsked {
		return s.PublicURL()
	}
	return s.Proxies.scheme(r) + "://" + r.Host
}

// ProgramsURL returns the base of the endpoints that programs call: in dev the address
// that the request was sent to, since a container may not reach the public URL.
func (s *Site) ProgramsURL(r *http.Request) string {
	if s.hosts == nil {
		return s.PublicURL()
	}
	at := s.address.Load()
	host, port := splitHost(r.Host)
	isPublic := strings.EqualFold(strings.Trim(host, "[]"), at.host)
	if isPublic && !s.hosts.AsAsked && (port == "" || at.cookies.Secure) { // as a proxy forwards it
		return at.public
	}
	return s.Proxies.scheme(r) + "://" + r.Host + at.base
}

// AskedOrigin returns the origin of the address that a browser asked for, as the browser spells
// it: that of the public URL, and on loopback and in dev that of the Host. Of a proxy's headers
// only those count that make an issuer too.
func (s *Site) AskedOrigin(r *http.Request) string {
	at := s.address.Load()
	host, port := splitHost(strings.ToLower(r.Host))
	isPublic := strings.Trim(host, "[]") == at.host && (s.hosts == nil || !s.hosts.AsAsked)
	if s.hosts == nil && !IsLoopbackHost(at.host) || isPublic && (port == "" || at.cookies.Secure) {
		return withoutDefaultPort(at.origin)
	}
	scheme := s.Proxies.scheme(r)
	if r.TLS != nil {
		scheme = "https"
	}
	return withoutDefaultPort(scheme + "://" + strings.ToLower(r.Host))
}

// withoutDefaultPort returns an origin as browsers spell it (RFC 6454 §6.2).
func withoutDefaultPort(origin string) string {
	if strings.HasPrefix(origin, "https:") {
		return strings.TrimSuffix(origin, ":443")
	}
	return strings.TrimSuffix(origin, ":80")
}

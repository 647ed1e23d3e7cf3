package handlers

import (
	"net/http"
	"net/netip"
	"strings"
)

// Hosts makes a Server answer to several hosts, because a browser and a container may
// know one instance by two names. It answers to the host of the public URL, to
// addresses, to names without a dot, to localhost and all below it, to all below .test
// and .internal, and to Named.
//
// Our choice: an attacker's page can point the name of its own site at our address, but
// its site can have none of these names. So no option switches the check off.
type Hosts struct {
	// Named are further hosts. One that starts with a dot stands for all below it.
	Named []string
	// AsAsked makes the address that a request was sent to its issuer, and the base of
	// every link in the response. It is for a server that was given no public URL,
	// and that speaks plain http.
	AsAsked bool
}

// neverPublic are the domains that the public DNS never has: RFC 6761 §6.2 and §6.3, and
// .internal, which ICANN reserved in 2024.
var neverPublic = []string{".localhost", ".test", ".internal"}

// include reports whether a Host header names one of the hosts. public is the host of
// the public URL.
func (h *Hosts) include(hostport, public string) bool {
	host, port := splitHost(hostport)
	if strings.Trim(port, "0123456789") != "" {
		return false
	}
	if inBrackets, ok := strings.CutPrefix(host, "["); ok {
		address, closed := strings.CutSuffix(inBrackets, "]")
		ip, err := netip.ParseAddr(address)
		return closed && err == nil && ip.Is6() && ip.Zone() == ""
	}
	if !IsHostName(host) {
		return false
	}
	host = strings.ToLower(host)
	if host == public || !strings.Contains(host, ".") {
		return true
	}
	for _, name := range neverPublic {
		if strings.HasSuffix(host, name) {
			return true
		}
	}
	for _, name := range h.Named {
		if host == name || strings.HasPrefix(name, ".") && strings.HasSuffix(host, name) {
			return true
		}
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Is4()
}

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

// issuerOf returns the issuer for the caller of a request.
func (s *Server) issuerOf(r *http.Request) string {
	if s.hosts == nil || !s.hosts.AsAsked {
		return s.issuer
	}
	return "http://" + r.Host
}

// programsURL returns the base of the endpoints that programs call: in dev the address
// that the request was sent to, since a container may not reach the public URL.
func (s *Server) programsURL(r *http.Request) string {
	if s.hosts == nil {
		return s.issuer
	}
	host, port := splitHost(r.Host)
	isPublic := strings.EqualFold(strings.Trim(host, "[]"), s.host)
	if isPublic && !s.hosts.AsAsked && (port == "" || s.cookies.secure) { // as a proxy forwards it
		return s.issuer
	}
	return "http://" + r.Host + s.base
}

package passkey

import (
	"net/http"
	"strings"

	"tollhouse/handlers/web"
)

// Address is where a browser makes and uses passkeys.
type Address struct {
	// RPID is the host that passkeys are bound to.
	RPID string
	// Origin is its scheme, host and port, as the browser names it.
	Origin string
}

// AddressOf returns the address that a page was asked for.
func AddressOf(s *web.Site, r *http.Request) Address {
	origin := s.AskedOrigin(r)
	_, host, _ := strings.Cut(origin, "://")
	return Address{RPID: web.HostWithoutPort(host), Origin: origin}
}

// Offers reports whether browsers make passkeys here: over https under a name, and on
// http://localhost. They refuse addresses, and names without a dot.
func (a Address) Offers() bool {
	if a.RPID == "localhost" {
		return true
	}
	dot := strings.LastIndexByte(a.RPID, '.')
	isName := strings.Trim(a.RPID[dot+1:], "0123456789") != "" // the last part of an IPv4 address is a number
	return strings.HasPrefix(a.Origin, "https://") && dot > 0 && isName
}

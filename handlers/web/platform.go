package web

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Platform configures the use of platform clients.
type Platform struct {
	// From are the networks from which they may be used; nil is everywhere.
	From []netip.Prefix
}

// The headers of a platform client that acts for an account.
const (
	AccountHeader  = "Tollhouse-Account" // the account, also in the answer
	SourceHeader   = "Tollhouse-Source"  // of the events that it causes
	LocationHeader = "Tollhouse-Location"
)

// HasPlatform reports whether platform clients may be used at all.
func (s *Site) HasPlatform() bool { return s.platform != nil }

// AdmitsPlatform reports whether a platform client may send such a request: their use is on,
// the source is in one of the networks, and a secret may travel.
func (s *Site) AdmitsPlatform(r *http.Request) bool {
	return s.platform != nil && s.IsPrivate(r) && s.IsFrom(r, s.platform.From)
}

// IsPrivate reports whether a secret may travel over the request's connection: the public
// URL is https, or the request stays on this machine.
func (s *Site) IsPrivate(r *http.Request) bool {
	return s.CookiesOf(r).Secure || FactsFrom(r.Context()).Source.IsLoopback() && !s.hidesSource(r) && IsLoopbackHost(strings.ToLower(HostWithoutPort(r.Host)))
}

// IsFrom reports whether the source of a request is in one of the networks; nil is
// everywhere. A hidden source is in no network.
func (s *Site) IsFrom(r *http.Request, networks []netip.Prefix) bool {
	if networks == nil {
		return true
	}
	source := FactsFrom(r.Context()).Source
	return !s.hidesSource(r) && slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(source) })
}

// hidesSource reports whether a proxy passed the request on and its source is unknown:
// the proxy is not trusted, or it does not name the source by an address.
func (s *Site) hidesSource(r *http.Request) bool {
	if !IsForwarded(r) {
		return false
	}
	if !s.Proxies.IsTrusted(PeerAddr(r.RemoteAddr)) {
		return true
	}
	source, unreadable := s.Proxies.Follow(strings.Join(r.Header.Values("X-Forwarded-For"), ","))
	return !source.IsValid() || unreadable != ""
}

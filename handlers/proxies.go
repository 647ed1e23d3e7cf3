package handlers

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
)

// proxies determines where a request comes from. It trusts X-Forwarded-For only from
// the operator's proxies.
type proxies struct {
	trusted []netip.Prefix
	log     *slog.Logger
	warned  sync.Once

	ignored  atomic.Pointer[netip.Addr] // the last untrusted peer that sent X-Forwarded-For
	believed atomic.Bool                // a trusted proxy has sent it
}

// source returns the peer's address, or, behind trusted proxies, the last address in
// X-Forwarded-For that is not one of them.
func (p *proxies) source(r *http.Request) netip.Addr {
	peer := peerAddr(r.RemoteAddr)
	forwarded := strings.Join(r.Header.Values("X-Forwarded-For"), ",")
	if forwarded == "" {
		return peer
	}
	if !p.isTrusted(peer) {
		ignored := peer // which alone is kept
		p.ignored.Store(&ignored)
		p.warned.Do(func() {
			p.log.Warn("X-Forwarded-For ignored: its sender is not among --trusted-proxies", "peer", peer.String())
		})
		return peer
	}
	if !p.believed.Load() {
		p.believed.Store(true)
	}
	hops := strings.Split(forwarded, ",")
	source := peer
	for i := len(hops) - 1; i >= 0; i-- {
		hop, err := parseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			return source
		}
		source = hop
		if !p.isTrusted(source) {
			return source
		}
	}
	return source
}

// Forwarding reports the use of X-Forwarded-For since the start: whether a trusted
// proxy has sent it, and the last untrusted peer that did, if any.
func (s *Server) Forwarding() (believed bool, ignored netip.Addr) {
	if peer := s.proxies.ignored.Load(); peer != nil {
		ignored = *peer
	}
	return s.proxies.believed.Load(), ignored
}

func (p *proxies) isTrusted(addr netip.Addr) bool {
	for _, prefix := range p.trusted {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// peerAddr parses RemoteAddr; a Unix socket's peer has no address.
func peerAddr(remote string) netip.Addr {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	addr, err := parseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	return addr
}

// parseAddr parses an address without its zone (RFC 4007 §11), which is arbitrary text
// without meaning on other machines.
func parseAddr(text string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(text)
	return addr.WithZone("").Unmap(), err
}

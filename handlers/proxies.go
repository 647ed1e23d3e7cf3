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

// proxies tells where a request comes from. X-Forwarded-For is a claim that
// anybody can make; it is believed only from a peer that the operator named.
type proxies struct {
	trusted []netip.Prefix
	log     *slog.Logger
	warned  sync.Once

	ignored  atomic.Pointer[netip.Addr] // the last peer whose X-Forwarded-For was not believed
	believed atomic.Bool                // some was
}

// source returns the address that the request comes from: the peer's, or, when
// the peer is a trusted proxy, the last hop in X-Forwarded-For that is not one.
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
		hop, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			return source
		}
		source = hop.Unmap()
		if !p.isTrusted(source) {
			return source
		}
	}
	return source
}

// Forwarding tells what X-Forwarded-For has come in since the start: whether a
// trusted proxy has sent it, and which peer last sent it that is none; the zero
// address is nobody's.
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

// peerAddr reads net/http's RemoteAddr; a Unix socket's peer has no address.
func peerAddr(remote string) netip.Addr {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	return addr.Unmap()
}

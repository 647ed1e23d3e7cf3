package web

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
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

	ignored    atomic.Pointer[netip.Addr] // the last untrusted peer that sent X-Forwarded-For
	believed   atomic.Bool                // a trusted proxy has sent it
	unreadable atomic.Pointer[string]     // the last entry by a trusted proxy that is no address
}

// source returns the peer's address, or, behind trusted proxies, the last address in
// X-Forwarded-For that is not one of them.
func (p *proxies) source(r *http.Request) netip.Addr {
	peer := PeerAddr(r.RemoteAddr)
	forwarded := strings.Join(r.Header.Values("X-Forwarded-For"), ",")
	if forwarded == "" {
		return peer
	}
	if !p.IsTrusted(peer) {
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
	source, unreadable := p.Follow(forwarded)
	if unreadable != "" {
		kept := strings.Clone(unreadable[:min(len(unreadable), entryShownMax)])
		p.unreadable.Store(&kept)
	}
	if !source.IsValid() {
		return peer
	}
	return source
}

// entryShownMax bounds the bytes that are kept of an entry: more than an address with a
// port has.
const entryShownMax = 64

// Follow goes through the entries of X-Forwarded-For, the nearest first, to the first address
// that is no trusted proxy's. An entry that is no address ends it before that. The source is
// the last address, and not valid if there is none.
func (p *proxies) Follow(forwarded string) (source netip.Addr, unreadable string) {
	for _, entry := range slices.Backward(strings.Split(forwarded, ",")) {
		entry = strings.TrimSpace(entry)
		if entry == "" { // RFC 9110 §5.6.1.2: empty elements of a list are ignored
			continue
		}
		hop, err := parseEntry(entry)
		if err != nil {
			return source, entry
		}
		source = hop
		if !p.IsTrusted(source) {
			return source, ""
		}
	}
	return source, ""
}

// parseEntry parses an entry of X-Forwarded-For, which has no standard: a bare address, or,
// as some proxies send it (Azure, IIS), in the form of RFC 7239 §6 with a port, brackets or
// quotes.
func parseEntry(entry string) (netip.Addr, error) {
	if inner, ok := strings.CutPrefix(entry, `"`); ok {
		entry = strings.TrimSuffix(inner, `"`)
	}
	if addr, err := netip.ParseAddrPort(entry); err == nil {
		return bare(addr.Addr()), nil
	}
	if inner, ok := strings.CutPrefix(entry, "["); ok {
		entry = strings.TrimSuffix(inner, "]")
	}
	return ParseAddr(entry)
}

// Forwarding is the use of X-Forwarded-For since the start.
type Forwarding struct {
	Believed   bool       // a trusted proxy has sent it
	Ignored    netip.Addr // the last untrusted peer that sent it, if any
	Unreadable string     // the beginning of the last entry by a trusted proxy that is no address, if any
}

// Forwarding returns how X-Forwarded-For has been used since the start.
func (s *Site) Forwarding() Forwarding {
	f := Forwarding{Believed: s.Proxies.believed.Load()}
	if peer := s.Proxies.ignored.Load(); peer != nil {
		f.Ignored = *peer
	}
	if entry := s.Proxies.unreadable.Load(); entry != nil {
		f.Unreadable = *entry
	}
	return f
}

// scheme returns how the caller reached a server that was given no public URL: by https if
// a trusted proxy says so, such as a tunnel.
func (p *proxies) scheme(r *http.Request) string {
	first, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Proto"), ",")
	if strings.EqualFold(strings.TrimSpace(first), "https") && p.IsTrusted(PeerAddr(r.RemoteAddr)) {
		return "https"
	}
	return "http"
}

// IsTrusted reports whether addr is one of the operator's proxies.
func (p *proxies) IsTrusted(addr netip.Addr) bool {
	for _, prefix := range p.trusted {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// PeerAddr parses RemoteAddr; a Unix socket's peer has no address.
func PeerAddr(remote string) netip.Addr {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	addr, err := ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	return addr
}

// ParseAddr parses an address without its zone.
func ParseAddr(text string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(text)
	return bare(addr), err
}

// bare returns an address without its zone (RFC 4007 §11), which is arbitrary text without
// meaning on other machines, and an IPv4 address as such.
func bare(addr netip.Addr) netip.Addr { return addr.WithZone("").Unmap() }

package server

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"tollhouse/cli/term"
	"tollhouse/handlers/web"
)

// checkAddress checks the host:port of a flag.
func checkAddress(flag, addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return term.Usage("write host:port, for example 127.0.0.1:8080, [::1]:8080 or :8080; port 0 picks a free port", "--%s %q is not a valid listen address", flag, addr)
	}
	return nil
}

// isLoopbackAddress reports whether only this machine can reach the address.
func isLoopbackAddress(addr string) bool {
	resolved, err := net.ResolveTCPAddr("tcp", addr)
	return err == nil && resolved.IP != nil && resolved.IP.IsLoopback()
}

// allLoopback reports whether only this machine can reach the listeners.
func allLoopback(listeners []net.Listener) bool {
	return !slices.ContainsFunc(listeners, func(l net.Listener) bool { return !isLoopbackAddress(l.Addr().String()) })
}

func isLoopbackHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// ParsePublicURL parses --public-url. Clients compare the issuer letter by letter.
func ParsePublicURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	wrong := func(why string) (*url.URL, error) {
		return nil, term.Usage("give the URL that clients use, for example https://pay.example or https://example.com/pay", "--public-url %q %s", term.MaskedURL(text), why) // a variable may have a password
	}
	switch {
	case err != nil || u.Host == "" || u.Opaque != "" || u.Hostname() == "":
		return wrong("is not a complete URL")
	case !isHost(u.Hostname()) || strings.HasSuffix(u.Host, ":"):
		return wrong("must have a host name or an address; write an international name in its ASCII form, xn--…")
	case u.Scheme != "https" && u.Scheme != "http":
		return wrong("must begin with https:// or http://")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || strings.Contains(text, "#"):
		return wrong("must have only a scheme, a host and a path")
	case strings.Contains(u.Path, "//") || strings.Contains(u.Path, "/.") || u.EscapedPath() != u.Path:
		return wrong("has a path with empty, dotted or encoded parts")
	}
	u.Host = strings.ToLower(u.Host)
	u.Path, u.RawPath = strings.TrimSuffix(u.Path, "/"), strings.TrimSuffix(u.RawPath, "/")
	return u, nil
}

// isHost reports whether clients can send it as the host of a request.
func isHost(text string) bool {
	addr, err := netip.ParseAddr(text)
	return web.IsHostName(text) || err == nil && addr.Zone() == ""
}

// parseHosts reads --host: names, or names after a dot for all below them.
func parseHosts(values []string) ([]string, error) {
	var hosts []string
	for _, text := range values {
		host := strings.ToLower(text)
		if !web.IsHostName(strings.TrimPrefix(host, ".")) {
			return nil, term.Usage("give a name without a port, such as pay.example, or .pay.example for all names below it", "--host %q is not the name of a host", text)
		}
		hosts = append(hosts, host)
	}
	return hosts, nil
}

// parseProxies reads --trusted-proxies: networks, or single addresses.
func parseProxies(values []string) ([]netip.Prefix, error) {
	var prefixes []netip.Prefix
	for _, text := range term.SplitLists(values) {
		network, err := parseNetwork(text)
		if err != nil {
			return nil, term.Usage("write networks or addresses separated by commas, for example 10.0.0.0/8,::1", "--trusted-proxies: %q is not a network", text)
		}
		prefixes = append(prefixes, network)
	}
	return prefixes, nil
}

// parseNetwork parses a network, or one address. An IPv4 one that is written as IPv6 is IPv4, as
// the addresses of peers are.
func parseNetwork(text string) (netip.Prefix, error) {
	network, err := netip.ParsePrefix(text)
	if err != nil {
		addr, err := netip.ParseAddr(text)
		return netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()), err
	}
	if network.Addr().Is4In6() && network.Bits() >= 96 {
		network = netip.PrefixFrom(network.Addr().Unmap(), network.Bits()-96)
	}
	return network.Masked(), nil
}

package server

import (
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"tollhouse/cli/term"
	"tollhouse/handlers"
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

func isLoopbackHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// ParsePublicURL parses --public-url. Clients compare the issuer letter by letter.
func ParsePublicURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	wrong := func(why string) (*url.URL, error) {
		return nil, term.Usage("give the URL that clients use, for example https://pay.example or https://example.com/pay", "--public-url %q %s", text, why)
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
	case strings.Contains(u.Path, "//") || strings.Contains(u.Path, "/.") || u.RawPath != "":
		return wrong("has a path with empty, dotted or encoded parts")
	}
	u.Host = strings.ToLower(u.Host)
	u.Path = strings.TrimSuffix(u.Path, "/")
	return u, nil
}

// isHost reports whether clients can send it as the host of a request.
func isHost(text string) bool {
	addr, err := netip.ParseAddr(text)
	return handlers.IsHostName(text) || err == nil && addr.Zone() == ""
}

// parseHosts reads --host: names, or names after a dot for all below them.
func parseHosts(values []string) ([]string, error) {
	var hosts []string
	for _, text := range values {
		host := strings.ToLower(text)
		if !handlers.IsHostName(strings.TrimPrefix(host, ".")) {
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
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			addr, addrErr := netip.ParseAddr(text)
			if addrErr != nil {
				return nil, term.Usage("write networks or addresses separated by commas, for example 10.0.0.0/8,::1", "--trusted-proxies: %q is not a network", text)
			}
			prefix = netip.PrefixFrom(addr, addr.BitLen())
		}
		prefixes = append(prefixes, prefix.Masked())
	}
	return prefixes, nil
}

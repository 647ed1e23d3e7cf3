package cli

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"tollhouse/store"
)

// The values that flags take, beyond texts and numbers.

// lifetime is a duration that may be given in days: 90s, 12h, 14d.
type lifetime time.Duration

// String is a short text that Set reads as the same: 14d, 1h30m, 90s, 0.
func (l *lifetime) String() string {
	const day = 24 * time.Hour
	d := time.Duration(*l)
	switch {
	case d == 0:
		return "0"
	case d >= day && d%day == 0:
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func (l *lifetime) Type() string { return "duration" }

func (l *lifetime) Set(text string) error {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err == nil {
			*l = lifetime(time.Duration(n) * 24 * time.Hour)
			return nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return errors.New("give a duration such as 90s, 15m, 12h or 14d")
	}
	*l = lifetime(d)
	return nil
}

// moment is a time by RFC 3339 or in Unix seconds.
type moment struct{ time.Time }

func (m *moment) String() string {
	if m.IsZero() {
		return ""
	}
	return m.Format(time.RFC3339)
}

func (m *moment) Type() string { return "time" }

// momentSecondsMax is the last second that an event can have and a filter name.
const momentSecondsMax = store.CreatedAtMax

var errNoMoment = errors.New("give a time such as 2026-03-09T15:30:00Z, or Unix seconds")

func (m *moment) Set(text string) error {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return errNoMoment
		}
		t = time.Unix(seconds, 0)
	}
	if t.Unix() < 0 || t.Unix() > momentSecondsMax {
		return fmt.Errorf("give a time from %s to %s", showTime(0), showTime(momentSecondsMax))
	}
	m.Time = t.UTC()
	return nil
}

// lookback is a moment that may be given by how long ago it was: 90s, 2h, 14d.
type lookback struct{ moment }

func (l *lookback) Set(text string) error {
	var span lifetime
	if _, err := strconv.ParseInt(text, 10, 64); err != nil && span.Set(text) == nil {
		text = time.Now().Add(-time.Duration(span)).Format(time.RFC3339)
	}
	err := l.moment.Set(text)
	if errors.Is(err, errNoMoment) {
		return fmt.Errorf("%w, or how long ago, such as 2h", errNoMoment)
	}
	return err
}

// address is a flag's host:port.
func checkAddress(flag, addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return usage("write host:port, for example 127.0.0.1:8080, [::1]:8080 or :8080; port 0 takes a free one", "--%s %q is not an address to listen on", flag, addr)
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

// parsePublicURL reads --public-url: the issuer, compared by clients letter by
// letter.
func parsePublicURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	wrong := func(why string) (*url.URL, error) {
		return nil, usage("give it as people type it, for example https://pay.example or https://example.com/pay", "--public-url %q %s", text, why)
	}
	switch {
	case err != nil || u.Host == "" || u.Opaque != "" || u.Hostname() == "":
		return wrong("is not a complete URL")
	case u.Scheme != "https" && u.Scheme != "http":
		return wrong("is neither https nor http")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || strings.Contains(text, "#"):
		return wrong("holds more than a scheme, a host and a path")
	case strings.Contains(u.Path, "//") || strings.Contains(u.Path, "/.") || u.RawPath != "":
		return wrong("has a path with empty, dotted or encoded parts")
	}
	u.Host = strings.ToLower(u.Host)
	u.Path = strings.TrimSuffix(u.Path, "/")
	return u, nil
}

// parseProxies reads --trusted-proxies: networks, or single addresses.
func parseProxies(values []string) ([]netip.Prefix, error) {
	var prefixes []netip.Prefix
	for _, text := range splitLists(values) {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			addr, addrErr := netip.ParseAddr(text)
			if addrErr != nil {
				return nil, usage("write networks or addresses separated by commas, for example 10.0.0.0/8,::1", "--trusted-proxies: %q is not a network", text)
			}
			prefix = netip.PrefixFrom(addr, addr.BitLen())
		}
		prefixes = append(prefixes, prefix.Masked())
	}
	return prefixes, nil
}

// splitLists takes apart values that hold several, separated by commas.
func splitLists(values []string) []string {
	var parts []string
	for _, value := range values {
		parts = append(parts, strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })...)
	}
	return parts
}

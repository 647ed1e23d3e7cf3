package target

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// urlSizeMax bounds a URL in bytes, as browsers and proxies do.
const urlSizeMax = 2_048

const urlHint = "give a URL such as https://example.com/webhooks"

// ParseURL checks the URL of an endpoint and returns it as it is stored: as given, but
// with the scheme and the host in lower case, and an international name in its ASCII
// form. A name that resolves to a refused address passes here and fails at each attempt.
// Errors: *Error.
func (r *Rules) ParseURL(text string) (string, error) {
	if len(text) > urlSizeMax {
		return "", invalid("shorten it", "the URL has more than %d bytes", urlSizeMax)
	}
	if !utf8.ValidString(text) {
		return "", invalid("percent-encode it", "the URL is not valid UTF-8")
	}
	if strings.ContainsFunc(text, isSpaceOrControl) {
		return "", invalid(urlHint, "the URL has a space or a control character")
	}
	u, err := url.Parse(text)
	if err != nil {
		return "", invalid(urlHint, "the URL cannot be parsed")
	}
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return "", invalid(urlHint, "the URL must begin with https://")
	case !strings.HasPrefix(text[len(u.Scheme):], "://"):
		return "", invalid(urlHint, "the URL has no host")
	case u.User != nil || strings.Contains(authority(text), "@"):
		return "", invalid("leave it out; requests are signed", "the URL has a user or a password")
	case strings.Contains(text, "#"):
		return "", invalid("leave it out", "the URL has a fragment")
	case strings.Contains(authority(text), `\`):
		return "", invalid(urlHint, "the host of the URL has a backslash")
	}
	host, port, err := splitAuthority(authority(text))
	if err != nil {
		return "", err
	}
	address, isAddress, err := literal(host)
	if err != nil {
		return "", err
	}
	if !isAddress {
		if host, err = asciiHost(host); err != nil {
			return "", err
		}
		// An international name may become an address: "127。0。0。1".
		if address, isAddress, err = literal(host); err != nil {
			return "", err
		}
	}
	if err := r.checkHost(u.Scheme, host, address, isAddress); err != nil {
		return "", err
	}
	if isAddress && address.Is6() {
		host = "[" + host + "]"
	}
	rest := text[strings.Index(text, "//")+len("//")+len(authority(text)):]
	stored := u.Scheme + "://" + host + port + rest
	if len(stored) > urlSizeMax {
		return "", invalid("shorten it", "the URL has more than %d bytes", urlSizeMax)
	}
	return stored, nil
}

// checkHost checks what is known without a resolver.
func (r *Rules) checkHost(scheme, host string, a netip.Addr, isAddress bool) error {
	letIn := r.allowsName(host)
	if isAddress {
		if err := r.CheckAddress(host, a); err != nil {
			return err
		}
		letIn = r.LetsIn(host, a)
	}
	name := strings.TrimSuffix(host, ".")
	if !letIn && (name == "localhost" || strings.HasSuffix(name, ".localhost")) {
		return notAllowed("the host %s is this machine", host)
	}
	if scheme == "http" && !letIn {
		return invalid("use https, or ask the operator for --webhook-allow "+host, "the URL must begin with https://")
	}
	return nil
}

// Origin returns the scheme, the host and the port of a stored URL. Its path and query
// are often secrets.
func Origin(stored string) string {
	return stored[:strings.Index(stored, "//")+len("//")+len(authority(stored))]
}

// authority returns what is between // and the path, the query or the fragment.
func authority(text string) string {
	_, after, _ := strings.Cut(text, "//")
	if end := strings.IndexAny(after, "/?#"); end >= 0 {
		after = after[:end]
	}
	return after
}

// splitAuthority separates the host, without brackets and in lower case, from the port,
// which keeps its colon.
func splitAuthority(text string) (host, port string, err error) {
	host = text
	if i := strings.LastIndexByte(text, ':'); i > strings.LastIndexByte(text, ']') {
		host, port = text[:i], text[i:]
		number, err := strconv.ParseUint(port[1:], 10, 16)
		if err != nil || number == 0 {
			return "", "", invalid("give a port from 1 to 65535, or none", "the port of the URL is not valid")
		}
	}
	if bracketed, found := strings.CutPrefix(host, "["); found {
		inner, closed := strings.CutSuffix(bracketed, "]")
		a, err := netip.ParseAddr(inner)
		if !closed || err != nil || !a.Is6() || a.Zone() != "" {
			return "", "", invalid(urlHint, "the host of the URL is not an IPv6 address without a zone")
		}
		return strings.ToLower(inner), port, nil
	}
	if host == "" || strings.ContainsAny(host, ":[]") {
		return "", "", invalid(urlHint, "the URL has no valid host")
	}
	return strings.ToLower(host), port, nil
}

// literal returns the address that a host in lower case is. A host that ends in a number
// but is not in plain dotted form is refused, because parsers read it differently:
// 2130706433, 0x7f.1, 0177.0.0.1 and 127.1 are 127.0.0.1 for some.
func literal(host string) (netip.Addr, bool, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return a, true, nil
	}
	last := strings.TrimSuffix(host, ".")
	last = last[strings.LastIndexByte(last, '.')+1:]
	_, hex := strings.CutPrefix(last, "0x")
	if hex && strings.Trim(last[2:], "0123456789abcdef") == "" || last != "" && strings.Trim(last, "0123456789") == "" {
		return netip.Addr{}, false, invalid("write an IPv4 address as four decimal numbers", "the host %s is not an address in plain form", host)
	}
	return netip.Addr{}, false, nil
}

// The size limits of a name; RFC 1035 §2.3.4.
const (
	nameSizeMax  = 253
	labelSizeMax = 63
)

// asciiHost returns a host name in lower case and in its ASCII form. It allows the
// underscore, which names of containers have.
func asciiHost(host string) (string, error) {
	ascii := strings.ToLower(host)
	if strings.ContainsFunc(host, func(c rune) bool { return c >= 0x80 }) {
		var err error
		if ascii, err = idna.Lookup.ToASCII(host); err != nil {
			return "", invalid(urlHint, "the host of the URL is not a valid international name")
		}
	}
	name := strings.TrimSuffix(ascii, ".")
	if len(name) > nameSizeMax {
		return "", invalid(urlHint, "the host of the URL is too long")
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > labelSizeMax || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return "", invalid(urlHint, "the host of the URL is not a valid name")
		}
	}
	return ascii, nil
}

func isSpaceOrControl(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) }

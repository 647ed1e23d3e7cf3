package store

import (
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"tollhouse/store/record"
)

const (
	// RedirectURISizeMax limits a redirect URI, in bytes.
	RedirectURISizeMax  = 2048
	redirectURICountMax = 32 // per client
)

// A private-use scheme is a reversed domain name and so contains a dot (RFC 8252
// §7.1).
var privateScheme = regexp.MustCompile(`^[a-z][a-z0-9+-]*(\.[a-z0-9+-]+)+$`)

// A test may use any scheme for its app, except those that browsers handle themselves.
var (
	fixtureScheme  = regexp.MustCompile(`^[a-z][a-z0-9+.-]*$`)
	browserSchemes = []string{"about", "blob", "data", "file", "javascript", "vbscript"}
)

// CheckRedirectURI checks a redirect URI to be registered. Errors: *InvalidError with
// a hint.
func CheckRedirectURI(uri string) error { return checkRedirectURI(uri, false) }

// checkRedirectURI also takes, as a fixture, http on any host and any private scheme.
func checkRedirectURI(uri string, fixture bool) error {
	refuse := func(hint, reason string) error {
		shown := shorten(uri)
		if at := strings.LastIndexByte(uri, '@'); at >= 0 { // before it may be a password
			shown = "…" + shorten(uri[at:])
		}
		return record.Invalid("redirect_uris", hint, "redirect URI %q %s", shown, reason)
	}
	if uri == "" || len(uri) > RedirectURISizeMax {
		return refuse("give a complete URI such as https://app.example/callback", "is empty or longer than 2048 bytes")
	}
	if fault := RedirectURIFault(uri); fault != "" {
		return refuse("percent-encode it, and write an international host name in its xn-- form", fault)
	}
	if strings.Contains(uri, "*") {
		return refuse("register each URI in full; a port on a loopback address need not be named", "holds a wildcard")
	}
	if strings.Contains(uri, "#") {
		return refuse("leave out the part from # on", "has a fragment (RFC 6749 §3.1.2)")
	}
	u, err := url.Parse(uri)
	if err != nil || !u.IsAbs() {
		return refuse("give a complete URI such as https://app.example/callback", "is not absolute")
	}
	if u.Scheme+":" != uri[:len(u.Scheme)+1] {
		return refuse("write the scheme in lower case", "has a scheme in upper case")
	}
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		name, _, _ := strings.Cut(pair, "=")
		if name, _ = url.QueryUnescape(name); slices.Contains(answerNames, name) {
			return refuse("rename it, because the client could not tell it from ours", "has the query parameter "+name+", which the answer uses")
		}
	}
	switch u.Scheme {
	case "https", "http":
		return checkWebRedirect(u, fixture, refuse)
	}
	if fixture && fixtureScheme.MatchString(u.Scheme) && !slices.Contains(browserSchemes, u.Scheme) {
		return nil
	}
	if !privateScheme.MatchString(u.Scheme) {
		return refuse("use https, http on a loopback address, or a scheme that is a reversed domain name such as com.example.app", "has a scheme that is not for redirects")
	}
	return nil
}

// answerNames are the parameters that a redirect adds (RFC 6749 §4.1.2, RFC 9207 §2).
var answerNames = []string{"code", "state", "error", "error_description", "iss"}

// RedirectURIFault returns why no URI has that text (RFC 3986 §2), or "".
func RedirectURIFault(uri string) string {
	for i := range len(uri) {
		switch c := uri[i]; {
		case c == ' ':
			return "contains a space"
		case c < ' ' || c >= 0x7f || strings.IndexByte("\"<>\\^`{|}", c) >= 0:
			return "contains a character that a URI cannot contain"
		case c == '%' && (i+2 >= len(uri) || !isHex(uri[i+1]) || !isHex(uri[i+2])):
			return "contains a percent sign without two hexadecimal digits"
		}
	}
	return ""
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func checkWebRedirect(u *url.URL, fixture bool, refuse func(hint, reason string) error) error {
	host := u.Hostname()
	switch {
	case u.Opaque != "" || host == "":
		return refuse("write it as "+u.Scheme+"://host/path", "names no host")
	case u.Port() != "" && !isPort(u.Port()):
		return refuse("name the port that the client listens on; a port on a loopback address need not be named", "has the port "+u.Port()+", on which nothing can listen")
	case u.User != nil:
		return refuse("leave out what stands before the @", "carries a user name")
	case host != strings.ToLower(host):
		return refuse("write the host in lower case", "has a host in upper case")
	case strings.HasSuffix(host, "."):
		return refuse("leave out the dot at the end of the host", "has a host that ends with a dot")
	case u.Scheme == "http" && !isLoopback(host) && !fixture:
		return refuse("use https, or http on 127.0.0.1, [::1] or localhost", "is plain http on a host that is not this machine")
	}
	return nil
}

// isLoopback reports whether host is the local machine.
func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback() && ip.Zone() == ""
}

// MatchRedirectURI reports whether a requested redirect URI matches a registered one:
// they must be equal byte by byte (RFC 9700 §2.1), except for the port of an http
// loopback address (RFC 8252 §7.3), which a native app cannot know beforehand.
func MatchRedirectURI(registered, asked string) bool {
	if registered == asked {
		return true
	}
	if len(asked) > RedirectURISizeMax {
		return false
	}
	head, tail, ok := cutLoopbackPort(registered)
	if !ok {
		return false
	}
	askedHead, askedTail, ok := cutLoopbackPort(asked)
	return ok && head == askedHead && tail == askedTail
}

// cutLoopbackPort splits an http loopback URI around its port. It works on the text,
// so that nothing is normalized.
func cutLoopbackPort(uri string) (head, tail string, ok bool) {
	for _, origin := range []string{"http://127.0.0.1", "http://[::1]", "http://localhost"} {
		rest, found := strings.CutPrefix(uri, origin)
		if !found {
			continue
		}
		if port, found := strings.CutPrefix(rest, ":"); found {
			digits := strings.IndexFunc(port, func(r rune) bool { return r < '0' || r > '9' })
			if digits < 0 {
				digits = len(port)
			}
			if !isPort(port[:digits]) {
				return "", "", false
			}
			rest = port[digits:]
		}
		if rest == "" || rest[0] == '/' || rest[0] == '?' {
			return origin, rest, true
		}
		return "", "", false
	}
	return "", "", false
}

func isPort(digits string) bool {
	if digits == "" || len(digits) > 5 || digits[0] == '0' {
		return false
	}
	n := 0
	for _, d := range digits {
		n = n*10 + int(d-'0')
	}
	return n <= 65535
}

func shorten(text string) string {
	const max = 100
	if len(text) <= max {
		return text
	}
	return text[:max] + "…"
}

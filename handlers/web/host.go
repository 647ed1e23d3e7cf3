package web

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"tollhouse/views"
)

// IsForwarded reports whether a proxy passed the request on.
func IsForwarded(r *http.Request) bool {
	for name := range r.Header {
		switch {
		case name == "Forwarded", name == "X-Real-Ip", name == "Via", strings.HasPrefix(name, "X-Forwarded-"):
			return true
		}
	}
	return false
}

// withHost refuses requests for other hosts: a page under a foreign name could be
// anybody's. Health checks may use any name.
func (s *Site) withHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.isOurHost(r.Host) && !s.isHealth(r.URL.Path) {
			NoteRoute(r, "")
			WriteProblem(w, s.misdirected())
			return
		}
		s.notePort(r.Host)
		next.ServeHTTP(w, r)
	})
}

func (s *Site) misdirected() *Problem {
	if s.hosts != nil {
		return NewProblem(http.StatusMisdirectedRequest, "misdirected_request",
			"The Host header names a host that this server does not serve. "+
				"To add it, start tollhouse dev with --host NAME, or with --host .NAME for all hosts below it.")
	}
	return NewProblem(http.StatusMisdirectedRequest, "misdirected_request",
		"This server is %s; the Host header names another host. "+
			"Behind a proxy, forward the Host header or set --public-url.", s.address.Load().host)
}

// CheckOrigin refuses forms from other sites (RFC 6749 §10.12).
func (s *Site) CheckOrigin(r *http.Request) error {
	if err := s.ForeignOrigin(r); err != nil {
		p := NewProblem(http.StatusForbidden, "cross_origin", "The form was submitted by another site.").Because(err)
		p.Page = &views.ErrorText{Kind: views.ErrorCrossOrigin}
		return p
	}
	return nil
}

// ForeignOrigin returns why a form is another site's, or nil. Go compares the Origin with
// the Host where a browser sends no Fetch Metadata: on plain http off loopback none does. A
// proxy may pass on a Host without its port, so the public URL's own origin is ours too,
// with its port or without it.
func (s *Site) ForeignOrigin(r *http.Request) error {
	err := s.Origins.Check(r)
	if err == nil || r.Header.Get("Sec-Fetch-Site") != "" {
		return err
	}
	at := s.address.Load()
	if origin := r.Header.Get("Origin"); origin == at.origin || origin == strings.TrimSuffix(at.origin, ":"+at.port) {
		return nil
	}
	return err
}

// notePort notes whether the Host has the port of the public URL, for doctor. A missing one
// shows that a proxy removes it.
func (s *Site) notePort(hostport string) {
	at := s.address.Load()
	if at.port == "" || HostWithoutPort(hostport) != at.host {
		return
	}
	if lacks := !strings.HasSuffix(hostport, ":"+at.port); lacks != s.lacksPort.Load() {
		s.lacksPort.Store(lacks)
	}
}

// LacksPort reports whether the latest request came with a Host that lacks the port of the
// public URL.
func (s *Site) LacksPort() bool { return s.lacksPort.Load() }

// isOurHost compares the host without its port. On loopback every loopback name is
// ours.
func (s *Site) isOurHost(hostport string) bool {
	public := s.address.Load().host
	if s.hosts != nil {
		return s.hosts.include(hostport, public)
	}
	host := strings.ToLower(HostWithoutPort(hostport))
	return host == public || IsLoopbackHost(host) && IsLoopbackHost(public)
}

// HostWithoutPort returns a host without its port and brackets.
func HostWithoutPort(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
}

// IsLoopbackHost reports whether a host is localhost or a loopback address.
func IsLoopbackHost(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

func (s *Site) isHealth(path string) bool {
	path = strings.TrimPrefix(path, s.Base())
	return path == "/healthz" || path == "/readyz"
}

// withBase removes the path of the public URL from a request's path. Health checks
// also work without it, and the metadata also where RFC 8414 puts it.
func (s *Site) withBase(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		base := s.Base()
		if base == "" {
			next.ServeHTTP(w, r)
			return
		}
		path, under := strings.CutPrefix(r.URL.Path, base)
		switch {
		case under && path == "":
			path = "/"
		case under && path[0] == '/':
		case s.isHealth(r.URL.Path):
			path = r.URL.Path
		case r.URL.Path == MetadataPath+base:
			path = MetadataPath // RFC 8414 §3.1: the well-known part precedes the issuer's path
		default:
			NoteRoute(r, "")
			if isAllowedPreflight(w, r) {
				w.WriteHeader(http.StatusNoContent)
				return
			}
			WriteProblem(w, NewProblem(http.StatusNotFound, "not_found", "Every address of this server begins with %s.", base))
			return
		}
		stripped := new(http.Request)
		*stripped = *r
		stripped.URL = new(url.URL)
		*stripped.URL = *r.URL
		stripped.URL.Path = path
		stripped.URL.RawPath = strings.TrimPrefix(r.URL.RawPath, base)
		next.ServeHTTP(w, stripped)
	})
}

// shownHost is the host that the browser is on, for the footer.
func (s *Site) shownHost(r *http.Request) string {
	if s.isOurHost(r.Host) {
		return r.Host
	}
	return s.address.Load().host
}

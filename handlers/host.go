package handlers

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// withHost refuses requests for other hosts: a page under a foreign name could be
// anybody's. Health checks may use any name.
func (s *Server) withHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.isOurHost(r.Host) && !s.isHealth(r.URL.Path) {
			noteRoute(r, "")
			writeProblem(w, s.misdirected())
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) misdirected() *problem {
	if s.hosts != nil {
		return newProblem(http.StatusMisdirectedRequest, "misdirected_request",
			"The Host header names a host that this server does not serve. To add it, start tollhouse dev with --host NAME, or with --host .NAME for all hosts below it.")
	}
	return newProblem(http.StatusMisdirectedRequest, "misdirected_request",
		"This server is %s; the Host header names another host. Behind a proxy, forward the Host header or set --public-url.", s.host)
}

// isOurHost compares the host without its port. On loopback every loopback name is
// ours.
func (s *Server) isOurHost(hostport string) bool {
	if s.hosts != nil {
		return s.hosts.include(hostport, s.host)
	}
	host := strings.ToLower(hostWithoutPort(hostport))
	return host == s.host || isLoopbackHost(host) && isLoopbackHost(s.host)
}

func hostWithoutPort(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
}

func isLoopbackHost(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

func (s *Server) isHealth(path string) bool {
	path = strings.TrimPrefix(path, s.base)
	return path == "/healthz" || path == "/readyz"
}

// withBase removes the path of the public URL from a request's path. Health checks
// also work without it, and the metadata also where RFC 8414 puts it.
func (s *Server) withBase(next http.Handler) http.Handler {
	if s.base == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, under := strings.CutPrefix(r.URL.Path, s.base)
		switch {
		case under && path == "":
			path = "/"
		case under && path[0] == '/':
		case s.isHealth(r.URL.Path):
			path = r.URL.Path
		case r.URL.Path == metadataPath+s.base:
			path = metadataPath // RFC 8414 §3.1: the well-known part precedes the issuer's path
		default:
			noteRoute(r, "")
			writeProblem(w, newProblem(http.StatusNotFound, "not_found", "Every address of this server begins with %s.", s.base))
			return
		}
		stripped := new(http.Request)
		*stripped = *r
		stripped.URL = new(url.URL)
		*stripped.URL = *r.URL
		stripped.URL.Path = path
		stripped.URL.RawPath = strings.TrimPrefix(r.URL.RawPath, s.base)
		next.ServeHTTP(w, stripped)
	})
}

// shownHost is the host that the browser is on, for the footer.
func (s *Server) shownHost(r *http.Request) string {
	if s.isOurHost(r.Host) {
		return r.Host
	}
	return s.host
}

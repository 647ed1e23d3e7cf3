package handlers

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// withHost refuses requests for a host that is not ours: links and redirects
// are built from the configured address alone, and a page under a foreign name
// could be anybody's. Health is asked under any name.
func (s *Server) withHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.isOurHost(r.Host) && !s.isHealth(r.URL.Path) {
			noteRoute(r, "")
			writeProblem(w, newProblem(http.StatusMisdirectedRequest, "misdirected_request",
				"This server answers for %s; the Host header names another. Behind a proxy, pass the Host on, or set --public-url.", s.host))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isOurHost compares the host without its port. On loopback every name of the
// machine itself is ours.
func (s *Server) isOurHost(hostport string) bool {
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

// withBase takes the path of the public URL off the front of a request's path.
// A proxy passes it on unstripped; health is answered with and without it, and
// the metadata also where a client looks for them who knows the issuer alone.
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
			path = metadataPath // RFC 8414 §3.1: the well-known part comes before the issuer's path
		default:
			noteRoute(r, "")
			writeProblem(w, newProblem(http.StatusNotFound, "not_found", "This server answers under %s.", s.base))
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

// shownHost is the host in the foot of a page: the one that the browser is on.
func (s *Server) shownHost(r *http.Request) string {
	if s.isOurHost(r.Host) {
		return r.Host
	}
	return s.host
}

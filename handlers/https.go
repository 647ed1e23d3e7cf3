package handlers

import (
	"net/http"
	"net/netip"
	"strings"
)

// A server with its own certificate has two more handlers: one for TLS, and one for
// plain http, which only redirects.

// strictTransport binds a browser to https for a year, without includeSubDomains:
// other names are not ours to bind.
const strictTransport = "max-age=31536000"

// Secure returns Public for our own TLS listeners, with HSTS (RFC 6797). Behind a
// proxy, HSTS is the proxy's decision.
func (s *Server) Secure() http.Handler {
	if !s.mayBindBrowsers() {
		return s.public
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Strict-Transport-Security", strictTransport)
		s.public.ServeHTTP(w, r)
	})
}

// mayBindBrowsers reports whether the public URL is https under a name of our own. An
// address does not count (RFC 6797 §8.1.1), nor does localhost, which has other
// servers on other ports.
func (s *Server) mayBindBrowsers() bool {
	_, err := netip.ParseAddr(s.host)
	return s.cookies.secure && err != nil && !isLoopbackHost(s.host)
}

const (
	plainRoute     = "(plain http)" // without a route
	challengeRoute = "(challenge)"  // certificate issuance

	// How long a browser may cache a redirect. Not for ever: TLS may move
	// elsewhere.
	redirectKept = "max-age=3600"
)

// Plain returns the handler for plain http beside TLS. It redirects pages to the same
// path of the public URL, whatever the Host header says, and refuses everything that
// may contain a secret: a redirect would have it sent again, and the mistake would
// go unnoticed.
func (s *Server) Plain() http.Handler {
	return s.withRequest(redirectListener, s.handle(plainRoute, s.toHTTPS))
}

// Challenged is Plain behind answer, which handles certificate challenges and passes
// other requests on. Challenges get a request id and a log line too.
func (s *Server) Challenged(answer func(others http.Handler) http.Handler) http.Handler {
	answered := answer(s.handle(plainRoute, s.toHTTPS))
	return s.withRequest(redirectListener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answered.ServeHTTP(w, r); served(r.Context()).Route == "" { // not passed on
			noteRoute(r, challengeRoute)
		}
	}))
}

func (s *Server) toHTTPS(w http.ResponseWriter, r *http.Request) error {
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Connection", "close") // the body is not read
		return s.httpsRequired(http.StatusMethodNotAllowed).with("Allow", "GET, HEAD")
	case r.Header.Get("Authorization") != "" || hasQueryToken(r.URL.RawQuery) || refuseSecretsInQuery(r) != nil:
		return s.httpsRequired(http.StatusForbidden)
	}
	w.Header().Set("Location", s.publicAddress(r))
	w.Header().Set("Cache-Control", redirectKept)
	w.WriteHeader(http.StatusPermanentRedirect)
	return nil
}

func (s *Server) httpsRequired(status int) *problem {
	return newProblem(status, "https_required",
		"Send requests to %s instead. This one was not encrypted: replace any password, secret or token that it contained.", s.issuer)
}

// publicAddress returns the request's path and query under the public URL.
func (s *Server) publicAddress(r *http.Request) string {
	address := s.issuer + "/" // a request for the bare host gets the start page
	if path := r.URL.EscapedPath(); path != "/" && strings.HasPrefix(path, "/") {
		address = strings.TrimSuffix(s.issuer, s.base) + path
	}
	if r.URL.RawQuery != "" {
		address += "?" + r.URL.RawQuery
	}
	return address
}

package handlers

import (
	"net/http"
	"net/netip"
	"strings"
)

// A server that has a certificate of its own has two more handlers: one for its
// listeners of TLS, and one for a listener of plain http beside them, which
// leads people on and takes nothing.

// strictTransport holds a browser to https for a year. It says nothing of other
// names under ours (includeSubDomains), which are not ours to bind.
const strictTransport = "max-age=31536000"

// Secure returns Public for listeners of our own TLS: every answer tells
// browsers to come by https alone (RFC 6797). Behind a proxy that is for the
// proxy to say, who knows whether plain http is answered there too.
func (s *Server) Secure() http.Handler {
	if !s.mayBindBrowsers() {
		return s.public
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Strict-Transport-Security", strictTransport)
		s.public.ServeHTTP(w, r)
	})
}

// mayBindBrowsers reports whether the public URL is https under a name that is
// ours alone. An address is no name (RFC 6797 §8.1.1), and localhost has others
// on its other ports, whom a browser would no longer reach.
func (s *Server) mayBindBrowsers() bool {
	_, err := netip.ParseAddr(s.host)
	return s.cookies.secure && err != nil && !isLoopbackHost(s.host)
}

const (
	plainRoute     = "(plain http)" // of what no route has seen
	challengeRoute = "(challenge)"  // of who issues our certificate

	// A browser may keep a redirect for so long; one that is kept for ever would
	// outlive the day on which TLS moves elsewhere.
	redirectKept = "max-age=3600"
)

// Plain returns the handler of plain http beside TLS. It sends whoever looks at
// a page on to the same path of the public URL, whatever the Host header says,
// and refuses everything that may carry a secret: a redirect would have it sent
// a second time, and nobody would notice that it always comes by plain http
// first.
func (s *Server) Plain() http.Handler { return s.withRequest(s.handle(plainRoute, s.toHTTPS)) }

// Challenged is Plain behind answer, which answers those who issue our certificate
// and hands all others on. Its answers have a request id and a line in the log too.
func (s *Server) Challenged(answer func(others http.Handler) http.Handler) http.Handler {
	answered := answer(s.handle(plainRoute, s.toHTTPS))
	return s.withRequest(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answered.ServeHTTP(w, r); served(r.Context()).Route == "" { // it was not handed on
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
		"Send this to %s instead. What was sent came over the network unencrypted: replace any password, secret or token that was in it.", s.issuer)
}

// publicAddress is a request's path and query under the public URL.
func (s *Server) publicAddress(r *http.Request) string {
	address := s.issuer + "/" // whoever knows the host alone is led to the start page
	if path := r.URL.EscapedPath(); path != "/" && strings.HasPrefix(path, "/") {
		address = strings.TrimSuffix(s.issuer, s.base) + path
	}
	if r.URL.RawQuery != "" {
		address += "?" + r.URL.RawQuery
	}
	return address
}

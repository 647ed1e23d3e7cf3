package web

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

// mayBindBrowsers reports whether the public URL is https under a name of our own. An
// address does not count (RFC 6797 §8.1.1), nor does localhost, which has other
// servers on other ports.
func (s *Site) mayBindBrowsers() bool {
	at := s.address.Load()
	_, err := netip.ParseAddr(at.host)
	return at.cookies.Secure && err != nil && !IsLoopbackHost(at.host)
}

const (
	plainRoute     = "(plain http)" // without a route
	challengeRoute = "(challenge)"  // certificate issuance

	// How long a browser may cache a redirect. Not longer: TLS may move
	// elsewhere.
	redirectKept = "max-age=3600"
)

// Plain returns the handler for plain http next to TLS. It redirects pages to the same
// path of the public URL, whatever the Host header says, and refuses everything that
// may contain a secret: a redirect would have it sent again, and the mistake would
// go unnoticed.
func (s *Site) Plain() http.Handler {
	s.Count(plainRoute, methodNames...)
	return s.withRequest(redirectListener, s.handle(plainRoute, s.toHTTPS))
}

// Challenged is Plain behind answer, which handles certificate challenges and passes
// other requests on. Challenges get a request id and a log line too.
func (s *Site) Challenged(answer func(others http.Handler) http.Handler) http.Handler {
	s.Count(plainRoute, methodNames...)
	s.Count(challengeRoute, methodNames...)
	answered := answer(s.handle(plainRoute, s.toHTTPS))
	return s.withRequest(redirectListener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answered.ServeHTTP(w, r); OutcomeOf(r.Context()).Route == "" { // not passed on
			NoteRoute(r, challengeRoute)
		}
	}))
}

func (s *Site) toHTTPS(w http.ResponseWriter, r *http.Request) error {
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Connection", "close") // the body is not read
		return s.httpsRequired(http.StatusMethodNotAllowed).With("Allow", "GET, HEAD")
	case r.Header.Get("Authorization") != "" || HasQueryToken(r.URL.RawQuery) || RefuseSecretsInQuery(r) != nil:
		return s.httpsRequired(http.StatusForbidden)
	}
	w.Header().Set("Location", s.publicAddress(r))
	w.Header().Set("Cache-Control", redirectKept)
	w.WriteHeader(http.StatusPermanentRedirect)
	return nil
}

func (s *Site) httpsRequired(status int) *Problem {
	return NewProblem(status, "https_required",
		"Send requests to %s instead. "+
			"This one was not encrypted: replace any password, secret or token that it contained.", s.PublicURL())
}

// publicAddress returns the request's path and query under the public URL.
func (s *Site) publicAddress(r *http.Request) string {
	at := s.address.Load()
	address := at.public + "/" // a request for the bare host gets the start page
	if path := r.URL.EscapedPath(); path != "/" && strings.HasPrefix(path, "/") {
		address = strings.TrimSuffix(at.public, at.base) + path
	}
	if r.URL.RawQuery != "" {
		address += "?" + r.URL.RawQuery
	}
	return address
}

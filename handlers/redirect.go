package handlers

import (
	"net/http"
	"net/url"
	"strings"

	"tollhouse/store/secret"
)

// Only three functions write OAuth redirects. A redirect to a requested address is safe
// only after comparison with the registered ones, which an authRequest proves.

// redirectWithCode sends the browser back with a code (RFC 6749 §4.1.2).
func (s *Server) redirectWithCode(w http.ResponseWriter, r *http.Request, a authRequest, code secret.Token) {
	s.redirectBack(w, r, a, http.StatusSeeOther, "code", code.Reveal())
}

// redirectDenied sends the browser back with access_denied (RFC 6749 §4.1.2.1).
func (s *Server) redirectDenied(w http.ResponseWriter, r *http.Request, a authRequest) {
	s.redirectBack(w, r, a, http.StatusSeeOther, "error", "access_denied", "error_description", "The user denied the request.")
}

// redirectError sends the browser back with an error of the request (RFC 6749
// §4.1.2.1).
func (s *Server) redirectError(w http.ResponseWriter, r *http.Request, a authRequest, code, description string) {
	s.redirectBack(w, r, a, http.StatusFound, "error", code, "error_description", description)
}

// redirectBack appends the names and values, then state and iss (RFC 9207 §2), to the
// redirect URI and keeps its query. After a form the status is 303, so that no browser
// repeats the POST elsewhere (RFC 9700 §4.12).
func (s *Server) redirectBack(w http.ResponseWriter, r *http.Request, a authRequest, status int, namesAndValues ...string) {
	var b strings.Builder
	b.WriteString(a.redirectURI)
	separator := "?"
	if strings.Contains(a.redirectURI, "?") {
		separator = "&"
		if strings.HasSuffix(a.redirectURI, "?") || strings.HasSuffix(a.redirectURI, "&") {
			separator = ""
		}
	}
	if a.state != "" {
		namesAndValues = append(namesAndValues, "state", a.state)
	}
	namesAndValues = append(namesAndValues, "iss", s.issuerOf(r))
	for i := 0; i < len(namesAndValues); i += 2 {
		b.WriteString(separator)
		b.WriteString(namesAndValues[i])
		b.WriteString("=")
		b.WriteString(url.QueryEscape(namesAndValues[i+1]))
		separator = "&"
	}
	h := w.Header()
	h.Set("Location", b.String())
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
}

// redirectHere sends the browser to one of our own pages. path starts with a slash and
// never comes from a caller.
func (s *Server) redirectHere(w http.ResponseWriter, path string) {
	w.Header().Set("Location", s.base+path)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusSeeOther)
}

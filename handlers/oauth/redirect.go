package oauth

import (
	"net/http"
	"net/url"
	"strings"

	"tollhouse/store/secret"
)

// Only three methods write OAuth redirects. A redirect to a requested address is safe only
// after comparison with the registered ones, which an authRequest proves.

// redirectWithCode sends the browser back with a code (RFC 6749 §4.1.2).
func (a authRequest) redirectWithCode(w http.ResponseWriter, issuer string, code secret.Token) {
	a.redirectBack(w, issuer, http.StatusSeeOther, "code", code.Reveal())
}

// redirectDenied sends the browser back with access_denied (RFC 6749 §4.1.2.1).
func (a authRequest) redirectDenied(w http.ResponseWriter, issuer string) {
	a.redirectBack(w, issuer, http.StatusSeeOther, "error", "access_denied", "error_description",
		"The user denied the request.")
}

// redirectError sends the browser back with an error of the request (RFC 6749
// §4.1.2.1).
func (a authRequest) redirectError(w http.ResponseWriter, issuer string, code, description string) {
	a.redirectBack(w, issuer, http.StatusFound, "error", code, "error_description", description)
}

// redirectBack appends the names and values, then state and iss (RFC 9207 §2), to the
// redirect URI and keeps its query. After a form the status is 303, so that no browser
// repeats the POST elsewhere (RFC 9700 §4.12).
func (a authRequest) redirectBack(w http.ResponseWriter, issuer string, status int, namesAndValues ...string) {
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
	namesAndValues = append(namesAndValues, "iss", issuer)
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

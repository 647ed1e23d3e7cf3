package handlers

import (
	"fmt"
	"net/http"
	"strings"

	"tollhouse/store"
	"tollhouse/views"
)

// callback is GET /callback, in dev only. It takes the place of an application, so
// that the flow works in a browser before one exists. It is the demo client's
// redirect URI on dev's own port (RFC 8252 §7.3).
func (s *Server) callback(w http.ResponseWriter, r *http.Request) error {
	p, refused := parseOAuthParams(r.URL.RawQuery)
	if refused != nil {
		return refused
	}
	props := views.CallbackProps{Page: s.page(r), Allowed: p.has("code")}
	for _, name := range []string{"code", "error", "error_description", "state", "iss"} {
		if p.has(name) {
			props.Details = append(props.Details, views.Detail{Label: name, Value: p.value(name)})
		}
	}
	if p.has("code") && s.demo.ClientSecret != "" {
		props.Steps = []views.Step{{Title: "Redeem the code as the application would", Command: fmt.Sprintf(
			"curl %s/oauth/v2/token -d grant_type=authorization_code -d client_id=%s -d client_secret=%s -d redirect_uri=%s -d code=%s",
			s.issuerOf(r), s.demo.ClientID, s.demo.ClientSecret, s.demoCallback(r), shellQuote(p.value("code")))}}
	}
	pageHeaders(w, false, "")
	s.render(w, r, http.StatusOK, views.Callback(props))
	return nil
}

// demoCallback is the demo client's redirect URI at the address of the request. One for
// 127.0.0.1 leads to the same server as localhost does.
func (s *Server) demoCallback(r *http.Request) string {
	callback := s.issuerOf(r) + "/callback"
	if onAddress := strings.Replace(callback, "//localhost", "//127.0.0.1", 1); store.MatchRedirectURI(s.demo.RedirectURI, onAddress) {
		return onAddress
	}
	return callback
}

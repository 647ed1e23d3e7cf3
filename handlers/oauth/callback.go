package oauth

import (
	"net/http"
	"strings"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/views"
)

// callback is GET /callback, in dev only. It takes the place of an application, so
// that the flow works in a browser before one exists. It is the demo client's
// redirect URI on dev's own port (RFC 8252 §7.3).
func (s *Server) callback(w http.ResponseWriter, r *http.Request) error {
	p, refused := web.ParseOAuthParams(r.URL.RawQuery)
	if refused != nil {
		return refused
	}
	props := views.CallbackProps{Page: s.site.Page(r), Allowed: p.Has("code")}
	for _, name := range []string{"code", "error", "error_description", "state", "iss"} {
		if p.Has(name) {
			props.Details = append(props.Details, views.Detail{Label: name, Value: p.Value(name)})
		}
	}
	if p.Has("code") && s.site.Demo.ClientSecret != "" {
		props.Redeem = "curl -sS " + web.CurlWord(s.site.IssuerOf(r)+"/oauth/v2/token") + " -d grant_type=authorization_code" +
			web.CurlField("client_id", s.site.Demo.ClientID) + web.CurlField("client_secret", s.site.Demo.ClientSecret) +
			web.CurlField("redirect_uri", s.DemoCallback(r)) + web.CurlField("code", p.Value("code"))
	}
	web.PageHeaders(w, web.Nowhere)
	web.AllowScript(w, false) // to copy
	s.site.Render(w, r, http.StatusOK, views.Callback(props))
	return nil
}

// DemoCallback is the demo client's redirect URI at the address of the request. One for
// 127.0.0.1 leads to the same server as localhost does.
func (s *Server) DemoCallback(r *http.Request) string {
	callback := s.site.IssuerOf(r) + "/callback"
	onAddress := strings.Replace(callback, "//localhost", "//127.0.0.1", 1)
	if store.MatchRedirectURI(s.site.Demo.RedirectURI, onAddress) {
		return onAddress
	}
	return callback
}

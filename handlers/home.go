package handlers

import (
	"fmt"
	"net/http"
	"net/url"

	"tollhouse/store"
	"tollhouse/views"
)

func (s *Server) home(w http.ResponseWriter, r *http.Request) error {
	session, err := s.session(r)
	if err != nil {
		return err
	}
	props := views.HomeProps{
		Page: s.page(r), SignInURL: "/login", SignOutURL: "/logout", Version: s.version, Steps: s.firstSteps(s.issuerOf(r)),
		Links: []views.Link{{Label: "Service status", Href: "/readyz", Note: "says ok when the server accepts requests"}},
	}
	if session != nil {
		props.Username, props.FormToken = session.User.Username, s.logoutToken(session.token)
	}
	if session != nil {
		props.Links = append([]views.Link{{Label: "Your account", Href: "/account", Note: "applications with access, your sign-ins, your password"}}, props.Links...)
	}
	if s.demo != nil && store.MatchRedirectURI(s.demo.RedirectURI, s.demoCallback(r)) {
		props.Links = append([]views.Link{{Label: "Try the sign-in", Href: s.demoAuthorizePath(r), Note: "sign in, allow or deny, and see what an application receives"}}, props.Links...)
	}
	pageHeaders(w, session != nil, "") // without a session the page has no form
	s.render(w, r, http.StatusOK, views.Home(props))
	return nil
}

func (s *Server) demoAuthorizePath(r *http.Request) string {
	q := url.Values{"client_id": {s.demo.ClientID}, "response_type": {"code"}, "redirect_uri": {s.demoCallback(r)}, "state": {"demo"}}
	return "/oauth/v2/auth?" + q.Encode()
}

// firstSteps are commands to paste. Only dev shows credentials, which are fixed and
// public.
func (s *Server) firstSteps(issuer string) []views.Step {
	if s.demo == nil || s.demo.ClientSecret == "" || s.demo.Password == "" { // or a seed file without them
		return []views.Step{
			{Title: "Create a user", Command: "tollhouse user create NAME --data DIR"},
			{Title: "Register an application", Command: "tollhouse client create --name NAME --redirect-uri https://app.example/callback --data DIR"},
		}
	}
	return []views.Step{
		{Title: "Get a token", Command: fmt.Sprintf("curl %s/oauth/v2/token -d grant_type=password -d client_id=%s -d client_secret=%s -d username=%s -d password='%s'",
			issuer, s.demo.ClientID, s.demo.ClientSecret, s.demo.Username, s.demo.Password)},
		{Title: "List events with it", Command: fmt.Sprintf("curl '%s/api/events?limit=3' -H 'Authorization: Bearer ACCESS_TOKEN'", issuer)},
	}
}

package handlers

import "net/http"

// publicRoutes are the routes that anybody may reach.
func (s *Server) publicRoutes() http.Handler {
	r := s.newRouter()

	r.on("POST", "/oauth/v2/token", s.token)
	r.page("GET", "/oauth/v2/auth", s.authorize)
	r.page("HEAD", "/oauth/v2/auth", s.authorize)

	r.page("GET", "/login", s.loginForm)
	r.page("HEAD", "/login", s.loginForm)
	r.page("POST", "/login", s.login)
	r.page("POST", "/consent", s.consent)
	r.page("POST", "/logout", s.logout)
	r.page("GET", "/", s.home)
	r.page("HEAD", "/", s.home)

	r.get("/static/*name", s.static)
	r.get("/healthz", s.healthz)
	r.get("/readyz", s.readyz)

	return r
}

// adminRoutes are the routes of the command line. Their listener is the
// operator's own, so they ask for no credentials.
func (s *Server) adminRoutes() http.Handler {
	r := s.newRouter()
	r.get("/healthz", s.healthz)
	r.get("/readyz", s.readyz)
	return r
}

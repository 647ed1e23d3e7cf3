package docs

import (
	"tollhouse/handlers/api"
	"tollhouse/handlers/desk"
	"tollhouse/handlers/oauth"
	"tollhouse/handlers/web"
)

// Server shows the start page and the reference.
type Server struct {
	site  *web.Site
	oauth *oauth.Server
	api   *api.Server
	desk  *desk.Server

	docsToken  docsToken
	references references
}

// New returns a Server.
func New(site *web.Site, people *oauth.Server, programs *api.Server, operators *desk.Server) *Server {
	return &Server{site: site, oauth: people, api: programs, desk: operators}
}

// Mount adds the routes.
func (s *Server) Mount(r *web.Router) {
	r.Page("GET", web.DocsPath, s.docs)
	r.Page("GET", web.DocsPath+"/:tag", s.docsOfTag)
	r.Page("GET", "/", s.home)
}

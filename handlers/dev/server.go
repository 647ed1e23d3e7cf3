package dev

import (
	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
)

// Server answers testers. In serve it has no controls, and then no routes either.
type Server struct {
	site     *web.Site
	api      *api.Server
	controls *Controls
}

// New returns a Server; controls are nil in serve.
func New(site *web.Site, of *api.Server, controls *Controls) *Server {
	return &Server{site, of, controls}
}

package desk

import (
	"net/http"
	"time"

	"tollhouse/handlers/admin"
	"tollhouse/handlers/api"
	"tollhouse/handlers/oauth"
	"tollhouse/handlers/web"
)

// Server shows the desk to operators. What it remembers is lost at a restart, which costs
// an operator one confirmation.
type Server struct {
	site  *web.Site
	oauth *oauth.Server
	api   *api.Server
	admin *admin.Server

	isOn     bool // whether there is a desk
	config   Config
	changed  *changes // when each session last made a change
	once     *onceKept
	findings quickFindings
	tails    tailLimit

	Routes  []web.Route
	unknown http.Handler // answers everyone but operators
}

const confirmDefault = 15 * time.Minute

// New returns a Server; without c nobody is shown a desk.
func New(site *web.Site, people *oauth.Server, programs *api.Server, operators *admin.Server, c *Config) *Server {
	s := &Server{site: site, oauth: people, api: programs, admin: operators, changed: newChanges(), once: newOnceKept(site.Store.Now)}
	if c != nil {
		s.isOn, s.config = true, *c
	}
	if s.config.Confirm == 0 {
		s.config.Confirm = confirmDefault
	}
	return s
}

// IsOn reports whether the server has a desk.
func (s *Server) IsOn() bool { return s.isOn }

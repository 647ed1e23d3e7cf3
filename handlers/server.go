package handlers

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"

	"tollhouse/handlers/admin"
	"tollhouse/handlers/api"
	"tollhouse/handlers/desk"
	"tollhouse/handlers/dev"
	"tollhouse/handlers/docs"
	"tollhouse/handlers/oauth"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/secret"
	"tollhouse/store/webhook/target"
)

// Config configures a Server.
type Config struct {
	Store *store.Store
	Key   secret.Key
	// PublicURL is the address for people and clients: the issuer and the base of
	// every link. It has a scheme, a host and optionally a path.
	PublicURL *url.URL
	// Hosts is set only in dev. Without it the server is the host of PublicURL alone.
	Hosts *web.Hosts
	// TrustedProxies are the peers whose X-Forwarded-For is trusted.
	TrustedProxies []netip.Prefix
	// Memory is the memory of the process in bytes; requests get a part of it.
	// 0 means the default.
	Memory  int64
	Log     *slog.Logger
	Version string
	// Desk has the operators' pages; nil leaves them out.
	Desk *desk.Config
	// Settings returns those of the server, with secrets masked; nil in a command's own process.
	Settings func() []admin.Setting
	// Platform says from where platform clients may be used; nil is nowhere.
	Platform *web.Platform
	// Demo is set only in dev.
	Demo *web.Demo
	// Dev has the testers' controls. It is set only in dev.
	Dev *dev.Controls
	// InstanceName is what people call this server; "" is tollhouse.
	InstanceName string
	// Logo is a PNG in place of the mark and the icon; nil is none.
	Logo []byte
	// Shared says that other servers, perhaps of other releases, have the same address.
	Shared bool
	// KeyFingerprint identifies the server key if Key is not known; it may be "".
	KeyFingerprint string
	// BackupRecipients are the public keys for which commands encrypt backups of this server,
	// unless they name their own.
	BackupRecipients []string
	// Random is the source of request ids; nil is the system's randomness.
	Random secret.Source
	// Ready returns why the server is not ready, or nil, for /readyz.
	Ready func() error
	// Observe is called after every request, concurrently; it must be quick. It may
	// be nil.
	Observe func(web.Served)
	// Metrics serves /metrics, never on the public handler. It may be nil.
	Metrics http.Handler
	// Webhooks is the sender of webhooks; nil if this process has none.
	Webhooks api.Webhooks
	// WebhookRules judge the URLs of webhook endpoints; nil allows only public addresses.
	WebhookRules *target.Rules
	// Status answers /admin/status; nil leaves it out. A command's own process has
	// none.
	Status func(context.Context) admin.ServerStatus
	// Command completes the commands in a text with the flags that name this store; nil
	// leaves them as they are.
	Command func(text string) string
	// Doctor answers /admin/doctor; nil leaves it out.
	Doctor func(ctx context.Context, depth admin.Depth, tell func(admin.Finding))
	// Alarms answers /admin/alarms and /admin/alarm-test; nil leaves them out.
	Alarms *admin.Alarms
}

// Server serves the handlers Public, Secure, Admin and Monitor.
type Server struct {
	Site *web.Site   // also for the handlers of plain http, and what metrics and doctor ask
	API  *api.Server // also to end its streams

	oauth *oauth.Server
	admin *admin.Server
	dev   *dev.Server
	desk  *desk.Server
	docs  *docs.Server

	public, operators, monitor http.Handler
}

// New returns a Server. It starts nothing.
func New(c Config) *Server {
	if c.Command == nil {
		c.Command = func(text string) string { return text }
	}
	site := web.New(web.Config{
		Store: c.Store, Key: c.Key, PublicURL: c.PublicURL, Hosts: c.Hosts, TrustedProxies: c.TrustedProxies, Memory: c.Memory,
		Log: c.Log, Version: c.Version, Demo: c.Demo, Platform: c.Platform, Testers: c.Dev != nil, InstanceName: c.InstanceName, Logo: c.Logo,
		Shared: c.Shared, Random: c.Random, Ready: c.Ready, Observe: c.Observe, Metrics: c.Metrics,
	})
	s := &Server{Site: site}
	s.oauth = oauth.New(site, oauth.Config{Command: c.Command, Unthrottled: c.Dev != nil && !c.Dev.Throttle})
	s.API = api.New(site, api.Config{Webhooks: c.Webhooks, WebhookRules: c.WebhookRules})
	s.admin = admin.New(site, s.API, admin.Config{Settings: c.Settings, Status: c.Status, Doctor: c.Doctor, Alarms: c.Alarms, KeyFingerprint: c.KeyFingerprint, Recipients: c.BackupRecipients})
	s.dev = dev.New(site, s.API, c.Dev)
	s.desk = desk.New(site, s.oauth, s.API, s.admin, c.Desk)
	s.docs = docs.New(site, s.oauth, s.API, s.desk)
	// What rooms left of dev and the desk ask of them; nil without these.
	if c.Dev != nil {
		site.Watch = s.dev.Watch
	}
	if c.Desk != nil {
		s.oauth.DeskFor, site.SignInPath = s.desk.PathFor, oauth.SignInFor
	}
	s.public = site.Public(s.publicRoutes())
	s.operators = site.ForOperators(s.adminRoutes())
	s.monitor = site.ForOperators(site.MonitorRoutes())
	return s
}

// publicRoutes are the routes that anybody may reach. Faults break what is sent, so they
// lie outside compression. Requests for the desk go to its own router.
func (s *Server) publicRoutes() http.Handler {
	r := s.Site.NewRouter()
	s.mountPublic(r)
	return s.dev.WithOrigin(s.dev.WithFaults(r, web.WithGzip(s.desk.WithDesk(s.admin.AtPlatform(r)))))
}

func (s *Server) mountPublic(r *web.Router) {
	s.oauth.Mount(r)
	s.docs.Mount(r)
	s.API.Mount(r)
	s.admin.MountPlatform(r)
	s.Site.Mount(r)
	s.dev.Mount(r)
}

// adminRoutes need no credentials: only the operator can reach their listener.
func (s *Server) adminRoutes() http.Handler {
	r := s.Site.NewRouter()
	r.ToOperators = true
	s.admin.Mount(r)
	return r
}

// Public returns the handler for public listeners.
func (s *Server) Public() http.Handler { return s.public }

// Secure returns Public for our own TLS listeners, with HSTS (RFC 6797). Behind a
// proxy, HSTS is the proxy's decision.
func (s *Server) Secure() http.Handler { return s.Site.Secure(s.public) }

// Admin returns the handler of the admin API, which needs no credentials: only the
// operator may reach its listener.
func (s *Server) Admin() http.Handler { return s.operators }

// Monitor returns the handler of health checks and metrics, under any host and without
// credentials. It exposes no names.
func (s *Server) Monitor() http.Handler { return s.monitor }

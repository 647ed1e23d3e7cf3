package web

import (
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"

	"tollhouse/store"
	"tollhouse/store/secret"
)

// Config configures a Site; handlers.Config describes the fields.
type Config struct {
	Store          *store.Store
	Key            secret.Key
	PublicURL      *url.URL
	Hosts          *Hosts
	TrustedProxies []netip.Prefix
	Memory         int64
	Log            *slog.Logger
	Version        string
	Demo           *Demo
	Platform       *Platform // nil: platform clients get no token, and theirs are refused
	Testers        bool      // whether this is dev, with the testers' controls
	InstanceName   string
	Logo           []byte
	Shared         bool
	Random         secret.Source
	Ready          func() error
	Observe        func(Served)
	Metrics        http.Handler
}

// Demo describes dev's seeded instance.
type Demo struct {
	ClientID, ClientSecret, RedirectURI string
	Username, Password, Account         string
	Operator                            bool   // whether the user is one
	WebhookEndpoint, WebhookSecret      string // of the endpoint of --webhook-to or the seed file, or ""
	PlatformClientID, PlatformSecret    string // of the first platform client, or ""
	// AutoLogin is the user that browsers are signed in as automatically, or "".
	AutoLogin string
	// AutoConsent grants every consent without asking.
	AutoConsent bool
}

// Site is what every request passes, and what all rooms need: the store, the key, the
// addresses and the log.
type Site struct {
	Store   *store.Store
	Key     secret.Key
	Log     *slog.Logger
	Version string
	Demo    *Demo // nil in serve
	Testers bool  // whether this is dev, with the testers' controls
	Shared  bool  // whether other servers have the same address

	address   atomic.Pointer[address]
	hosts     *Hosts // further ones, or nil
	platform  *Platform
	Origins   *http.CrossOriginProtection
	Proxies   *proxies
	lacksPort atomic.Bool // the latest Host lacked the port

	instance string
	logo     logo
	// SignInPath returns where the page for an unknown address offers to sign in.
	SignInPath func(r *http.Request) string

	// Watch wraps the answer to a request of dev; nil in serve.
	Watch func(w http.ResponseWriter, r *http.Request, facts *RequestFacts) http.ResponseWriter

	Load    *load
	changes changes
	ready   func() error
	observe func(Served)
	metrics http.Handler
	counted []Served // each route with a method, for metrics

	publicIDs, devIDs, adminIDs secret.Source // of ids of requests
}

// New returns a Site. It starts nothing.
func New(c Config) *Site {
	s := &Site{
		Store: c.Store, Key: c.Key, Log: c.Log, Version: c.Version, Demo: c.Demo, Testers: c.Testers, Shared: c.Shared,

		hosts:    c.Hosts,
		platform: c.Platform,
		Origins:  http.NewCrossOriginProtection(),
		Proxies:  &proxies{trusted: c.TrustedProxies, log: c.Log},

		instance: c.InstanceName, logo: newLogo(c.Logo), SignInPath: func(*http.Request) string { return "/login" },

		Load: newLoad(c.Memory), changes: changes{by: map[string]int{}}, ready: c.Ready, observe: c.Observe, metrics: c.Metrics,

		publicIDs: sequenceOf(c.Random, "request"), devIDs: sequenceOf(c.Random, "dev request"),
		adminIDs: sequenceOf(c.Random, "admin request"),
	}
	s.SetPublicURL(c.PublicURL)
	if s.ready == nil {
		s.ready = func() error { return nil }
	}
	if s.observe == nil {
		s.observe = func(Served) {}
	}
	s.Count(noRoute, methodNames...)
	return s
}

// address is what follows from the public URL.
type address struct {
	public  string // the issuer, without a trailing slash; with [Hosts.AsAsked] a request may have another
	base    string // its path, "" or "/pay"
	host    string // its host, without the port
	port    string // "" if it names none
	origin  string // its scheme, host and port
	cookies cookieJar
}

// SetPublicURL makes u the public URL from now on. A request that has begun may still use the
// former one.
func (s *Site) SetPublicURL(u *url.URL) {
	s.address.Store(&address{
		public:  strings.TrimSuffix(u.String(), "/"),
		base:    strings.TrimSuffix(u.EscapedPath(), "/"),
		host:    strings.ToLower(u.Hostname()),
		port:    u.Port(),
		origin:  u.Scheme + "://" + strings.ToLower(u.Host),
		cookies: newCookieJar(u),
	})
}

// PublicURL returns the issuer, without a trailing slash; with [Hosts.AsAsked] a request may
// have another.
func (s *Site) PublicURL() string { return s.address.Load().public }

// Base returns the path of the public URL, "" or "/pay".
func (s *Site) Base() string { return s.address.Load().base }

// Public lets the requests of public listeners pass to the routes.
func (s *Site) Public(routes http.Handler) http.Handler {
	return s.withRequest(publicListener, s.withHost(s.withBase(routes)))
}

// ForOperators lets requests of listeners that only operators reach pass to the routes,
// under any host.
func (s *Site) ForOperators(routes http.Handler) http.Handler {
	return s.withRequest(operatorListener, routes)
}

// Secure adds HSTS to the answers to requests over our own TLS (RFC 6797).
func (s *Site) Secure(public http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.mayBindBrowsers() {
			w.Header().Set("Strict-Transport-Security", strictTransport)
		}
		public.ServeHTTP(w, r)
	})
}

// Mount adds the routes of files and health checks.
func (s *Site) Mount(r *Router) {
	r.Get("/static/*name", s.static)
	r.Get("/healthz", healthz)
	r.Get("/readyz", s.readyz)
}

// MonitorRoutes have their own listener, under any host: their content is for the
// operator, and a proxy would pass on every path of a public listener.
func (s *Site) MonitorRoutes() http.Handler {
	r := s.NewRouter()
	s.MountMonitoring(r, s.readyz)
	return r
}

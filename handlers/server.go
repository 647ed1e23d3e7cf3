// Package handlers is tollhouse's HTTP surface: the OAuth endpoints, the
// screens behind them, the events API, and the admin API of the command line.
//
// Every request has the same steps: parse, authenticate, one method of the store,
// respond. routes.go lists the routes; files are named after endpoints. Handlers
// return errors, and only handle.go renders and logs them.
//
// Input is parsed once, at the border, into a typed value. Only the three functions
// of redirect.go write OAuth redirects.
package handlers

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/julienschmidt/httprouter"

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
	Hosts *Hosts
	// TrustedProxies are the peers whose X-Forwarded-For is trusted.
	TrustedProxies []netip.Prefix
	// Memory is the memory of the process in bytes; requests get a part of it.
	// 0 means the default.
	Memory  int64
	Log     *slog.Logger
	Version string
	// Desk has the operators' pages; nil leaves them out.
	Desk *Desk
	// Demo is set only in dev.
	Demo *Demo
	// Dev has the testers' controls. It is set only in dev.
	Dev *Dev
	// InstanceName is what people call this server; "" is tollhouse.
	InstanceName string
	// Logo is a PNG in place of the mark and the icon; nil is none.
	Logo []byte
	// Shared says that other servers, perhaps of other releases, have the same address.
	Shared bool
	// KeyFingerprint identifies the server key if Key is not known; it may be "".
	KeyFingerprint string
	// Random is the source of request ids; nil is the system's randomness.
	Random secret.Source
	// Ready returns why the server is not ready, or nil, for /readyz.
	Ready func() error
	// Guesses are the throttle's counts that several processes share; nil keeps them in
	// the memory of this one.
	Guesses Guesses
	// Observe is called after every request, concurrently; it must be quick. It may
	// be nil.
	Observe func(Served)
	// Metrics serves /metrics, never on the public handler. It may be nil.
	Metrics http.Handler
	// Webhooks is the sender of webhooks; nil if this process has none.
	Webhooks Webhooks
	// WebhookRules judge the URLs of webhook endpoints; nil allows only public addresses.
	WebhookRules *target.Rules
	// Status answers /admin/status; nil leaves it out. A command's own process has
	// none.
	Status func(context.Context) ServerStatus
	// Doctor answers /admin/doctor; nil leaves it out.
	Doctor func(ctx context.Context, deep bool, tell func(Finding))
}

// Demo describes dev's seeded instance.
type Demo struct {
	ClientID, ClientSecret, RedirectURI string
	Username, Password, Account         string
	WebhookEndpoint, WebhookSecret      string // of the endpoint of --webhook-to or the seed file, or ""
	// AutoLogin is the user that browsers are signed in as automatically, or "".
	AutoLogin string
	// AutoConsent grants every consent without asking.
	AutoConsent bool
}

// Server serves the handlers Public, Admin and Monitor.
type Server struct {
	store   *store.Store
	key     secret.Key
	log     *slog.Logger
	version string
	desk    *desk
	demo    *Demo
	dev     *Dev
	ready   func() error
	observe func(Served)
	metrics http.Handler

	webhooks     Webhooks
	webhookRules *target.Rules
	webhookTests *webhookTests

	status  func(context.Context) ServerStatus
	doctor  func(ctx context.Context, deep bool, tell func(Finding))
	started time.Time

	issuer   string // the public URL without a trailing slash
	base     string // its path, "" or "/pay"
	host     string // its host, without the port
	hosts    *Hosts // further ones, or nil
	cookies  cookieJar
	throttle *throttle
	proxies  *proxies
	load     *load
	kept     *keptPages
	origins  *http.CrossOriginProtection

	publicIDs, devIDs, adminIDs secret.Source // of ids of requests

	described descriptions
	docsToken docsToken

	instance    string
	logo        logo
	shared      bool
	fingerprint string // of the server key, or ""

	draining       chan struct{} // closed to end streams and long polls
	heartbeatEvery time.Duration // on an idle stream

	public, admin, monitor http.Handler
}

// New returns a Server. It starts nothing.
func New(c Config) *Server {
	s := &Server{
		store: c.Store, key: c.Key, log: c.Log, version: c.Version, demo: c.Demo, dev: c.Dev, ready: c.Ready, observe: c.Observe, metrics: c.Metrics, status: c.Status, doctor: c.Doctor, started: c.Store.Now(),
		issuer:   strings.TrimSuffix(c.PublicURL.String(), "/"),
		base:     strings.TrimSuffix(c.PublicURL.EscapedPath(), "/"),
		host:     strings.ToLower(c.PublicURL.Hostname()),
		hosts:    c.Hosts,
		cookies:  newCookieJar(c.PublicURL),
		throttle: newThrottle(c.Store.Now, newBuckets(c)),
		proxies:  &proxies{trusted: c.TrustedProxies, log: c.Log},
		load:     newLoad(c.Memory),
		kept:     newKeptPages(),
		origins:  http.NewCrossOriginProtection(),

		publicIDs: sequenceOf(c.Random, "request"), devIDs: sequenceOf(c.Random, "dev request"), adminIDs: sequenceOf(c.Random, "admin request"),

		instance: c.InstanceName, logo: newLogo(c.Logo), shared: c.Shared, fingerprint: c.KeyFingerprint,

		webhooks: c.Webhooks, webhookRules: c.WebhookRules, webhookTests: newWebhookTests(c.Store.Now),

		draining: make(chan struct{}), heartbeatEvery: heartbeatEvery,
	}
	if s.webhookRules == nil {
		s.webhookRules = &target.Rules{}
	}
	if c.Desk != nil {
		s.desk = newDesk(*c.Desk, c.Store.Now)
	}
	s.throttle.off = c.Dev != nil && !c.Dev.Throttle
	if s.ready == nil {
		s.ready = func() error { return nil }
	}
	if s.observe == nil {
		s.observe = func(Served) {}
	}
	s.public = s.withRequest(publicListener, s.withHost(s.withBase(s.publicRoutes())))
	s.admin = s.withRequest(operatorListener, s.adminRoutes())
	s.monitor = s.withRequest(operatorListener, s.monitorRoutes())
	return s
}

// Issuer returns the public URL without a trailing slash. With [Hosts.AsAsked] a request
// may have another.
func (s *Server) Issuer() string { return s.issuer }

// Public returns the handler for public listeners.
func (s *Server) Public() http.Handler { return s.public }

// Admin returns the handler of the admin API, which needs no credentials: only the
// operator may reach its listener.
func (s *Server) Admin() http.Handler { return s.admin }

// Monitor returns the handler of health checks and metrics, under any host and without
// credentials. It exposes no names.
func (s *Server) Monitor() http.Handler { return s.monitor }

// The limits of every HTTP server with these handlers. Long routes move their own
// deadlines.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 15 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 60 * time.Second
	headerSizeMax     = 32 << 10 // bytes; net/http adds 4 KiB of its own
)

// NewHTTPServer returns an http.Server with the limits that these handlers need.
func NewHTTPServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    headerSizeMax - 4<<10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// router registers routes and logs requests by their templates.
type router struct {
	*httprouter.Router
	s    *Server
	cors *httprouter.Router // sets the CORS headers of a path; GET stands for all methods

	routes      []route
	toOperators bool // only they reach it
}

func (s *Server) newRouter() *router {
	r := &router{Router: httprouter.New(), s: s, cors: httprouter.New()}
	// A mistyped token request would otherwise get a redirect, and the secrets would
	// be sent again.
	r.RedirectTrailingSlash = false
	r.RedirectFixedPath = false
	r.HandleMethodNotAllowed = true
	r.HandleOPTIONS = true
	r.GlobalOPTIONS = http.HandlerFunc(s.options)
	r.NotFound = s.handleLost(s.notFound)
	r.MethodNotAllowed = s.handleLost(s.methodNotAllowed)
	return r
}

// get registers a route for GET and HEAD.
func (r *router) get(path string, h handler) {
	r.on(http.MethodGet, path, h)
	r.on(http.MethodHead, path, h)
}

// getFromAnywhere is get for what pages of any origin may read.
func (r *router) getFromAnywhere(path string, h handler) {
	r.get(path, h)
	r.cors.GET(path, allowAnyOrigin)
}

// postFromClients registers a POST that pages of public clients may send.
func (r *router) postFromClients(path string, h handler) {
	r.on(http.MethodPost, path, h)
	r.cors.GET(path, r.s.allowPublicClient)
}

func (r *router) on(method, path string, h handler) {
	r.routes = append(r.routes, route{method: method, template: path})
	if r.toOperators {
		h = forOperator(h)
	}
	r.serve(method, path, r.s.handle(path, h))
}

func (r *router) serve(method, path string, handled http.Handler) {
	// Handler would put the parameters into a context of their own.
	r.Handle(method, path, func(w http.ResponseWriter, rq *http.Request, params httprouter.Params) {
		factsFrom(rq.Context()).params = params
		handled.ServeHTTP(w, rq)
	})
}

// page registers a page: its errors are pages, and forms from other sites are refused.
func (r *router) page(method, path string, h handler) {
	r.routes = append(r.routes, route{method: method, template: path, isPage: true})
	r.serve(method, path, r.s.handlePage(path, h))
}

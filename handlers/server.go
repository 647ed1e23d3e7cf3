// Package handlers is tollhouse's HTTP surface: the OAuth endpoints, the
// screens behind them, the events API, and the admin API of the command line.
//
// Every request reads the same way: parse, authenticate, one method of the
// store, write. routes.go lists the routes; the file of an endpoint carries its
// name. Handlers return errors, and handle.go alone renders and logs them.
//
// What comes in is parsed once, at the border, into a typed value; nothing
// further in sees raw input. What goes out as an OAuth redirect leaves through
// the three functions of redirect.go and nowhere else.
package handlers

import (
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/julienschmidt/httprouter"

	"tollhouse/store"
	"tollhouse/store/secret"
)

// Config is what a Server needs to know.
type Config struct {
	Store *store.Store
	Key   secret.Key
	// PublicURL is where people and clients reach the server: the issuer, and
	// the base of every link. Scheme, host, and at most a path.
	PublicURL *url.URL
	// TrustedProxies are the peers whose X-Forwarded-For is believed.
	TrustedProxies []netip.Prefix
	Log            *slog.Logger
	Version        string
	// Demo is set in dev only: what the start page and the sign-in show.
	Demo *Demo
	// Ready reports why the server is not ready, or nil. It is asked by /readyz.
	Ready func() error
	// Observe is told of every request once it is over; nil tells nobody. It
	// must be quick, and may be called by many goroutines.
	Observe func(Served)
	// Metrics answers /metrics, which is never on the public handler; nil leaves
	// it out.
	Metrics http.Handler
}

// Demo is the seeded instance of dev.
type Demo struct {
	ClientID, ClientSecret, RedirectURI string
	Username, Password, Account         string
	// AutoLogin is the user as whom browsers are signed in unasked, or "".
	AutoLogin string
	// AutoConsent allows whatever a client asks for, unasked.
	AutoConsent bool
}

// Server answers requests. Its handlers are Public, Admin and Monitor.
type Server struct {
	store   *store.Store
	key     secret.Key
	log     *slog.Logger
	version string
	demo    *Demo
	ready   func() error
	observe func(Served)
	metrics http.Handler
	started time.Time

	issuer   string // the public URL as clients compare it, without a slash at the end
	base     string // its path, "" or "/pay"
	host     string // its host, without the port
	cookies  cookieJar
	throttle *throttle
	proxies  *proxies
	origins  *http.CrossOriginProtection

	description func() description // made when it is first asked for

	draining       chan struct{} // closed when what waits for events must end
	heartbeatEvery time.Duration // on a quiet stream

	public, admin, monitor http.Handler
}

// New returns a Server. It does nothing until a handler of its is called.
func New(c Config) *Server {
	s := &Server{
		store: c.Store, key: c.Key, log: c.Log, version: c.Version, demo: c.Demo, ready: c.Ready, observe: c.Observe, metrics: c.Metrics, started: c.Store.Now(),
		issuer:   strings.TrimSuffix(c.PublicURL.String(), "/"),
		base:     strings.TrimSuffix(c.PublicURL.EscapedPath(), "/"),
		host:     strings.ToLower(c.PublicURL.Hostname()),
		cookies:  newCookieJar(c.PublicURL),
		throttle: newThrottle(c.Store.Now),
		proxies:  &proxies{trusted: c.TrustedProxies, log: c.Log},
		origins:  http.NewCrossOriginProtection(),

		draining: make(chan struct{}), heartbeatEvery: heartbeatEvery,
	}
	if s.ready == nil {
		s.ready = func() error { return nil }
	}
	if s.observe == nil {
		s.observe = func(Served) {}
	}
	s.description = sync.OnceValue(func() description { return describe(s.issuer, s.version) })
	s.public = s.withRequest(s.withHost(s.withBase(s.withCORS(withGzip(s.publicRoutes())))))
	s.admin = s.withRequest(s.adminRoutes())
	s.monitor = s.withRequest(s.monitorRoutes())
	return s
}

// Issuer returns the public URL as tokens' clients compare it.
func (s *Server) Issuer() string { return s.issuer }

// Public returns the handler for listeners that anybody may reach.
func (s *Server) Public() http.Handler { return s.public }

// Admin returns the handler of the admin API, for a listener that only the
// operator can reach: it asks for no credentials.
func (s *Server) Admin() http.Handler { return s.admin }

// Monitor returns the handler of health and metrics alone, under any host. It
// asks for no credentials and names nobody.
func (s *Server) Monitor() http.Handler { return s.monitor }

// The limits of every HTTP server over these handlers. Long routes move their
// own deadlines.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 15 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 60 * time.Second
	headerSizeMax     = 32 << 10 // bytes; net/http adds 4 KiB of its own
)

// NewHTTPServer returns an http.Server with the limits that these handlers rely
// on.
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

// router registers routes so that each is logged under its template.
type router struct {
	*httprouter.Router
	s *Server
}

func (s *Server) newRouter() *router {
	r := &router{Router: httprouter.New(), s: s}
	// A mistyped token request is otherwise answered with a redirect that sends
	// the secrets a second time.
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

func (r *router) on(method, path string, h handler) {
	handled := r.s.handle(path, h)
	// Not by Handler, which puts the parameters into a context of their own.
	r.Handle(method, path, func(w http.ResponseWriter, rq *http.Request, params httprouter.Params) {
		factsFrom(rq.Context()).params = params
		handled.ServeHTTP(w, rq)
	})
}

// page registers a form's route: pages answer errors as pages, and forms from
// other sites are refused.
func (r *router) page(method, path string, h handler) {
	r.Handler(method, path, r.s.handlePage(path, h))
}

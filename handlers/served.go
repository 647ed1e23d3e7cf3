package handlers

import (
	"context"
	"net/http"
	"time"
)

// Served is one finished request, for metrics. All its texts are from fixed sets, never
// the caller's.
type Served struct {
	Route  string // template of the route, or "(none)"
	Method string // or "OTHER"
	Status int
	Took   time.Duration
	Waited bool // waited for events: its duration is the caller's choice
	// GrantType is that of a token request, "none" if it names no grant that its
	// client has, and "" for other requests.
	GrantType string
	Code      string // error code, or ""
	Refusal   string // why a client, code or token was refused, as in the audit record, or ""
	SignIn    SignIn // result of the check of a password or a user's code, or ""
	Throttled bool   // refused because it came too soon
}

// SignIn is the result of the check of a password, or of a refused code for a new one.
type SignIn string

// Other values are the reasons in the audit record.
const (
	SignInRight     SignIn = "right"
	SignInThrottled SignIn = "throttled" // not checked: too soon
	SignInFailed    SignIn = "failed"    // not checked: the server could not
)

const (
	noRoute = "(none)"
	noGrant = "none"
)

// served returns the request's Served, to fill in.
func served(ctx context.Context) *Served { return &factsFrom(ctx).served }

// isMonitoring reports whether the request is a health check or a scrape.
func (s *Served) isMonitoring() bool {
	switch s.Route {
	case "/healthz", "/readyz", "/metrics":
		return true
	}
	return false
}

// monitorRoutes have their own listener, under any host: their content is for the
// operator, and a proxy would pass on every path of a public listener.
func (s *Server) monitorRoutes() http.Handler {
	r := s.newRouter()
	s.addMonitoring(r, s.readyz)
	return r
}

func (s *Server) addMonitoring(r *router, ready handler) {
	r.get("/healthz", s.healthz)
	r.get("/readyz", ready)
	if s.metrics != nil {
		r.get("/metrics", s.showMetrics)
	}
}

// showMetrics is GET /metrics, for Prometheus.
func (s *Server) showMetrics(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Cache-Control", "no-store")
	s.metrics.ServeHTTP(w, r)
	return nil
}

package handlers

import (
	"context"
	"net/http"
	"time"
)

// Served is one request as those see it who count requests: what was asked of
// which route, and how it went. It names nobody, and every text in it is one of
// a few of our own words, never the caller's.
type Served struct {
	Route  string // the template of the route, or "(none)"
	Method string // or "OTHER"
	Status int
	Took   time.Duration
	Waited bool // for events: the time that it took is the caller's choice
	// GrantType is that of a request for tokens, "none" for one that names no
	// grant that its client has, and "" for every other request.
	GrantType string
	Code      string // the error code of the answer, or ""
	Refusal   string // why a client, a code or a token was refused, as in the audit record, or ""
	SignIn    SignIn // how a password was judged, if there was one
	Throttled bool   // the request came too soon after others that failed
}

// SignIn is how somebody's password was judged, on whichever way it came.
type SignIn string

// Other refusals of a sign-in are called as in the audit record.
const (
	SignInRight     SignIn = "right"
	SignInThrottled SignIn = "throttled" // not judged: it came too soon
	SignInFailed    SignIn = "failed"    // not judged: the server could not
)

const (
	noRoute = "(none)"
	noGrant = "none"
)

// served returns what is told of the request when it is over.
func served(ctx context.Context) *Served { return &factsFrom(ctx).served }

// isMonitoring reports whether the request is one of those that machines send
// every few seconds for ever.
func (s *Served) isMonitoring() bool {
	switch s.Route {
	case "/healthz", "/readyz", "/metrics":
		return true
	}
	return false
}

// monitorRoutes are the routes of those who watch over the server. They have a
// listener of their own, under any host, since what they tell is the operator's
// business and a proxy passes on every path of a public one.
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

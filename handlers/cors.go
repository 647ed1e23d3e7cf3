package handlers

import (
	"log/slog"
	"net/http"

	"github.com/julienschmidt/httprouter"
)

// What pages of other origins may read (Fetch, CORS). Credentials are never
// allowed: our cookies are for our own pages.
const (
	corsReadMethods  = "GET, HEAD"
	corsPostMethods  = "POST"
	corsReadHeaders  = "Authorization"
	corsPostHeaders  = "Authorization, Content-Type" // bodies may be JSON
	corsExposed      = "ETag, Link, Retry-After, X-Request-Id, Tollhouse-Event, Tollhouse-Next-Cursor, Tollhouse-Notice, Tollhouse-Poll-After"
	corsKeptSeconds  = "600" // how long a browser may cache a preflight
	corsAnyOrigin    = "*"
	corsAllowOrigin  = "Access-Control-Allow-Origin"
	corsAllowMethods = "Access-Control-Allow-Methods"
	corsAllowHeaders = "Access-Control-Allow-Headers"
)

// withCORS sets the CORS headers that the route of a path was registered with:
// public reads are for every origin, the token and revocation endpoints for the
// origins of public clients. `*` there would let any site try passwords from its
// visitors' addresses. Other routes have no CORS headers.
func (r *router) withCORS(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, rq *http.Request) {
		if allow, _, _ := r.cors.Lookup(http.MethodGet, rq.URL.Path); allow != nil {
			allow(w, rq, nil)
		}
		next.ServeHTTP(w, rq)
	})
}

func allowAnyOrigin(w http.ResponseWriter, r *http.Request, _ httprouter.Params) {
	allowOrigin(w, r, corsAnyOrigin, corsReadMethods, corsReadHeaders)
}

func (s *Server) allowPublicClient(w http.ResponseWriter, r *http.Request, _ httprouter.Params) {
	w.Header().Add("Vary", "Origin")
	if s.isPublicClient(r) {
		allowOrigin(w, r, r.Header.Get("Origin"), corsPostMethods, corsPostHeaders)
	}
}

// isPublicClient reports whether the request's origin is that of a public
// client.
func (s *Server) isPublicClient(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	if len(origins) != 1 {
		return false
	}
	allowed, err := s.store.AllowsOrigin(r.Context(), origins[0])
	if err != nil {
		note(r.Context(), slog.String("err", err.Error())) // served without CORS headers
	}
	return allowed
}

// allowOrigin lets the origin read the response. A preflight also learns what
// it may send.
func allowOrigin(w http.ResponseWriter, r *http.Request, origin, methods, headers string) {
	h := w.Header()
	if h[corsAllowOrigin] = headerAnyOrigin; origin != corsAnyOrigin {
		h.Set(corsAllowOrigin, origin)
	}
	if r.Method != http.MethodOptions {
		h["Access-Control-Expose-Headers"] = headerExposed
		return
	}
	h.Set(corsAllowMethods, methods)
	h.Set(corsAllowHeaders, headers)
	h.Set("Access-Control-Max-Age", corsKeptSeconds)
}

package handlers

import (
	"log/slog"
	"net/http"
	"strings"
)

// What pages of other origins may read (Fetch, CORS). Nobody is ever allowed
// credentials: a cookie of ours is for our own pages.
const (
	corsReadMethods  = "GET, HEAD"
	corsPostMethods  = "POST"
	corsReadHeaders  = "Authorization"
	corsPostHeaders  = "Authorization, Content-Type" // JSON is one of the three bodies
	corsExposed      = "ETag, Link, Retry-After, X-Request-Id, Tollhouse-Event, Tollhouse-Next-Cursor, Tollhouse-Notice, Tollhouse-Poll-After"
	corsKeptSeconds  = "600" // how long a browser may keep the answer to a preflight
	corsAnyOrigin    = "*"
	corsAllowOrigin  = "Access-Control-Allow-Origin"
	corsAllowMethods = "Access-Control-Allow-Methods"
	corsAllowHeaders = "Access-Control-Allow-Headers"
)

// withCORS lets pages of other origins read what they may: anybody's the public
// reads, which without a token tell nothing; a public client's the token
// endpoint and the revocation endpoint. `*` there would let any site try
// passwords from its visitors' addresses. Everything else has no CORS headers.
func (s *Server) withCORS(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case isPublicRead(r.URL.Path):
			allowOrigin(w, r, corsAnyOrigin, corsReadMethods, corsReadHeaders)
		case r.URL.Path == "/oauth/v2/token", r.URL.Path == "/oauth/v2/revoke":
			w.Header().Add("Vary", "Origin")
			if s.isPublicClient(r) {
				allowOrigin(w, r, r.Header.Get("Origin"), corsPostMethods, corsPostHeaders)
			}
		}
		next.ServeHTTP(w, r)
	})
}

// isPublicRead reports whether a path is a read that any page may send.
func isPublicRead(path string) bool {
	return path == metadataPath || path == openAPIPath || path == "/api/event-types" || path == "/api/events" || strings.HasPrefix(path, "/api/events/")
}

// isPublicClient reports whether the page that sends the request may be a
// public client.
func (s *Server) isPublicClient(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	if len(origins) != 1 {
		return false
	}
	allowed, err := s.store.AllowsOrigin(r.Context(), origins[0])
	if err != nil {
		note(r.Context(), slog.String("err", err.Error())) // the request goes on, as from no page
	}
	return allowed
}

// allowOrigin lets the origin read the answer. A preflight also learns what it
// may send.
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

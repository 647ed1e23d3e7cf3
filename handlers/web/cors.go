package web

import (
	"log/slog"
	"net/http"
	"slices"
	"strings"
)

// What pages of other origins may read (Fetch, CORS). Credentials are never
// allowed: our cookies are for our own pages.
const (
	corsReadMethods = "GET, HEAD"
	corsAPIMethods  = "GET, HEAD, POST, PUT, PATCH, DELETE"
	corsPostMethods = "POST"
	corsExposed     = "ETag, Link, Retry-After, WWW-Authenticate, X-Request-Id, " +
		"Tollhouse-Event, Tollhouse-Next-Cursor, Tollhouse-Notice, Tollhouse-Poll-After"
	corsKeptSeconds  = "600" // how long a browser may cache a preflight
	corsAnyOrigin    = "*"
	corsAllowOrigin  = "Access-Control-Allow-Origin"
	corsAllowMethods = "Access-Control-Allow-Methods"
	corsAllowHeaders = "Access-Control-Allow-Headers"
)

// setCORS sets the CORS headers of a path, whatever the answer will be, so that a page can
// read errors too. The API and descriptions of the server are for every origin,
// since tokens and not cookies open them; the token and revocation endpoints are for the
// origins of public clients: `*` there would let any site try passwords from its
// visitors' addresses. Other paths have no CORS headers.
func (s *Site) setCORS(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, s.Base())
	switch {
	case isBelow(path, "/api"):
		if !IsPlatformPath(path) { // for programs on servers
			allowOrigin(w, r, corsAnyOrigin, corsAPIMethods)
		}
	case isBelow(path, "/.well-known"), path == OpenAPIPath:
		allowOrigin(w, r, corsAnyOrigin, corsReadMethods)
	case path == "/oauth/v2/token", path == "/oauth/v2/revoke":
		w.Header().Add("Vary", "Origin")
		if s.IsPublicClient(r) {
			allowOrigin(w, r, r.Header.Get("Origin"), corsPostMethods)
		}
	}
}

// isBelow reports whether path is that of a folder or of something in it.
func isBelow(path, folder string) bool {
	rest, is := strings.CutPrefix(path, folder)
	return is && (rest == "" || rest[0] == '/')
}

// IsPublicClient reports whether the request's origin is that of a public
// client.
func (s *Site) IsPublicClient(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	if len(origins) != 1 {
		return false
	}
	allowed, err := s.Store.AllowsOrigin(r.Context(), origins[0])
	if err != nil {
		Note(r.Context(), slog.String("err", err.Error())) // served without CORS headers
	}
	return allowed
}

// allowOrigin lets the origin read the response. A preflight also learns what
// it may send: every header, since the origin decides and headers guard nothing. `*` would
// not include Authorization.
func allowOrigin(w http.ResponseWriter, r *http.Request, origin, methods string) {
	h := w.Header()
	if h[corsAllowOrigin] = headerAnyOrigin; origin != corsAnyOrigin {
		h.Set(corsAllowOrigin, origin)
	}
	if r.Method != http.MethodOptions {
		h["Access-Control-Expose-Headers"] = headerExposed
		return
	}
	h.Set(corsAllowMethods, methods)
	if names := namesAsked(r); len(names) > 0 {
		h.Set(corsAllowHeaders, strings.Join(names, ", "))
	}
	h.Set("Access-Control-Max-Age", corsKeptSeconds)
}

// namesAsked lists the headers that a preflight asks for, without that of programs on
// servers: a page is not trusted to name an account.
func namesAsked(r *http.Request) []string {
	names := strings.Split(strings.Join(r.Header.Values("Access-Control-Request-Headers"), ","), ",")
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}
	return slices.DeleteFunc(names,
		func(name string) bool { return name == "" || strings.EqualFold(name, AccountHeader) })
}

// isAllowedPreflight reports whether a page's next request may be sent, also to an address
// that does not exist: without a preflight that succeeds, the page could not read the 404.
func isAllowedPreflight(w http.ResponseWriter, r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" &&
		len(w.Header()[corsAllowOrigin]) > 0
}

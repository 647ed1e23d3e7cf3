package web

import (
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/julienschmidt/httprouter"

	"tollhouse/views"
)

// Route is a registered route.
type Route struct {
	Method, Template string
	IsPage           bool
}

// at returns the template with its parameters as they are in the path, and whether that
// is the path.
func (t Route) at(path string) (filled string, is bool) {
	segments, of := strings.Split(t.Template, "/"), strings.Split(path, "/")
	for i, segment := range segments {
		switch {
		case strings.HasPrefix(segment, "*"):
			filled = strings.Join(append(segments[:i], of[min(i, len(of)):]...), "/")
			return filled, i < len(of) && slices.Equal(segments[:i], of[:i])
		case strings.HasPrefix(segment, ":") && i < len(of) && of[i] != "":
			segments[i] = of[i]
		}
	}
	filled = strings.Join(segments, "/")
	return filled, filled == path
}

// RouteOf returns the route of a request, or none.
func (r *Router) RouteOf(method, path string) (found Route) {
	for _, candidate := range r.Routes {
		if _, is := candidate.at(path); is && candidate.Method == method {
			return candidate
		}
	}
	return Route{}
}

// MethodsAt returns the methods of a path, or of all routes for "".
func (r *Router) MethodsAt(path string) (methods []string) {
	for _, candidate := range r.Routes {
		if _, is := candidate.at(path); (is || path == "") && !slices.Contains(methods, candidate.Method) {
			methods = append(methods, candidate.Method)
		}
	}
	if len(methods) > 0 {
		methods = append(methods, http.MethodOptions)
	}
	return methods
}

// PathsLike returns the paths of all routes but the controls', with the parameters of
// the given path.
func (r *Router) PathsLike(path string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, candidate := range r.Routes {
			filled, _ := candidate.at(path)
			if !IsDevPath(filled) && !yield(filled) {
				return
			}
		}
	}
}

// Router registers routes and logs requests by their templates.
type Router struct {
	*httprouter.Router
	s *Site

	Routes      []Route
	ToOperators bool // only they reach it
}

// NewRouter returns a Router without routes.
func (s *Site) NewRouter() *Router {
	r := &Router{Router: httprouter.New(), s: s}
	// A mistyped token request would otherwise get a redirect, and the secrets would
	// be sent again.
	r.RedirectTrailingSlash = false
	r.RedirectFixedPath = false
	r.HandleMethodNotAllowed = true
	r.HandleOPTIONS = true
	r.GlobalOPTIONS = http.HandlerFunc(options)
	r.NotFound = s.handleLost(NotFound)
	r.MethodNotAllowed = s.handleLost(MethodNotAllowed)
	return r
}

// ServeHTTP splits the paths of management before it decodes them: an id may contain a slash,
// which is written as %2F.
func (r *Router) ServeHTTP(w http.ResponseWriter, rq *http.Request) {
	if IsPlatformPath(rq.URL.Path) {
		rq = withEscapedPath(rq)
	}
	r.Router.ServeHTTP(w, rq)
}

// withEscapedPath returns the request with its path as its one escaped form.
func withEscapedPath(rq *http.Request) *http.Request {
	segments := strings.Split(rq.URL.EscapedPath(), "/")
	for i, segment := range segments {
		text, _ := url.PathUnescape(segment) // net/http has read it
		segments[i] = url.PathEscape(text)
	}
	escaped := *rq
	escaped.URL = &url.URL{Path: strings.Join(segments, "/"), RawQuery: rq.URL.RawQuery}
	return &escaped
}

// Get registers a route for GET and HEAD.
func (r *Router) Get(path string, h Handler) {
	r.On(http.MethodGet, path, h)
	r.On(http.MethodHead, path, h)
}

// On registers a route for programs: its errors are JSON.
func (r *Router) On(method, path string, h Handler) {
	r.Routes = append(r.Routes, Route{Method: method, Template: path})
	r.s.Count(path, method)
	if r.ToOperators {
		h = forOperator(h)
	}
	r.serve(method, path, r.s.handle(path, h))
}

func (r *Router) serve(method, path string, handled http.Handler) {
	// Handler would put the parameters into a context of their own.
	r.Handle(method, path, func(w http.ResponseWriter, rq *http.Request, params httprouter.Params) {
		FactsFrom(rq.Context()).Params = params
		handled.ServeHTTP(w, rq)
	})
}

// Page registers a page, with GET also for HEAD: its errors are pages, and forms from other
// sites are refused.
func (r *Router) Page(method, path string, h Handler) {
	if method == http.MethodGet {
		r.Page(http.MethodHead, path, h)
	}
	r.Routes = append(r.Routes, Route{Method: method, Template: path, IsPage: true})
	r.s.Count(path, method)
	r.serve(method, path, r.s.handlePage(path, h))
}

func options(w http.ResponseWriter, r *http.Request) {
	NoteRoute(r, "")
	w.WriteHeader(http.StatusNoContent) // the router sets Allow
}

// NotFound answers a request without a route.
func NotFound(_ http.ResponseWriter, _ *http.Request) error {
	return NewProblem(http.StatusNotFound, "not_found",
		"Unknown address. Paths must match exactly, without a slash at the end.")
}

// MethodNotAllowed answers a request whose route has other methods.
func MethodNotAllowed(w http.ResponseWriter, r *http.Request) error {
	description := "The method is not allowed here; the Allow header lists those that are."
	if r.URL.Path == "/oauth/v2/token" {
		OAuthHeaders(w)
		description = "The token endpoint accepts only POST, with the parameters in the body and not in the URL."
	}
	problem := NewProblem(http.StatusMethodNotAllowed, "invalid_request", "%s", description)
	if r.Method == http.MethodGet || r.Method == http.MethodHead { // a person opened the address
		problem.Page = &views.ErrorText{Kind: views.ErrorFormsOnly}
	}
	return problem
}

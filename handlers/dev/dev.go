package dev

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
	"tollhouse/views"
)

// Controls is what an instance of `tollhouse dev` gives to the people who test against it.
// serve has none: then no route below /_dev exists, and requests cost nothing more.
type Controls struct {
	Clock   *Clock
	Faults  *Faults
	Journal *Journal
	Control Controller // of the whole instance
	// Seed creates what the lines of a seed file say, all or none, and returns what each
	// has created. Errors: *SeedError.
	Seed func(ctx context.Context, lines [][]byte) ([]any, error)
	// RandSeed is the value of --rand-seed, or nil.
	RandSeed              *uint64
	Throttle, StrictTypes bool
}

const (
	devBodySizeMax = 1 << 20 // bytes
	devDepthMax    = 32      // nesting of a body
)

// devEndpoint is an endpoint below /_dev.
type devEndpoint struct {
	id           string // of its operation, for generated clients
	method, path string // path below /_dev, with :name for a parameter
	does         string // one sentence
	tag          string // its group
	query        []api.FormParam
	example      string // path and query of its example, path when empty
	body         string // of its example
	mediaType    string // of body, application/json when empty
	takes        string // the form of its body
	needsBody    bool
	answers      []devAnswer // 204 when empty
	refuses      []int       // statuses that not all have
	serve        web.Handler
}

// endpoints lists the endpoints in an order in which all their examples work. The list
// registers their routes and describes them.
func (s *Server) endpoints(r *web.Router) (all []devEndpoint) {
	itself := []devEndpoint{
		{id: "listControls", method: "GET", does: "lists these endpoints",
			answers: []devAnswer{{200, "The endpoints.", "EndpointList"}},
			serve:   func(w http.ResponseWriter, r *http.Request) error { return s.listDevEndpoints(w, r, all) }},
		{id: "describeControls", method: "GET", path: "/openapi.json", does: "describes these endpoints (OpenAPI 3.1)",
			answers: []devAnswer{{200, "The document.", "Document"}},
			serve: func(w http.ResponseWriter, r *http.Request) error {
				web.WriteBody(w, http.StatusOK, web.AsJSON, append(s.describeDev(s.site.ProgramsURL(r), all), '\n'))
				return nil
			}},
	}
	for _, group := range []struct {
		tag       string
		endpoints []devEndpoint
	}{
		{"Instance", itself}, {"Instance", s.controlEndpoints()}, {"Clock", s.clockEndpoints()}, {"Faults", s.faultEndpoints(r)},
		{"Making", s.makeEndpoints()}, {"Requests", s.journalEndpoints()},
	} {
		for _, e := range group.endpoints {
			e.tag = group.tag
			all = append(all, e)
		}
	}
	return all
}

// Mount adds the testers' controls.
func (s *Server) Mount(r *web.Router) {
	if s.controls == nil {
		return
	}
	endpoints := s.endpoints(r)
	r.Get(pagePath, s.orPage(web.NotFound))
	r.On(http.MethodPost, pagePath, s.sendForm(endpoints))
	for _, e := range endpoints {
		var known []string
		for _, p := range e.query {
			known = append(known, p[0])
		}
		if e.method == http.MethodGet && e.path == "" {
			r.Get(web.DevPath, s.orPage(withQuery(known, e.serve)))
			continue
		}
		if e.method == http.MethodGet {
			r.Get(web.DevPath+e.path, withQuery(known, e.serve))
			continue
		}
		r.On(e.method, web.DevPath+e.path, withQuery(known, e.serve))
	}
}

// WithOrigin refuses requests of other origins' pages to the controls, reads
// included: any page could otherwise reach the instance on its visitor's machine.
func (s *Server) WithOrigin(next http.Handler) http.Handler {
	if s.controls == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if web.IsDevPath(r.URL.Path) {
			unsafe := *r
			unsafe.Method = http.MethodPost // Check lets reads pass
			if err := s.site.Origins.Check(&unsafe); err != nil {
				web.NoteRoute(r, "")
				p := web.NewProblem(http.StatusForbidden, "forbidden", "Pages of other origins may not use the controls of this instance.").Because(err)
				web.NoteProblem(r.Context(), p)
				if web.AsksForHTML(r) {
					s.site.WriteProblemPage(w, r, p.AsPage(views.ErrorText{Kind: views.ErrorForeignLink}))
					return
				}
				web.WriteProblem(w, p)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// shownEndpoint is an endpoint in the answer of GET /_dev.
type shownEndpoint struct {
	Method string `json:"method"`
	Path   string `json:"path"`
	Does   string `json:"does"`
	Curl   string `json:"curl"`
}

// listDevEndpoints is GET /_dev.
func (s *Server) listDevEndpoints(w http.ResponseWriter, r *http.Request, endpoints []devEndpoint) error {
	base := s.site.ProgramsURL(r)
	shown := make([]shownEndpoint, 0, len(endpoints))
	for _, e := range endpoints {
		shown = append(shown, shownEndpoint{e.method, web.DevPath + e.path, e.does, e.curl(base)})
	}
	web.WriteJSON(w, http.StatusOK, map[string]any{"endpoints": shown})
	return nil
}

func (e devEndpoint) curl(base string) string {
	line, path, mediaType := "curl -sS", e.example, e.mediaType
	if path == "" {
		path = e.path
	}
	if mediaType == "" {
		mediaType = "application/json"
	}
	if e.method != http.MethodGet {
		line += " -X " + e.method
	}
	line += " '" + base + web.DevPath + path + "'"
	if e.body != "" {
		line += " -H 'Content-Type: " + mediaType + "' -d '" + e.body + "'"
	}
	return line
}

// withQuery refuses query parameters that an endpoint does not know, and repeated
// ones.
func withQuery(known []string, h web.Handler) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		pairs, refused := web.ParseAPIQuery(r.URL.RawQuery)
		if refused != nil {
			return refused
		}
		seen := map[string]bool{}
		for _, pair := range pairs {
			if !slices.Contains(known, pair.Name) {
				return web.UnknownMember("query parameter", "", pair.Name, known)
			}
			if seen[pair.Name] {
				return web.InvalidRequest("%s is given more than once.", pair.Name).On(pair.Name)
			}
			seen[pair.Name] = true
		}
		return h(w, r)
	}
}

// readDevBody reads a JSON body into to, a pointer to a struct or a slice of structs.
// Without a body it leaves to as it is. It refuses unknown members.
func readDevBody(w http.ResponseWriter, r *http.Request, to any) error {
	body, err := readDevBytes(w, r, devBodySizeMax, "application/json")
	if err != nil || body == nil {
		return err
	}
	return web.DecodeStrictly(body, devDepthMax, to)
}

// readDevBytes reads a body of one of the media types. It returns nil if there is none.
func readDevBytes(w http.ResponseWriter, r *http.Request, sizeMax int64, mediaTypes ...string) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, sizeMax))
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		return nil, web.TooLarge(sizeMax).With("Connection", "close")
	case err != nil:
		return nil, web.InvalidRequest("The request body is incomplete.").Because(err)
	}
	if body = web.WithoutMark(body); len(body) == 0 {
		return nil, nil
	}
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || !slices.Contains(mediaTypes, mediaType) || r.Header.Get("Content-Encoding") != "" {
		return nil, web.NewProblem(http.StatusUnsupportedMediaType, "unsupported_media_type", "The Content-Type must be %s, without a Content-Encoding.", strings.Join(mediaTypes, " or "))
	}
	return body, nil
}

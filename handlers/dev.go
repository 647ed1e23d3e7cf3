package handlers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"tollhouse/handlers/testers"
	"tollhouse/store/snapshot"
	"tollhouse/store/spelling"
)

// Dev is what an instance of `tollhouse dev` gives to the people who test against it.
// serve has none: then no route below /_dev exists, and requests cost nothing more.
type Dev struct {
	Clock   *testers.Clock
	Faults  *testers.Faults
	Journal *testers.Journal
	Control Controller // of the whole instance
	// Seed creates what the lines of a seed file say, all or none, and returns what each
	// has created. Errors: *SeedError.
	Seed func(ctx context.Context, lines [][]byte) ([]any, error)
	// RandSeed is the value of --rand-seed, or nil.
	RandSeed              *uint64
	Throttle, StrictTypes bool
}

// DevPath is where the testers' controls begin.
const DevPath = "/_dev"

const (
	devBodySizeMax = 1 << 20 // bytes
	devDepthMax    = 32      // nesting of a body
)

// devEndpoint is an endpoint below /_dev.
type devEndpoint struct {
	method, path string   // path below /_dev, with :name for a parameter
	does         string   // one sentence
	query        []string // its query parameters
	example      string   // path and query of its example, path when empty
	body         string   // of its example
	mediaType    string   // of body, application/json when empty
	serve        handler
}

// devEndpoints lists the endpoints in an order in which all their examples work.
func (s *Server) devEndpoints(r *router) []devEndpoint {
	return slices.Concat(s.devDescriptionEndpoints(), s.devControlEndpoints(), s.devClockEndpoints(), s.devFaultEndpoints(r), s.devMakeEndpoints(), s.devJournalEndpoints())
}

// isDevRequest reports whether the request is for the testers' controls.
func (s *Server) isDevRequest(r *http.Request) bool {
	if s.dev == nil {
		return false
	}
	path, under := strings.CutPrefix(r.URL.Path, s.base)
	return under && isDevPath(path)
}

func isDevPath(path string) bool {
	rest, is := strings.CutPrefix(path, DevPath)
	return is && (rest == "" || rest[0] == '/')
}

// devRoutes adds the testers' controls.
func (s *Server) devRoutes(r *router) {
	if s.dev == nil {
		return
	}
	endpoints := s.devEndpoints(r)
	r.get(DevPath, withQuery(nil, func(w http.ResponseWriter, r *http.Request) error {
		return s.listDevEndpoints(w, r, endpoints)
	}))
	for _, e := range endpoints {
		if e.method == http.MethodGet {
			r.get(DevPath+e.path, withQuery(e.query, e.serve))
			continue
		}
		r.on(e.method, DevPath+e.path, withQuery(e.query, e.serve))
	}
}

// withDevOrigin refuses requests of other origins' pages to the controls, reads
// included: any page could otherwise reach the instance on its visitor's machine.
func (s *Server) withDevOrigin(next http.Handler) http.Handler {
	if s.dev == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isDevPath(r.URL.Path) {
			unsafe := *r
			unsafe.Method = http.MethodPost // Check lets reads pass
			if err := s.origins.Check(&unsafe); err != nil {
				noteRoute(r, "")
				p := newProblem(http.StatusForbidden, "forbidden", "Pages of other origins may not use the controls of this instance.").because(err)
				noteProblem(r.Context(), p)
				writeProblem(w, p)
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
	base := s.programsURL(r)
	shown := []shownEndpoint{{http.MethodGet, DevPath, "lists these endpoints", "curl -sS '" + base + DevPath + "'"}}
	for _, e := range endpoints {
		shown = append(shown, shownEndpoint{e.method, DevPath + e.path, e.does, e.curl(base)})
	}
	writeJSON(w, http.StatusOK, map[string]any{"endpoints": shown})
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
	line += " '" + base + DevPath + path + "'"
	if e.body != "" {
		line += " -H 'Content-Type: " + mediaType + "' -d '" + e.body + "'"
	}
	return line
}

// withQuery refuses query parameters that an endpoint does not know, and repeated
// ones.
func withQuery(known []string, h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		pairs, refused := parseAPIQuery(r.URL.RawQuery)
		if refused != nil {
			return refused
		}
		seen := map[string]bool{}
		for _, pair := range pairs {
			if !slices.Contains(known, pair.name) {
				return unknownMember("query parameter", "", pair.name, known)
			}
			if seen[pair.name] {
				return invalidRequest("%s is given more than once.", pair.name).on(pair.name)
			}
			seen[pair.name] = true
		}
		return h(w, r)
	}
}

// unknownMember refuses a member or parameter below prefix, and suggests a known one.
func unknownMember(what, prefix, name string, known []string) *problem {
	shown := prefix + plainWords(shownName(name))
	if near, ok := spelling.Nearest(name, slices.Values(known)); ok {
		return invalidRequest("Unknown %s %s; did you mean %s?", what, shown, prefix+near).on(shown)
	}
	return invalidRequest("Unknown %s %s.", what, shown).on(shown)
}

// plainWords replaces what may not stand in an error_description (RFC 6749 §5.2).
func plainWords(text string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c == '"':
			return '\''
		case c < ' ', c == '\\', c > '~':
			return '?'
		}
		return c
	}, text)
}

// readDevBody reads a JSON body into to, a pointer to a struct or a slice of structs.
// Without a body it leaves to as it is. It refuses unknown members.
func readDevBody(w http.ResponseWriter, r *http.Request, to any) error {
	body, err := readDevBytes(w, r, devBodySizeMax, "application/json")
	if err != nil || body == nil {
		return err
	}
	return decodeDev(body, to)
}

// readDevBytes reads a body of one of the media types. It returns nil if there is none.
func readDevBytes(w http.ResponseWriter, r *http.Request, sizeMax int64, mediaTypes ...string) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, sizeMax))
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		return nil, tooLarge(sizeMax).with("Connection", "close")
	case err != nil:
		return nil, invalidRequest("The request body is incomplete.").because(err)
	case len(body) == 0:
		return nil, nil
	}
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || !slices.Contains(mediaTypes, mediaType) || r.Header.Get("Content-Encoding") != "" {
		return nil, newProblem(http.StatusUnsupportedMediaType, "unsupported_media_type", "The Content-Type must be %s, without a Content-Encoding.", strings.Join(mediaTypes, " or "))
	}
	return body, nil
}

// decodeDev decodes JSON into to. Its problems name the member, such as match.path or
// 1.createdAt.
func decodeDev(body []byte, to any) error {
	if _, err := snapshot.Parse(body, devDepthMax); err != nil { // refuses repeated members
		return invalidRequest("The body is not valid JSON: %s.", plainWords(err.Error()))
	}
	if refused := decodeMember(body, reflect.ValueOf(to).Elem(), ""); refused != nil {
		return refused
	}
	return nil
}

var unmarshalerType = reflect.TypeFor[json.Unmarshaler]()

// decodeMember decodes one value; name is its place in the body.
func decodeMember(text []byte, to reflect.Value, name string) *problem {
	text = bytes.TrimSpace(text)
	isNull := bytes.Equal(text, []byte("null"))
	switch {
	case to.Type() == reflect.TypeFor[json.RawMessage]() || to.Kind() == reflect.Interface:
	case isNull:
		return invalidRequest("%s must not be null; leave it out.", shownMember(name)).on(name)
	case to.Kind() == reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		return decodeMember(text, to.Elem(), name)
	case reflect.PointerTo(to.Type()).Implements(unmarshalerType):
	case to.Kind() == reflect.Struct:
		return decodeMembers(text, to, name)
	case to.Kind() == reflect.Slice:
		return decodeItems(text, to, name)
	}
	if err := json.Unmarshal(text, to.Addr().Interface()); err != nil {
		return invalidRequest("%s %s.", shownMember(name), wrongKind(err, to)).on(name)
	}
	return nil
}

func decodeMembers(text []byte, to reflect.Value, name string) *problem {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return invalidRequest("%s must be a JSON object.", shownMember(name)).on(name)
	}
	fields := map[string]reflect.Value{}
	var known []string
	for i := range to.NumField() {
		field, _, _ := strings.Cut(to.Type().Field(i).Tag.Get("json"), ",")
		if field == "" || field == "-" {
			continue
		}
		fields[field] = to.Field(i)
		known = append(known, field)
	}
	prefix := name
	if prefix != "" {
		prefix += "."
	}
	for _, member := range sortedNames(members) {
		field, ok := fields[member]
		if !ok {
			return unknownMember("member", prefix, member, known)
		}
		if refused := decodeMember(members[member], field, prefix+member); refused != nil {
			return refused
		}
	}
	return nil
}

func decodeItems(text []byte, to reflect.Value, name string) *problem {
	var items []json.RawMessage
	if err := json.Unmarshal(text, &items); err != nil {
		return invalidRequest("%s must be a JSON list.", shownMember(name)).on(name)
	}
	if name != "" {
		name += "."
	}
	to.Set(reflect.MakeSlice(to.Type(), len(items), len(items)))
	for i, item := range items {
		if refused := decodeMember(item, to.Index(i), fmt.Sprint(name, i)); refused != nil {
			return refused
		}
	}
	return nil
}

// shownMember names a member at the start of a sentence.
func shownMember(name string) string {
	if name == "" {
		return "The body"
	}
	return name
}

// wrongKind says what a member must be.
func wrongKind(err error, to reflect.Value) string {
	var kind *json.UnmarshalTypeError
	if !errors.As(err, &kind) {
		return err.Error() // of our own types
	}
	switch to.Kind() {
	case reflect.String:
		return "must be a text"
	case reflect.Bool:
		return "must be true or false"
	case reflect.Map:
		return "must be an object of texts"
	}
	return "must be a whole number"
}

func sortedNames[T any](of map[string]T) []string {
	names := make([]string, 0, len(of))
	for name := range of {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

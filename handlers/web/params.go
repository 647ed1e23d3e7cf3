package web

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"unicode/utf8"

	"tollhouse/store/snapshot"
)

const (
	FormSizeMax   = 64 << 10 // of a form, multipart or JSON body
	ParamCountMax = 128      // parameters of one request
	ParamDepthMax = 32       // nesting of a JSON body
	bodySizeFirst = 1 << 10  // initial buffer
)

// Params are the parameters of an OAuth request. RFC 6749 §3.1, §3.2: one without a
// value counts as absent, none may be repeated, unknown ones are ignored.
type Params struct {
	Values   map[string]string
	Repeated map[string]bool
	Further  map[string][]string // values of repeated ones after the first
	NoString map[string]bool     // members of a JSON body with a value of another type
	count    int
}

// Value returns a parameter, or "" when it is absent.
func (p Params) Value(name string) string { return p.Values[name] }

// Has reports whether a parameter has a value.
func (p Params) Has(name string) bool { return p.Values[name] != "" }

// All returns the values of a list, whose name is repeated.
func (p Params) All(name string) []string {
	if !p.Has(name) {
		return nil
	}
	return append([]string{p.Value(name)}, p.Further[name]...)
}

// given reports whether a parameter was sent, with or without a value.
func (p Params) given(name string) bool {
	_, given := p.Values[name]
	return given
}

func (p *Params) add(name, value string) *Problem {
	if p.count++; p.count > ParamCountMax {
		return InvalidRequest("The request has more than %d parameters.", ParamCountMax)
	}
	if !IsText(name) || !IsText(value) {
		return InvalidRequest("A parameter contains a NUL character or is not valid UTF-8.")
	}
	if p.given(name) {
		if p.Repeated == nil {
			p.Repeated, p.Further = map[string]bool{}, map[string][]string{}
		}
		p.Repeated[name] = true
		p.Further[name] = append(p.Further[name], value)
		return nil
	}
	if p.Values == nil {
		p.Values = map[string]string{}
	}
	p.Values[name] = value
	return nil
}

// RefuseRepeated refuses the first of the known parameters that is repeated or, in JSON,
// not a string. RFC 6749 §3.1 forbids repetition too, but of unknown parameters it would
// refuse those that extensions repeat, such as resource (RFC 8707 §2).
func (p Params) RefuseRepeated(known ...string) *Problem {
	for _, name := range known {
		switch {
		case p.Repeated[name]:
			return InvalidRequest("The parameter %s is given more than once.", name).On(name)
		case p.NoString[name]:
			return InvalidRequest("The parameter %s must be a string.", name).On(name)
		}
	}
	return nil
}

// IsText reports whether text is valid UTF-8 without NUL, which keys of the store exclude.
func IsText(text string) bool { return utf8.ValidString(text) && strings.IndexByte(text, 0) < 0 }

// ParseOAuthParams reads a form-encoded query or body. Unlike [ParseAPIQuery] it
// takes a semicolon as an ordinary character (WHATWG URL §5.1) and ignores order.
func ParseOAuthParams(text string) (Params, *Problem) {
	var p Params
	if refused := readPairs(text, "parameters", p.add); refused != nil {
		return Params{}, refused
	}
	return p, nil
}

// ParseBody reads the parameters of a POST. Our choice: it accepts three encodings,
// since the specification leaves the encoding open.
func ParseBody(w http.ResponseWriter, r *http.Request) (Params, error) {
	if r.Header.Get("Content-Encoding") != "" {
		return Params{}, NewProblem(http.StatusUnsupportedMediaType, "unsupported_media_type",
			"Compressed bodies are not accepted; send it without Content-Encoding.")
	}
	mediaType, mediaParams, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return Params{}, wrongContentType()
	}
	body, err := ReadBody(w, r)
	if err != nil {
		return Params{}, err
	}
	var p Params
	var refused *Problem
	switch mediaType {
	case "application/x-www-form-urlencoded":
		p, refused = ParseOAuthParams(string(body))
	case "multipart/form-data":
		p, refused = ParseMultipart(body, mediaParams["boundary"])
	case "application/json":
		p, refused = ParseJSONParams(body)
	default:
		refused = wrongContentType()
	}
	if refused != nil {
		return Params{}, refused
	}
	return p, nil
}

func wrongContentType() *Problem {
	return InvalidRequest(
		"The Content-Type must be application/x-www-form-urlencoded, multipart/form-data or application/json.")
}

// ReadBody reads a bounded body. If it is too large, the connection is closed.
func ReadBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.Body == http.NoBody {
		return nil, nil
	}
	d := &FactsFrom(r.Context()).Lease
	d.waitFor(w, true)
	body, err := readCharged(r.Context(), http.MaxBytesReader(w, r.Body, FormSizeMax), d)
	gaveWay := d.resume()
	if err == nil && !gaveWay {
		return body, nil
	}
	if gaveWay {
		err = TemporarilyUnavailable(errBudget)
	}
	switch p := AsProblem(err); {
	case p.Status == http.StatusRequestEntityTooLarge:
		return nil, p.With("Connection", "close")
	case p.Status == http.StatusServiceUnavailable:
		// net/http would read the rest, however long it takes.
		_ = http.NewResponseController(w).SetReadDeadline(longPast)
		if r.ProtoMajor == 1 { // otherwise other requests share the connection
			p.With("Connection", "close")
		}
		return nil, p
	}
	return nil, InvalidRequest("The request body is incomplete.").Because(err)
}

// readCharged reads a body and charges the request for the memory beyond the free
// part.
func readCharged(ctx context.Context, from io.Reader, d *Lease) ([]byte, error) {
	b := strangersBodyBudget
	if d.holder != (holder{}) {
		b = bodyBudget
	}
	body := make([]byte, 0, bodySizeFirst)
	for {
		n, err := from.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case err == io.EOF:
			return body, nil
		case err != nil:
			return nil, err
		case len(body) < cap(body):
			continue
		}
		size := min(2*cap(body), FormSizeMax+1) // one more, to detect the end
		if err := d.take(ctx, b, int64(max(size-max(cap(body), bodySizeFree), 0))); err != nil {
			return nil, err
		}
		body = append(make([]byte, 0, size), body...)
	}
}

// ParseMultipart reads a multipart/form-data body without files.
func ParseMultipart(body []byte, boundary string) (Params, *Problem) {
	broken := func() *Problem { return InvalidRequest("The multipart body is malformed.") }
	// The reader accepts a body that was cut off in a part's header.
	if boundary == "" || !bytes.Contains(body, []byte("--"+boundary+"--")) {
		return Params{}, broken()
	}
	var p Params
	parts := multipart.NewReader(bytes.NewReader(body), boundary)
	for {
		part, err := parts.NextRawPart()
		if err == io.EOF {
			return p, nil
		}
		if err != nil {
			return Params{}, broken()
		}
		if part.FileName() != "" {
			return Params{}, InvalidRequest("A parameter is sent as a file; send it as a plain field.")
		}
		value, err := io.ReadAll(part)
		if err != nil {
			return Params{}, broken()
		}
		if refused := p.add(part.FormName(), string(value)); refused != nil {
			return Params{}, refused
		}
	}
}

// byteOrderMark starts the JSON of some editors and languages. RFC 8259 §8.1 lets a
// reader skip it.
var byteOrderMark = []byte("\ufeff")

// WithoutMark returns a body without its byte order mark.
func WithoutMark(body []byte) []byte { return bytes.TrimPrefix(body, byteOrderMark) }

// ParseJSONParams reads the members of a JSON object. A null counts as absent;
// [Params.RefuseRepeated] refuses values of other types. Unknown members are ignored, but not
// values that no body may contain, such as 1e400.
func ParseJSONParams(body []byte) (p Params, refused *Problem) {
	members, err := snapshot.ParseMembers(WithoutMark(body), ParamDepthMax)
	if err != nil {
		var doc *snapshot.Error
		if errors.As(err, &doc) && doc.Path != "" {
			return Params{}, InvalidRequest("%s", PlainWords(Sentence(doc.Reason, doc.Path))).On(doc.Path)
		}
		return Params{}, InvalidRequest("The JSON body must be one object.").Because(err)
	}
	for _, m := range members {
		text, kind := "", m.Value.Kind()
		if kind == snapshot.String {
			text = m.Value.Text()
		}
		if refused := p.add(m.Name, text); refused != nil {
			return Params{}, refused
		}
		if kind != snapshot.String && kind != snapshot.Null {
			if p.NoString == nil {
				p.NoString = map[string]bool{}
			}
			p.NoString[m.Name] = true
		}
	}
	return p, nil
}

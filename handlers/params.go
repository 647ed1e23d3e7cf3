package handlers

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"
)

const (
	formSizeMax   = 64 << 10 // of a form, multipart or JSON body
	paramCountMax = 128      // parameters of one request
	bodySizeFirst = 1 << 10  // initial buffer
)

// params are the parameters of an OAuth request. RFC 6749 §3.1, §3.2: one without a
// value counts as absent, none may be repeated, unknown ones are ignored.
type params struct {
	values   map[string]string
	repeated map[string]bool
	further  map[string][]string // values of repeated ones after the first
	count    int
}

// value returns a parameter, or "" when it is absent.
func (p params) value(name string) string { return p.values[name] }

// has reports whether a parameter came with a value.
func (p params) has(name string) bool { return p.values[name] != "" }

// all returns the values of a list, whose name is repeated.
func (p params) all(name string) []string {
	if !p.has(name) {
		return nil
	}
	return append([]string{p.value(name)}, p.further[name]...)
}

// given reports whether a parameter was sent, with or without a value.
func (p params) given(name string) bool {
	_, given := p.values[name]
	return given
}

func (p *params) add(name, value string) *problem {
	if p.values == nil {
		p.values, p.repeated, p.further = map[string]string{}, map[string]bool{}, map[string][]string{}
	}
	if p.count++; p.count > paramCountMax {
		return invalidRequest("The request has more than %d parameters.", paramCountMax)
	}
	if !isText(name) || !isText(value) {
		return invalidRequest("A parameter contains a NUL character or is not valid UTF-8.")
	}
	if p.given(name) {
		p.repeated[name] = true
		p.further[name] = append(p.further[name], value)
		return nil
	}
	p.values[name] = value
	return nil
}

// refuseRepeated refuses repeated parameters. It names only ours: the caller's text is
// not echoed.
func (p params) refuseRepeated(known ...string) *problem {
	for _, name := range known {
		if p.repeated[name] {
			return invalidRequest("The parameter %s is given more than once.", name).on(name)
		}
	}
	if len(p.repeated) > 0 {
		return invalidRequest("A parameter is given more than once.")
	}
	return nil
}

func isText(text string) bool { return utf8.ValidString(text) && strings.IndexByte(text, 0) < 0 }

// parseOAuthParams reads a form-encoded query or body. Unlike [parseAPIQuery] it
// takes a semicolon as an ordinary character (WHATWG URL §5.1) and ignores order.
// net/url drops what it cannot read, and a dropped parameter is a skipped check.
func parseOAuthParams(text string) (params, *problem) {
	var p params
	for pair := range strings.SplitSeq(text, "&") {
		if pair == "" {
			continue
		}
		rawName, rawValue, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(rawName)
		if err != nil {
			return params{}, invalidRequest("A percent sign in the parameters must be followed by two hexadecimal digits.")
		}
		value, err := url.QueryUnescape(rawValue)
		if err != nil {
			return params{}, invalidRequest("A percent sign in the parameters must be followed by two hexadecimal digits.")
		}
		if problem := p.add(name, value); problem != nil {
			return params{}, problem
		}
	}
	return p, nil
}

// parseBody reads the parameters of a POST. Our choice: it accepts three encodings,
// since the specification leaves the encoding open.
func parseBody(w http.ResponseWriter, r *http.Request) (params, error) {
	if r.Header.Get("Content-Encoding") != "" {
		return params{}, newProblem(http.StatusUnsupportedMediaType, "unsupported_media_type", "Compressed bodies are not accepted; send it without Content-Encoding.")
	}
	mediaType, mediaParams, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return params{}, wrongContentType()
	}
	body, err := readBody(w, r)
	if err != nil {
		return params{}, err
	}
	var p params
	var refused *problem
	switch mediaType {
	case "application/x-www-form-urlencoded":
		p, refused = parseOAuthParams(string(body))
	case "multipart/form-data":
		p, refused = parseMultipart(body, mediaParams["boundary"])
	case "application/json":
		p, refused = parseJSONParams(body)
	default:
		refused = wrongContentType()
	}
	if refused != nil {
		return params{}, refused
	}
	return p, nil
}

func wrongContentType() *problem {
	return invalidRequest("The Content-Type must be application/x-www-form-urlencoded, multipart/form-data or application/json.")
}

// readBody reads a bounded body. If it is too large, the connection is closed.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.Body == http.NoBody {
		return nil, nil
	}
	d := &factsFrom(r.Context()).demand
	d.waitFor(w, true)
	body, err := readCharged(r.Context(), http.MaxBytesReader(w, r.Body, formSizeMax), d)
	gaveWay := d.goOn()
	if err == nil && !gaveWay {
		return body, nil
	}
	if gaveWay {
		err = temporarilyUnavailable(errBudget)
	}
	switch p := asProblem(err); {
	case p.status == http.StatusRequestEntityTooLarge:
		return nil, p.with("Connection", "close")
	case p.status == http.StatusServiceUnavailable:
		// net/http would read the rest, however long it takes.
		_ = http.NewResponseController(w).SetReadDeadline(longPast)
		if r.ProtoMajor == 1 { // otherwise other requests share the connection
			p.with("Connection", "close")
		}
		return nil, p
	}
	return nil, invalidRequest("The request body is incomplete.").because(err)
}

// readCharged reads a body and charges the request for the memory beyond the free
// part.
func readCharged(ctx context.Context, from io.Reader, d *demand) ([]byte, error) {
	b := strangersBodyBudget
	if d.account != "" {
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
		size := min(2*cap(body), formSizeMax+1) // one more, to detect the end
		if err := d.take(ctx, b, int64(max(size-max(cap(body), bodySizeFree), 0))); err != nil {
			return nil, err
		}
		body = append(make([]byte, 0, size), body...)
	}
}

func parseMultipart(body []byte, boundary string) (params, *problem) {
	broken := invalidRequest("The multipart body is malformed.")
	// The reader accepts a body that was cut off in a part's header.
	if boundary == "" || !bytes.Contains(body, []byte("--"+boundary+"--")) {
		return params{}, broken
	}
	var p params
	parts := multipart.NewReader(bytes.NewReader(body), boundary)
	for {
		part, err := parts.NextRawPart()
		if err == io.EOF {
			return p, nil
		}
		if err != nil {
			return params{}, broken
		}
		if part.FileName() != "" {
			return params{}, invalidRequest("A parameter is sent as a file; send it as a plain field.")
		}
		value, err := io.ReadAll(part)
		if err != nil {
			return params{}, broken
		}
		if refused := p.add(part.FormName(), string(value)); refused != nil {
			return params{}, refused
		}
	}
}

// parseJSONParams reads a JSON object of strings, token by token, because
// json.Unmarshal accepts repeated names.
func parseJSONParams(body []byte) (params, *problem) {
	wrong := invalidRequest("The JSON body must be one object whose values are strings.")
	if !utf8.Valid(body) {
		return params{}, wrong
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return params{}, wrong
	}
	var p params
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return params{}, wrong
		}
		value, err := d.Token()
		text, isString := value.(string)
		if err != nil || !isString {
			return params{}, wrong
		}
		if refused := p.add(name.(string), text); refused != nil {
			return params{}, refused
		}
	}
	if _, err := d.Token(); err != nil {
		return params{}, wrong
	}
	if _, err := d.Token(); err != io.EOF {
		return params{}, wrong
	}
	return p, nil
}

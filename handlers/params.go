package handlers

import (
	"bytes"
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
	formSizeMax   = 64 << 10 // bytes of a form, multipart or JSON body
	paramCountMax = 128      // parameters of one request
)

// params are the parameters of an OAuth request. RFC 6749 §3.1 and §3.2: one
// without a value counts as absent, none may come twice, unknown ones are
// ignored.
type params struct {
	values   map[string]string
	repeated map[string]bool
	count    int
}

// value returns a parameter, or "" when it is absent.
func (p params) value(name string) string { return p.values[name] }

// has reports whether a parameter came with a value.
func (p params) has(name string) bool { return p.values[name] != "" }

// given reports whether a parameter came at all, with a value or without.
func (p params) given(name string) bool {
	_, given := p.values[name]
	return given
}

func (p *params) add(name, value string) *problem {
	if p.values == nil {
		p.values, p.repeated = map[string]string{}, map[string]bool{}
	}
	if p.count++; p.count > paramCountMax {
		return invalidRequest("The request has more than %d parameters.", paramCountMax)
	}
	if !isText(name) || !isText(value) {
		return invalidRequest("A parameter holds bytes that are not UTF-8 text, or the character NUL.")
	}
	if p.given(name) {
		p.repeated[name] = true
		return nil
	}
	p.values[name] = value
	return nil
}

// refuseRepeated refuses a request that names a parameter twice. It names the
// parameter only when it is one of ours: a caller's own text is not echoed.
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

// parsePairs reads the form encoding of a query or body. It is ours because
// net/url drops what it cannot read, and a dropped parameter is a check that
// did not run. A semicolon is an ordinary character (WHATWG URL §5.1).
func parsePairs(text string) (params, *problem) {
	var p params
	for pair := range strings.SplitSeq(text, "&") {
		if pair == "" {
			continue
		}
		rawName, rawValue, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(rawName)
		if err != nil {
			return params{}, invalidRequest("A percent sign in the parameters is not followed by two hexadecimal digits.")
		}
		value, err := url.QueryUnescape(rawValue)
		if err != nil {
			return params{}, invalidRequest("A percent sign in the parameters is not followed by two hexadecimal digits.")
		}
		if problem := p.add(name, value); problem != nil {
			return params{}, problem
		}
	}
	return p, nil
}

// parseBody reads the parameters of a POST in any of the three encodings that
// clients use. Our choice: the specification leaves the encoding open.
func parseBody(w http.ResponseWriter, r *http.Request) (params, error) {
	if r.Header.Get("Content-Encoding") != "" {
		return params{}, newProblem(http.StatusUnsupportedMediaType, "unsupported_media_type", "The body may not be compressed here; send it without Content-Encoding.")
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
		p, refused = parsePairs(string(body))
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

// readBody reads a bounded body. The connection is closed behind one that is
// too large.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, formSizeMax))
	if err == nil {
		return body, nil
	}
	if p := asProblem(err); p.status == http.StatusRequestEntityTooLarge {
		return nil, p.with("Connection", "close")
	}
	return nil, invalidRequest("The request body could not be read to its end.").because(err)
}

func parseMultipart(body []byte, boundary string) (params, *problem) {
	broken := invalidRequest("The multipart body is broken.")
	// The reader takes a body that was cut in a part's header for one that ends.
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

// parseJSONParams reads a JSON object of strings. The tokens are walked by hand
// because json.Unmarshal keeps the last of two equal names.
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

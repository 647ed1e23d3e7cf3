package dev

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"tollhouse/handlers/oauth"
	"tollhouse/handlers/web"
)

// watched is a request of dev and its answer. It writes the journal's entry before the
// first byte of the answer, so that the entry exists once a client has read any of it.
type watched struct {
	http.ResponseWriter
	s       *Server
	r       *http.Request
	facts   *web.RequestFacts
	at      time.Time
	body    *seenBody // nil without a body
	fault   string    // id of the rule that hit the request
	status  int
	begun   bool // the header is out
	ignored bool // not for the journal
}

// Watch begins an exchange, whose writer the request must use. It replaces the body of r.
func (s *Server) Watch(w http.ResponseWriter, r *http.Request, facts *web.RequestFacts) http.ResponseWriter {
	path := s.site.PathOf(r)
	e := &watched{ResponseWriter: w, s: s, r: r, facts: facts, at: s.controls.Clock.Now(), ignored: web.IsDevPath(path) || web.IsStaticOrHealth(path)}
	if r.Body != nil && r.Body != http.NoBody {
		e.body = &seenBody{ReadCloser: r.Body}
		r.Body = e.body
	}
	facts.Exchange = e
	return e
}

// WriteHeader keeps the status until the first byte of the body.
func (e *watched) WriteHeader(status int) {
	if status < http.StatusOK {
		e.ResponseWriter.WriteHeader(status)
		return
	}
	e.status = cmp.Or(e.status, status)
}

func (e *watched) Write(b []byte) (int, error) {
	e.begin(b)
	return e.ResponseWriter.Write(b)
}

// FlushError sends what was written.
func (e *watched) FlushError() error {
	e.begin(nil)
	return http.NewResponseController(e.ResponseWriter).Flush()
}

// Unwrap lets http.ResponseController reach the connection.
func (e *watched) Unwrap() http.ResponseWriter { return e.ResponseWriter }

// begin sends the header. first is the beginning of the body.
func (e *watched) begin(first []byte) {
	if e.begun {
		return
	}
	e.begun = true
	e.status = cmp.Or(e.status, http.StatusOK)
	if clock := e.s.controls.Clock; !clock.IsOwn() {
		e.Header().Set("Date", clock.Now().UTC().Format(http.TimeFormat))
	}
	e.record(first)
	e.ResponseWriter.WriteHeader(e.status)
}

// End finishes the exchange. An aborted one without a byte has no status.
func (e *watched) End(isAborted bool) {
	switch {
	case e.begun:
	case isAborted:
		e.status = 0
		e.record(nil)
	default:
		e.begin(nil)
	}
}

// record puts the exchange into the journal.
func (e *watched) record(first []byte) {
	if e.ignored {
		return
	}
	x := Exchange{
		RequestID: e.facts.ID, At: e.at, Method: e.r.Method, Path: e.s.site.PathOf(e.r), RawQuery: e.r.URL.RawQuery, Host: e.r.Host, Header: e.r.Header,
		Status: e.status, Error: e.code(first), Fault: e.fault, Notices: e.Header()["Tollhouse-Notice"],
	}
	if e.s.controls.Clock.IsRunning() {
		x.Took = time.Since(e.facts.Began)
	}
	if e.body != nil {
		x.Body, x.BodyCut = e.body.seen, e.body.cut
	}
	e.describe(&x)
	e.s.controls.Journal.Put(x)
}

// describe names whom the request is from.
func (e *watched) describe(x *Exchange) {
	n := e.names()
	x.ClientID, x.GrantType, x.Username = n.client, n.grant, n.user
	if p := e.facts.Principal; p != nil {
		x.ClientID, x.Username, x.Account = cmp.Or(x.ClientID, p.ClientID), p.Username, p.Account
		return
	}
	for _, attr := range e.facts.Attrs { // what the log says
		switch value := attr.Value.String(); attr.Key {
		case "client_id":
			x.ClientID = cmp.Or(x.ClientID, value)
		case "account_id":
			x.Account = value
		case "user_id":
			if u, err := e.s.site.Store.FindUserBySubject(context.WithoutCancel(e.r.Context()), value); err == nil {
				x.Username = u.Username
			}
		}
	}
}

// code returns the error code of the answer, or "".
func (e *watched) code(first []byte) string {
	if e.facts.Served.Code != "" || e.status < http.StatusBadRequest {
		return e.facts.Served.Code
	}
	var body struct {
		Error string `json:"error"`
	}
	_ = json.Unmarshal(first, &body) // other bodies have no code
	return body.Error
}

// names are what a request says about itself.
type names struct{ client, grant, user string }

// names reads the names from the Authorization header, from the query and from as much
// of the body as was read. The API's bodies hold the caller's own names.
func (e *watched) names() names {
	var n names
	basic, _ := oauth.ParseBasic(e.r.Header.Get("Authorization"))
	n.client = cmp.Or(basic.ID, basic.RawID)
	if strings.HasPrefix(e.s.site.PathOf(e.r), "/api/") {
		return n
	}
	query, _ := web.ParseOAuthParams(e.r.URL.RawQuery)
	body := e.bodyParams()
	n.client = cmp.Or(n.client, body.Value("client_id"), query.Value("client_id"))
	n.grant, n.user = body.Value("grant_type"), body.Value("username")
	return n
}

func (e *watched) bodyParams() (p web.Params) {
	if e.body == nil {
		return p
	}
	mediaType, mediaParams, _ := mime.ParseMediaType(e.r.Header.Get("Content-Type"))
	body := e.body.whole()
	switch mediaType {
	case "application/x-www-form-urlencoded":
		p, _ = web.ParseOAuthParams(string(body))
	case "multipart/form-data":
		p, _ = web.ParseMultipart(body, mediaParams["boundary"])
	case "application/json":
		p, _ = web.ParseJSONParams(body)
	}
	return p
}

// seenBody is a body whose beginning is kept as it is read.
type seenBody struct {
	io.ReadCloser
	seen  []byte // at most BodySeenMax
	cut   bool   // more than that was read
	taken []byte // read ahead, from its beginning
	given int    // bytes of taken that were read again
	err   error  // of reading ahead
}

func (b *seenBody) Read(p []byte) (int, error) {
	if b.given < len(b.taken) {
		n := copy(p, b.taken[b.given:])
		b.given += n
		return n, nil
	}
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.ReadCloser.Read(p)
	b.keep(p[:n])
	return n, err
}

func (b *seenBody) keep(read []byte) {
	free := BodySeenMax - len(b.seen)
	b.cut = b.cut || len(read) > free
	b.seen = append(b.seen, read[:min(len(read), free)]...)
}

// readAhead reads up to the size that handlers accept, and reports whether that is all.
// Handlers read the body as if it had not been read.
func (b *seenBody) readAhead() (isAll bool) {
	if b.taken == nil {
		b.taken, b.err = io.ReadAll(io.LimitReader(b.ReadCloser, web.FormSizeMax+1))
		b.keep(b.taken)
		if b.err == nil && len(b.taken) <= web.FormSizeMax {
			b.err = io.EOF
		}
	}
	return b.err == io.EOF
}

// whole returns as much of the body as is known.
func (b *seenBody) whole() []byte {
	if b.taken != nil {
		return b.taken
	}
	return b.seen
}

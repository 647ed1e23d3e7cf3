package handlers

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"tollhouse/handlers/testers"
	"tollhouse/store/secret"
)

// listener is what kind of listener a request came by.
type listener int

const (
	publicListener   listener = iota
	redirectListener          // plain http beside TLS
	operatorListener          // the admin socket, health and metrics
)

// requestIDs returns the source of a request's id. The testers' controls, health checks
// and the operator have sequences of their own, so that a look at a journal does not
// change what others get.
func (s *Server) requestIDs(on listener, r *http.Request) secret.Source {
	switch {
	case s.publicIDs == nil:
		return nil
	case on == operatorListener || s.isHealth(r.URL.Path):
		return s.adminIDs
	case s.isDevRequest(r):
		return s.devIDs
	}
	return s.publicIDs
}

// sequenceOf returns a source whose drawings are a sequence of their own, or nil for
// nil.
func sequenceOf(from secret.Source, name string) secret.Source {
	if from == nil {
		return nil
	}
	return func(_ string, b []byte) { from(name, b) }
}

// exchange is a request of dev and its answer. It writes the journal's entry before the
// first byte of the answer, so that the entry exists once a client has read any of it.
type exchange struct {
	http.ResponseWriter
	s       *Server
	r       *http.Request
	facts   *requestFacts
	at      time.Time
	body    *seenBody // nil without a body
	fault   string    // id of the rule that hit the request
	status  int
	begun   bool // the header is out
	ignored bool // not for the journal
}

// watch begins an exchange, whose writer the request must use. It replaces the body of r.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, facts *requestFacts) http.ResponseWriter {
	path := s.pathOf(r)
	e := &exchange{ResponseWriter: w, s: s, r: r, facts: facts, at: s.dev.Clock.Now(), ignored: isDevPath(path) || isStaticOrHealth(path)}
	if r.Body != nil && r.Body != http.NoBody {
		e.body = &seenBody{ReadCloser: r.Body}
		r.Body = e.body
	}
	facts.exchange = e
	return e
}

// pathOf returns the path of a request without that of the public URL.
func (s *Server) pathOf(r *http.Request) string {
	path, under := strings.CutPrefix(r.URL.Path, s.base)
	if !under || path != "" && path[0] != '/' {
		return r.URL.Path
	}
	return cmp.Or(path, "/")
}

func isStaticOrHealth(path string) bool {
	return path == "/healthz" || path == "/readyz" || strings.HasPrefix(path, "/static/")
}

// WriteHeader keeps the status until the first byte of the body.
func (e *exchange) WriteHeader(status int) {
	if status < http.StatusOK {
		e.ResponseWriter.WriteHeader(status)
		return
	}
	e.status = cmp.Or(e.status, status)
}

func (e *exchange) Write(b []byte) (int, error) {
	e.begin(b)
	return e.ResponseWriter.Write(b)
}

// FlushError sends what was written.
func (e *exchange) FlushError() error {
	e.begin(nil)
	return http.NewResponseController(e.ResponseWriter).Flush()
}

// Unwrap lets http.ResponseController reach the connection.
func (e *exchange) Unwrap() http.ResponseWriter { return e.ResponseWriter }

// begin sends the header. first is the beginning of the body.
func (e *exchange) begin(first []byte) {
	if e.begun {
		return
	}
	e.begun = true
	e.status = cmp.Or(e.status, http.StatusOK)
	if clock := e.s.dev.Clock; !clock.IsOwn() {
		e.Header().Set("Date", clock.Now().UTC().Format(http.TimeFormat))
	}
	e.record(first)
	e.ResponseWriter.WriteHeader(e.status)
}

// end finishes the exchange. An aborted one without a byte has no status. It does
// nothing for a nil exchange.
func (e *exchange) end(isAborted bool) {
	switch {
	case e == nil || e.begun:
	case isAborted:
		e.status = 0
		e.record(nil)
	default:
		e.begin(nil)
	}
}

// record puts the exchange into the journal.
func (e *exchange) record(first []byte) {
	if e.ignored {
		return
	}
	x := testers.Exchange{
		RequestID: e.facts.id, At: e.at, Method: e.r.Method, Path: e.s.pathOf(e.r), RawQuery: e.r.URL.RawQuery, Host: e.r.Host, Header: e.r.Header,
		Status: e.status, Error: e.code(first), Fault: e.fault, Notices: e.Header()["Tollhouse-Notice"],
	}
	if e.s.dev.Clock.IsRunning() {
		x.Took = time.Since(e.facts.began)
	}
	if e.body != nil {
		x.Body, x.BodyCut = e.body.seen, e.body.cut
	}
	e.describe(&x)
	e.s.dev.Journal.Put(x)
}

// describe names whom the request is from.
func (e *exchange) describe(x *testers.Exchange) {
	n := e.names()
	x.ClientID, x.GrantType, x.Username = n.client, n.grant, n.user
	if p := e.facts.principal; p != nil {
		x.ClientID, x.Username, x.Account = cmp.Or(x.ClientID, p.ClientID), p.Username, p.Account
		return
	}
	for _, attr := range e.facts.attrs { // what the log says
		switch value := attr.Value.String(); attr.Key {
		case "client_id":
			x.ClientID = cmp.Or(x.ClientID, value)
		case "account_id":
			x.Account = value
		case "user_id":
			if u, err := e.s.store.FindUserBySubject(context.WithoutCancel(e.r.Context()), value); err == nil {
				x.Username = u.Username
			}
		}
	}
}

// code returns the error code of the answer, or "".
func (e *exchange) code(first []byte) string {
	if e.facts.served.Code != "" || e.status < http.StatusBadRequest {
		return e.facts.served.Code
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
func (e *exchange) names() names {
	var n names
	basic, _ := parseBasic(e.r.Header.Get("Authorization"))
	n.client = basic.id
	if strings.HasPrefix(e.s.pathOf(e.r), "/api/") {
		return n
	}
	query, _ := parseOAuthParams(e.r.URL.RawQuery)
	body := e.bodyParams()
	n.client = cmp.Or(n.client, body.value("client_id"), query.value("client_id"))
	n.grant, n.user = body.value("grant_type"), body.value("username")
	return n
}

func (e *exchange) bodyParams() (p params) {
	if e.body == nil {
		return p
	}
	mediaType, mediaParams, _ := mime.ParseMediaType(e.r.Header.Get("Content-Type"))
	body := e.body.whole()
	switch mediaType {
	case "application/x-www-form-urlencoded":
		p, _ = parseOAuthParams(string(body))
	case "multipart/form-data":
		p, _ = parseMultipart(body, mediaParams["boundary"])
	case "application/json":
		p, _ = parseJSONParams(body)
	}
	return p
}

// seenBody is a body whose beginning is kept as it is read.
type seenBody struct {
	io.ReadCloser
	seen  []byte // at most testers.BodySeenMax
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
	free := testers.BodySeenMax - len(b.seen)
	b.cut = b.cut || len(read) > free
	b.seen = append(b.seen, read[:min(len(read), free)]...)
}

// readAhead reads up to the size that handlers accept, and reports whether that is all.
// Handlers read the body as if it had not been read.
func (b *seenBody) readAhead() (isAll bool) {
	if b.taken == nil {
		b.taken, b.err = io.ReadAll(io.LimitReader(b.ReadCloser, formSizeMax+1))
		b.keep(b.taken)
		if b.err == nil && len(b.taken) <= formSizeMax {
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

package dev

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
)

const faultHeader = "Tollhouse-Fault"

// WithFaults lets the rules of dev act on requests. It lies inside CORS, so that pages
// of other origins can read the answers, and outside compression, so that it breaks
// what is sent.
func (s *Server) WithFaults(r *web.Router, next http.Handler) http.Handler {
	if s.controls == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, rq *http.Request) {
		e, _ := web.FactsFrom(rq.Context()).Exchange.(*watched)
		if web.IsDevPath(rq.URL.Path) {
			next.ServeHTTP(w, rq)
			return
		}
		id, do, hit := s.controls.Faults.Hit(Request{
			Method: rq.Method, Path: rq.URL.Path, IsNamedOnly: web.IsStaticOrHealth(rq.URL.Path),
			Names: func() (client, grant string) { return s.namesForFaults(rq, e) },
		})
		if !hit {
			next.ServeHTTP(w, rq)
			return
		}
		e.fault = id
		isWhole := e.body == nil || e.body.readAhead() // for the journal, and to notice a caller that disconnects
		if wait := do.Wait(); wait > 0 {
			s.delay(w, rq, wait, isWhole)
		}
		if do.Drop != nil && *do.Drop == DropRequest {
			panic(http.ErrAbortHandler)
		}
		h := w.Header()
		h.Set(faultHeader, id)
		if exposed := h.Get("Access-Control-Expose-Headers"); exposed != "" {
			h.Set("Access-Control-Expose-Headers", exposed+", "+faultHeader)
		}
		switch {
		case do.Status != nil:
			s.writeFault(r, w, rq, do)
		case do.Drop != nil || do.Truncate != nil || do.Malformed != nil:
			breakAnswer(w, rq, do, next)
		default:
			next.ServeHTTP(w, rq)
		}
	})
}

// namesForFaults returns the client that a request names, or whose token it has, and
// its grant.
func (s *Server) namesForFaults(r *http.Request, e *watched) (client, grant string) {
	if e.body != nil {
		e.body.readAhead()
	}
	n := e.names()
	if text, err := api.ParseBearer(r); n.client == "" && err == nil {
		if found, err := s.site.Store.Inspect(r.Context(), text); err == nil {
			n.client = found.Family.ClientID
		}
	}
	return n.client, n.grant
}

// delay waits, and aborts the request if its caller disconnects. The connection's
// deadlines are for requests that are not delayed. isBodyRead is false if the rest of
// the body is still to come.
func (s *Server) delay(w http.ResponseWriter, r *http.Request, wait time.Duration, isBodyRead bool) {
	c := http.NewResponseController(w)
	_ = c.SetWriteDeadline(time.Now().Add(wait + web.WriteTimeout))
	deadline := time.Time{} // net/http takes a late read for a caller that disconnected
	if !isBodyRead {
		deadline = time.Now().Add(wait + web.ReadTimeout)
	}
	_ = c.SetReadDeadline(deadline)
	over := time.NewTimer(wait)
	defer over.Stop()
	select {
	case <-over.C:
	case <-s.api.Draining:
	case <-r.Context().Done():
		panic(http.ErrAbortHandler)
	}
}

// writeFault sends the answer of a rule in place of the handler's.
func (s *Server) writeFault(r *web.Router, w http.ResponseWriter, rq *http.Request, do Action) {
	status := *do.Status
	shape := r.RouteOf(rq.Method, rq.URL.Path)
	web.NoteRoute(rq, shape.Template)
	retryAfter := ""
	switch {
	case do.RetryAfter != nil:
		retryAfter = strconv.Itoa(*do.RetryAfter)
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		retryAfter = strconv.Itoa(web.RetryAfterSeconds)
	}
	if do.Body != nil {
		body, mediaType := faultBody(do.Body)
		h := w.Header()
		if retryAfter != "" {
			h.Set("Retry-After", retryAfter)
		}
		if status == http.StatusUnauthorized {
			h.Set("WWW-Authenticate", s.faultProblem(w, rq, status, "").Header.Get("WWW-Authenticate"))
		}
		for _, name := range web.SortedNames(do.Headers) {
			h.Set(name, do.Headers[name])
			if http.CanonicalHeaderKey(name) == "Content-Type" {
				mediaType = do.Headers[name]
			}
		}
		web.WriteBody(w, status, mediaType, body)
		return
	}
	p := s.faultProblem(w, rq, status, cmp.Or(retryAfter, "1"))
	if retryAfter != "" {
		p.With("Retry-After", retryAfter)
	}
	for _, name := range web.SortedNames(do.Headers) {
		p.With(name, do.Headers[name])
	}
	web.NoteProblem(rq.Context(), p)
	if shape.IsPage && !web.AsksForJSON(rq) {
		s.site.WriteProblemPage(w, rq, p)
		return
	}
	web.WriteProblem(w, p)
}

// clientPaths are the endpoints at which clients authenticate.
var clientPaths = []string{"/oauth/v2/token", "/oauth/v2/revoke", "/oauth/v2/introspect"}

// faultProblem returns our own error with that status, or one that says that it is a
// fault, and sets the headers that the route's errors have.
func (s *Server) faultProblem(w http.ResponseWriter, r *http.Request, status int, retryAfter string) *web.Problem {
	isAPI, isClients := strings.HasPrefix(r.URL.Path, "/api/"), slices.Contains(clientPaths, r.URL.Path)
	switch {
	case isAPI:
		w.Header()["Cache-Control"], w.Header()["Vary"] = web.HeaderPrivate, web.HeaderVary
	case isClients:
		web.OAuthHeaders(w)
	}
	switch {
	case status == http.StatusServiceUnavailable:
		return web.TemporarilyUnavailable(nil)
	case status == http.StatusInternalServerError:
		return web.ServerError(nil)
	case status == http.StatusTooManyRequests:
		return web.NewProblem(status, "too_many_requests", "Too many requests. %s", web.TryAgainIn(retryAfter))
	case status == http.StatusUnauthorized && isAPI:
		return web.InvalidToken()
	case status == http.StatusUnauthorized && isClients:
		return web.InvalidClient()
	case status == http.StatusUnauthorized:
		return web.BearerChallenge("A fault of this test instance answered with the status 401.")
	}
	return web.NewProblem(status, "fault", "A fault of this test instance answered with the status %d.", status)
}

// errStreamEnds ends the handler of a stream that was broken.
var errStreamEnds = errors.New("the stream was broken on purpose")

// breakAnswer runs the handler and loses, cuts or halves its answer.
func breakAnswer(w http.ResponseWriter, r *http.Request, do Action, next http.Handler) {
	broken := &brokenAnswer{ResponseWriter: w, ctx: r.Context(), do: do}
	defer func() {
		if ended := recover(); ended != nil && ended != errStreamEnds { //nolint:errorlint // the very value
			panic(ended)
		}
	}()
	next.ServeHTTP(broken, r)
	broken.send(r.Method == http.MethodHead)
}

// brokenAnswer buffers an answer. A stream never ends by itself, so it is broken at its
// first bytes.
type brokenAnswer struct {
	http.ResponseWriter
	ctx    context.Context
	do     Action
	status int
	body   []byte
	sent   int  // bytes of a stream
	begun  bool // of a stream
}

func (b *brokenAnswer) WriteHeader(status int) {
	if status >= http.StatusOK {
		b.status = cmp.Or(b.status, status)
	}
}

func (b *brokenAnswer) Write(p []byte) (int, error) {
	b.status = cmp.Or(b.status, http.StatusOK)
	b.body = append(b.body, p...)
	return len(p), nil
}

// Unwrap lets http.ResponseController reach the connection.
func (b *brokenAnswer) Unwrap() http.ResponseWriter { return b.ResponseWriter }

// Flush is for wrappers that know only http.Flusher.
func (b *brokenAnswer) Flush() { _ = b.FlushError() }

// FlushError sends what a stream may still send.
func (b *brokenAnswer) FlushError() error {
	if b.Header().Get("Content-Type") != web.EventStreamType {
		return nil // the answer is sent as a whole
	}
	if b.do.Drop != nil {
		panic(http.ErrAbortHandler)
	}
	if !b.begun {
		b.begun = true
		b.ResponseWriter.WriteHeader(b.status)
	}
	if b.do.Malformed != nil {
		_, _ = b.ResponseWriter.Write(b.body[:len(b.body)/2])
		panic(errStreamEnds)
	}
	size := min(len(b.body), *b.do.Truncate-b.sent)
	b.sent += size
	if _, err := b.ResponseWriter.Write(b.body[:size]); err != nil {
		return err
	}
	b.body = nil
	err := http.NewResponseController(b.ResponseWriter).Flush()
	if b.sent == *b.do.Truncate {
		panic(http.ErrAbortHandler)
	}
	return err
}

// send sends what is left of an answer that was buffered as a whole.
func (b *brokenAnswer) send(isHead bool) {
	if b.do.Drop != nil {
		panic(http.ErrAbortHandler)
	}
	if b.begun { // a stream that ended by itself
		return
	}
	h, body := b.Header(), b.body
	if b.do.Malformed != nil {
		body = body[:len(body)/2]
	}
	if len(b.body) > 0 {
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	b.ResponseWriter.WriteHeader(cmp.Or(b.status, http.StatusOK))
	if b.do.Truncate == nil || isHead || len(body) == 0 {
		_, _ = b.ResponseWriter.Write(body) // the caller may be gone
		return
	}
	_, _ = b.ResponseWriter.Write(body[:min(*b.do.Truncate, len(body)-1)])
	_ = http.NewResponseController(b.ResponseWriter).Flush()
	panic(http.ErrAbortHandler)
}

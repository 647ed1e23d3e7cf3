package handlers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"
)

// handler responds to a request or returns why it could not.
type handler func(w http.ResponseWriter, r *http.Request) error

// handle sends the errors of a handler as JSON and logs them.
func (s *Server) handle(route string, h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		noteRoute(r, route)
		if err := h(w, r); err != nil {
			p := asProblem(err)
			noteProblem(r.Context(), p)
			writeProblem(w, p)
		}
	})
}

// handlePage is handle for pages: errors are pages unless the caller asks for JSON by
// name, and forms from other sites are refused.
func (s *Server) handlePage(route string, h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		noteRoute(r, route)
		err := s.checkOrigin(r)
		if err == nil {
			err = h(w, r)
		}
		if err != nil {
			p := asProblem(err)
			noteProblem(r.Context(), p)
			s.writeProblemPage(w, r, p)
		}
	})
}

// handleLost is for requests without a route: browsers get a page, programs get JSON.
func (s *Server) handleLost(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		noteRoute(r, "")
		p := asProblem(h(w, r))
		noteProblem(r.Context(), p)
		if asksForHTML(r) {
			s.writeProblemPage(w, r, p)
			return
		}
		writeProblem(w, p)
	})
}

// checkOrigin refuses forms from other sites (RFC 6749 §10.12).
func (s *Server) checkOrigin(r *http.Request) error {
	if err := s.origins.Check(r); err != nil {
		p := newProblem(http.StatusForbidden, "cross_origin", "The form was submitted by another site.").because(err)
		p.page = &pageText{
			title:   "This form came from another site",
			message: "Another site tried to submit this form as you. Nothing was done.",
			next:    "Close this page. If you meant to sign in, start again from the application.",
		}
		return p
	}
	return nil
}

// recorder remembers the status, and reports while the response waits for its reader.
type recorder struct {
	http.ResponseWriter
	status int
	demand *demand
}

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.demand.waitFor(w.ResponseWriter, false)
	defer w.demand.goOn()
	return w.ResponseWriter.Write(b)
}

// Flush is for wrappers that know only http.Flusher.
func (w *recorder) Flush() { _ = w.FlushError() }

// FlushError is Flush with an error.
func (w *recorder) FlushError() error {
	w.demand.waitFor(w.ResponseWriter, false)
	defer w.demand.goOn()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap lets http.ResponseController reach the connection.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

const (
	queryStringSizeMax = 8 << 10 // bytes
	// headerFieldsMax is well above what clients and proxies send. A field takes
	// about 200 bytes of memory and 4 on the wire, until its request is over.
	headerFieldsMax = 100
)

// Header values of most responses. Allocating them for each response would make a
// tenth of all its allocations. They must not be modified.
var (
	headerNosniff    = []string{"nosniff"}
	headerNoReferrer = []string{"no-referrer"}
	headerNoStore    = []string{"no-store"}
	headerPrivate    = []string{"private, no-cache"}
	headerVary       = []string{"Authorization, Accept, Accept-Encoding"}
	headerAnyOrigin  = []string{corsAnyOrigin}
	headerExposed    = []string{corsExposed}
	headerPollAfter  = []string{pollAfterSeconds}
)

// withRequest gives every request an id, common headers, one log line, and a response
// even if our code panics.
func (s *Server) withRequest(on listener, next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		facts := newFacts(time.Now(), s.proxies.source(r), s.requestIDs(on, r)) // the time only measures the request
		r = r.WithContext(context.WithValue(r.Context(), factsKey, facts))
		s.beginDemand(r, facts)
		if s.dev != nil && on == publicListener {
			rw = s.watch(rw, r, facts)
		}
		w := &recorder{ResponseWriter: rw, demand: &facts.demand}
		h := w.Header()
		h.Set("X-Request-Id", facts.id)
		h["X-Content-Type-Options"] = headerNosniff
		h["Referrer-Policy"] = headerNoReferrer
		if len(r.TransferEncoding) > 0 {
			// net/http would answer a request smuggled behind a chunked one; closing the
			// connection prevents that.
			h.Set("Connection", "close")
		}
		defer func() {
			broken := recover()
			isAborted := broken == http.ErrAbortHandler
			if broken != nil && !isAborted {
				s.recovered(w, r, broken)
			}
			facts.exchange.end(isAborted)
			facts.demand.end()
			facts.demand.connection.Rest()
			s.endRequest(r, w, facts, time.Since(facts.began))
			if isAborted {
				panic(broken)
			}
		}()
		if r.ProtoMajor == 2 && !facts.demand.try(streamBudget, 1) {
			writeProblem(w, temporarilyUnavailable(errBudget))
			return
		}
		if fieldsOf(r.Header) > headerFieldsMax {
			refuseHeader(w, r)
			return
		}
		if len(r.URL.RawQuery) > queryStringSizeMax {
			writeProblem(w, newProblem(http.StatusRequestURITooLong, "uri_too_long", "The query is longer than %d bytes.", queryStringSizeMax))
			return
		}
		next.ServeHTTP(w, r)
	})
}

func fieldsOf(h http.Header) (count int) {
	for _, values := range h {
		count += len(values)
	}
	return count
}

// refuseHeader refuses a request with too many header fields without reading its body,
// since the fields stay in memory until it is over.
func refuseHeader(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetReadDeadline(longPast)
	if r.ProtoMajor == 1 { // otherwise other requests share the connection
		w.Header().Set("Connection", "close")
	}
	writeProblem(w, newProblem(http.StatusRequestHeaderFieldsTooLarge, "header_too_large", "The request has more than %d header fields.", headerFieldsMax))
}

// beginDemand sets what a request is charged to.
func (s *Server) beginDemand(r *http.Request, facts *requestFacts) {
	d := &facts.demand
	d.connection = connectionFrom(r.Context())
	d.connection.Work()
	if facts.source.IsValid() {
		d.load, d.source, d.unshared = s.load, SourceOf(facts.source), s.TrustsProxy(facts.source)
	}
}

func (s *Server) recovered(w *recorder, r *http.Request, broken any) {
	note(r.Context(), slog.String("err", fmt.Sprint("panic: ", broken)), slog.String("stack", string(debug.Stack())))
	if w.status == 0 {
		writeProblem(w, serverError(nil))
	}
}

func noteRoute(r *http.Request, route string) {
	if route == "" {
		route = noRoute // never the path, which is the caller's text
	}
	served(r.Context()).Route = route
	note(r.Context(), slog.String("route", route))
}

func noteProblem(ctx context.Context, p *problem) {
	served(ctx).Code = p.code
	note(ctx, slog.String("error", p.code))
	if p.cause != nil && !errors.Is(p.cause, context.Canceled) {
		note(ctx, slog.String("err", p.cause.Error()))
	}
}

func (s *Server) endRequest(r *http.Request, w *recorder, facts *requestFacts, took time.Duration) {
	facts.served.Method, facts.served.Status, facts.served.Took = methodName(r.Method), w.status, took
	if facts.served.Route == "" {
		facts.served.Route = noRoute
	}
	if !s.isDevRequest(r) {
		s.observe(facts.served)
		s.store.Ring().Count(facts.served.counted())
	}
	s.logRequest(r, w, facts, took)
}

// logRequest writes the log line of a request. Successful health checks are logged
// only for debugging.
func (s *Server) logRequest(r *http.Request, w *recorder, facts *requestFacts, took time.Duration) {
	level := slog.LevelInfo
	switch {
	case w.status >= 500 && w.status != http.StatusServiceUnavailable:
		level = slog.LevelError
	case w.status == http.StatusServiceUnavailable && r.Context().Err() == nil: // not if the caller disconnected
		level = slog.LevelWarn
	case facts.served.isMonitoring():
		level = slog.LevelDebug
	}
	log := s.log.Handler()
	if !log.Enabled(r.Context(), level) {
		return
	}
	if facts.source.IsValid() {
		facts.attrs = append(facts.attrs, slog.String("source", facts.source.String()))
	}
	// LogAttrs looks up its caller for every line.
	line := slog.NewRecord(facts.began.Add(took), level, "request served", 0)
	line.AddAttrs(
		slog.String("request_id", facts.id),
		slog.String("method", methodName(r.Method)),
		slog.Int("status", w.status),
		slog.Float64("duration_ms", float64(took.Microseconds())/1000),
	)
	line.AddAttrs(facts.attrs...)
	_ = log.Handle(r.Context(), line) // as slog does
}

// methodName keeps unknown methods out of the log.
func methodName(method string) string {
	switch method {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT":
		return method
	}
	return "OTHER"
}

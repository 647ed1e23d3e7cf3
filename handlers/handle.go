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

// handler answers a request or returns why it could not.
type handler func(w http.ResponseWriter, r *http.Request) error

// handle renders what a handler returns, as JSON, and notes it for the log.
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

// handlePage is handle for routes that people look at: errors are pages, unless
// the caller asks for JSON by name, and posts from other sites are refused.
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

// handleLost is for requests that match no route: a person who mistyped an
// address sees a page, a program gets JSON.
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

// checkOrigin refuses a form that another site posted (RFC 6749 §10.12).
func (s *Server) checkOrigin(r *http.Request) error {
	if err := s.origins.Check(r); err != nil {
		p := newProblem(http.StatusForbidden, "cross_origin", "The form was sent by another site.").because(err)
		p.page = &pageText{
			title:   "This form came from somewhere else",
			message: "Another site tried to send this form in your name. Nothing was done.",
			next:    "Close this page. If you meant to sign in, begin again in the application that you came from.",
		}
		return p
	}
	return nil
}

// recorder remembers the status that was sent.
type recorder struct {
	http.ResponseWriter
	status int
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
	return w.ResponseWriter.Write(b)
}

// Flush sends what was written so far, for wrappers that look no further than
// the writer they wrap.
func (w *recorder) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

// Unwrap lets http.ResponseController reach the connection.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

const queryStringSizeMax = 8 << 10 // bytes

// The values of headers that most answers carry, under their canonical names: to
// make them for each answer is a tenth of all that it allocates. Nobody changes
// one in place; to add to one makes another.
var (
	headerNosniff    = []string{"nosniff"}
	headerNoReferrer = []string{"no-referrer"}
	headerPrivate    = []string{"private, no-cache"}
	headerVary       = []string{"Authorization, Accept, Accept-Encoding"}
	headerAnyOrigin  = []string{corsAnyOrigin}
	headerExposed    = []string{corsExposed}
	headerPollAfter  = []string{pollAfterSeconds}
)

// withRequest is what every request gets: an id, the headers that all answers
// carry, one log line, and an answer even when our own code breaks.
func (s *Server) withRequest(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		facts := newFacts(time.Now(), s.proxies.source(r)) // the time measures the request and decides nothing
		r = r.WithContext(context.WithValue(r.Context(), factsKey, facts))
		w := &recorder{ResponseWriter: rw}
		h := w.Header()
		h.Set("X-Request-Id", facts.id)
		h["X-Content-Type-Options"] = headerNosniff
		h["Referrer-Policy"] = headerNoReferrer
		if len(r.TransferEncoding) > 0 {
			// net/http answers a request smuggled behind a chunked one; a
			// connection that ends here carries none.
			h.Set("Connection", "close")
		}
		defer func() {
			if broken := recover(); broken != nil {
				s.recovered(w, r, broken)
			}
			s.endRequest(r, w, facts, time.Since(facts.began))
		}()
		if len(r.URL.RawQuery) > queryStringSizeMax {
			writeProblem(w, newProblem(http.StatusRequestURITooLong, "uri_too_long", "The query is longer than %d bytes.", queryStringSizeMax))
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) recovered(w *recorder, r *http.Request, broken any) {
	if broken == http.ErrAbortHandler {
		panic(broken)
	}
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

// endRequest tells of a request that is over: to the log, and to whoever counts.
func (s *Server) endRequest(r *http.Request, w *recorder, facts *requestFacts, took time.Duration) {
	facts.served.Method, facts.served.Status, facts.served.Took = methodName(r.Method), w.status, took
	if facts.served.Route == "" {
		facts.served.Route = noRoute
	}
	s.observe(facts.served)
	s.logRequest(r, w, facts, took)
}

// logRequest writes the one line of a request. Health checks, which come every
// few seconds for ever, are for debugging only.
func (s *Server) logRequest(r *http.Request, w *recorder, facts *requestFacts, took time.Duration) {
	level := slog.LevelInfo
	switch {
	case w.status >= 500 && w.status != http.StatusServiceUnavailable:
		level = slog.LevelError
	case w.status == http.StatusServiceUnavailable && r.Context().Err() == nil: // else the caller left; nothing is amiss
		level = slog.LevelWarn
	case facts.served.isMonitoring():
		level = slog.LevelDebug
	}
	log := s.log.Handler()
	if !log.Enabled(r.Context(), level) {
		return
	}
	attrs := append(facts.attrs[:0],
		slog.String("request_id", facts.id),
		slog.String("method", methodName(r.Method)),
		slog.Int("status", w.status),
		slog.Float64("duration_ms", float64(took.Microseconds())/1000),
	)[:len(facts.attrs)]
	if facts.source.IsValid() {
		attrs = append(attrs, slog.String("source", facts.source.String()))
	}
	// Not by LogAttrs, which looks up its caller for every line.
	line := slog.NewRecord(facts.began.Add(took), level, "request served", 0)
	line.AddAttrs(attrs...)
	_ = log.Handle(r.Context(), line) // as slog: who would be told?
}

// methodName keeps a method that nobody knows out of the log.
func methodName(method string) string {
	switch method {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT":
		return method
	}
	return "OTHER"
}

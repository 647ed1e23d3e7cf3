package web

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"time"

	"tollhouse/store"
)

// recorder remembers the status, and reports while the response waits for its reader.
type recorder struct {
	http.ResponseWriter
	status int
	lease  *Lease
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
	w.lease.waitFor(w.ResponseWriter, false)
	defer w.lease.resume()
	return w.ResponseWriter.Write(b)
}

// Flush is for wrappers that know only http.Flusher.
func (w *recorder) Flush() { _ = w.FlushError() }

// FlushError is Flush with an error.
func (w *recorder) FlushError() error {
	w.lease.waitFor(w.ResponseWriter, false)
	defer w.lease.resume()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap lets http.ResponseController reach the connection.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

const (
	QueryStringSizeMax = 8 << 10 // bytes
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
	HeaderPrivate    = []string{"private, no-cache"}
	HeaderVary       = []string{"Authorization, Accept, Accept-Encoding, Tollhouse-Account"}
	headerAnyOrigin  = []string{corsAnyOrigin}
	headerExposed    = []string{corsExposed}
	HeaderPollAfter  = []string{"1"} // seconds
)

// withRequest gives every request an id, common headers, one log line, and a response
// even if our code panics.
func (s *Site) withRequest(on listener, next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		facts := newFacts(time.Now(), s.Proxies.source(r), s.requestIDs(on, r)) // the time only measures the request
		r = r.WithContext(context.WithValue(r.Context(), store.RequestKey, facts))
		s.beginLease(r, facts)
		if s.Watch != nil && on == publicListener {
			rw = s.Watch(rw, r, facts)
		}
		w := &recorder{ResponseWriter: rw, lease: &facts.Lease}
		h := w.Header()
		h.Set("X-Request-Id", facts.ID)
		h["X-Content-Type-Options"] = headerNosniff
		h["Referrer-Policy"] = headerNoReferrer
		if len(r.TransferEncoding) > 0 {
			// net/http would answer a request smuggled behind a chunked one; closing the
			// connection prevents that.
			h.Set("Connection", "close")
		}
		if on == publicListener {
			s.setCORS(w, r)
		}
		defer func() {
			broken := recover()
			isAborted := broken == http.ErrAbortHandler
			if broken != nil && !isAborted {
				recovered(w, r, broken)
			}
			if facts.Exchange != nil {
				facts.Exchange.End(isAborted)
			}
			facts.Lease.end()
			facts.Lease.connection.Rest()
			s.endRequest(on, r, w, facts, time.Since(facts.Began))
			if isAborted {
				panic(broken)
			}
		}()
		if r.ProtoMajor == 2 && !facts.Lease.Try(streamBudget, 1) {
			WriteProblem(w, TemporarilyUnavailable(errBudget))
			return
		}
		if fieldsOf(r.Header) > headerFieldsMax {
			refuseHeader(w, r)
			return
		}
		if len(r.URL.RawQuery) > QueryStringSizeMax {
			WriteProblem(w, NewProblem(http.StatusRequestURITooLong, "uri_too_long",
				"The query is longer than %d bytes.", QueryStringSizeMax))
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
	WriteProblem(w, NewProblem(http.StatusRequestHeaderFieldsTooLarge, "header_too_large",
		"The request has more than %d header fields.", headerFieldsMax))
}

// beginLease sets what a request is charged to.
func (s *Site) beginLease(r *http.Request, facts *RequestFacts) {
	d := &facts.Lease
	d.connection = connectionFrom(r.Context())
	d.connection.Work()
	if facts.Source.IsValid() {
		d.load, d.source, d.unshared = s.Load, facts.Source, s.TrustsProxy(facts.Source)
	}
}

func recovered(w *recorder, r *http.Request, broken any) {
	Note(r.Context(), slog.String("err", fmt.Sprint("panic: ", broken)), slog.String("stack", string(debug.Stack())))
	if w.status == 0 {
		WriteProblem(w, ServerError(nil))
	}
}

func (s *Site) endRequest(on listener, r *http.Request, w *recorder, facts *RequestFacts, took time.Duration) {
	facts.Served.Method, facts.Served.Status, facts.Served.Took = methodName(r.Method), w.status, took
	if facts.Served.Route == "" {
		facts.Served.Route = noRoute
	}
	if !s.isDevRequest(r) {
		s.observe(facts.Served)
		s.Store.Ring().Count(facts.Served.counted(on))
	}
	s.logRequest(r, w, facts, took)
}

// logRequest writes the log line of a request. Successful health checks are logged
// only for debugging.
func (s *Site) logRequest(r *http.Request, w *recorder, facts *RequestFacts, took time.Duration) {
	level := slog.LevelInfo
	switch {
	case w.status >= 500 && w.status != http.StatusServiceUnavailable, facts.Served.Code == serverError: // also after its status was sent
		level = slog.LevelError
	case w.status == http.StatusServiceUnavailable && r.Context().Err() == nil: // not if the caller disconnected
		level = slog.LevelWarn
	case facts.Served.isMonitoring():
		level = slog.LevelDebug
	}
	log := s.Log.Handler()
	if !log.Enabled(r.Context(), level) {
		return
	}
	if facts.Source.IsValid() {
		facts.Attrs = append(facts.Attrs, slog.String("source", facts.Source.String()))
	}
	// LogAttrs looks up its caller for every line.
	line := slog.NewRecord(facts.Began.Add(took), level, "request served", 0)
	line.AddAttrs(
		slog.String("request_id", facts.ID),
		slog.String("method", methodName(r.Method)),
		slog.Int("status", w.status),
		slog.Float64("duration_ms", float64(took.Microseconds())/1000),
	)
	line.AddAttrs(slog.Attr{Value: slog.GroupValue(facts.Attrs...)}) // as if each stood here, without another list
	_ = log.Handle(r.Context(), line)                                // as slog does
}

// methodName keeps unknown methods out of the log.
func methodName(method string) string {
	if slices.Contains(methodNames, method) {
		return method
	}
	return otherMethod
}

const otherMethod = "OTHER"

var methodNames = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", otherMethod}

package handlers

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"

	"tollhouse/store"
)

// requestFacts is what becomes known of a request on its way, for the one log
// line at its end. A request is served by one goroutine, so it has no lock.
type requestFacts struct {
	id     string
	source netip.Addr // where it comes from; invalid on the admin socket
	attrs  []slog.Attr
	served Served
	change store.AuditLine // whom an administrative request concerns
}

type contextKey int

const (
	factsKey contextKey = iota
	principalKey
)

func factsFrom(ctx context.Context) *requestFacts {
	if f, ok := ctx.Value(factsKey).(*requestFacts); ok {
		return f
	}
	return &requestFacts{}
}

// requestID returns the id that the answer carries as X-Request-Id.
func requestID(ctx context.Context) string { return factsFrom(ctx).id }

// by returns who a request is from, for the audit record.
func by(ctx context.Context) store.By {
	f := factsFrom(ctx)
	if !f.source.IsValid() {
		return store.By{RequestID: f.id}
	}
	return store.By{RequestID: f.id, Source: f.source.String()}
}

// note adds facts to the request's log line. Never a secret, and nothing that a caller chose freely.
func note(ctx context.Context, attrs ...slog.Attr) {
	f := factsFrom(ctx)
	f.attrs = append(f.attrs, attrs...)
}

func withPrincipal(r *http.Request, p store.Principal) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), principalKey, p))
}

// principalFrom returns whom the request's access token speaks for. Only routes
// behind bearer have one.
func principalFrom(ctx context.Context) store.Principal {
	p, ok := ctx.Value(principalKey).(store.Principal)
	if !ok {
		panic("handlers: route without a bearer check asks for its principal")
	}
	return p
}

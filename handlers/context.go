package handlers

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/julienschmidt/httprouter"

	"tollhouse/store"
	"tollhouse/store/secret"
)

// requestFacts is what becomes known of a request on its way: for its handler,
// and for the one log line at its end. A request is served by one goroutine, so
// it has no lock. It is one value of the context, and one piece of memory, since
// each further one would copy the request.
type requestFacts struct {
	id        string
	began     time.Time
	source    netip.Addr // where it comes from; invalid on the admin socket
	params    httprouter.Params
	principal *store.Principal
	attrs     []slog.Attr // of the log line; the first of them are set at its end
	room      [logAttrsUsual]slog.Attr
	served    Served
	change    store.AuditLine // whom an administrative request concerns
}

const (
	logAttrsAtEnd = 4  // that are known at the end alone
	logAttrsUsual = 12 // that most lines have room with
)

func newFacts(began time.Time, source netip.Addr) *requestFacts {
	f := &requestFacts{id: "req_" + strings.ToLower(secret.Text()), began: began, source: source}
	f.attrs = f.room[:logAttrsAtEnd]
	return f
}

type contextKey int

const factsKey contextKey = iota

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

// pathParam returns what stands in the request's path where the route has :name.
func pathParam(r *http.Request, name string) string {
	return factsFrom(r.Context()).params.ByName(name)
}

func notePrincipal(ctx context.Context, p *store.Principal) { factsFrom(ctx).principal = p }

// principalFrom returns whom the request's access token speaks for. Only routes
// behind bearer have one.
func principalFrom(ctx context.Context) store.Principal {
	p := factsFrom(ctx).principal
	if p == nil {
		panic("handlers: route without a bearer check asks for its principal")
	}
	return *p
}

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

// requestFacts collects what its handler and its log line need. A request is
// served by one goroutine, so it has no lock. It is one context value, because each
// further one would copy the request.
type requestFacts struct {
	id        string
	began     time.Time
	source    netip.Addr // invalid on the admin socket
	operator  string     // id of the user who makes a change at the desk, or ""
	params    httprouter.Params
	principal *store.Principal
	attrs     []slog.Attr // of the log line
	room      [6]slog.Attr
	served    Served
	change    store.AuditLine // the object of an administrative request
	demand    demand
	exchange  *exchange // nil unless dev watches the request
}

func newFacts(began time.Time, source netip.Addr, ids secret.Source) *requestFacts {
	f := &requestFacts{id: "req_" + strings.ToLower(secret.Text(ids)), began: began, source: source}
	f.attrs = f.room[:0]
	return f
}

type contextKey int

const (
	factsKey contextKey = iota
	connectionKey
	sessionKey // of an operator at the desk
)

func factsFrom(ctx context.Context) *requestFacts {
	if f, ok := ctx.Value(factsKey).(*requestFacts); ok {
		return f
	}
	return &requestFacts{demand: demand{connection: noConnection{}}}
}

// requestID returns the value of X-Request-Id.
func requestID(ctx context.Context) string { return factsFrom(ctx).id }

// by returns the origin of a request, for the audit record.
func by(ctx context.Context) store.By {
	f := factsFrom(ctx)
	if !f.source.IsValid() {
		return store.By{RequestID: f.id}
	}
	return store.By{RequestID: f.id, Source: f.source.String(), OperatorID: f.operator}
}

// noteOperator names the operator in the request's audit lines and its log line.
func noteOperator(ctx context.Context, u store.User) {
	factsFrom(ctx).operator = u.Subject()
	note(ctx, slog.String("operator_id", u.Subject()))
}

// note adds attributes to the request's log line: never secrets or free text of the caller.
func note(ctx context.Context, attrs ...slog.Attr) {
	f := factsFrom(ctx)
	f.attrs = append(f.attrs, attrs...)
}

// pathParam returns the value of :name in the path.
func pathParam(r *http.Request, name string) string {
	return factsFrom(r.Context()).params.ByName(name)
}

func notePrincipal(ctx context.Context, p *store.Principal) {
	f := factsFrom(ctx)
	f.principal, f.demand.account = p, p.Account
}

// principalFrom returns the principal of the access token. It panics on routes
// without bearer.
func principalFrom(ctx context.Context) store.Principal {
	p := factsFrom(ctx).principal
	if p == nil {
		panic("handlers: route without a bearer check asks for its principal")
	}
	return *p
}

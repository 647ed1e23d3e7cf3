package web

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/julienschmidt/httprouter"

	"tollhouse/store"
	"tollhouse/store/secret"
	"tollhouse/store/webhook"
)

// RequestFacts collects what its handler and its log line need. A request is
// served by one goroutine, so it has no lock. It is one context value, because each
// further one would copy the request.
type RequestFacts struct {
	ID        string
	Began     time.Time
	Source    netip.Addr // invalid on the admin socket
	operator  string     // id of the user who makes a change at the desk, or ""
	Params    httprouter.Params
	Principal *store.Principal
	Attrs     []slog.Attr // of the log line
	room      [8]slog.Attr
	Served    Served
	Lease     Lease
	Exchange  exchange // nil unless dev watches the request
}

// exchange is a request that dev watches.
type exchange interface {
	// End follows the handler; isAborted says that the connection was cut.
	End(isAborted bool)
}

func newFacts(began time.Time, source netip.Addr, ids secret.Source) *RequestFacts {
	f := &RequestFacts{ID: secret.Name(ids, "req_"), Began: began, Source: source}
	f.Attrs = f.room[:0]
	return f
}

type contextKey int

const (
	connectionKey contextKey = iota
	SessionKey               // of an operator at the desk
)

// FactsFrom returns the facts of a request, or empty ones outside of a request.
func FactsFrom(ctx context.Context) *RequestFacts {
	if f, ok := ctx.Value(store.RequestKey).(*RequestFacts); ok {
		return f
	}
	return &RequestFacts{Lease: Lease{connection: noConnection{}}}
}

// RequestID returns the value of X-Request-Id.
func RequestID(ctx context.Context) string { return FactsFrom(ctx).ID }

// By returns the origin of a request, for the audit record.
func By(ctx context.Context) store.By {
	by, _ := store.ByOf(ctx)
	return by
}

// By is what [store.ByOf] reads.
func (f *RequestFacts) By() store.By {
	if !f.Source.IsValid() {
		return store.By{RequestID: f.ID}
	}
	return store.By{RequestID: f.ID, Source: f.Source.String(), Actor: store.Actor{OperatorID: f.operator}}
}

// NoteOperator names the operator in the request's audit lines and its log line.
func NoteOperator(ctx context.Context, u store.User) {
	FactsFrom(ctx).operator = u.Subject()
	Note(ctx, slog.String("operator_id", u.Subject()))
}

// Note adds attributes to the request's log line: never secrets or free text of the caller.
// One that has the key of an earlier one replaces it.
func Note(ctx context.Context, attrs ...slog.Attr) {
	f := FactsFrom(ctx)
	for _, a := range attrs {
		at := slices.IndexFunc(f.Attrs, func(had slog.Attr) bool { return had.Key == a.Key })
		if at < 0 {
			f.Attrs = append(f.Attrs, a)
			continue
		}
		f.Attrs[at] = a
	}
}

// PathParam returns the value of :name in the path.
func PathParam(r *http.Request, name string) string {
	return FactsFrom(r.Context()).Params.ByName(name)
}

// SetPathParam sets a parameter for a handler that is called by another one.
func SetPathParam(r *http.Request, name, value string) {
	FactsFrom(r.Context()).Params = httprouter.Params{{Key: name, Value: value}}
}

// NotePrincipal records whose access token a request has; its account is charged from then on,
// or the platform client.
func NotePrincipal(ctx context.Context, p *store.Principal) {
	f := FactsFrom(ctx)
	f.Principal, f.Lease.holder = p, holder{account: p.Account}
	if p.Platform {
		f.Lease.holder = holder{client: p.ClientID}
	}
}

// PrincipalFrom returns the principal of the access token. It panics on routes
// without bearer.
func PrincipalFrom(ctx context.Context) store.Principal {
	p := FactsFrom(ctx).Principal
	if p == nil {
		panic("web: route without a bearer check asks for its principal")
	}
	return *p
}

// WebhooksBy is [By] for a change of webhook endpoints, without an authorization.
func WebhooksBy(ctx context.Context) webhook.By {
	return By(ctx).Webhooks()
}

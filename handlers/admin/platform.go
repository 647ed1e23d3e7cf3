package admin

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/record"
)

// platformCall is a call below [web.PlatformPath]. The routes on the admin socket and for
// platform clients, the description, and the test of each scope alone are made from the table.
type platformCall struct {
	method, path string // path below it
	handle       func(c *call) error
	scope        store.Scope // one of these lets a platform client call it; with none only the machine may
	also         store.Scope // and all of these

	// What the description says of it.
	id, does string          // of the operation
	filters  []api.FormParam // of a list, which has after and limit too; nil if it is none
	query    []api.FormParam // of another call
	takes    string          // the form of the body
	needed   bool            // whether the body must be sent
	sends    string          // the form of the answer; without one it is 204
	made     []int           // statuses of the answer, if not 200
	headers  []string        // of the answer
	streams  bool            // the answer may have other media types
	refuses  []int           // statuses that not all calls have
}

// platformCalls are the calls that manage accounts, users, clients and authorizations.
func platformCalls() []platformCall {
	return slices.Concat(itselfCalls(), accountCalls, userCalls, clientCalls, authorizationCalls, auditCalls, feedCalls)
}

// itselfCalls are about the caller and the calls, and so for platform clients alone.
func itselfCalls() []platformCall {
	return []platformCall{
		{method: "GET", handle: findCaller, scope: store.ScopePlatform, id: "findCaller", does: "Show the client of the token", sends: "Caller"},
		{method: "GET", path: "/openapi.json", handle: describePlatform, scope: store.ScopePlatform, id: "describePlatform", does: "Describe these calls (OpenAPI 3.1)", sends: "Document"},
	}
}

// hasVersion reports whether the call is about one record that has a version.
func (p platformCall) hasVersion() bool {
	return strings.Contains(p.path, ":") && !strings.Contains(p.path, ":family_id")
}

// mountCalls adds the calls for the machine, which needs no scope.
func (s *Server) mountCalls(r *web.Router) {
	for _, p := range platformCalls()[len(itselfCalls()):] {
		s.mountCall(r, p, func(*call) error { return nil })
	}
}

func (s *Server) mountCall(r *web.Router, p platformCall, admit func(*call) error) {
	h := func(w http.ResponseWriter, r *http.Request) error {
		c := &call{s: s, w: w, r: r, of: p}
		err := admit(c)
		if err == nil && !p.streams && !web.AcceptsJSON(r) {
			err = web.NotAcceptable()
		}
		if err == nil && p.hasVersion() {
			c.meets, err = api.IfRevision(r)
		}
		if err == nil {
			err = p.handle(c)
		}
		return c.refused(err)
	}
	if path := web.PlatformPath + p.path; p.method == http.MethodGet {
		r.Get(path, h)
	} else {
		r.On(p.method, path, h)
	}
}

// call is a request for one of the calls.
type call struct {
	s     *Server
	w     http.ResponseWriter
	r     *http.Request
	by    *store.Principal // the platform client; nil is the machine
	of    platformCall
	meets func(revision uint64) bool // the condition on the version, or nil
}

func (c *call) ctx() context.Context { return c.r.Context() }

func (c *call) isMachine() bool { return c.by == nil }

// guard is what must hold in the transaction of a change. needs goes by the scopes that the token has
// then.
func (c *call) guard() store.Guard {
	if c.isMachine() {
		return store.Guard{If: c.meets}
	}
	return store.Guard{Live: c.s.site.Store.LiveIn(*c.by, c.judge), If: c.meets, Protect: true, KnownAccount: true}
}

// judge is for the principal as it is now: its scopes may have changed.
func (c *call) judge(by store.Principal) error {
	c.by = &by
	return c.of.judge(by)
}

// unguarded is for reads.
func unguarded[T any](do func(ctx context.Context, id string) (T, error)) func(context.Context, string, ...store.Guard) (T, error) {
	return func(ctx context.Context, id string, _ ...store.Guard) (T, error) { return do(ctx, id) }
}

// name returns a name in the path. The router splits the path before it is decoded, so a
// name may contain a slash.
func (c *call) name(param string) string {
	name, _ := url.PathUnescape(web.PathParam(c.r, param)) // escaped by the router
	return name
}

// read reads a body that may be left out; see [api.ReadMembers]. Members of the machine are
// unknown to platform clients.
func (c *call) read(known []string, ofMachine ...string) (*api.Members, error) {
	if refused := api.RefuseQuery(c.r); refused != nil {
		return nil, refused
	}
	if c.isMachine() {
		known = slices.Concat(known, ofMachine)
	}
	return api.ReadMembers(c.w, c.r, c.alive, true, nil, known...)
}

// readNone refuses a body with members.
func (c *call) readNone() error {
	_, err := c.read(nil)
	return err
}

// alive judges the token again: after the body has arrived, and during a stream.
func (c *call) alive() error {
	if c.isMachine() {
		return nil
	}
	by, err := c.s.api.FindPrincipal(c.r)
	if err != nil {
		return err
	}
	return c.judge(by)
}

// listed reads the query of a list with filters. Those of the machine are unknown to platform
// clients.
func (c *call) listed(filters []api.FormParam, ofMachine ...string) (values map[string]string, limit int, err error) {
	known := []string{"after", "limit"}
	for _, f := range filters {
		known = append(known, f[0])
	}
	if c.isMachine() {
		known = append(known, ofMachine...)
	}
	values, refused := web.ParseSingle(c.r.URL.RawQuery, known...)
	if refused != nil {
		return nil, 0, refused
	}
	limit = api.EventsLimitDefault
	if text, given := values["limit"]; given {
		if limit, refused = api.ParseLimit(text); refused != nil {
			return nil, 0, refused
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if values[name] == "" {
			return nil, 0, web.InvalidParameter(name, "must not be empty.")
		}
		if name == "after" && strings.Contains(values[name], "\x00") {
			return nil, 0, web.InvalidParameter(name, "must not have a NUL.")
		}
	}
	return values, limit, nil
}

// sendPage sends a page of items, of which one more than limit was read.
func sendPage[I, T any](c *call, items []I, limit int, after string, shown func(I) T, id func(T) string) error {
	return api.SendPage(c.w, c.r, api.PageOf(items, limit, after, shown, id))
}

func (c *call) send(status int, shown any) error {
	web.WriteJSON(c.w, status, shown)
	return nil
}

// sendVersion sends a record with its version.
func (c *call) sendVersion(status int, revision uint64, shown any) error {
	c.w.Header().Set("ETag", web.EntityTag(strconv.FormatUint(revision, 10)))
	return c.send(status, shown)
}

// done answers a call after which nothing is left to show.
func (c *call) done() error {
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// absent says that what the path names does not exist. The machine reads the name again, and what
// to do next.
func (c *call) absent(what, name, hint string, cause error) error {
	if c.isMachine() {
		return web.Absent(what, name, hint).Because(cause)
	}
	return web.NewProblem(http.StatusNotFound, "not_found", "The %s does not exist.", what).Because(cause)
}

// refused gives a refusal the form of those of the API. Hints name commands, which platform
// clients do not have.
func (c *call) refused(err error) error {
	if err == nil {
		return nil
	}
	var bad *record.InvalidError
	if errors.Is(err, record.ErrRevoked) {
		return web.InvalidToken().Because(err) // the token ended while the change waited for its turn
	}
	p := web.AsProblem(err)
	if errors.As(err, &bad) {
		p.Code = cmp.Or(bad.Code, "invalid_parameter")
		if bad.Field == "scopes" {
			p.Code = "invalid_scope"
		}
	}
	if c.isMachine() {
		return p
	}
	if p.Extra = maps.Clone(p.Extra); p.Extra != nil {
		delete(p.Extra, "hint")
	}
	if p.Code == "protected" || p.Code == "insufficient_scope" {
		c.s.api.AuditRefused(c.ctx(), *c.by, p.Code, c.object())
	}
	return p
}

// object is what the path names, as an audit line has it. What is no name of ours is left out.
func (c *call) object() (of store.AuditLine) {
	if id := c.name("account"); record.CheckAccountID(id) == nil {
		of.AccountID = id
	}
	if id := c.name("user_id"); store.IsSubject(id) {
		of.UserID = id
	}
	if id := c.name("client_id"); store.IsClientID(id) {
		of.ClientID = id
	}
	if id := c.name("family_id"); store.IsFamilyID(id) {
		of.FamilyID = id
	}
	return of
}

// PlatformRoutes returns the calls of platform clients, such as "GET /accounts/:account".
func PlatformRoutes() (routes []string) {
	for _, p := range platformCalls() {
		if p.scope != 0 {
			routes = append(routes, p.method+" "+p.path)
		}
	}
	return routes
}

package admin

import (
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"tollhouse/handlers/web"
	"tollhouse/store"
)

// MountPlatform adds the calls for platform clients.
func (s *Server) MountPlatform(r *web.Router) {
	if !s.site.HasPlatform() {
		return
	}
	for _, p := range platformCalls() {
		if p.scope != 0 {
			s.mountCall(r, p, (*call).admit)
		}
	}
}

// AtPlatform refuses what no platform client sends, before the token is read: a request from
// elsewhere, which gets what any unknown address gets, and one that a browser sends for a page,
// ours included. A platform's secret never belongs in a browser.
func (s *Server) AtPlatform(next *web.Router) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !web.IsPlatformPath(r.URL.Path):
			next.ServeHTTP(w, r)
		case !s.site.AdmitsPlatform(r):
			next.NotFound.ServeHTTP(w, r)
		case isOfPage(r):
			web.NoteRoute(r, "")
			p := web.NewProblem(http.StatusForbidden, "cross_origin", "Pages may not use these calls; they are for programs on servers.")
			web.NoteProblem(r.Context(), p)
			web.WriteProblem(w, p)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// isOfPage reports whether a browser sends the request for a page (Fetch Metadata).
func isOfPage(r *http.Request) bool {
	notNone := func(site string) bool { return site != "none" }
	return len(r.Header.Values("Origin")) > 0 || slices.ContainsFunc(r.Header.Values("Sec-Fetch-Site"), notNone)
}

// admit lets a platform client pass whose token has the scopes. Its changes are its own in the
// audit record.
func (c *call) admit() error {
	h := c.w.Header()
	h["Cache-Control"], h["Vary"] = web.HeaderPrivate, web.HeaderVary
	by, err := c.s.api.FindPrincipal(c.r)
	if err != nil {
		return err
	}
	c.by = &by
	web.Note(c.ctx(), slog.String("actor_client_id", by.ClientID)) // client_id and the others are the object
	web.NotePrincipal(c.ctx(), &by)
	if len(c.r.Header.Values(web.AccountHeader)) > 0 {
		return web.InvalidParameter(web.AccountHeader, "is not for these calls: name the account in the path, the query or the body.")
	}
	if err := c.of.judge(by); err != nil {
		return err
	}
	c.r = c.r.WithContext(store.WithActor(c.ctx(), store.Actor{ClientID: by.ClientID, ClientName: by.ClientName}))
	return nil
}

// judge refuses a token that has none of the scopes of the call, or not all that it needs too.
func (p platformCall) judge(by store.Principal) error {
	if by.Permissions()&p.scope != 0 {
		return needs(by, p.also)
	}
	refused := web.InsufficientScope(p.scope|p.also, by.Permissions())
	if names := p.scope.Names(); len(names) > 1 {
		refused.Description = "The access token carries none of the scopes " + strings.Join(names, ", ") + "."
	}
	return refused
}

// needs refuses a token that lacks one of the scopes, and names those that it lacks.
func needs(by store.Principal, scopes store.Scope) error {
	if has := by.Permissions(); scopes&^has != 0 {
		return web.InsufficientScope(scopes, has)
	}
	return nil
}

// needs is for what depends on the record or on the body.
func (c *call) needs(scopes store.Scope) error {
	if c.isMachine() {
		return nil
	}
	return needs(*c.by, scopes)
}

// findCaller is GET of the path itself.
func findCaller(c *call) error {
	if err := c.readNone(); err != nil {
		return err
	}
	return c.send(http.StatusOK, Caller{
		ClientID: c.by.ClientID, Name: c.by.ClientName, Scopes: c.by.Permissions().Names(), ExpiresAt: c.by.ExpiresAt.Unix(),
	})
}

// Caller is the client of a token.
type Caller struct {
	ClientID  string   `json:"client_id"`
	Name      string   `json:"name"`
	Scopes    []string `json:"scopes"`
	ExpiresAt int64    `json:"expires_at"` // of the token, in Unix seconds
}

package desk

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/julienschmidt/httprouter"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/views"
)

// Config configures the operators' pages.
type Config struct {
	// From are the networks that may open them; nil is everywhere.
	From []netip.Prefix
	// Confirm is how long after a sign-in or a change the password is not asked for.
	Confirm time.Duration
	// Backups makes and checks backups; nil if the server makes none.
	Backups Backups
	// Check begins a search for damage, unless one is running. It may be nil.
	Check func()
}

const formLabel = "desk form" // the MAC label of form tokens

// WithDesk sends the requests of operators for the desk to its own router. All others
// go to next, which has no such route: they get what any unknown address gets, for
// every method.
func (s *Server) WithDesk(next http.Handler) http.Handler {
	if !s.isOn {
		return next
	}
	pages := s.routes()
	s.unknown = next
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path := r.URL.Path; path == web.DeskPath || strings.HasPrefix(path, web.DeskPath+"/") {
			if session := s.operatorOf(r); session != nil {
				web.Note(r.Context(), slog.String("user_id", session.User.Subject()))
				pages.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), web.SessionKey, session)))
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// operatorOf returns the session of an operator who may open the desk from there, or nil.
// The role is read from the user's record.
func (s *Server) operatorOf(r *http.Request) *web.BrowserSession {
	if !s.Admits(r) {
		return nil
	}
	token, ok := s.site.SessionToken(r)
	if !ok {
		return nil
	}
	session, err := s.site.Store.PeekSession(r.Context(), token)
	if err != nil {
		if !errors.Is(err, record.ErrNotFound) {
			web.Note(r.Context(), slog.String("err", err.Error()))
		}
		return nil
	}
	if !session.User.Operator { // who must not see the attempt as a use of the session
		return nil
	}
	s.site.Store.SessionSeen(session)
	return &web.BrowserSession{Session: session, Token: token}
}

// PathFor returns where an operator gets after a sign-in for the desk, or "".
func (s *Server) PathFor(r *http.Request, u store.User) string {
	if !u.Operator || !s.Admits(r) {
		return ""
	}
	return web.DeskPath
}

// Admits reports whether an operator may open the desk with such a request: it brings
// no other credentials, its source is in one of the networks, and a password may travel.
// A hidden source is in no network.
func (s *Server) Admits(r *http.Request) bool {
	return s.isOn && len(r.Header.Values("Authorization")) == 0 && s.site.IsPrivate(r) && s.site.IsFrom(r, s.config.From)
}

// visit is one request for a page of the desk.
type visit struct {
	s       *Server
	route   string // template of the path
	w       http.ResponseWriter
	r       *http.Request
	ctx     context.Context
	session *web.BrowserSession
	now     time.Time
}

// deskPage answers a request for a page.
type deskPage func(v *visit) error

// deskRouter registers the routes of the desk.
type deskRouter struct {
	*httprouter.Router
	s *Server
}

func (s *Server) routes() http.Handler {
	base := s.site.NewRouter()
	r := deskRouter{Router: base.Router, s: s}
	r.NotFound = s.handleDesk("", func(*visit) error {
		return web.NewProblem(http.StatusNotFound, "not_found", "This page does not exist at the desk.")
	})
	r.MethodNotAllowed = s.handleDesk("", func(v *visit) error { return web.MethodNotAllowed(v.w, v.r) })

	r.get("/desk", s.overview)
	r.get("/desk/events", s.events)
	r.get("/desk/events/:id", s.event)
	r.get("/desk/events/:id/raw", s.rawEvent)
	r.get("/desk/event-list", s.eventList)
	r.get("/desk/event-tail", s.eventTail)
	r.get("/desk/resources", s.resources)
	r.get("/desk/resources/:kind/:id", s.resource)

	r.get("/desk/clients", s.clients)
	r.get("/desk/new-client", s.newClient)
	r.post("/desk/clients", s.createClient)
	r.get("/desk/clients/:id", s.client)
	r.deed("/desk/clients/:id", priceOfClientUpdate, s.updateClient)
	r.deed("/desk/clients/:id/rotate-secret", priceOfRotation, s.rotateSecret)
	r.deed("/desk/clients/:id/disable", priceOfClientDisable, s.disableClient)
	r.post("/desk/clients/:id/enable", s.enableClient)

	r.get("/desk/users", s.users)
	r.get("/desk/new-user", s.newUser)
	r.get("/desk/accounts", s.accounts)
	r.post("/desk/users", s.createUser)
	r.get("/desk/users/:id", s.user)
	r.deed("/desk/users/:id/code", priceOfUserCode, s.userCode)
	r.deed("/desk/users/:id/disable", priceOfUserDisable, s.disableUser)
	r.post("/desk/users/:id/enable", s.enableUser)
	r.post("/desk/users/:id/promote", s.promoteUser)
	r.deed("/desk/users/:id/demote", priceOfDemotion, s.demoteUser)
	r.deed("/desk/users/:id/sign-out", priceOfSignOut, s.signOutUser)
	r.deed("/desk/users/:id/reset-second-factor", priceOfFactorReset, s.resetSecondFactor)

	r.get("/desk/access", s.access)
	r.deed("/desk/sessions/:id/revoke", priceOfSession, s.revokeSession)
	r.deed("/desk/families/:id/revoke", priceOfFamily, s.revokeFamily)
	r.get("/desk/audit", s.audit)

	r.get("/desk/webhooks", s.webhooks)
	r.get("/desk/new-webhook", s.newWebhook)
	r.post("/desk/webhooks", s.createWebhook)
	r.get("/desk/webhooks/:id", s.webhook)
	r.deed("/desk/webhooks/:id/enable", priceOfWebhookEnable, s.enableWebhook)
	r.deed("/desk/webhooks/:id/disable", priceOfWebhookDisable, s.disableWebhook)
	r.deed("/desk/webhooks/:id/skip", priceOfSkip, s.skipWebhook)
	r.post("/desk/webhooks/:id/retry", s.sendAgain)
	r.post("/desk/webhooks/:id/retry-parked", s.retryParked)
	r.post("/desk/webhooks/:id/retry-dead", s.retryDead)
	r.post("/desk/webhooks/:id/test", s.testWebhook)
	r.deed("/desk/webhooks/:id/rotate-secret", priceOfWebhookRotation, s.rotateWebhook)
	r.deed("/desk/webhook-hold", priceOfHold, s.holdWebhooks)
	r.post("/desk/webhook-resume", s.resumeWebhooks)
	r.get("/desk/backups", s.backups)
	r.post("/desk/backups", s.makeBackup)
	r.post("/desk/backups/:name/verify", s.verifyBackup)
	r.get("/desk/health", s.health)
	r.post("/desk/health/check", s.check)
	r.get("/desk/settings", s.settings)
	return r
}

func (r deskRouter) get(path string, h deskPage) {
	r.on(http.MethodGet, path, h)
	r.on(http.MethodHead, path, h)
}

// post registers a form, which is checked before the handler runs; see [posted.read].
func (r deskRouter) post(path string, h deskForm) { r.deed(path, nil, h) }

// deed registers a form that takes something away. The operator is asked once, with the price.
func (r deskRouter) deed(path string, priceOf price, h deskForm) {
	r.on(http.MethodPost, path, func(v *visit) error {
		f := &posted{visit: v}
		proceed, err := f.read(priceOf)
		if err != nil || !proceed {
			return err
		}
		return h(f)
	})
}

func (r deskRouter) on(method, path string, h deskPage) {
	r.s.Routes = append(r.s.Routes, web.Route{Method: method, Template: path, IsPage: true})
	r.s.site.Count(path, method)
	handled := r.s.handleDesk(path, h)
	r.Handle(method, path, func(w http.ResponseWriter, rq *http.Request, params httprouter.Params) {
		web.FactsFrom(rq.Context()).Params = params
		handled.ServeHTTP(w, rq)
	})
}

// handleDesk shows the errors of a page in the frame of the desk.
func (s *Server) handleDesk(route string, h deskPage) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		web.NoteRoute(r, route)
		session, _ := r.Context().Value(web.SessionKey).(*web.BrowserSession)
		v := &visit{s: s, route: route, w: w, r: r, ctx: r.Context(), session: session, now: s.site.Store.Now()}
		plain := w.Header().Clone()
		deskHeaders(w)
		err := s.site.CheckOrigin(r)
		if err == nil {
			err = h(v)
		}
		if errors.Is(err, errNoOperator) {
			clear(w.Header())
			maps.Copy(w.Header(), plain)
			s.unknown.ServeHTTP(w, r)
			return
		}
		if err != nil {
			p := web.AsOperatorProblem(err)
			web.NoteProblem(r.Context(), p)
			v.showProblem(p)
		}
	})
}

// deskHeaders sets the headers of every answer of the desk. Unlike other pages, these
// load a script.
func deskHeaders(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'"+
		"; frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'")
}

// frame is what the page has around it. It takes the outcome of the last form, so a page
// has it once.
func (v *visit) frame() views.Frame {
	f := views.Frame{
		Page: v.s.site.Page(v.r), Username: v.session.User.Username, SignOutToken: v.s.site.SessionFormToken(web.LogoutForm, v.session.Token), FormToken: v.token(),
	}
	if v.r.Method == http.MethodGet {
		f.Done = v.s.site.TakeDone(v.w, v.r)
	}
	f.Findings = v.findings()
	return f
}

// draw sends a page.
func (v *visit) draw(status int, page templ.Component) { v.s.site.Render(v.w, v.r, status, page) }

// showProblem sends an error as a page of the desk.
func (v *visit) showProblem(p *web.Problem) {
	if web.AsksForJSON(v.r) {
		web.WriteProblem(v.w, p)
		return
	}
	for name, values := range p.Header {
		v.w.Header()[name] = values
	}
	page := views.DeskErrorProps{ErrorText: web.ErrorText(p)}
	if p.Status == http.StatusNotFound {
		page.Kind = views.ErrorNotFound
	} else if hint, ok := p.Extra["hint"].(string); ok {
		page.Hint = web.Sentence(hint, "")
	}
	page.Frame = v.frame()
	v.draw(p.Status, views.DeskError(page))
}

// audit records what is no change of the store: that has its line in its own transaction.
func (v *posted) audit(what string) {
	v.s.site.Store.AuditNow(v.ctx, store.AuditLine{What: store.AuditAdmin, Reason: what, By: web.By(v.ctx)})
}

// finish leads to a page, which says what was done.
func (v *posted) finish(what views.Done, to string) error {
	v.s.site.DoneAt(v.w, v.r, what, to)
	return nil
}

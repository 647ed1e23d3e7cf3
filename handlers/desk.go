package handlers

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/julienschmidt/httprouter"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/views"
)

// Desk configures the operators' pages.
type Desk struct {
	// From are the networks that may open them; nil is everywhere.
	From []netip.Prefix
	// Confirm is how long after a sign-in or a change the password is not asked for.
	Confirm time.Duration
	// Settings are those of the server, with secrets masked. It may be nil.
	Settings []Setting
	// Backups makes and checks backups; nil if the server makes none.
	Backups Backups
	// Check begins a search for damage, unless one is running. It may be nil.
	Check func()
}

// Setting is a setting of the server.
type Setting struct {
	Name     string `json:"name"`
	Value    string `json:"value"` // as its variable would say it
	From     string `json:"from"`  // flag, variable or default
	Variable string `json:"variable,omitempty"`
}

// desk is the state of the operators' pages. It is lost at a restart, which costs an
// operator one confirmation.
type desk struct {
	Desk
	changed  *changes // when each session last made a change
	once     *onceKept
	findings quickFindings
	tails    tailLimit
	routes   []route
	unknown  http.Handler // answers everyone but operators
}

const (
	deskPath = "/desk"
	deskForm = "desk form" // the MAC label of form tokens

	// reasonAtDesk is the reason of an audit line about a confirmation.
	reasonAtDesk = "at the desk"
)

// withDesk sends the requests of operators for the desk to its own router. All others
// go to next, which has no such route: they get what any unknown address gets, for
// every method.
func (s *Server) withDesk(next http.Handler) http.Handler {
	if s.desk == nil {
		return next
	}
	pages := s.deskRoutes()
	s.desk.unknown = next
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path := r.URL.Path; path == deskPath || strings.HasPrefix(path, deskPath+"/") {
			if session := s.operatorOf(r); session != nil {
				note(r.Context(), slog.String("user_id", session.User.Subject()))
				pages.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), sessionKey, session)))
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// operatorOf returns the session of an operator who may open the desk from there, or nil.
// The role is read from the user's record.
func (s *Server) operatorOf(r *http.Request) *browserSession {
	if !s.deskAdmits(r) {
		return nil
	}
	token, ok := s.sessionToken(r)
	if !ok {
		return nil
	}
	session, err := s.store.PeekSession(r.Context(), token)
	if err != nil {
		if !errors.Is(err, record.ErrNotFound) {
			note(r.Context(), slog.String("err", err.Error()))
		}
		return nil
	}
	if !session.User.Operator { // who must not see the attempt as a use of the session
		return nil
	}
	s.store.SessionSeen(session)
	return &browserSession{Session: session, token: token}
}

// isPrivate reports whether a password may travel over the request's connection: the
// public URL is https, or the request stays on this machine.
func (s *Server) isPrivate(r *http.Request) bool {
	return s.cookiesOf(r).secure || factsFrom(r.Context()).source.IsLoopback() && !s.hidesSource(r) && isLoopbackHost(strings.ToLower(hostWithoutPort(r.Host)))
}

// deskAdmits reports whether an operator may open the desk with such a request: it brings
// no other credentials, its source is in one of the networks, and a password may travel.
// A hidden source is in no network.
func (s *Server) deskAdmits(r *http.Request) bool {
	if s.desk == nil || len(r.Header.Values("Authorization")) > 0 || !s.isPrivate(r) {
		return false
	}
	if s.desk.From == nil {
		return true
	}
	source := factsFrom(r.Context()).source
	if s.hidesSource(r) {
		return false
	}
	for _, network := range s.desk.From {
		if network.Contains(source) {
			return true
		}
	}
	return false
}

// hidesSource reports whether a proxy passed the request on and its source is unknown:
// the proxy is not trusted, or it does not name the source by an address.
func (s *Server) hidesSource(r *http.Request) bool {
	if !isForwarded(r) {
		return false
	}
	if !s.proxies.isTrusted(peerAddr(r.RemoteAddr)) {
		return true
	}
	for _, hop := range slices.Backward(strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")) {
		addr, err := parseAddr(strings.TrimSpace(hop))
		if err != nil {
			return true
		}
		if !s.proxies.isTrusted(addr) {
			return false
		}
	}
	return false
}

// isForwarded reports whether a proxy passed the request on.
func isForwarded(r *http.Request) bool {
	for name := range r.Header {
		switch {
		case name == "Forwarded", name == "X-Real-Ip", name == "Via", strings.HasPrefix(name, "X-Forwarded-"):
			return true
		}
	}
	return false
}

// visit is one request for a page of the desk.
type visit struct {
	*Server
	w       http.ResponseWriter
	r       *http.Request
	ctx     context.Context
	session *browserSession
	form    params // of a POST
	now     time.Time
}

// deskPage answers a request for a page.
type deskPage func(v *visit) error

// deskRouter registers the routes of the desk.
type deskRouter struct {
	*httprouter.Router
	s *Server
}

func (s *Server) deskRoutes() http.Handler {
	base := s.newRouter()
	r := deskRouter{Router: base.Router, s: s}
	r.NotFound = s.handleDesk("", func(*visit) error {
		return newProblem(http.StatusNotFound, "not_found", "This page does not exist at the desk.")
	})
	r.MethodNotAllowed = s.handleDesk("", func(v *visit) error { return s.methodNotAllowed(v.w, v.r) })

	r.get("/desk", s.deskOverview)
	r.get("/desk/events", s.deskEvents)
	r.get("/desk/events/:id", s.deskEvent)
	r.get("/desk/events/:id/raw", s.deskRawEvent)
	r.get("/desk/event-list", s.deskEventList)
	r.get("/desk/event-tail", s.deskEventTail)
	r.get("/desk/resources", s.deskResources)
	r.get("/desk/resources/:kind/:id", s.deskResource)

	r.get("/desk/clients", s.deskClients)
	r.get("/desk/new-client", s.deskNewClient)
	r.post("/desk/clients", s.deskCreateClient)
	r.get("/desk/clients/:id", s.deskClient)
	r.post("/desk/clients/:id", s.deskUpdateClient)
	r.post("/desk/clients/:id/rotate-secret", s.deskRotateSecret)
	r.post("/desk/clients/:id/disable", s.deskDisableClient)
	r.post("/desk/clients/:id/enable", s.deskEnableClient)

	r.get("/desk/users", s.deskUsers)
	r.get("/desk/new-user", s.deskNewUser)
	r.post("/desk/users", s.deskCreateUser)
	r.get("/desk/users/:id", s.deskUser)
	r.post("/desk/users/:id/code", s.deskUserCode)
	r.post("/desk/users/:id/disable", s.deskDisableUser)
	r.post("/desk/users/:id/enable", s.deskEnableUser)
	r.post("/desk/users/:id/promote", s.deskPromoteUser)
	r.post("/desk/users/:id/demote", s.deskDemoteUser)
	r.post("/desk/users/:id/sign-out", s.deskSignOutUser)

	r.get("/desk/access", s.deskAccess)
	r.post("/desk/sessions/:id/revoke", s.deskRevokeSession)
	r.post("/desk/families/:id/revoke", s.deskRevokeFamily)
	r.get("/desk/audit", s.deskAudit)

	r.get("/desk/webhooks", s.deskWebhooks)
	r.get("/desk/webhooks/:id", s.deskWebhook)
	r.post("/desk/webhooks/:id/enable", s.deskEnableWebhook)
	r.post("/desk/webhooks/:id/disable", s.deskDisableWebhook)
	r.post("/desk/webhooks/:id/skip", s.deskSkipWebhook)
	r.post("/desk/webhooks/:id/retry-parked", s.deskRetryParked)
	r.post("/desk/webhooks/:id/retry-dead", s.deskRetryDead)
	r.post("/desk/webhooks/:id/test", s.deskTestWebhook)
	r.post("/desk/webhooks/:id/rotate-secret", s.deskRotateWebhook)
	r.post("/desk/webhook-hold", s.deskHoldWebhooks)
	r.post("/desk/webhook-resume", s.deskResumeWebhooks)
	r.get("/desk/backups", s.deskBackups)
	r.post("/desk/backups", s.deskMakeBackup)
	r.post("/desk/backups/:name/verify", s.deskVerifyBackup)
	r.get("/desk/health", s.deskHealth)
	r.post("/desk/health/check", s.deskCheck)
	r.get("/desk/settings", s.deskSettings)
	return r
}

func (r deskRouter) get(path string, h deskPage) {
	r.on(http.MethodGet, path, h)
	r.on(http.MethodHead, path, h)
}

// post registers a form, which is checked before the handler runs; see [Server.readDeskForm].
func (r deskRouter) post(path string, h deskPage) {
	r.on(http.MethodPost, path, func(v *visit) error {
		proceed, err := v.readDeskForm()
		if err != nil || !proceed {
			return err
		}
		return h(v)
	})
}

func (r deskRouter) on(method, path string, h deskPage) {
	r.s.desk.routes = append(r.s.desk.routes, route{method: method, template: path, isPage: true})
	handled := r.s.handleDesk(path, h)
	r.Handle(method, path, func(w http.ResponseWriter, rq *http.Request, params httprouter.Params) {
		factsFrom(rq.Context()).params = params
		handled.ServeHTTP(w, rq)
	})
}

// handleDesk shows the errors of a page in the frame of the desk.
func (s *Server) handleDesk(route string, h deskPage) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		noteRoute(r, route)
		session, _ := r.Context().Value(sessionKey).(*browserSession)
		v := &visit{Server: s, w: w, r: r, ctx: r.Context(), session: session, now: s.store.Now()}
		plain := w.Header().Clone()
		deskHeaders(w)
		err := s.checkOrigin(r)
		if err == nil {
			err = h(v)
		}
		if errors.Is(err, errNoOperator) {
			clear(w.Header())
			maps.Copy(w.Header(), plain)
			s.desk.unknown.ServeHTTP(w, r)
			return
		}
		if err != nil {
			p := asOperatorProblem(err)
			noteProblem(r.Context(), p)
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

// show sends a page in the frame of the desk.
func (v *visit) show(status int, page views.DeskProps, parts ...templ.Component) {
	page.Page, page.Username, page.SignOutToken = v.page(v.r), v.session.User.Username, v.logoutToken(v.session.token)
	if page.Notice == "" && v.r.Method == http.MethodGet {
		page.Notice = v.takeDone(v.w, v.r)
	}
	for _, f := range v.quickFindings() {
		if f.State != StateOK {
			page.Attention = append(page.Attention, pageOfFinding(f))
		}
	}
	v.render(v.w, v.r, status, views.Desk(page, parts))
}

// showProblem sends an error as a page of the desk.
func (v *visit) showProblem(p *problem) {
	if asksForJSON(v.r) {
		writeProblem(v.w, p)
		return
	}
	for name, values := range p.header {
		v.w.Header()[name] = values
	}
	text := p.page
	if text == nil {
		text = plainPage(p)
	}
	if p.status == http.StatusNotFound {
		text = &pageText{title: "Not found", message: p.description}
	}
	page := views.DeskProps{Name: "error", Title: text.title, Alert: strings.TrimSpace(text.message + " " + text.next)}
	if hint, ok := p.extra["hint"].(string); ok && p.status != http.StatusNotFound {
		page.Alert += " " + sentence(hint)
	}
	v.show(p.status, page, views.DeskFine("Request "+requestID(v.ctx)))
}

// audit records a change as the command line does, with the operator's name.
func (v *visit) audit(what string, line store.AuditLine) {
	line.What, line.Reason, line.By = store.AuditAdmin, what, by(v.ctx)
	v.store.Audit(line)
}

// finish leads to a page, which says what was done.
func (v *visit) finish(what, to string) error {
	cookies := v.cookiesOf(v.r)
	http.SetCookie(v.w, &http.Cookie{
		Name: cookies.doneName, Value: what, Path: "/", MaxAge: int(doneLifetime.Seconds()),
		HttpOnly: true, Secure: cookies.secure, SameSite: http.SameSiteLaxMode,
	})
	v.redirectHere(v.w, to)
	return nil
}

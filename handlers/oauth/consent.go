package oauth

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/views"
)

// consentScreen is what varies between renderings of the consent screen.
type consentScreen struct {
	stale  bool
	status int // 0 for 200
}

// showConsent asks the user.
func (s *Server) showConsent(w http.ResponseWriter, r *http.Request, a authRequest, session *web.BrowserSession,
	screen consentScreen) error {
	account, err := web.AccountName(r.Context(), s.site.Store, session.User.Account)
	if err != nil {
		return err
	}
	host, app := goesTo(a.redirectURI)
	web.PageHeaders(w, web.ToClients)
	s.site.Render(w, r, cmp.Or(screen.status, http.StatusOK), views.Consent(views.ConsentProps{
		Page: s.site.SignedInPage(r), ClientName: a.client.Name, Username: session.User.Username,
		NotYouURL: a.toSignIn(),
		Scopes:    a.scope.Effective().Names(), Account: account, GoesTo: host, GoesToApp: app,
		Action: "/consent", Ticket: newTicket(s.site.Key, a, session, s.site.Store.Now()).seal(s.site.Key),
		AccountURL: "/account", Stale: screen.stale,
	}))
	return nil
}

// goesTo returns where the browser goes next: a host, or the private scheme of an
// application.
func goesTo(redirectURI string) (host, scheme string) {
	u, err := url.Parse(redirectURI)
	if err != nil || u.Host == "" {
		scheme, _, _ := strings.Cut(redirectURI, ":")
		return "", scheme
	}
	return u.Host, ""
}

// consent is POST /consent.
func (s *Server) consent(w http.ResponseWriter, r *http.Request) error {
	p, err := web.ParseBody(w, r)
	if err != nil {
		return err
	}
	if refused := p.RefuseRepeated("ticket", "decision"); refused != nil {
		return refused
	}
	session, err := s.site.Session(r)
	if err != nil {
		return err
	}
	t, sound := openTicket(s.site.Key, p.Value("ticket"))
	if !p.Has("ticket") || !sound && session == nil {
		return startAgain(http.StatusForbidden, views.ErrorConsentForeign)
	}
	if !sound {
		return startAgain(http.StatusBadRequest, views.ErrorConsentDamaged)
	}
	if !s.site.Store.Now().Before(t.ends(s.site.Store.Lifetimes())) {
		return startAgain(http.StatusBadRequest, views.ErrorConsentOld)
	}
	a, refusal, err := s.parseAuthRequest(r.Context(), t.Query)
	if err != nil {
		return err
	}
	if refusal != nil {
		return startAgain(http.StatusBadRequest, views.ErrorConsentRefused)
	}
	if session == nil || !t.belongsTo(s.site.Key, session) {
		return s.askAgain(w, r, a, session)
	}
	web.Note(r.Context(), slog.String("client_id", a.client.ID), slog.String("user_id", session.User.Subject()))
	switch p.Value("decision") {
	case "allow":
		return s.allow(w, r, a, t, session)
	case "deny":
		return s.deny(w, r, a, t, session)
	}
	return web.InvalidRequest("The parameter decision must be allow or deny.").On("decision")
}

// askAgain answers a decision of a sign-in that has ended, or that another one has replaced:
// it asks whoever is signed in now.
func (s *Server) askAgain(w http.ResponseWriter, r *http.Request, a authRequest, session *web.BrowserSession) error {
	problem := invalidTicket(http.StatusForbidden)
	if web.AsksForJSON(r) {
		return problem
	}
	web.NoteProblem(r.Context(), problem)
	if session == nil {
		return s.showLogin(w, r, loginScreen{request: &a, status: problem.Status, notice: views.LoginEnded})
	}
	if a.mustSignIn(session, s.site.Store.Now()) {
		return s.showLogin(w, r, loginScreen{request: &a, status: problem.Status, notice: views.LoginTooOld})
	}
	return s.showConsent(w, r, a, session, consentScreen{status: problem.Status, stale: true})
}

func (s *Server) allow(w http.ResponseWriter, r *http.Request, a authRequest, t ticket,
	session *web.BrowserSession) error {
	if !t.Scope.Covers(a.scope) {
		return startAgain(http.StatusBadRequest, views.ErrorConsentGrown)
	}
	code, err := s.site.Store.Allow(r.Context(), t.consent(a, session, s.site.Store.Lifetimes()))
	switch {
	case errors.Is(err, record.ErrReplayed):
		return a.alreadyDecided().Because(err)
	case errors.Is(err, record.ErrExpired):
		s.showAllowed(w, r, a)
		return nil
	case errors.Is(err, record.ErrDisabled):
		return startAgain(http.StatusForbidden, views.ErrorConsentDisabled).Because(err)
	case errors.Is(err, store.ErrTooOften):
		return allowedTooOften().Because(err)
	case err != nil:
		return err
	}
	web.Note(r.Context(), slog.String("decision", "allow"))
	a.redirectWithCode(w, s.site.IssuerOf(r), code)
	return nil
}

func (s *Server) deny(w http.ResponseWriter, r *http.Request, a authRequest, t ticket,
	session *web.BrowserSession) error {
	again, err := s.site.Store.Deny(r.Context(), t.consent(a, session, s.site.Store.Lifetimes()))
	if errors.Is(err, record.ErrReplayed) {
		return a.alreadyDecided().Because(err)
	}
	if err != nil {
		return err
	}
	web.Note(r.Context(), slog.String("decision", "deny"))
	if !again {
		// Denying costs as little as being refused.
		s.auditRefusal(r.Context(), store.AuditLine{
			What: store.AuditDenied, Reason: "denied_by_user",
			ClientID: a.client.ID, UserID: session.User.Subject(), AccountID: session.User.Account,
		})
	}
	a.redirectDenied(w, s.site.IssuerOf(r))
	return nil
}

// allowedTooOften refuses a client that keeps requesting codes for a user.
func allowedTooOften() *web.Problem {
	return tooOften("The client requests codes for this user too often",
		store.ClientGrantEvery).AsPage(views.ErrorText{Kind: views.ErrorConsentTooOften})
}

func invalidTicket(status int) *web.Problem {
	return web.NewProblem(status, "invalid_ticket", "This consent request is invalid or has expired.")
}

// startAgain refuses an answer.
func startAgain(status int, why views.ErrorKind) *web.Problem {
	return invalidTicket(status).AsPage(views.ErrorText{Kind: why})
}

// alreadyDecided refuses the other answer.
func (a authRequest) alreadyDecided() *web.Problem {
	return web.NewProblem(http.StatusBadRequest, "invalid_ticket",
		"This consent ticket was already used.").AsPage(a.withReturn(views.ErrorText{Kind: views.ErrorConsentDecided}))
}

// showAllowed answers Allow when its code was redeemed, or lives no more.
func (s *Server) showAllowed(w http.ResponseWriter, r *http.Request, a authRequest) {
	web.Note(r.Context(), slog.String("decision", "allowed before"))
	web.PageHeaders(w, web.Nowhere)
	s.site.Render(w, r, http.StatusOK, views.Error(views.ErrorProps{
		Page:      s.site.SignedInPage(r),
		ErrorText: a.withReturn(views.ErrorText{Kind: views.ErrorConsentAllowed, Client: a.client.Name}),
	}))
}

// withReturn adds a link to the client's own site. A private-use scheme has none: which
// program would open is not known (RFC 8252 §8.6).
func (a authRequest) withReturn(text views.ErrorText) views.ErrorText {
	u, err := url.Parse(a.redirectURI)
	if err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http") {
		text.ReturnTo, text.ReturnURL = u.Host, u.Scheme+"://"+u.Host
	}
	return text
}

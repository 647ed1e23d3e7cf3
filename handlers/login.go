package handlers

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/views"
)

// loginScreen is what varies between renderings of the sign-in screen.
type loginScreen struct {
	request  *authRequest // nil for a sign-in to tollhouse itself
	query    string
	to       string // name of the next page, as sent; without a request
	username string
	refusal  string
	notice   string
	status   int // 0 for 200
}

// The names of pages to the sign-in screen.
const (
	toAccount = "account"
	toDesk    = "desk"
)

// pageBehind returns the page after a sign-in for no client. It maps names, not
// addresses, so that no link can send a signed-in person elsewhere.
func (s *Server) pageBehind(r *http.Request, to string, u store.User) string {
	switch {
	case to == toAccount:
		return "/account"
	case to == toDesk && u.Operator && s.deskAdmits(r):
		return deskPath
	}
	return "/"
}

// loginForm is GET /login, without a client.
func (s *Server) loginForm(w http.ResponseWriter, r *http.Request) error {
	to := r.URL.Query().Get("to")
	session, err := s.session(r)
	if err != nil {
		return err
	}
	if session != nil {
		s.redirectHere(w, s.pageBehind(r, to, session.User))
		return nil
	}
	return s.showLogin(w, r, loginScreen{to: to, notice: s.takeDone(w, r)})
}

func (s *Server) showLogin(w http.ResponseWriter, r *http.Request, screen loginScreen) error {
	props := views.LoginProps{
		Page: s.page(r), Action: "/login", Query: screen.query, FormToken: s.formToken(w, r, loginForm),
		Username: screen.username, Error: screen.refusal, Notice: screen.notice, CodeURL: newPasswordPath,
	}
	if screen.to == toAccount || screen.to == toDesk {
		props.To = screen.to
	}
	formTo := ""
	if screen.request != nil {
		props.ClientName, formTo = screen.request.client.Name, screen.request.redirectURI
	}
	if s.demo != nil {
		props.DemoUsername, props.DemoPassword = s.demo.Username, s.demo.Password
	}
	pageHeaders(w, true, formTo)
	s.render(w, r, cmp.Or(screen.status, http.StatusOK), views.Login(props))
	return nil
}

// login is POST /login. The authorization request's query comes back in the form and
// is checked again.
func (s *Server) login(w http.ResponseWriter, r *http.Request) error {
	p, err := parseBody(w, r)
	if err != nil {
		return err
	}
	if refused := p.refuseRepeated("query", "to", "form_token", "username", "password"); refused != nil {
		return refused
	}
	screen := loginScreen{query: p.value("query"), to: p.value("to"), username: p.value("username")}
	if screen.query != "" {
		a, refusal, err := s.parseAuthRequest(r.Context(), screen.query)
		if err != nil {
			return err
		}
		if refusal != nil {
			return refusal.asPage(badRequestPage("The sign-in request is no longer valid."))
		}
		screen.request = &a
	}
	if !s.checkFormToken(r, loginForm, p.value("form_token")) {
		return s.staleLogin(w, r, screen)
	}
	try := attempt{name: screen.username, device: s.device(r, screen.username), source: factsFrom(r.Context()).source}
	user, err := s.authenticateUser(r.Context(), try, p.value("password"))
	var refused *problem
	if errors.As(err, &refused) && refused.status == http.StatusTooManyRequests {
		noteProblem(r.Context(), refused)
		w.Header().Set("Retry-After", refused.header.Get("Retry-After"))
		screen.status, screen.notice = refused.status, "Too many failed sign-ins. "+tryAgainIn(refused.header.Get("Retry-After"))
		return s.showLogin(w, r, screen)
	}
	if errors.Is(err, record.ErrMismatch) {
		note(r.Context(), slog.String("error", "login_refused"))
		screen.refusal = "That username and password do not match."
		return s.showLogin(w, r, screen)
	}
	if err != nil {
		return err
	}
	return s.beginSession(w, r, user, screen)
}

// beginSession gives the browser a new session id, against session fixation, and
// redirects it.
func (s *Server) beginSession(w http.ResponseWriter, r *http.Request, user store.User, screen loginScreen) error {
	_, err := s.signIn(w, r, user, "")
	if errors.Is(err, record.ErrDisabled) || errors.Is(err, record.ErrNotFound) {
		screen.refusal = "That username and password do not match."
		return s.showLogin(w, r, screen)
	}
	if err != nil {
		return err
	}
	if screen.query == "" {
		s.redirectHere(w, s.pageBehind(r, screen.to, user))
		return nil
	}
	s.redirectHere(w, "/oauth/v2/auth?"+screen.request.afterSignIn())
	return nil
}

// signIn starts a session and sets its cookie. Errors: store.ErrDisabled,
// store.ErrNotFound.
func (s *Server) signIn(w http.ResponseWriter, r *http.Request, user store.User, reason string) (*browserSession, error) {
	old, _ := s.sessionToken(r)
	token, session, err := s.store.CreateSession(r.Context(), user, old)
	if err != nil {
		return nil, err
	}
	note(r.Context(), slog.String("user_id", user.Subject()))
	s.store.Audit(store.AuditLine{What: store.AuditLogin, Reason: reason, By: by(r.Context()), UserID: user.Subject(), AccountID: user.Account})
	cookies := s.cookiesOf(r)
	cookies.set(w, cookies.sessionName, token.Reveal())
	s.setDevice(w, r, user, s.device(r, user.Username))
	cookies.clear(w, cookies.formName)
	return &browserSession{Session: session, token: token}, nil
}

// staleLogin handles a sign-in form that does not belong to this browser: forged, or
// sent again after a sign-in.
func (s *Server) staleLogin(w http.ResponseWriter, r *http.Request, screen loginScreen) error {
	session, err := s.session(r)
	if err != nil {
		return err
	}
	if session != nil && screen.request != nil {
		s.redirectHere(w, "/oauth/v2/auth?"+screen.query)
		return nil
	}
	if session != nil {
		s.redirectHere(w, s.pageBehind(r, screen.to, session.User))
		return nil
	}
	problem := newProblem(http.StatusForbidden, "stale_form", "The sign-in form does not belong to this browser.")
	return problem.asPage(pageText{
		title:   "This sign-in form is out of date",
		message: "It was opened in another browser, or your browser blocks cookies. You were not signed in.",
		next:    "Allow cookies for this site, then start again from the application.",
	})
}

// logout is POST /logout.
func (s *Server) logout(w http.ResponseWriter, r *http.Request) error {
	p, err := parseBody(w, r)
	if err != nil {
		return err
	}
	token, ok := s.sessionToken(r)
	if !ok {
		s.redirectHere(w, "/")
		return nil
	}
	if !secret.EqualText(p.value("form_token"), s.logoutToken(token)) {
		problem := newProblem(http.StatusForbidden, "stale_form", "The form belongs to another sign-in.")
		return problem.asPage(pageText{
			title: "You are still signed in", message: "The sign-out form belongs to another sign-in, so nothing was done.", next: "Go to the start page and sign out there.",
			toStart: true,
		})
	}
	if err := s.store.DeleteSession(r.Context(), token); err != nil {
		return err
	}
	cookies := s.cookiesOf(r)
	cookies.clear(w, cookies.sessionName)
	s.redirectHere(w, "/")
	return nil
}

func (s *Server) logoutToken(session secret.Token) string {
	return s.key.MAC(logoutForm, session.Reveal())
}

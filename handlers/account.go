package handlers

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"slices"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/views"
)

const (
	clientsShownMax = 200
	signInsShownMax = 50
)

// accountForm is the MAC label of the page's form tokens.
const accountForm = "account form"

func (s *Server) accountToken(session secret.Token) string {
	return s.key.MAC(accountForm, session.Reveal())
}

// accountScreen is what varies between renderings of the account page.
type accountScreen struct {
	notice   string
	password views.PasswordForm
	status   int // 0 for 200
}

// account is GET /account.
func (s *Server) account(w http.ResponseWriter, r *http.Request) error {
	session, err := s.session(r)
	if err != nil {
		return err
	}
	if session == nil {
		s.signInForAccount(w)
		return nil
	}
	return s.showAccount(w, r, session, accountScreen{notice: s.takeDone(w, r), password: views.PasswordForm{EndAll: true}})
}

func (s *Server) signInForAccount(w http.ResponseWriter) { s.redirectHere(w, "/login?to="+toAccount) }

func (s *Server) showAccount(w http.ResponseWriter, r *http.Request, session *browserSession, screen accountScreen) error {
	account, err := s.accountName(r.Context(), session.User.Account)
	if err != nil {
		return err
	}
	screen.password.NewHint = newPasswordHint
	props := views.AccountProps{
		Page: s.signedInPage(r), Username: session.User.Username, Account: account, Notice: screen.notice,
		SignOutURL: "/logout", SignOutToken: s.logoutToken(session.token), FormToken: s.accountToken(session.token),
		RevokeURL: "/account/revoke", SignOutOthersURL: "/account/sign-out-others", PasswordURL: "/account/password",
		Password: screen.password,
	}
	if props.Clients, props.ClientsNote, err = s.shownClients(r, session); err != nil {
		return err
	}
	if props.SignIns, props.SignInsNote, err = s.shownSignIns(r, session); err != nil {
		return err
	}
	pageHeaders(w, true, "")
	s.render(w, r, cmp.Or(screen.status, http.StatusOK), views.Account(props))
	return nil
}

// shownClients returns the clients with access, and a note if the list is cut off.
func (s *Server) shownClients(r *http.Request, session *browserSession) (shown []views.GrantedClient, note string, err error) {
	granted, whole, err := s.store.ListGranted(r.Context(), session.User)
	if err != nil {
		return nil, "", err
	}
	if !whole {
		note = "The list is too long to show completely. To revoke all access, change your password below."
	}
	if len(granted) > clientsShownMax {
		granted, note = granted[:clientsShownMax], "More applications are not shown. Revoke some of these to see the rest."
	}
	now := s.store.Now()
	for _, g := range granted {
		c := views.GrantedClient{ID: g.ClientID, Name: g.Name, Since: moment(g.Since, now), NoAccess: !g.IsLive}
		if !g.Remembered.IsZero() {
			c.UnaskedUntil = g.Remembered.Format("2 January 2006")
		}
		if !g.UsedAt.IsZero() {
			c.Used = moment(g.UsedAt, now)
		}
		for _, name := range g.Permissions {
			c.Permissions = append(c.Permissions, views.ScopeWords(name))
		}
		shown = append(shown, c)
	}
	return shown, note, nil
}

// shownSignIns returns this browser's sign-in first, then the others.
func (s *Server) shownSignIns(r *http.Request, session *browserSession) (shown []views.SignIn, note string, err error) {
	others, err := s.store.ListSessions(r.Context(), session.User)
	if err != nil {
		return nil, "", err
	}
	others = slices.DeleteFunc(others, func(sn store.Session) bool { return sn.Is(session.token) })
	if len(others) >= signInsShownMax {
		others, note = others[:signInsShownMax-1], "Older sign-ins are not shown."
	}
	now := s.store.Now()
	shown = append(shown, views.SignIn{Here: true, Since: moment(session.AuthenticatedAt, now), Seen: moment(now, now)})
	for _, sn := range others {
		shown = append(shown, views.SignIn{Since: moment(sn.AuthenticatedAt, now), Seen: moment(sn.SeenAt, now)})
	}
	return shown, note, nil
}

// revokeClient is POST /account/revoke. It looks only among this user's grants.
func (s *Server) revokeClient(w http.ResponseWriter, r *http.Request) error {
	session, p, err := s.readAccountForm(w, r, "client_id")
	if err != nil || session == nil {
		return err
	}
	if !p.has("client_id") {
		return invalidRequest("The parameter client_id is missing.").on("client_id")
	}
	if err := s.store.RevokeGranted(r.Context(), by(r.Context()), session.User, p.value("client_id")); err != nil {
		return err
	}
	s.done(w, r, doneRevoked)
	return nil
}

// signOutOthers is POST /account/sign-out-others.
func (s *Server) signOutOthers(w http.ResponseWriter, r *http.Request) error {
	session, _, err := s.readAccountForm(w, r)
	if err != nil || session == nil {
		return err
	}
	ended, err := s.store.DeleteOtherSessions(r.Context(), session.User, session.token)
	if err != nil {
		return err
	}
	if ended > 0 { // or a user could fill the audit record
		s.store.Audit(store.AuditLine{What: store.AuditRevoke, Reason: "signed out everywhere else", By: by(r.Context()),
			UserID: session.User.Subject(), AccountID: session.User.Account})
	}
	s.done(w, r, doneOthers)
	return nil
}

// readAccountForm reads a form of the account page and checks that it belongs to
// this sign-in. Without a sign-in it responds and returns no session.
func (s *Server) readAccountForm(w http.ResponseWriter, r *http.Request, fields ...string) (*browserSession, params, error) {
	p, err := parseBody(w, r)
	if err != nil {
		return nil, p, err
	}
	if refused := p.refuseRepeated(append(fields, "form_token")...); refused != nil {
		return nil, p, refused
	}
	session, err := s.session(r)
	if err != nil {
		return nil, p, err
	}
	if session == nil {
		s.signInForAccount(w)
		return nil, p, nil
	}
	note(r.Context(), slog.String("user_id", session.User.Subject()))
	if !secret.EqualText(p.value("form_token"), s.accountToken(session.token)) {
		problem := newProblem(http.StatusForbidden, "stale_form", "The form belongs to another sign-in.")
		return nil, p, problem.asPage(pageText{
			title: "This page is out of date", message: "It belongs to another sign-in, so nothing was changed.",
			next: "Open your account again.",
		})
	}
	return session, p, nil
}

// changePassword is POST /account/password.
func (s *Server) changePassword(w http.ResponseWriter, r *http.Request) error {
	session, p, err := s.readAccountForm(w, r, "current_password", "new_password", "repeat_password", "end_all")
	if err != nil || session == nil {
		return err
	}
	screen := accountScreen{password: judgeNewPassword(p)}
	if screen.password.Error != "" {
		return s.showAccount(w, r, session, screen)
	}
	// Somebody at an unlocked browser must not guess faster than at the
	// sign-in form.
	name := session.User.Username
	try := attempt{name: name, device: s.device(r, name), source: factsFrom(r.Context()).source}
	user, err := s.authenticateUser(r.Context(), try, p.value("current_password"))
	var refused *problem
	if errors.As(err, &refused) && refused.status == http.StatusTooManyRequests {
		noteProblem(r.Context(), refused)
		w.Header().Set("Retry-After", refused.header.Get("Retry-After"))
		screen.status, screen.password.Error = refused.status, "Your password was not changed: too many failed attempts. "+tryAgainIn(refused.header.Get("Retry-After"))
		return s.showAccount(w, r, session, screen)
	}
	if errors.Is(err, record.ErrMismatch) {
		note(r.Context(), slog.String("error", "password_refused"))
		screen.password.Error, screen.password.CurrentError = passwordNotChanged, "That is not your current password."
		return s.showAccount(w, r, session, screen)
	}
	if err != nil {
		return err
	}
	token, user, err := s.store.ChangePassword(r.Context(), store.PasswordChange{
		User: user, Session: session.token, New: p.value("new_password"), EndAll: screen.password.EndAll,
		By: by(r.Context()), Caller: try.caller(),
	})
	if errors.Is(err, record.ErrDisabled) { // disabled or changed elsewhere in the meantime
		s.signInForAccount(w)
		return nil
	}
	if err != nil {
		return err
	}
	cookies := s.cookiesOf(r)
	cookies.set(w, cookies.sessionName, token.Reveal())
	s.setDevice(w, r, user, try.device)
	if screen.password.EndAll {
		s.done(w, r, doneEnded)
		return nil
	}
	s.done(w, r, donePassword)
	return nil
}

package oauth

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"slices"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/webhook"
	"tollhouse/store/webhook/target"
	"tollhouse/views"
)

const (
	clientsShownMax = 200
	signInsShownMax = 50
)

// accountForm is the MAC label of the page's form tokens.
const accountForm = "account form"

const accountPath = "/account"

// accountScreen is what varies between renderings of the account page.
type accountScreen struct {
	done     views.Done
	stale    bool
	password views.PasswordForm
	status   int // 0 for 200
}

// account is GET /account.
func (s *Server) account(w http.ResponseWriter, r *http.Request) error {
	session, err := s.site.Session(r)
	if err != nil {
		return err
	}
	if session == nil {
		s.signInForAccount(w)
		return nil
	}
	return s.showAccount(w, r, session,
		accountScreen{done: s.site.TakeDone(w, r), password: views.PasswordForm{EndAll: true}})
}

func (s *Server) signInForAccount(w http.ResponseWriter) {
	s.site.RedirectHere(w, "/login?to="+toAccount)
}

func (s *Server) showAccount(w http.ResponseWriter, r *http.Request, session *web.BrowserSession,
	screen accountScreen) error {
	account, err := web.AccountName(r.Context(), s.site.Store, session.User.Account)
	if err != nil {
		return err
	}
	screen.password.SizeMin, screen.password.SizeMax = secret.PasswordSizeMin, secret.PasswordSizeMax
	props := views.AccountProps{
		Page: s.site.SignedInPage(r), Username: session.User.Username, Account: account, Done: screen.done,
		Stale: screen.stale, SignOutToken: s.site.SessionFormToken(web.LogoutForm, session.Token),
		FormToken: s.site.SessionFormToken(accountForm, session.Token),
		RevokeURL: "/account/revoke", WebhookURL: "/account/webhook-off",
		SignOutOthersURL: "/account/sign-out-others", PasswordURL: "/account/password",
		Password: screen.password,
	}
	if s.site.Store.SecondFactor() != store.FactorOff {
		props.FactorURL, props.Factors = factorPath, session.User.FactorNames()
	}
	if s.DeskFor != nil {
		props.DeskURL = s.DeskFor(r, session.User)
	}
	if err = s.addClients(r, session, &props); err != nil {
		return err
	}
	if props.Webhooks, err = s.shownWebhooks(r, session); err != nil {
		return err
	}
	if props.SignIns, props.MoreSignIns, err = s.shownSignIns(r, session); err != nil {
		return err
	}
	web.PageHeaders(w, web.ToUs)
	s.site.Render(w, r, cmp.Or(screen.status, http.StatusOK), views.Account(props))
	return nil
}

// addClients adds the clients with access.
func (s *Server) addClients(r *http.Request, session *web.BrowserSession, props *views.AccountProps) error {
	granted, whole, err := s.site.Store.ListGranted(r.Context(), session.User)
	if err != nil {
		return err
	}
	props.Uncounted = !whole
	if len(granted) > clientsShownMax {
		granted, props.MoreClients = granted[:clientsShownMax], true
	}
	now := s.site.Store.Now()
	for _, g := range granted {
		c := views.GrantedClient{ID: g.ClientID, Name: g.Name, Since: web.Moment(g.Since, now),
			NoAccess: !g.IsLive, UnaskedUntil: g.Remembered, Scopes: g.Permissions}
		if !g.UsedAt.IsZero() {
			c.Used = web.Moment(g.UsedAt, now)
		}
		props.Clients = append(props.Clients, c)
	}
	return nil
}

// shownWebhooks returns the endpoints that applications created with this user's
// authorizations and that events are sent to. Of the URL it shows the origin, as events do.
func (s *Server) shownWebhooks(r *http.Request, session *web.BrowserSession) (shown []views.AccountWebhook, err error) {
	list, err := s.site.Store.Webhooks.Owned(r.Context(), session.User.Account, session.User.Subject())
	if err != nil {
		return nil, err
	}
	now, names := s.site.Store.Now(), map[string]string{}
	for _, e := range list {
		if _, known := names[e.Client]; !known {
			c, err := s.site.Store.FindClient(r.Context(), e.Client)
			if err != nil && !errors.Is(err, record.ErrNotFound) {
				return nil, err
			}
			names[e.Client] = cmp.Or(c.Name, e.Client)
		}
		shown = append(shown, views.AccountWebhook{
			ID: e.ID, Address: target.Origin(e.URL), Description: e.Description,
			Client: names[e.Client], Since: web.Moment(e.CreatedAt, now),
		})
	}
	return shown, nil
}

// shownSignIns returns this browser's sign-in first, then the others.
func (s *Server) shownSignIns(r *http.Request,
	session *web.BrowserSession) (shown []views.SignIn, more bool, err error) {
	others, err := s.site.Store.ListSessions(r.Context(), session.User)
	if err != nil {
		return nil, false, err
	}
	others = slices.DeleteFunc(others, func(sn store.Session) bool { return sn.Is(session.Token) })
	if len(others) >= signInsShownMax {
		others, more = others[:signInsShownMax-1], true
	}
	now := s.site.Store.Now()
	shown = append(shown, views.SignIn{Here: true, Browser: session.Browser, Since: web.Moment(session.AuthenticatedAt, now),
		Seen: web.Moment(now, now)})
	for _, sn := range others {
		shown = append(shown, views.SignIn{Browser: sn.Browser, Since: web.Moment(sn.AuthenticatedAt, now), Seen: web.Moment(sn.SeenAt, now)})
	}
	return shown, more, nil
}

// revokeClient is POST /account/revoke. It looks only among this user's grants.
func (s *Server) revokeClient(w http.ResponseWriter, r *http.Request) error {
	session, p, err := s.readAccountForm(w, r, "client_id")
	if err != nil || session == nil {
		return err
	}
	if !p.Has("client_id") {
		return web.InvalidRequest("The parameter client_id is missing.").On("client_id")
	}
	err = s.site.Store.RevokeGranted(r.Context(), web.By(r.Context()), session.User, p.Value("client_id"))
	if err != nil {
		return err
	}
	s.site.DoneAt(w, r, views.DoneRevoked, accountPath)
	return nil
}

// turnOffWebhook is POST /account/webhook-off. It looks only among the endpoints of this
// user's authorizations.
func (s *Server) turnOffWebhook(w http.ResponseWriter, r *http.Request) error {
	session, p, err := s.readAccountForm(w, r, "webhook_id")
	if err != nil || session == nil {
		return err
	}
	if !p.Has("webhook_id") {
		return web.InvalidRequest("The parameter webhook_id is missing.").On("webhook_id")
	}
	u, maker := session.User, web.WebhooksBy(r.Context())
	maker.Account, maker.Owner, maker.Name = u.Account, webhook.Owner{User: u.Subject()}, u.Username
	_, err = s.site.Store.Webhooks.DisableOwn(r.Context(), maker, p.Value("webhook_id"))
	if err = record.GoneIsNil(err); err != nil {
		return err
	}
	s.site.DoneAt(w, r, views.DoneWebhookOff, accountPath)
	return nil
}

// signOutOthers is POST /account/sign-out-others.
func (s *Server) signOutOthers(w http.ResponseWriter, r *http.Request) error {
	session, _, err := s.readAccountForm(w, r)
	if err != nil || session == nil {
		return err
	}
	if _, err := s.site.Store.DeleteOtherSessions(r.Context(), session.User, session.Token); err != nil {
		return err
	}
	s.site.DoneAt(w, r, views.DoneOthers, accountPath)
	return nil
}

// readAccountForm reads a form of the account page and checks that it belongs to
// this sign-in. Without a sign-in, or if it belongs to another, it responds and returns no
// session.
func (s *Server) readAccountForm(w http.ResponseWriter, r *http.Request,
	fields ...string) (*web.BrowserSession, web.Params, error) {
	p, err := web.ParseBody(w, r)
	if err != nil {
		return nil, p, err
	}
	if refused := p.RefuseRepeated(append(fields, "form_token")...); refused != nil {
		return nil, p, refused
	}
	session, err := s.site.Session(r)
	if err != nil {
		return nil, p, err
	}
	if session == nil {
		s.signInForAccount(w)
		return nil, p, nil
	}
	web.Note(r.Context(), slog.String("user_id", session.User.Subject()))
	if !secret.EqualText(p.Value("form_token"), s.site.SessionFormToken(accountForm, session.Token)) {
		problem := web.NewProblem(http.StatusForbidden, "stale_form", "The form belongs to another sign-in.")
		if web.AsksForJSON(r) {
			return nil, p, problem
		}
		web.NoteProblem(r.Context(), problem)
		return nil, p, s.showAccount(w, r, session, accountScreen{
			stale: true, status: problem.Status, password: views.PasswordForm{EndAll: true},
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
	screen := accountScreen{password: checkPasswordChange(p)}
	if screen.password.Refused != 0 {
		return s.showAccount(w, r, session, screen)
	}
	// Somebody at an unlocked browser must not guess faster than at the
	// sign-in form.
	try := s.Confirmation(r, session)
	user, err := s.AuthenticateUser(r.Context(), try, p.Value("current_password"))
	var refused *web.Problem
	if errors.As(err, &refused) && refused.Status == http.StatusTooManyRequests {
		return s.showPasswordWaits(w, r, session, screen, refused, views.PasswordThrottled)
	}
	if errors.Is(err, record.ErrMismatch) {
		web.Note(r.Context(), slog.String("error", "password_refused"))
		screen.password.Refused, screen.password.Current = views.PasswordInvalid, views.PasswordWrong
		return s.showAccount(w, r, session, screen)
	}
	if err != nil {
		return err
	}
	token, user, err := s.site.Store.ChangePassword(r.Context(), store.PasswordChange{
		User: user, Session: session.Token, New: p.Value("new_password"), EndAll: screen.password.EndAll,
		By: web.By(r.Context()), Caller: try.Caller(),
	})
	if errors.Is(err, record.ErrDisabled) { // disabled or changed elsewhere in the meantime
		s.signInForAccount(w)
		return nil
	}
	if errors.Is(err, store.ErrTooOften) {
		return s.showPasswordWaits(w, r, session, screen, tooMany(store.PasswordEvery).Because(err), views.PasswordTooOften)
	}
	if err != nil {
		return err
	}
	cookies := s.site.CookiesOf(r)
	cookies.Set(w, cookies.SessionName, token.Reveal())
	setDevice(s.site, w, r, user, device(s.site, r, try.Name), session.Amr.HasFactor())
	if screen.password.EndAll {
		s.site.DoneAt(w, r, views.DoneEnded, accountPath)
		return nil
	}
	s.site.DoneAt(w, r, views.DonePassword, accountPath)
	return nil
}

// showPasswordWaits shows that the password was not changed, why, and when to try again.
func (s *Server) showPasswordWaits(w http.ResponseWriter, r *http.Request, session *web.BrowserSession,
	screen accountScreen, refused *web.Problem, why views.PasswordRefusal) error {
	wait := refused.Header.Get("Retry-After")
	web.NoteProblem(r.Context(), refused)
	w.Header().Set("Retry-After", wait)
	screen.status, screen.password.Refused, screen.password.RetryAfter = refused.Status, why, wait
	return s.showAccount(w, r, session, screen)
}

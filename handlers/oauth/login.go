package oauth

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"strings"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/views"
)

// loginScreen is what varies between renderings of the sign-in screen.
type loginScreen struct {
	request  *authRequest // nil for a sign-in to tollhouse itself
	to       string       // the next page, see [knownPage]; without a request
	username string
	refused  bool
	done     views.Done
	notice   views.LoginNotice
	wait     string // Retry-After
	status   int    // 0 for 200
}

// The names of pages to the sign-in screen. Besides them it takes the address of a page of the
// desk.
const (
	toAccount  = "account"
	toFactor   = "second-factor"
	toDesk     = "desk"
	addressMax = 1024 // bytes
)

// SignInFor is where the page for an unknown address offers to sign in. The link carries that
// address along, whether the desk has it or not, so that an operator whose session has ended
// gets back and nobody learns what exists.
func SignInFor(r *http.Request) string {
	address := r.URL.EscapedPath()
	if r.URL.RawQuery != "" {
		address += "?" + r.URL.RawQuery
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead || len(address) > addressMax {
		return SignInForDesk
	}
	return "/login?to=" + url.QueryEscape(address)
}

// pageBehind returns the page after a sign-in for no client: only our own, so that no link can
// send a signed-in person elsewhere. Who may not open the desk gets to the start page, whatever
// the address.
func (s *Server) pageBehind(r *http.Request, to string, u store.User) string {
	switch {
	case to == toAccount:
		return accountPath
	case to == toFactor:
		return factorPath
	case to == "" || s.DeskFor == nil:
		return "/"
	}
	desk := s.DeskFor(r, u)
	if desk != "" && to != toDesk {
		return to
	}
	return cmp.Or(desk, "/")
}

// knownPage returns the name of a page or the address of one of the desk, or "".
func knownPage(to string) string {
	if to == toAccount || to == toFactor || to == toDesk || isOfDesk(to) {
		return to
	}
	return ""
}

// isOfDesk reports whether an address is of the desk, in plain form: without a host, a fragment,
// dot segments, and characters that a browser would read in another way.
func isOfDesk(address string) bool {
	if len(address) > addressMax || strings.ContainsFunc(address, func(c rune) bool { return c <= ' ' || c > '~' || c == '\\' || c == '#' }) {
		return false
	}
	asked, _, _ := strings.Cut(address, "?")
	unescaped, err := url.PathUnescape(asked)
	return err == nil && (asked == web.DeskPath || strings.HasPrefix(asked, web.DeskPath+"/")) && path.Clean(unescaped) == unescaped
}

// suffix is what the addresses of a sign-in have behind the path, so that a tab that the
// browser restores, or a page on the way, still knows what the sign-in is for.
func (l loginScreen) suffix() string {
	switch {
	case l.request != nil:
		return "?" + l.request.kept()
	case l.to != "":
		return "?to=" + url.QueryEscape(l.to)
	}
	return ""
}

// signInURL is where a page on the way leads to.
func (l loginScreen) signInURL() string {
	if l.request != nil {
		return l.request.toSignIn()
	}
	return "/login" + l.suffix()
}

// suffixOf reads the suffix of a request's address. One that is not valid is ignored.
func (s *Server) suffixOf(r *http.Request) loginScreen {
	p, refused := web.ParseOAuthParams(r.URL.RawQuery)
	if refused != nil || !p.Has("client_id") {
		return loginScreen{to: knownPage(p.Value("to"))}
	}
	a, refusal, err := s.parseAuthRequest(r.Context(), r.URL.RawQuery)
	if err != nil || refusal != nil {
		return loginScreen{}
	}
	return loginScreen{request: &a}
}

// loginForm is GET /login.
func (s *Server) loginForm(w http.ResponseWriter, r *http.Request) error {
	screen := s.suffixOf(r)
	if screen.request != nil { // the browser restored a form that was refused
		return s.authorize(w, r)
	}
	session, err := s.site.Session(r)
	if err != nil {
		return err
	}
	if session != nil {
		s.site.RedirectHere(w, s.pageBehind(r, screen.to, session.User))
		return nil
	}
	screen.done = s.site.TakeDone(w, r)
	return s.showLogin(w, r, screen)
}

func (s *Server) showLogin(w http.ResponseWriter, r *http.Request, screen loginScreen) error {
	props := views.LoginProps{
		Page: s.site.Page(r), Action: "/login" + screen.suffix(), To: screen.to,
		FormToken: s.site.FormToken(w, r, web.LoginForm),
		Username:  screen.username, Refused: screen.refused, Done: screen.done,
		Notice: screen.notice, RetryAfter: screen.wait,
		CodeURL: NewPasswordPath + screen.suffix(),
	}
	if screen.request != nil {
		props.ClientName, props.Query = screen.request.client.Name, screen.request.kept()
	}
	if s.site.Demo != nil {
		props.DemoUsername, props.DemoPassword = s.site.Demo.Username, s.site.Demo.Password
	}
	web.PageHeaders(w, web.ToClients)
	s.site.Render(w, r, cmp.Or(screen.status, http.StatusOK), views.Login(props))
	return nil
}

// screenOf reads what a form of the sign-in is for; the request is validated again.
func (s *Server) screenOf(r *http.Request, p web.Params) (loginScreen, error) {
	query := p.Value("query")
	if query == "" {
		return loginScreen{to: knownPage(p.Value("to"))}, nil
	}
	a, refusal, err := s.parseAuthRequest(r.Context(), query)
	if err != nil {
		return loginScreen{}, err
	}
	if refusal != nil {
		return loginScreen{}, refusal.AsPage(views.ErrorText{Kind: views.ErrorLinkOver})
	}
	return loginScreen{request: &a}, nil
}

// login is POST /login. The authorization request's query is in the form and
// is checked again.
func (s *Server) login(w http.ResponseWriter, r *http.Request) error {
	p, err := web.ParseBody(w, r)
	if err != nil {
		return err
	}
	if refused := p.RefuseRepeated("query", "to", "form_token", "username", "password"); refused != nil {
		return refused
	}
	screen, err := s.screenOf(r, p)
	if err != nil {
		return err
	}
	screen.username = p.Value("username")
	if !s.site.CheckFormToken(r, web.LoginForm, p.Value("form_token")) {
		return s.staleLogin(w, r, screen)
	}
	try := s.attempt(r, screen.username)
	user, err := s.AuthenticateUser(r.Context(), try, p.Value("password"))
	var refused *web.Problem
	if errors.As(err, &refused) && refused.Status == http.StatusTooManyRequests {
		web.NoteProblem(r.Context(), refused)
		w.Header().Set("Retry-After", refused.Header.Get("Retry-After"))
		screen.status, screen.notice, screen.wait = refused.Status, views.LoginThrottled, refused.Header.Get("Retry-After")
		return s.showLogin(w, r, screen)
	}
	if errors.Is(err, record.ErrMismatch) {
		web.Note(r.Context(), slog.String("error", "login_refused"))
		screen.refused = true
		return s.showLogin(w, r, screen)
	}
	if err != nil {
		return err
	}
	if s.site.Store.NeedsFactor(user) {
		return s.beginSecondStep(w, r, user, screen)
	}
	return s.beginSession(w, r, user, screen)
}

// beginSession gives the browser a new session id, against session fixation, and
// redirects it.
func (s *Server) beginSession(w http.ResponseWriter, r *http.Request, user store.User, screen loginScreen) error {
	_, err := s.SignIn(w, r, user, "")
	if errors.Is(err, record.ErrDisabled) || errors.Is(err, record.ErrNotFound) {
		screen.refused = true
		return s.showLogin(w, r, screen)
	}
	if err != nil {
		return err
	}
	s.site.RedirectHere(w, s.nextPage(r, user, screen))
	return nil
}

// nextPage is where the browser goes after a sign-in.
func (s *Server) nextPage(r *http.Request, user store.User, screen loginScreen) string {
	if screen.request == nil {
		return s.pageBehind(r, screen.to, user)
	}
	return screen.request.afterSignIn()
}

// SignIn starts a session and sets its cookie. Errors: record.ErrDisabled,
// record.ErrNotFound.
func (s *Server) SignIn(w http.ResponseWriter, r *http.Request, user store.User,
	reason string) (*web.BrowserSession, error) {
	old, _ := s.site.SessionToken(r)
	by := web.By(r.Context())
	by.Browser = web.BrowserName(r.UserAgent())
	begin := s.site.Store.CreateSession
	if reason == reasonAutoLogin {
		begin = s.site.Store.CreateSessionUnasked
	}
	token, session, err := begin(r.Context(), by, user, old, reason)
	if err != nil {
		return nil, err
	}
	web.Note(r.Context(), slog.String("user_id", user.Subject()))
	cookies := s.site.CookiesOf(r)
	cookies.Set(w, cookies.SessionName, token.Reveal())
	setDevice(s.site, w, r, user, device(s.site, r, user.Username), session.Amr.HasFactor())
	return &web.BrowserSession{Session: session, Token: token}, nil
}

// staleLogin shows a sign-in form again that does not belong to this browser: its cookie is
// gone, or somebody forged it. What was typed is not checked.
func (s *Server) staleLogin(w http.ResponseWriter, r *http.Request, screen loginScreen) error {
	problem := web.NewProblem(http.StatusForbidden, "stale_form", "The sign-in form does not belong to this browser.")
	if web.AsksForJSON(r) {
		return problem
	}
	web.NoteProblem(r.Context(), problem)
	screen.status, screen.notice = problem.Status, views.LoginStale
	return s.showLogin(w, r, screen)
}

// logout is POST /logout.
func (s *Server) logout(w http.ResponseWriter, r *http.Request) error {
	p, err := web.ParseBody(w, r)
	if err != nil {
		return err
	}
	session, err := s.site.Session(r)
	if err != nil {
		return err
	}
	if session == nil { // the cookie may also be another instance's
		s.site.RedirectHere(w, "/")
		return nil
	}
	if !secret.EqualText(p.Value("form_token"), s.site.SessionFormToken(web.LogoutForm, session.Token)) {
		problem := web.NewProblem(http.StatusForbidden, "stale_form", "The form belongs to another sign-in.")
		return problem.AsPage(views.ErrorText{Kind: views.ErrorStillSignedIn})
	}
	if err := s.site.Store.DeleteSession(r.Context(), session.Token); err != nil {
		return err
	}
	cookies := s.site.CookiesOf(r)
	cookies.Clear(w, cookies.SessionName)
	s.site.RedirectHere(w, "/")
	return nil
}

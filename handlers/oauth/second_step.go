package oauth

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/views"
)

// SecondStepPath is the page that asks for the second factor.
const SecondStepPath = "/login/second-factor"

// secondFactor answers the pages of the second factor: the second step of a sign-in, and the page on
// which users set one up.
type secondFactor struct {
	server *Server
	site   *web.Site
}

func (f secondFactor) mount(r *web.Router) {
	r.Page("GET", SecondStepPath, f.secondStep)
	r.Page("POST", SecondStepPath, f.answer)
	r.Page("POST", SecondStepPath+"/start-over", f.startOver)
	r.Page("POST", SecondStepPath+"/totp/confirm", f.confirmFirstApp)
	f.mountAccount(r)
}

const (
	stepLabel = "second step"
	stepForm  = "second step form"
)

// beginSecondStep sends a user whose password was right on to the second step. Between the two there
// is no session: the step is in a sealed cookie of its own.
func (s *Server) beginSecondStep(w http.ResponseWriter, r *http.Request, user store.User, screen loginScreen) error {
	plain, err := json.Marshal(s.site.Store.NewSecondStep(user))
	if err != nil {
		panic("oauth: second step cannot be encoded: " + err.Error())
	}
	web.OutcomeOf(r.Context()).SignIn = web.SecondFactorAsked
	cookies := s.site.CookiesOf(r)
	cookies.Set(w, cookies.StepName, s.site.Key.Seal(stepLabel, plain))
	s.site.RedirectHere(w, SecondStepPath+screen.suffix())
	return nil
}

// asked is who is asked for the second factor: somebody who signs in, or somebody who is signed in.
type asked struct {
	user      store.User
	step      store.SecondStep
	session   *web.BrowserSession // nil in a sign-in
	formToken string
	factor    store.Factor
}

// whoIsAsked returns who is asked, or nil: then a sign-in has to begin. A step that is over does not
// fall back on a session.
func (f secondFactor) whoIsAsked(r *http.Request) (*asked, error) {
	ctx, a := r.Context(), asked{}
	c, err := r.Cookie(f.site.CookiesOf(r).StepName)
	if err == nil {
		if !f.openStep(c.Value, &a.step) {
			return nil, nil
		}
		a.user, err = f.site.Store.StepStands(ctx, a.step)
		if isStepOver(err) {
			return nil, nil
		}
		a.formToken = f.site.Key.MAC(stepForm, a.step.ID)
	} else if a.session, err = f.site.Session(r); a.session != nil {
		a.user, a.formToken = a.session.User, f.site.SessionFormToken(stepForm, a.session.Token)
	} else if err == nil {
		return nil, nil
	}
	if err == nil {
		web.Note(ctx, slog.String("user_id", a.user.Subject()))
		a.factor, err = f.site.Store.FindFactor(ctx, a.user)
	}
	return &a, err
}

func (f secondFactor) openStep(sealed string, step *store.SecondStep) bool {
	plain, ok := f.site.Key.Open(stepLabel, sealed)
	return ok && json.Unmarshal(plain, step) == nil && step.ID != ""
}

// isStepOver reports whether a sign-in has to begin again.
func isStepOver(err error) bool {
	return errors.Is(err, record.ErrReplayed) || errors.Is(err, record.ErrExpired) || errors.Is(err, record.ErrDisabled)
}

// stepScreen is what varies between renderings of the second step.
type stepScreen struct {
	next       loginScreen // the sign-in that it completes
	refused    views.FactorRefusal
	byRecovery bool   // a recovery code was refused
	byPasskey  bool   // a passkey was
	wait       string // Retry-After
	status     int    // 0 for 200
	setUp      *views.AppSetUp
}

// secondStep is GET /login/second-factor.
func (f secondFactor) secondStep(w http.ResponseWriter, r *http.Request) error {
	next := f.server.suffixOf(r)
	a, err := f.begin(w, r, next)
	if err != nil || a == nil {
		return err
	}
	return f.showStep(w, r, a, stepScreen{next: next})
}

// begin returns who is asked. Nobody is sent to sign in again, with the request kept, and who has
// nothing to prove goes on.
func (f secondFactor) begin(w http.ResponseWriter, r *http.Request, next loginScreen) (*asked, error) {
	if f.site.Store.SecondFactor() == store.FactorOff {
		return nil, web.NotFound(w, r)
	}
	a, err := f.whoIsAsked(r)
	switch {
	case err != nil:
		return nil, err
	case a == nil:
		f.startAgain(w, r, next)
		return nil, nil
	case a.session != nil && !a.user.HasFactor():
		f.goOn(w, r, a.user, next)
		return nil, nil
	}
	return a, nil
}

// startAgain sends the browser back to the sign-in. One that had begun took too long.
func (f secondFactor) startAgain(w http.ResponseWriter, r *http.Request, next loginScreen) {
	cookies := f.site.CookiesOf(r)
	if _, err := r.Cookie(cookies.StepName); err != nil && r.Method != http.MethodPost {
		f.site.RedirectHere(w, next.signInURL())
		return
	}
	cookies.Clear(w, cookies.StepName)
	f.site.DoneAt(w, r, views.DoneTooLong, next.signInURL())
}

func (f secondFactor) showStep(w http.ResponseWriter, r *http.Request, a *asked, screen stepScreen) error {
	if a.session == nil && !a.user.HasFactor() {
		return f.showFirstApp(w, r, a, screen)
	}
	props := views.SecondStepProps{
		Page: f.site.Page(r), Action: SecondStepPath + screen.next.suffix(), StartOverURL: SecondStepPath + "/start-over" + screen.next.suffix(),
		FormToken: a.formToken, To: screen.next.to, Username: a.user.Username, Confirms: a.session != nil,
		App: a.factor.App, KeyLost: a.factor.App && !a.factor.AppOpens, Recovery: a.factor.RecoveryLeft > 0,
		Refused: screen.refused, ByRecovery: screen.byRecovery, ByPasskey: screen.byPasskey, RetryAfter: screen.wait,
	}
	if screen.next.request != nil {
		props.ClientName, props.Query = screen.next.request.client.Name, screen.next.request.kept()
	}
	props.Passkey, props.NoPasskeys, props.PasskeysAt = f.askForPasskey(r, a)
	web.PageHeaders(w, web.ToClients)
	web.AllowPasskeys(w)
	f.site.Render(w, r, max(screen.status, http.StatusOK), views.SecondStep(props))
	return nil
}

// readStep reads a form of the second step. Without a sign-in to complete, or if the form belongs to
// another, it responds and returns nil.
func (f secondFactor) readStep(w http.ResponseWriter, r *http.Request, fields ...string) (*asked, web.Params, loginScreen, error) {
	next := loginScreen{}
	p, err := web.ParseBody(w, r)
	if err != nil {
		return nil, p, next, err
	}
	if refused := p.RefuseRepeated(append(fields, "query", "to", "form_token")...); refused != nil {
		return nil, p, next, refused
	}
	if next, err = f.server.screenOf(r, p); err != nil {
		return nil, p, next, err
	}
	a, err := f.begin(w, r, next)
	if err != nil || a == nil {
		return nil, p, next, err
	}
	if !secret.EqualText(p.Value("form_token"), a.formToken) { // of another tab's sign-in
		problem := web.NewProblem(http.StatusForbidden, "stale_form", "The form belongs to another sign-in.")
		if web.AsksForJSON(r) {
			return nil, p, next, problem
		}
		web.NoteProblem(r.Context(), problem)
		return nil, p, next, f.showStep(w, r, a, stepScreen{next: next, refused: views.FactorStale, status: problem.Status})
	}
	return a, p, next, nil
}

// answer is POST /login/second-factor.
func (f secondFactor) answer(w http.ResponseWriter, r *http.Request) error {
	a, p, next, err := f.readStep(w, r, "code", "recovery_code", "setup", "credential")
	if err != nil || a == nil {
		return err
	}
	screen := stepScreen{next: next, byRecovery: p.Has("recovery_code"), byPasskey: p.Has("credential")}
	_, err = f.prove(w, r, a, f.proofOf(r, a, p), "")
	switch refused, isProblem := errors.AsType[*web.Problem](err); {
	case errors.Is(err, record.ErrMismatch):
		screen.refused = views.FactorWrong
		return f.showStep(w, r, a, screen)
	case isProblem && refused.Status == http.StatusTooManyRequests:
		web.NoteProblem(r.Context(), refused)
		wait := refused.Header.Get("Retry-After")
		w.Header().Set("Retry-After", wait)
		screen.refused, screen.wait, screen.status = views.FactorThrottled, wait, refused.Status
		return f.showStep(w, r, a, screen)
	case isStepOver(err):
		f.startAgain(w, r, next)
		return nil
	case err != nil:
		return err
	}
	f.goOn(w, r, a.user, next)
	return nil
}

// proofOf reads the answer of a form.
func (f secondFactor) proofOf(r *http.Request, a *asked, p web.Params) store.FactorProof {
	if p.Has("credential") {
		return store.FactorProof{Passkey: f.usedPasskey(r, a, p)}
	}
	return store.FactorProof{Code: strings.ReplaceAll(p.Value("code"), " ", ""), Recovery: p.Value("recovery_code")}
}

// prove judges an answer and, if it is right, gives the browser a session under a new id. Errors:
// those of [store.Store.UseFactor]; a problem with status 429.
func (f secondFactor) prove(w http.ResponseWriter, r *http.Request, a *asked, proof store.FactorProof, reason string) (*web.BrowserSession, error) {
	use := f.use(r, a)
	use.Proof, use.Reason, use.Confirms = proof, reason, reason == ReasonAtDesk
	token, session, err := f.site.Store.UseFactor(r.Context(), use)
	if err != nil {
		return nil, f.factorRefused(r.Context(), a.user, proof, err)
	}
	if a.session == nil {
		web.OutcomeOf(r.Context()).SignIn = web.SignInRight
	}
	f.signedIn(w, r, session.User, token)
	return &web.BrowserSession{Session: session, Token: token}, nil
}

// ConfirmSecondFactor proves the second factor of an operator whose password was right again, and
// gives the browser a session under a new id. Errors: record.ErrMismatch; a problem with status 429;
// record.ErrDisabled if the sign-in is over.
func (s *Server) ConfirmSecondFactor(w http.ResponseWriter, r *http.Request, session *web.BrowserSession, p web.Params) (*web.BrowserSession, error) {
	f := secondFactor{s, s.site}
	a, err := f.askedOf(r, session)
	if err != nil {
		return nil, err
	}
	return f.prove(w, r, a, f.proofOf(r, a, p), ReasonAtDesk)
}

// AskForPasskey returns what the desk asks the browser for, when it asks an operator for the second
// factor; without options for nothing. The form sends setup and credential to ConfirmSecondFactor.
func (s *Server) AskForPasskey(r *http.Request, session *web.BrowserSession) (views.PasskeyAsk, error) {
	f := secondFactor{s, s.site}
	a, err := f.askedOf(r, session)
	if err != nil {
		return views.PasskeyAsk{}, err
	}
	ask, _, _ := f.askForPasskey(r, a)
	return ask, nil
}

// askedOf is somebody who is signed in and asked for the second factor at the desk.
func (f secondFactor) askedOf(r *http.Request, session *web.BrowserSession) (*asked, error) {
	factor, err := f.site.Store.FindFactor(r.Context(), session.User)
	return &asked{user: session.User, session: session, factor: factor}, err
}

// use says who answers, from which browser.
func (f secondFactor) use(r *http.Request, a *asked) store.FactorUse {
	use := store.FactorUse{Step: a.step, Device: factorDevice(f.site, r, a.user.Username), Uncounted: f.server.throttle.Off, By: web.By(r.Context())}
	use.By.Browser = web.BrowserName(r.UserAgent())
	if a.session != nil {
		use.Session, use.Device = a.session.Token, cmp.Or(use.Device, f.server.sessionDevice(a.session))
	} else {
		use.Old, _ = f.site.SessionToken(r)
	}
	return use
}

// signedIn sets the cookies of a sign-in that is whole.
func (f secondFactor) signedIn(w http.ResponseWriter, r *http.Request, user store.User, token secret.Token) {
	cookies := f.site.CookiesOf(r)
	cookies.Set(w, cookies.SessionName, token.Reveal())
	cookies.Clear(w, cookies.StepName)
	setDevice(f.site, w, r, user, device(f.site, r, user.Username), user.HasFactor()) // which was proved there
}

// factorRefused counts and records a refused second factor, and returns the refusal.
func (f secondFactor) factorRefused(ctx context.Context, u store.User, proof store.FactorProof, err error) error {
	line := store.AuditLine{What: store.AuditThrottle, Reason: "too_many_failures", UserID: u.Subject()}
	if early, is := errors.AsType[*store.EarlyFactor](err); is {
		web.OutcomeOf(ctx).Throttled, web.OutcomeOf(ctx).SignIn = true, web.SecondFactorThrottled
		f.server.auditRefusal(ctx, line)
		return tooMany(early.Wait).Because(err)
	}
	refused, is := errors.AsType[*store.RefusedFactor](err)
	if !is {
		return err
	}
	web.Note(ctx, slog.String("error", "second_factor_refused"))
	web.OutcomeOf(ctx).SignIn = web.WrongSecondFactor
	// A code waits by its own count. What nobody can guess is counted for its source alone.
	if !proof.IsCode() {
		if wait := f.server.throttle.Failed(web.FactsFrom(ctx).Source); wait > 0 {
			web.OutcomeOf(ctx).Throttled, web.OutcomeOf(ctx).SignIn = true, web.SecondFactorThrottled
			f.server.auditRefusal(ctx, line)
			return tooMany(wait).Because(err)
		}
	}
	line.What, line.Reason = store.AuditLoginRefused, refused.Reason
	f.server.auditRefusal(ctx, line)
	return err
}

// goOn sends the browser where the sign-in was for.
func (f secondFactor) goOn(w http.ResponseWriter, r *http.Request, user store.User, next loginScreen) {
	f.site.RedirectHere(w, f.server.nextPage(r, user, next))
}

// startOver is POST /login/second-factor/start-over.
func (f secondFactor) startOver(w http.ResponseWriter, r *http.Request) error {
	a, _, next, err := f.readStep(w, r)
	if err != nil || a == nil {
		return err
	}
	if err := f.site.Store.EndSecondStep(r.Context(), a.step); err != nil {
		return err
	}
	cookies := f.site.CookiesOf(r)
	cookies.Clear(w, cookies.StepName)
	f.site.RedirectHere(w, next.signInURL())
	return nil
}

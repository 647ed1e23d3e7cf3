package oauth

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/views"
)

// factorPath is the page on which users set up their second factor.
const factorPath = accountPath + "/second-factor"

// factorFresh is how old a proof of the second factor may be for a change of it: a browser that was
// left open can neither remove nor replace a factor.
const factorFresh = 15 * time.Minute

func (f secondFactor) mountAccount(r *web.Router) {
	r.Page("GET", factorPath, f.page)
	r.Page("POST", factorPath+"/totp", f.beginApp)
	r.Page("POST", factorPath+"/totp/confirm", f.setApp)
	r.Page("POST", factorPath+"/totp/remove", f.removeApp)
	r.Page("POST", factorPath+"/passkey", f.beginPasskey)
	r.Page("POST", factorPath+"/passkey/confirm", f.addPasskey)
	r.Page("POST", factorPath+"/passkey/remove", f.removePasskey)
	r.Page("POST", factorPath+"/recovery-codes", f.newRecoveryCodes)
}

// factorScreen is what varies between renderings of the page.
type factorScreen struct {
	done    views.Done
	do      string // of the form that was refused
	refused views.PasswordRefusal
	current views.PasswordFault
	wait    string // Retry-After
	status  int    // 0 for 200
	setUp   *views.AppSetUp

	passkey   *views.NewPasskey
	name      string // of the next passkey
	nameWrong bool
}

// page is GET /account/second-factor.
func (f secondFactor) page(w http.ResponseWriter, r *http.Request) error {
	a, err := f.signedInUser(w, r)
	if err != nil || a == nil {
		return err
	}
	return f.show(w, r, a, factorScreen{done: f.site.TakeDone(w, r)})
}

// signedInUser returns who is signed in. Without a sign-in it responds and returns nil.
func (f secondFactor) signedInUser(w http.ResponseWriter, r *http.Request) (*asked, error) {
	if f.site.Store.SecondFactor() == store.FactorOff {
		return nil, web.NotFound(w, r)
	}
	session, err := f.site.Session(r)
	if err != nil {
		return nil, err
	}
	if session == nil {
		f.site.RedirectHere(w, "/login?to="+toFactor)
		return nil, nil
	}
	a := &asked{user: session.User, session: session, formToken: f.site.SessionFormToken(accountForm, session.Token)}
	a.factor, err = f.site.Store.FindFactor(r.Context(), a.user)
	return a, err
}

func (f secondFactor) show(w http.ResponseWriter, r *http.Request, a *asked, screen factorScreen) error {
	props := views.FactorProps{
		Page: f.site.SignedInPage(r), Path: factorPath, Username: a.user.Username, Done: screen.done,
		SignOutToken: f.site.SessionFormToken(web.LogoutForm, a.session.Token), FormToken: a.formToken,
		App: a.factor.App, RecoveryLeft: a.factor.RecoveryLeft, RecoveryOf: store.RecoveryCodes, Factors: a.user.FactorNames(),
		Do: screen.do, Refused: screen.refused, Current: screen.current, RetryAfter: screen.wait, SetUp: screen.setUp,
	}
	if f.server.DeskFor != nil {
		props.DeskURL = f.server.DeskFor(r, a.user)
	}
	props.Passkeys = f.passkeysOf(r, a, screen)
	web.PageHeaders(w, web.ToUs)
	web.AllowPasskeys(w)
	f.site.Render(w, r, max(screen.status, http.StatusOK), views.SecondFactor(props))
	return nil
}

// read reads a form of the page, and checks that it belongs to this sign-in, and that the second
// factor was proved lately. Else it responds and returns nil.
func (f secondFactor) read(w http.ResponseWriter, r *http.Request, fields ...string) (*asked, web.Params, error) {
	p, err := web.ParseBody(w, r)
	if err != nil {
		return nil, p, err
	}
	if refused := p.RefuseRepeated(append(fields, "form_token")...); refused != nil {
		return nil, p, refused
	}
	a, err := f.signedInUser(w, r)
	if err != nil || a == nil {
		return nil, p, err
	}
	if !secret.EqualText(p.Value("form_token"), a.formToken) {
		return nil, p, staleSetUp()
	}
	if a.user.HasFactor() && f.site.Store.Now().Sub(a.session.FactorAt) > factorFresh {
		cookies := f.site.CookiesOf(r)
		cookies.Clear(w, cookies.StepName) // of a sign-in that was left, which would be asked for first
		f.site.RedirectHere(w, SecondStepPath+"?to="+url.QueryEscape(toFactor))
		return nil, p, nil
	}
	return a, p, nil
}

// readWithPassword is read for a form that the password is needed for. It is judged as that of a new
// password is.
func (f secondFactor) readWithPassword(w http.ResponseWriter, r *http.Request, do string, fields ...string) (*asked, web.Params, error) {
	a, p, err := f.read(w, r, append(fields, "current_password")...)
	if err != nil || a == nil {
		return nil, p, err
	}
	screen := factorScreen{do: do}
	if p.Value("current_password") == "" {
		screen.refused, screen.current = views.PasswordInvalid, views.PasswordMissing
		return nil, p, f.show(w, r, a, screen)
	}
	user, err := f.server.AuthenticateUser(r.Context(), f.server.Confirmation(r, a.session), p.Value("current_password"))
	refused, isProblem := errors.AsType[*web.Problem](err)
	switch {
	case isProblem && refused.Status == http.StatusTooManyRequests:
		web.NoteProblem(r.Context(), refused)
		screen.wait, screen.status, screen.refused = refused.Header.Get("Retry-After"), refused.Status, views.PasswordThrottled
		w.Header().Set("Retry-After", screen.wait)
		return nil, p, f.show(w, r, a, screen)
	case errors.Is(err, record.ErrMismatch):
		screen.refused, screen.current = views.PasswordInvalid, views.PasswordWrong
		return nil, p, f.show(w, r, a, screen)
	case err == nil && user.ID != a.user.ID: // renamed in the meantime
		return nil, p, staleSetUp()
	}
	return a, p, err
}

// beginApp is POST /account/second-factor/totp.
func (f secondFactor) beginApp(w http.ResponseWriter, r *http.Request) error {
	a, _, err := f.readWithPassword(w, r, "begin-totp")
	if err != nil || a == nil {
		return err
	}
	return f.show(w, r, a, factorScreen{setUp: f.newSetUp(r, a)})
}

// setApp is POST /account/second-factor/totp/confirm.
func (f secondFactor) setApp(w http.ResponseWriter, r *http.Request) error {
	a, p, err := f.read(w, r, "setup", "code", "end_all")
	if err != nil || a == nil {
		return err
	}
	changed, again, err := f.confirmApp(r, a, p)
	if again != nil {
		return f.show(w, r, a, factorScreen{setUp: again})
	}
	return f.changed(w, r, changed, err, "")
}

// removeApp is POST /account/second-factor/totp/remove.
func (f secondFactor) removeApp(w http.ResponseWriter, r *http.Request) error {
	a, p, err := f.readWithPassword(w, r, "remove-totp")
	if err != nil || a == nil {
		return err
	}
	changed, err := f.site.Store.RemoveApp(r.Context(), f.change(r, a, p))
	return f.changed(w, r, changed, err, views.DoneFactorRemoved)
}

// newRecoveryCodes is POST /account/second-factor/recovery-codes.
func (f secondFactor) newRecoveryCodes(w http.ResponseWriter, r *http.Request) error {
	a, p, err := f.readWithPassword(w, r, "new-recovery-codes")
	if err != nil || a == nil {
		return err
	}
	changed, err := f.site.Store.NewRecoveryCodes(r.Context(), f.change(r, a, p))
	return f.changed(w, r, changed, err, "")
}

// changed answers a form that changed the second factor: this browser goes on under a new session id.
// Recovery codes are shown once, on this page; without done it says what else was set up.
func (f secondFactor) changed(w http.ResponseWriter, r *http.Request, changed store.FactorChanged, err error, done views.Done) error {
	switch {
	case errors.Is(err, record.ErrReplayed), errors.Is(err, record.ErrNotFound):
		return staleSetUp().Because(err)
	case errors.Is(err, record.ErrDisabled):
		f.site.RedirectHere(w, "/login?to="+toFactor)
		return nil
	case errors.Is(err, store.ErrFactorRequired):
		return web.NewProblem(http.StatusConflict, "factor_required",
			"This server requires a second factor, and this is your last one. Set up another one first, or replace this one.").Because(err)
	case err != nil:
		return err
	}
	f.signedIn(w, r, changed.User, changed.Session)
	if done != "" {
		f.site.DoneAt(w, r, done, factorPath)
		return nil
	}
	page := f.site.SignedInPage(r)
	web.PageHeaders(w, web.ToUs)
	f.site.Render(w, r, http.StatusOK, views.RecoveryCodes(views.RecoveryCodesProps{Page: page, Codes: revealed(changed.RecoveryCodes), NextURL: factorPath}))
	return nil
}

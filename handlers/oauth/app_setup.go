package oauth

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"rsc.io/qr"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/secret"
	"tollhouse/views"
)

// appSetUp is a secret that was shown and not confirmed yet. Nothing of it is stored: it is sealed in
// the form, for one user, one sign-in and the second factor as it was.
type appSetUp struct {
	User     string `json:"user"`
	Holder   string `json:"holder"` // the sign-in, see holder
	Revision uint64 `json:"revision"`
	Secret   string `json:"secret"`
	Millis   int64  `json:"at"`
}

const (
	setUpLabel = "app set-up"
	setUpLasts = 15 * time.Minute
	// driftSteps is how far off a clock may be for the page to say so: ten minutes. Only the page
	// with the secret does; elsewhere each further step would be one more code to guess.
	driftSteps = uint64(10 * time.Minute / secret.AppPeriod)
)

// holder identifies the sign-in that a set-up belongs to, without revealing it.
func (a *asked) holder(key secret.Key) string {
	if a.session != nil {
		return key.MAC(setUpLabel, "session", a.session.Token.Reveal())
	}
	return key.MAC(setUpLabel, "step", a.step.ID)
}

// newSetUp returns a new secret for the user, as the page shows it.
func (f secondFactor) newSetUp(r *http.Request, a *asked) *views.AppSetUp {
	app := secret.NewAppSecret(nil)
	plain, err := json.Marshal(appSetUp{User: a.user.Subject(), Holder: a.holder(f.site.Key), Revision: a.user.FactorRevision(),
		Secret: app.Reveal(), Millis: f.site.Store.Now().UnixMilli()})
	if err != nil {
		panic("oauth: set-up cannot be encoded: " + err.Error())
	}
	return f.shownSetUp(r, a, app, f.site.Key.Seal(setUpLabel, plain))
}

func (f secondFactor) shownSetUp(r *http.Request, a *asked, app secret.AppSecret, sealed string) *views.AppSetUp {
	uri := appURI(f.site.Page(r).InstanceName(), a.user.Username, app)
	return &views.AppSetUp{Secret: inFours(app.Reveal()), URI: uri, QR: qrOf(uri), SetUp: sealed, EndAll: true}
}

// appURI is what an app reads: otpauth://totp/ISSUER:USER, with a colon in either as %3A.
func appURI(issuer, user string, app secret.AppSecret) string {
	issuer, user = escaped(issuer), escaped(user)
	return "otpauth://totp/" + issuer + ":" + user + "?secret=" + app.Reveal() + "&issuer=" + issuer + "&algorithm=SHA1&digits=6&period=30"
}

func escaped(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

func inFours(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i += 4 {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(text[i:min(i+4, len(text))])
	}
	return b.String()
}

// qrOf draws a text as one path of squares, with the quiet zone of ISO/IEC 18004 §9.1 around it.
func qrOf(text string) views.QR {
	const quiet = 4
	code, err := qr.Encode(text, qr.M)
	if err != nil {
		return views.QR{} // too long for a code: the key is there to be typed
	}
	var path strings.Builder
	for y := range code.Size {
		for x := range code.Size {
			if code.Black(x, y) {
				fmt.Fprintf(&path, "M%d %dh1v1h-1z", x+quiet, y+quiet)
			}
		}
	}
	return views.QR{Path: path.String(), Size: code.Size + 2*quiet}
}

// openSetUp returns the secret of a form, if it belongs to this user, this sign-in and the second
// factor as it is, and is not too old.
func (f secondFactor) openSetUp(a *asked, sealed string) (secret.AppSecret, bool) {
	plain, ok := f.site.Key.Open(setUpLabel, sealed)
	var s appSetUp
	if !ok || json.Unmarshal(plain, &s) != nil || s.User != a.user.Subject() ||
		!secret.EqualText(s.Holder, a.holder(f.site.Key)) || s.Revision != a.user.FactorRevision() {
		return secret.AppSecret{}, false
	}
	if age := f.site.Store.Now().Sub(time.UnixMilli(s.Millis)); age < 0 || age > setUpLasts {
		return secret.AppSecret{}, false
	}
	return secret.ParseAppSecret(s.Secret)
}

// confirmApp judges the code of a set-up. If it is not right, the set-up is to be shown again, with
// what is wrong. Errors: those of [store.Store.SetApp], a problem for a form that is out of date.
func (f secondFactor) confirmApp(r *http.Request, a *asked, p web.Params) (changed store.FactorChanged, again *views.AppSetUp, err error) {
	app, ok := f.openSetUp(a, p.Value("setup"))
	if !ok {
		return changed, nil, staleSetUp()
	}
	code := strings.ReplaceAll(p.Value("code"), " ", "")
	now := secret.AppStep(f.site.Store.Now())
	step, found := app.FindStep(code, now, driftSteps)
	if !found || max(step, now)-min(step, now) > 1 {
		again = f.shownSetUp(r, a, app, p.Value("setup"))
		again.EndAll, again.Wrong = p.Has("end_all"), true
		if found {
			again.Drift = time.Duration(int64(now)-int64(step)) * secret.AppPeriod
		}
		return changed, again, nil
	}
	changed, err = f.site.Store.SetApp(r.Context(), f.change(r, a, p), app, step)
	return changed, nil, err
}

// change says what a form changes, and for whom.
func (f secondFactor) change(r *http.Request, a *asked, p web.Params) store.FactorChange {
	c := store.FactorChange{Step: a.step, User: a.user, Revision: a.user.FactorRevision(), EndAll: p.Has("end_all"), By: web.By(r.Context())}
	c.By.Browser = web.BrowserName(r.UserAgent())
	if a.session != nil {
		c.Session = a.session.Token
	} else {
		c.Old, _ = f.site.SessionToken(r)
	}
	return c
}

func staleSetUp() *web.Problem {
	return web.NewProblem(http.StatusForbidden, "stale_form", "The form is out of date, or belongs to another sign-in. Nothing was changed.")
}

// showFirstApp asks a user who must have a second factor to set one up, within the sign-in.
func (f secondFactor) showFirstApp(w http.ResponseWriter, r *http.Request, a *asked, screen stepScreen) error {
	setUp := screen.setUp
	if setUp == nil {
		setUp = f.newSetUp(r, a)
	}
	props := views.FirstFactorProps{
		Page: f.site.Page(r), ConfirmURL: SecondStepPath + "/totp/confirm" + screen.next.suffix(), StartOverURL: SecondStepPath + "/start-over" + screen.next.suffix(),
		FormToken: a.formToken, To: screen.next.to, Username: a.user.Username, SetUp: *setUp, Stale: screen.refused == views.FactorStale,
	}
	if screen.next.request != nil {
		props.Query = screen.next.request.kept()
	}
	web.PageHeaders(w, web.ToClients)
	f.site.Render(w, r, max(screen.status, http.StatusOK), views.FirstFactor(props))
	return nil
}

// confirmFirstApp is POST /login/second-factor/totp/confirm: the second step of a user who had no
// second factor, and must have one.
func (f secondFactor) confirmFirstApp(w http.ResponseWriter, r *http.Request) error {
	a, p, next, err := f.readStep(w, r, "setup", "code", "end_all")
	if err != nil || a == nil {
		return err
	}
	if a.session != nil || a.user.HasFactor() { // it is set up now: the step asks for it
		f.site.RedirectHere(w, SecondStepPath+next.suffix())
		return nil
	}
	changed, again, err := f.confirmApp(r, a, p)
	switch {
	case isStepOver(err):
		f.startAgain(w, r, next)
		return nil
	case err != nil:
		return err
	case again != nil:
		return f.showFirstApp(w, r, a, stepScreen{next: next, setUp: again})
	}
	web.OutcomeOf(r.Context()).SignIn = web.SignInRight
	f.signedIn(w, r, changed.User, changed.Session)
	web.PageHeaders(w, web.ToClients)
	f.site.Render(w, r, http.StatusOK, views.RecoveryCodes(views.RecoveryCodesProps{
		Page: f.site.Page(r), Codes: revealed(changed.RecoveryCodes), NextURL: f.server.nextPage(r, changed.User, next),
	}))
	return nil
}

// revealed returns the text of recovery codes, for the one page that shows them.
func revealed(codes []secret.Token) (texts []string) {
	for _, code := range codes {
		texts = append(texts, code.Reveal())
	}
	return texts
}

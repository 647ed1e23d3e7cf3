package desk

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"

	"tollhouse/handlers/oauth"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/views"
)

// posted is a visit that sends a form.
type posted struct {
	*visit
	form web.Params
	cost cost // of what the form takes away
}

// deskForm answers a form that was read and checked.
type deskForm func(v *posted) error

// token is the hidden field form_token of the desk's forms.
func (v *visit) token() string { return v.s.site.SessionFormToken(formLabel, v.session.Token) }

// onceField is the hidden field once of a form that makes something.
func onceField() string { return secret.Text(nil) }

// errNoOperator ends a form whose sender has lost the role, or was signed out.
var errNoOperator = errors.New("no longer an operator")

// guard refuses a change by an operator who loses the role, or is signed out, while it waits for its
// turn.
func (v *visit) guard() store.Guard {
	return store.Guard{Live: v.s.site.Store.OperatorIn(v.session.Token, errNoOperator)}
}

// read reads and checks a form: it belongs to this session, it was not sent
// before, and the operator re-authenticated recently and is sure of what it takes away.
// Otherwise it answers, and proceed is false.
func (v *posted) read(priceOf price) (proceed bool, err error) {
	if v.form, err = web.ParseBody(v.w, v.r); err != nil {
		return false, err
	}
	// A body may arrive long after its header, and a password takes its time too.
	if v.aliveUnseen() != nil {
		return false, errNoOperator
	}
	operator := v.session.User
	web.NoteOperator(v.ctx, operator)
	once := v.form.Value("once")
	if done, repeated := v.s.once.find(operator, once); repeated {
		return false, v.showRepeated(done)
	}
	for name := range v.form.Repeated {
		if name != "grants" && name != "scopes" {
			return false, v.form.RefuseRepeated(name)
		}
	}
	if !secret.EqualText(v.form.Value("form_token"), v.token()) {
		return false, v.refuseStale()
	}
	isSure := priceOf == nil || v.form.Has(views.SureField)
	if !isSure || priceOf != nil && !v.isFresh() {
		// What is absent takes nothing away; the handler says so.
		if v.cost, err = priceOf(v); record.GoneIsNil(err) != nil {
			return false, err
		}
	}
	if !v.isFresh() {
		if proceed, err = v.confirm(); !proceed || err != nil {
			return false, err
		}
		if v.aliveUnseen() != nil {
			return false, errNoOperator
		}
	}
	if v.cost.price != nil && !isSure {
		v.askAgain(http.StatusOK, views.ConfirmProps{})
		return false, nil
	}
	v.s.changed.set(v.session.Token, v.now)
	return true, nil
}

// refuseStale refuses a form of another sign-in. One that certainly comes from our own
// page is repeated with the right token, so that nothing typed is lost.
func (v *posted) refuseStale() error {
	problem := web.NewProblem(http.StatusForbidden, "stale_form", "The form belongs to another sign-in.")
	if v.r.Header.Get("Sec-Fetch-Site") != "same-origin" || web.AsksForJSON(v.r) {
		return problem.AsPage(views.ErrorText{Kind: views.ErrorStaleForm})
	}
	web.NoteProblem(v.ctx, problem)
	v.askAgain(http.StatusForbidden, views.ConfirmProps{Stale: true})
	return nil
}

// isFresh reports whether the operator signed in, confirmed or made a change a short
// time ago.
func (v *posted) isFresh() bool {
	last := v.session.AuthenticatedAt
	if at, ok := v.s.changed.get(v.session.Token); ok && at.After(last) {
		last = at
	}
	age := v.now.Sub(last)
	return age >= 0 && age < v.s.config.Confirm
}

// confirm asks for the password, and for the second factor of who has one; or checks them and gives
// the session a new id.
func (v *posted) confirm() (confirmed bool, err error) {
	needsFactor := v.s.site.Store.NeedsFactor(v.session.User)
	if !v.form.Has("password") || needsFactor && !slices.ContainsFunc(factorFields, v.form.Has) {
		v.askAgain(http.StatusForbidden, views.ConfirmProps{NoFactor: v.form.Has("password")})
		return false, nil
	}
	try := v.s.oauth.Confirmation(v.r, v.session)
	try.AtDesk = true
	user, err := v.s.oauth.AuthenticateUser(v.ctx, try, v.form.Value("password"))
	var session *web.BrowserSession
	again := views.ConfirmProps{Wrong: true}
	switch {
	case err == nil && needsFactor:
		again = views.ConfirmProps{WrongFactor: true}
		session, err = v.s.oauth.ConfirmSecondFactor(v.w, v.r, v.session, v.factor())
	case err == nil:
		session, err = v.s.oauth.SignIn(v.w, v.r, user, oauth.ReasonAtDesk)
	}
	switch {
	case err == nil:
		v.session = session
		return true, nil
	case errors.Is(err, record.ErrMismatch):
		web.Note(v.ctx, slog.String("error", "password_refused"))
		v.askAgain(http.StatusForbidden, again)
		return false, nil
	case errors.Is(err, record.ErrDisabled): // the sign-in ended meanwhile
		return false, errNoOperator
	}
	refused := web.AsOperatorProblem(err)
	wait := refused.Header.Get("Retry-After")
	if wait == "" {
		return false, err
	}
	web.NoteProblem(v.ctx, refused)
	v.w.Header().Set("Retry-After", wait)
	v.askAgain(refused.Status, views.ConfirmProps{Refused: refused.Description})
	return false, nil
}

// factorFields are the fields of a second factor.
var factorFields = []string{"code", "recovery_code", "credential"}

// factor is the second factor in the form. A recovery code may be in the field of a code, since who
// has lost the phone confirms changes too.
func (v *posted) factor() web.Params {
	p := v.form
	if code := p.Value("code"); code != "" {
		if _, isRecovery := secret.ParseRecoveryCode(code); isRecovery {
			p.Values = maps.Clone(p.Values)
			p.Values["recovery_code"] = code
			delete(p.Values, "code")
		}
	}
	return p
}

// askAgain shows the page that asks for the password, or whether the operator is sure. It
// repeats the form, so that nothing typed is lost.
func (v *posted) askAgain(status int, p views.ConfirmProps) {
	p.Route, p.Action, p.Password, p.Within = v.route, v.r.URL.EscapedPath(), !v.isFresh(), v.s.config.Confirm
	p.Price, p.BackURL = v.cost.price, v.cost.back
	if p.Factor = p.Password && v.s.site.Store.NeedsFactor(v.session.User); p.Factor {
		ask, err := v.s.oauth.AskForPasskey(v.r, v.session)
		if err != nil {
			web.Note(v.ctx, slog.Any("passkey_err", err)) // a code does too
		}
		p.Passkey = ask
	}
	if p.Price != nil {
		p.Fields = append(p.Fields, views.Detail{Label: views.SureField, Value: "true"})
	}
	p.Fields = append(p.Fields, views.Detail{Label: "form_token", Value: v.token()})
	for _, name := range slices.Sorted(maps.Keys(v.form.Values)) {
		if name == "password" || name == "form_token" || name == "setup" || slices.Contains(factorFields, name) || name == views.SureField && p.Price != nil {
			continue
		}
		for _, value := range append([]string{v.form.Value(name)}, v.form.Further[name]...) {
			p.Fields = append(p.Fields, views.Detail{Label: name, Value: value})
		}
	}
	p.Frame = v.frame()
	v.draw(status, views.Confirm(p))
}

// showRepeated answers a form that was sent before.
func (v *posted) showRepeated(done onceDone) error {
	web.Note(v.ctx, slog.String("error", "repeated_form"))
	v.draw(http.StatusConflict, views.Repeated(views.RepeatedProps{Frame: v.frame(), Made: done.made, MadeURL: done.href}))
	return nil
}

// makeOnce runs a change that must not happen twice. A failed one may be tried again.
func (v *posted) makeOnce(do func() (done onceDone, err error)) error {
	once := v.form.Value("once")
	if once == "" {
		problem := web.NewProblem(http.StatusForbidden, "stale_form", "The form has no field `once`.")
		return problem.AsPage(views.ErrorText{Kind: views.ErrorBrokenForm})
	}
	if done, repeated := v.s.once.begin(v.session.User, once); repeated {
		return v.showRepeated(done)
	}
	// Another server of the store may have done it.
	err := v.s.site.Store.BeginForm(v.ctx, v.session.User, once, v.now.Add(onceKeptFor))
	if errors.Is(err, record.ErrExists) {
		return v.showRepeated(onceDone{})
	}
	var done onceDone
	if err == nil {
		done, err = do()
	}
	if err == nil && done != (onceDone{}) {
		v.s.once.End(v.session.User, once, done)
		return nil
	}
	v.s.once.forget(v.session.User, once)
	if failed := v.s.site.Store.ForgetForm(context.WithoutCancel(v.ctx), v.session.User, once); failed != nil {
		web.Note(v.ctx, slog.Any("forget_form_err", failed)) // the form was answered
	}
	return err
}

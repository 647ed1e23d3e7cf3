package handlers

import (
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"

	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/views"
)

// token is the hidden field form_token of the desk's forms.
func (v *visit) token() string { return v.key.MAC(deskForm, v.session.token.Reveal()) }

// onceField is the hidden field once of a form that makes something.
func (v *visit) onceField() string { return secret.Text(nil) }

// errNoOperator ends a form whose sender has lost the role, or was signed out.
var errNoOperator = errors.New("no longer an operator")

// readDeskForm reads and checks a form: it belongs to this session, it was not sent
// before, and the operator has proved to be there lately. Otherwise it answers, and
// proceed is false.
func (v *visit) readDeskForm() (proceed bool, err error) {
	if v.form, err = parseBody(v.w, v.r); err != nil {
		return false, err
	}
	// A body may arrive long after its header, and a password takes its time too.
	if v.aliveUnseen() != nil {
		return false, errNoOperator
	}
	operator := v.session.User
	noteOperator(v.ctx, operator)
	once := v.form.value("once")
	if done, repeated := v.desk.once.find(operator, once); repeated {
		return false, v.showRepeated(done)
	}
	for name := range v.form.repeated {
		if name != "grants" && name != "scopes" {
			return false, v.form.refuseRepeated(name)
		}
	}
	if !secret.EqualText(v.form.value("form_token"), v.token()) {
		return false, v.refuseStale()
	}
	if !v.isFresh() {
		if proceed, err = v.confirm(); !proceed || err != nil {
			return false, err
		}
		if v.aliveUnseen() != nil {
			return false, errNoOperator
		}
	}
	v.desk.changed.set(v.session.token, v.now)
	return true, nil
}

// refuseStale refuses a form of another sign-in. One that certainly comes from our own
// page is repeated with the right token, so that nothing typed is lost.
func (v *visit) refuseStale() error {
	problem := newProblem(http.StatusForbidden, "stale_form", "The form belongs to another sign-in.")
	if v.r.Header.Get("Sec-Fetch-Site") != "same-origin" || asksForJSON(v.r) {
		return problem.asPage(pageText{
			title: "This form is out of date", message: "It belongs to another sign-in, so nothing was changed.", next: "Open the page again.",
		})
	}
	noteProblem(v.ctx, problem)
	v.askAgain(http.StatusForbidden, "This form belongs to another sign-in. Nothing was changed.")
	return nil
}

// isFresh reports whether the operator signed in, confirmed or made a change a short
// time ago.
func (v *visit) isFresh() bool {
	last := v.session.AuthenticatedAt
	if at, ok := v.desk.changed.get(v.session.token); ok && at.After(last) {
		last = at
	}
	age := v.now.Sub(last)
	return age >= 0 && age < v.desk.Confirm
}

// confirm asks for the password, or checks it and gives the session a new id.
func (v *visit) confirm() (confirmed bool, err error) {
	if !v.form.has("password") {
		v.askAgain(http.StatusForbidden, "")
		return false, nil
	}
	name := v.session.User.Username
	try := attempt{name: name, device: v.device(v.r, name), source: factsFrom(v.ctx).source, atDesk: true}
	user, err := v.authenticateUser(v.ctx, try, v.form.value("password"))
	var session *browserSession
	if err == nil {
		session, err = v.signIn(v.w, v.r, user, reasonAtDesk)
	}
	switch {
	case err == nil:
		v.session = session
		return true, nil
	case errors.Is(err, record.ErrMismatch):
		note(v.ctx, slog.String("error", "password_refused"))
		v.askAgain(http.StatusForbidden, "That is not your password. Nothing was changed.")
		return false, nil
	}
	refused := asOperatorProblem(err)
	wait := refused.header.Get("Retry-After")
	if wait == "" {
		return false, err
	}
	noteProblem(v.ctx, refused)
	v.w.Header().Set("Retry-After", wait)
	v.askAgain(refused.status, refused.description)
	return false, nil
}

// askAgain shows the page that asks for the password. It repeats the form, so that
// nothing typed is lost.
func (v *visit) askAgain(status int, alert string) {
	form, title := views.ConfirmForm{Action: v.r.URL.EscapedPath()}, "This form is out of date"
	if !v.isFresh() {
		form.Username, title = v.session.User.Username, "Is it still you?"
	}
	form.Fields = append(form.Fields, views.Detail{Label: "form_token", Value: v.token()})
	for _, name := range slices.Sorted(maps.Keys(v.form.values)) {
		if name == "password" || name == "form_token" {
			continue
		}
		for _, value := range append([]string{v.form.value(name)}, v.form.further[name]...) {
			form.Fields = append(form.Fields, views.Detail{Label: name, Value: value})
		}
	}
	v.show(status, views.DeskProps{Name: "confirm", Title: title, Alert: alert}, views.Confirm(v.page(v.r), form))
}

// showRepeated answers a form that was sent before.
func (v *visit) showRepeated(done onceDone) error {
	note(v.ctx, slog.String("error", "repeated_form"))
	page := views.DeskProps{Name: "repeated", Title: "This was done already", Alert: "The form was sent before. It was not done again."}
	if done.href != "" {
		page.Links = []views.Link{{Label: done.label, Href: done.href}}
	}
	v.show(http.StatusConflict, page)
	return nil
}

// makeOnce runs a change that must not happen twice. A failed one may be tried again.
func (v *visit) makeOnce(do func() (done onceDone, err error)) error {
	once := v.form.value("once")
	if once == "" {
		problem := newProblem(http.StatusForbidden, "stale_form", "The form has no field once.")
		return problem.asPage(pageText{title: "This form is out of date", message: "Nothing was changed.", next: "Open the page again."})
	}
	if done, repeated := v.desk.once.begin(v.session.User, once); repeated {
		return v.showRepeated(done)
	}
	done, err := do()
	if err != nil || done == (onceDone{}) {
		v.desk.once.forget(v.session.User, once)
		return err
	}
	v.desk.once.end(v.session.User, once, done)
	return nil
}

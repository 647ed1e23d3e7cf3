package handlers

import (
	"fmt"
	"net/http"
	"time"

	"tollhouse/store/secret"
	"tollhouse/views"
)

const passwordNotChanged = "Your password was not changed."

// A password is measured in bytes. Nobody counts those: whoever counts letters
// is never told too few.
var newPasswordHint = fmt.Sprintf("At least %d characters. Several unrelated words work well.", secret.PasswordSizeMin)

// judgeNewPassword says what is wrong with the form, before a password is
// hashed for it.
func judgeNewPassword(p params) views.PasswordForm {
	form := views.PasswordForm{EndAll: p.has("end_all")}
	current, fresh := p.value("current_password"), p.value("new_password")
	if current == "" {
		form.CurrentError = "Enter your current password."
	}
	switch {
	case len(fresh) < secret.PasswordSizeMin:
		form.NewError = fmt.Sprintf("Too short: use at least %d characters.", secret.PasswordSizeMin)
	case len(fresh) > secret.PasswordSizeMax:
		form.NewError = fmt.Sprintf("Too long: use at most %d bytes, about as many letters.", secret.PasswordSizeMax)
	case fresh == current:
		form.NewError = "That is your current password. Choose a different one."
	case fresh != p.value("repeat_password"):
		form.RepeatError = "The passwords do not match."
	}
	if form.CurrentError+form.NewError+form.RepeatError != "" {
		form.Error = passwordNotChanged
	}
	return form
}

// What was just done, as a cookie carries it over the redirect behind a form.
// The words are ours and a link cannot say them: no other site can set a cookie
// here.
const (
	doneRevoked  = "revoked"
	doneOthers   = "others"
	donePassword = "password"
	doneEnded    = "password-and-all"

	doneLifetime = time.Minute
)

var doneWords = map[string]string{
	doneRevoked:  "The application no longer has access.",
	doneOthers:   "You are signed out everywhere else.",
	donePassword: "Your password was changed. Your other sign-ins and applications are not affected.",
	doneEnded:    "Your password was changed. You are signed out everywhere else, and no application has access.",
}

// done sends the browser back to the account page, which tells what was done.
func (s *Server) done(w http.ResponseWriter, r *http.Request, what string) {
	cookies := s.cookiesOf(r)
	http.SetCookie(w, &http.Cookie{
		Name: cookies.doneName, Value: what, Path: "/", MaxAge: int(doneLifetime.Seconds()),
		HttpOnly: true, Secure: cookies.secure, SameSite: http.SameSiteLaxMode,
	})
	s.redirectHere(w, "/account")
}

// takeDone returns what to tell, once.
func (s *Server) takeDone(w http.ResponseWriter, r *http.Request) string {
	cookies := s.cookiesOf(r)
	c, err := r.Cookie(cookies.doneName)
	if err != nil {
		return ""
	}
	cookies.clear(w, cookies.doneName)
	return doneWords[c.Value]
}

// moment tells a time as people say it, and exactly.
func moment(t, now time.Time) views.Moment {
	t = t.UTC()
	return views.Moment{Phrase: ago(now.Sub(t)), Exact: t.Format("2 January 2006, 15:04 UTC"), Stamp: t.Format(time.RFC3339)}
}

const day = 24 * time.Hour

// ago says how long since. A clock that was stepped back makes nobody read of
// the future.
func ago(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "just now"
	case d < time.Hour:
		return count(d/time.Minute, "minute")
	case d < day:
		return count(d/time.Hour, "hour")
	case d < 60*day:
		return count(d/day, "day")
	case d < 730*day:
		return count(d/(30*day), "month")
	}
	return count(d/(365*day), "year")
}

func count(n time.Duration, unit string) string {
	if n == 1 {
		return fmt.Sprintf("1 %s ago", unit)
	}
	return fmt.Sprintf("%d %ss ago", int64(n), unit)
}

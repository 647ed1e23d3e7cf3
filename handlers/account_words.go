package handlers

import (
	"fmt"
	"net/http"
	"time"

	"tollhouse/store/secret"
	"tollhouse/views"
)

const passwordNotChanged = "Your password was not changed."

// The limit is in bytes. The hint says characters, which people count: a password with
// that many characters is always long enough.
var newPasswordHint = fmt.Sprintf("At least %d characters. Several unrelated words work well.", secret.PasswordSizeMin)

// judgeNewPassword checks the form before a password is hashed.
func judgeNewPassword(p params) views.PasswordForm {
	form := views.PasswordForm{EndAll: p.has("end_all")}
	if p.value("current_password") == "" {
		form.CurrentError = "Enter your current password."
	}
	return judgePassword(p, form)
}

// judgePassword checks the two fields of a new password.
func judgePassword(p params, form views.PasswordForm) views.PasswordForm {
	current, fresh := p.value("current_password"), p.value("new_password")
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

// The values of the cookie that carries the outcome of a form over the redirect. A link
// cannot fake the message, because no other site can set a cookie here.
const (
	doneRevoked  = "revoked"
	doneOthers   = "others"
	donePassword = "password"
	doneEnded    = "password-and-all"
	doneByCode   = "password-by-code"

	doneClientSaved     = "client-saved"
	doneClientDisabled  = "client-disabled"
	doneClientEnabled   = "client-enabled"
	doneUserDisabled    = "user-disabled"
	doneUserEnabled     = "user-enabled"
	doneUserPromoted    = "user-promoted"
	doneUserDemoted     = "user-demoted"
	doneUserSignedOut   = "user-signed-out"
	doneSessionEnded    = "session-ended"
	doneAccessRevoked   = "access-revoked"
	doneBackupBegun     = "backup-begun"
	doneBackupVerifying = "backup-verifying"
	doneCheckBegun      = "check-begun"
	doneWebhookEnabled  = "webhook-enabled"
	doneWebhookDisabled = "webhook-disabled"
	doneWebhookSkipped  = "webhook-skipped"
	doneWebhookRetried  = "webhook-retried"
	doneWebhooksHeld    = "webhooks-held"
	doneWebhooksResumed = "webhooks-resumed"

	doneLifetime = time.Minute
)

var doneWords = map[string]string{
	doneRevoked:  "The application no longer has access.",
	doneOthers:   "You are signed out everywhere else.",
	donePassword: "Your password was changed. Your other sign-ins and applications are not affected.",
	doneEnded:    "Your password was changed. You are signed out everywhere else, and no application has access.",
	doneByCode:   "Your password is set. Sign in with it.",

	doneClientSaved:     "The client was changed.",
	doneClientDisabled:  "The client is disabled. Its tokens have ended.",
	doneClientEnabled:   "The client is enabled. It needs new tokens.",
	doneUserDisabled:    "The user is disabled and signed out everywhere. Their tokens have ended.",
	doneUserEnabled:     "The user can sign in again.",
	doneUserPromoted:    "The user is now an operator.",
	doneUserDemoted:     "The user is no longer an operator.",
	doneUserSignedOut:   "The user is signed out in every browser. Applications still have access.",
	doneSessionEnded:    "That browser is signed out.",
	doneAccessRevoked:   "The application no longer has that access.",
	doneBackupBegun:     "A backup has begun.",
	doneBackupVerifying: "The backup is being checked.",
	doneCheckBegun:      "The search for damage has begun.",
	doneWebhookEnabled:  "The endpoint is enabled.",
	doneWebhookDisabled: "The endpoint is disabled. Its cursor stays where it is, so nothing is lost.",
	doneWebhookSkipped:  "The event was skipped. It stays listed and can be retried.",
	doneWebhookRetried:  "The events are due now.",
	doneWebhooksHeld:    "All deliveries are held.",
	doneWebhooksResumed: "All deliveries go on.",
}

// done redirects to the account page, which shows the outcome.
func (s *Server) done(w http.ResponseWriter, r *http.Request, what string) {
	s.doneAt(w, r, what, "/account")
}

// doneAt redirects to a page that shows the outcome.
func (s *Server) doneAt(w http.ResponseWriter, r *http.Request, what, path string) {
	cookies := s.cookiesOf(r)
	http.SetCookie(w, &http.Cookie{
		Name: cookies.doneName, Value: what, Path: "/", MaxAge: int(doneLifetime.Seconds()),
		HttpOnly: true, Secure: cookies.secure, SameSite: http.SameSiteLaxMode,
	})
	s.redirectHere(w, path)
}

// takeDone returns the message to show, once.
func (s *Server) takeDone(w http.ResponseWriter, r *http.Request) string {
	cookies := s.cookiesOf(r)
	c, err := r.Cookie(cookies.doneName)
	if err != nil {
		return ""
	}
	cookies.clear(w, cookies.doneName)
	return doneWords[c.Value]
}

// moment formats a time in relative words, and exactly.
func moment(t, now time.Time) views.Moment {
	t = t.UTC()
	return views.Moment{Phrase: ago(now.Sub(t)), Exact: t.Format("2 January 2006, 15:04 UTC"), Stamp: t.Format(time.RFC3339)}
}

const day = 24 * time.Hour

// ago formats an age in words. A negative one, after the clock was set back, is "just
// now".
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

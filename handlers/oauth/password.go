package oauth

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"tollhouse/handlers/throttle"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// ReasonAtDesk is the reason of an audit line about a confirmation.
const ReasonAtDesk = "at the desk"

// attempt is a try at a user's password.
type attempt struct {
	throttle.Attempt
	AtDesk bool // confirms a change there
}

// attempt returns that of a browser.
func (s *Server) attempt(r *http.Request, name string) attempt {
	return attempt{Attempt: throttle.Attempt{Name: name, Device: device(s.site, r, name),
		Source: web.FactsFrom(r.Context()).Source}}
}

// Confirmation is the attempt of somebody who is signed in. Such a browser is known even
// without its cookie: the session began with the password.
func (s *Server) Confirmation(r *http.Request, session *web.BrowserSession) attempt {
	a := s.attempt(r, session.User.Username)
	if a.Device == "" {
		a.Device = s.sessionDevice(session)
	}
	return a
}

// sessionDevice names the browser of a sign-in that has no device cookie.
func (s *Server) sessionDevice(session *web.BrowserSession) string {
	return "session " + s.site.Key.MAC("throttle", session.Token.Reveal())
}

// AuthenticateUser checks a password for the sign-in form and the password grant,
// behind the same throttle. Errors: record.ErrMismatch for an unknown name, a wrong
// password and a disabled user; a problem with status 429 for an attempt that is
// too early, whatever the name.
func (s *Server) AuthenticateUser(ctx context.Context, a attempt, password string) (store.User, error) {
	user, outcome, err := s.tryThrottled(ctx, a, func(c secret.Caller) (store.User, error) {
		return s.site.Store.AuthenticateUser(ctx, c, a.Name, password)
	}, func(u store.User) string {
		if a.AtDesk {
			return ReasonAtDesk
		}
		if !u.HasPassword() {
			return web.NoPassword
		}
		return web.WrongPassword
	})
	if outcome == ReasonAtDesk {
		outcome = web.WrongPassword
	}
	web.OutcomeOf(ctx).SignIn = outcome
	return user, err
}

// tryThrottled makes an attempt behind the throttle, and records a refusal in the audit log with
// the reason that refused returns. Errors: those of do; a problem with status 429 for an
// attempt that is too early; record.ErrBusy if too many of a user are in progress.
func (s *Server) tryThrottled(ctx context.Context, a attempt, do func(secret.Caller) (store.User, error),
	refused func(store.User) string) (store.User, web.SignIn, error) {
	try, wait, err := s.throttle.Begin(a.Attempt)
	if err != nil {
		return store.User{}, web.SignInFailed, err
	}
	if wait > 0 {
		web.OutcomeOf(ctx).Throttled = true
		who, _ := s.site.Store.FindUser(ctx, a.Name)
		s.auditRefusal(ctx, store.AuditLine{What: store.AuditThrottle, Reason: "too_many_failures",
			ClientID: a.Client, UserID: subjectOf(who)})
		return store.User{}, web.SignInThrottled, tooMany(wait)
	}
	verdict := throttle.Unchecked
	defer func() {
		if verdict == throttle.Unchecked && ctx.Err() != nil {
			verdict = throttle.Abandoned
		}
		try.End(verdict)
	}()
	user, err := do(try.Caller)
	switch {
	case err == nil:
		verdict = throttle.Right
		return user, web.SignInRight, nil
	case errors.Is(err, record.ErrMismatch):
		verdict = throttle.Wrong
		who, reason := s.whyRefused(ctx, a.Name, refused)
		s.auditRefusal(ctx, store.AuditLine{What: store.AuditLoginRefused, Reason: reason, ClientID: a.Client,
			UserID: subjectOf(who)})
		return user, web.SignIn(reason), err
	}
	return user, web.SignInFailed, err
}

// whyRefused returns the named user, or none, and why an attempt was refused. Unknown
// names are never logged, since people type passwords into the wrong field.
func (s *Server) whyRefused(ctx context.Context, name string, refused func(store.User) string) (store.User, string) {
	user, err := s.site.Store.FindUser(ctx, name)
	switch {
	case err != nil:
		return store.User{}, web.UnknownUser
	case !user.DisabledAt.IsZero():
		return user, web.UserDisabled
	case !user.MaySignIn():
		return user, web.AccountDisabled
	}
	return user, refused(user)
}

// subjectOf returns the user's id, or "" for none.
func subjectOf(u store.User) string {
	if u.ID.IsZero() {
		return ""
	}
	return u.Subject()
}

// auditRefusal records a refusal, or counts it: refusals cost the caller little.
func (s *Server) auditRefusal(ctx context.Context, line store.AuditLine) {
	line.By = web.By(ctx)
	s.site.Store.AuditRefusal(line)
}

// tooMany refuses an attempt that is too early, in the same words for known and
// unknown names.
func tooMany(wait time.Duration) *web.Problem {
	seconds := strconv.FormatInt(max(int64(math.Ceil(wait.Seconds())), 1), 10)
	return web.NewProblem(http.StatusTooManyRequests, "too_many_requests", "Too many failed attempts. %s",
		web.TryAgainIn(seconds)).
		With("Retry-After", seconds)
}

package handlers

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// authenticateUser checks a password for the sign-in form and the password grant,
// behind the same throttle. Errors: record.ErrMismatch for an unknown name, a wrong
// password and a disabled user; a problem with status 429 for an attempt that comes
// too soon, whatever the name.
func (s *Server) authenticateUser(ctx context.Context, a attempt, password string) (store.User, error) {
	user, outcome, err := s.judge(ctx, a, func() (store.User, error) {
		return s.store.AuthenticateUser(ctx, a.caller(), a.name, password)
	}, func(u store.User, _ error) string {
		if a.atDesk {
			return reasonAtDesk
		}
		if !u.HasPassword() {
			return "no_password" // a code is not redeemed yet
		}
		return "wrong_password"
	})
	if outcome == reasonAtDesk {
		outcome = "wrong_password"
	}
	served(ctx).SignIn = outcome
	return user, err
}

// judge makes an attempt behind the throttle, and records a refusal in the audit log with
// the reason that refused returns. Errors: those of do; a problem with status 429 for an
// attempt that comes too soon; record.ErrUnavailable if it cannot be counted.
func (s *Server) judge(ctx context.Context, a attempt, do func() (store.User, error), refused func(store.User, error) string) (store.User, SignIn, error) {
	end, wait, err := s.throttle.begin(ctx, a)
	if err != nil {
		return store.User{}, SignInFailed, err
	}
	if wait > 0 {
		served(ctx).Throttled = true
		who, _ := s.store.FindUser(ctx, a.name)
		s.auditBounded(ctx, store.AuditLine{What: store.AuditThrottle, Reason: "too_many_failures", ClientID: a.client, UserID: subjectOf(who)})
		return store.User{}, SignInThrottled, tooMany(wait)
	}
	judged := unjudged
	defer func() {
		if judged == unjudged && ctx.Err() != nil {
			judged = abandoned
		}
		if judged != wrong {
			_ = end(judged) // at worst it counts as in progress for a while
		}
	}()
	user, err := do()
	switch {
	case err == nil:
		judged = right
		return user, SignInRight, nil
	case errors.Is(err, record.ErrMismatch):
		judged = wrong
		if lost := end(wrong); lost != nil {
			return store.User{}, SignInFailed, lost // a failure that is not counted is not shown
		}
		who, reason := s.whyRefused(ctx, a.name, func(u store.User) string { return refused(u, err) })
		s.store.Audit(store.AuditLine{What: store.AuditLoginRefused, Reason: reason, By: by(ctx), ClientID: a.client, UserID: subjectOf(who)})
		return user, SignIn(reason), err
	}
	return user, SignInFailed, err
}

// whyRefused returns the named user, or none, and why an attempt was refused. Unknown
// names are never logged, since people type passwords into the wrong field.
func (s *Server) whyRefused(ctx context.Context, name string, refused func(store.User) string) (store.User, string) {
	user, err := s.store.FindUser(ctx, name)
	switch {
	case err != nil:
		return store.User{}, "unknown_user"
	case !user.DisabledAt.IsZero():
		return user, "user_disabled"
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

// auditBounded writes audit lines that cost the caller nothing, within the throttle's
// limit.
func (s *Server) auditBounded(ctx context.Context, line store.AuditLine) {
	if s.throttle.mayRecord(line.What, factsFrom(ctx).source) {
		line.By = by(ctx)
		s.store.Audit(line)
	}
}

// A device cookie records in which browsers a user has signed in before. It is sealed
// with the server key and not stored. It grants no access; it only keeps failures of
// strangers from delaying the user. It carries the user's generation, so that it ends
// with the user's sessions.
type deviceCookie struct {
	User       string `json:"user"`
	Generation uint64 `json:"generation"`
	ID         string `json:"id"`
	Millis     int64  `json:"at"`
}

const (
	deviceLabel    = "device cookie"
	deviceLifetime = 90 * 24 * time.Hour
)

// device returns the browser's id if the named user has signed in with it, or "".
func (s *Server) device(r *http.Request, name string) string {
	c, err := r.Cookie(s.cookiesOf(r).deviceName)
	if err != nil {
		return ""
	}
	plain, ok := s.key.Open(deviceLabel, c.Value)
	var d deviceCookie
	if !ok || json.Unmarshal(plain, &d) != nil {
		return ""
	}
	if age := s.store.Now().Sub(time.UnixMilli(d.Millis)); age < 0 || age > deviceLifetime {
		return ""
	}
	user, err := s.store.FindUser(r.Context(), name)
	if err != nil || user.Subject() != d.User || user.Generation != d.Generation {
		return ""
	}
	return d.ID
}

// setDevice stores the user's sign-in in the browser under the id that
// [Server.device] returned: one bucket per user and browser.
func (s *Server) setDevice(w http.ResponseWriter, r *http.Request, user store.User, id string) {
	if id == "" {
		id = secret.Text(nil)
	}
	plain, err := json.Marshal(deviceCookie{User: user.Subject(), Generation: user.Generation, ID: id, Millis: s.store.Now().UnixMilli()})
	if err != nil {
		panic("handlers: device cookie cannot be encoded: " + err.Error())
	}
	cookies := s.cookiesOf(r)
	http.SetCookie(w, &http.Cookie{
		Name: cookies.deviceName, Value: s.key.Seal(deviceLabel, plain), Path: "/", MaxAge: int(deviceLifetime.Seconds()),
		HttpOnly: true, Secure: cookies.secure, SameSite: http.SameSiteLaxMode,
	})
}

// throttledClient counts a failed client authentication and returns a refusal if the
// source has failed too often or the failure cannot be counted, or nil.
func (s *Server) throttledClient(r *http.Request) *problem {
	ctx := r.Context()
	source := factsFrom(ctx).source
	const reason = "unknown_or_disabled_client_or_wrong_secret"
	served(ctx).Refusal = reason
	if s.isForeignPage(r) {
		s.auditBounded(ctx, store.AuditLine{What: store.AuditRefused, Reason: reason})
		return nil
	}
	wait, err := s.throttle.clientFailed(ctx, source)
	if err != nil {
		return temporarilyUnavailable(err)
	}
	if wait > 0 {
		served(ctx).Throttled = true
		s.auditBounded(ctx, store.AuditLine{What: store.AuditThrottle, Reason: reason})
		return tooMany(wait)
	}
	s.store.Audit(store.AuditLine{What: store.AuditRefused, Reason: reason, By: by(ctx)})
	return nil
}

// isForeignPage reports whether a page of another site sent the request, and not one of a
// public client. Any page can do that in its visitor's browser, also without CORS, so its
// failures are not the visitor's: they would be kept from signing in. A program that sends
// such an Origin gains nothing, since the right secret never waits.
func (s *Server) isForeignPage(r *http.Request) bool {
	return s.origins.Check(r) != nil && !s.isPublicClient(r)
}

package handlers

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"tollhouse/store"
	"tollhouse/store/secret"
)

// authenticateUser checks a person's password for the login form and for the
// password grant alike, behind the one throttle. Errors: store.ErrMismatch for
// an unknown name, a wrong password and a disabled user; a problem with status
// 429 when the attempt comes too soon, whoever is named.
func (s *Server) authenticateUser(ctx context.Context, a attempt, password string) (store.User, error) {
	end, wait := s.throttle.begin(a)
	if wait > 0 {
		served(ctx).SignIn, served(ctx).Throttled = SignInThrottled, true
		who, _ := s.whoIs(ctx, a.name)
		s.auditBounded(ctx, store.AuditLine{What: store.AuditThrottle, Reason: "too_many_failures", ClientID: a.client, UserID: who})
		return store.User{}, tooMany(wait)
	}
	judged := unjudged
	defer func() { end(judged) }()
	user, err := s.store.AuthenticateUser(ctx, a.name, password)
	switch {
	case err == nil:
		judged = right
		served(ctx).SignIn = SignInRight
	case errors.Is(err, store.ErrMismatch):
		judged = wrong
		who, reason := s.whoIs(ctx, a.name)
		served(ctx).SignIn = SignIn(reason)
		s.store.Audit(store.AuditLine{What: store.AuditLoginRefused, Reason: reason, By: by(ctx), ClientID: a.client, UserID: who})
	default:
		served(ctx).SignIn = SignInFailed
	}
	return user, err
}

// whoIs returns the id of the user of that name, or "" for a name that is
// nobody's, and why a sign-in under it was refused. A name that is nobody's is
// never written down, since people type passwords into the wrong field.
func (s *Server) whoIs(ctx context.Context, name string) (subject, refusal string) {
	user, err := s.store.FindUser(ctx, name)
	switch {
	case err != nil:
		return "", "unknown_user"
	case !user.DisabledAt.IsZero():
		return user.Subject(), "user_disabled"
	}
	return user.Subject(), "wrong_password"
}

// auditBounded records what a stranger can bring about at no cost, as often as
// the throttle lets their source.
func (s *Server) auditBounded(ctx context.Context, line store.AuditLine) {
	if s.throttle.mayRecord(line.What, factsFrom(ctx).source) {
		line.By = by(ctx)
		s.store.Audit(line)
	}
}

// A device cookie says in which browsers a user has signed in before. It is
// sealed by the server key and stored nowhere; it lets nobody in, and only keeps
// what strangers do to a name from reaching its owner.
type deviceCookie struct {
	User   string `json:"user"`
	ID     string `json:"id"`
	Millis int64  `json:"at"`
}

const (
	deviceLabel    = "device cookie"
	deviceLifetime = 90 * 24 * time.Hour
)

// device returns the id of the browser when the user of that name signed in
// with it before.
func (s *Server) device(r *http.Request, name string) string {
	c, err := r.Cookie(s.cookies.deviceName)
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
	if who, _ := s.whoIs(r.Context(), name); who != d.User {
		return ""
	}
	return d.ID
}

// setDevice remembers in the browser that the user signed in with it.
func (s *Server) setDevice(w http.ResponseWriter, user store.User) {
	plain, err := json.Marshal(deviceCookie{User: user.Subject(), ID: secret.Text(), Millis: s.store.Now().UnixMilli()})
	if err != nil {
		panic("handlers: device cookie cannot be encoded: " + err.Error())
	}
	http.SetCookie(w, &http.Cookie{
		Name: s.cookies.deviceName, Value: s.key.Seal(deviceLabel, plain), Path: "/", MaxAge: int(deviceLifetime.Seconds()),
		HttpOnly: true, Secure: s.cookies.secure, SameSite: http.SameSiteLaxMode,
	})
}

// throttledClient counts a client that failed to prove who it is, and returns
// the refusal of one whose source has failed too often, or nil.
func (s *Server) throttledClient(ctx context.Context) *problem {
	source := factsFrom(ctx).source
	const reason = "unknown_or_disabled_client_or_wrong_secret"
	served(ctx).Refusal = reason
	if wait := s.throttle.clientFailed(source); wait > 0 {
		served(ctx).Throttled = true
		s.auditBounded(ctx, store.AuditLine{What: store.AuditThrottle, Reason: reason})
		return tooMany(wait)
	}
	s.store.Audit(store.AuditLine{What: store.AuditRefused, Reason: reason, By: by(ctx)})
	return nil
}

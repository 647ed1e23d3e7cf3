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
		s.store.Audit(store.AuditLine{What: store.AuditThrottle, Reason: "too many failures", By: by(ctx), ClientID: a.client, UserID: s.subjectOf(ctx, a.name)})
		return store.User{}, tooMany(wait)
	}
	user, err := s.store.AuthenticateUser(ctx, a.name, password)
	switch {
	case err == nil:
		end(right)
	case errors.Is(err, store.ErrMismatch):
		end(wrong)
		s.store.Audit(store.AuditLine{What: store.AuditLoginRefused, Reason: s.refusalReason(ctx, a.name), By: by(ctx), ClientID: a.client, UserID: s.subjectOf(ctx, a.name)})
	default:
		end(unjudged)
	}
	return user, err
}

// subjectOf returns the id of the user of that name, or "" for a name that is
// nobody's: such a name is never written down, since people type passwords into
// the wrong field.
func (s *Server) subjectOf(ctx context.Context, name string) string {
	user, err := s.store.FindUser(ctx, name)
	if err != nil {
		return ""
	}
	return user.Subject()
}

// refusalReason is the real reason, for the audit record.
func (s *Server) refusalReason(ctx context.Context, name string) string {
	user, err := s.store.FindUser(ctx, name)
	switch {
	case err != nil:
		return "unknown user"
	case !user.DisabledAt.IsZero():
		return "user disabled"
	}
	return "wrong password"
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
	if age := s.store.Now().Sub(time.UnixMilli(d.Millis)); age < 0 || age > deviceLifetime || d.User != s.subjectOf(r.Context(), name) {
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
// the refusal of one whose source has failed too often.
func (s *Server) throttledClient(ctx context.Context) *problem {
	reason := "unknown client or wrong secret"
	source := factsFrom(ctx).source
	if !source.IsValid() {
		return nil
	}
	if wait := s.throttle.clientFailed(source); wait > 0 {
		s.store.Audit(store.AuditLine{What: store.AuditThrottle, Reason: reason, By: by(ctx)})
		return tooMany(wait)
	}
	s.store.Audit(store.AuditLine{What: store.AuditRefused, Reason: reason, By: by(ctx)})
	return nil
}

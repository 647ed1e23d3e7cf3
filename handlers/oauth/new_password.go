package oauth

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/views"
)

// NewPasswordPath is the page on which a user sets a password with a code.
const NewPasswordPath = "/new-password"

// codeScreen is what varies between renderings of the page for a code.
type codeScreen struct {
	username, code string // as typed
	password       views.PasswordForm
	next           loginScreen // the sign-in that follows
	refused        views.CodeRefusal
	status         int // 0 for 200
}

// newPassword is GET /new-password. It redeems nothing, because a link in a chat is
// fetched by the chat.
func (s *Server) newPassword(w http.ResponseWriter, r *http.Request) error {
	return s.showNewPassword(w, r, codeScreen{next: s.suffixOf(r)})
}

func (s *Server) showNewPassword(w http.ResponseWriter, r *http.Request, screen codeScreen) error {
	screen.password.SizeMin, screen.password.SizeMax = secret.PasswordSizeMin, secret.PasswordSizeMax
	props := views.NewPasswordProps{
		Page: s.site.Page(r), Action: NewPasswordPath + screen.next.suffix(),
		FormToken: s.site.FormToken(w, r, web.NewPasswordForm),
		Username:  screen.username, Code: screen.code, Refused: screen.refused, Password: screen.password,
		SignInURL: screen.next.signInURL(),
	}
	forms := web.ToUs
	if screen.next.request != nil {
		forms = web.ToClients
	}
	web.PageHeaders(w, forms)
	s.site.Render(w, r, cmp.Or(screen.status, http.StatusOK), views.NewPassword(props))
	return nil
}

// setNewPassword is POST /new-password. A refusal has the same words for an unknown name
// and for a wrong, spent or expired code.
func (s *Server) setNewPassword(w http.ResponseWriter, r *http.Request) error {
	p, err := web.ParseBody(w, r)
	if err != nil {
		return err
	}
	if refused := p.RefuseRepeated("username", "code", "new_password", "repeat_password", "form_token"); refused != nil {
		return refused
	}
	next := s.suffixOf(r)
	if !s.site.CheckFormToken(r, web.NewPasswordForm, p.Value("form_token")) {
		return s.staleNewPassword(w, r, codeScreen{username: p.Value("username"), next: next})
	}
	screen := codeScreen{username: p.Value("username"), code: p.Value("code"),
		password: checkNewPassword(p, views.PasswordForm{}), next: next}
	if screen.password.Refused != 0 {
		return s.showNewPassword(w, r, screen)
	}
	code, _ := secret.ParseUserCode(screen.code) // text that is no code counts as a wrong one
	user, err := s.site.Store.RedeemUserCode(r.Context(), store.UserCodeUse{
		Username: screen.username, Code: code, Password: p.Value("new_password"), By: web.By(r.Context()),
		Caller: s.attempt(r, screen.username).Caller(), // only a right code costs a hash
	})
	if err != nil { // otherwise a sign-in follows and is counted
		web.OutcomeOf(r.Context()).SignIn = web.SignInFailed
	}
	if errors.Is(err, record.ErrMismatch) {
		err = s.codeFailed(r.Context(), screen.username, err)
	}
	var refused *web.Problem
	if errors.As(err, &refused) && refused.Status == http.StatusTooManyRequests {
		web.NoteProblem(r.Context(), refused)
		w.Header().Set("Retry-After", refused.Header.Get("Retry-After"))
		screen.status, screen.refused, screen.password.RetryAfter = refused.Status, views.CodeThrottled,
			refused.Header.Get("Retry-After")
		return s.showNewPassword(w, r, screen)
	}
	if errors.Is(err, record.ErrMismatch) {
		web.Note(r.Context(), slog.String("error", "code_refused"))
		screen.refused = views.CodeWrong
		return s.showNewPassword(w, r, screen)
	}
	if err != nil {
		return err
	}
	web.Note(r.Context(), slog.String("user_id", user.Subject()))
	s.site.DoneAt(w, r, views.DoneByCode, next.signInURL())
	return nil
}

// staleNewPassword shows the form again if it does not belong to this browser. The code is
// not in it: whoever forged the form would choose whose password is set.
func (s *Server) staleNewPassword(w http.ResponseWriter, r *http.Request, screen codeScreen) error {
	problem := web.NewProblem(http.StatusForbidden, "stale_form", "The form does not belong to this browser.")
	if web.AsksForJSON(r) {
		return problem
	}
	web.NoteProblem(r.Context(), problem)
	screen.status, screen.password.Refused = problem.Status, views.PasswordStale
	return s.showNewPassword(w, r, screen)
}

// codeFailed counts and records a refused code, and returns the refusal. A right code never
// waits: it has 100 random bits, so that wrong ones need to be counted for their source alone.
func (s *Server) codeFailed(ctx context.Context, name string, refusal error) error {
	if wait := s.throttle.Failed(web.FactsFrom(ctx).Source); wait > 0 {
		web.OutcomeOf(ctx).Throttled, web.OutcomeOf(ctx).SignIn = true, web.SignInThrottled
		who, _ := s.site.Store.FindUser(ctx, name)
		s.auditRefusal(ctx, store.AuditLine{What: store.AuditThrottle, Reason: "too_many_failures", UserID: subjectOf(who)})
		return tooMany(wait).Because(refusal)
	}
	who, reason := s.whyRefused(ctx, name, func(u store.User) string { return codeRefused(u, refusal) })
	s.auditRefusal(ctx, store.AuditLine{What: store.AuditLoginRefused, Reason: reason, UserID: subjectOf(who)})
	web.OutcomeOf(ctx).SignIn = web.SignIn(reason)
	return refusal
}

// codeRefused returns why a code was refused, for the audit log.
func codeRefused(u store.User, err error) string {
	switch {
	case errors.Is(err, record.ErrExpired):
		return web.ExpiredCode
	case u.CodeExpiresAt().IsZero():
		return web.SpentCodeOrNone
	}
	return web.WrongCode
}

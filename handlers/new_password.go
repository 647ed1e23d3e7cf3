package handlers

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/views"
)

const newPasswordPath = "/new-password"

// codeScreen is what varies between renderings of the page for a code.
type codeScreen struct {
	username, code string // as typed
	password       views.PasswordForm
	refusal        string // of username and code
	status         int    // 0 for 200
}

// newPassword is GET /new-password. It redeems nothing, because a link in a chat is
// fetched by the chat.
func (s *Server) newPassword(w http.ResponseWriter, r *http.Request) error {
	return s.showNewPassword(w, r, codeScreen{})
}

func (s *Server) showNewPassword(w http.ResponseWriter, r *http.Request, screen codeScreen) error {
	screen.password.NewHint = newPasswordHint
	props := views.NewPasswordProps{
		Page: s.page(r), Action: newPasswordPath, FormToken: s.formToken(w, r, newPasswordForm),
		Username: screen.username, Code: screen.code, Error: screen.refusal, Password: screen.password, SignInURL: "/login",
	}
	pageHeaders(w, true, "")
	s.render(w, r, cmp.Or(screen.status, http.StatusOK), views.NewPassword(props))
	return nil
}

// setNewPassword is POST /new-password. A refusal has the same words for an unknown name
// and for a wrong, spent or expired code.
func (s *Server) setNewPassword(w http.ResponseWriter, r *http.Request) error {
	p, err := parseBody(w, r)
	if err != nil {
		return err
	}
	if refused := p.refuseRepeated("username", "code", "new_password", "repeat_password", "form_token"); refused != nil {
		return refused
	}
	if !s.checkFormToken(r, newPasswordForm, p.value("form_token")) {
		problem := newProblem(http.StatusForbidden, "stale_form", "The form does not belong to this browser.")
		return problem.asPage(pageText{
			title:   "This form is out of date",
			message: "It was opened in another browser, or your browser blocks cookies. No password was set, and the code was not used.",
			next:    "Allow cookies for this site, then open the page again.",
			links:   []views.Link{{Label: "Set your password", Href: newPasswordPath}},
		})
	}
	screen := codeScreen{username: p.value("username"), code: p.value("code"), password: judgePassword(p, views.PasswordForm{})}
	if screen.password.Error != "" {
		screen.password.Error = "Your password was not set."
		return s.showNewPassword(w, r, screen)
	}
	try := attempt{name: screen.username, device: s.device(r, screen.username), source: factsFrom(r.Context()).source}
	code, _ := secret.ParseUserCode(screen.code) // text that is no code counts as a wrong one
	user, outcome, err := s.judge(r.Context(), try, func() (store.User, error) {
		return s.store.RedeemUserCode(r.Context(), store.UserCodeUse{
			Username: screen.username, Code: code, Password: p.value("new_password"), By: by(r.Context()), Caller: try.caller(),
		})
	}, codeRefused)
	if outcome != SignInRight { // the sign-in comes next and is counted then
		served(r.Context()).SignIn = outcome
	}
	var refused *problem
	if errors.As(err, &refused) && refused.status == http.StatusTooManyRequests {
		noteProblem(r.Context(), refused)
		w.Header().Set("Retry-After", refused.header.Get("Retry-After"))
		screen.status, screen.refusal = refused.status, "Too many failed attempts. "+tryAgainIn(refused.header.Get("Retry-After"))
		return s.showNewPassword(w, r, screen)
	}
	if errors.Is(err, record.ErrMismatch) {
		note(r.Context(), slog.String("error", "code_refused"))
		screen.refusal = "That username and code do not match, or the code is no longer valid. Check both, or ask for a new code."
		return s.showNewPassword(w, r, screen)
	}
	if err != nil {
		return err
	}
	note(r.Context(), slog.String("user_id", user.Subject()))
	s.doneAt(w, r, doneByCode, "/login")
	return nil
}

// codeRefused returns why a code was refused, for the audit log.
func codeRefused(u store.User, err error) string {
	switch {
	case errors.Is(err, record.ErrExpired):
		return "expired_code"
	case u.CodeExpiresAt().IsZero():
		return "spent_code_or_none"
	}
	return "wrong_code"
}

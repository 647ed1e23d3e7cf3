package web

import (
	"net/http"

	"tollhouse/store/secret"
)

// The MAC labels of form tokens.
const (
	LoginForm       = "login form"
	LogoutForm      = "logout form"
	NewPasswordForm = "new password form"
)

const formCookieSizeMax = 64 // bytes

// FormToken returns the token that binds a form of that label to this browser, and sets the
// cookie it is bound to. The cookie is random and not stored; the token is its MAC under the
// server key. It outlives sign-ins, so that a form in another tab can still be checked.
func (s *Site) FormToken(w http.ResponseWriter, r *http.Request, label string) string {
	value, ok := s.formCookie(r)
	if !ok {
		value = secret.Text(nil)
		cookies := s.CookiesOf(r)
		cookies.Set(w, cookies.formName, value)
	}
	return s.Key.MAC(label, value)
}

// CheckFormToken reports whether a form of that label came from this browser.
func (s *Site) CheckFormToken(r *http.Request, label, token string) bool {
	value, ok := s.formCookie(r)
	return ok && secret.EqualText(token, s.Key.MAC(label, value))
}

// SessionFormToken returns the token that binds a form of that label to a sign-in.
func (s *Site) SessionFormToken(label string, session secret.Token) string {
	return s.Key.MAC(label, session.Reveal())
}

func (s *Site) formCookie(r *http.Request) (string, bool) {
	c, err := r.Cookie(s.CookiesOf(r).formName)
	if err != nil || c.Value == "" || len(c.Value) > formCookieSizeMax {
		return "", false
	}
	return c.Value, true
}

package oauth

import (
	"errors"
	"net/http"

	"tollhouse/handlers/web"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// What dev does unasked with --auto-login and --auto-consent, so that a test gets a
// code from one request. serve has no Demo: a server that signs people in unasked
// would sign in anybody.

const reasonAutoLogin = "auto_login"

// signInUnasked returns the browser's sign-in, or starts one for the user of
// --auto-login if it has none or the request wants a new one. If that user no
// longer exists, the sign-in form is shown.
func (s *Server) signInUnasked(w http.ResponseWriter, r *http.Request, a *authRequest,
	session *web.BrowserSession) (*web.BrowserSession, error) {
	if s.site.Demo.AutoLogin == "" || r.Method != http.MethodGet || !a.mustSignIn(session, s.site.Store.Now()) {
		return session, nil
	}
	user, err := s.site.Store.FindUser(r.Context(), s.site.Demo.AutoLogin)
	if err == nil {
		session, err = s.SignIn(w, r, user, reasonAutoLogin)
	}
	switch {
	case errors.Is(err, record.ErrNotFound), errors.Is(err, record.ErrDisabled):
		return session, nil
	case err != nil:
		return nil, err
	}
	a.prompts, a.maxAge = a.promptsLeft(), -1
	return session, nil
}

// allowUnasked grants consent without asking, as --auto-consent says.
func (s *Server) allowUnasked(w http.ResponseWriter, r *http.Request, a authRequest,
	session *web.BrowserSession) error {
	unshown := ticket{ID: secret.Text(nil), Scope: a.scope, Millis: s.site.Store.Now().UnixMilli()}
	return s.allow(w, r, a, unshown, session)
}

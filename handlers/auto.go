package handlers

import (
	"errors"
	"net/http"

	"tollhouse/store"
	"tollhouse/store/secret"
)

// What dev does by itself when it is asked to, so that a test gets a code from
// one request and needs no screen. serve has no Demo and so none of this: a
// server that signs people in unasked signs in whoever comes by.

// signInUnasked returns the browser's sign-in, or that of the user of
// --auto-login, begun just now for a browser that has none or is to sign in
// anew. A user who does not exist any more gets the form, as anybody else.
func (s *Server) signInUnasked(w http.ResponseWriter, r *http.Request, a *authRequest, session *browserSession) (*browserSession, error) {
	if s.demo.AutoLogin == "" || r.Method != http.MethodGet || session != nil && a.prompt != "login" {
		return session, nil
	}
	user, err := s.store.FindUser(r.Context(), s.demo.AutoLogin)
	if err == nil {
		session, err = s.signIn(w, r, user, "auto_login")
	}
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrDisabled):
		return session, nil
	case err != nil:
		return nil, err
	}
	a.prompt = ""
	return session, nil
}

// allowUnasked decides for the person, as --auto-consent says: the code that the
// consent screen would have led to.
func (s *Server) allowUnasked(w http.ResponseWriter, r *http.Request, a authRequest, session *browserSession) error {
	unshown := ticket{ID: secret.Text(), Scope: a.scope, Millis: s.store.Now().UnixMilli()}
	return s.allow(w, r, a, unshown, session)
}

package web

import (
	"errors"
	"net/http"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// BrowserSession is the browser's sign-in.
type BrowserSession struct {
	store.Session
	Token secret.Token
}

// Session returns the browser's sign-in, or nil.
func (s *Site) Session(r *http.Request) (*BrowserSession, error) {
	token, ok := s.SessionToken(r)
	if !ok {
		return nil, nil
	}
	sn, err := s.Store.FindSession(r.Context(), token)
	if errors.Is(err, record.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &BrowserSession{Session: sn, Token: token}, nil
}

// SessionToken returns the token that the browser sent, whether it is known or not.
func (s *Site) SessionToken(r *http.Request) (secret.Token, bool) {
	c, err := r.Cookie(s.CookiesOf(r).SessionName)
	if err != nil {
		return secret.Token{}, false
	}
	return secret.Parse(secret.SessionToken, c.Value)
}

package handlers

import (
	"errors"
	"net/http"
	"net/url"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// cookieJar knows the names and attributes of our cookies. On https they have the
// __Host- prefix, which other hosts and plain connections cannot set. On plain http
// their names contain the port, because browsers share cookies among ports and two
// instances would sign each other out.
type cookieJar struct {
	sessionName string // a sign-in
	formName    string // binds the sign-in form to a browser that is not signed in
	deviceName  string // a browser that a user has signed in with before
	doneName    string // what was just done, shown once
	secure      bool
}

func newCookieJar(public *url.URL) cookieJar {
	if public.Scheme == "https" {
		return cookieJar{sessionName: "__Host-tollhouse", formName: "__Host-tollhouse_form", deviceName: "__Host-tollhouse_device", doneName: "__Host-tollhouse_done", secure: true}
	}
	suffix := ""
	if port := public.Port(); port != "" {
		suffix = "_" + port
	}
	return cookieJar{sessionName: "tollhouse" + suffix, formName: "tollhouse_form" + suffix, deviceName: "tollhouse_device" + suffix, doneName: "tollhouse_done" + suffix}
}

// cookiesOf returns the cookies of the address that a request was sent to.
func (s *Server) cookiesOf(r *http.Request) cookieJar {
	if s.hosts == nil || !s.hosts.AsAsked {
		return s.cookies
	}
	return newCookieJar(&url.URL{Scheme: "http", Host: r.Host})
}

// set sends a session cookie. It is Lax, because the browser comes from the client's
// site.
func (j cookieJar) set(w http.ResponseWriter, name, value string) {
	http.SetCookie(w, &http.Cookie{Name: name, Value: value, Path: "/", HttpOnly: true, Secure: j.secure, SameSite: http.SameSiteLaxMode})
}

func (j cookieJar) clear(w http.ResponseWriter, name string) {
	http.SetCookie(w, &http.Cookie{Name: name, Path: "/", HttpOnly: true, Secure: j.secure, SameSite: http.SameSiteLaxMode, MaxAge: -1})
}

// browserSession is the browser's sign-in.
type browserSession struct {
	store.Session
	token secret.Token
}

// session returns the browser's sign-in, or nil.
func (s *Server) session(r *http.Request) (*browserSession, error) {
	token, ok := s.sessionToken(r)
	if !ok {
		return nil, nil
	}
	sn, err := s.store.FindSession(r.Context(), token)
	if errors.Is(err, record.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &browserSession{Session: sn, token: token}, nil
}

func (s *Server) sessionToken(r *http.Request) (secret.Token, bool) {
	c, err := r.Cookie(s.cookiesOf(r).sessionName)
	if err != nil {
		return secret.Token{}, false
	}
	return secret.Parse(secret.SessionToken, c.Value)
}

// The MAC labels of form tokens.
const (
	loginForm  = "login form"
	logoutForm = "logout form"

	newPasswordForm = "new password form"
)

const formCookieSizeMax = 64 // bytes

// formToken returns the token that binds a form of that label to this browser, which is
// not signed in, and sets the cookie it is bound to. The cookie is random and not stored; the token is its
// MAC under the server key.
func (s *Server) formToken(w http.ResponseWriter, r *http.Request, label string) string {
	value, ok := s.formCookie(r)
	if !ok {
		value = secret.Text(nil)
		cookies := s.cookiesOf(r)
		cookies.set(w, cookies.formName, value)
	}
	return s.key.MAC(label, value)
}

func (s *Server) checkFormToken(r *http.Request, label, token string) bool {
	value, ok := s.formCookie(r)
	return ok && secret.EqualText(token, s.key.MAC(label, value))
}

func (s *Server) formCookie(r *http.Request) (string, bool) {
	c, err := r.Cookie(s.cookiesOf(r).formName)
	if err != nil || c.Value == "" || len(c.Value) > formCookieSizeMax {
		return "", false
	}
	return c.Value, true
}

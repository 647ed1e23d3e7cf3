package web

import (
	"net/http"
	"time"

	"tollhouse/views"
)

const doneLifetime = time.Minute

// DoneAt redirects to a page that shows the outcome, which a cookie carries: a link cannot
// fake it, because no other site can set a cookie here.
func (s *Site) DoneAt(w http.ResponseWriter, r *http.Request, what views.Done, path string) {
	cookies := s.CookiesOf(r)
	http.SetCookie(w, &http.Cookie{
		Name: cookies.DoneName, Value: string(what), Path: "/", MaxAge: int(doneLifetime.Seconds()),
		HttpOnly: true, Secure: cookies.Secure, SameSite: http.SameSiteLaxMode,
	})
	s.RedirectHere(w, path)
}

// TakeDone returns the outcome to show, once.
func (s *Site) TakeDone(w http.ResponseWriter, r *http.Request) views.Done {
	cookies := s.CookiesOf(r)
	c, err := r.Cookie(cookies.DoneName)
	if err != nil {
		return ""
	}
	cookies.Clear(w, cookies.DoneName)
	return views.Done(c.Value)
}

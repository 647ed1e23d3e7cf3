package web

import (
	"net/http"
	"net/url"
	"strings"
)

// cookieJar knows the names and attributes of our cookies. On https they have the
// __Host- prefix, which other hosts and plain connections cannot set. Their names contain
// the port and the path of the public URL: browsers share cookies among ports, the prefix
// makes them share cookies among paths, and two instances would sign each other out.
type cookieJar struct {
	SessionName string // a sign-in
	formName    string // binds forms to a browser, signed in or not
	DeviceName  string // a browser that a user has signed in with before
	DoneName    string // what was just done, shown once
	StepName    string // a sign-in between password and second factor
	Secure      bool
}

func newCookieJar(public *url.URL) cookieJar {
	port, path := "", ""
	if public.Port() != "" {
		port = "_" + public.Port()
	}
	if base := strings.Trim(public.EscapedPath(), "/"); base != "" {
		path = "." + url.QueryEscape(base) // the characters of a cookie's name (RFC 6265 §4.1.1)
	}
	jar := cookieJar{Secure: public.Scheme == "https"}
	prefix := "tollhouse"
	if jar.Secure {
		prefix = "__Host-tollhouse"
	}
	jar.SessionName, jar.formName = prefix+port+path, prefix+"_form"+port+path
	jar.DeviceName, jar.DoneName = prefix+"_device"+port+path, prefix+"_done"+port+path
	jar.StepName = prefix + "_step" + port + path
	return jar
}

// CookiesOf returns the cookies of the address that a request was sent to.
func (s *Site) CookiesOf(r *http.Request) cookieJar {
	if s.hosts == nil || !s.hosts.AsAsked {
		return s.address.Load().cookies
	}
	return newCookieJar(&url.URL{Scheme: s.Proxies.scheme(r), Host: r.Host})
}

// Set sends a session cookie. It is Lax, because the client's site sends the
// browser here.
func (j cookieJar) Set(w http.ResponseWriter, name, value string) {
	http.SetCookie(w, &http.Cookie{Name: name, Value: value, Path: "/", HttpOnly: true, Secure: j.Secure,
		SameSite: http.SameSiteLaxMode})
}

// Clear removes a cookie from the browser.
func (j cookieJar) Clear(w http.ResponseWriter, name string) {
	http.SetCookie(w, &http.Cookie{Name: name, Path: "/", HttpOnly: true, Secure: j.Secure,
		SameSite: http.SameSiteLaxMode, MaxAge: -1})
}

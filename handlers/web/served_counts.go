package web

import (
	"strings"

	"tollhouse/store/stats"
)

// counted is what the plots count of a request: who calls the API or signs in, not who
// monitors or operates the server.
func (s *Served) counted(on listener) stats.Request {
	r := stats.Request{Served: on == publicListener && !s.isMonitoring() && !s.isOperating(), Timed: !s.Waited, Took: s.Took, SignIn: stats.NoSignIn, Grant: stats.NoGrant}
	switch {
	case s.Status >= 500:
		r.Class = stats.Status5xx
	case s.Status >= 400:
		r.Class = stats.Status4xx
	}
	switch s.SignIn {
	case "", SignInFailed, SecondFactorAsked: // is none, or is not whole yet
	case SignInRight:
		r.SignIn = stats.SignInRight
	case SignInThrottled, SecondFactorThrottled:
		r.SignIn = stats.SignInThrottled
	default:
		r.SignIn = stats.SignInRefused
	}
	if s.Code == "" && s.Status < 400 {
		switch s.GrantType {
		case "refresh_token":
			r.Grant = stats.GrantRefresh
		case "authorization_code":
			r.Grant = stats.GrantCode
		case "password":
			r.Grant = stats.GrantPassword
		case "client_credentials":
			r.Grant = stats.GrantClient
		}
	}
	return r
}

// isOperating reports whether the request is for the desk or a static file.
func (s *Served) isOperating() bool {
	for _, prefix := range []string{"/desk", "/static/"} {
		if strings.HasPrefix(s.Route, prefix) {
			return true
		}
	}
	return false
}

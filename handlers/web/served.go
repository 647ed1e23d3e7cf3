package web

import (
	"context"
	"slices"
	"time"

	"tollhouse/store"
)

// ClientRefused is the reason of every failed client authentication in the audit record.
const ClientRefused = "unknown_or_disabled_client_or_wrong_secret"

// Served is one finished request, for metrics. All its texts are from fixed sets, never
// the caller's.
type Served struct {
	Route  string // template of the route, or "(none)"
	Method string // or "OTHER"
	Status int
	Took   time.Duration
	Waited bool // waited for events: its duration is the caller's choice
	// GrantType is that of a token request, "none" if it names no grant that its
	// client has, and "" for other requests.
	GrantType string
	Code      string // error code, or ""
	Refusal   string // why a client, code or token was refused, as in the audit record, or ""
	SignIn    SignIn // result of the check of a password or a user's code, or ""
	Throttled bool   // refused because it came too soon
}

// SignIn is the result of the check of a password, or of a refused code for a new one.
type SignIn string

// The outcomes of sign-ins. Those of refused ones are the reasons in the audit record.
const (
	SignInRight     SignIn = "right"
	SignInThrottled SignIn = "throttled" // not checked: too soon
	SignInFailed    SignIn = "failed"    // not checked: the server could not

	UnknownUser     = "unknown_user"
	UserDisabled    = "user_disabled"
	AccountDisabled = "account_disabled"
	WrongPassword   = "wrong_password"
	NoPassword      = "no_password" // a code is not redeemed yet
	WrongCode       = "wrong_code"
	ExpiredCode     = "expired_code"
	SpentCodeOrNone = "spent_code_or_none"

	SecondFactorAsked     = "second_factor_asked" // the password was right
	WrongSecondFactor     = "wrong_second_factor"
	SecondFactorThrottled = "second_factor_throttled" // not checked: too soon
	SecondFactorNeeded    = "second_factor_needed"    // a password grant
)

const (
	noRoute = "(none)"
	NoGrant = "none"
)

// Outcomes returns what metrics count: each value of their labels has a Served, with nothing
// else in it. A series that appears with its first event has no increase for Prometheus, so
// metrics have all of them from the start.
func (s *Site) Outcomes() []Served {
	all := slices.Clone(s.counted)
	for _, outcome := range []SignIn{SignInRight, SignInThrottled, SignInFailed, UnknownUser, UserDisabled,
		AccountDisabled, WrongPassword, NoPassword, WrongCode, ExpiredCode, SpentCodeOrNone,
		SecondFactorAsked, WrongSecondFactor, SecondFactorThrottled, SecondFactorNeeded} {
		all = append(all, Served{SignIn: outcome})
	}
	for _, grant := range []store.Grant{store.GrantPassword, store.GrantAuthorizationCode, store.GrantRefreshToken,
		store.GrantClientCredentials} {
		all = append(all, Served{GrantType: string(grant)})
		for _, reason := range store.RefusalReasons() {
			all = append(all, Served{GrantType: string(grant), Refusal: reason})
		}
	}
	return append(all, Served{GrantType: NoGrant, Refusal: ClientRefused})
}

// Count adds a route with its methods to the Outcomes.
func (s *Site) Count(route string, methods ...string) {
	for _, method := range methods {
		s.counted = append(s.counted, Served{Route: route, Method: method})
	}
}

// OutcomeOf returns the request's Served, to fill in.
func OutcomeOf(ctx context.Context) *Served { return &FactsFrom(ctx).Served }

// isMonitoring reports whether the request is a health check or a scrape.
func (s *Served) isMonitoring() bool {
	switch s.Route {
	case "/healthz", "/readyz", "/metrics":
		return true
	}
	return false
}

package server

import (
	"context"
	"net/url"
	"slices"

	"tollhouse/cli/term"
	"tollhouse/handlers/web"
	"tollhouse/store"
)

// factors reports second factors that cannot be used. It reports nothing if there are none.
func (u checkup) factors(ctx context.Context) {
	const check = "second-factor"
	host := u.passkeyHost()
	n, err := u.data.Store.CountFactors(ctx, host)
	if err != nil {
		u.report(problemReading(check, err))
		return
	}
	if n.Users > 0 && u.data.Store.SecondFactor() == store.FactorOff {
		u.report(warningOf(check, "start without --second-factor off", "%s not asked for it", haveFactor(n.Users)))
	}
	if n.Elsewhere > 0 && host != "" {
		u.report(warningOf(check, "they sign in with a recovery code and add a passkey here, or: tollhouse user reset-second-factor NAME",
			"%s only passkeys of another host than %s", usersHave(n.Elsewhere), host))
	}
	if n.Sealed > 0 {
		u.report(warningOf(check, "put the old server key back, or let them sign in with a recovery code or passkey and set up the app again",
			"%s an app whose codes cannot be checked: another server key sealed its secret", usersHave(n.Sealed)))
	}
}

// operatorFactors warns of operators who open the desk with the password alone, from elsewhere.
func (u checkup) operatorFactors(ctx context.Context) {
	const check = "second-factor"
	if u.server == nil || u.server.config.desk == nil || !u.server.config.answersElsewhere() {
		return
	}
	without := 0
	for after := ""; ; {
		page, err := u.data.Store.ListUsersByID(ctx, "", after, checkedUsers)
		if err != nil {
			u.report(problemReading(check, err))
			return
		}
		for _, user := range page {
			if user.Operator && user.MaySignIn() && !user.HasFactor() && !u.data.Store.MustHaveFactor(user) {
				without++
			}
		}
		if len(page) < checkedUsers {
			break
		}
		after = page[len(page)-1].Subject()
	}
	if without > 0 {
		have := term.Count(int64(without), "operator", "operators") + " have"
		if without == 1 {
			have = "1 operator has"
		}
		u.report(warningOf(check, "set one up at /account/second-factor, or start with --second-factor operators", "the desk answers beyond this machine, and %s no second factor", have))
	}
}

const checkedUsers = 500 // read in one page

// answersElsewhere reports whether requests may come from other machines, directly or by a proxy.
func (c serverConfig) answersElsewhere() bool {
	return c.publicURL != nil && !web.IsLoopbackHost(c.publicURL.Hostname()) || slices.ContainsFunc(c.listen, func(addr string) bool { return !isLoopbackAddress(addr) })
}

// passkeyHost is the host that passkeys are asked for; "" if no server runs.
func (u checkup) passkeyHost() string {
	if u.server == nil {
		return ""
	}
	public, err := url.Parse(u.server.server().Site.PublicURL)
	if err != nil {
		return ""
	}
	if host := public.Hostname(); !web.IsLoopbackHost(host) {
		return host
	}
	return "localhost"
}

func usersHave(n int) string {
	if n == 1 {
		return "1 user has"
	}
	return term.Count(int64(n), "user", "users") + " have"
}

func haveFactor(n int) string {
	if n == 1 {
		return "1 user has a second factor and is"
	}
	return term.Count(int64(n), "user", "users") + " have a second factor and are"
}

package server

import (
	"context"
	"net/url"

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

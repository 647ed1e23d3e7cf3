package server

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"

	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
	"tollhouse/handlers/web"
	"tollhouse/store"
)

// factors reports second factors that are missing or cannot be used. It reports nothing if there are
// none.
func (u checkup) factors(ctx context.Context, depth admin.Depth) {
	of := u.factorRows
	if depth == admin.DepthKept {
		of = u.keptFactorRows
	}
	found, err := of(ctx)
	if err != nil {
		u.report(problemReading(factorsOff.check, err))
		return
	}
	for _, l := range found {
		u.report(l.finding(l.next, "%s", l.text))
	}
}

// factorRows reads the second factors and, if the desk answers beyond this machine, the users.
func (u checkup) factorRows(ctx context.Context) (found []lasting, err error) {
	host := u.passkeyHost()
	n, err := u.data.Store.CountFactors(ctx, host)
	if err != nil {
		return nil, err
	}
	if n.Users > 0 && u.data.Store.SecondFactor() == store.FactorOff {
		found = append(found, factorsOff.now(haveFactor(n.Users))...)
	}
	if n.Elsewhere > 0 && host != "" {
		found = append(found, factorsElsewhere.now(usersHave(n.Elsewhere), host)...)
	}
	if n.Sealed > 0 {
		found = append(found, factorsSealed.now(usersHave(n.Sealed))...)
	}
	without, err := u.operatorsWithout(ctx)
	if without > 0 {
		have := term.Count(int64(without), "operator", "operators") + " have"
		if without == 1 {
			have = "1 operator has"
		}
		found = append(found, factorsMissing.now(have)...)
	}
	return found, err
}

// operatorsWithout counts the operators who open the desk with the password alone, from elsewhere.
func (u checkup) operatorsWithout(ctx context.Context) (without int, err error) {
	if u.server == nil || u.server.config.desk == nil || !u.answersElsewhere() {
		return 0, nil
	}
	for after := ""; ; {
		page, err := u.data.Store.ListUsersByID(ctx, "", after, checkedUsers)
		if err != nil {
			return 0, err
		}
		for _, user := range page {
			if user.Operator && user.MaySignIn() && !user.HasFactor() && !u.data.Store.MustHaveFactor(user) {
				without++
			}
		}
		if len(page) < checkedUsers {
			return without, nil
		}
		after = page[len(page)-1].Subject()
	}
}

// keptRows are rows that take a read of all users. What looks often sees them some minutes old.
type keptRows struct {
	mu   sync.Mutex
	at   time.Time
	list []lasting
	err  error
}

const (
	factorsKept    = 10 * time.Minute
	factorsReadMax = time.Second // for what looks often
)

// keptFactorRows is factorRows for what looks often, with its result of the last minutes.
func (u checkup) keptFactorRows(ctx context.Context) ([]lasting, error) {
	if u.server == nil {
		return nil, nil
	}
	k := &u.server.factors
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.at.IsZero() || time.Since(k.at) >= factorsKept {
		limited, cancel := context.WithTimeout(ctx, factorsReadMax)
		defer cancel()
		k.list, k.err = u.factorRows(limited)
		k.at = time.Now()
		if ctx.Err() != nil { // the caller is gone, which says nothing of the store
			k.at = time.Time{}
		}
	}
	if k.err != nil {
		return nil, fmt.Errorf("%w: %w", errNotYet, k.err)
	}
	return k.list, nil
}

const checkedUsers = 500 // read in one page

// answersElsewhere reports whether requests to the running server may come from other machines,
// directly or by a proxy.
func (u checkup) answersElsewhere() bool {
	return u.passkeyHost() != "localhost" || slices.ContainsFunc(u.server.config.listen, func(addr string) bool { return !isLoopbackAddress(addr) })
}

// passkeyHost is the host that passkeys are asked for; "" if no server runs.
func (u checkup) passkeyHost() string {
	if u.server == nil {
		return ""
	}
	public, err := url.Parse(u.server.server().Site.PublicURL())
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

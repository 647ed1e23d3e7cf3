package proof

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/oauth2"
)

const (
	familiesPerWriter = 3
	// A refresh token that was spent can be tried only once, as it ends its family: each
	// eighth check of a writer tries one of a family, and begins another.
	checksPerReplay = 8
	spentMax        = 64 // spent refresh tokens of a family that are kept, by chance
	burntMax        = 64 // and codes of a writer, each tried once before
	// graceSafe is within the 30 s in which a spent refresh token gives the
	// same pair again, with room for a slow machine.
	graceSafe = 15 * time.Second
	// codeSafe is within the 60 s that a code lives.
	codeSafe = 40 * time.Second
	// replaySafe is beyond the 10 s in which a replay revokes nothing.
	replaySafe = 11 * time.Second
)

// family is what one authorization has led to, as far as it was acknowledged.
type family struct {
	current   tokens
	previous  string // the refresh token that current was given for; "" at first
	rotatedAt time.Time
	spent     []string // refresh tokens before previous
	unproven  []string // access tokens acknowledged since the last check
	pending   bool     // current.Refresh was sent, and the answer was lost
}

// familyWriter rotates the refresh tokens of a few families.
type familyWriter struct {
	families []*family
	checks   int
}

func (w *familyWriter) write(ctx context.Context, l *ledger, r *rand.Rand) error {
	f := w.families[r.IntN(len(w.families))]
	p, a, err := l.grant(ctx, "refresh_token", "refresh_token", f.current.Refresh)
	switch {
	case err != nil:
		f.pending = true
		return err
	case l.refusedBusy(a):
		return nil
	case p.Access == "":
		return fmt.Errorf("rotation of a live refresh token: %s", a)
	}
	l.acknowledge()
	f.rotate(p)
	return nil
}

// prepare begins the families. A password takes longer to check than a hundred
// rotations, so it is done before the clock of the first kill runs.
func (w *familyWriter) prepare(ctx context.Context, l *ledger) error {
	for range familiesPerWriter {
		f, err := newFamily(ctx, l)
		if err != nil {
			return err
		}
		w.families = append(w.families, f)
	}
	return nil
}

func newFamily(ctx context.Context, l *ledger) (*family, error) {
	var p tokens
	var a answer
	err := l.whileBusy(func() (status int, err error) {
		p, a, err = l.grant(ctx, "password", "username", l.username, "password", l.password)
		return a.status, err
	})
	if err != nil || p.Access == "" {
		return nil, fmt.Errorf("password grant: %s, %w", a, err)
	}
	l.acknowledge()
	return &family{current: p, unproven: []string{p.Access}}, nil
}

func (f *family) rotate(p tokens) {
	if f.previous != "" {
		f.spent = keep(f.spent, f.previous, spentMax)
	}
	f.previous, f.current, f.rotatedAt, f.pending = f.current.Refresh, p, time.Now(), false
	f.unproven = append(f.unproven, p.Access)
}

// keep adds to a list that has at most so many, in place of any of them.
func keep[T any](list []T, one T, most int) []T {
	if len(list) < most {
		return append(list, one)
	}
	list[rand.IntN(most)] = one
	return list
}

func (w *familyWriter) check(ctx context.Context, l *ledger) error {
	for _, f := range w.families {
		if err := f.check(ctx, l); err != nil {
			return err
		}
	}
	w.checks++
	if w.checks%checksPerReplay != 0 {
		return nil
	}
	at := w.checks / checksPerReplay % len(w.families)
	if err := w.families[at].replay(ctx, l); err != nil {
		return err
	}
	var err error
	w.families[at], err = newFamily(ctx, l)
	return err
}

func (f *family) check(ctx context.Context, l *ledger) error {
	for _, access := range f.unproven {
		live, err := l.lives(ctx, access)
		if err != nil {
			return err
		}
		if !live {
			return l.missing("an acknowledged access token is dead")
		}
	}
	f.unproven = nil
	if f.pending {
		return f.settle(ctx, l)
	}
	if f.previous == "" || time.Since(f.rotatedAt) > graceSafe {
		return nil
	}
	return f.expectPair(ctx, l, f.previous, f.current)
}

// settle sends the rotation whose answer was lost once more. Whether or not it
// had happened, it gives a pair, and gives that pair again.
func (f *family) settle(ctx context.Context, l *ledger) error {
	p, a, err := l.grant(ctx, "refresh_token", "refresh_token", f.current.Refresh)
	if err != nil {
		return err
	}
	if p.Access == "" {
		return l.missing("a rotation whose answer was lost, sent again: %s", a)
	}
	f.rotate(p)
	return f.expectPair(ctx, l, f.previous, p)
}

func (f *family) expectPair(ctx context.Context, l *ledger, refresh string, want tokens) error {
	p, a, err := l.grant(ctx, "refresh_token", "refresh_token", refresh)
	if err != nil {
		return err
	}
	if !p.same(want) {
		return l.missing("an acknowledged rotation, asked for again within the grace, does not give the pair that was acknowledged: status %d %s", a.status, a.errorCode())
	}
	return nil
}

// replay tries a spent refresh token of each family.
func (w *familyWriter) replay(ctx context.Context, l *ledger) error {
	for _, f := range w.families {
		if err := f.replay(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

// replay tries a refresh token that was spent before the last one was: it gives
// nothing, and ends the family.
func (f *family) replay(ctx context.Context, l *ledger) error {
	if len(f.spent) == 0 {
		return nil
	}
	_, a, err := l.grant(ctx, "refresh_token", "refresh_token", f.spent[len(f.spent)/2])
	if err != nil {
		return err
	}
	l.replayed.Add(1)
	if !a.refused(http.StatusBadRequest, "invalid_grant") {
		return l.accepted("a refresh token that was spent long ago: status %d, want 400 invalid_grant", a.status)
	}
	if live, err := l.lives(ctx, f.current.Access); err != nil || live {
		return l.accepted("after the replay of a refresh token its family lives on (%v)", err)
	}
	return nil
}

// code is an authorization code that was acknowledged: the browser was sent on
// with it.
type code struct {
	value, verifier string // no verifier: without PKCE
	issuedAt        time.Time
	access          string // what it was redeemed for, if that was acknowledged
	redeemedAt      time.Time
}

// codeWriter walks through consent in a browser session of its own, and redeems
// most of the codes it gets.
type codeWriter struct {
	browser *http.Client
	open    []code // not redeemed
	unknown []code // sent, and the answer was lost
	fresh   []code // redeemed since the last check
	burnt   []code // some of those that were redeemed before
}

func (w *codeWriter) write(ctx context.Context, l *ledger, r *rand.Rand) error {
	c, err := w.obtain(ctx, l, r.IntN(2) == 0)
	if err != nil || c.value == "" {
		return err
	}
	l.acknowledge()
	const openMax = 3
	if len(w.open) < openMax && r.IntN(4) == 0 {
		w.open = append(w.open, c)
		return nil
	}
	p, a, err := w.redeem(ctx, l, c)
	switch {
	case err != nil:
		w.unknown = append(w.unknown, c)
		return err
	case l.refusedBusy(a):
		w.open = append(w.open, c)
		return nil
	case p.Access == "":
		return fmt.Errorf("redemption of a fresh code: %s", a)
	}
	l.acknowledge()
	c.access, c.redeemedAt = p.Access, time.Now()
	w.fresh = append(w.fresh, c)
	return nil
}

// authorize returns what a client asks the browser to open.
func (c code) authorize(l *ledger) string {
	q := url.Values{"client_id": {l.ID}, "response_type": {"code"}, "redirect_uri": {callbackURI}}
	if c.verifier != "" {
		q.Set("code_challenge", oauth2.S256ChallengeFromVerifier(c.verifier))
		q.Set("code_challenge_method", "S256")
	}
	return l.base + "/oauth/v2/auth?" + q.Encode()
}

// prepare signs in, which takes as long as a password grant does.
func (w *codeWriter) prepare(ctx context.Context, l *ledger) error {
	var err error
	if w.browser, err = newVisitorClient(l.http.Transport); err != nil {
		return err
	}
	seen, err := openPage(ctx, w.browser, code{}.authorize(l))
	if err != nil {
		return err
	}
	signIn := seen
	err = l.whileBusy(func() (status int, err error) {
		seen, err = submitPage(ctx, w.browser, signIn, "username", l.username, "password", l.password)
		return seen.status, err
	})
	if err == nil && seen.field("ticket") == "" {
		err = fmt.Errorf("a sign-in leads to status %d and no consent screen", seen.status)
	}
	return err
}

// obtain allows a request and returns its code.
func (w *codeWriter) obtain(ctx context.Context, l *ledger, pkce bool) (code, error) {
	w.browser.Transport = l.http.Transport
	c := code{issuedAt: time.Now()}
	if pkce {
		c.verifier = oauth2.GenerateVerifier()
	}
	seen, err := openPage(ctx, w.browser, c.authorize(l))
	if err == nil && seen.field("ticket") != "" {
		seen, err = submitPage(ctx, w.browser, seen, "decision", "allow")
	}
	if err != nil {
		return code{}, err
	}
	if l.refusedBusy(answer{status: seen.status}) {
		return code{}, nil
	}
	to, err := url.Parse(seen.location)
	if err != nil || to.Query().Get("code") == "" {
		return code{}, fmt.Errorf("consent leads to status %d and %q, want a code:\n%s", seen.status, seen.location, seen.body)
	}
	c.value = to.Query().Get("code")
	return c, nil
}

func (w *codeWriter) redeem(ctx context.Context, l *ledger, c code) (tokens, answer, error) {
	fields := []string{"code", c.value, "redirect_uri", callbackURI}
	if c.verifier != "" {
		fields = append(fields, "code_verifier", c.verifier)
	}
	return l.grant(ctx, "authorization_code", fields...)
}

func (w *codeWriter) check(ctx context.Context, l *ledger) error {
	for _, c := range w.open {
		if time.Since(c.issuedAt) > codeSafe {
			continue
		}
		p, a, err := w.redeem(ctx, l, c)
		if err != nil {
			return err
		}
		if p.Access == "" {
			return l.missing("an acknowledged code that was never redeemed: %s", a)
		}
		c.access, c.redeemedAt = p.Access, time.Now()
		w.fresh = append(w.fresh, c)
	}
	for _, c := range w.unknown {
		p, a, err := w.redeem(ctx, l, c)
		if err != nil {
			return err
		}
		// It had happened or it had not; either way it is burnt from here on.
		if p.Access == "" && !a.refused(http.StatusBadRequest, "invalid_grant") {
			return fmt.Errorf("a redemption whose answer was lost, sent again: %s", a)
		}
	}
	for _, c := range w.fresh {
		live, err := l.lives(ctx, c.access)
		if err != nil {
			return err
		}
		if !live {
			return l.missing("the access token of an acknowledged redemption is dead")
		}
	}
	for _, c := range append(w.unknown, w.fresh...) {
		if err := w.burn(ctx, l, c); err != nil {
			return err
		}
		w.burnt = keep(w.burnt, c, burntMax)
	}
	w.open, w.unknown, w.fresh = nil, nil, nil
	return w.stillSignedIn(ctx, l)
}

// stillSignedIn holds the browser's session to having survived.
func (w *codeWriter) stillSignedIn(ctx context.Context, l *ledger) error {
	w.browser.Transport = l.http.Transport
	seen, err := openPage(ctx, w.browser, code{}.authorize(l))
	if err != nil {
		return err
	}
	if seen.field("ticket") == "" {
		return l.missing("the session of a sign-in is gone: status %d and no consent screen", seen.status)
	}
	return nil
}

// replay tries burnt codes of all lives once more.
func (w *codeWriter) replay(ctx context.Context, l *ledger) error {
	for _, c := range w.burnt {
		if err := w.burn(ctx, l, c); err != nil {
			return err
		}
	}
	return nil
}

// burn tries a code that was redeemed. More than ten seconds after that it takes its tokens
// with it.
func (w *codeWriter) burn(ctx context.Context, l *ledger, c code) error {
	began := time.Now()
	_, a, err := w.redeem(ctx, l, c)
	if err != nil {
		return err
	}
	l.replayed.Add(1)
	if !a.refused(http.StatusBadRequest, "invalid_grant") {
		return l.accepted("a burnt code: status %d, want 400 invalid_grant", a.status)
	}
	if c.access == "" || began.Sub(c.redeemedAt) <= replaySafe {
		return nil
	}
	if live, err := l.lives(ctx, c.access); err != nil || live {
		return l.accepted("after the replay of a code its tokens live on (%v)", err)
	}
	return nil
}

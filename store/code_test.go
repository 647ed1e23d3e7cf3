package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// Promise (Browsers): a decision counts once: the same one again leads to the same place with the
// same code, at any server, while the code lives; then a page says what was decided; a user
// disabled in between allows nothing
func TestAllow(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	t.Run("a_ticket_gives_one_code_and_the_same_answer_again_the_same_one", func(t *testing.T) {
		g := parallelGrant(t)
		c := g.consent("")
		code := must.Get(g.Allow(ctx, c))(t)
		g.Clock.Advance(lives.Code - tick)
		g.unchanged(t, func() {
			if again := must.Get(g.Allow(ctx, c))(t); !again.Equal(code) {
				t.Error("Allow(the same ticket) returned another code")
			}
			_, err := g.Deny(ctx, c)
			refused(t, "Deny(allowed ticket)", err, record.ErrReplayed)
		})
		if n := g.Count(t, 'k'); n != 1 {
			t.Errorf("%d codes are kept, want 1", n)
		}
		if other := must.Get(g.Allow(ctx, g.consent("")))(t); other.Equal(code) {
			t.Error("another ticket gave the same code")
		}
		must.Get(g.redeem(code, ""))(t)
	})
	t.Run("no_code_comes_back_that_cannot_be_redeemed", func(t *testing.T) {
		for name, end := range map[string]func(g grant, code secret.Token){
			"redeemed": func(g grant, code secret.Token) { must.Get(g.redeem(code, ""))(t) },
			"expired":  func(g grant, _ secret.Token) { g.Clock.Advance(lives.Code) },
			"revoked":  func(g grant, _ secret.Token) { must.Do(t, g.RevokeGranted(ctx, store.By{}, g.user, g.client.ID)) },
		} {
			g := newGrant(t)
			c := g.consent("")
			end(g, must.Get(g.Allow(ctx, c))(t))
			g.unchanged(t, func() {
				_, err := g.Allow(ctx, c)
				refused(t, name+": Allow() again", err, record.ErrExpired)
				_, err = g.Deny(ctx, c)
				refused(t, name+": Deny() after Allow()", err, record.ErrReplayed)
			})
		}
	})
	t.Run("of_64_at_once_all_get_one_code", func(t *testing.T) {
		g := parallelGrant(t)
		c := g.consent("")
		codes, errs := together(func() (secret.Token, error) { return g.Allow(ctx, c) })
		for i, code := range codes {
			if errs[i] != nil || !code.Equal(codes[0]) {
				t.Fatalf("Allow() = another code: %t, %v; want one code", !code.Equal(codes[0]), errs[i])
			}
		}
		if n := g.Count(t, 'k'); n != 1 {
			t.Errorf("%d codes are kept, want 1", n)
		}
	})
	t.Run("deny_keeps_no_code_and_decides", func(t *testing.T) {
		g := parallelGrant(t)
		c := g.consent("")
		for _, repeated := range []bool{false, true} {
			if again := must.Get(g.Deny(ctx, c))(t); again != repeated {
				t.Errorf("Deny() = repeated: %t, want %t", again, repeated)
			}
		}
		_, err := g.Allow(ctx, c)
		refused(t, "Allow(denied ticket)", err, record.ErrReplayed)
		if n := g.Count(t, 'k'); n != 0 {
			t.Errorf("%d codes are kept, want none", n)
		}
	})
	t.Run("neither_the_store_nor_the_ticket_yields_the_code", func(t *testing.T) {
		g := parallelGrant(t)
		c := g.consent("")
		code := must.Get(g.Allow(ctx, c))(t)
		other := must.Get(store.Open(ctx, g.DB, store.Options{Now: g.Clock.Now, Key: secret.NewKey(nil), Lifetimes: lives}))(t)
		if again, err := other.Allow(ctx, c); err == nil || again.Equal(code) {
			t.Errorf("a server with another key gave the code for the ticket and the store: %v", err)
		}
	})
	t.Run("of_an_ended_client_or_user_is_refused", func(t *testing.T) {
		g := parallelGrant(t)
		c := g.consent("")
		must.Get(g.SetPassword(ctx, "mara", "another long phrase"))(t)
		_, err := g.Allow(ctx, c)
		refused(t, "Allow()", err, record.ErrDisabled)
		if n := g.Count(t, 'k') + g.Count(t, 'd'); n != 0 {
			t.Errorf("%d records were written, want none", n)
		}
	})
}

// Promise (RFC 6749 §4): a code gives tokens; a code survives a wrong redirect URI; a code survives
// another client's attempt; a failed check uses up nothing
// Promise (RFC 6749 §4): a code expires after 60 seconds; a second use of a code is refused; a
// second use also revokes the family, except within ten seconds of the first use by the same
// client, with PKCE or without
// Promise (RFC 9700 §4.5, §4.14): an expired code; a used code
func TestRedeemCode(t *testing.T) {
	t.Parallel()
	t.Run("gives_the_first_pair_of_a_family", func(t *testing.T) {
		g := parallelGrant(t)
		issued := must.Get(g.redeem(g.allow(t, challenge), verifier))(t)
		if issued.FamilyID == g.first.FamilyID || !g.accessLives(t, issued) {
			t.Error("RedeemCode() gave no living pair of a new family")
		}
		g.mustRefresh(t, issued)
	})
	t.Run("refused_without_being_burnt", redeemOfAnother)
	t.Run("dies_after_a_minute", redeemOfExpired)
	t.Run("replay_revokes_the_family", redeemAgain)
	t.Run("of_an_ended_party_is_refused", redeemOfEnded)
}

func redeemOfEnded(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	cases := []struct {
		name string
		end  func(g grant) error
	}{
		{"user_disabled_and_enabled", func(g grant) error {
			_, err := g.DisableUser(ctx, "mara")
			_, again := g.EnableUser(ctx, "mara")
			return errors.Join(err, again)
		}},
		{"password_reset", func(g grant) error { _, err := g.SetPassword(ctx, "mara", "another long phrase"); return err }},
		{"user_deleted", func(g grant) error { return g.DeleteUser(ctx, "mara") }},
		{"client_disabled_and_enabled", func(g grant) error {
			_, err := g.DisableClient(ctx, g.client.ID)
			_, again := g.EnableClient(ctx, g.client.ID)
			return errors.Join(err, again)
		}},
		{"client_secret_rotated_with_revoke", func(g grant) error { _, _, err := g.RotateClientSecret(ctx, g.client.ID, true); return err }},
		{"client_deleted", func(g grant) error { return g.DeleteClient(ctx, g.client.ID) }},
		{"account_disabled", func(g grant) error { _, err := g.DisableAccount(ctx, "acct_larkspur"); return err }},
		{"account_disabled_and_enabled", func(g grant) error {
			_, err := g.DisableAccount(ctx, "acct_larkspur")
			_, again := g.EnableAccount(ctx, "acct_larkspur")
			return errors.Join(err, again)
		}},
		{"account_revoked", func(g grant) error { _, err := g.RevokeAccount(ctx, "acct_larkspur"); return err }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g := parallelGrant(t)
			code := g.allow(t, "")
			must.Do(t, c.end(g))
			_, err := g.redeem(code, "")
			refused(t, "RedeemCode()", err, record.ErrDisabled)
		})
	}
}

func redeemOfAnother(t *testing.T) {
	g := parallelGrant(t)
	other, _ := g.Client(t)
	long := strings.Repeat("a", 128)
	cases := []struct {
		name      string
		challenge string
		change    func(r *store.Redemption)
	}{
		{"another_client", "", func(r *store.Redemption) { r.Client = other }},
		{"another_redirect_uri", "", func(r *store.Redemption) { r.RedirectURI = "https://app.example/cb2" }},
		{"no_redirect_uri", "", func(r *store.Redemption) { r.RedirectURI = "" }},
		{"verifier_without_challenge", "", func(r *store.Redemption) { r.Verifier = verifier }},
		{"challenge_without_verifier", challenge, func(*store.Redemption) {}},
		{"wrong_verifier", challenge, func(r *store.Redemption) { r.Verifier = verifier[:42] + "X" }},
		{"verifier_of_42", secret.S256(long[:42]), func(r *store.Redemption) { r.Verifier = long[:42] }},
		{"verifier_of_129", secret.S256(long + "a"), func(r *store.Redemption) { r.Verifier = long + "a" }},
		{"verifier_of_another_alphabet", secret.S256(long[:42] + "!"), func(r *store.Redemption) { r.Verifier = long[:42] + "!" }},
		{"the_challenge_itself", challenge, func(r *store.Redemption) { r.Verifier = challenge }},
	}
	for _, c := range cases {
		code := g.allow(t, c.challenge)
		r := store.Redemption{Client: g.client, Code: code, RedirectURI: storetest.CallbackURI}
		c.change(&r)
		g.unchanged(t, func() {
			_, err := g.RedeemCode(context.Background(), r)
			refused(t, c.name+": RedeemCode()", err, record.ErrMismatch)
		})
	}
	for _, size := range []int{43, 128} { // these pass
		if _, err := g.redeem(g.allow(t, secret.S256(long[:size])), long[:size]); err != nil {
			t.Errorf("RedeemCode(verifier of %d) = %v, want a pair", size, err)
		}
	}
}

func redeemOfExpired(t *testing.T) {
	g := parallelGrant(t)
	if lives.Code > 10*time.Minute {
		t.Errorf("a code lives %v, want at most 10m (RFC 6749 §4.1.2)", lives.Code)
	}
	code := g.allow(t, "")
	g.Clock.Advance(lives.Code)
	g.unchanged(t, func() {
		_, err := g.redeem(code, "")
		refused(t, "RedeemCode() at its end", err, record.ErrExpired)
	})
	g.Clock.Advance(-tick)
	if _, err := g.redeem(code, ""); err != nil {
		t.Errorf("RedeemCode() just before its end = %v, want a pair", err)
	}
	_, err := store.Open(context.Background(), g.DB, store.Options{Now: g.Clock.Now, Key: g.Key, Lifetimes: longCodes()})
	if err == nil {
		t.Error("Open(codes of 11m) = nil, want a refusal")
	}
}

// A code whose family went with its user was used all the same.
func TestRedeemedCodeOfADeletedUserIsReplayed(t *testing.T) {
	g := parallelGrant(t)
	code := g.allow(t, "")
	must.Get(g.redeem(code, ""))(t)
	must.Do(t, g.DeleteUser(t.Context(), "mara"))
	g.unchanged(t, func() {
		_, err := g.redeem(code, "")
		refused(t, "RedeemCode() of a deleted user", err, record.ErrReplayed)
	})
}

func TestLifetimesHaveBounds(t *testing.T) {
	t.Parallel()
	f := storetest.New(t)
	for name, change := range map[string]func(*store.Lifetimes){
		"codes_for_longer_than_10m":      func(l *store.Lifetimes) { l.Code = 10*time.Minute + 1 },
		"a_grace_beyond_an_access_token": func(l *store.Lifetimes) { l.RefreshGrace = l.AccessToken + 1 },
		"access_tokens_of_no_time":       func(l *store.Lifetimes) { l.AccessToken, l.RefreshGrace = time.Second-1, 0 },
		"refresh_tokens_of_no_time":      func(l *store.Lifetimes) { l.RefreshToken = 0 },
		"families_of_no_time":            func(l *store.Lifetimes) { l.Family = -time.Hour },
		"codes_of_no_time":               func(l *store.Lifetimes) { l.Code = 0 },
		"sessions_of_no_time":            func(l *store.Lifetimes) { l.Session = 0 },
		"idle_sessions_of_no_time":       func(l *store.Lifetimes) { l.SessionIdle = 0 },
		"consent_screens_of_no_time":     func(l *store.Lifetimes) { l.Ticket = 0 },
	} {
		l := store.DefaultLifetimes()
		change(&l)
		_, err := store.Open(t.Context(), f.DB, store.Options{Now: f.Clock.Now, Key: f.Key, Lifetimes: l})
		if invalid, is := errors.AsType[*record.InvalidError](err); !is || invalid.Hint == "" {
			t.Errorf("%s: Open() = %v, want a refusal with the next step", name, err)
		}
	}
}

func longCodes() store.Lifetimes {
	l := store.DefaultLifetimes()
	l.Code = 11 * time.Minute
	return l
}

func redeemAgain(t *testing.T) {
	t.Parallel()
	const doubleFire = 10 * time.Second
	cases := []struct {
		name      string
		challenge string
		verifier  string
		later     time.Duration
		revoked   bool
	}{
		{"within_ten_seconds_without_pkce", "", "", doubleFire, false},
		{"after_ten_seconds_without_pkce", "", "", doubleFire + tick, true},
		{"within_ten_seconds_with_pkce", challenge, verifier, doubleFire, false},
		{"after_ten_seconds_with_pkce", challenge, verifier, doubleFire + tick, true},
		{"after_the_code_has_expired", "", "", 2 * lives.Code, true},
		{"nearly_a_day_later", challenge, verifier, 24*time.Hour - tick, true},
		{"with_the_clock_set_back", challenge, verifier, -time.Hour, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g := parallelGrant(t)
			code := g.allow(t, c.challenge)
			issued, err := g.redeem(code, c.verifier)
			must.Do(t, err)
			second := g.mustRefresh(t, issued)
			g.Clock.Advance(c.later)
			_, err = g.redeem(code, c.verifier)
			refused(t, "RedeemCode(used)", err, record.ErrReplayed)
			if c.revoked {
				g.familyIsDead(t, issued, second)
				return
			}
			if !g.accessLives(t, issued) || !g.accessLives(t, second) {
				t.Error("a double-firing page revoked its family, want it alive")
			}
		})
	}
}

// Promise (RFC 6749 §10): tokens have 256 random bits; tokens are opaque, with a prefix for their
// kind
func TestSecretsDiffer(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	t.Run("no_two_in_a_million", func(t *testing.T) {
		t.Parallel()
		const count = 1_000_000
		seen := make(map[secret.Hash]struct{}, count)
		for i := range count {
			kind := []secret.Kind{secret.AccessToken, secret.RefreshToken, secret.Code, secret.ClientSecret}[i%4]
			seen[secret.New(nil, kind).Hash()] = struct{}{}
		}
		if len(seen) != count {
			t.Errorf("%d of %d tokens are alike, want none", count-len(seen), count)
		}
	})
}

package handlers_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"tollhouse/store/record"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// Promise (RFC 6749 §6): a refresh gives a new pair; the old access token stays valid until it
// expires; failed client authentication uses no refresh token
// Promise (RFC 6749 §6): another client can neither use nor revoke a refresh token; a narrower
// scope applies to the access token alone; wider is refused; none means the original
// Promise (RFC 9700 §4.5, §4.14): another client's refresh token; a refresh that asks for more; one
// kind of token used as another
func TestTokenRefresh(t *testing.T) {
	h := parallelHouse(t)
	t.Run("gives_two_new_tokens_and_leaves_the_old_access", func(t *testing.T) {
		first := h.pair(t)
		second := wantPair(t, h.token(t, h.refreshForm(first.RefreshToken)))
		if second.AccessToken == first.AccessToken || second.RefreshToken == first.RefreshToken {
			t.Error("a refresh gave an old token, want two new ones")
		}
		if !h.accessLives(t, first) || !h.accessLives(t, second) {
			t.Error("an access token died of the refresh, want both alive")
		}
	})
	t.Run("wrong_or_no_client_spends_nothing", func(t *testing.T) {
		first := h.pair(t)
		form := h.refreshForm(first.RefreshToken)
		wantTokenError(t, h.token(t, with(form, "client_secret", "x")), http.StatusUnauthorized, "invalid_client")
		wantTokenError(t, h.token(t, without(form, "client_id", "client_secret")), http.StatusUnauthorized, "invalid_client")
		h.neverRefreshed(t, first)
	})
	t.Run("another_client_spends_nothing", func(t *testing.T) {
		other, sec := h.Client(t)
		first := h.pair(t)
		wantTokenError(t, h.token(t, as(h.refreshForm(first.RefreshToken), other, sec)), http.StatusBadRequest, "invalid_grant")
		h.neverRefreshed(t, first)
	})
	t.Run("subset_for_the_access_token_only", func(t *testing.T) {
		first := h.pair(t, "scope", "events:read resources:read")
		second := wantPair(t, h.token(t, with(h.refreshForm(first.RefreshToken), "scope", "resources:read")))
		if second.Scope == nil || *second.Scope != "resources:read" {
			t.Errorf("scope = %v, want resources:read", second.Scope)
		}
		wantError(t, h.api(t, second.AccessToken), http.StatusForbidden, "insufficient_scope")
		third := wantPair(t, h.token(t, h.refreshForm(second.RefreshToken))) // RFC 6749 §6
		if third.Scope == nil || *third.Scope != "events:read resources:read" {
			t.Errorf("scope = %v, want the original", third.Scope)
		}
	})
	t.Run("superset_spends_nothing", func(t *testing.T) {
		first := h.pair(t, "scope", "resources:read")
		for _, wider := range []string{"events:read", "events:read resources:read", "admin", "resources:read,resources:read"} {
			wantTokenError(t, h.token(t, with(h.refreshForm(first.RefreshToken), "scope", wider)), http.StatusBadRequest, "invalid_scope")
		}
		wantPair(t, h.token(t, h.refreshForm(first.RefreshToken)))
	})
	t.Run("absent_is_the_original_null_too", func(t *testing.T) {
		if second := wantPair(t, h.token(t, h.refreshForm(h.pair(t).RefreshToken))); second.Scope != nil {
			t.Errorf("scope = %q, want null", *second.Scope)
		}
	})
	t.Run("tokens_of_another_kind", func(t *testing.T) {
		first := h.pair(t)
		for _, other := range []string{first.AccessToken, h.code(t), h.secret.Reveal(), "x", strings.Repeat("x", 10<<10),
			first.RefreshToken + "x", first.RefreshToken[:len(first.RefreshToken)-1], " " + first.RefreshToken,
			strings.Replace(first.AccessToken, "tollat_", "tollrt_", 1)} {
			wantTokenError(t, h.token(t, h.refreshForm(other)), http.StatusBadRequest, "invalid_grant")
		}
		h.familyLives(t, first)
	})
}

// neverRefreshed fails the test unless the pair's refresh token is unspent: two rotations
// succeed, which a repeat would not allow.
func (h *house) neverRefreshed(t testing.TB, p pair) {
	t.Helper()
	before := h.Count(t, 'r')
	h.familyLives(t, p)
	if made := h.Count(t, 'r') - before; made != 1 {
		t.Errorf("%d refresh tokens were made, want one: the token had been spent", made)
	}
}

// TestTokenRefreshTable brings a family into the states of the table of docs/internals/decisions.md,
// and wants the answer that the table gives, in its wire form. store.TestRotateRefresh
// covers the corners.
//
// Promise (RFC 9700 §4.5, §4.14): an old refresh token within one frozen second; a revocation that
// cannot be written
func TestTokenRefreshTable(t *testing.T) {
	t.Parallel()
	const grace = 30 * time.Second
	type state = storetest.RefreshState
	refresh := func(t *testing.T, h *house, p pair) pair {
		return wantPair(t, h.token(t, h.refreshForm(p.RefreshToken)))
	}
	cases := []struct {
		name  string
		state state
		reach func(t *testing.T, h *house, first pair) (sent, newest pair)
	}{
		{"within_the_grace_the_identical_tokens", state{Spent: true, PairAge: grace}, func(t *testing.T, h *house, first pair) (sent, newest pair) {
			newest = refresh(t, h, first)
			h.Clock.Advance(grace)
			return first, newest
		}},
		{"after_the_grace_a_lost_pair_is_replaced", state{Spent: true, PairAge: grace + time.Millisecond}, func(t *testing.T, h *house, first pair) (sent, newest pair) {
			newest = refresh(t, h, first)
			h.Clock.Advance(grace + time.Millisecond)
			return first, newest
		}},
		{"the_lost_pair_is_retired", state{Retired: true}, func(t *testing.T, h *house, first pair) (sent, newest pair) {
			lost := refresh(t, h, first)
			h.Clock.Advance(grace + time.Millisecond)
			newest = refresh(t, h, first)
			if h.accessLives(t, lost) || !h.accessLives(t, newest) {
				t.Error("the lost access token lives or the fresh one does not, want the reverse")
			}
			return lost, newest
		}},
		{"after_the_grace_a_used_pair_makes_it_a_theft", state{Spent: true, PairUsed: true, PairAge: grace + time.Millisecond}, func(t *testing.T, h *house, first pair) (sent, newest pair) {
			newest = refresh(t, h, first)
			if !h.accessLives(t, newest) {
				t.Fatal("the access token is dead")
			}
			h.Clock.Advance(grace + time.Millisecond)
			return first, newest
		}},
		{"chain_within_one_instant_then_the_first_again", state{Spent: true, PairSpent: true}, func(t *testing.T, h *house, first pair) (sent, newest pair) {
			return first, refresh(t, h, refresh(t, h, first))
		}},
		{"used_on_the_fourteenth_day", state{}, func(_ *testing.T, h *house, first pair) (sent, newest pair) {
			h.Clock.Advance(1_209_600*time.Second - time.Millisecond)
			return first, first
		}},
		{"idle_for_fourteen_days", state{Expired: true}, func(_ *testing.T, h *house, first pair) (sent, newest pair) {
			h.Clock.Advance(1_209_600 * time.Second)
			return first, first
		}},
		{"a_spent_one_after_fourteen_days", state{Spent: true, PairSpent: true, Expired: true}, func(t *testing.T, h *house, first pair) (sent, newest pair) {
			second := refresh(t, h, first)
			h.Clock.Advance(1_209_600*time.Second - time.Millisecond)
			newest = refresh(t, h, second)
			h.Clock.Advance(time.Millisecond)
			return first, newest
		}},
		{"a_year_after_the_authorization", state{Expired: true}, func(t *testing.T, h *house, first pair) (sent, newest pair) {
			for range 36 {
				h.Clock.Advance(10 * 24 * time.Hour)
				first = refresh(t, h, first)
			}
			h.Clock.Advance(5 * 24 * time.Hour) // the 365th day
			return first, first
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := parallelHouse(t)
			sent, newest := c.reach(t, h, h.pair(t))
			a := h.token(t, h.refreshForm(sent.RefreshToken))
			identical, refusal := c.state.Judge(grace)
			if refusal != nil {
				wantTokenError(t, a, http.StatusBadRequest, "invalid_grant")
				if c.state.Expired && c.state.Spent { // nothing has changed
					h.familyLives(t, newest)
					return
				}
				h.familyIsDead(t, newest)
				return
			}
			p := wantPair(t, a)
			if same := p.AccessToken == newest.AccessToken && p.RefreshToken == newest.RefreshToken; same != identical {
				t.Errorf("the answer has the same tokens: %t, want %t", same, identical)
			}
			left := 3600
			if identical {
				left -= int(c.state.PairAge / time.Second)
			}
			if p.ExpiresIn != left {
				t.Errorf("expires_in = %d, want the %d seconds that are left", p.ExpiresIn, left)
			}
			h.familyLives(t, p)
		})
	}
	t.Run("another_scope_on_a_retry", func(t *testing.T) {
		h := parallelHouse(t)
		first := h.pair(t)
		second := refresh(t, h, first)
		text := wantTokenError(t, h.token(t, with(h.refreshForm(first.RefreshToken), "scope", "events:read")), http.StatusBadRequest, "invalid_scope")
		if text != "This token was refreshed for all scopes; a retry must request the same." {
			t.Errorf("the refusal says %q", text)
		}
		h.familyLives(t, second)
	})
}

// Promise (Credentials, memory, connections): tokens of deleted or disabled parties; late bodies of
// former operators and ended tokens
func TestEndedPartiesLoseTheirTokens(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	cases := []struct {
		name   string
		end    func(h *house) error
		revive func(h *house) error
	}{
		{"password_reset", func(h *house) error { _, err := h.SetPassword(ctx, "mara", "another long phrase"); return err }, nil},
		{"user_disabled", func(h *house) error { _, err := h.DisableUser(ctx, "mara"); return err },
			func(h *house) error { _, err := h.EnableUser(ctx, "mara"); return err }},
		{"user_deleted", func(h *house) error { return h.DeleteUser(ctx, "mara") }, nil},
		{"account_disabled", func(h *house) error { _, err := h.DisableAccount(ctx, h.account); return err },
			func(h *house) error { _, err := h.EnableAccount(ctx, h.account); return err }},
		{"account_revoked", func(h *house) error { _, err := h.RevokeAccount(ctx, h.account); return err }, nil},
		{"secret_rotated_with_revoke_tokens", func(h *house) (err error) {
			_, h.secret, err = h.RotateClientSecret(ctx, h.client.ID, true)
			return err
		}, nil},
		{"client_disabled", func(h *house) error { _, err := h.DisableClient(ctx, h.client.ID); return err },
			func(h *house) error { _, err := h.EnableClient(ctx, h.client.ID); return err }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := parallelHouse(t)
			p, code := h.pair(t), h.code(t)
			must.Do(t, c.end(h))
			wantError(t, h.api(t, p.AccessToken), http.StatusUnauthorized, "invalid_token") // the very next request
			if c.name != "client_disabled" {
				wantTokenError(t, h.token(t, h.refreshForm(p.RefreshToken)), http.StatusBadRequest, "invalid_grant")
			}
			if c.revive == nil {
				return
			}
			must.Do(t, c.revive(h))
			h.familyIsDead(t, p)
			wantTokenError(t, h.token(t, h.codeForm(code)), http.StatusBadRequest, "invalid_grant")
		})
	}
	t.Run("client_deleted", func(t *testing.T) {
		h := parallelHouse(t)
		p := h.pair(t)
		must.Do(t, h.DeleteClient(ctx, h.client.ID))
		wantError(t, h.api(t, p.AccessToken), http.StatusUnauthorized, "invalid_token")
		wantTokenError(t, h.token(t, h.refreshForm(p.RefreshToken)), http.StatusUnauthorized, "invalid_client")
		other, sec := h.Client(t)
		wantTokenError(t, h.token(t, as(h.refreshForm(p.RefreshToken), other, sec)), http.StatusBadRequest, "invalid_grant")
	})
	t.Run("a_plain_rotation_of_the_secret_ends_nothing", func(t *testing.T) {
		h := parallelHouse(t)
		p := h.pair(t)
		old := h.secret
		var err error
		if _, h.secret, err = h.RotateClientSecret(ctx, h.client.ID, false); err != nil {
			t.Fatal(err)
		}
		p = h.familyLives(t, p)
		h.secret = old // both secrets live
		h.familyLives(t, p)
	})
}

// Promise (RFC 6749 §5): a disabled grant is unauthorized_client; a store that cannot write is 503
// with Retry-After; other faults are 500 without detail
func TestTokenFaults(t *testing.T) {
	h := parallelHouse(t)
	p, code := h.pair(t), h.code(t)
	forms := map[string]url.Values{"password": h.passwordForm(), "code": h.codeForm(code), "refresh": h.refreshForm(p.RefreshToken)}
	wantUnavailable := func(t *testing.T, a answer) {
		t.Helper()
		wantTokenError(t, a, http.StatusServiceUnavailable, "temporarily_unavailable")
		if a.Header.Get("Retry-After") == "" {
			t.Error("Retry-After is missing")
		}
	}
	t.Run("refused_before_the_commit_is_503_and_changes_nothing", func(t *testing.T) {
		for name, form := range forms {
			h.Faults.OnUpdate(func(func() error) error { return record.ErrUnavailable })
			a := h.token(t, form)
			h.Faults.Repair()
			t.Run(name, func(t *testing.T) { wantUnavailable(t, a) })
		}
		h.Faults.Break(record.ErrUnavailable) // reads too
		defer h.Faults.Repair()
		wantUnavailable(t, h.token(t, forms["password"]))
	})
	t.Run("any_other_fault_is_500_without_detail", func(t *testing.T) {
		for name, fault := range map[string]error{"damage": record.ErrCorrupt, "unknown_outcome": record.ErrUnknownOutcome, "any": errFault} {
			h.Faults.Break(fault)
			a := h.token(t, forms["refresh"])
			h.Faults.Repair()
			wantTokenError(t, a, http.StatusInternalServerError, "server_error")
			if strings.Contains(a.body, fault.Error()) || strings.Contains(a.body, "goroutine") {
				t.Errorf("%s: body = %s, want nothing of the fault in it", name, a.body)
			}
			if !strings.Contains(h.log.String(), fault.Error()) {
				t.Errorf("%s: the log does not say what broke, want it to", name)
			}
		}
	})
	t.Run("after_all_that_nothing_was_spent", func(t *testing.T) {
		h.unspent(t, code)
		h.neverRefreshed(t, p)
	})
	t.Run("closing_is_503", func(t *testing.T) {
		h := newHouse(t)
		must.Do(t, h.DB.Close())
		wantUnavailable(t, h.token(t, h.passwordForm()))
	})
	t.Run("a_replay_that_cannot_be_written_is_503_and_revokes_the_next_time", func(t *testing.T) {
		code := h.code(t)
		p := wantPair(t, h.token(t, h.codeForm(code)))
		h.Clock.Advance(11 * time.Second) // a repeat within ten seconds revokes nothing
		h.Faults.OnUpdate(func(func() error) error { return record.ErrUnavailable })
		a := h.token(t, h.codeForm(code))
		h.Faults.Repair()
		wantUnavailable(t, a)
		if !h.accessLives(t, p) {
			t.Error("the family died of a revocation that was not written")
		}
		wantTokenError(t, h.token(t, h.codeForm(code)), http.StatusBadRequest, "invalid_grant")
		h.familyIsDead(t, p)
	})
}

// errFault is an error unknown to tollhouse.
var errFault = kvFault("disk on fire")

type kvFault string

func (f kvFault) Error() string { return string(f) }

// Promise (RFC 6749 §6): the new refresh token keeps the scope; a client that disconnects finds a
// rotation complete or not begun
func TestTokenClientGoesAway(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"before_the_commit", "after_the_commit"} {
		t.Run(when+"_a_rotation_is_whole_or_not_at_all", func(t *testing.T) {
			h := parallelHouse(t)
			p := h.pair(t)
			ctx, leave := context.WithCancel(context.Background())
			h.Rest()
			h.Faults.OnUpdate(func(run func() error) error {
				if when == "before_the_commit" {
					leave()
					return run()
				}
				defer leave()
				return run()
			})
			a := h.token(t, h.refreshForm(p.RefreshToken), func(r *http.Request) { *r = *r.WithContext(ctx) })
			h.Faults.Repair()
			again := wantPair(t, h.token(t, h.refreshForm(p.RefreshToken)))
			if a.StatusCode == http.StatusOK && wantPair(t, a) != again {
				t.Error("the client that comes back gets another pair, want the one that was stored")
			}
			h.familyLives(t, again)
			if strings.Contains(h.log.String(), `"level":"ERROR"`) {
				t.Error("a client that left is logged as an error, want none: nothing broke here")
			}
		})
	}
}

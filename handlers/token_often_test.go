package handlers_test

import (
	"net/http"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// A client that refreshes too often is slowed down before it fills the disk, and its spent
// tokens stay known.
//
// Promise (Credentials, memory, connections): an old refresh token after its pair was shown to a
// resource server; a family refreshed, or a client's own tokens requested, without end
func TestRefreshTooOften(t *testing.T) {
	t.Parallel()
	const atOnce = 5
	begin := func(t *testing.T) (h *house, spent []pair, last pair) {
		t.Helper()
		h = houseOver(t, storetest.New(t, func(o *store.Options) { o.Rotations = atOnce })).overTCP(t)
		last = h.pair(t)
		for range atOnce {
			spent = append(spent, last)
			last = wantPair(t, h.token(t, h.refreshForm(last.RefreshToken)))
		}
		return h, spent, last
	}
	tooSoon := func(t *testing.T, h *house, p pair) {
		t.Helper()
		a := h.token(t, h.refreshForm(p.RefreshToken))
		wantTokenError(t, a, http.StatusTooManyRequests, "too_many_requests")
		if got := a.Header.Get("Retry-After"); got != "1" {
			t.Errorf("Retry-After = %q, want 1", got)
		}
	}
	t.Run("it_waits_and_continues_with_the_same_token", func(t *testing.T) {
		t.Parallel()
		h, _, last := begin(t)
		before := h.Count(t, 'r') + h.Count(t, 't')
		for range 3 {
			tooSoon(t, h, last)
		}
		if after := h.Count(t, 'r') + h.Count(t, 't'); after != before {
			t.Errorf("refused refreshes left %d records, want none", after-before)
		}
		if !h.accessLives(t, last) {
			t.Error("the access token is dead, want it alive")
		}
		h.Clock.Advance(time.Second)
		last = wantPair(t, h.token(t, h.refreshForm(last.RefreshToken)))
		tooSoon(t, h, last)
		h.Clock.Advance(atOnce * time.Second)
		for range atOnce {
			last = wantPair(t, h.token(t, h.refreshForm(last.RefreshToken)))
		}
	})
	t.Run("a_repeat_still_gets_the_identical_pair", func(t *testing.T) {
		t.Parallel()
		h, spent, last := begin(t)
		if again := wantPair(t, h.token(t, h.refreshForm(spent[atOnce-1].RefreshToken))); again.RefreshToken != last.RefreshToken {
			t.Error("the repeat got another pair")
		}
	})
	t.Run("a_replay_still_ends_the_family", func(t *testing.T) {
		t.Parallel()
		h, spent, last := begin(t)
		tooSoon(t, h, last)
		wantTokenError(t, h.token(t, h.refreshForm(spent[0].RefreshToken)), http.StatusBadRequest, "invalid_grant")
		h.familyIsDead(t, last)
	})
	t.Run("another_family_is_not_slowed_down", func(t *testing.T) {
		t.Parallel()
		h, _, last := begin(t)
		tooSoon(t, h, last)
		h.familyLives(t, h.pair(t))
	})
}

// A client that requests tokens for itself too often is slowed down before it fills the disk.
//
// Promise (Credentials, memory, connections): an old refresh token after its pair was shown to a
// resource server; a family refreshed, or a client's own tokens requested, without end
func TestClientGrantsTooOften(t *testing.T) {
	t.Parallel()
	const atOnce = 5
	begin := func(t *testing.T) *job {
		t.Helper()
		j := newJob(t, houseOver(t, storetest.New(t, func(o *store.Options) { o.ClientGrants = atOnce })).overTCP(t))
		for range atOnce {
			j.access(t)
		}
		return j
	}
	tooSoon := func(t *testing.T, j *job) {
		t.Helper()
		a := j.token(t, j.form)
		wantTokenError(t, a, http.StatusTooManyRequests, "too_many_requests")
		if got := a.Header.Get("Retry-After"); got != "1" {
			t.Errorf("Retry-After = %q, want 1", got)
		}
	}
	t.Run("it_waits_and_changes_nothing", func(t *testing.T) {
		t.Parallel()
		j := begin(t)
		before := j.CountAll(t)
		for range 3 {
			tooSoon(t, j)
		}
		if after := j.CountAll(t); after != before {
			t.Errorf("refused requests left %d records, want none", after-before)
		}
		j.Clock.Advance(time.Second)
		wantStatus(t, j.api(t, j.access(t)), http.StatusOK)
		tooSoon(t, j)
		j.Clock.Advance(atOnce * time.Second)
		for range atOnce {
			j.access(t)
		}
	})
	t.Run("another_client_and_users_are_not_slowed_down", func(t *testing.T) {
		t.Parallel()
		j := begin(t)
		tooSoon(t, j)
		newJob(t, j.house).access(t)
		j.familyLives(t, j.pair(t))
	})
}

// A client is granted tokens of one user often enough for any test suite, and then slowly
// enough not to fill the disk.
func TestGrantsOfAUserTooOften(t *testing.T) {
	t.Parallel()
	const atOnce = 5
	begin := func(t *testing.T) *house {
		t.Helper()
		return houseOver(t, storetest.New(t, func(o *store.Options) { o.ClientGrants = atOnce })).overTCP(t)
	}
	tooSoon := func(t *testing.T, a answer) {
		t.Helper()
		if got := a.Header.Get("Retry-After"); a.StatusCode != http.StatusTooManyRequests || got != "1" {
			t.Errorf("status = %d %.200s with Retry-After %q, want 429 with 1", a.StatusCode, a.body, got)
		}
	}
	// each way to a family, and what it answers when it succeeds
	ways := map[string]func(t *testing.T, h *house, b *browser) answer{
		"password": func(t *testing.T, h *house, _ *browser) answer { return h.token(t, h.passwordForm()) },
		"consent": func(t *testing.T, h *house, b *browser) answer {
			return b.submit(t, b.get(t, h.authURL()), "decision", "allow")
		},
		"remembered": func(t *testing.T, h *house, b *browser) answer { return b.get(t, h.authURL()) },
	}
	for name, ask := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := begin(t)
			b := h.signedIn(t, h.user)
			wanted := http.StatusOK
			if name != "password" {
				wanted = http.StatusSeeOther
			}
			first := 0
			if name == "remembered" {
				must.Get(h.UpdateClient(t.Context(), h.client.ID, store.ClientChange{Consent: new("remember")}))(t)
				wantStatus(t, ways["consent"](t, h, b), wanted)
				first = 1
			}
			for range atOnce - first {
				wantStatus(t, ask(t, h, b), wanted)
			}
			before := h.kept(t)
			for range 3 {
				tooSoon(t, ask(t, h, b))
			}
			if after := h.kept(t); after != before {
				t.Errorf("refused grants left %d records, want none", after-before)
			}
			h.User(t, "nils", h.account)
			wantPair(t, h.token(t, with(h.passwordForm(), "username", "nils"))) // another user is not slowed down
			h.Clock.Advance(time.Second)
			wantStatus(t, ask(t, h, b), wanted)
			tooSoon(t, ask(t, h, b))
		})
	}
}

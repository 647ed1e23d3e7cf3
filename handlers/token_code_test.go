package handlers_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
)

const (
	verifier  = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk" // RFC 7636, appendix B
	challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
)

func (h *house) pkceCode(t testing.TB, challenge string) string {
	t.Helper()
	return h.code(t, "code_challenge", challenge, "code_challenge_method", "S256")
}

// unspent fails the test unless the code still gives tokens to its own client.
func (h *house) unspent(t testing.TB, code string, more ...string) {
	t.Helper()
	wantPair(t, h.token(t, with(h.codeForm(code), more...)))
}

// Promise (RFC 7636): a code survives a wrong or missing verifier; a verifier has 43 to 128
// characters of the alphabet; the example of appendix B passes
// Promise (RFC 9700 §4.5, §4.14): a garbled, empty, huge or foreign code; a code without its
// redirect URI; a code with another redirect URI of the same client; a code with a wrong secret, to
// use it up
// Promise (RFC 9700 §4.5, §4.14): a PKCE code without its verifier; a verifier for a code without a
// challenge; weakened, misspelt and malformed PKCE; a code redeemed by another client
func TestTokenCode(t *testing.T) {
	h := parallelHouse(t)
	t.Run("code_gives_tokens", func(t *testing.T) {
		p := h.pair(t)
		h.familyLives(t, p)
	})
	t.Run("vector_of_rfc_7636", func(t *testing.T) {
		h.unspent(t, h.pkceCode(t, challenge), "code_verifier", verifier)
	})
	t.Run("requested_scope_is_in_the_answer", func(t *testing.T) {
		if p := h.pair(t, "scope", "resources:read events:read"); p.Scope == nil || *p.Scope != "events:read resources:read" {
			t.Errorf("scope = %v, want the one granted", p.Scope)
		}
	})
	t.Run("redirect_uri_absent", func(t *testing.T) {
		code := h.code(t)
		wantTokenError(t, h.token(t, without(h.codeForm(code), "redirect_uri")), http.StatusBadRequest, "invalid_request")
		h.unspent(t, code)
	})
	t.Run("redirect_uri_other", func(t *testing.T) {
		code := h.code(t)
		for _, other := range []string{"https://app.example/other", storetest.CallbackURI + "/", "http://127.0.0.1/cb", "x"} {
			wantTokenError(t, h.token(t, with(h.codeForm(code), "redirect_uri", other)), http.StatusBadRequest, "invalid_grant")
		}
		h.unspent(t, code)
	})
	t.Run("code_of_another_client", func(t *testing.T) {
		other, sec := h.Client(t)
		code := h.code(t)
		wantTokenError(t, h.token(t, as(h.codeForm(code), other, sec)), http.StatusBadRequest, "invalid_grant")
		h.unspent(t, code)
	})
	t.Run("wrong_secret_burns_nothing", func(t *testing.T) {
		code := h.code(t)
		wantTokenError(t, h.token(t, with(h.codeForm(code), "client_secret", "x")), http.StatusUnauthorized, "invalid_client")
		h.unspent(t, code)
	})
	t.Run("what_is_no_code", func(t *testing.T) {
		for _, garbage := range []string{"x", strings.Repeat("x", 10<<10), "tollac_é", secret.New(nil, secret.Code).Reveal(), " " + h.code(t)} {
			wantTokenError(t, h.token(t, h.codeForm(garbage)), http.StatusBadRequest, "invalid_grant")
		}
		for _, form := range []string{"", "\x00", "\xff"} {
			wantTokenError(t, h.token(t, h.codeForm(form)), http.StatusBadRequest, "invalid_request")
		}
		wantTokenError(t, h.token(t, without(h.codeForm(""), "code")), http.StatusBadRequest, "invalid_request")
	})
	t.Run("wrong_or_missing_verifier_burns_nothing", func(t *testing.T) {
		code := h.pkceCode(t, challenge)
		wantTokenError(t, h.token(t, h.codeForm(code)), http.StatusBadRequest, "invalid_grant")
		for _, wrong := range []string{strings.Repeat("a", 43), verifier[:42] + "X", verifier + "k", challenge, ""} {
			wantTokenError(t, h.token(t, with(h.codeForm(code), "code_verifier", wrong)), http.StatusBadRequest, "invalid_grant")
		}
		h.unspent(t, code, "code_verifier", verifier)
	})
	t.Run("form_of_the_verifier", func(t *testing.T) {
		long := strings.Repeat("a", 129)
		for _, malformed := range []string{long[:42], long, long[:42] + "!", long[:42] + "é"} {
			a := h.token(t, with(h.codeForm(h.pkceCode(t, secret.S256(malformed))), "code_verifier", malformed))
			wantTokenError(t, a, http.StatusBadRequest, "invalid_grant")
		}
		for _, sound := range []string{long[:43], long[:128], strings.Repeat("aZ09-._~", 8)} {
			h.unspent(t, h.pkceCode(t, secret.S256(sound)), "code_verifier", sound)
		}
	})
	t.Run("verifier_for_a_code_without_challenge", func(t *testing.T) {
		code := h.code(t)
		wantTokenError(t, h.token(t, with(h.codeForm(code), "code_verifier", verifier)), http.StatusBadRequest, "invalid_grant")
		h.unspent(t, code)
	})
}

// Promise (RFC 9700 §4.5, §4.14): an expired code; a used code
func TestTokenCodeOverTime(t *testing.T) {
	t.Parallel()
	t.Run("dies_after_sixty_seconds", func(t *testing.T) {
		h := parallelHouse(t)
		in, late := h.code(t), h.code(t)
		h.Clock.Advance(time.Minute - time.Millisecond)
		h.unspent(t, in)
		h.Clock.Advance(time.Millisecond)
		wantTokenError(t, h.token(t, h.codeForm(late)), http.StatusBadRequest, "invalid_grant")
		if life := h.Lifetimes().Code; life > 600*time.Second {
			t.Errorf("a code lives %v, want 600s at most", life)
		}
	})
	t.Run("second_use_kills_the_tokens_of_the_first", func(t *testing.T) {
		h := parallelHouse(t)
		code := h.code(t)
		first := wantPair(t, h.token(t, h.codeForm(code)))
		second := h.familyLives(t, first)
		h.Clock.Advance(10*time.Second + time.Millisecond)
		wantTokenError(t, h.token(t, h.codeForm(code)), http.StatusBadRequest, "invalid_grant")
		h.familyIsDead(t, first)
		h.familyIsDead(t, second)
	})
	t.Run("also_after_the_code_has_expired", func(t *testing.T) {
		h := parallelHouse(t)
		code := h.code(t)
		first := wantPair(t, h.token(t, h.codeForm(code)))
		h.Clock.Advance(30 * time.Minute)
		wantTokenError(t, h.token(t, h.codeForm(code)), http.StatusBadRequest, "invalid_grant")
		h.familyIsDead(t, first)
	})
	t.Run("but_not_of_a_page_that_fires_twice", func(t *testing.T) {
		t.Parallel()
		for name, formOf := range map[string]func(h *house) url.Values{
			"with PKCE": func(h *house) url.Values {
				return with(h.codeForm(h.pkceCode(t, challenge)), "code_verifier", verifier)
			},
			"without PKCE": func(h *house) url.Values { return h.codeForm(h.code(t)) },
		} {
			h := newHouse(t)
			form := formOf(h)
			first := wantPair(t, h.token(t, form))
			h.Clock.Advance(10 * time.Second)
			lines := h.recorded(t, func() { wantTokenError(t, h.token(t, form), http.StatusBadRequest, "invalid_grant") })
			if len(lines) != 1 || lines[0].What != store.AuditRefused {
				t.Errorf("%s: audit lines %+v, want a refusal and no replay", name, lines)
			}
			second := h.familyLives(t, first)
			h.Clock.Advance(time.Millisecond)
			wantTokenError(t, h.token(t, form), http.StatusBadRequest, "invalid_grant")
			h.familyIsDead(t, second)
		}
	})
	t.Run("a_stranger_with_the_code_alone_revokes_nothing", func(t *testing.T) {
		h := parallelHouse(t)
		code := h.pkceCode(t, challenge)
		first := wantPair(t, h.token(t, with(h.codeForm(code), "code_verifier", verifier)))
		other, sec := h.Client(t)
		h.Clock.Advance(time.Hour / 2)
		for _, form := range []answer{
			h.token(t, as(h.codeForm(code), other, sec)), h.token(t, h.codeForm(code)),
			h.token(t, with(h.codeForm(code), "code_verifier", verifier, "redirect_uri", "https://app.example/other")),
		} {
			wantTokenError(t, form, http.StatusBadRequest, "invalid_grant")
		}
		h.familyLives(t, first)
	})
}

// Promise (RFC 9700): grants are checked when a client is created; a refusal lists them; a public
// client's refresh token always rotates
func TestTokenCodeOfPublicClient(t *testing.T) {
	h := parallelHouse(t)
	public, none := h.Client(t, func(s *store.ClientSpec) { s.Public = true })
	code := h.code(t, "client_id", public.ID, "code_challenge", challenge, "code_challenge_method", "S256")
	form := with(as(h.codeForm(code), public, none), "code_verifier", verifier)
	wantTokenError(t, h.token(t, with(form, "client_secret", "x")), http.StatusUnauthorized, "invalid_client")
	wantTokenError(t, h.token(t, without(form, "code_verifier")), http.StatusBadRequest, "invalid_grant")
	first := wantPair(t, h.token(t, form))
	t.Run("its_refresh_always_rotates", func(t *testing.T) {
		second := wantPair(t, h.token(t, as(h.refreshForm(first.RefreshToken), public, none)))
		third := wantPair(t, h.token(t, as(h.refreshForm(second.RefreshToken), public, none)))
		if second.RefreshToken == first.RefreshToken || third.RefreshToken == second.RefreshToken {
			t.Error("a refresh token came back, want a new one each time")
		}
		wantTokenError(t, h.token(t, as(h.refreshForm(first.RefreshToken), public, none)), http.StatusBadRequest, "invalid_grant")
		if h.accessLives(t, third) {
			t.Error("the family outlives the replay of its first token, want it dead")
		}
	})
}

// together sends one request from many callers at once.
func (h *house) together(t testing.TB, callers int, send func() answer) []answer {
	t.Helper()
	answers := make([]answer, callers)
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range callers {
		all.Go(func() {
			<-start
			answers[i] = send()
		})
	}
	close(start)
	all.Wait()
	return answers
}

// Promise (RFC 6749 §4): of parallel redemptions exactly one succeeds
func TestTokenInParallel(t *testing.T) {
	h := parallelHouse(t)
	for _, callers := range []int{16, 64} {
		t.Run(fmt.Sprintf("one_of_%d_redemptions_succeeds", callers), func(t *testing.T) {
			for range 10 {
				form := with(h.codeForm(h.pkceCode(t, challenge)), "code_verifier", verifier)
				won := 0
				var p pair
				for _, a := range h.together(t, callers, func() answer { return h.token(t, form) }) {
					if a.StatusCode == http.StatusOK {
						won++
						p = wantPair(t, a)
						continue
					}
					wantTokenError(t, a, http.StatusBadRequest, "invalid_grant")
				}
				if won != 1 {
					t.Fatalf("%d of %d redemptions succeeded, want one", won, callers)
				}
				h.familyLives(t, p)
			}
		})
	}
	t.Run("all_of_64_refreshes_give_one_pair", func(t *testing.T) {
		p := h.pair(t)
		for range 10 {
			before := h.Count(t, 'r')
			answers := h.together(t, 64, func() answer { return h.token(t, h.refreshForm(p.RefreshToken)) })
			p = wantPair(t, answers[0])
			for _, a := range answers {
				if a.body != answers[0].body {
					t.Fatalf("two refreshes gave\n%s\n%s, want one body", a.body, answers[0].body)
				}
			}
			if made := h.Count(t, 'r') - before; made != 1 {
				t.Errorf("%d refresh tokens were made, want one", made)
			}
		}
	})
}

package handlers_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"tollhouse/store"
)

const (
	bareChallenge    = `Bearer realm="tollhouse"`
	invalidChallenge = bareChallenge + `, error="invalid_request"`
)

// Promise (RFC 6750): only the header is read, its scheme in any case; no credentials: 401 and a
// bare challenge; another scheme, no token and two headers have distinct errors
// Promise (RFC 6750): a token in the query alone is refused with advice; a token in header and
// query is refused; answers are private and vary by Authorization; a challenge echoes nothing
// Promise (RFC 9110, RFC 9112): header names with underscores, duplicate headers; a health probe's
// name on a protected route; line breaks in headers
// Promise (Credentials, memory, connections): filling the throttle's memory; tokens outside the
// header
// Promise (§2.2): a token in the query is not used, echoed or logged
func TestBearer(t *testing.T) {
	h := parallelHouse(t)
	p := h.pair(t)
	t.Run("scheme_in_any_case", func(t *testing.T) {
		for _, value := range []string{"Bearer " + p.AccessToken, "bearer " + p.AccessToken, "BEARER  " + p.AccessToken, "bEaReR " + p.AccessToken + " "} {
			if a := h.get(t, apiPath, header("Authorization", value)); a.StatusCode != http.StatusOK {
				t.Errorf("%.8s: status = %d, want 200", value, a.StatusCode)
			}
		}
	})
	refused := []struct {
		name      string
		target    string
		headers   []string
		status    int
		code      string
		challenge string
		text      string
	}{
		{"no_credentials", apiPath, nil, 401, "unauthorized", bareChallenge, "Authorization"},
		{"kube_probe", apiPath + "?health", []string{""}, 401, "unauthorized", bareChallenge, ""},
		{"basic", apiPath, []string{"Basic " + base64.StdEncoding.EncodeToString([]byte("a:b"))}, 401, "unauthorized", bareChallenge, "Bearer"},
		{"no_token", apiPath, []string{"Bearer"}, 400, "invalid_request", invalidChallenge, "token"},
		{"blank_token", apiPath, []string{"Bearer   "}, 400, "invalid_request", invalidChallenge, "token"},
		{"two_headers", apiPath, []string{"Bearer " + p.AccessToken, "Bearer " + p.AccessToken}, 400, "invalid_request", invalidChallenge, "more than one"},
		{"query_alone", apiPath + "?access_token=" + p.AccessToken, nil, 401, "unauthorized", bareChallenge, "header"},
		{"query_by_escape", apiPath + "?access%5Ftoken=" + p.AccessToken, nil, 401, "unauthorized", bareChallenge, "header"},
		{"query_malformed", apiPath + "?%&access_token=" + p.AccessToken, nil, 401, "unauthorized", bareChallenge, "header"},
		{"header_and_query", apiPath + "?access_token=" + p.AccessToken, []string{"Bearer " + p.AccessToken}, 400, "invalid_request", invalidChallenge, "both the header and the query"},
	}
	for _, c := range refused {
		t.Run(c.name, func(t *testing.T) {
			a := h.get(t, c.target, func(r *http.Request) {
				r.Header.Set("User-Agent", "kube-probe/1.31")
				for _, value := range c.headers {
					if value != "" {
						r.Header.Add("Authorization", value)
					}
				}
			})
			if description := wantError(t, a, c.status, c.code); !strings.Contains(description, c.text) {
				t.Errorf("error_description = %q, want %q in it", description, c.text)
			}
			if got := a.Header.Get("WWW-Authenticate"); got != c.challenge {
				t.Errorf("WWW-Authenticate = %q, want %q", got, c.challenge)
			}
		})
	}
	t.Run("names_its_parameter", func(t *testing.T) {
		a := h.get(t, apiPath+"?access_token=x", header("Authorization", "Bearer "+p.AccessToken))
		if !strings.Contains(a.body, `"param":"access_token"`) {
			t.Errorf("body = %s, want param access_token", a.body)
		}
	})
	t.Run("token_in_a_form_is_not_taken", func(t *testing.T) {
		a := h.do(h.request(t, "GET", apiPath, strings.NewReader("access_token="+p.AccessToken), header("Content-Type", formType)))
		wantError(t, a, http.StatusUnauthorized, "unauthorized")
	})
	t.Run("shared_caches_keep_no_answer", func(t *testing.T) {
		for name, a := range map[string]answer{"sound": h.api(t, p.AccessToken), "refused": h.api(t, "x"), "bare": h.get(t, apiPath)} {
			if got := a.Header.Get("Cache-Control"); !strings.Contains(got, "private") {
				t.Errorf("%s: Cache-Control = %q, want private", name, got)
			}
			if got := strings.Join(a.Header.Values("Vary"), ", "); !strings.Contains(got, "Authorization") {
				t.Errorf("%s: Vary = %q, want Authorization", name, got)
			}
		}
	})
	t.Run("the_challenge_holds_nothing_of_the_request", func(t *testing.T) {
		for _, hostile := range []string{`x", error="none`, `x\`, "kanarienvogel", strings.Repeat("x", 8<<10)} {
			a := h.api(t, hostile)
			wantError(t, a, http.StatusUnauthorized, "invalid_token")
			wantSame(t, a, h.api(t, "x"))
		}
	})
}

// Promise (RFC 6750): unknown, expired, revoked and wrong-kind tokens are one invalid_token; one
// clock; a token is invalid from the second it expires
func TestBearerDeadTokens(t *testing.T) {
	h := parallelHouse(t)
	expired, revoked := h.pair(t), h.pair(t)
	h.Clock.Advance(time.Hour)
	third := wantPair(t, h.token(t, h.refreshForm(wantPair(t, h.token(t, h.refreshForm(revoked.RefreshToken))).RefreshToken)))
	wantTokenError(t, h.token(t, h.refreshForm(revoked.RefreshToken)), http.StatusBadRequest, "invalid_grant")
	p := h.pair(t)
	b := h.signedIn(t, h.user)
	dead := map[string]string{
		"garbage":                  "x",
		"unknown":                  "tollat_" + strings.Repeat("0", 49),
		"expired":                  expired.AccessToken,
		"revoked":                  third.AccessToken,
		"refresh_as_access":        p.RefreshToken,
		"code_as_access":           h.code(t),
		"client_secret_as_access":  h.secret.Reveal(),
		"session_cookie_as_access": b.cookie(sessionCookie),
	}
	want := h.api(t, "x")
	for name, token := range dead {
		t.Run(name, func(t *testing.T) {
			if token == "" {
				t.Fatal("no such token")
			}
			a := h.api(t, token)
			wantError(t, a, http.StatusUnauthorized, "invalid_token")
			wantSame(t, a, want)
			if got := a.Header.Get("WWW-Authenticate"); !strings.HasPrefix(got, bareChallenge+`, error="invalid_token"`) {
				t.Errorf("WWW-Authenticate = %q, want invalid_token", got)
			}
		})
	}
	t.Run("every_edit_of_a_sound_token", func(t *testing.T) {
		for _, edited := range edits(p.AccessToken) {
			if a := h.api(t, edited); a.StatusCode == http.StatusOK {
				t.Errorf("%q passes for %q", edited, p.AccessToken)
			}
		}
		if !h.accessLives(t, p) {
			t.Error("the token itself is dead")
		}
	})
}

// edits are ways to mistype, truncate or alter a token.
func edits(token string) []string {
	all := []string{
		token[:len(token)-1], token[1:], token + "A", token + "=", token + "==", token + "\n", "A" + token, strings.ToUpper(token), strings.ToLower(token),
		strings.Replace(token, "tollat_", "tollrt_", 1), strings.TrimPrefix(token, "tollat_"), token + "." + token, token + "%20", `"` + token + `"`,
	}
	const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_+/ "
	for i := range len(token) {
		for _, c := range alphabet {
			if edited := token[:i] + string(c) + token[i+1:]; edited != token {
				all = append(all, edited)
			}
		}
	}
	return all
}

// Promise (RFC 6750): a token without the scope is 403 naming the scope needed
func TestBearerScope(t *testing.T) {
	h := parallelHouse(t)
	p := h.pair(t, "scope", "resources:read")
	t.Run("without_events_read", func(t *testing.T) {
		a := h.api(t, p.AccessToken)
		wantError(t, a, http.StatusForbidden, "insufficient_scope")
		if got, want := a.Header.Get("WWW-Authenticate"), bareChallenge+`, error="insufficient_scope", scope="events:read"`; got != want {
			t.Errorf("WWW-Authenticate = %q, want %q", got, want)
		}
	})
	routes := []struct {
		method, path string
		need         string
	}{
		{"GET", "/api/events", "events:read"},
		{"GET", "/api/events/evt_00000000000000000000000000", "events:read"},
		{"GET", "/api/resources/customer", "resources:read"},
		{"GET", "/api/resources/customer/c1", "resources:read"},
		{"PUT", "/api/resources/customer/c1", "resources:write"},
		{"PATCH", "/api/resources/customer/c1", "resources:write"},
		{"DELETE", "/api/resources/customer/c1", "resources:write"},
		{"GET", "/api/webhook-endpoints", "webhooks:read"},
		{"POST", "/api/webhook-endpoints", "webhooks:write with events:read"}, // neither alone
	}
	for _, scope := range store.ScopeNames() {
		token := h.pair(t, "scope", scope).AccessToken
		for _, route := range routes {
			t.Run(scope+"_at_"+route.method+route.path, func(t *testing.T) {
				a := h.do(h.request(t, route.method, route.path, nil, header("Authorization", "Bearer "+token)))
				if allowed := a.StatusCode != http.StatusForbidden; allowed != (scope == route.need) {
					t.Errorf("status = %d with %s, want it let through: %t", a.StatusCode, scope, scope == route.need)
				}
			})
		}
	}
	t.Run("every_api_route_asks_for_a_token", func(t *testing.T) {
		for _, route := range routes {
			wantError(t, h.do(h.request(t, route.method, route.path, nil)), http.StatusUnauthorized, "unauthorized")
		}
	})
}

// Promise (RFC 6750): unknown, expired, revoked and wrong-kind tokens are one invalid_token; one
// clock; a token is invalid from the second it expires
// Promise (Attacks on operations): a changed system clock
func TestBearerExpiry(t *testing.T) {
	t.Parallel()
	t.Run("dead_at_its_very_end", func(t *testing.T) {
		h := parallelHouse(t)
		p := h.pair(t)
		h.Clock.Advance(time.Hour - time.Second)
		if !h.accessLives(t, p) {
			t.Error("a token is dead a second before its end, want it alive")
		}
		h.Clock.Advance(time.Second)
		if h.accessLives(t, p) {
			t.Error("a token lives at its end, want it dead")
		}
	})
	t.Run("a_clock_that_steps_extends_nothing", func(t *testing.T) {
		h := parallelHouse(t)
		p := h.pair(t)
		h.Clock.Advance(-time.Hour) // issued in the future, as it now seems
		if !h.accessLives(t, p) {
			t.Error("a token is dead because the clock was set back")
		}
		later := h.pair(t)
		h.Clock.Advance(time.Hour)
		if h.accessLives(t, later) {
			t.Error("a token issued while the clock was back outlives its hour")
		}
		h.Clock.Advance(24 * time.Hour)
		if h.accessLives(t, p) {
			t.Error("a token lives a day later, want it dead")
		}
	})
	t.Run("across_2_to_the_31", func(t *testing.T) {
		h := parallelHouse(t)
		h.Clock.Advance(time.Unix(1<<31-10, 0).Sub(h.Now()))
		p, code := h.pair(t), h.code(t)
		h.Clock.Advance(20 * time.Second)
		h.unspent(t, code)
		p = h.familyLives(t, p)
		h.Clock.Advance(time.Hour)
		if h.accessLives(t, p) {
			t.Error("a token issued before 2^31 lives past its hour")
		}
	})
}

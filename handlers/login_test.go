package handlers_test

import (
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

var rightPassword = []string{"username", "mara", "password", storetest.Password}

// sessionLives reports whether a browser with that cookie is signed in.
func (h *house) sessionLives(t testing.TB, cookie string) bool {
	t.Helper()
	b := h.browser(t)
	b.setCookie(sessionCookie, cookie)
	return strings.Contains(words(t, b.get(t, "/")), "Signed in as mara")
}

// Promise (RFC 9700 §4.4, §4.7, §4.12, §4.16): logout CSRF; credentials in a redirect
// Promise (Credentials, memory, connections): huge passwords; locking an owner out, from one source
// or many
func TestLogin(t *testing.T) {
	h := parallelHouse(t)
	t.Run("a_right_password_leads_on_by_303_without_credentials", func(t *testing.T) {
		b := h.browser(t)
		a := b.submit(t, b.get(t, h.authURL("state", "s")), rightPassword...)
		if to := a.Header.Get("Location"); a.StatusCode != http.StatusSeeOther || to != h.authURL("state", "s") {
			t.Errorf("%d to %q, want 303 to the request that the sign-in was for", a.StatusCode, to)
		}
		if page := b.follow(t, a); !strings.Contains(words(t, page), "Signed in as mara") {
			t.Errorf("the next page says %q, want the consent screen", words(t, page))
		}
	})
	t.Run("a_sign_in_without_a_client_returns_to_the_home_page", func(t *testing.T) {
		b := h.browser(t)
		a := b.submit(t, b.get(t, "/login"), rightPassword...)
		if !strings.Contains(words(t, b.follow(t, a)), "Signed in as mara") || a.Header.Get("Location") != "/" {
			t.Errorf("Location = %q, want / and a sign-in", a.Header.Get("Location"))
		}
		if a := b.get(t, "/login"); a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/" {
			t.Errorf("GET /login signed in = %d to %q, want 303 to /", a.StatusCode, a.Header.Get("Location"))
		}
	})
	t.Run("unknown_user_is_like_a_wrong_password", func(t *testing.T) {
		b := h.browser(t)
		page := b.get(t, h.authURL())
		wrong := b.submit(t, page, "username", "mara", "password", "not the password")
		unknown := b.submit(t, page, "username", "nils", "password", "not the password")
		if wrong.StatusCode != http.StatusOK || len(wrong.Header["Set-Cookie"]) > 0 {
			t.Errorf("status = %d with cookies %v, want the form again with 200 and none", wrong.StatusCode, wrong.Header["Set-Cookie"])
		}
		if !strings.Contains(words(t, wrong), "That username and password do not match.") {
			t.Errorf("the page says %q, want why", words(t, wrong))
		}
		unknown.body = strings.ReplaceAll(unknown.body, "nils", "mara")
		wantSame(t, wrong, unknown)
		if a := b.submit(t, wrong, rightPassword...); a.StatusCode != http.StatusSeeOther {
			t.Errorf("the form shown again gives %d with the right password, want 303", a.StatusCode)
		}
	})
	t.Run("the_username_comes_back_as_text", func(t *testing.T) {
		const hostile = `"onfocus=alert(1) autofocus="`
		b := h.browser(t)
		a := b.submit(t, b.get(t, "/login"), "username", hostile, "password", "x")
		if got := formOn(t, a).fields.Get("username"); got != hostile || strings.Contains(a.body, `"onfocus`) {
			t.Errorf("the field holds %q, want what was typed, escaped", got)
		}
	})
	t.Run("long_passwords", func(t *testing.T) {
		b := h.browser(t)
		page := b.get(t, "/login")
		for _, size := range []int{1 << 20, 16 << 20} {
			a := b.submit(t, page, "username", "mara", "password", strings.Repeat("p", size))
			wantErrorPage(t, a, http.StatusRequestEntityTooLarge)
			if a.Header.Get("Connection") != "close" {
				t.Error("the connection is kept, want it closed behind the body")
			}
		}
		if a := b.submit(t, page, "username", "mara", "password", strings.Repeat("p", 1025)); a.StatusCode != http.StatusOK {
			t.Errorf("a password of 1025 bytes gives %d, want the form again", a.StatusCode)
		}
	})
	t.Run("malformed_forms_are_pages", func(t *testing.T) {
		b := h.browser(t)
		for _, body := range []string{"username=%zz", "username=a&username=b", "username=a%00", "password=%ff"} {
			a := b.send(t, "POST", "/login", strings.NewReader(body), header("Content-Type", formType))
			wantPage400(t, a)
		}
	})
	t.Run("a_store_that_refuses_is_a_page_with_503", func(t *testing.T) {
		b := h.browser(t)
		page := b.get(t, h.authURL())
		h.Faults.OnUpdate(func(func() error) error { return record.ErrUnavailable })
		a := b.submit(t, page, rightPassword...)
		h.Faults.Repair()
		wantErrorPage(t, a, http.StatusServiceUnavailable)
		if a.Header.Get("Retry-After") == "" || b.cookie(sessionCookie) != "" {
			t.Error("no Retry-After, or a sign-in that was not written")
		}
	})
}

// Promise (RFC 9700 §4.4, §4.7, §4.12, §4.16): login CSRF
func TestLoginForgery(t *testing.T) {
	h := parallelHouse(t)
	victim, other := h.browser(t), h.browser(t)
	page, otherPage := victim.get(t, h.authURL()), other.get(t, h.authURL())
	own := formOn(t, page).fields
	cases := map[string]func(t *testing.T) answer{
		"without_a_token": func(t *testing.T) answer {
			return victim.post(t, "/login", with(without(own, "form_token"), rightPassword...))
		},
		"with_another_browsers": func(t *testing.T) answer {
			return victim.post(t, "/login", with(with(own, rightPassword...), "form_token", formOn(t, otherPage).fields.Get("form_token")))
		},
		"without_the_cookie": func(t *testing.T) answer {
			return h.browser(t).post(t, "/login", with(own, rightPassword...))
		},
		"from_another_site": func(t *testing.T) answer {
			return victim.post(t, "/login", with(own, rightPassword...), header("Sec-Fetch-Site", "cross-site"), header("Origin", "https://evil.example"))
		},
		"from_a_sibling_site": func(t *testing.T) answer {
			return victim.post(t, "/login", with(own, rightPassword...), header("Sec-Fetch-Site", "same-site"), header("Origin", "https://evil.pay.example"))
		},
		"from_another_origin_without_sec_fetch": func(t *testing.T) answer {
			return victim.post(t, "/login", with(own, rightPassword...), header("Sec-Fetch-Site", ""), header("Origin", "https://evil.example"))
		},
	}
	for name, forge := range cases {
		t.Run(name, func(t *testing.T) {
			a := forge(t)
			wantErrorPage(t, a, http.StatusForbidden)
			for _, c := range a.Cookies() {
				if c.Name == sessionCookie {
					t.Error("a sign-in began, want none")
				}
			}
		})
	}
	t.Run("nothing_was_minted", func(t *testing.T) {
		if n := h.Count(t, 's') + h.Count(t, 'k'); n != 0 {
			t.Errorf("%d sessions and codes are kept, want none", n)
		}
	})
	t.Run("the_form_sent_again_after_the_sign_in_starts_afresh", func(t *testing.T) {
		first := victim.submit(t, page, rightPassword...)
		token := victim.cookie(sessionCookie)
		again := victim.submit(t, page, rightPassword...) // judged again
		if again.StatusCode != http.StatusSeeOther || again.Header.Get("Location") != first.Header.Get("Location") {
			t.Errorf("%d to %q, want 303 to a fresh start", again.StatusCode, again.Header.Get("Location"))
		}
		if victim.cookie(sessionCookie) == token || h.sessionLives(t, token) || h.Count(t, 'k') != 0 {
			t.Error("the form sent again kept the sign-in of before or made a code")
		}
		bent := strings.TrimPrefix(h.authURL("response_type", "token"), authPath+"?")
		wantPage400(t, victim.submit(t, page, append([]string{"query", bent}, rightPassword...)...))
	})
}

// Promise (Browsers): a sign-in starts with a new cookie, as restricted as the transport allows; a
// sign-in lasts 12 idle hours, 7 days at most; re-authentication on request
// Promise (Monitoring): cookies are as restricted as the transport allows
func TestSessionCookie(t *testing.T) {
	t.Parallel()
	t.Run("a_new_id_at_each_sign_in", func(t *testing.T) {
		h := parallelHouse(t)
		b := h.browser(t)
		planted := secret.New(nil, secret.SessionToken).Reveal()
		b.setCookie(sessionCookie, planted)
		b.submit(t, b.get(t, "/login"), rightPassword...)
		first := b.cookie(sessionCookie)
		if first == planted || h.sessionLives(t, planted) || !h.sessionLives(t, first) {
			t.Error("the planted cookie is signed in, want a new one")
		}
		page := b.get(t, h.authURL("prompt", "login"))
		b.submit(t, page, rightPassword...)
		if second := b.cookie(sessionCookie); second == first || h.sessionLives(t, first) || !h.sessionLives(t, second) {
			t.Error("the cookie before a second sign-in lives on, want it dead")
		}
	})
	attributes := []struct {
		name, public, want, wantForm string
		secure                       bool
	}{
		{"on_https", "https://pay.example", "__Host-tollhouse", "__Host-tollhouse_form", true},
		{"on_https_under_a_path", "https://pay.example/pay", "__Host-tollhouse.pay", "__Host-tollhouse_form.pay", true},
		{"on_https_with_a_port", "https://pay.example:8443", "__Host-tollhouse_8443", "__Host-tollhouse_form_8443", true},
		{"on_https_with_both", "https://pay.example:8443/pay/eu", "__Host-tollhouse_8443.pay%2Feu", "__Host-tollhouse_form_8443.pay%2Feu", true},
		{"on_loopback_under_a_path", "http://127.0.0.1:8080/pay", "tollhouse_8080.pay", "tollhouse_form_8080.pay", false},
		{"on_loopback_the_name_carries_the_port", "http://127.0.0.1:8080", "tollhouse_8080", "tollhouse_form_8080", false},
		{"on_plain_http_without_port", "http://localhost", "tollhouse", "tollhouse_form", false},
	}
	for _, c := range attributes {
		t.Run(c.name, func(t *testing.T) {
			h := parallelHouse(t, at(c.public))
			b := h.browser(t)
			base := strings.TrimSuffix(b.site.Path, "/")
			form := b.get(t, base+"/login")
			a := b.submit(t, form, rightPassword...)
			for _, set := range append(form.Cookies(), a.Cookies()...) {
				if known := []string{c.want, c.wantForm, strings.Replace(c.wantForm, "_form", "_device", 1)}; !slices.Contains(known, set.Name) || !set.HttpOnly || set.SameSite != http.SameSiteLaxMode || set.Path != "/" || set.Secure != c.secure || set.Domain != "" {
					t.Errorf("Set-Cookie: %s, want %s or %s, HttpOnly, Lax, Path=/, Secure: %t", set.Raw, c.want, c.wantForm, c.secure)
				}
			}
			if b.cookie(c.want) == "" {
				t.Errorf("no cookie %s, want the sign-in in it", c.want)
			}
		})
	}
	t.Run("a_sign_in_ends_after_twelve_idle_hours", func(t *testing.T) {
		h := parallelHouse(t)
		b := h.signedIn(t, h.user)
		h.Clock.Advance(12*time.Hour - time.Millisecond)
		if !h.sessionLives(t, b.cookie(sessionCookie)) {
			t.Error("the sign-in is over, want it alive")
		}
		other := h.signedIn(t, h.user)
		h.Clock.Advance(12 * time.Hour)
		if h.sessionLives(t, other.cookie(sessionCookie)) {
			t.Error("the sign-in lives, want it over")
		}
	})
}

// Promise (Browsers): a sign-in starts with a new cookie, as restricted as the transport allows; a
// sign-in lasts 12 idle hours, 7 days at most; re-authentication on request
func TestPromptLogin(t *testing.T) {
	h := parallelHouse(t)
	for name, prompt := range map[string]string{"plain": "prompt=login", "encoded": "%70rompt=login"} {
		t.Run("prompt_login_asks_again_and_then_continues_"+name, func(t *testing.T) {
			b := h.signedIn(t, h.user)
			page := b.get(t, h.authURL()+"&"+prompt)
			page = b.follow(t, b.submit(t, page, rightPassword...))
			if !strings.Contains(words(t, page), "Allow Larkspur Bookkeeping") {
				t.Errorf("after the sign-in the page says %q, want the consent screen", words(t, page))
			}
		})
	}
}

// Promise (RFC 9700 §4.4, §4.7, §4.12, §4.16): logout CSRF; credentials in a redirect
func TestLogout(t *testing.T) {
	h := parallelHouse(t)
	b := h.signedIn(t, h.user)
	cookie := b.cookie(sessionCookie)
	home := b.get(t, "/")
	other := h.signedIn(t, h.user)
	t.Run("by_GET", func(t *testing.T) {
		wantError(t, b.get(t, "/logout"), http.StatusMethodNotAllowed, "invalid_request")
	})
	t.Run("from_another_site", func(t *testing.T) {
		wantErrorPage(t, b.post(t, "/logout", formOn(t, home).fields, header("Sec-Fetch-Site", "cross-site")), http.StatusForbidden)
	})
	t.Run("with_another_sign_ins_token", func(t *testing.T) {
		wantErrorPage(t, b.post(t, "/logout", formOn(t, other.get(t, "/")).fields), http.StatusForbidden)
		wantErrorPage(t, b.post(t, "/logout", nil), http.StatusForbidden)
	})
	if !h.sessionLives(t, cookie) {
		t.Error("the sign-in is over, want it alive until it is really asked")
	}
	t.Run("with_its_own", func(t *testing.T) {
		a := b.submit(t, home)
		if a.StatusCode != http.StatusSeeOther || b.cookie(sessionCookie) != "" || h.sessionLives(t, cookie) {
			t.Errorf("status = %d, cookie %q, want 303 and the sign-in over on both sides", a.StatusCode, b.cookie(sessionCookie))
		}
		if a := b.post(t, "/logout", nil); a.StatusCode != http.StatusSeeOther {
			t.Errorf("a second sign-out gives %d, want 303", a.StatusCode)
		}
	})
}

// Promise (Credentials, memory, connections): 64 sign-ins at once; tokens changed by a character
func TestLoginsInParallel(t *testing.T) { // alone: it measures memory
	must.SkipInShort(t)
	h := slowHouse(t)
	b := h.browser(t)
	page := b.get(t, "/login")
	f := formOn(t, page)
	cookie := b.cookie("__Host-tollhouse_form")
	login := func() answer {
		r := h.request(t, "POST", "/login", strings.NewReader(with(f.fields, rightPassword...).Encode()), header("Content-Type", formType),
			header("Cookie", "__Host-tollhouse_form="+cookie))
		return h.do(r)
	}
	t.Run("wait_their_turn_or_are_asked_to_come_back", func(t *testing.T) {
		const callers = 200 // more than the queue holds
		stop, peak := watchHeap()
		answers := h.together(t, callers, login)
		stop()
		in, busy := 0, 0
		for _, a := range answers {
			switch {
			case a.StatusCode == http.StatusSeeOther:
				in++
			case a.StatusCode == http.StatusServiceUnavailable && a.Header.Get("Retry-After") != "":
				busy++
			default:
				t.Errorf("status = %d, want 303, or 503 with Retry-After", a.StatusCode)
			}
		}
		if in == 0 || busy == 0 {
			t.Errorf("%d signed in and %d were asked to come back, want some of each", in, busy)
		}
		// A hash takes 19 MiB: all at once would take 3,800.
		if limit := uint64(runtime.GOMAXPROCS(0)*19+32) * 4 << 20; *peak > limit {
			t.Errorf("the heap grew to %d MiB, want at most %d", *peak>>20, limit>>20)
		}
	})
}

// watchHeap tracks the largest heap until it is stopped.
func watchHeap() (stop func(), peak *uint64) {
	peak = new(uint64)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		every := time.NewTicker(5 * time.Millisecond)
		defer every.Stop()
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			*peak = max(*peak, m.HeapInuse)
			select {
			case <-done:
				return
			case <-every.C:
			}
		}
	}()
	return func() { close(done); <-ended }, peak
}

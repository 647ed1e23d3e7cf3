package handlers_test

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"tollhouse/handlers"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// tooLong is wrong for every user and costs no hash, so that a test can fail cheaply.
var tooLong = strings.Repeat("x", 1025)

// from makes a request come from an address.
func from(address string) func(*http.Request) {
	return func(r *http.Request) { r.RemoteAddr = net.JoinHostPort(address, "4711") }
}

// stranger is a browser without a session, with the sign-in form open.
type stranger struct {
	*browser
	form form
}

func (h *house) stranger(t testing.TB) stranger {
	t.Helper()
	b := h.browser(t)
	return stranger{browser: b, form: formOn(t, b.get(t, "/login"))}
}

func (s stranger) signIn(t testing.TB, name, password string, change ...func(*http.Request)) answer {
	t.Helper()
	return s.post(t, s.form.action, with(s.form.fields, "username", name, "password", password), change...)
}

// grant sends a password grant.
func (h *house) grant(t testing.TB, name, password string, change ...func(*http.Request)) answer {
	t.Helper()
	return h.token(t, with(h.passwordForm(), "username", name, "password", password), change...)
}

// wantJudged fails the test unless the attempt was checked and refused.
func wantJudged(t testing.TB, a answer) {
	t.Helper()
	if a.StatusCode != http.StatusOK && a.StatusCode != http.StatusBadRequest {
		t.Errorf("status = %d %.200s, want a wrong password", a.StatusCode, a.body)
	}
}

func wantThrottled(t testing.TB, a answer, retryAfter string) {
	t.Helper()
	if a.StatusCode != http.StatusTooManyRequests || a.Header.Get("Retry-After") != retryAfter {
		t.Errorf("status = %d with Retry-After %q, want 429 with %q", a.StatusCode, a.Header.Get("Retry-After"), retryAfter)
	}
	if a.Request.URL.Path == tokenPath {
		wantTokenError(t, a, http.StatusTooManyRequests, "too_many_requests")
	}
}

// address returns the nth address of a kind; each is a source of its own.
func address(n int) string { return fmt.Sprintf("198.51.%d.%d", n/250, n%250+1) }

// Promise (RFC 6749 §4): a missing username or password is invalid_request; too many failures, at
// the form or of one client's grant, are 429 with Retry-After
func TestThrottleOfAUser(t *testing.T) {
	h := parallelHouse(t)
	h.User(t, "b\u00f3b", h.account)
	spellings := []string{"b\u00f3b", "B\u00d3B", " b\u00f3b", "bo\u0301b", "b\u00f3b\t"}
	s := h.stranger(t)
	t.Run("every_spelling_is_one_bucket_at_each_door", func(t *testing.T) {
		for i := range 10 {
			wantJudged(t, s.signIn(t, spellings[i%5], tooLong, from(address(i))))
		}
		for _, name := range spellings {
			wantThrottled(t, s.signIn(t, name, tooLong, from(address(1))), "1")
		}
		for i := range 10 {
			wantJudged(t, h.grant(t, spellings[i%5], tooLong, from(address(i))))
		}
		for _, name := range spellings {
			wantThrottled(t, h.grant(t, name, tooLong, from(address(1))), "1")
		}
	})
	t.Run("the_right_password_too_until_then", func(t *testing.T) {
		wantThrottled(t, h.grant(t, "b\u00f3b", storetest.Password, from(address(1))), "1")
		wantThrottled(t, s.signIn(t, "b\u00f3b", storetest.Password, from(address(1))), "1")
		wantPair(t, h.token(t, h.passwordForm())) // others are not affected
		h.Clock.Advance(time.Second)
		wantPair(t, h.grant(t, "b\u00f3b", storetest.Password))
		wantJudged(t, h.grant(t, "b\u00f3b", tooLong)) // and is forgiven
	})
	doors := map[string]func(t *testing.T, source int) answer{
		"form":  func(t *testing.T, source int) answer { return s.signIn(t, "moira", tooLong, from(address(source))) },
		"grant": func(t *testing.T, source int) answer { return h.grant(t, "moira", tooLong, from(address(source))) },
	}
	t.Run("the_delay_doubles_to_a_minute", func(t *testing.T) {
		for _, try := range doors {
			for i := range 10 {
				wantJudged(t, try(t, 20+i))
			}
			for i, seconds := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
				wantThrottled(t, try(t, 20+i), fmt.Sprint(seconds))
				h.Clock.Advance(time.Duration(seconds)*time.Second - time.Millisecond)
				wantThrottled(t, try(t, 20+i), "1")
				h.Clock.Advance(time.Millisecond)
				wantJudged(t, try(t, 20+i))
			}
		}
	})
	t.Run("forgotten_after_a_quarter_of_an_hour", func(t *testing.T) {
		h.Clock.Advance(15 * time.Minute)
		for _, try := range doors {
			for i := range 10 {
				wantJudged(t, try(t, 60+i))
			}
			wantThrottled(t, try(t, 60), "1")
		}
	})
	t.Run("a_clock_set_back_lengthens_nothing", func(t *testing.T) {
		h.Clock.Advance(-time.Hour)
		for _, try := range doors {
			wantThrottled(t, try(t, 60), "1")
		}
		h.Clock.Advance(time.Second)
		for _, try := range doors {
			wantJudged(t, try(t, 60))
		}
	})
	t.Run("a_restart_gives_ten_tries_more_at_most", func(t *testing.T) {
		for _, try := range doors {
			wantThrottled(t, try(t, 60), "2")
		}
		h.restart(t)
		for _, try := range doors {
			for i := range 10 {
				wantJudged(t, try(t, 73+i))
			}
			wantThrottled(t, try(t, 73), "1")
		}
	})
}

// Promise (Credentials, memory, connections): distinguishing users by answer or timing
func TestThrottleAnswersAlike(t *testing.T) {
	h := parallelHouse(t)
	s := h.stranger(t)
	for i := range 10 {
		for _, name := range []string{"mara", "nils"} { // one of them is a user
			wantJudged(t, s.signIn(t, name, tooLong, from(address(i))))
			wantJudged(t, h.grant(t, name, tooLong))
		}
	}
	alike := func(t *testing.T, known, unknown answer) {
		for _, a := range []answer{known, unknown} {
			wantThrottled(t, a, "1")
			a.Header.Del("X-Request-Id")
		}
		if got, want := fmt.Sprint(unknown.Header), fmt.Sprint(known.Header); got != want {
			t.Errorf("headers of an unknown user = %s, want %s", got, want)
		}
	}
	t.Run("the_grant", func(t *testing.T) {
		known, unknown := h.grant(t, "mara", tooLong), h.grant(t, "nils", tooLong)
		alike(t, known, unknown)
		if known.body != unknown.body {
			t.Errorf("bodies %s and %s, want the same", known.body, unknown.body)
		}
	})
	t.Run("the_form", func(t *testing.T) {
		known, unknown := s.signIn(t, "mara", tooLong, from(address(1))), s.signIn(t, "nils", tooLong, from(address(1)))
		for _, a := range []*answer{&known, &unknown} {
			if !strings.Contains(words(t, *a), "Too many failed sign-ins. Try again in 1 second.") {
				t.Errorf("the page says %q, want that it must wait", words(t, *a))
			}
			a.body = strings.ReplaceAll(a.body, a.Header.Get("X-Request-Id"), "")
			a.Header.Del("Content-Security-Policy") // its nonce
			a.Header.Del("Content-Length")
		}
		alike(t, known, unknown)
		if got := strings.ReplaceAll(words(t, unknown), "nils", "mara"); got != words(t, known) {
			t.Errorf("the pages say %q and %q, want the same", words(t, known), got)
		}
		wantPageHeaders(t, s.signIn(t, "mara", tooLong, from(address(1))))
	})
}

// Promise (RFC 9110, RFC 9112): forwarding headers; a forged source address, its port or zone
// Promise (Credentials, memory, connections): filling the throttle's memory; tokens outside the
// header
func TestThrottleOfASource(t *testing.T) {
	t.Parallel()
	proxy := func(c *handlers.Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} }
	// exhaust fails under 30 names, from the source that from returns.
	exhaust := func(t *testing.T, s stranger, where func(i int) []func(*http.Request)) {
		t.Helper()
		for i := range 30 {
			wantJudged(t, s.signIn(t, fmt.Sprint("name", i), tooLong, where(i)...))
		}
	}
	at := func(a string) func(int) []func(*http.Request) {
		return func(int) []func(*http.Request) { return []func(*http.Request){from(a)} }
	}
	t.Run("many_names_from_one_address", func(t *testing.T) {
		h := parallelHouse(t)
		s := h.stranger(t)
		exhaust(t, s, at("192.0.2.1"))
		wantThrottled(t, s.signIn(t, "mara", storetest.Password, from("192.0.2.1")), "2")
		wantJudged(t, s.signIn(t, "mara", tooLong, from("192.0.2.2")))
		h.Clock.Advance(2 * time.Second)
		wantJudged(t, s.signIn(t, "mara", tooLong, from("192.0.2.1")))
		wantThrottled(t, s.signIn(t, "mara", tooLong, from("192.0.2.1")), "2")
	})
	t.Run("an_IPv6_subscriber_is_one_source", func(t *testing.T) {
		s := parallelHouse(t).stranger(t)
		exhaust(t, s, func(i int) []func(*http.Request) {
			return []func(*http.Request){from(fmt.Sprintf("2001:db8:1:2:%x::%x", i, i+1))}
		})
		wantThrottled(t, s.signIn(t, "mara", tooLong, from("2001:db8:1:2:ffff::9")), "2")
		wantJudged(t, s.signIn(t, "mara", tooLong, from("2001:db8:1:3::1")))
	})
	t.Run("what_an_untrusted_peer_says_is_ignored", func(t *testing.T) {
		s := parallelHouse(t).stranger(t)
		exhaust(t, s, func(i int) []func(*http.Request) {
			return []func(*http.Request){from("192.0.2.1"), header("X-Forwarded-For", address(i)), header("Forwarded", "for="+address(i)), header("X-Real-IP", address(i))}
		})
		wantThrottled(t, s.signIn(t, "mara", tooLong, from("192.0.2.1"), header("X-Forwarded-For", "203.0.113.1")), "2")
	})
	t.Run("a_trusted_proxy_is_believed", func(t *testing.T) {
		s := parallelHouse(t, proxy).stranger(t)
		through := func(hops string) []func(*http.Request) {
			return []func(*http.Request){from("10.0.0.1"), header("X-Forwarded-For", hops)}
		}
		exhaust(t, s, func(i int) []func(*http.Request) { return through(address(i) + ", 203.0.113.9") })
		wantThrottled(t, s.signIn(t, "mara", tooLong, through("1.2.3.4, 203.0.113.9")...), "2")
		wantJudged(t, s.signIn(t, "mara", tooLong, through("203.0.113.10")...))
	})
	t.Run("failed_clients_are_charged_to_their_source", func(t *testing.T) {
		h := parallelHouse(t)
		for i := range 30 {
			form := with(h.credentials(), "client_id", fmt.Sprint("client", i))
			wantTokenError(t, h.postForm(t, []string{tokenPath, revokePath, introspectPath}[i%3], form), http.StatusUnauthorized, "invalid_client")
		}
		wrong, unknown := h.token(t, with(h.passwordForm(), "client_secret", "wrong")), h.token(t, with(h.passwordForm(), "client_id", "moira"))
		wantThrottled(t, wrong, "2")
		wantThrottled(t, unknown, "2")
		if wrong.body != unknown.body {
			t.Error("an unknown client and a wrong secret differ")
		}
		wantThrottled(t, h.stranger(t).signIn(t, "mara", tooLong), "2")
		wantPair(t, h.token(t, h.passwordForm())) // an authenticated client need not wait
	})
	t.Run("pages_of_other_sites_do_not_use_up_their_visitors_failures", func(t *testing.T) {
		h := parallelHouse(t)
		modern := []func(*http.Request){header("Origin", "https://evil.example"), header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "no-cors")}
		for name, page := range map[string][]func(*http.Request){
			"without_cors":       modern,
			"without_a_referrer": append(modern[1:], header("Origin", "null")),
			"on_plain_http":      {header("Origin", "http://evil.example")}, // no Sec-Fetch there
			"hidden_on_http":     {header("Origin", "null")},
		} {
			for i := range 40 {
				a := h.postForm(t, []string{tokenPath, revokePath, introspectPath}[i%3], url.Values{"grant_type": {"password"}, "client_id": {"x"}, "client_secret": {"y"}}, page...)
				if wantTokenError(t, a, http.StatusUnauthorized, "invalid_client"); t.Failed() {
					t.Fatalf("request %d of a page %s", i, name)
				}
			}
		}
		wantJudged(t, h.stranger(t).signIn(t, "mara", tooLong))
	})
	t.Run("pages_of_public_clients_are_charged", func(t *testing.T) {
		h := parallelHouse(t)
		h.Client(t, publicClient)
		page := []func(*http.Request){header("Origin", "https://app.example"), header("Sec-Fetch-Site", "cross-site")}
		for range 30 {
			wantTokenError(t, h.token(t, url.Values{"client_id": {"x"}}, page...), http.StatusUnauthorized, "invalid_client")
		}
		wantThrottled(t, h.token(t, url.Values{"client_id": {"x"}}, page...), "2")
	})
	t.Run("invalid_grant_on_a_code_or_refresh_token_is_no_failure", func(t *testing.T) {
		h := parallelHouse(t)
		for range 40 {
			wantTokenError(t, h.token(t, h.codeForm("x")), http.StatusBadRequest, "invalid_grant")
			wantTokenError(t, h.token(t, h.refreshForm("x")), http.StatusBadRequest, "invalid_grant")
		}
		wantJudged(t, h.stranger(t).signIn(t, "mara", tooLong))
	})
}

// Promise (RFC 6749 §4): a missing username or password is invalid_request; too many failures, at
// the form or of one client's grant, are 429 with Retry-After
func TestThrottleOfAClient(t *testing.T) {
	h := parallelHouse(t)
	other, otherSecret := h.Client(t)
	for i := range 300 {
		wantJudged(t, h.grant(t, fmt.Sprint("name", i), tooLong))
	}
	t.Run("the_password_grant_charges_user_and_client", func(t *testing.T) {
		wantThrottled(t, h.grant(t, "mara", storetest.Password), "1")
		h.Clock.Advance(time.Second)
		wantPair(t, h.grant(t, "mara", storetest.Password))
	})
	t.Run("and_not_the_source", func(t *testing.T) {
		wantJudged(t, h.stranger(t).signIn(t, "mara", tooLong))
		wantJudged(t, h.token(t, with(as(h.passwordForm(), other, otherSecret), "password", tooLong)))
	})
}

const deviceCookie = "__Host-tollhouse_device"

// Promise (Credentials, memory, connections): huge passwords; locking an owner out, from one source
// or many
func TestThrottleAndTheOwner(t *testing.T) {
	h := parallelHouse(t)
	h.User(t, "eve", h.account)
	owner := h.browser(t)
	if a := owner.submit(t, owner.get(t, "/login"), rightPassword...); a.StatusCode != http.StatusSeeOther {
		t.Fatalf("status = %d, want a sign-in", a.StatusCode)
	}
	device := owner.cookie(deviceCookie)
	s := h.stranger(t)
	failing := address(1951) // fails behind the last pause
	hammer := func(t *testing.T) {
		for i := range 2000 {
			s.signIn(t, "mara", tooLong, from(address(i)))
			if i%50 == 0 {
				h.Clock.Advance(time.Minute)
			}
		}
		wantThrottled(t, s.signIn(t, "mara", storetest.Password, from(failing)), "60")
	}
	const home = "203.0.113.2"
	// known signs in from a browser that holds such a device cookie.
	known := func(t *testing.T, cookie, name, password, source string) answer {
		b := h.stranger(t)
		b.setCookie(deviceCookie, cookie)
		return b.signIn(t, name, password, from(source))
	}
	hammer(t)
	t.Run("gets_in_while_strangers_hammer", func(t *testing.T) {
		if a := known(t, device, "MARA", storetest.Password, failing); a.StatusCode != http.StatusSeeOther {
			t.Errorf("status = %d, want a sign-in at once", a.StatusCode)
		}
		wantThrottled(t, s.signIn(t, "mara", storetest.Password, from(failing)), "60")
	})
	t.Run("a_device_is_one_users_and_sealed", func(t *testing.T) {
		b := h.browser(t)
		b.submit(t, b.get(t, "/login"), "username", "eve", "password", storetest.Password)
		for _, cookie := range []string{b.cookie(deviceCookie), "", "x", device[:len(device)-2], owner.cookie(sessionCookie)} {
			wantThrottled(t, known(t, cookie, "mara", storetest.Password, failing), "60")
		}
	})
	t.Run("a_device_is_throttled_too", func(t *testing.T) {
		for range 10 {
			wantJudged(t, known(t, device, "mara", tooLong, home))
		}
		wantThrottled(t, known(t, device, "mara", storetest.Password, home), "1")
		for i := range 20 { // what failed there is charged to the source all the same
			wantJudged(t, s.signIn(t, fmt.Sprint("name", i), tooLong, from(home)))
		}
		wantThrottled(t, s.signIn(t, "eve", storetest.Password, from(home)), "2")
	})
	t.Run("a_device_is_forgotten_after_90_days", func(t *testing.T) {
		h.Clock.Advance(90*24*time.Hour + time.Minute)
		hammer(t)
		wantThrottled(t, known(t, device, "mara", storetest.Password, failing), "60")
	})
}

// Promise (Credentials, memory, connections): guessing one account by many spellings or from many
// addresses, many from one; a restart; two servers
func TestThrottleInParallel(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	h := slowHouse(t)
	t.Run("a_burst_is_bounded", func(t *testing.T) {
		const callers = 300
		judged := 0
		for _, a := range h.together(t, callers, func() answer { return h.grant(t, "mara", "not the password") }) {
			switch a.StatusCode {
			case http.StatusBadRequest:
				judged++
			case http.StatusTooManyRequests, http.StatusServiceUnavailable:
				if a.Header.Get("Retry-After") == "" {
					t.Error("no Retry-After")
				}
			default:
				t.Errorf("status = %d", a.StatusCode)
			}
		}
		if most := 64 + 10; judged > most {
			t.Errorf("%d passwords were tried at once, want at most %d", judged, most)
		}
	})
	t.Run("and_only_once", func(t *testing.T) {
		// On a busy machine the burst may have ended before ten attempts were checked.
		for range 20 {
			if h.grant(t, "mara", "not the password").StatusCode == http.StatusTooManyRequests {
				break
			}
		}
		judged := 0
		for _, a := range h.together(t, 100, func() answer { return h.grant(t, "mara", "not the password") }) {
			if a.StatusCode == http.StatusBadRequest {
				judged++
			}
		}
		if judged > 0 {
			t.Errorf("%d more were tried, want none before the delay is over", judged)
		}
		h.Clock.Advance(time.Minute)
		for _, a := range h.together(t, 100, func() answer { return h.grant(t, "mara", "not the password") }) {
			if a.StatusCode == http.StatusBadRequest {
				judged++
			}
		}
		if judged != 1 {
			t.Errorf("%d were tried after the delay, want one", judged)
		}
	})
}

package handlers_test

import (
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tollhouse/handlers"
	"tollhouse/store/record"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// houseOverTCP is a house whose requests cross a connection, behind a trusted proxy that
// names each request's source.
func houseOverTCP(t testing.TB, change ...func(*handlers.Config)) *house {
	t.Helper()
	trusting := func(c *handlers.Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }
	h := slowHouse(t, append(change, trusting)...)
	back := &url.URL{Scheme: "http", Host: h.listen(t)}
	wire := &http.Transport{MaxIdleConnsPerHost: 128}
	t.Cleanup(wire.CloseIdleConnections)
	h.public = &httputil.ReverseProxy{Transport: wire, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(back)
		r.Out.Host = r.In.Host
		r.SetXForwarded()
	}}
	return h
}

// Promise (Credentials, memory, connections): locking a backend's users out from the sign-in form;
// evicting a throttled user by unjudged attempts
func TestStrangersLockNoBackendOut(t *testing.T) {
	t.Parallel()
	h := houseOverTCP(t)
	s := h.stranger(t)
	lockedOut := func(t *testing.T, name string) {
		t.Helper()
		for range 10 {
			s.signIn(t, name, tooLong, from("192.0.2.7"))
		}
		wantThrottled(t, s.signIn(t, name, tooLong, from("192.0.2.7")), "1")
	}
	t.Run("the_grant_works_while_the_form_refuses", func(t *testing.T) {
		lockedOut(t, "mara")
		wantPair(t, h.grant(t, "mara", storetest.Password))
		wantThrottled(t, s.signIn(t, "mara", storetest.Password, from("192.0.2.7")), "1")
	})
	t.Run("an_unknown_name_gets_the_same_answers", func(t *testing.T) {
		lockedOut(t, "moira")
		known, unknown := h.grant(t, "mara", tooLong), h.grant(t, "moira", tooLong)
		for _, a := range []answer{known, unknown} {
			wantTokenError(t, a, http.StatusBadRequest, "invalid_grant")
		}
		if known.body != unknown.body {
			t.Errorf("bodies %s and %s, want the same", known.body, unknown.body)
		}
	})
	t.Run("each_client_has_its_own_bucket_for_a_user", func(t *testing.T) {
		for range 10 {
			h.grant(t, "mara", tooLong)
		}
		wantThrottled(t, h.grant(t, "MARA", storetest.Password), "1")
		other, otherSecret := h.Client(t)
		wantPair(t, h.token(t, as(h.passwordForm(), other, otherSecret)))
		wantThrottled(t, h.grant(t, "mara", storetest.Password), "1")
	})
}

// Promise (Credentials, memory, connections): locking a backend's users out from the sign-in form;
// evicting a throttled user by unjudged attempts
func TestOnlyFailuresMakeBuckets(t *testing.T) {
	t.Parallel()
	h := houseOverTCP(t)
	s := h.stranger(t)
	for i := range 10 {
		wantJudged(t, s.signIn(t, "mara", tooLong, from(address(i))))
	}
	wantThrottled(t, s.signIn(t, "mara", tooLong, from(address(0))), "1")
	t.Run("unjudged_attempts_evict_no_one", func(t *testing.T) {
		must.SkipInShort(t)
		h.Faults.Break(record.ErrUnavailable)
		defer h.Faults.Repair()
		for i := range 1 << 14 { // as many buckets as there can be
			if a := s.signIn(t, fmt.Sprint("name", i), "not the password"); a.StatusCode != http.StatusServiceUnavailable {
				t.Fatalf("status = %d, want 503", a.StatusCode)
			}
		}
	})
	wantThrottled(t, s.signIn(t, "mara", storetest.Password, from(address(0))), "1")
}

// TestStrangersKeepNoUserOut: while strangers fail without end for a name, from one source
// or from many, the right password gets in from elsewhere within two minutes.
//
// Promise (Credentials, memory, connections): huge passwords; locking an owner out, from one source
// or many
func TestStrangersKeepNoUserOut(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	const elsewhere = "203.0.113.7"
	for _, sources := range []int{1, 80, 256} {
		t.Run(fmt.Sprint(sources), func(t *testing.T) {
			t.Parallel()
			h := houseOverTCP(t)
			s := h.stranger(t)
			judged := map[string]int{}
			flood := func() { // each source once a second
				for i := range sources {
					for _, name := range []string{"mara", "moira"} { // one of them is a user
						if isJudged(s.signIn(t, name, tooLong, from(address(i)))) {
							judged[name]++
						}
					}
				}
				h.Clock.Advance(time.Second)
			}
			for range 20 {
				flood()
			}
			// 10 free ones, 20 turns of sources without failures and as many in a minute, and one of the name's own
			if judged["mara"] != judged["moira"] || judged["mara"] > 10+20+7+5 {
				t.Errorf("judged: %v, want as many for each name and 42 at most", judged)
			}
			waited := 0
			for {
				a := s.signIn(t, "mara", storetest.Password, from(elsewhere))
				if a.StatusCode == http.StatusSeeOther {
					break
				}
				seconds := must.Get(strconv.Atoi(a.Header.Get("Retry-After")))(t)
				if waited += seconds; waited > 120 {
					t.Fatalf("the right password waits %d s", waited)
				}
				for range seconds {
					flood()
				}
			}
			t.Logf("%d guesses judged; the right password waits %d s", judged["mara"], waited)
		})
	}
	t.Run("at_a_client_whose_secret_leaked", func(t *testing.T) {
		t.Parallel()
		h := houseOverTCP(t)
		for range 30 {
			h.grant(t, "mara", tooLong, from("192.0.2.7"))
		}
		wantThrottled(t, h.grant(t, "mara", storetest.Password, from("192.0.2.7")), "1")
		wantPair(t, h.grant(t, "mara", storetest.Password, from(elsewhere)))
	})
	t.Run("a_session_confirms_its_password_beside_them", func(t *testing.T) {
		t.Parallel()
		h := houseOverTCP(t)
		b := h.signedIn(t, h.user)
		b.setCookie(deviceCookie, "")
		h.hammered(t)
		form := b.passwordForm(t, storetest.Password, freshPassword)
		b.wantDone(t, b.post(t, accountPassword, form, from(address(0))), "Your password was changed.")
	})
}

func isJudged(a answer) bool {
	return a.StatusCode != http.StatusTooManyRequests && a.StatusCode != http.StatusServiceUnavailable
}

// TestNetworksOfSources: an IPv6 /56 has the failures of 8 sources, and a /48 those of 32.
//
// Promise (Credentials, memory, connections): an IPv6 /56 or /48 as many sources: failures, turns,
// connections, bodies, HTTP/2 requests
func TestNetworksOfSources(t *testing.T) {
	t.Parallel()
	h := houseOverTCP(t)
	for _, network := range []struct {
		name                   string
		sources                string // a format
		count, tries, failures int
	}{
		{"a_64", "2001:db8:1::%x", 2, 20, 30},
		{"the_rest_of_its_56", "2001:db8:1:%x::1", 20, 15, 8*30 - 30},
		{"the_rest_of_its_48", "2001:db8:1:%x00::1", 64, 15, 32*30 - 8*30},
		{"another_48", "2001:db8:2::%x", 1, 40, 30},
		{"IPv4_addresses", "198.51.100.%d", 3, 40, 90},
	} {
		judged := 0
		for i := range network.count * network.tries {
			form := url.Values{"client_id": {"unknown"}, "client_secret": {"x"}}
			if isJudged(h.token(t, form, from(fmt.Sprintf(network.sources, 1+i%network.count)))) {
				judged++
			}
		}
		if judged != network.failures {
			t.Errorf("%s: %d failures were judged, want %d", network.name, judged, network.failures)
		}
	}
}

// remembered returns the device cookies of new browsers in which a user signs in.
func (h *house) remembered(t testing.TB, browsers int) (cookies []string) {
	t.Helper()
	for range browsers {
		b := h.browser(t)
		if a := b.submit(t, b.get(t, "/login"), rightPassword...); a.StatusCode != http.StatusSeeOther {
			t.Fatalf("status = %d, want a sign-in", a.StatusCode)
		}
		cookies = append(cookies, b.cookie(deviceCookie))
	}
	return cookies
}

// signInWith signs in as mara with a device cookie.
func (h *house) signInWith(t testing.TB, cookie, password, source string) answer {
	t.Helper()
	s := h.stranger(t)
	s.setCookie(deviceCookie, cookie)
	return s.signIn(t, "mara", password, from(source))
}

// hammered has strangers fail as mara until the name must wait.
func (h *house) hammered(t testing.TB) {
	t.Helper()
	s := h.stranger(t)
	for i := range 10 {
		s.signIn(t, "mara", tooLong, from(address(i)))
	}
	wantThrottled(t, s.signIn(t, "mara", storetest.Password, from(address(0))), "1")
}

// Promise (Credentials, memory, connections): device cookies after a password reset, several of one
// browser, several from one source
func TestDeviceCookies(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	const attacker, home = "192.0.2.7", "203.0.113.2"
	judgedOf := func(t *testing.T, h *house, cookies []string, source string) (judged int) {
		t.Helper()
		for _, cookie := range cookies {
			for range 10 {
				if h.signInWith(t, cookie, tooLong, source).StatusCode == http.StatusOK {
					judged++
				}
			}
		}
		return judged
	}
	t.Run("buy_no_guess_after_the_operator_reset_the_password", func(t *testing.T) {
		t.Parallel()
		h := houseOverTCP(t)
		cookies := h.remembered(t, 5)
		must.Get(h.SetPassword(t.Context(), "mara", "another long phrase"))(t)
		h.hammered(t)
		if judged := judgedOf(t, h, cookies, attacker); judged != 1 {
			t.Errorf("%d guesses were judged, want the one of a source that has not failed", judged)
		}
	})
	t.Run("keep_their_id_when_the_browser_signs_in_again", func(t *testing.T) {
		t.Parallel()
		h := houseOverTCP(t)
		b := h.browser(t)
		var cookies []string
		for range 5 {
			b.setCookie(sessionCookie, "")
			b.submit(t, b.get(t, "/login"), rightPassword...)
			cookie := b.cookie(deviceCookie)
			if slices.Contains(cookies, cookie) {
				t.Fatal("a sign-in did not renew the cookie")
			}
			cookies = append(cookies, cookie)
		}
		h.hammered(t)
		if judged := judgedOf(t, h, cookies, attacker); judged != 10 {
			t.Errorf("%d guesses were judged with the cookies of one browser, want 10", judged)
		}
	})
	t.Run("are_charged_to_their_source", func(t *testing.T) {
		t.Parallel()
		h := houseOverTCP(t)
		cookies := h.remembered(t, 8)
		if judged := judgedOf(t, h, cookies, attacker); judged != 30 {
			t.Errorf("%d guesses were judged, want the 30 of a source", judged)
		}
		wantThrottled(t, h.stranger(t).signIn(t, "moira", tooLong, from(attacker)), "2")
	})
	t.Run("bring_a_used_up_source_ten_failures_once", func(t *testing.T) {
		t.Parallel()
		h := houseOverTCP(t)
		cookies, s := h.remembered(t, 8), h.stranger(t)
		for i := range 30 {
			wantJudged(t, s.signIn(t, fmt.Sprint("name", i), tooLong, from(attacker)))
		}
		if judged := judgedOf(t, h, cookies, attacker); judged != 10 {
			t.Errorf("%d guesses were judged, want 10", judged)
		}
		judged := 0
		for range 10 { // minutes, each with 30 permitted failures per source, until the excess is paid off
			h.Clock.Advance(time.Minute)
			for i := range 40 {
				if s.signIn(t, fmt.Sprint("other", i), tooLong, from(attacker)).StatusCode == http.StatusOK {
					judged++
				}
			}
			judged += judgedOf(t, h, cookies[:1], attacker)
		}
		if most := 10 * 30; judged > most {
			t.Errorf("%d guesses were judged in ten minutes, want at most %d", judged, most)
		}
	})
	t.Run("let_the_owner_in_from_a_source_that_strangers_used_up", func(t *testing.T) {
		t.Parallel()
		h := houseOverTCP(t)
		cookie := h.remembered(t, 1)[0]
		s := h.stranger(t)
		for i := range 30 {
			wantJudged(t, s.signIn(t, fmt.Sprint("name", i), tooLong, from(home)))
		}
		wantThrottled(t, s.signIn(t, "mara", storetest.Password, from(home)), "2")
		if a := h.signInWith(t, cookie, storetest.Password, home); a.StatusCode != http.StatusSeeOther {
			t.Errorf("status = %d, want a sign-in", a.StatusCode)
		}
	})
	t.Run("of_other_browsers_end_with_everything_else_when_a_person_changes_the_password", func(t *testing.T) {
		t.Parallel()
		h := houseOverTCP(t)
		other := h.remembered(t, 1)[0]
		b := h.signedIn(t, h.user)
		form := b.passwordForm(t, storetest.Password, freshPassword)
		b.wantDone(t, b.post(t, accountPassword, form), "You are signed out everywhere else")
		h.hammered(t)
		wantThrottled(t, h.signInWith(t, other, freshPassword, address(0)), "1")
		if a := h.signInWith(t, b.cookie(deviceCookie), freshPassword, home); a.StatusCode != http.StatusSeeOther {
			t.Errorf("status = %d, want a sign-in in the browser that changed it", a.StatusCode)
		}
	})
}

// TestOneHolderStarvesNoSignIn repeats one user's right password over 75 connections, until
// the queue for hashing is full. All other users are served.
//
// Promise (Credentials, memory, connections): starving sign-ins by one user's right password, or
// many usernames from one source
func TestOneHolderStarvesNoSignIn(t *testing.T) {
	must.SkipInShort(t)
	const connections, others = 75, 1
	cases := map[string]func(t *testing.T, h *house) func(i int) answer{
		"by_the_grant_of_one_client": func(t *testing.T, h *house) func(int) answer {
			return func(int) answer { return h.grant(t, "mara", storetest.Password) }
		},
		"at_the_form_from_one_source": func(t *testing.T, h *house) func(int) answer {
			send := h.signInAgain(t)
			return func(int) answer { return send("192.0.2.7") }
		},
		"at_the_form_from_many_sources": func(t *testing.T, h *house) func(int) answer {
			send := h.signInAgain(t)
			return func(i int) answer { return send(address(i)) }
		},
	}
	for name, hammer := range cases {
		t.Run(name, func(t *testing.T) {
			h := houseOverTCP(t)
			h.User(t, "eve", h.account)
			stop := h.hammer(t, connections, hammer(t, h))
			defer stop()
			for range others {
				wantPair(t, h.grant(t, "eve", storetest.Password))
				if a := h.stranger(t).signIn(t, "eve", storetest.Password, from("203.0.113.2")); a.StatusCode != http.StatusSeeOther {
					t.Errorf("status = %d, want a sign-in", a.StatusCode)
				}
				wantTokenError(t, h.grant(t, "moira", "not the password"), http.StatusBadRequest, "invalid_grant")
				wantJudged(t, h.stranger(t).signIn(t, "moira", "not the password", from("203.0.113.2")))
			}
		})
	}
}

// hammer repeats a request over as many connections, and returns once the queue for hashing
// has refused one.
func (h *house) hammer(t *testing.T, connections int, send func(i int) answer) (stop func()) {
	t.Helper()
	var all sync.WaitGroup
	var once sync.Once
	full, ended := make(chan struct{}), make(chan struct{})
	for i := range connections {
		all.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
				}
				if send(i).StatusCode == http.StatusServiceUnavailable {
					once.Do(func() { close(full) })
				}
			}
		})
	}
	stop = func() { close(ended); all.Wait() }
	select {
	case <-full:
	case <-time.After(wireWaitMax):
		stop()
		t.Fatal("the queue is not full")
	}
	return stop
}

// signInAgain returns a function that repeats mara's sign-in, as a browser that accepts no
// new cookie.
func (h *house) signInAgain(t *testing.T) func(source string) answer {
	t.Helper()
	s := h.stranger(t)
	body := with(s.form.fields, rightPassword...).Encode()
	var cookies []string
	for _, c := range s.jar.Cookies(s.site) {
		cookies = append(cookies, c.String())
	}
	return func(source string) answer {
		return h.do(h.request(t, "POST", "/login", strings.NewReader(body), header("Content-Type", formType),
			header("Origin", h.issuer), header("Cookie", strings.Join(cookies, "; ")), from(source)))
	}
}

package handlers_test

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// Promise (RFC 6749 §10): a form is answered with 303, a redirect on GET with 302; GET issues only
// what is remembered
// Promise (RFC 7662, RFC 8252 §8.6): the consent page names client, user, scopes and destination;
// consent is asked each time, or remembered
func TestConsent(t *testing.T) {
	h := parallelHouse(t)
	t.Run("says_who_asks_for_what_and_where_it_leads", func(t *testing.T) {
		must.Get(h.CreateAccount(context.Background(), "acct_named", "Larkspur & Daughters"))(t)
		b := h.signedIn(t, h.User(t, "nils", "acct_named"))
		page := b.get(t, h.authURL("scope", "events:read"))
		text := words(t, page)
		for _, want := range []string{"Allow Larkspur Bookkeeping", "Signed in as nils", "Larkspur & Daughters", "app.example", "Read the events of your account"} {
			if !strings.Contains(text, want) {
				t.Errorf("the page says %q, want %q in it", text, want)
			}
		}
		if strings.Contains(text, "Create, change and delete") {
			t.Error("the page lists what was not asked for")
		}
	})
	t.Run("allow_sends_one_code_by_303", func(t *testing.T) {
		b := h.signedIn(t, h.user)
		before := h.Count(t, 'k')
		a := b.submit(t, b.get(t, h.authURL()), "decision", "allow")
		to := callback(t, a, http.StatusSeeOther)
		if code := to.Query()["code"]; len(code) != 1 || !strings.HasPrefix(a.Header.Get("Location"), storetest.CallbackURI+"?") {
			t.Errorf("Location = %q, want one code at the redirect URI", a.Header.Get("Location"))
		}
		if n := h.Count(t, 'k') - before; n != 1 {
			t.Errorf("%d codes were made, want one", n)
		}
	})
	t.Run("deny_stores_no_code", func(t *testing.T) {
		b := h.signedIn(t, h.user)
		before := h.Count(t, 'k')
		q := callback(t, b.submit(t, b.get(t, h.authURL("state", "s")), "decision", "deny"), http.StatusSeeOther).Query()
		if q.Get("error") != "access_denied" || q.Get("error_description") == "" || q.Get("state") != "s" || q.Get("iss") != h.issuer || q.Has("code") {
			t.Errorf("%v, want access_denied with description, state and iss", q)
		}
		if n := h.Count(t, 'k') - before; n != 0 {
			t.Errorf("%d codes were made, want none", n)
		}
	})
	t.Run("GET_never_mints", func(t *testing.T) {
		b := h.signedIn(t, h.user)
		before := h.kept(t)
		page := b.get(t, h.authURL())
		ticket := formOn(t, page).fields.Get("ticket")
		b.get(t, h.authURL(), header("Sec-Purpose", "prefetch"))
		b.get(t, h.authURL()+"&decision=allow&ticket="+ticket)
		wantError(t, b.get(t, "/consent?decision=allow&ticket="+ticket), http.StatusMethodNotAllowed, "invalid_request")
		if n := h.kept(t) - before; n != 0 {
			t.Errorf("GET wrote %d records, want none", n)
		}
	})
	t.Run("is_asked_each_time", func(t *testing.T) {
		b := h.signedIn(t, h.user)
		for range 2 {
			page := b.get(t, h.authURL())
			if !strings.Contains(words(t, page), "Allow Larkspur Bookkeeping") {
				t.Fatal("the question was not asked")
			}
			callback(t, b.submit(t, page, "decision", "allow"), http.StatusSeeOther)
		}
	})
	t.Run("not_you_leads_to_a_sign_in_for_the_same_request", func(t *testing.T) {
		b := h.signedIn(t, h.user)
		page := b.get(t, h.authURL("state", "s"))
		var notYou string
		for n := range parsePage(t, page).Descendants() {
			if n.Data == "a" && strings.Contains(attribute(n, "href"), "prompt=login") {
				notYou = attribute(n, "href")
			}
		}
		if page = b.get(t, notYou); !strings.Contains(words(t, page), "Password") || !strings.Contains(formOn(t, page).fields.Get("query"), "state=s") {
			t.Errorf("%s leads to %q, want a sign-in for the same request", notYou, words(t, page))
		}
	})
}

// Promise (Browsers): a consent ticket is useless in another browser
func TestConsentForgery(t *testing.T) {
	h := parallelHouse(t)
	nils := h.User(t, "nils", h.account)
	b := h.signedIn(t, h.user)
	page := b.get(t, h.authURL())
	ticket := formOn(t, page).fields.Get("ticket")
	allow := url.Values{"ticket": {ticket}, "decision": {"allow"}}
	elsewhere := h.signedIn(t, h.user)
	cases := []struct {
		name   string
		status int
		send   func(t *testing.T) answer
	}{
		{"without_a_ticket", 403, func(t *testing.T) answer { return b.post(t, "/consent", without(allow, "ticket")) }},
		{"not_signed_in", 403, func(t *testing.T) answer { return h.browser(t).post(t, "/consent", allow) }},
		{"another_sign_in_of_the_same_user", 403, func(t *testing.T) answer { return elsewhere.post(t, "/consent", allow) }},
		{"another_user", 403, func(t *testing.T) answer { return h.signedIn(t, nils).post(t, "/consent", allow) }},
		{"from_another_site", 403, func(t *testing.T) answer { return b.post(t, "/consent", allow, header("Sec-Fetch-Site", "cross-site")) }},
		{"bent_by_one_character", 400, func(t *testing.T) answer { return b.post(t, "/consent", with(allow, "ticket", storetest.Bent(ticket))) }},
		{"cut_short", 400, func(t *testing.T) answer { return b.post(t, "/consent", with(allow, "ticket", ticket[:len(ticket)-4])) }},
		{"padded", 400, func(t *testing.T) answer { return b.post(t, "/consent", with(allow, "ticket", ticket+"==")) }},
		{"garbage", 400, func(t *testing.T) answer { return b.post(t, "/consent", with(allow, "ticket", "x")) }},
		{"sealed_by_another_key", 400, func(t *testing.T) answer {
			return b.post(t, "/consent", with(allow, "ticket", secret.NewKey(nil).Seal("consent ticket", []byte("{}"))))
		}},
		{"sealed_by_our_key_for_something_else", 400, func(t *testing.T) answer {
			return b.post(t, "/consent", with(allow, "ticket", h.Key.Seal("device", []byte("{}"))))
		}},
		{"no_decision", 400, func(t *testing.T) answer { return b.post(t, "/consent", without(allow, "decision")) }},
		{"another_decision", 400, func(t *testing.T) answer { return b.post(t, "/consent", with(allow, "decision", "maybe")) }},
		{"two_decisions", 400, func(t *testing.T) answer {
			return b.send(t, "POST", "/consent", strings.NewReader(allow.Encode()+"&decision=deny"), header("Content-Type", formType))
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			wantErrorPage(t, c.send(t), c.status)
			if n := h.Count(t, 'k') + h.Count(t, 'd'); n != 0 {
				t.Errorf("%d codes and decisions are kept, want none", n)
			}
		})
	}
	t.Run("after_all_that_the_ticket_is_still_its_owners", func(t *testing.T) {
		callback(t, b.post(t, "/consent", allow), http.StatusSeeOther)
	})
}

// Promise (Browsers): a decision counts once: the same one again leads to the same place with the
// same code, at any server, while the code lives; then a page says what was decided; a user
// disabled in between allows nothing
// Promise (RFC 9700 §4.4, §4.7, §4.12, §4.16): forged consent; going back in the browser and
// resubmitting; a double click that reaches Allow (not in dev)
func TestConsentIsDecidedOnce(t *testing.T) {
	h := parallelHouse(t)
	b := h.signedIn(t, h.user)
	for _, decision := range []string{"allow", "deny"} {
		t.Run(decision+"_again_leads_to_the_same_place", func(t *testing.T) {
			page := b.get(t, h.authURL("state", "s"))
			first := b.submit(t, page, "decision", decision).Header.Get("Location")
			before := h.kept(t)
			var lines []store.AuditLine
			for range 2 {
				lines = append(lines, h.recorded(t, func() {
					if again := callback(t, b.submit(t, page, "decision", decision), http.StatusSeeOther).String(); again != first {
						t.Errorf("Location = %q, want %q again", again, first)
					}
				})...)
			}
			if n := h.kept(t) - before; n != 0 || len(lines) != 0 {
				t.Errorf("the repeats wrote %d records and %d audit lines, want none", n, len(lines))
			}
		})
	}
	t.Run("allow_again_after_the_code_is_redeemed_says_so_and_leads_back", func(t *testing.T) {
		for uri, link := range map[string]string{
			"https://app.example/cb": "https://app.example", "http://127.0.0.1:5000/cb": "http://127.0.0.1:5000", "com.example.app:/cb": "",
		} {
			client, sec := h.Client(t, redirectingTo("https://app.example/cb", "http://127.0.0.1/cb", "com.example.app:/cb"))
			page := b.get(t, h.authURL("client_id", client.ID, "redirect_uri", uri))
			code := callback(t, b.submit(t, page, "decision", "allow"), http.StatusSeeOther).Query().Get("code")
			wantPair(t, h.token(t, with(as(h.codeForm(code), client, sec), "redirect_uri", uri)))
			for _, decision := range []string{"allow", "deny"} {
				a := b.submit(t, page, "decision", decision)
				var links []string
				for n := range parsePage(t, a).Descendants() {
					if href := attribute(n, "href"); n.Data == "a" {
						links = append(links, href)
					}
				}
				if want := slices.DeleteFunc([]string{link}, func(l string) bool { return l == "" }); !slices.Equal(links, want) {
					t.Errorf("%s to %s: links %q, want %q", decision, uri, links, want)
				}
				if decision == "deny" {
					wantPage400(t, a)
				} else if wantErrorPage(t, a, http.StatusOK); !strings.Contains(words(t, a), "You have allowed Larkspur Bookkeeping to use your account.") || strings.Contains(a.body, code) {
					t.Errorf("the page says %q, want that access was allowed", words(t, a))
				}
			}
		}
	})
	t.Run("allow_again_after_a_restart_and_at_a_new_sign_in", func(t *testing.T) {
		h := parallelHouse(t)
		b := h.signedIn(t, h.user)
		page := b.get(t, h.authURL())
		first := b.submit(t, page, "decision", "allow").Header.Get("Location")
		h.restart(t)
		if again := b.submit(t, page, "decision", "allow").Header.Get("Location"); again != first {
			t.Errorf("after a restart Location = %q, want %q", again, first)
		}
		wantErrorPage(t, h.signedIn(t, h.user).submit(t, page, "decision", "allow"), http.StatusForbidden)
	})
	for _, order := range [][2]string{{"deny", "allow"}, {"allow", "deny"}} {
		t.Run(order[0]+"_back_"+order[1], func(t *testing.T) {
			page := b.get(t, h.authURL())
			callback(t, b.submit(t, page, "decision", order[0]), http.StatusSeeOther)
			before := h.kept(t)
			a := b.submit(t, page, "decision", order[1])
			wantPage400(t, a)
			if n := h.kept(t) - before; n != 0 {
				t.Errorf("the second answer wrote %d records, want none", n)
			}
		})
	}
	t.Run("in_parallel_one_code", func(t *testing.T) {
		form := formOn(t, b.get(t, h.authURL())).fields
		before, sent := h.Count(t, 'k'), 0
		places := map[string]bool{}
		answers := h.together(t, 16, func() answer {
			r := h.request(t, "POST", "/consent", strings.NewReader(with(form, "decision", "allow").Encode()), header("Content-Type", formType))
			r.AddCookie(&http.Cookie{Name: sessionCookie, Value: b.cookie(sessionCookie)})
			return h.do(r)
		})
		for _, a := range answers {
			if a.StatusCode == http.StatusSeeOther {
				sent++
				places[a.Header.Get("Location")] = true
			}
		}
		if n := h.Count(t, 'k') - before; n != 1 || sent != 16 || len(places) != 1 {
			t.Errorf("%d codes were made, %d callers sent to %d places, want one code for all 16", n, sent, len(places))
		}
	})
}

// Promise (RFC 9700 §4.4, §4.7, §4.12, §4.16): swapping the request between steps; extra fields
// beside the ticket
func TestConsentHoldsWhatItShowed(t *testing.T) {
	h := parallelHouse(t)
	other, _ := h.Client(t, redirectingTo("https://evil.example/cb"))
	b := h.signedIn(t, h.user)
	t.Run("other_fields_change_nothing", func(t *testing.T) {
		page := b.get(t, h.authURL("scope", "events:read", "state", "s"))
		a := b.submit(t, page, "decision", "allow", "client_id", other.ID, "redirect_uri", "https://evil.example/cb", "scope", "resources:write",
			"state", "x", "query", "client_id="+other.ID, "user", "nils")
		to := callback(t, a, http.StatusSeeOther)
		if to.Host != "app.example" || to.Query().Get("state") != "s" {
			t.Errorf("Location = %q, want what the ticket seals", to)
		}
		if p := wantPair(t, h.token(t, h.codeForm(to.Query().Get("code")))); p.Scope == nil || *p.Scope != "events:read" {
			t.Errorf("scope = %v, want events:read", p.Scope)
		}
	})
	t.Run("the_request_in_the_sign_in_form_swapped_for_another_clients", func(t *testing.T) {
		b := h.browser(t)
		swapped := strings.TrimPrefix(h.authURL("client_id", other.ID, "redirect_uri", "https://evil.example/cb"), authPath+"?")
		a := b.submit(t, b.get(t, h.authURL()), append([]string{"query", swapped}, rightPassword...)...)
		if text := words(t, b.follow(t, a)); !strings.Contains(text, "evil.example") {
			t.Errorf("the consent screen says %q, want it to show where the swapped request leads", text)
		}
	})
	t.Run("no_more_than_it_showed_when_the_client_may_do_more_since", func(t *testing.T) {
		scopes := []string{"events:read"}
		grown, _ := h.Client(t, func(spec *store.ClientSpec) { spec.Scopes = scopes })
		page := b.get(t, h.authURL("client_id", grown.ID))
		if text := words(t, page); strings.Contains(text, "Create, change and delete") {
			t.Fatalf("the page says %q, want only what the client may do", text)
		}
		scopes = nil
		must.Get(h.UpdateClient(context.Background(), grown.ID, store.ClientChange{Scopes: &scopes}))(t)
		wantPage400(t, b.submit(t, page, "decision", "allow"))
	})
	t.Run("an_unsound_request_in_a_sound_ticket", func(t *testing.T) {
		narrowed, _ := h.Client(t)
		page := b.get(t, h.authURL("client_id", narrowed.ID, "scope", "resources:write"))
		scopes := []string{"events:read"}
		must.Get(h.UpdateClient(context.Background(), narrowed.ID, store.ClientChange{Scopes: &scopes}))(t)
		wantPage400(t, b.submit(t, page, "decision", "allow"))
		uris := []string{"https://app.example/moved"}
		page = b.get(t, h.authURL("client_id", narrowed.ID))
		must.Get(h.UpdateClient(context.Background(), narrowed.ID, store.ClientChange{RedirectURIs: &uris}))(t)
		wantPage400(t, b.submit(t, page, "decision", "allow"))
	})
}

// Promise (Browsers): a decision counts once: the same one again leads to the same place with the
// same code, at any server, while the code lives; then a page says what was decided; a user
// disabled in between allows nothing
func TestConsentOverTime(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	ended := map[string]func(h *house) error{
		"user_disabled":    func(h *house) error { _, err := h.DisableUser(ctx, "mara"); return err },
		"password_reset":   func(h *house) error { _, err := h.SetPassword(ctx, "mara", "another long phrase"); return err },
		"user_deleted":     func(h *house) error { return h.DeleteUser(ctx, "mara") },
		"account_disabled": func(h *house) error { _, err := h.DisableAccount(ctx, h.account); return err },
		"account_revoked":  func(h *house) error { _, err := h.RevokeAccount(ctx, h.account); return err },
	}
	for name, end := range ended {
		t.Run(name+"_before_allow", func(t *testing.T) {
			h := parallelHouse(t)
			b := h.signedIn(t, h.user)
			page := b.get(t, h.authURL())
			must.Do(t, end(h))
			wantErrorPage(t, b.submit(t, page, "decision", "allow"), http.StatusForbidden)
			if n := h.Count(t, 'k'); n != 0 {
				t.Errorf("%d codes were made, want none", n)
			}
		})
	}
	t.Run("client_disabled_before_allow", func(t *testing.T) {
		h := parallelHouse(t)
		b := h.signedIn(t, h.user)
		page := b.get(t, h.authURL())
		must.Get(h.DisableClient(ctx, h.client.ID))(t)
		wantPage400(t, b.submit(t, page, "decision", "allow"))
	})
	t.Run("after_thirty_minutes_start_again", func(t *testing.T) {
		h := parallelHouse(t)
		b := h.signedIn(t, h.user)
		early, late := b.get(t, h.authURL()), b.get(t, h.authURL())
		h.Clock.Advance(30*time.Minute - time.Millisecond)
		callback(t, b.submit(t, early, "decision", "allow"), http.StatusSeeOther)
		h.Clock.Advance(time.Millisecond)
		a := b.submit(t, late, "decision", "allow")
		wantPage400(t, a)
		if !strings.Contains(words(t, a), "Start again from the application") {
			t.Errorf("the page says %q, want it to say to start again from the application", words(t, a))
		}
	})
	t.Run("a_decided_ticket_stays_decided_until_it_ends", func(t *testing.T) {
		h := parallelHouse(t)
		b := h.signedIn(t, h.user)
		page := b.get(t, h.authURL())
		callback(t, b.submit(t, page, "decision", "allow"), http.StatusSeeOther)
		h.Clock.Advance(30*time.Minute - time.Millisecond)
		wantErrorPage(t, b.submit(t, page, "decision", "allow"), http.StatusOK) // "You have allowed"
		h.Clock.Advance(time.Millisecond)
		wantPage400(t, b.submit(t, page, "decision", "allow"))
		if n := h.Count(t, 'k'); n != 1 {
			t.Errorf("%d codes are kept, want one", n)
		}
	})
	t.Run("a_restart_with_the_same_key_does_not_matter", func(t *testing.T) {
		h := parallelHouse(t)
		b := h.signedIn(t, h.user)
		page := b.get(t, h.authURL())
		h.restart(t)
		callback(t, b.submit(t, page, "decision", "allow"), http.StatusSeeOther)
	})
	t.Run("a_store_that_refuses_leaves_the_question_open", func(t *testing.T) {
		h := parallelHouse(t)
		b := h.signedIn(t, h.user)
		page := b.get(t, h.authURL())
		for _, decision := range []string{"allow", "deny"} {
			h.Faults.OnUpdate(func(func() error) error { return record.ErrUnavailable })
			a := b.submit(t, page, "decision", decision)
			h.Faults.Repair()
			wantErrorPage(t, a, http.StatusServiceUnavailable)
		}
		callback(t, b.submit(t, page, "decision", "allow"), http.StatusSeeOther)
	})
}

func TestUnknownOutcomeIsSaidOnPages(t *testing.T) {
	h := parallelHouse(t)
	b := h.signedIn(t, h.user)
	consent := b.get(t, h.authURL())
	h.Faults.OnUpdate(func(func() error) error { return record.ErrUnknownOutcome })
	a := b.submit(t, consent, "decision", "allow")
	if text := words(t, a); a.StatusCode != http.StatusInternalServerError || !strings.Contains(text, "The outcome of the request is unknown. Check whether it was done before you try again.") {
		t.Errorf("the page is %d %q, want that its outcome is unknown", a.StatusCode, text)
	}
}

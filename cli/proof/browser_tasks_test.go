package proof

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"tollhouse/store/storetest/must"
)

// clicksMax is how many clicks a task may take: a person who reads each page then needs
// less than a minute.
const clicksMax = 5

// TestThreeTasksOnTheDesk does what an operator comes for, from the Overview on and by
// the words on the screen alone. With TOLLHOUSE_PICTURES set it keeps what it sees.
func TestThreeTasksOnTheDesk(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	needTool(t, "chromium", "chromium-browser")
	s := startDev(t, "--clock", "2026-03-07T14:00:00Z", "--throttle", "--instance-name", "Larkspur Payments")
	twoDays(t, s)
	tb := newTab(t)
	tb.size(windowDesk, windowHigh)
	tb.open(s.base + "/login?to=desk")
	tb.signIn(s.ready.Username, s.ready.Password)
	tb.see("main[data-desk=overview]")
	tb.scheme("light")
	tb.picture("desk-overview")

	t.Run("make_a_client", func(t *testing.T) {
		tb.task(t, s, "Clients", "Register a client")
		tb.do(chromedp.SendKeys(chromedp.CSS("[name=name]"), "Aster Reports"), chromedp.SendKeys(chromedp.CSS("[name=redirect_uris]"), larkspurURI))
		tb.choose("Register")
		tb.see("[data-client-id]")
		tb.see("[data-secret]")
	})
	t.Run("find_who_was_refused_yesterday", func(t *testing.T) {
		tb.task(t, s, "Audit log")
		tb.choose("More filters")
		tb.do(chromedp.SetValue(chromedp.CSS("[name=what]"), "login_refused"), chromedp.SendKeys(chromedp.CSS("[name=from]"), "2026-03-08"), chromedp.SendKeys(chromedp.CSS("[name=to]"), "2026-03-08"))
		tb.choose("Apply")
		tb.until(`location.search.includes("what=login_refused") && document.readyState == "complete"`)
		if shown := tb.text(); !strings.Contains(shown, "harriet.voss") || !strings.Contains(shown, "wrong_password") {
			t.Errorf("the audit page does not name who was refused, and why:\n%.800s", shown)
		}
		tb.picture("desk-audit")
	})
	t.Run("find_who_was_refused_today", func(t *testing.T) {
		tb.task(t, s, "Failed sign-ins")
		tb.see("tr[data-audit] [data-col=user]")
	})
	t.Run("read_what_changed_in_a_customer", func(t *testing.T) {
		tb.task(t, s, "Events")
		tb.do(chromedp.SendKeys(chromedp.CSS("[name=resource]"), "cus_larkspur"))
		tb.choose("Apply")
		tb.until(`location.search.includes("resource=cus_larkspur") && document.readyState == "complete"`)
		tb.choose("customer.updated")
		tb.see("table[data-diff] tr[data-member=city]")
		tb.picture("desk-event")
	})
	for _, p := range []struct{ name, path string }{
		{"desk-events", "/desk/events?account=" + s.ready.Account},
		{"desk-clients", "/desk/clients"},
		{"desk-access", "/desk/access"},
		{"desk-overview-year", "/desk?range=30d"},
	} {
		tb.open(s.base + p.path)
		tb.see("main h1")
		tb.picture(p.name)
	}
	tb.task(t, s, "Clients", "Larkspur Bookkeeping")
	tb.picture("desk-client")
}

// task begins at the Overview and follows links by their words.
func (tb *tab) task(t *testing.T, s *server, words ...string) {
	t.Helper()
	tb.open(s.base + "/desk")
	tb.see("main[data-desk=overview]")
	if len(words) > clicksMax {
		t.Errorf("the task takes %d clicks, want %d at most", len(words), clicksMax)
	}
	for _, word := range words {
		tb.choose(word)
	}
}

// choose clicks the first visible link or button that says just that.
func (tb *tab) choose(words string) {
	tb.t.Helper()
	mark := fmt.Sprintf(`(() => {
		const found = [...document.querySelectorAll("a, button, summary")].find(e => e.textContent.trim() == %q && e.offsetParent);
		document.querySelectorAll("[data-chosen]").forEach(e => e.removeAttribute("data-chosen"));
		found?.setAttribute("data-chosen", "");
		return !!found;
	})()`, words)
	tb.until(mark)
	tb.click("[data-chosen]")
}

// twoDays lets two days pass: people sign in and mistype, programs refresh and read, and
// customers change.
func twoDays(t *testing.T, s *server) {
	t.Helper()
	const people = 3
	names := [people]string{"harriet.voss", "nils.aspen", "ida.marlow"}
	books := s.createClient("Larkspur Bookkeeping", larkspurURI)
	till := s.createClient("Quarry Lane Till", larkspurURI)
	for i, name := range names {
		s.createUser(name, []string{s.ready.Account, "acct_quarry", "acct_tide"}[i], maudPassword)
	}
	for i, account := range []string{s.ready.Account, "acct_quarry", "acct_tide"} {
		s.run("event", "generate", "--seed", fmt.Sprint(11+i), "--events", fmt.Sprint(900-250*i), "--span", "20d", "--until", "2026-03-07T13:30:00Z", "--account", account, "--quiet")
	}
	random := rand.New(rand.NewPCG(3, 9))
	var pairs [people]tokens
	for step := range 96 {
		hour := (14 + step/2) % 24
		busy := max(1, 9-max(hour-15, 15-hour)*2/3)
		for range busy {
			i := random.IntN(people)
			client := s.asClient([]credentials{books, till, books}[i])
			switch {
			case pairs[i].Refresh == "" || random.IntN(12) == 0:
				password := maudPassword
				if random.IntN(5) == 0 {
					password = "larkspur1"
				}
				p, _, err := client.grant(t.Context(), "password", "username", names[i], "password", password)
				if err != nil {
					t.Fatal(err)
				}
				if p.Access != "" {
					pairs[i] = p
				}
			case random.IntN(5) > 0:
				if p, _, err := client.grant(t.Context(), "refresh_token", "refresh_token", pairs[i].Refresh); err == nil && p.Access != "" {
					pairs[i] = p
				}
			}
			if pairs[i].Access != "" {
				s.threeRequests(t, random, client, pairs[i].Access, fmt.Sprintf(`{"displayName":"Larkspur Tea Room","city":"Dunmere","phone":"80255501%02d"}`, 10+random.IntN(12)))
			}
		}
		s.advance(t, 30*time.Minute)
	}
	a, err := s.asClient(books).call(t.Context(), pairs[0].Access, http.MethodPatch, "/api/resources/customer/cus_larkspur", `{"city":"Upper Dunmere"}`)
	if err != nil || a.status != http.StatusOK && a.status != http.StatusUnauthorized {
		t.Fatalf("PATCH: %v, %v", a, err)
	}
	s.advance(t, 20*time.Minute)
}

// threeRequests changes a customer, makes something of theirs and reads the newest events.
func (s *server) threeRequests(t *testing.T, random *rand.Rand, client *client, access, body string) {
	t.Helper()
	other := []string{"invoice/inv_", "payment/pay_", "payment/pay_", "schedule/sch_"}[random.IntN(4)] + fmt.Sprint(1000+random.IntN(8000))
	for _, r := range []struct{ method, path, body string }{
		{http.MethodPut, "/api/resources/customer/cus_larkspur", body},
		{http.MethodPut, "/api/resources/" + other, `{"customer":"cus_larkspur"}`},
		{http.MethodGet, "/api/events?limit=10", ""},
	} {
		if _, err := client.call(t.Context(), access, r.method, r.path, r.body); err != nil {
			t.Fatal(err)
		}
	}
}

// advance moves dev's clock.
func (s *server) advance(t *testing.T, by time.Duration) {
	t.Helper()
	body := fmt.Sprintf(`{"advance":%q}`, by)
	resp, err := http.Post(s.base+"/_dev/clock", "application/json", strings.NewReader(body))
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("advance: %v, %v", resp, err)
	}
	_ = resp.Body.Close()
}

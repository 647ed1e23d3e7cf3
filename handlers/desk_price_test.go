package handlers_test

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"tollhouse/handlers"
	"tollhouse/store"
	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook"
)

// asksNot are the desk's forms that take nothing from anybody.
var asksNot = []string{
	"/desk/clients", "/desk/clients/:id/enable", "/desk/users", "/desk/users/:id/enable", "/desk/users/:id/promote",
	"/desk/webhooks", "/desk/webhooks/:id/retry", "/desk/webhooks/:id/retry-parked", "/desk/webhooks/:id/retry-dead", "/desk/webhooks/:id/test", "/desk/webhook-resume",
	"/desk/backups", "/desk/backups/:name/verify", "/desk/health/check",
}

// inDanger is the colour of a button, or of a box, that takes something away.
var inDanger = regexp.MustCompile(`class="(choice )?danger"`)

// TestDeskAsksOnceWithNumbers: each form that takes something away says how much, in the
// colour of danger and without a script: where it is folded, or on a page that does nothing
// before the answer. The answer does it, and does no harm when it is sent again.
//
// Promise (Browsers): the desk asks once, in numbers, before it takes something away, and not
// otherwise; with the password if that is due
func TestDeskAsksOnceWithNumbers(t *testing.T) {
	h, _ := deskHouse(t, func(c *handlers.Config) { c.Webhooks = answeringSender{http.StatusNoContent} })
	b, _ := h.signedInWithApp(t, "olga")
	odile := h.User(t, "odile", h.account)
	h.signedInWithApp(t, "odile")
	nils, olaf := h.User(t, "nils", h.account), h.operator(t, "olaf")
	for range 2 {
		h.signedIn(t, h.user)
	}
	h.signedIn(t, nils)
	h.signedIn(t, olaf)
	p := h.pair(t)
	h.pair(t)
	must.Get(h.IssueForPassword(t.Context(), store.By{}, h.client, nils, store.ScopeUnstated))(t)
	h.hooked(t, p.AccessToken)
	e := h.endpoint(t, "https://hooks.larkspurtea.example/x")
	must.Get(h.Webhooks.Disable(t.Context(), webhook.System, e.ID))(t)
	h.recordMix(t, h.account, 4)
	blocked := h.endpoint(t, "https://hooks.larkspurtea.example/blocked")
	h.recordMix(t, h.account, 10)
	handlers.BlockWebhook(t, h.Store, blocked.ID)
	_, _, err := h.CreateUserCode(t.Context(), "nils", 0)
	must.Do(t, err)
	ended, _ := h.Client(t, func(s *store.ClientSpec) { s.Name = "Aster" })
	cedar, _ := h.Client(t, func(s *store.ClientSpec) { s.Name = "Cedar" })
	briar, _ := h.Client(t, func(s *store.ClientSpec) { s.Name = "Briar" })
	grant := func(c store.Client) {
		must.Get(h.IssueForPassword(t.Context(), store.By{}, c, h.user, store.ScopeUnstated))(t)
	}
	_, _, err = h.RotateClientSecret(t.Context(), ended.ID, false)
	must.Do(t, err)

	client, user, hook := "/desk/clients/"+h.client.ID, "/desk/users/"+h.user.Subject(), "/desk/webhooks/"+blocked.ID
	asked := map[string]bool{}
	for _, c := range []struct {
		route, page, do string
		fill            []string
		want            []string
	}{
		{"/desk/clients/:id", client, "update-client", []string{"scopes", "events:read", "name", "Renamed"}, []string{"It loses 4 scopes: resources:read, ", "Affected: 3 authorizations of 2 users.", "1 webhook endpoint is disabled."}},
		{"/desk/clients/:id/rotate-secret", "/desk/clients/" + ended.ID, "rotate-secret", nil, []string{"The client has 2 secrets. The older one stops working now"}},
		{"/desk/clients/:id/rotate-secret", client, "rotate-secret", []string{"revoke_tokens", "true"}, []string{"The secret leaked The current secret stops working now. Revoked immediately: 3 authorizations of 2 users."}},
		{"/desk/clients/:id/disable", "/desk/clients/" + ended.ID, "disable", nil, []string{"Revoked immediately: 1 authorization of 1 user."}},
		{"/desk/sessions/:id/revoke", "/desk/access?user=nils", "revoke", nil, []string{"nils is signed out of 1 browser"}},
		{"/desk/families/:id/revoke", "/desk/access?client=Cedar", "revoke", nil, []string{"Revoked immediately: 1 authorization of 1 user.", "The application can ask mara again."}},
		{"/desk/families/:id/revoke", "/desk/access?client=Briar", "revoke", nil, []string{"Revoked immediately: 2 authorizations of 1 user."}},
		{"/desk/users/:id/sign-out", user, "sign-out", nil, []string{"mara is signed out of 4 browsers now. Applications keep their access."}},
		{"/desk/users/:id/reset-second-factor", "/desk/users/" + odile.Subject(), "reset-second-factor", nil, []string{"odile is signed out of 1 browser now.", "Make sure who asks you for this."}},
		{"/desk/users/:id/disable", user, "disable", nil, []string{"mara is signed out of 3 browsers.", "Revoked immediately: 1 authorization of 1 user."}},
		{"/desk/users/:id/demote", "/desk/users/" + olaf.Subject(), "demote", nil, []string{"The desk closes now in 1 browser"}},
		{"/desk/users/:id/code", "/desk/users/" + nils.Subject(), "code", nil, []string{"1 earlier code is valid until"}},
		{"/desk/webhooks/:id/skip", hook, "skip", nil, []string{"1 event, ", "is not sent after 1 failed attempt"}},
		{"/desk/webhooks/:id/rotate-secret", hook, "rotate-secret", []string{"leaked", "true"}, []string{"1 secret stops signing now. The receiver refuses"}},
		{"/desk/webhook-hold", "/desk/webhooks", "hold", nil, []string{"1 endpoint of 1 account get no events until you resume"}},
		{"/desk/webhooks/:id/disable", hook, "disable", nil, []string{"Deliveries to 1 endpoint of the account " + h.account + " stop.", "events"}},
		{"/desk/webhooks/:id/enable", "/desk/webhooks/" + e.ID, "enable", []string{"now", "true"}, []string{"9 events will not be sent to it."}},
	} {
		t.Run(c.do+strings.ReplaceAll(c.page, "/", "_"), func(t *testing.T) {
			switch c.page {
			case "/desk/clients/" + ended.ID:
				if c.do == "disable" {
					grant(ended)
				}
			case "/desk/access?client=Cedar":
				grant(cedar)
			case "/desk/access?client=Briar":
				grant(briar)
				grant(briar)
			case user:
				if c.do == "disable" {
					for range 3 {
						h.signedIn(t, h.user)
					}
					grant(cedar)
				}
			}
			question := b.get(t, c.page)
			to, sure := deskForm(t, question, c.do)
			sure = with(sure, c.fill...)
			before := h.everything(t)
			if !sure.Has("sure") { // its price depends on what is typed
				question = b.post(t, to, sure)
				wantStatus(t, question, http.StatusOK)
				to, sure = deskForm(t, question, "sure")
				if !strings.Contains(question.body, ">Cancel</a>") {
					t.Errorf("no way back: %s", question.body)
				}
			}
			text := words(t, question)
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("the question lacks %q: %s", want, text)
				}
			}
			if !inDanger.MatchString(question.body) || strings.Contains(question.body, "onclick") {
				t.Errorf("no button of danger: %s", question.body)
			}
			if after := h.everything(t); after != before {
				t.Error("the question has changed something")
			}
			asked[c.route] = true
			done := b.post(t, to, sure)
			if done.StatusCode != http.StatusSeeOther && done.StatusCode != http.StatusOK || strings.Contains(done.body, `data-do="sure"`) {
				t.Fatalf("the answer is met with %d: %s", done.StatusCode, words(t, done))
			}
			once := h.everything(t)
			again := b.post(t, to, sure)
			if twice := h.everything(t); again.StatusCode >= http.StatusInternalServerError || twice != once {
				t.Errorf("the second answer is met with %d, and it changed something: %t", again.StatusCode, twice != once)
			}
		})
	}
	for _, route := range h.server.DeskRoutes() {
		if route[0] == "POST" && asked[route[1]] == slices.Contains(asksNot, route[1]) {
			t.Errorf("%s: asks %t, and is named as one that does not ask: %t", route[1], asked[route[1]], asked[route[1]])
		}
	}
}

// TestDeskAsksForThePasswordAndTheAnswerTogether: late in a session the price and the password
// are one question.
//
// Promise (Browsers): the desk asks once, in numbers, before it takes something away, and not
// otherwise; with the password if that is due
func TestDeskAsksForThePasswordAndTheAnswerTogether(t *testing.T) {
	h, b := deskHouse(t)
	h.pair(t)
	h.Clock.Advance(time.Hour / 2)
	question := b.sent(t, "/desk/clients/"+h.client.ID, "disable")
	wantStatus(t, question, http.StatusForbidden)
	if text := words(t, question); !strings.Contains(text, "Revoked immediately: 1 authorization of 1 user.") || !strings.Contains(text, "You entered your password more than 15 minutes ago. Enter it again to disable the client.") {
		t.Errorf("the page says %s", text)
	}
	to, fields := deskForm(t, question, "confirm")
	wantStatus(t, b.post(t, to, with(fields, "password", "wrong")), http.StatusForbidden)
	if c := must.Get(h.FindClient(t.Context(), h.client.ID))(t); !c.DisabledAt.IsZero() {
		t.Error("a wrong password disables the client")
	}
	wantStatus(t, b.post(t, to, with(fields, "password", storetest.Password)), http.StatusSeeOther)
	if c := must.Get(h.FindClient(t.Context(), h.client.ID))(t); c.DisabledAt.IsZero() {
		t.Error("the password and the answer together do not disable the client")
	}
}

// TestDeskAsksNothingWhereNobodyLosesAnything.
//
// Promise (Browsers): the desk asks once, in numbers, before it takes something away, and not
// otherwise; with the password if that is due
func TestDeskAsksNothingWhereNobodyLosesAnything(t *testing.T) {
	h, b := deskHouse(t)
	for do, fill := range map[string][]string{"update-client": {"name", "Renamed"}, "rotate-secret": nil} {
		action, fields := deskForm(t, b.get(t, "/desk/clients/"+h.client.ID), do)
		if a := b.post(t, action, with(fields, fill...)); strings.Contains(a.body, `data-do="sure"`) {
			t.Errorf("%s asks: %s", do, words(t, a))
		}
	}
}

// TestDeskGroupsAccessByClientAndUser, with a count that leads to the single ones.
//
// Promise (Browsers): the desk counts access by client and user and revokes it together
func TestDeskGroupsAccessByClientAndUser(t *testing.T) {
	h, b := deskHouse(t)
	first := h.pair(t)
	second := h.pair(t)
	nils := h.User(t, "nils", h.account)
	must.Get(h.IssueForPassword(t.Context(), store.By{}, h.client, nils, store.ScopeUnstated))(t)
	for _, path := range []string{"/desk/access", "/desk/clients/" + h.client.ID} {
		page := b.get(t, path)
		if n := len(rows(t, page, "data-family")); n != 2 || !strings.Contains(words(t, page), "Revoke all") {
			t.Errorf("%s has %d rows, want one for each user: %s", path, n, words(t, page))
		}
	}
	single := "/desk/access?client=" + h.client.ID + "&user=" + h.user.Subject()
	if body := b.get(t, "/desk/access").body; !strings.Contains(body, strings.ReplaceAll(single, "&", "&amp;")+`">2, show each</a>`) {
		t.Errorf("the count of two is no link to %s: %s", single, body)
	}
	if n := len(rows(t, b.get(t, single), "data-family")); n != 2 {
		t.Errorf("the count leads to %d rows at %q, want each authorization", n, single)
	}
	action, fields := deskForm(t, b.get(t, "/desk/users/"+h.user.Subject()), "revoke")
	if !strings.HasPrefix(action, "/desk/families/") { // the browsers come first
		action, fields = deskForm(t, b.get(t, "/desk/access?client="+h.client.ID), "revoke")
	}
	wantStatus(t, b.post(t, action, with(fields, "sure", "true")), http.StatusSeeOther)
	if h.accessLives(t, first) || h.accessLives(t, second) {
		t.Error("an authorization of the user is left")
	}
	if n := len(rows(t, b.get(t, "/desk/access"), "data-family")); n != 1 {
		t.Errorf("%d rows are left, want that of the other user", n)
	}
}

// everything is what a change could take away, with its state. The use of sessions is left
// out.
func (h *house) everything(t testing.TB) string {
	t.Helper()
	h.Rest()
	var b strings.Builder
	must.Do(t, h.DB.View(t.Context(), func(r kv.Reader) error {
		b.Reset()
		for _, tag := range "cufwPs" {
			for k, v := range r.Scan(record.NewKey(byte(tag)).All()) {
				b.Write(k)
				if tag != 's' {
					b.Write(v)
				}
			}
		}
		return nil
	}))
	return b.String()
}

// TestDeskExplainsOurWords: the page that uses a word of ours says what it means.
//
// Promise (Browsers): the desk and the help explain family, default, parked and dead
func TestDeskExplainsOurWords(t *testing.T) {
	_, b := deskHouse(t)
	for path, want := range map[string][]string{
		"/desk/access": {"from one authorization form a family"},
		"/desk/users":  {"The account default is for"}, "/desk/webhooks": {"is parked: it is retried", "it is dead: it stays listed"},
	} {
		text := words(t, b.get(t, path))
		for _, says := range want {
			if !strings.Contains(text, says) {
				t.Errorf("%s does not say %q: %s", path, says, text)
			}
		}
	}
}

package handlers_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"tollhouse/handlers"
	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// deskHouse is a house with the desk, and an operator's browser.
func deskHouse(t *testing.T, change ...func(*handlers.Config)) (*house, *browser) {
	t.Helper()
	h := parallelHouse(t, append([]func(*handlers.Config){withDesk()}, change...)...)
	return h, h.signedIn(t, h.operator(t, "olga"))
}

// deskForm returns the form with that data-do on a page. The form of a list is that of its
// first row, whose button has the address.
func deskForm(t testing.TB, page answer, do string) (action string, fields url.Values) {
	t.Helper()
	for n := range parsePage(t, page).Descendants() {
		if n.Data == "form" && attribute(n, "data-do") == do {
			fields = url.Values{}
			for f := range n.Descendants() {
				addField(f, fields)
				if f.Data == "button" && action == "" {
					action = attribute(f, "formaction")
					if name := attribute(f, "name"); name != "" {
						fields.Set(name, attribute(f, "value"))
					}
				}
			}
			return cmp.Or(attribute(n, "action"), action), fields
		}
	}
	t.Fatalf("no form %s on the page (%d): %.2000s", do, page.StatusCode, page.body)
	return "", nil
}

func addField(n *html.Node, fields url.Values) {
	name := attribute(n, "name")
	switch {
	case n.Type != html.ElementNode || name == "":
	case n.Data == "textarea":
		text := ""
		if n.FirstChild != nil {
			text = n.FirstChild.Data
		}
		fields.Add(name, text)
	case n.Data == "input" && attribute(n, "type") == "checkbox":
		if slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "checked" }) {
			fields.Add(name, attribute(n, "value"))
		}
	case n.Data == "input":
		fields.Add(name, attribute(n, "value"))
	}
}

// sent submits a form of a page of the desk, and is sure of it.
func (b *browser) sent(t testing.TB, page, do string, namesAndValues ...string) answer {
	t.Helper()
	action, fields := deskForm(t, b.get(t, page), do)
	a := b.post(t, action, with(fields, namesAndValues...))
	if strings.Contains(a.body, `data-do="sure"`) {
		action, fields = deskForm(t, a, "sure")
		a = b.post(t, action, fields)
	}
	return a
}

// marked returns the text of the element with that attribute.
func marked(t testing.TB, page answer, name string) string {
	t.Helper()
	for n := range parsePage(t, page).Descendants() {
		if n.Type == html.ElementNode && slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == name }) && n.FirstChild != nil {
			return strings.TrimSpace(textOf(n))
		}
	}
	return ""
}

// linkMarked returns where the first link with an attribute leads.
func linkMarked(t testing.TB, page answer, name string) string {
	t.Helper()
	for n := range parsePage(t, page).Descendants() {
		if n.Data == "a" && slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == name }) {
			return attribute(n, "href")
		}
	}
	return ""
}

// rows returns the values of an attribute of table rows, in order.
func rows(t testing.TB, page answer, name string) (ids []string) {
	t.Helper()
	for n := range parsePage(t, page).Descendants() {
		if n.Type == html.ElementNode && n.Data == "tr" && attribute(n, name) != "" {
			ids = append(ids, attribute(n, name))
		}
	}
	return ids
}

// audited returns the audit lines with that reason.
func (h *house) audited(t testing.TB, reason string) (found []store.AuditLine) {
	t.Helper()
	for _, l := range must.Get(h.ListAudit(context.Background(), record.Position{}, 500))(t) {
		if l.Reason == reason {
			found = append(found, l)
		}
	}
	return found
}

func wantStatus(t testing.TB, a answer, want int) {
	t.Helper()
	if a.StatusCode != want {
		t.Fatalf("status = %d, want %d: %.1500s", a.StatusCode, want, a.body)
	}
}

// TestDeskForgery: no form of the desk does anything unless it comes from its own page.
func TestDeskForgery(t *testing.T) {
	h, b := deskHouse(t)
	olga := must.Get(h.FindUser(t.Context(), "olga"))(t)
	elsewhere := h.signedIn(t, olga)
	_, own := deskForm(t, b.get(t, "/desk/new-client"), "create-client")
	_, other := deskForm(t, elsewhere.get(t, "/desk/new-client"), "create-client")
	filled := with(own, "name", "Aster Reports", "redirect_uris", storetest.CallbackURI, "username", "nils", "account", "acct_x")
	b.get(t, "/desk") // begins the counts of events
	before := h.kept(t)
	for _, route := range h.server.DeskRoutes() {
		if route[0] != "POST" {
			continue
		}
		target := h.deskTarget(route[1], h.user)
		for name, forge := range map[string]func() answer{
			"without_a_token":       func() answer { return b.post(t, target, without(filled, "form_token")) },
			"with_another_sessions": func() answer { return b.post(t, target, with(filled, "form_token", other.Get("form_token"))) },
			"with_the_token_to_sign_out": func() answer {
				return b.post(t, target, with(filled, "form_token", formOn(t, b.get(t, "/desk")).fields.Get("form_token")))
			},
			"from_another_site": func() answer {
				return b.post(t, target, filled, header("Sec-Fetch-Site", "cross-site"), header("Origin", "https://evil.example"))
			},
		} {
			t.Run(strings.Trim(strings.ReplaceAll(route[1], "/", "_"), "_")+"_"+name, func(t *testing.T) {
				wantStatus(t, forge(), http.StatusForbidden)
			})
		}
	}
	if after := h.kept(t); after != before {
		t.Errorf("the store has %d records, %d before the forged forms", after, before)
	}
	if lines := h.audited(t, "client disabled"); len(lines) > 0 {
		t.Errorf("a forged form disabled a client: %v", lines)
	}
}

// TestDeskConfirms: a change needs a sign-in, a confirmation or a change a short time ago.
func TestDeskConfirms(t *testing.T) {
	h, b := deskHouse(t)
	const page = "/desk/new-client"
	_, fields := deskForm(t, b.get(t, page), "create-client")
	fields = with(fields, "name", `Aster "Reports" <b>`, "redirect_uris", "https://a.example/cb\nhttps://b.example/cb")
	fields["scopes"] = []string{"events:read", "resources:read"}

	h.Clock.Advance(14 * time.Minute)
	wantStatus(t, b.sent(t, "/desk/clients/"+h.client.ID, "disable"), http.StatusSeeOther) // renews
	h.Clock.Advance(14 * time.Minute)
	wantStatus(t, b.sent(t, "/desk/clients/"+h.client.ID, "enable"), http.StatusSeeOther)
	h.Clock.Advance(15 * time.Minute)

	asked := b.post(t, "/desk/clients", fields)
	wantStatus(t, asked, http.StatusForbidden)
	action, repeated := deskForm(t, asked, "confirm")
	repeated.Del("password")
	repeated.Del("")
	if action != "/desk/clients" || repeated.Encode() != fields.Encode() {
		t.Errorf("the page repeats %s %q, want %q", action, repeated.Encode(), fields.Encode())
	}

	wrong := b.post(t, action, with(repeated, "password", "not the password"))
	wantStatus(t, wrong, http.StatusForbidden)
	if !strings.Contains(wrong.body, `role="alert"`) {
		t.Error("a wrong password shows no alert")
	}
	_, again := deskForm(t, wrong, "confirm")
	session := b.cookie(sessionCookie)
	done := b.post(t, action, with(again, "password", storetest.Password))
	wantStatus(t, done, http.StatusOK)
	if marked(t, done, "data-secret") == "" {
		t.Error("the confirmed form has no answer")
	}
	if b.cookie(sessionCookie) == session {
		t.Error("the session keeps its id")
	}
	id := marked(t, done, "data-client-id")
	c := must.Get(h.FindClient(t.Context(), id))(t)
	if c.Name != `Aster "Reports" <b>` || len(c.RedirectURIs) != 2 || c.Scope.String() != "events:read resources:read" {
		t.Errorf("the client is %q %v %s, want what was typed", c.Name, c.RedirectURIs, c.Scope)
	}
	for reason, what := range map[string]store.Audited{"at the desk": ""} {
		var kinds []store.Audited
		for _, l := range h.audited(t, reason) {
			kinds = append(kinds, l.What)
		}
		slices.Sort(kinds) // a refusal is queued, and may be written later
		if !slices.Equal(kinds, []store.Audited{store.AuditLogin, store.AuditLoginRefused}) {
			t.Errorf("confirmations are %v%v, want a refused and a right one", kinds, what)
		}
	}
	if a := b.get(t, "/desk/clients"); a.StatusCode != http.StatusOK {
		t.Errorf("a page to read asks for %d", a.StatusCode)
	}
}

// TestDeskSaysWhatThePasswordIsFor: each form names what it does when it asks for the password.
//
// Promise (Browsers): the desk asks once, in numbers, before it takes something away, and not
// otherwise; with the password if that is due
func TestDeskSaysWhatThePasswordIsFor(t *testing.T) {
	h, b := deskHouse(t)
	_, fields := deskForm(t, b.get(t, "/desk/new-client"), "create-client")
	h.Clock.Advance(time.Hour)
	for _, route := range h.server.DeskRoutes() {
		if route[0] != "POST" {
			continue
		}
		a := b.post(t, h.deskTarget(route[1], h.user), fields)
		wantStatus(t, a, http.StatusForbidden)
		text := words(t, a)
		if !strings.Contains(text, "Confirm that it is you") || !strings.Contains(text, "Enter it again to ") || strings.Contains(text, "again to .") || linkOn(t, a, "Cancel") == "" {
			t.Errorf("%s asks with %s", route[1], text)
		}
	}
}

// TestDeskConfirmationIsThrottled: guessing there is no faster than at the sign-in form.
func TestDeskConfirmationIsThrottled(t *testing.T) {
	h, b := deskHouse(t)
	_, fields := deskForm(t, b.get(t, "/desk/clients/"+h.client.ID), "disable")
	h.Clock.Advance(time.Hour)
	target := "/desk/clients/" + h.client.ID + "/disable"
	for range 10 {
		wantStatus(t, b.post(t, target, with(fields, "password", "wrong")), http.StatusForbidden)
	}
	a := b.post(t, target, with(fields, "password", storetest.Password))
	wantStatus(t, a, http.StatusTooManyRequests)
	if a.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	if c := must.Get(h.FindClient(t.Context(), h.client.ID))(t); !c.DisabledAt.IsZero() {
		t.Error("the client is disabled")
	}
}

// TestDeskConfirmationOfABusyServer: what was typed is there for another try.
func TestDeskConfirmationOfABusyServer(t *testing.T) {
	h, b := deskHouse(t)
	_, fields := deskForm(t, b.get(t, "/desk/new-client"), "create-client")
	fields = with(fields, "name", "Aster Reports", "redirect_uris", "https://a.example/cb")
	h.Clock.Advance(time.Hour)
	asked := b.post(t, "/desk/clients", fields)
	action, repeated := deskForm(t, asked, "confirm")
	repeated = with(repeated, "password", storetest.Password)
	h.Faults.OnUpdate(func(func() error) error { return record.ErrBusy })
	refused := b.post(t, action, repeated)
	h.Faults.Repair()
	wantStatus(t, refused, http.StatusServiceUnavailable)
	if alert := words(t, refused); refused.Header.Get("Retry-After") == "" || !strings.Contains(alert, "The server is busy; nothing was changed.") {
		t.Errorf("a busy server answers %q, Retry-After %q", alert, refused.Header.Get("Retry-After"))
	}
	action, repeated = deskForm(t, refused, "confirm")
	done := b.post(t, action, with(repeated, "password", storetest.Password))
	wantStatus(t, done, http.StatusOK)
	if c := must.Get(h.FindClient(t.Context(), marked(t, done, "data-client-id")))(t); c.Name != "Aster Reports" {
		t.Errorf("the client is named %q, want what was typed", c.Name)
	}
}

// TestDeskSecretsAreShownOnce: sending the form again, or any later page, shows no secret.
func TestDeskSecretsAreShownOnce(t *testing.T) {
	h, b := deskHouse(t)
	for _, c := range []struct{ page, do, hook, fill string }{
		{"/desk/new-client", "create-client", "data-secret", "name"},
		{"/desk/clients/" + h.client.ID, "rotate-secret", "data-secret", ""},
		{"/desk/new-user", "create-user", "data-code", "username"},
		{"/desk/users/" + h.user.Subject(), "code", "data-code", ""},
	} {
		t.Run(c.do, func(t *testing.T) {
			action, fields := deskForm(t, b.get(t, c.page), c.do)
			if c.fill != "" {
				fields = with(fields, c.fill, "nils", "redirect_uris", storetest.CallbackURI)
			}
			made := b.post(t, action, fields)
			wantStatus(t, made, http.StatusOK)
			shown := marked(t, made, c.hook)
			if shown == "" {
				t.Fatalf("the answer shows no %s: %s", c.hook, made.body)
			}
			before := h.kept(t)
			again := b.post(t, action, fields)
			wantStatus(t, again, http.StatusConflict)
			if strings.Contains(again.body, shown) || !strings.Contains(again.body, "Already submitted") || !strings.Contains(again.body, "Open the ") {
				t.Errorf("the repeated form answers %s", again.body)
			}
			if h.kept(t) != before {
				t.Error("the repeated form made something")
			}
			for _, later := range []string{c.page, "/desk/clients", "/desk/users", "/desk/audit", "/desk/access"} {
				if strings.Contains(b.get(t, later).body, shown) {
					t.Errorf("%s shows the secret", later)
				}
			}
			if strings.Contains(h.log.String(), shown) {
				t.Error("the log has the secret")
			}
		})
	}
}

// TestDeskChanges: each change does what the command line does, and its audit line names
// the operator.
func TestDeskChanges(t *testing.T) {
	h, b := deskHouse(t)
	olga := must.Get(h.FindUser(t.Context(), "olga"))(t)
	client, user := "/desk/clients/"+h.client.ID, "/desk/users/"+h.user.Subject()
	nils := h.User(t, "nils", h.account)
	h.signedIn(t, nils)
	h.pair(t)
	for _, c := range []struct {
		page, do, reason string
		fill             []string
	}{
		{client, "update-client", "client updated", []string{"name", "Renamed"}},
		{client, "disable", "client disabled", nil},
		{client, "enable", "client enabled", nil},
		{user, "promote", "user promoted", nil},
		{user, "demote", "user demoted", nil},
		{user, "disable", "user disabled", nil},
		{user, "enable", "user enabled", nil},
		{"/desk/users/" + nils.Subject(), "sign-out", "signed out everywhere by the operator", nil},
	} {
		t.Run(c.do+strings.ReplaceAll(c.page, "/", "_"), func(t *testing.T) {
			before := len(h.audited(t, c.reason))
			a := b.sent(t, c.page, c.do, c.fill...)
			wantStatus(t, a, http.StatusSeeOther)
			if page := b.follow(t, a); !strings.Contains(page.body, `role="status"`) {
				t.Error("the next page does not say what was done")
			}
			lines := h.audited(t, c.reason)
			if len(lines) != before+1 || lines[before].Actor.OperatorID != olga.Subject() {
				t.Errorf("audit lines = %+v, want one more, by the operator", lines)
			}
		})
	}
	if c := must.Get(h.FindClient(t.Context(), h.client.ID))(t); c.Name != "Renamed" || len(c.Grants) != len(h.client.Grants) || c.Scope != h.client.Scope {
		t.Errorf("the client is %+v, want its other settings unchanged", c)
	}
}

// TestDeskRevokes ends sign-ins and access one by one.
func TestDeskRevokes(t *testing.T) {
	h, b := deskHouse(t)
	p := h.pair(t)
	mara := h.signedIn(t, h.user)
	page := b.get(t, "/desk/access?user=MARA")
	sessions, families := rows(t, page, "data-session"), rows(t, page, "data-family")
	if len(sessions) != 2 || len(families) != 1 {
		t.Fatalf("the page has %v and %v, want two sign-ins and one family", sessions, families)
	}
	_, fields := deskForm(t, page, "revoke")
	fields.Set("sure", "true")
	for _, session := range sessions {
		wantStatus(t, b.post(t, "/desk/sessions/"+session+"/revoke", fields), http.StatusSeeOther)
	}
	wantStatus(t, b.post(t, "/desk/families/"+families[0]+"/revoke", fields), http.StatusSeeOther)
	if h.accessLives(t, p) {
		t.Error("the token is valid")
	}
	if a := mara.get(t, accountPath); a.StatusCode != http.StatusSeeOther {
		t.Errorf("the browser is signed in: %d", a.StatusCode)
	}
	wantStatus(t, b.post(t, "/desk/families/"+families[0]+"/revoke", fields), http.StatusSeeOther)
}

// TestDeskOperatorsKeepTheirOwnRole: operators cannot demote or disable themselves.
func TestDeskOperatorsKeepTheirOwnRole(t *testing.T) {
	h, b := deskHouse(t)
	olga := must.Get(h.FindUser(t.Context(), "olga"))(t)
	path := "/desk/users/" + olga.Subject()
	page := b.get(t, path)
	_, fields := deskForm(t, page, "sign-out")
	for _, do := range []string{"demote", "disable"} {
		if strings.Contains(page.body, `data-do="`+do+`"`) {
			t.Errorf("the page offers to %s oneself", do)
		}
		wantStatus(t, b.post(t, path+"/"+do, fields), http.StatusConflict)
	}
	if now := must.Get(h.FindUser(t.Context(), "olga"))(t); !now.Operator || !now.DisabledAt.IsZero() {
		t.Errorf("the operator is %+v", now)
	}
}

// TestDeskRefusesInvalidForms: a refused form comes back as it was typed, and may be sent
// again.
func TestDeskRefusesInvalidForms(t *testing.T) {
	_, b := deskHouse(t)
	action, fields := deskForm(t, b.get(t, "/desk/new-client"), "create-client")
	refused := b.post(t, action, with(fields, "name", "Aster", "redirect_uris", "http://plain.example/cb"))
	wantStatus(t, refused, http.StatusBadRequest)
	if !strings.Contains(refused.body, `role="alert"`) || !strings.Contains(refused.body, `aria-invalid="true"`) {
		t.Errorf("the refusal is not marked: %s", refused.body)
	}
	action, typed := deskForm(t, refused, "create-client")
	if typed.Get("name") != "Aster" || typed.Get("redirect_uris") != "http://plain.example/cb" {
		t.Errorf("the form comes back as %v", typed)
	}
	wantStatus(t, b.post(t, action, with(typed, "redirect_uris", storetest.CallbackURI)), http.StatusOK)

	action, fields = deskForm(t, b.get(t, "/desk/new-user"), "create-user")
	refused = b.post(t, action, with(fields, "username", "MARA", "operator", "true"))
	wantStatus(t, refused, http.StatusBadRequest)
	if _, typed = deskForm(t, refused, "create-user"); typed.Get("username") != "MARA" || typed.Get("operator") != "true" {
		t.Errorf("the form comes back as %v", typed)
	}
}

// TestDeskLastUses: the last sign-in outlives the session, and the last use of a client is
// found among any number of families.
func TestDeskLastUses(t *testing.T) {
	h, b := deskHouse(t)
	cell := func(page, row string, column int) string {
		t.Helper()
		for n := range parsePage(t, b.get(t, page)).Descendants() {
			if n.Data == "tr" && slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Val == row }) {
				for d := range n.ChildNodes() {
					if d.Type != html.ElementNode {
						continue
					}
					if column == 0 {
						return strings.Join(strings.Fields(textOf(d)), " ")
					}
					column--
				}
			}
		}
		t.Fatalf("%s has no row %s", page, row)
		return ""
	}
	if got := cell("/desk/users", h.user.Subject(), 3); got != "never in a browser" {
		t.Errorf("before a sign-in: %q", got)
	}
	if got := cell("/desk/clients", h.client.ID, 5); got != "never" {
		t.Errorf("before a use: %q", got)
	}
	h.signedIn(t, h.user)
	for range 3 {
		h.accessLives(t, h.pair(t))
	}
	h.FlushLastUsed(t.Context())
	h.Clock.Advance(3 * time.Hour)
	must.Get(h.DeleteSessions(t.Context(), store.By{}, h.user))(t)
	must.Get(h.SetPassword(t.Context(), "mara", "another long phrase"))(t)
	if got := cell("/desk/users", h.user.Subject(), 3); got != "3 h ago" {
		t.Errorf("after the sign-out: %q, want 3 h ago", got)
	}
	if got := cell("/desk/clients", h.client.ID, 5); got != "3 h ago" {
		t.Errorf("after the end of the families: %q, want 3 h ago", got)
	}
	for _, page := range []string{"/desk/users/" + h.user.Subject(), "/desk/clients/" + h.client.ID} {
		if text := words(t, b.get(t, page)); !strings.Contains(text, "Last sign-in 3 h ago") && !strings.Contains(text, "Last used 3 h ago") {
			t.Errorf("%s: %s", page, text)
		}
	}
}

// TestDeskTablesOfARecord: the page of a client or user has no column that repeats it in
// every row.
func TestDeskTablesOfARecord(t *testing.T) {
	h, b := deskHouse(t)
	h.pair(t)
	for path, without := range map[string]string{"/desk/clients/" + h.client.ID: "Client", "/desk/users/" + h.user.Subject(): "User"} {
		page := b.get(t, path)
		if len(rows(t, page, "data-family")) == 0 || len(rows(t, page, "data-audit")) == 0 {
			t.Fatalf("%s shows no access or no audit line", path)
		}
		for _, list := range []string{"families", "audit"} {
			_, table, _ := strings.Cut(page.body, `data-list="`+list+`"`)
			table, _, _ = strings.Cut(table, "</table>")
			columns, cells := strings.Count(table, `scope="col"`), strings.Count(table, "role=cell")+strings.Count(table, "role=rowheader")
			if strings.Contains(table, ">"+without+"</th>") || cells != columns*(strings.Count(table, "<tr")-1) {
				t.Errorf("%s: %s has %d columns and %d cells: %s", path, list, columns, cells, table)
			}
		}
	}
}

// TestAdminShowsTheLatestSignIn: it is part of a user who is listed or shown, once there
// was one.
func TestAdminShowsTheLatestSignIn(t *testing.T) {
	h := parallelHouse(t)
	for _, path := range []string{"/api/platform/users", "/api/platform/users/" + h.UserID(t, "mara")} {
		if a := h.admin(t, "GET", path, ""); strings.Contains(a.body, "last_sign_in") {
			t.Errorf("%s before a sign-in: %s", path, a.body)
		}
	}
	h.signedIn(t, h.user)
	want := fmt.Sprintf(`"last_sign_in":%d`, h.Clock.Now().Unix())
	h.Clock.Advance(time.Hour)
	for _, path := range []string{"/api/platform/users", "/api/platform/users/" + h.UserID(t, "MARA")} {
		if a := h.admin(t, "GET", path, ""); strings.Count(a.body, want) != 1 {
			t.Errorf("%s = %s, want %s", path, a.body, want)
		}
	}
}

// TestDeskEveryFormAsksForThePassword: late in a session no form does anything, and none
// loses what was typed.
func TestDeskEveryFormAsksForThePassword(t *testing.T) {
	h, b := deskHouse(t)
	_, fields := deskForm(t, b.get(t, "/desk/new-client"), "create-client")
	fields = with(fields, "name", "Aster <Reports>", "redirect_uris", "https://a.example/cb\nhttps://b.example/cb", "username", " nils ", "account", "acct_x")
	b.get(t, "/desk") // begins the counts of events
	h.Clock.Advance(15 * time.Minute)
	b.get(t, "/desk")
	h.FlushLastUsed(t.Context())
	before := h.kept(t)
	for _, route := range h.server.DeskRoutes() {
		if route[0] != "POST" {
			continue
		}
		target := h.deskTarget(route[1], h.user)
		asked := b.post(t, target, fields)
		wantStatus(t, asked, http.StatusForbidden)
		action, repeated := deskForm(t, asked, "confirm")
		repeated.Del("password")
		repeated.Del("")
		repeated.Del("sure")
		if action != target || repeated.Encode() != fields.Encode() {
			t.Errorf("%s: the page repeats %s %q, want %q", route[1], action, repeated.Encode(), fields.Encode())
		}
	}
	if after := h.kept(t); after != before {
		t.Errorf("the store has %d records, %d before", after, before)
	}
}

// TestDeskStaleFormsLoseNothing: a form that was opened before another sign-in in the same
// browser changes nothing, and can be sent again as it was typed.
func TestDeskStaleFormsLoseNothing(t *testing.T) {
	h, b := deskHouse(t)
	action, fields := deskForm(t, b.get(t, "/desk/new-client"), "create-client")
	fields = with(fields, "name", "Aster <Reports>", "redirect_uris", storetest.CallbackURI)
	fields["scopes"] = []string{"events:read", "resources:read"}
	again := h.signedIn(t, must.Get(h.FindUser(t.Context(), "olga"))(t))
	before := len(rows(t, again.get(t, "/desk/clients"), "data-client"))
	stale := again.post(t, action, fields)
	wantStatus(t, stale, http.StatusForbidden)
	if n := len(rows(t, again.get(t, "/desk/clients"), "data-client")); n != before {
		t.Errorf("%d clients, %d before the stale form", n, before)
	}
	to, kept := deskForm(t, stale, "send-again")
	for name, values := range fields {
		if name != "form_token" && !slices.Equal(kept[name], values) {
			t.Errorf("%s comes back as %q, want %q", name, kept[name], values)
		}
	}
	kept.Del("")
	done := again.post(t, to, kept)
	wantStatus(t, done, http.StatusOK)
	if c := must.Get(h.FindClient(t.Context(), marked(t, done, "data-client-id")))(t); c.Name != "Aster <Reports>" || c.Scope.String() != "events:read resources:read" {
		t.Errorf("the client is %+v", c)
	}
	h.Clock.Advance(time.Hour)
	if late := again.post(t, action, fields); !strings.Contains(late.body, `data-do="confirm"`) {
		t.Error("a late stale form does not ask for the password")
	}
	for name, forge := range map[string]func(*http.Request){
		"no_header": func(r *http.Request) { r.Header.Del("Sec-Fetch-Site"); r.Header.Del("Origin") },
		"same_site": header("Sec-Fetch-Site", "same-site"), "another_site": header("Sec-Fetch-Site", "cross-site"),
	} {
		if a := again.post(t, action, fields, forge); a.StatusCode != http.StatusForbidden || strings.Contains(a.body, "Aster") {
			t.Errorf("%s: the form comes back with a token: %d %s", name, a.StatusCode, a.body)
		}
	}
}

// TestDeskRepeatedForms: a form that makes nothing can be sent twice and does the same.
func TestDeskRepeatedForms(t *testing.T) {
	h, b := deskHouse(t)
	h.pair(t)
	h.signedIn(t, h.user)
	page := b.get(t, "/desk/access?user=mara")
	session, family := rows(t, page, "data-session")[0], rows(t, page, "data-family")[0]
	_, fields := deskForm(t, b.get(t, "/desk/clients/"+h.client.ID), "update-client")
	fields.Set("sure", "true")
	client, user := "/desk/clients/"+h.client.ID, "/desk/users/"+h.user.Subject()
	for _, target := range []string{client, client + "/disable", client + "/enable", user + "/promote", user + "/demote", user + "/disable", user + "/enable", user + "/sign-out",
		"/desk/sessions/" + session + "/revoke", "/desk/families/" + family + "/revoke"} {
		first, second := b.post(t, target, fields), b.post(t, target, fields)
		if first.StatusCode != http.StatusSeeOther || second.StatusCode != http.StatusSeeOther {
			t.Errorf("%s answers %d and then %d", target, first.StatusCode, second.StatusCode)
		}
	}
	c, u := must.Get(h.FindClient(t.Context(), h.client.ID))(t), must.Get(h.FindUser(t.Context(), "mara"))(t)
	if c.Name != h.client.Name || c.Scope != h.client.Scope || !c.DisabledAt.IsZero() || u.Operator || !u.DisabledAt.IsZero() {
		t.Errorf("the client is %+v and the user %+v", c, u)
	}
}

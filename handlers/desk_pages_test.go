package handlers_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"tollhouse/handlers"
	"tollhouse/handlers/admin"
	"tollhouse/handlers/desk"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook"
	"tollhouse/views"
)

// oddClientID is allowed, and has every sign that an address gives a meaning to.
const oddClientID = `a/b?c=%2e#"&;..<d>`

// TestDeskLinks follows every link from the Overview, and sends every form without its
// token: all lead to pages of the desk, below the path of the public URL too.
func TestDeskLinks(t *testing.T) {
	must.SkipInShort(t)
	for _, public := range []string{"https://pay.example", "https://pay.example/pay"} {
		t.Run(strings.ReplaceAll(public, "/", "_"), func(t *testing.T) {
			f := storetest.New(t, func(o *store.Options) { o.Fixtures = true })
			h := houseOver(t, f, at(public), withDesk(), func(c *handlers.Config) {
				c.Desk.Backups = &fakeBackups{files: []desk.BackupFile{{Name: "x.backup"}}}
			})
			must.Get(h.CreateFixedClient(t.Context(), oddClientID, secret.New(nil, secret.ClientSecret), store.ClientSpec{Name: "Odd", RedirectURIs: []string{storetest.CallbackURI}}))(t)
			h.recordMix(t, h.account, 60)
			h.recordMix(t, "acct_other", 3)
			b := h.signedIn(t, h.operator(t, "olga"))
			base := must.Get(url.Parse(public))(t).Path
			h.token(t, h.passwordForm())
			seen, forms := map[string]bool{}, map[string]bool{}
			next := []string{base + "/desk", base + "/desk/clients/" + url.PathEscape(url.PathEscape(oddClientID))}
			for len(next) > 0 && len(seen) < 400 {
				target := next[0]
				if next = next[1:]; seen[target] {
					continue
				}
				seen[target] = true
				a := b.get(t, target)
				if a.StatusCode != http.StatusOK {
					t.Errorf("%s leads to %d: %.300s", target, a.StatusCode, a.body)
					continue
				}
				if !isPage(a) {
					continue
				}
				for n := range parsePage(t, a).Descendants() {
					href, action := attribute(n, "href"), attribute(n, "action")
					if n.Data == "a" && !strings.HasPrefix(href, "#") && !strings.Contains(href, "event-tail") {
						if !strings.HasPrefix(href, base+"/") {
							t.Fatalf("%s links to %q, want an address below %s/", target, href, base)
						}
						if strings.HasPrefix(href, base+"/desk") && !strings.Contains(href, "EVENT") {
							next = append(next, href)
						}
					}
					if n.Data == "form" && attribute(n, "method") == "post" && strings.HasPrefix(action, base+"/desk") && !forms[action] {
						forms[action] = true
						if refused := b.post(t, action, url.Values{}); refused.StatusCode != http.StatusForbidden {
							t.Errorf("the form of %s for %s leads to %d: %.200s", target, action, refused.StatusCode, refused.body)
						}
					}
				}
			}
			if len(seen) < 60 || len(forms) < 15 {
				t.Errorf("%d pages and %d forms were found, want more", len(seen), len(forms))
			}
		})
	}
}

// TestDeskOddIDs: a record with any id can be changed, also after the question for the
// password.
func TestDeskOddIDs(t *testing.T) {
	f := storetest.New(t, func(o *store.Options) { o.Fixtures = true })
	h := houseOver(t, f, withDesk())
	must.Get(h.CreateFixedClient(t.Context(), oddClientID, secret.New(nil, secret.ClientSecret), store.ClientSpec{Name: "Odd", RedirectURIs: []string{storetest.CallbackURI}}))(t)
	b := h.signedIn(t, h.operator(t, "olga"))
	page := "/desk/clients/" + url.PathEscape(url.PathEscape(oddClientID))
	h.Clock.Advance(time.Hour)
	asked := b.sent(t, page, "disable")
	wantStatus(t, asked, http.StatusForbidden)
	action, fields := deskForm(t, asked, "confirm")
	a := b.post(t, action, with(fields, "password", storetest.Password))
	wantStatus(t, a, http.StatusSeeOther)
	if text := words(t, b.follow(t, a)); !strings.Contains(text, oddClientID) || !strings.Contains(text, "The client is disabled.") {
		t.Errorf("the form leads to %s", text)
	}
	for page, command := range map[string]string{
		page: "tollhouse client delete '" + oddClientID + "'",
		"/desk/users/" + h.User(t, "$(id)", h.account).Subject(): "tollhouse user delete '$(id)'",
	} {
		if text := words(t, b.get(t, page)); !strings.Contains(text, command) {
			t.Errorf("%s lacks %s: %s", page, command, text)
		}
	}
	if c := must.Get(h.FindClient(t.Context(), oddClientID))(t); c.DisabledAt.IsZero() {
		t.Error("the client is enabled")
	}
}

// TestDeskLists: a list of any length is read page by page, each record once.
func TestDeskLists(t *testing.T) {
	h, b := deskHouse(t)
	for i := range 120 {
		u := h.User(t, fmt.Sprintf("user%03d", i), h.account)
		c, _ := h.Client(t)
		must.Get(h.IssueForPassword(t.Context(), store.By{}, c, u, store.ScopeUnstated))(t)
		h.signedIn(t, u)
	}
	for _, c := range []struct {
		path, hook string
		want       int
	}{
		{"/desk/users", "data-user", 122}, {"/desk/clients", "data-client", 121}, {"/desk/audit", "data-audit", len(h.auditOf(t, ""))},
		{"/desk/access", "data-family", 120}, {"/desk/access", "data-session", 121},
	} {
		t.Run(c.hook, func(t *testing.T) {
			found := map[string]int{}
			target, pages := c.path, 0
			for ; target != "" && pages < 20; pages++ {
				page := b.get(t, target)
				wantStatus(t, page, http.StatusOK)
				ids := rows(t, page, c.hook)
				if most := map[string]int{"/desk/access": 25}[c.path]; len(ids) > cmp.Or(most, 50) {
					t.Fatalf("%d rows on a page", len(ids))
				}
				for _, id := range ids {
					found[id]++
				}
				target = nextOf(t, page, c.hook)
			}
			for id, times := range found {
				if times != 1 {
					t.Errorf("%s is listed %d times", id, times)
				}
			}
			if len(found) != c.want || pages < 3 {
				t.Errorf("%d records on %d pages, want %d", len(found), pages, c.want)
			}
		})
	}
}

// TestDeskAccessOfNamesakes: clients of one name are listed together, page by page.
func TestDeskAccessOfNamesakes(t *testing.T) {
	h, b := deskHouse(t)
	for range 3 {
		c, _ := h.Client(t, func(s *store.ClientSpec) { s.Name = "Aster" })
		for range 40 {
			must.Get(h.IssueForPassword(t.Context(), store.By{}, c, h.user, store.ScopeUnstated))(t)
		}
	}
	h.pair(t) // of another client
	// With a user the families are listed one by one, otherwise they are counted.
	for query, want := range map[string]int{"client=aster": 3, "client=ASTER&user=Mara": 120} {
		found := map[string]bool{}
		for target, pages := "/desk/access?"+query, 0; target != "" && pages < 9; pages++ {
			page := b.get(t, target)
			for _, id := range rows(t, page, "data-family") {
				if found[id] {
					t.Errorf("%s is listed twice", id)
				}
				found[id] = true
			}
			target = nextOf(t, page, "data-family")
		}
		if len(found) != want {
			t.Errorf("%s: %d rows, want %d", query, len(found), want)
		}
	}
	if n := len(rows(t, b.get(t, "/desk/access?client=nobody"), "data-family")); n != 0 {
		t.Errorf("an unknown client has %d families", n)
	}
}

// nextOf returns where the list with those rows goes on.
func nextOf(t testing.TB, page answer, hook string) (href string) {
	t.Helper()
	here := false
	for n := range parsePage(t, page).Descendants() {
		switch {
		case n.Data == "table":
			here = false
		case n.Data == "tr" && attribute(n, hook) != "":
			here = true
		case here && slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "data-next" }):
			return attribute(n, "href")
		}
	}
	return ""
}

// TestDeskNeverDoes: the routes are known one by one. None deletes, imports, restores or
// reads a backup, or takes a password for somebody else; the pages show commands instead.
func TestDeskNeverDoes(t *testing.T) {
	h, b := deskHouse(t)
	var posts []string
	for _, route := range h.server.DeskRoutes() {
		switch route[0] {
		case "POST":
			posts = append(posts, strings.TrimPrefix(route[1], "/desk/"))
		case "GET", "HEAD":
		default:
			t.Errorf("the desk has %s %s", route[0], route[1])
		}
	}
	slices.Sort(posts)
	want := "backups backups/:name/verify clients clients/:id clients/:id/disable clients/:id/enable clients/:id/rotate-secret families/:id/revoke health/check sessions/:id/revoke " +
		"users users/:id/code users/:id/demote users/:id/disable users/:id/enable users/:id/promote users/:id/reset-second-factor users/:id/sign-out " +
		"webhook-hold webhook-resume webhooks webhooks/:id/disable webhooks/:id/enable webhooks/:id/retry webhooks/:id/retry-dead webhooks/:id/retry-parked webhooks/:id/rotate-secret webhooks/:id/skip webhooks/:id/test"
	if got := strings.Join(posts, " "); got != want {
		t.Errorf("the desk changes\n%s\nwant\n%s", got, want)
	}
	for page, command := range map[string]string{
		"/desk/clients/" + h.client.ID: "tollhouse client delete " + h.client.ID, "/desk/users/" + h.user.Subject(): "tollhouse user delete mara", "/desk/backups": "tollhouse backup FILE",
	} {
		a := b.get(t, page)
		if !strings.Contains(words(t, a), command) {
			t.Errorf("%s lacks the command %q", page, command)
		}
		if strings.Contains(a.body, `type="password"`) {
			t.Errorf("%s asks for a password", page)
		}
	}
	if strings.Contains(b.get(t, "/desk/new-user").body, `type="password"`) {
		t.Error("a password of somebody else can be typed")
	}
	lines := len(h.auditOf(t, ""))
	for _, path := range []string{"/desk", "/desk/events", "/desk/audit", "/desk/users"} {
		b.get(t, path)
	}
	if n := len(h.auditOf(t, "")); n != lines {
		t.Errorf("opening the desk left %d audit lines", n-lines)
	}
}

// TestDeskSaysWhoHasNoPassword: a new user cannot sign in before the code was redeemed.
//
// Promise (Browsers): a user who has set no password yet is not shown as ready to sign in
func TestDeskSaysWhoHasNoPassword(t *testing.T) {
	h, b := deskHouse(t)
	a := b.sent(t, "/desk/new-user", "create-user", "username", "nora")
	wantStatus(t, a, http.StatusOK)
	if text := words(t, a); !strings.Contains(text, "Give both to nora. The page asks for the user name and the code.") {
		t.Errorf("the answer says %s", text)
	}
	for page, want := range map[string]string{"/desk/users": "nora " + h.account + " User never in a browser No password yet", "/desk/users/" + idOfUser(t, b, "nora"): "nora No password yet"} {
		if text := words(t, b.get(t, page)); !strings.Contains(text, want) {
			t.Errorf("%s lacks %q: %s", page, want, text)
		}
	}
}

// idOfUser finds a user in the list of users.
func idOfUser(t *testing.T, b *browser, name string) string {
	t.Helper()
	for n := range parsePage(t, b.get(t, "/desk/users")).Descendants() {
		if id := attribute(n, "data-user"); id != "" && strings.HasPrefix(textOf(n), name) {
			return id
		}
	}
	t.Fatalf("the list lacks %s", name)
	return ""
}

// TestDeskCommandsNameTheStore: they are pasted on the machine, in any directory.
func TestDeskCommandsNameTheStore(t *testing.T) {
	h, b := deskHouse(t, func(c *handlers.Config) {
		c.Command = func(text string) string { return text + " --data /srv/data" }
	})
	for _, page := range []string{"/desk/clients/" + h.client.ID, "/desk/users/" + h.user.Subject(), "/desk/backups", "/desk/webhooks"} {
		text := words(t, b.get(t, page))
		for _, before := range strings.SplitAfter(text, "--data /srv/data") {
			if strings.HasSuffix(before, "--data /srv/data") {
				before = before[:strings.LastIndex(before, "tollhouse ")]
			}
			if regexp.MustCompile(`tollhouse (backup|restore|client|user|doctor|webhook) `).MatchString(before) {
				t.Errorf("%s shows a command without the store: %s", page, before)
			}
		}
		if !strings.Contains(text, "--data /srv/data") {
			t.Errorf("%s shows no command: %s", page, text)
		}
	}
}

// TestDeskRotation: both secrets work until the next rotation; one that leaked ends at
// once, with all tokens.
func TestDeskRotation(t *testing.T) {
	h, b := deskHouse(t)
	first := h.secret.Reveal()
	works := func(sec string) bool {
		t.Helper()
		return h.token(t, with(h.passwordForm(), "client_secret", sec)).StatusCode == http.StatusOK
	}
	rotate := func(fill ...string) string {
		t.Helper()
		a := b.sent(t, "/desk/clients/"+h.client.ID, "rotate-secret", fill...)
		wantStatus(t, a, http.StatusOK)
		if id := marked(t, a, "data-client-id"); id != h.client.ID {
			t.Errorf("the answer is about %q", id)
		}
		if text := words(t, a); !strings.Contains(text, "Store the secret now It is shown once. If it is lost, rotate it.") || !strings.Contains(text, "curl ") {
			t.Errorf("the answer says %s", text)
		}
		return marked(t, a, "data-secret")
	}
	second := rotate()
	if !works(first) || !works(second) {
		t.Error("after a rotation one of the secrets is refused")
	}
	third := rotate()
	if works(first) || !works(second) || !works(third) {
		t.Error("after the second rotation the last two secrets should work alone")
	}
	p := wantPair(t, h.token(t, with(h.passwordForm(), "client_secret", third)))
	fourth := rotate("revoke_tokens", "true")
	if works(third) || !works(fourth) || h.accessLives(t, p) {
		t.Error("after a leak the old secret or a token works")
	}
}

// TestDeskNewClients: boxes that are all ticked narrow nothing, and a public client gets
// no secret.
func TestDeskNewClients(t *testing.T) {
	h, b := deskHouse(t)
	create := func(grants, scopes []string, fill ...string) store.Client {
		t.Helper()
		action, fields := deskForm(t, b.get(t, "/desk/new-client"), "create-client")
		if fields["grants"] = append([]string(nil), fields["grants"]...); grants != nil {
			fields["grants"] = grants
		}
		if scopes != nil {
			fields["scopes"] = scopes
		}
		a := b.post(t, action, with(fields, append([]string{"name", "Aster", "redirect_uris", storetest.CallbackURI}, fill...)...))
		wantStatus(t, a, http.StatusOK)
		c := must.Get(h.FindClient(t.Context(), marked(t, a, "data-client-id")))(t)
		if (marked(t, a, "data-secret") == "") != c.Public {
			t.Errorf("public: %t, and the secret is %q", c.Public, marked(t, a, "data-secret"))
		}
		return c
	}
	if c := create(nil, nil); c.Scope != store.ScopeUnstated || len(c.Grants) != 3 || c.Public || c.Introspect {
		t.Errorf("with everything ticked: %+v, want no restriction", c)
	}
	if c := create([]string{"password"}, []string{"events:read"}, "introspect", "true"); c.Scope != store.ScopeEventsRead || len(c.Grants) != 1 || !c.Introspect {
		t.Errorf("narrowed: %+v", c)
	}
	if c := create(nil, nil, "public", "true"); !c.Public || len(c.Grants) != 2 {
		t.Errorf("public: %+v, want one without the password grant", c)
	}
	acting := create([]string{"client_credentials"}, nil, "redirect_uris", "", "account", "acct_job")
	if acting.Account != "acct_job" || !acting.Allows(store.GrantClientCredentials) || len(acting.Grants) != 1 {
		t.Errorf("acting for an account: %+v", acting)
	}
	action, fields := deskForm(t, b.get(t, "/desk/clients/"+acting.ID), "update-client")
	if fields.Get("account") != "acct_job" {
		t.Errorf("the form of a client that acts for an account has %v", fields)
	}
	wantStatus(t, b.post(t, action, with(fields, "account", "acct_other", "sure", "true")), http.StatusSeeOther)
	if c := must.Get(h.FindClient(t.Context(), acting.ID))(t); c.Account != "acct_other" || c.Generation == acting.Generation {
		t.Errorf("acting for another account: %+v", c)
	}
	kept := create(nil, nil, "remember", "true")
	if kept.Consent() != store.ConsentRemember {
		t.Errorf("with consent remembered: %+v", kept)
	}
	action, fields = deskForm(t, b.get(t, "/desk/clients/"+kept.ID), "update-client")
	wantStatus(t, b.post(t, action, fields), http.StatusSeeOther)
	if c := must.Get(h.FindClient(t.Context(), kept.ID))(t); c.ConsentEpoch != kept.ConsentEpoch {
		t.Error("saving the client as it is ended what is remembered")
	}
	fields.Del("remember")
	wantStatus(t, b.post(t, action, with(fields, "sure", "true")), http.StatusSeeOther)
	if c := must.Get(h.FindClient(t.Context(), kept.ID))(t); c.Consent() != store.ConsentAsk {
		t.Errorf("with the box cleared: %q, want ask", c.Consent())
	}
	action, fields = deskForm(t, b.get(t, "/desk/new-client"), "create-client")
	refused := b.post(t, action, with(fields, "name", "Aster", "redirect_uris", storetest.CallbackURI, "public", "true", "remember", "true"))
	if wantStatus(t, refused, http.StatusBadRequest); !strings.Contains(words(t, refused), "a public client has no secret") && !strings.Contains(words(t, refused), "A public client has no secret") {
		t.Errorf("a public client that remembers consent: %s", words(t, refused))
	}
	page := b.get(t, "/desk/new-client")
	if _, fields := deskForm(t, page, "create-client"); len(fields["grants"]) != 3 || len(fields["scopes"]) != len(store.ScopeNames()) || fields.Has("public") || fields.Has("introspect") {
		t.Errorf("the new form has %v, want all grants and scopes ticked", fields)
	}
}

// TestDeskAuditShowsWhatWasDeleted as an id that says so.
func TestDeskAuditShowsWhatWasDeleted(t *testing.T) {
	h, b := deskHouse(t)
	h.pair(t)
	must.Do(t, h.DeleteClient(t.Context(), h.client.ID))
	must.Do(t, h.DeleteUser(t.Context(), "mara"))
	text := words(t, b.get(t, "/desk/audit"))
	for _, want := range []string{h.client.ID + " (deleted)", h.user.Subject() + " (deleted)"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if ids := rows(t, b.get(t, "/desk/audit?user="+h.user.Subject()), "data-audit"); len(ids) == 0 {
		t.Error("the lines of a deleted user are not found by id")
	}
}

// TestDeskAuditOfAnIDIsNotThatOfAName: a user who has another's id as a name, from a time
// when that was allowed, hides none of the other's lines.
func TestDeskAuditOfAnIDIsNotThatOfAName(t *testing.T) {
	h, b := deskHouse(t)
	id, nils := h.user.Subject(), h.User(t, "nils", h.account)
	must.Do(t, h.DB.Update(t.Context(), func(tx kv.Txn) error {
		return tx.Set(record.UserNameKey(id), nils.ID[:], time.Time{})
	}))
	h.pair(t)
	for _, when := range []string{"while the user exists", "when the user was deleted"} {
		for _, page := range []string{"/desk/audit?user=" + id, "/desk/users/" + id} {
			if a := b.get(t, page); a.StatusCode == http.StatusOK && len(rows(t, a, "data-audit")) == 0 {
				t.Errorf("%s shows no line %s, want the grant", page, when)
			}
		}
		if when == "while the user exists" {
			must.Do(t, h.DeleteUser(t.Context(), "mara"))
		}
	}
}

// TestDeskAuditLooksFurtherBack: a search reads 10,000 lines at most, and goes on where it
// stopped; of itself, while it has time.
func TestDeskAuditLooksFurtherBack(t *testing.T) {
	h, b := deskHouse(t)
	h.Audit(store.AuditLine{What: store.AuditLoginRefused, Reason: "the oldest"})
	for range store.AuditSearchedMax / 1000 {
		for range 1000 {
			h.Audit(store.AuditLine{What: store.AuditLogin})
		}
		h.Flush(t.Context())
	}
	h.server.SearchFor(time.Hour)
	page := b.get(t, "/desk/audit?what=login_refused")
	if ids := rows(t, page, "data-audit"); len(ids) != 1 || linkOn(t, page, "Search further back") != "" {
		t.Errorf("%d lines on a page that has time", len(ids))
	}
	h.server.SearchFor(0)
	page = b.get(t, "/desk/audit?what=login_refused")
	if ids := rows(t, page, "data-audit"); len(ids) != 0 || !strings.Contains(words(t, page), "Older entries were not searched yet.") {
		t.Fatalf("%d lines on the first page: %s", len(ids), words(t, page))
	}
	page = b.get(t, linkOn(t, page, "Search further back"))
	if ids := rows(t, page, "data-audit"); len(ids) != 1 || !strings.Contains(words(t, page), "the oldest") || linkOn(t, page, "Search further back") != "" {
		t.Errorf("%d lines further back: %s", len(ids), words(t, page))
	}
}

// fakeBackups are the backups of a server that makes some.
type fakeBackups struct {
	files []desk.BackupFile
	state desk.BackupState
	made  int
	found []string // names of those that were to be checked
	gone  error    // of the directory
}

func (f *fakeBackups) List() ([]desk.BackupFile, error) { return f.files, f.gone }
func (f *fakeBackups) State() desk.BackupState          { return f.state }

func (f *fakeBackups) Make() bool {
	if f.state.IsBusy() {
		return false
	}
	f.made++
	return true
}

func (f *fakeBackups) Verify(name string) (bool, error) {
	if f.gone != nil {
		return false, f.gone
	}
	if !slices.ContainsFunc(f.files, func(b desk.BackupFile) bool { return b.Name == name }) {
		return false, desk.ErrNoBackup
	}
	if f.state.IsBusy() {
		return false, nil
	}
	f.found = append(f.found, name)
	return true, nil
}

func TestDeskBackups(t *testing.T) {
	const name, newer = "tollhouse-3f9c2a1b-20260308T030405Z.backup", "tollhouse-3f9c2a1b-20260309T030405Z.backup"
	house := func(t *testing.T, backups desk.Backups, change ...func(*handlers.Config)) (*house, *browser) {
		return deskHouse(t, append([]func(*handlers.Config){func(c *handlers.Config) { c.Desk.Backups = backups }}, change...)...)
	}
	t.Run("listed_with_when_they_were_checked", func(t *testing.T) {
		f := &fakeBackups{state: desk.BackupState{Every: 24 * time.Hour, Keep: 7}}
		h, b := house(t, f)
		now := h.Clock.Now()
		f.files = []desk.BackupFile{{Name: newer, Dir: "/srv/b", Made: now.Add(-time.Hour), Bytes: 5 << 20}, {Name: name, Dir: "/srv/b", Made: now.Add(-25 * time.Hour), Bytes: 4 << 20, Checked: now.Add(-2 * time.Hour)}}
		page := b.get(t, "/desk/backups")
		if got := rows(t, page, "data-backup"); !slices.Equal(got, []string{newer, name}) {
			t.Errorf("rows = %v", got)
		}
		text := words(t, page)
		for _, want := range []string{"In /srv/b", "Newest 1 h ago", "Next in 23 h every day", "Kept 2 of 7 9.0 MiB in all", "When it was made", "No damage 2 h ago", "5.0 MiB", "tollhouse restore '/srv/b/" + newer + "'"} {
			if !strings.Contains(text, want) {
				t.Errorf("the page lacks %q: %s", want, text)
			}
		}
		f.files[1].Problem = "damaged before byte 9"
		if text := words(t, b.get(t, "/desk/backups")); !strings.Contains(text, "damaged before byte 9") {
			t.Errorf("the page hides the damage: %s", text)
		}
	})
	t.Run("an_encrypted_one_says_no_more_than_is_known", func(t *testing.T) {
		f := &fakeBackups{state: desk.BackupState{Every: 24 * time.Hour, Keep: 7}}
		h, b := house(t, f)
		f.files = []desk.BackupFile{{Name: newer + ".age", Dir: "/srv/b", Made: h.Clock.Now().Add(-time.Hour), Bytes: 1 << 20, Encrypted: true}}
		wants := func(want ...string) {
			t.Helper()
			text := words(t, b.get(t, "/desk/backups"))
			for _, want := range append(want, "tollhouse restore '/srv/b/"+newer+".age' \\ --identity KEY") {
				if !strings.Contains(text, want) {
					t.Errorf("the page lacks %q: %s", want, text)
				}
			}
			if strings.Contains(text, "No damage") || strings.Contains(text, "When it was made") {
				t.Errorf("the page says too much: %s", text)
			}
		}
		wants("Checked as it was written; contents sealed since")
		f.files[0].Checked = h.Clock.Now().Add(-2 * time.Hour)
		wants("Unchanged since it was written 2 h ago")
	})
	t.Run("a_program_that_failed_after_one_is_shown_with_them", func(t *testing.T) {
		failed := admin.Finding{Check: "backup-then", State: admin.StateWarning, Detail: "the program failed", Next: "run it by hand"}
		_, b := house(t, &fakeBackups{state: desk.BackupState{Every: time.Hour}}, func(c *handlers.Config) {
			c.Doctor = func(_ context.Context, _ admin.Depth, report func(admin.Finding)) { report(failed) }
		})
		for _, page := range []string{"/desk", "/desk/backups", "/desk/health"} {
			if text := b.get(t, page).body; !strings.Contains(text, `data-check="backup-then" data-state="warning"`) {
				t.Errorf("%s lacks the finding", page)
			}
		}
	})
	t.Run("a_directory_that_vanished_is_a_finding", func(t *testing.T) {
		f := &fakeBackups{files: []desk.BackupFile{{Name: name}}, state: desk.BackupState{Every: time.Hour}}
		missing := admin.Finding{Check: "backup", State: admin.StateProblem, Detail: "the backup directory /srv/b does not exist", Next: "mount its disk"}
		_, b := house(t, f, func(c *handlers.Config) {
			c.Doctor = func(_ context.Context, _ admin.Depth, report func(admin.Finding)) { report(missing) }
		})
		_, fields := deskForm(t, b.get(t, "/desk/backups"), "verify")
		f.files, f.gone = nil, errors.New("it is gone")
		page := b.get(t, "/desk/backups")
		wantStatus(t, page, http.StatusOK)
		if text := words(t, page); !strings.Contains(text, "The backup directory /srv/b does not exist. Next: mount its disk.") || strings.Contains(text, "Kept") || !strings.Contains(text, "The backups cannot be listed.") {
			t.Errorf("the page lacks the finding: %s", text)
		}
		wantStatus(t, b.post(t, "/desk/backups/"+name+"/verify", fields), http.StatusConflict)
	})
	t.Run("made_and_checked_once_each", func(t *testing.T) {
		f := &fakeBackups{files: []desk.BackupFile{{Name: name}}, state: desk.BackupState{Every: time.Hour}}
		h, b := house(t, f)
		action, fields := deskForm(t, b.get(t, "/desk/backups"), "backup")
		a := b.post(t, action, fields)
		if page := b.follow(t, a); !strings.Contains(page.body, `role="status"`) || f.made != 1 {
			t.Errorf("%d backups were begun, and the page says %s", f.made, words(t, page))
		}
		wantStatus(t, b.post(t, action, fields), http.StatusConflict)
		if f.made != 1 {
			t.Errorf("%d backups were begun by one form", f.made)
		}
		wantStatus(t, b.sent(t, "/desk/backups", "verify"), http.StatusSeeOther)
		_, fields = deskForm(t, b.get(t, "/desk/backups"), "verify")
		wantStatus(t, b.post(t, "/desk/backups/other.backup/verify", fields), http.StatusNotFound)
		wantStatus(t, b.post(t, "/desk/backups/"+url.PathEscape("../x.backup")+"/verify", fields), http.StatusNotFound)
		if !slices.Equal(f.found, []string{name}) {
			t.Errorf("checked %v", f.found)
		}
		f.state.Making = true
		page := b.get(t, "/desk/backups")
		if !strings.Contains(words(t, page), "A backup is being made.") || linkOn(t, page, "Refresh") != "/desk/backups" {
			t.Errorf("the page does not say what is done: %s", words(t, page))
		}
		wantStatus(t, b.sent(t, "/desk/backups", "backup"), http.StatusConflict)
		wantStatus(t, b.sent(t, "/desk/backups", "verify"), http.StatusConflict)
		if len(h.audited(t, "backup begun")) != 1 || len(h.audited(t, "backup checked")) != 1 {
			t.Error("the audit record has not one line for each")
		}
		f.state = desk.BackupState{Failed: "no space left"}
		if page := b.get(t, "/desk/backups"); !strings.Contains(page.body, `role="alert"`) || !strings.Contains(words(t, page), "no space left") {
			t.Errorf("the page hides the failure: %s", words(t, page))
		}
	})
	t.Run("none_without_a_schedule", func(t *testing.T) {
		_, b := house(t, nil)
		page := b.get(t, "/desk/backups")
		if text := words(t, page); !strings.Contains(text, "--backup-every 24h") || strings.Contains(page.body, `data-do="backup"`) {
			t.Errorf("the page says %s", text)
		}
		_, fields := deskForm(t, b.get(t, "/desk/new-client"), "create-client")
		wantStatus(t, b.post(t, "/desk/backups", fields), http.StatusConflict)
		wantStatus(t, b.post(t, "/desk/backups/x/verify", fields), http.StatusNotFound)
	})
	t.Run("none_in_dev", func(t *testing.T) {
		_, b := house(t, nil, func(c *handlers.Config) { c.Demo = &web.Demo{} })
		page := b.get(t, "/desk/backups")
		if text := words(t, page); !strings.Contains(text, "Backups are off: a test instance keeps nothing.") || strings.Contains(page.body, `data-do="backup"`) {
			t.Errorf("the page says %s", text)
		}
		_, fields := deskForm(t, b.get(t, "/desk/new-client"), "create-client")
		if a := b.post(t, "/desk/backups", fields); a.StatusCode != http.StatusConflict || !strings.Contains(words(t, a), "Data is in memory; there is nothing to back up.") {
			t.Errorf("a backup answers %d %s", a.StatusCode, words(t, a))
		}
	})
}

func TestDeskHealth(t *testing.T) {
	findings := []admin.Finding{
		{Check: "disk", State: admin.StateOK, Detail: "20 GiB are free"},
		{Check: "backup", State: admin.StateWarning, Detail: "the newest is 3 days old", Next: "tollhouse backup FILE"},
		{Check: "certificate", State: admin.StateProblem, Detail: "it expired", Next: "renew it"},
	}
	looks, searches, hangs := 0, 0, false
	h, b := deskHouse(t, func(c *handlers.Config) {
		c.Doctor = func(ctx context.Context, depth admin.Depth, report func(admin.Finding)) {
			looks++
			if hangs {
				<-ctx.Done()
			}
			if depth != admin.DepthKept {
				t.Error("a look at the page reads all users or the whole store")
			}
			for _, f := range findings {
				report(f)
			}
		}
		c.Status = func(context.Context) admin.ServerStatus { return admin.ServerStatus{} }
		c.Desk.Check = func() { searches++ }
	})
	page := b.get(t, "/desk/health")
	if got := rows(t, page, "data-check"); !slices.Equal(got, []string{"certificate", "backup", "disk"}) {
		t.Errorf("checks = %v, want the worst first", got)
	}
	if got := rows(t, page, "data-state"); !slices.Equal(got, []string{"problem", "warning", "ok"}) {
		t.Errorf("states = %v", got)
	}
	wantInOrder(t, words(t, page), "1 problem, 1 warning, 1 check passed", "Problem certificate It expired. Next: renew it.", "Warning backup", "Backups", "OK disk 20 GiB are free.",
		"The first check has not finished yet (checked every day)", "Check now Reads all stored data in the background")
	for _, path := range []string{"/desk", "/desk/health", "/desk/users"} {
		b.get(t, path)
	}
	if looks != 1 {
		t.Errorf("the checks ran %d times within 10 s, want once", looks)
	}
	text := words(t, b.get(t, "/desk"))
	for _, want := range []string{"It expired. Next: renew it.", "The newest is 3 days old. Next: tollhouse backup FILE.", "needs attention"} {
		if !strings.Contains(text, want) {
			t.Errorf("the Overview lacks %q: %s", want, text)
		}
	}
	wantStatus(t, b.sent(t, "/desk/health", "check"), http.StatusSeeOther)
	if searches != 1 || len(h.audited(t, "search for damage begun")) != 1 {
		t.Errorf("%d searches were begun", searches)
	}
	h.Clock.Advance(10 * time.Second)
	findings = findings[:1]
	text = words(t, b.get(t, "/desk"))
	if looks != 2 || strings.Contains(text, "needs attention") || strings.Contains(text, "Nothing needs your attention") {
		t.Errorf("after %d looks all is well, and the Overview says %s", looks, text)
	}
	h.Clock.Advance(10 * time.Second)
	hangs = true
	for range 2 {
		b.get(t, "/desk")
	}
	if looks != 3 {
		t.Errorf("two pages waited %d times for checks that hang, want once", looks-2)
	}
}

// TestDeskNamesTheEndpointThatFails: a receiver that refuses events is a problem on every page
// of the desk, with the endpoint's name and a way to it.
//
// Promise (Browsers): an endpoint that fails is named on the Overview and in Health, with a way to it
func TestDeskNamesTheEndpointThatFails(t *testing.T) {
	now := time.Time{}
	h, b := deskHouse(t, func(c *handlers.Config) {
		c.Doctor = func(_ context.Context, _ admin.Depth, report func(admin.Finding)) {
			report(admin.Finding{Check: views.CheckWebhooks, State: admin.StateOK, Detail: "2 endpoints"})
		}
	})
	look := func() string {
		h.Clock.Advance(time.Minute)
		return words(t, b.get(t, "/desk"))
	}
	first, second := h.endpoint(t, "https://books.larkspurtea.example/in"), h.endpoint(t, "https://till.larkspurtea.example/in")
	if text := look(); strings.Contains(text, "needs attention") {
		t.Fatalf("two idle endpoints need somebody: %s", text)
	}
	now = h.Clock.Now()
	must.Get(h.Webhooks.Settle(t.Context(), &first, webhook.Progress{Trouble: webhook.Trouble{Since: now, Attempts: 1}}))(t)
	text := look()
	wantInOrder(t, text, "Webhooks , needs attention", "Deliveries to Larkspur <b> have failed since "+now.Format("15:04:05")+". 2 endpoints. Look at the answers", "Open the endpoint")
	page := b.get(t, "/desk/health")
	wantInOrder(t, words(t, page), "Health 1 problem State", "Problem webhooks Deliveries to Larkspur <b>")
	if got := linkOn(t, page, "Larkspur <b>"); got != "/desk/webhooks/"+first.ID {
		t.Errorf("Health leads to %q", got)
	}
	h.Clock.Advance(time.Hour)
	must.Get(h.Webhooks.Settle(t.Context(), &second, webhook.Progress{Trouble: webhook.Trouble{Since: h.Clock.Now(), Attempts: 1}}))(t)
	wantInOrder(t, look(), "Deliveries to 2 endpoints have failed since "+now.Format("15:04:05"), "Webhooks")
	must.Get(h.Webhooks.Hold(t.Context(), webhook.System))(t)
	if text := look(); strings.Contains(text, "needs attention") {
		t.Errorf("endpoints that are held fail: %s", text)
	}
}

// TestDeskSettings: what was set comes first, and each part keeps its order.
func TestDeskSettings(t *testing.T) {
	_, b := deskHouse(t, func(c *handlers.Config) {
		c.Settings = func() []admin.Setting {
			return []admin.Setting{{Name: "code-ttl", Value: "1m", From: "default"}, {Name: "listen", Value: "127.0.0.1:8080", From: "flag", Variable: "TOLLHOUSE_LISTEN"}, {Name: "data", From: "default"}, {Name: "desk", From: "variable"}}
		}
	})
	page := b.get(t, "/desk/settings")
	if got := rows(t, page, "data-setting"); !slices.Equal(got, []string{"listen", "desk", "code-ttl", "data"}) {
		t.Errorf("rows = %v", got)
	}
	if text := words(t, page); !strings.Contains(text, "Set by flags and variables; a change needs a restart") || !strings.Contains(text, "Set here Setting Value From Variable listen 127.0.0.1:8080 flag TOLLHOUSE_LISTEN desk – variable Defaults") {
		t.Errorf("the page says %s", text)
	}
}

// TestDeskOddQueries: whatever stands in an address, the answer is a page or a refusal.
func TestDeskOddQueries(t *testing.T) {
	must.SkipInShort(t)
	h, b := deskHouse(t)
	h.recordMix(t, h.account, 3)
	event := h.listed(t, h.pair(t).AccessToken, "limit=1")[0]
	paths := []string{"/desk/events/" + event, "/desk/events/" + event + "/raw", "/desk/resources/customer/res_1"}
	for _, route := range h.server.DeskRoutes() {
		if route[0] == "GET" && route[1] != "/desk/event-tail" && !strings.Contains(route[1], ":") {
			paths = append(paths, route[1])
		}
	}
	for _, path := range paths {
		for _, name := range []string{"account", "after", "before", "session_after", "at", "user", "client", "operator", "source", "what", "from", "to", "kind", "type", "resource", "range", "form", "limit", "order"} {
			for _, value := range []string{"", "%00", "a%00b", "%FF", "%20", "..%2F", "%E2%80%AE", strings.Repeat("x", 600), "1&" + name + "=2", "999999999999999999999"} {
				if a := b.get(t, path+"?kind=customer&"+name+"="+value); a.StatusCode >= 500 {
					t.Errorf("%s?%s=%.20s answers %d", path, name, value, a.StatusCode)
				}
			}
		}
	}
	for _, query := range []string{"form=1&account=%00&resource=" + event, "form=1&account=acct_nobody&resource=" + event, "resource=" + event + "&account=%00"} {
		if a := b.get(t, "/desk/events?"+query); a.StatusCode >= 500 {
			t.Errorf("%s answers %d", query, a.StatusCode)
		}
	}
	for _, path := range []string{"/desk/users/", "/desk/clients/", "/desk/events/", "/desk/resources/customer/", "/desk/resources/x%00/"} {
		for _, id := range []string{"%00", "%2500", "%FF", "%25FF", "%25", "usr_%00", strings.Repeat("x", 2000)} {
			if a := b.get(t, path+id); a.StatusCode >= 500 {
				t.Errorf("%s%.20s answers %d", path, id, a.StatusCode)
			}
		}
	}
}

// TestDeskUnknownRecords: what does not exist is a 404 in the frame of the desk.
func TestDeskUnknownRecords(t *testing.T) {
	_, b := deskHouse(t)
	for _, path := range []string{
		"/desk/nothing", "/desk/", "/desk/events/evt_00000000000000000000000000", "/desk/events?account=acct_nobody", "/desk/resources?account=acct_nobody", "/desk/resources/customer/cus_nobody",
		"/desk/clients/tollhouse_nobody", "/desk/users/usr_nobody", "/desk/users/mara", "/desk?account=acct_nobody",
	} {
		if a := b.get(t, path); a.StatusCode != http.StatusNotFound || !strings.Contains(a.body, "data-desk=") {
			t.Errorf("%s = %d, in the frame: %t", path, a.StatusCode, strings.Contains(a.body, "data-desk="))
		}
	}
	if a := b.send(t, "DELETE", "/desk/users", nil); a.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("DELETE = %d", a.StatusCode)
	}
}

var failedSignIns = regexp.MustCompile(`href="(/desk/audit[?]what=failed_sign_ins&amp;from=[^"]+)"`)

// TestDeskOverviewLeadsToFailedSignIns: the figure counts what was refused and what was throttled,
// and so does the list behind it.
//
// Promise (Browsers): the number of failed sign-ins leads to a list of just these, from a time that people can read
func TestDeskOverviewLeadsToFailedSignIns(t *testing.T) {
	h, b := deskHouse(t)
	refused, throttled := 0, 0
	for range 14 {
		if h.token(t, with(h.passwordForm(), "password", "not the password")).StatusCode == http.StatusTooManyRequests {
			throttled++
			continue
		}
		refused++
	}
	for range 40 {
		h.token(t, with(h.passwordForm(), "client_secret", "not the secret"))
	}
	link := failedSignIns.FindStringSubmatch(b.get(t, "/desk").body)
	if link == nil || refused == 0 || throttled == 0 {
		t.Fatalf("link = %q after %d refused and %d throttled", link, refused, throttled)
	}
	page := b.get(t, html.UnescapeString(link[1]))
	wantStatus(t, page, http.StatusOK)
	what := map[string]int{}
	for n := range parsePage(t, page).Descendants() {
		if attribute(n, "data-col") == "what" {
			what[strings.Fields(textOf(n))[0]]++
		}
	}
	if throttledClients := b.get(t, "/desk/audit?what=throttle").body; !strings.Contains(throttledClients, web.ClientRefused) {
		t.Error("no client was throttled")
	}
	if strings.Contains(page.body, web.ClientRefused) {
		t.Error("the list of failed sign-ins includes throttled clients")
	}
	if len(what) != 2 || what["Sign-in"] == 0 || what["Throttled"] == 0 {
		t.Errorf("the list has %v", what)
	}
	if want := `value="` + h.Clock.Now().UTC().Add(-23*time.Hour).Format(time.DateOnly); !strings.Contains(page.body, want) {
		t.Errorf("the filter does not say from when in words: want %s", want)
	}
}

var auditOption = regexp.MustCompile(`<option value="([a-z_]+)">([^<]+)</option>`)

// TestDeskAuditNamesEveryKind: the filter offers the kinds that a search may name, in words.
func TestDeskAuditNamesEveryKind(t *testing.T) {
	_, b := deskHouse(t)
	refused := words(t, b.get(t, "/desk/audit?what=nothing"))
	offered := auditOption.FindAllStringSubmatch(b.get(t, "/desk/audit").body, -1)
	if len(offered) == 0 || offered[0][1] != views.FailedSignIns {
		t.Fatalf("the filter offers %q", offered)
	}
	var kinds []string
	for _, o := range offered[1:] {
		if kinds = append(kinds, o[1]); o[1] == o[2] {
			t.Errorf("the kind %s has no words", o[1])
		}
	}
	last := len(kinds) - 1
	if want := "give " + strings.Join(kinds[:last], ", ") + " or " + kinds[last] + "."; !strings.Contains(refused, want) {
		t.Errorf("the filter offers %s, and a refusal says %s", kinds, refused)
	}
}

package handlers_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest/must"
)

// chipsOn are the chips of a page, with the current one in brackets, and where they lead.
func chipsOn(t testing.TB, page answer) (labels, links []string) {
	t.Helper()
	for n := range parsePage(t, page).Descendants() {
		if n.Data != "a" || attribute(n.Parent, "class") != "chips" {
			continue
		}
		label := strings.TrimSpace(textOf(n))
		if attribute(n, "aria-current") != "" {
			label = "[" + label + "]"
		}
		labels, links = append(labels, label), append(links, attribute(n, "href"))
	}
	return labels, links
}

// TestDeskEventsByKind: a chip narrows the search to one kind and keeps the rest of it. The
// kinds with a colour of their own come first.
//
// Promise (Browsers): events are narrowed by kind with one click, within the search at hand
func TestDeskEventsByKind(t *testing.T) {
	h, b := deskHouse(t)
	h.recordMix(t, h.account, 20)
	must.Get(h.Events.RecordEvent(t.Context(), eventlog.NewEvent{Owner: h.account, Type: "batch.closed", Resource: "bat_1", Object: snapshot.ObjectOf(), Source: "test", Location: "api"}))(t)
	page := b.get(t, "/desk/events?type=invoice.*&resource=res_1&from=1h")
	labels, links := chipsOn(t, page)
	if want := []string{"All", "transaction", "[invoice]", "customer", "batch"}; !slices.Equal(labels, want) {
		t.Errorf("the chips are %q, want %q", labels, want)
	}
	if want := []string{"/desk/events?resource=res_1&from=1h", "/desk/events?resource=res_1&from=1h&type=transaction.%2A"}; len(links) < 2 || !slices.Equal(links[:2], want) {
		t.Errorf("the chips lead to %q, want %q first", links, want)
	}
	for _, link := range links {
		wantStatus(t, b.get(t, link), http.StatusOK)
	}
	must.Get(h.CreateAccount(t.Context(), "acct_other", ""))(t)
	if labels, _ := chipsOn(t, b.get(t, "/desk/events?account=acct_other")); len(labels) != 0 {
		t.Errorf("an account without events has the chips %q", labels)
	}
}

// TestDeskSaysWhyAListIsEmpty: what would be there, or what there is instead.
//
// Promise (Browsers): an empty list says what would be in it, or what the search missed
func TestDeskSaysWhyAListIsEmpty(t *testing.T) {
	h, b := deskHouse(t)
	h.recordMix(t, h.account, 3) // a minute apart
	must.Get(h.CreateAccount(t.Context(), "acct_other", ""))(t)
	for path, want := range map[string][]string{
		"/desk/events?account=acct_other":                {"No events yet", "so does an import", "How to record events"},
		"/desk/events?type=invoice.snt":                  {"No events match", "The newest event of the account is 1 min old.", "No event has the type invoice.snt. The nearest type is invoice.sent.", "Clear filters"},
		"/desk/events?account=acct_other&resource=res_1": {"No events yet"},
		"/desk/resources?kind=plan":                      {"No resources of this kind", "customer, invoice"},
		"/desk/resources?account=acct_other":             {"No resources yet", "How to create resources"},
		"/desk/resources?kind=customer&resource=cus_9":   {"No resource matches", "no resource with the ID cus_9", "Clear filters"},
		"/desk/audit?what=throttle":                      {"No entries match", "The newest entry is 3 min old.", "Clear filters"},
		"/desk/access?user=nobody":                       {"Nothing matches.", "Clear filters"},
	} {
		text := words(t, b.get(t, path))
		for _, says := range want {
			if !strings.Contains(text, says) {
				t.Errorf("%s does not say %q: %s", path, says, text)
			}
		}
	}
}

// TestDeskEventKeepsTheList: the event before and after one are shown beside the same list.
func TestDeskEventKeepsTheList(t *testing.T) {
	h, b := deskHouse(t)
	h.recordMix(t, h.account, 20)
	list := b.get(t, "/desk/events?type=customer.*&limit=6")
	page := b.get(t, "/desk/events/"+rows(t, list, "data-event")[3]+"?type=customer.*&limit=6")
	for _, hook := range []string{"data-earlier", "data-later"} {
		neighbour := b.get(t, linkMarked(t, page, hook))
		if got, want := rows(t, neighbour, "data-event"), rows(t, list, "data-event"); neighbour.StatusCode != http.StatusOK || !slices.Equal(got, want) {
			t.Errorf("%s: %d with the list %v, want %v", hook, neighbour.StatusCode, got, want)
		}
	}
	if all := b.get(t, linkMarked(t, page, "data-all")); len(rows(t, all, "data-event")) != 4 {
		t.Errorf("the resource leads to %v, want its four events", rows(t, all, "data-event"))
	}
}

// TestDeskAccessSaysAll of a family that has every scope, and names the scopes of another.
// Applications come before browsers.
func TestDeskAccessSaysAll(t *testing.T) {
	h, b := deskHouse(t)
	h.pair(t)
	narrow, _ := h.Client(t, func(s *store.ClientSpec) { s.Name, s.Scopes = "Aster Reports", []string{"events:read"} })
	must.Get(h.IssueForPassword(t.Context(), store.By{}, narrow, h.user, store.ScopeUnstated))(t)
	page := b.get(t, "/desk/access")
	wantInOrder(t, words(t, page), "Applications with access", "Aster Reports", "events:read", "Revoke", "Browsers", "this browser", "Sign out")
	if text := words(t, page); !strings.Contains(text, "mara All 9 Mar") {
		t.Errorf("the family with every scope does not say All: %s", text)
	}
}

// TestDeskAuditMarksWhatFailed with a badge, and says how a change without a name came.
func TestDeskAuditMarksWhatFailed(t *testing.T) {
	h, b := deskHouse(t)
	h.Audit(store.AuditLine{What: store.AuditLoginRefused, Reason: "wrong_password"})
	h.Audit(store.AuditLine{What: store.AuditRefreshReuse, UserID: h.user.Subject()})
	h.Audit(store.AuditLine{What: store.AuditWebhook, Reason: "endpoint disabled"})
	h.Flush(t.Context())
	got := map[string]string{}
	for n := range parsePage(t, b.get(t, "/desk/audit")).Descendants() {
		if attribute(n, "data-col") == "what" {
			got[strings.TrimSpace(textOf(n))] = attribute(n, "class")
		}
	}
	for what, want := range map[string]string{"Sign-in refused": "badge warning", "Refresh token used again": "badge problem", "Signed in": ""} {
		if class, shown := got[what]; !shown || class != want {
			t.Errorf("%s is shown %t as %q, want %q", what, shown, class, want)
		}
	}
	if text := words(t, b.get(t, "/desk/audit?what=webhook")); !strings.Contains(text, "endpoint disabled server") {
		t.Errorf("nobody is said to have done it: %s", text)
	}
}

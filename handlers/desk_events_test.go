package handlers_test

import (
	"context"
	"encoding/json"
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
	"tollhouse/store/eventlog"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest/must"
)

// recordMix records events of several types and resources, a minute apart.
func (h *house) recordMix(t testing.TB, account string, count int) {
	t.Helper()
	types := []string{"customer.created", "customer.updated", "invoice.sent", "transaction.settled"}
	for i := range count {
		object := must.Get(snapshot.Parse(fmt.Appendf(nil, `{"id":"res_%d","name":"Row %d"}`, i%5, i), snapshot.DepthMax))(t)
		must.Get(h.Events.RecordEvent(context.Background(), eventlog.NewEvent{Owner: account, Type: types[i%len(types)], Resource: fmt.Sprint("res_", i%5), Object: object, Source: "test", Location: "api"}))(t)
		h.Clock.Advance(time.Minute)
	}
}

// TestExplorerIsTheAPI: the explorer shows the rows of GET /api/events in their order, and
// refuses what it refuses, in the same words.
func TestExplorerIsTheAPI(t *testing.T) {
	h, b := deskHouse(t)
	h.recordMix(t, h.account, 60)
	token := h.pair(t).AccessToken
	ids := h.listed(t, token, "limit=1000")
	middle := ids[len(ids)/2]
	start := h.Clock.Now().Unix()
	for _, query := range append(handlers.RefusedQueries(),
		"", "type=customer.created", "type[]=customer.created&type[]=invoice.sent", "type[0]=customer.created&type[1]=invoice.sent", "type=customer.created,invoice.sent",
		"type=customer.*", "type=*.created", "type=*", "resource=res_1", "resource[]=res_1&resource[]=res_2", "resource=res_1,res_2",
		"limit=7", "limit=7&order=asc", "order=desc", "order=asc",
		"after="+middle, "before="+middle, "after="+middle+"&order=asc", "before="+middle+"&order=asc&limit=3", "before="+middle+"&limit=3", "after=latest",
		fmt.Sprintf("createdAt=%d", start-600), fmt.Sprintf("createdAt[gt]=%d", start-600), fmt.Sprintf("createdAt[gte]=%d&createdAt[lt]=%d", start-1200, start-600),
		fmt.Sprintf("createdAt[between]=%d..%d", start-1200, start-600), "type=customer.*&resource=res_1&limit=2",
		"type=unseen.type",
		// refused
		"type=", "type=a,,b", "type=['a']", "resource=!", "limit=0", "limit=1001", "limit=x", "order=up", "after=x!", "after=a&before=b", "createdAt=2026-03-09", "createdAt=1773066600000",
		"createdAt[between]=1..", "createdAt=1&createdAt[gt]=1", "types=x", "starting_after=x", "limit=1&limit=2", "a;b", "%zz", "wait=1", "wait=x&order=asc",
	) {
		t.Run(url.PathEscape(query), func(t *testing.T) {
			api := h.get(t, apiPath+"?"+query, header("Authorization", "Bearer "+token))
			page := b.get(t, "/desk/events?"+query)
			raw := b.get(t, "/desk/event-list?"+query)
			if raw.body != api.body || raw.StatusCode != api.StatusCode {
				t.Errorf("the raw page is %d %.300s, want %d %.300s", raw.StatusCode, raw.body, api.StatusCode, api.body)
			}
			if page.StatusCode != api.StatusCode {
				t.Fatalf("status = %d, want %d: %.600s", page.StatusCode, api.StatusCode, api.body)
			}
			if api.StatusCode != http.StatusOK {
				var refusal struct {
					Description string `json:"error_description"`
				}
				must.Do(t, json.Unmarshal([]byte(api.body), &refusal))
				if text := words(t, page); !strings.Contains(text, refusal.Description) {
					t.Errorf("the page lacks the sentence %q", refusal.Description)
				}
				return
			}
			if got, want := rows(t, page, "data-event"), idsIn(t, api); !slices.Equal(got, want) {
				t.Errorf("rows = %v, want %v", got, want)
			}
		})
	}
}

func (h *house) listed(t testing.TB, token, query string) []string {
	t.Helper()
	return idsIn(t, h.get(t, apiPath+"?"+query, header("Authorization", "Bearer "+token)))
}

func idsIn(t testing.TB, list answer) (ids []string) {
	t.Helper()
	var page struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	must.Do(t, json.Unmarshal([]byte(list.body), &page))
	for _, e := range page.Data {
		ids = append(ids, e.ID)
	}
	return ids
}

// TestExplorerPages: Older and Newer lead through all events, each once.
func TestExplorerPages(t *testing.T) {
	h, b := deskHouse(t)
	h.recordMix(t, h.account, 120)
	want := h.listed(t, h.pair(t).AccessToken, "limit=1000")
	var got []string
	page := b.get(t, "/desk/events?type=*")
	for {
		got = append(got, rows(t, page, "data-event")...)
		next := linkOn(t, page, "Older")
		if next == "" {
			break
		}
		page = b.get(t, next)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the pages have %d events, want %d, each once and in order", len(got), len(want))
	}
	back := b.get(t, linkOn(t, page, "Newer"))
	if ids := rows(t, back, "data-event"); !slices.Equal(ids, want[len(want)-20-50:len(want)-20]) {
		t.Errorf("Newer leads to %v", ids)
	}
}

// TestExplorerTimes: from and to take times as people write them, in UTC.
func TestExplorerTimes(t *testing.T) {
	h, b := deskHouse(t) // the clock starts at 2026-03-09 15:30
	h.recordMix(t, h.account, 120)
	token := h.pair(t).AccessToken
	unix := func(text string) int64 { return must.Get(time.Parse("2006-01-02 15:04", text))(t).Unix() }
	now := h.Clock.Now().Unix()
	for query, same := range map[string]string{
		"from=2026-03-09": fmt.Sprintf("createdAt[gte]=%d", unix("2026-03-09 00:00")),
		"to=2026-03-09":   fmt.Sprintf("createdAt[lte]=%d", unix("2026-03-10 00:00")-1),
		"from=2026-03-09+16:00&to=2026-03-09+16:10": fmt.Sprintf("createdAt[gte]=%d&createdAt[lte]=%d", unix("2026-03-09 16:00"), unix("2026-03-09 16:11")-1),
		"from=30m":                   fmt.Sprintf("createdAt[gte]=%d", now-1800),
		"to=1h":                      fmt.Sprintf("createdAt[lte]=%d", now-3600),
		fmt.Sprint("from=", now-600): fmt.Sprintf("createdAt[gte]=%d", now-600),
		"from=2026-03-09+16:00&type=customer.created": fmt.Sprintf("createdAt[gte]=%d&type=customer.created", unix("2026-03-09 16:00")),
	} {
		if got, want := rows(t, b.get(t, "/desk/events?limit=200&"+query), "data-event"), h.listed(t, token, "limit=200&"+same); !slices.Equal(got, want) || len(got) == 0 {
			t.Errorf("%s: %d rows, want the %d of %s", query, len(got), len(want), same)
		}
	}
	for _, query := range []string{"from=never", "to=", "from=1h&createdAt=1", "to=1h&createdAt[gt]=1"} {
		wantStatus(t, b.get(t, "/desk/events?"+query), http.StatusBadRequest)
	}
}

// TestExplorerForm: the form, which sends every field, leads to an address without the
// empty ones; an event's id leads to the event.
func TestExplorerForm(t *testing.T) {
	h, b := deskHouse(t)
	h.recordMix(t, h.account, 3)
	id := h.listed(t, h.pair(t).AccessToken, "limit=1")[0]
	a := b.get(t, "/desk/events?form=1&account="+h.account+"&type=customer.created,+invoice.sent&resource=&from=&to=&order=desc")
	if want := "/desk/events?account=" + h.account + "&type=customer.created%2Cinvoice.sent"; a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != want {
		t.Errorf("%d to %q, want %q", a.StatusCode, a.Header.Get("Location"), want)
	}
	for _, query := range []string{"resource=" + id, "form=1&type=&resource=" + id} {
		if a := b.get(t, "/desk/events?"+query); !strings.HasPrefix(a.Header.Get("Location"), "/desk/events/"+id) {
			t.Errorf("%s leads to %d %q", query, a.StatusCode, a.Header.Get("Location"))
		}
	}
}

// TestDeskEvent shows an event, what it changed, and its bytes.
func TestDeskEvent(t *testing.T) {
	h, b := deskHouse(t)
	token := h.pair(t).AccessToken
	put := func(body string) {
		a := h.do(h.request(t, "PUT", "/api/resources/plan/plan_1", strings.NewReader(body), header("Authorization", "Bearer "+token), header("Content-Type", "application/json")))
		if a.StatusCode >= 300 {
			t.Fatalf("PUT: %d %s", a.StatusCode, a.body)
		}
	}
	put(`{"name":"Larkspur","address":{"city":"Fennelmere","zip":"1"},"phone":"5"}`)
	put(`{"name":"Larkspur","address":{"city":"Russetmere","zip":"1"},"email":"x@y.example"}`)
	ids := h.listed(t, token, "")
	page := b.get(t, "/desk/events/"+ids[0]+"?account="+h.account)
	wantStatus(t, page, http.StatusOK)
	if got := rows(t, page, "data-member"); !slices.Contains(got, "address.city") || !slices.Contains(got, "phone") || !slices.Contains(got, "email") || slices.Contains(got, "name") {
		t.Errorf("the changed members are %v", got)
	}
	text := words(t, page)
	for _, want := range []string{"Fennelmere", "Russetmere", "phone removed", "email new", "Earlier"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	api := h.get(t, apiPath+"/"+ids[0], header("Authorization", "Bearer "+token))
	if raw := b.get(t, linkMarked(t, page, "data-raw")); raw.body != api.body || raw.Header.Get("Content-Type") != "application/json" {
		t.Errorf("the raw event is %s, want %s", raw.body, api.body)
	}
	for _, path := range []string{"/desk/events/evt_00000000000000000000000000", "/desk/events/" + ids[0] + "?account=acct_other", "/desk/events/" + ids[0] + "/raw?account=acct_other"} {
		wantStatus(t, b.get(t, path), http.StatusNotFound)
	}
	resource := b.get(t, "/desk/resources/plan/plan_1?account="+h.account)
	if got := rows(t, resource, "data-event"); !slices.Equal(got, ids) {
		t.Errorf("the resource's events are %v, want %v", got, ids)
	}
	if got := rows(t, b.get(t, "/desk/resources?kind=plan"), "data-resource"); !slices.Equal(got, []string{"plan_1"}) {
		t.Errorf("the resources are %v", got)
	}
	for _, kind := range []string{"", "plan", "customer"} {
		a := b.get(t, "/desk/resources?account="+h.account+"&kind="+kind+"&resource=+plan_1")
		if to := a.Header.Get("Location"); to != "/desk/resources/plan/plan_1?account="+h.account {
			t.Errorf("the id of the plan, searched among kind %q, leads to %d %q", kind, a.StatusCode, to)
		}
	}
	for _, id := range []string{"plan_2", ids[0], "plan 1"} {
		none := b.get(t, "/desk/resources?kind=plan&resource="+url.QueryEscape(id))
		if text := words(t, none); none.StatusCode != http.StatusOK || !strings.Contains(text, "No resource matches") || len(rows(t, none, "data-resource")) != 0 {
			t.Errorf("a search for %s answers %d %s", id, none.StatusCode, text)
		}
	}
}

// hostileName is allowed in names and must not reach a page as markup or as it is read.
const hostileName = `<script>alert(1)</script>"'><b>`

// hostileUser is a valid username.
const hostileUser = `<script>alert(1)</script>"'&<b>`

// TestDeskHostileNames puts hostile names into every column.
func TestDeskHostileNames(t *testing.T) {
	h, _ := deskHouse(t)
	client, _ := h.Client(t, func(s *store.ClientSpec) { s.Name = hostileName })
	must.Get(h.CreateAccount(context.Background(), "acct_hostile", hostileName))(t)
	long := strings.Repeat("ж", 64)
	h.User(t, long, "acct_hostile")
	b := h.signedIn(t, h.operator(t, hostileUser))
	b.sent(t, "/desk/clients/"+client.ID, "disable") // an audit line of theirs
	b.sent(t, "/desk/clients/"+client.ID, "enable")
	object := must.Get(snapshot.Parse([]byte(`{"id":"cus_1","name":"`+"<script>\u202ealert(1)</script>"+`"}`), snapshot.DepthMax))(t)
	for range 51 {
		must.Get(h.Events.RecordEvent(context.Background(), eventlog.NewEvent{Owner: "acct_hostile", Type: "customer.created", Resource: "cus_1", Object: object, Source: "<script>\u202ealert(1)</script>", Location: "api"}))(t)
	}
	h.token(t, with(h.passwordForm(), "username", long))
	h.token(t, with(h.passwordForm(), "username", hostileUser))
	hostile := must.Get(h.FindUser(t.Context(), hostileUser))(t)
	event := rows(t, b.get(t, "/desk/events?account=acct_hostile"), "data-event")[0]
	for _, path := range []string{
		"/desk", "/desk?account=acct_hostile", "/desk/events?account=acct_hostile", "/desk/events/" + event + "?account=acct_hostile", "/desk/resources?account=acct_hostile&kind=customer",
		"/desk/resources/customer/cus_1?account=acct_hostile", "/desk/clients", "/desk/clients/" + client.ID, "/desk/users", "/desk/users/" + hostile.Subject(), "/desk/access", "/desk/audit", "/desk/new-user", "/", "/account", "/desk/nothing",
		"/desk/access?user=" + url.QueryEscape(hostileName), "/desk/audit?user=" + url.QueryEscape(hostileName), "/desk/audit?source=" + url.QueryEscape(hostileName),
		"/desk/events?type=" + url.QueryEscape(hostileName), "/desk/events?account=" + url.QueryEscape(hostileName), "/desk/events?from=" + url.QueryEscape(hostileName),
	} {
		t.Run(strings.Trim(url.PathEscape(path), "%2F"), func(t *testing.T) {
			page := b.get(t, path)
			wantPlainMarkup(t, page)
			if strings.Contains(page.body, "<script>") || strings.Contains(page.body, "\u202e") || strings.Contains(page.body, "<b>") {
				t.Error("the page has a name as it came")
			}
			if strings.HasPrefix(path, "/desk") && !strings.Contains(page.body, "data-desk=") {
				t.Errorf("no page of the desk: %d", page.StatusCode)
			}
		})
	}
}

// TestDeskWeight bounds the pages with 50 rows, with everything that they load.
func TestDeskWeight(t *testing.T) {
	const most = 60_000
	h, b := deskHouse(t)
	h.recordMix(t, h.account, 60)
	for i := range 51 {
		h.Client(t, func(s *store.ClientSpec) { s.Name = fmt.Sprint("Larkspur Bookkeeping ", i) })
		h.User(t, fmt.Sprint("user.of.larkspur.", i), h.account)
	}
	h.pair(t)
	assets := 0
	page := b.get(t, "/desk")
	for n := range parsePage(t, page).Descendants() {
		if n.Data == "link" || n.Data == "script" {
			assets += len(h.get(t, attribute(n, "href")+attribute(n, "src")).body)
		}
	}
	for _, path := range []string{"/desk?range=1h", "/desk?range=24h", "/desk?range=7d", "/desk?range=30d", "/desk?range=1y", "/desk/events", "/desk/resources?kind=customer", "/desk/clients", "/desk/users", "/desk/access", "/desk/audit", "/desk/health", "/desk/settings"} {
		if size := len(b.get(t, path).body) + assets; size > most {
			t.Errorf("%s weighs %d bytes, more than %d", path, size, most)
		}
	}
}

// TestExplorerLinks: the page leads to the same rows as the API sends them, with the
// session, and by a command with a token.
func TestExplorerLinks(t *testing.T) {
	h, b := deskHouse(t)
	h.recordMix(t, h.account, 60)
	h.recordMix(t, "acct_other", 9)
	token := h.pair(t).AccessToken
	from := h.Clock.Now().Add(-25 * time.Minute).Unix()
	page := b.get(t, fmt.Sprintf("/desk/events?type=customer.*&limit=5&from=%d", from))
	api := h.get(t, apiPath+fmt.Sprintf("?type=customer.*&limit=5&createdAt[gte]=%d", from), header("Authorization", "Bearer "+token))
	if raw := b.get(t, linkOn(t, page, "JSON")); raw.body != api.body || raw.Header.Get("Content-Type") != "application/json" {
		t.Errorf("JSON leads to %d %.300s, want %.300s", raw.StatusCode, raw.body, api.body)
	}
	curl := ""
	for n := range parsePage(t, page).Descendants() {
		if n.Data == "pre" && slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "data-curl" }) {
			curl = textOf(n)
		}
	}
	address, _, ends := strings.Cut(strings.TrimPrefix(strings.TrimSpace(curl), "curl '"+h.issuer), "'")
	if a := h.get(t, address, header("Authorization", "Bearer "+token)); !ends || a.body != api.body || !strings.Contains(curl, "Bearer $TOKEN") {
		t.Errorf("the command is %q and answers %.200s", curl, a.body)
	}
	event := b.get(t, firstEvent(t, page))
	if got, want := rows(t, event, "data-event"), idsIn(t, api); !slices.Equal(got, want) {
		t.Errorf("beside the event stand %v, want the list %v", got, want)
	}
	other := b.get(t, "/desk/events?account=acct_other")
	if n := len(rows(t, other, "data-event")); n != 9 {
		t.Errorf("%d events of the other account, want 9", n)
	}
	if event := b.get(t, firstEvent(t, other)); event.StatusCode != http.StatusOK || len(rows(t, event, "data-event")) != 9 {
		t.Errorf("an event of another account = %d with %d rows beside it", event.StatusCode, len(rows(t, event, "data-event")))
	}
}

// firstEvent is the address of the first event of a list.
func firstEvent(t testing.TB, page answer) string {
	t.Helper()
	id := rows(t, page, "data-event")[0]
	for n := range parsePage(t, page).Descendants() {
		if href := attribute(n, "href"); strings.HasPrefix(href, "/desk/events/"+id) {
			return href
		}
	}
	t.Fatalf("the row of %s leads nowhere", id)
	return ""
}

// TestDeskDeletedResource: the event of a deletion shows the last snapshot and no changes.
func TestDeskDeletedResource(t *testing.T) {
	h, b := deskHouse(t)
	token := header("Authorization", "Bearer "+h.pair(t).AccessToken)
	h.do(h.request(t, "PUT", "/api/resources/plan/plan_1", strings.NewReader(`{"name":"Larkspur"}`), token, header("Content-Type", "application/json")))
	h.do(h.request(t, "DELETE", "/api/resources/plan/plan_1", nil, token))
	id := rows(t, b.get(t, "/desk/events?type=plan.deleted"), "data-event")[0]
	page := b.get(t, "/desk/events/"+id)
	if strings.Contains(page.body, "data-diff") || len(rows(t, page, "data-member")) > 0 || !strings.Contains(words(t, page), "Larkspur") {
		t.Errorf("the page of a deletion says %s", words(t, page))
	}
	if got := rows(t, b.get(t, "/desk/resources?kind=plan"), "data-resource"); len(got) != 0 {
		t.Errorf("the resources are %v", got)
	}
}

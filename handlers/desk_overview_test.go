package handlers_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"tollhouse/store/eventlog"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest/must"
)

// TestDeskOverview: each plot stands there as a drawing and as a table of the same
// values, in every range; another range is refused.
func TestDeskOverview(t *testing.T) {
	h, b := deskHouse(t)
	h.recordMix(t, h.account, 90)
	h.pair(t)
	for name, buckets := range map[string]int{"1h": 30, "24h": 24, "7d": 28, "30d": 30, "1y": 13} {
		page := b.get(t, "/desk?range="+name)
		wantStatus(t, page, http.StatusOK)
		var plots []string
		for n := range parsePage(t, page).Descendants() {
			plot := attribute(n, "data-plot")
			if plot == "" {
				continue
			}
			plots = append(plots, plot)
			count, series := 0, 0
			for d := range n.Descendants() {
				if d.Type == html.ElementNode && attribute(d, "data-at") != "" {
					count++
				}
				if attribute(d, "data-series") != "" {
					series++
				}
			}
			if count != buckets || series == 0 || attribute(n, "data-range") != name {
				t.Errorf("%s of %s has %d rows and %d series, want %d rows", plot, name, count, series, buckets)
			}
		}
		if got := strings.Join(plots, " "); got != "events requests sign-ins tokens store" {
			t.Errorf("plots of %s = %s", name, got)
		}
	}
	if text := words(t, b.get(t, "/desk?range=24h")); !strings.Contains(text, "Events 90 ") {
		t.Errorf("the Overview lacks the 90 events: %s", text)
	}
	row := b.get(t, "/desk?range=24h&account="+h.account)
	if !strings.Contains(row.body, `href="/desk/events?account=`+h.account+`&amp;from=`) {
		t.Error("the table of an account does not lead to its events")
	}
	wantStatus(t, b.get(t, "/desk?range=2h"), http.StatusBadRequest)
	wantStatus(t, b.get(t, "/desk?account=acct_nobody"), http.StatusNotFound)
}

// TestDeskOverviewShowsWhatIsNewest: the newest events of all accounts, or of the one that was
// chosen, and the newest failures and changes, three each, without what went well.
//
// Promise (Browsers): the Overview says what just happened, and when no server counted
func TestDeskOverviewShowsWhatIsNewest(t *testing.T) {
	h, b := deskHouse(t)
	for _, account := range []string{"acct_a", "acct_b", "acct_c", "acct_d"} {
		h.putCustomer(t, account, "cus_"+account, `{"displayName":"A"}`)
		h.Clock.Advance(time.Second)
	}
	h.putCustomer(t, "acct_b", "cus_acct_b", `{"displayName":"B","city":"Dunmere"}`)
	h.Clock.Advance(time.Second)
	h.pair(t)
	wantStatus(t, b.sent(t, "/desk/clients/"+h.client.ID, "disable"), http.StatusSeeOther)
	h.token(t, with(h.passwordForm(), "password", "not the password"))
	b.get(t, "/desk/audit") // writes the queued lines
	text := words(t, b.get(t, "/desk"))
	wantInOrder(t, text, "Newest events", "customer.updated", "cus_acct_b", "customer.created", "cus_acct_d", "customer.created", "cus_acct_c",
		"Failures and changes", "Client, code or token refused", "Client disabled", "Larkspur Bookkeeping", "by olga")
	_, latest, _ := strings.Cut(text, "Failures and changes")
	if strings.Contains(text, "cus_acct_a") || strings.Contains(latest, "Tokens issued") {
		t.Errorf("the Overview says %s", text)
	}
	text = words(t, b.get(t, "/desk?account=acct_b"))
	wantInOrder(t, text, "Newest events", "customer.updated", "customer.created", "Failures and changes")
	if strings.Contains(text, "cus_acct_c") {
		t.Errorf("the Overview of an account has another's events: %s", text)
	}
}

// wantInOrder fails the test unless the text has the parts in their order.
func wantInOrder(t testing.TB, text string, parts ...string) {
	t.Helper()
	rest := text
	for _, part := range parts {
		_, after, found := strings.Cut(rest, part)
		if !found {
			t.Fatalf("%q is missing after the parts before it: %s", part, text)
		}
		rest = after
	}
}

// TestDeskEventsSayWhatTheyChanged: a row names three changed members by their paths, and how
// many more there are; an event that creates or deletes names none.
//
// Promise (Browsers): a list of events says what each one changed
func TestDeskEventsSayWhatTheyChanged(t *testing.T) {
	h, b := deskHouse(t)
	put := func(object string) {
		body := must.Get(snapshot.Parse([]byte(object), snapshot.DepthMax))(t)
		must.Get(h.Events.PutResource(t.Context(), eventlog.ResourceChange{Owner: h.account, Kind: "plan", ID: "p1", Source: "test", Location: "api"}, body))(t)
		h.Clock.Advance(time.Second)
	}
	put(`{"price":{"amount":1,"currency":"EUR"},"name":"A","a":1,"b":1}`)
	put(`{"price":{"amount":2,"currency":"EUR"},"name":"A","a":1,"b":1}`)
	put(`{"price":{"amount":3,"currency":"USD"},"name":"B","a":2,"b":2}`)
	must.Get(h.Events.DeleteResource(t.Context(), eventlog.ResourceChange{Owner: h.account, Kind: "plan", ID: "p1", Source: "test", Location: "api"}))(t)
	page := b.get(t, "/desk/events")
	wantInOrder(t, words(t, page), "plan.deleted p1", "plan.updated", " and 2 more", "plan.updated p1 price.amount", "plan.created p1")
}

package handlers_test

import (
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/html"
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
		if got := strings.Join(plots, " "); got != "events sign-ins tokens requests store" {
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

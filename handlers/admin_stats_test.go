package handlers_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"tollhouse/handlers/admin"
	"tollhouse/store/record"
	"tollhouse/store/stats"
)

// stats returns the totals of the plots of the last hour, by plot and series.
func (h *house) stats(t testing.TB, query string) map[string]float64 {
	t.Helper()
	w := h.admin(t, http.MethodGet, "/admin/stats?"+query, "")
	var found admin.AdminStats
	if err := json.Unmarshal([]byte(w.body), &found); err != nil || w.StatusCode != http.StatusOK {
		t.Fatalf("GET /admin/stats?%s = %d %s, %v", query, w.StatusCode, w.body, err)
	}
	totals := map[string]float64{}
	for _, plot := range found.Plots {
		for _, s := range plot.Series {
			if s.Total != nil && *s.Total > 0 {
				totals[plot.Plot+" "+s.Name] = *s.Total
			}
		}
	}
	return totals
}

// TestStatsCountRequests: the plots count requests of callers and users, and no
// monitoring, no static file, and nothing of the admin API.
func TestStatsCountRequests(t *testing.T) {
	h := parallelHouse(t)
	h.Store.Ring().Begin(func() stats.Disk { return stats.Disk{} })
	code := h.code(t)
	before := h.stats(t, "range=1h")
	p := wantPair(t, h.token(t, h.codeForm(code)))
	wantPair(t, h.token(t, h.refreshForm(p.RefreshToken)))
	wantPair(t, h.token(t, h.passwordForm()))
	newJob(t, h).access(t)
	h.token(t, with(h.passwordForm(), "password", "not the password"))
	h.token(t, with(h.passwordForm(), "username", "moira"))
	h.get(t, "/unknown")
	for _, quiet := range []string{"/healthz", "/readyz", "/static/style.css"} {
		h.get(t, quiet)
	}
	h.Faults.Break(record.ErrUnavailable)
	h.token(t, h.passwordForm())
	h.Faults.Repair()
	after := h.stats(t, "range=1h")
	for series, want := range map[string]float64{
		"tokens authorization_code": 1, "tokens refresh_token": 1, "tokens password": 1, "tokens client_credentials": 1,
		"sign-ins right": 1, "sign-ins refused": 2, "sign-ins throttled": 0,
		"requests 2xx": 4, "requests 4xx": 3, "requests 5xx": 1,
	} {
		if got := after[series] - before[series]; got != want {
			t.Errorf("%s: %v more, want %v", series, got, want)
		}
	}
}

func TestStatsRoute(t *testing.T) {
	h := parallelHouse(t)
	for query, want := range map[string]int{
		"": 200, "range=1h": 200, "range=24h": 200, "range=7d": 200, "range=30d": 200, "range=1y": 200,
		"range=2h": 400, "range=24H": 400, "range=1h&range=1h": 400, "account=unknown": 404, "account=..": 404,
	} {
		w := h.admin(t, http.MethodGet, "/admin/stats?"+query, "")
		if w.StatusCode != want {
			t.Errorf("GET /admin/stats?%s = %d %s, want %d", query, w.StatusCode, w.body, want)
		}
	}
}

package handlers_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"testing"

	"tollhouse/handlers/dev"
	"tollhouse/store/storetest"
)

// journalOf lists the entries that a query selects.
func (h *devHouse) journalOf(t testing.TB, query string) []map[string]any {
	t.Helper()
	a := h.get(t, "/_dev/requests?"+query)
	var list struct {
		Object string
		Data   []map[string]any
		Count  int
	}
	if err := json.Unmarshal([]byte(a.body), &list); err != nil || list.Object != "list" || a.StatusCode != http.StatusOK {
		t.Fatalf("GET /_dev/requests?%s = %d %.300s", query, a.StatusCode, a.body)
	}
	return list.Data
}

// onlyEntry returns the entry that a query selects, which must be one.
func (h *devHouse) onlyEntry(t testing.TB, query string) map[string]any {
	t.Helper()
	found := h.journalOf(t, query)
	if len(found) != 1 {
		t.Fatalf("%d entries for %q, want one: %v", len(found), query, found)
	}
	return found[0]
}

func TestJournalEntry(t *testing.T) {
	t.Parallel()
	h := newDevHouse(t)
	a := h.token(t, h.passwordForm(), header("User-Agent", "suite/1"))
	p := wantPair(t, a)
	got := h.onlyEntry(t, "")
	for name, want := range map[string]any{
		"n": 1.0, "id": a.Header.Get("X-Request-Id"), "at": "2026-06-01T12:00:00.000Z", "method": "POST", "path": tokenPath, "status": 200.0,
		"client_id": h.client.ID, "username": "mara", "account": h.account, "grant_type": "password", "duration_ms": 0.0, "query": map[string]any{},
		"body": map[string]any{"client_id": h.client.ID, "client_secret": h.secret.Reveal(), "grant_type": "password", "username": "mara", "password": storetest.Password},
	} {
		if !reflect.DeepEqual(got[name], want) {
			t.Errorf("%s = %v, want %v", name, got[name], want)
		}
	}
	for _, absent := range []string{"error", "fault", "notices", "body_cut"} {
		if got[absent] != nil {
			t.Errorf("%s = %v, want it absent", absent, got[absent])
		}
	}
	headers := got["headers"].(map[string]any)
	if !reflect.DeepEqual(headers["User-Agent"], []any{"suite/1"}) || !reflect.DeepEqual(headers["Host"], []any{"pay.example"}) {
		t.Errorf("headers = %v", headers)
	}

	h.api(t, p.AccessToken, header("Cookie", "a=b"))
	got = h.onlyEntry(t, "since=1")
	for name, want := range map[string]any{"n": 2.0, "client_id": h.client.ID, "username": "mara", "account": h.account, "body": nil, "grant_type": nil} {
		if !reflect.DeepEqual(got[name], want) {
			t.Errorf("%s of a read = %v, want %v", name, got[name], want)
		}
	}
	headers = got["headers"].(map[string]any)
	if !reflect.DeepEqual(headers["Authorization"], []any{"Bearer " + p.AccessToken}) || !reflect.DeepEqual(headers["Cookie"], []any{"a=b"}) {
		t.Errorf("headers = %v, want the credentials and the cookie as they came", headers)
	}

	h.token(t, h.refreshForm(p.RefreshToken))
	if got = h.onlyEntry(t, "since=2"); got["username"] != "mara" || got["body"].(map[string]any)["refresh_token"] != p.RefreshToken {
		t.Errorf("entry of a refresh = %v, want its user and its token", got)
	}
	h.token(t, h.refreshForm("tollrt_unknown"), basic(h.client.ID, "wrong"))
	if got = h.onlyEntry(t, "since=3"); got["status"] != 400.0 || got["error"] != "invalid_request" || got["client_id"] != h.client.ID {
		t.Errorf("entry of a refused refresh = %v, want its error and the client that it names", got)
	}
}

func TestJournalHasEveryRequestButTheControls(t *testing.T) {
	t.Parallel()
	h := newDevHouse(t)
	seen := func(want int, ask func() answer) {
		t.Helper()
		before := len(h.journalOf(t, ""))
		a := ask()
		after := h.journalOf(t, fmt.Sprintf("since=%d", before))
		if len(after) != want {
			t.Fatalf("%d entries for %s %s, want %d", len(after), a.Request.Method, a.Request.URL, want)
		}
		if want == 1 && after[0]["status"] != float64(a.StatusCode) {
			t.Errorf("status of %s %s = %v, want %d", a.Request.Method, a.Request.URL, after[0]["status"], a.StatusCode)
		}
	}
	get := func(path string, change ...func(*http.Request)) func() answer {
		return func() answer { return h.get(t, path, change...) }
	}
	seen(1, get("/nowhere"))
	seen(1, get("/", func(r *http.Request) { r.Host = "foreign.example" }))
	seen(1, get("/nowhere?"+strings.Repeat("a", 9<<10)))
	seen(1, get("/nowhere", func(r *http.Request) {
		for i := range 101 {
			r.Header.Add("X-Many", fmt.Sprint(i))
		}
	}))
	seen(1, func() answer { return h.tokenBody(t, formType, strings.Repeat("a", 65<<10)) })
	seen(1, func() answer { return h.do(h.request(t, "BREW", "/nowhere", nil)) })
	seen(1, get("/login", header("Accept", "text/html")))
	seen(0, get("/healthz"))
	seen(0, get("/readyz"))
	seen(0, get("/static/nothing.css"))
	seen(0, get("/_dev"))
	seen(0, get("/_dev/nowhere"))
	if got := h.onlyEntry(t, "status=413"); got["error"] != "too_large" || got["body_cut"] != true || len(got["body"].(map[string]any)) != 1 {
		t.Errorf("entry of a large body = %.200v, want its beginning", got)
	}
	if got := h.onlyEntry(t, "status=421"); got["error"] != "misdirected_request" {
		t.Errorf("error = %v, want the answer's", got["error"])
	}
}

func TestJournalFilters(t *testing.T) {
	t.Parallel()
	h := newDevHouse(t)
	p := wantPair(t, h.token(t, h.passwordForm()))
	h.api(t, p.AccessToken)
	h.get(t, "/api/events/evt_1", header("Authorization", "Bearer "+p.AccessToken))
	h.token(t, h.refreshForm("wrong"))
	h.get(t, "/nowhere")
	all := h.journalOf(t, "")
	tests := []struct {
		query string
		want  int
	}{
		{"method=POST", 2}, {"method=post", 0}, {"path=/api/events", 1}, {"path=/api/*", 1}, {"path=/api/**", 2}, {"path=/*/v2/tok*", 2},
		{"status=200", 2}, {"status=404", 2}, {"client_id=" + url.QueryEscape(h.client.ID), 4}, {"client_id=other", 0},
		{"grant_type=refresh_token", 1}, {"username=mara", 3}, {"username=mara&method=GET&status=404", 1}, {"notice=true", 0}, {"fault=flt_1", 0},
		{"since=3", 2}, {"limit=1", 1}, {"path=/nowhere&limit=1", 1},
	}
	for _, tt := range tests {
		if got := h.journalOf(t, tt.query); len(got) != tt.want {
			t.Errorf("%s selects %d of %d entries, want %d", tt.query, len(got), len(all), tt.want)
		}
	}
	limited := object(t, h.get(t, "/_dev/requests?limit=2"), http.StatusOK)
	if first := limited["data"].([]any)[0].(map[string]any); limited["count"] != 5.0 || first["n"] != 1.0 || limited["dropped"] != 0.0 {
		t.Errorf("a limited list = %v, want the first two of five", limited)
	}
	for query, param := range map[string]string{
		"limit=0": "limit", "limit=1001": "limit", "status=ok": "status", "since=-1": "since", "notice=false": "notice", "methd=GET": "methd", "path=": "path", "since=1&since=2": "since",
	} {
		wantParam(t, h.get(t, "/_dev/requests?"+query), param)
	}
	if a := h.ask(t, "DELETE", "/_dev/requests", ""); a.StatusCode != http.StatusNoContent {
		t.Errorf("DELETE = %d, want 204", a.StatusCode)
	}
	h.get(t, "/nowhere")
	if got := h.onlyEntry(t, ""); got["n"] != 6.0 {
		t.Errorf("n after DELETE = %v, want it to go on", got["n"])
	}
	if state := object(t, h.get(t, "/_dev/state"), http.StatusOK); state["requests"] != 1.0 || state["notices"] != 0.0 {
		t.Errorf("state = %v, want one request", state)
	}
}

// A careful suite asks for requests that were answered with a notice, and wants none.
func TestJournalHasNotices(t *testing.T) {
	t.Parallel()
	h := newDevHouse(t)
	p := wantPair(t, h.token(t, h.passwordForm()))
	a := h.get(t, "/api/events?type=plan.create", header("Authorization", "Bearer "+p.AccessToken))
	want := a.Header.Get("Tollhouse-Notice")
	got := h.onlyEntry(t, "notice=true")
	if want == "" || !reflect.DeepEqual(got["notices"], []any{want}) || got["status"] != 200.0 {
		t.Errorf("entry = %v, want the notice %q", got, want)
	}
	if state := object(t, h.get(t, "/_dev/state"), http.StatusOK); state["notices"] != 1.0 || state["requests"] != 2.0 {
		t.Errorf("state = %v, want one notice of two requests", state)
	}
}

// A client that has read any byte of its answer finds the entry.
func TestJournalIsWrittenBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	h := newDevHouse(t)
	server := httptest.NewServer(h.public)
	defer server.Close()
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for j := range 25 {
				path := fmt.Sprintf("/nowhere/%d/%d", i, j)
				r, _ := http.NewRequestWithContext(t.Context(), "GET", server.URL+path, nil)
				r.Host = "pay.example"
				res, err := server.Client().Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				found := h.dev.Journal
				if _, count, _ := found.Find(dev.Filter{Path: dev.Pattern(path)}, 1); count != 1 {
					t.Errorf("%d entries of %s when its header has been read, want one", count, path)
				}
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
		})
	}
	all.Wait()
}

// The entry of a stream is written when it begins, although it does not end.
func TestJournalHasAnOpenStream(t *testing.T) {
	t.Parallel()
	h := newDevHouse(t)
	p := h.pair(t)
	server := httptest.NewServer(h.public)
	defer server.Close()
	r, _ := http.NewRequestWithContext(t.Context(), "GET", server.URL+apiPath, nil)
	r.Host = "pay.example"
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Authorization", "Bearer "+p.AccessToken)
	res, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	defer h.server.API.Drain()
	if got := h.onlyEntry(t, "path="+apiPath); got["status"] != 200.0 || got["account"] != h.account {
		t.Errorf("entry = %v, want the stream's", got)
	}
}

func TestJournalTellsTheDurationWhileTheClockRuns(t *testing.T) {
	t.Parallel()
	h := devHouseAt(t, dev.ClockState{Shows: devBegins, Running: true})
	h.get(t, "/nowhere")
	if got := h.onlyEntry(t, "")["duration_ms"]; got == 0.0 {
		t.Errorf("duration_ms = %v, want more", got)
	}
}

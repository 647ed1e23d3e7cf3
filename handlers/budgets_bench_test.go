package handlers

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"tollhouse/store/storetest"
)

// BenchmarkBudgets measures what the budgets cost an honest request: a refresh, and a page
// of 100 events, with and without them, alternating.
//
//	go test -run xxx -bench Budgets ./handlers
func BenchmarkBudgets(b *testing.B) {
	a := serveAPI(b, storetest.OnDisk(b))
	a.server.Site.Log = slog.New(slog.NewJSONHandler(io.Discard, nil))
	token := a.benchEvents(b, 10_000)
	bounded := a.server.Site.Load
	for _, bench := range []struct {
		name string
		call func()
	}{
		{"Page", called(a.server.Public(), "/api/events?limit=100", token)},
		{"Token", a.refreshing(b)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			with := func() { a.server.Site.Load = bounded; bench.call() }
			without := func() { a.server.Site.Load = nil; bench.call() }
			defer func() { a.server.Site.Load = bounded }()
			var p storetest.Pairs
			for b.Loop() {
				p.Take(repeated(with), repeated(without))
			}
			p.Report(b, "bounded", "unbounded")
		})
	}
}

// refreshing returns a call that refreshes one family's pair.
func (a *apiHouse) refreshing(b *testing.B) func() {
	b.Helper()
	client, clientSecret := a.Client(b)
	a.User(b, "tess", "acct_refreshing")
	form := url.Values{"client_id": {client.ID}, "client_secret": {clientSecret.Reveal()}}
	issued := func() {
		r := httptest.NewRequest(http.MethodPost, "/oauth/v2/token", strings.NewReader(form.Encode()))
		r.Host, r.RemoteAddr = "127.0.0.1:8080", "127.0.0.1:40123"
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		a.server.Public().ServeHTTP(w, r)
		var pair struct {
			Refresh string `json:"refresh_token"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &pair); err != nil || w.Code != http.StatusOK {
			b.Fatalf("token: %d %s", w.Code, w.Body)
		}
		form.Set("refresh_token", pair.Refresh)
	}
	form.Set("grant_type", "password")
	form.Set("username", "tess")
	form.Set("password", storetest.Password)
	issued()
	form.Del("username")
	form.Del("password")
	form.Set("grant_type", "refresh_token")
	return issued
}

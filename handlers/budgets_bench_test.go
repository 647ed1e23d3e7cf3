package handlers

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
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
		{"Token", refreshing(b, a, "tess")},
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

// refreshing returns a call that refreshes one family's pair, of a client and a user of its own.
func refreshing(b *testing.B, a *apiHouse, name string) func() {
	b.Helper()
	client, clientSecret := a.Client(b)
	a.User(b, name, "acct_refreshing")
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
	form.Set("username", name)
	form.Set("password", storetest.Password)
	issued()
	form.Del("username")
	form.Del("password")
	form.Set("grant_type", "refresh_token")
	return issued
}

// BenchmarkRefresh is a rotation by 64 callers through the whole public handler, without
// connections, each commit synced. It reports the processor time of the process for one.
//
//	go test ./handlers -run '^$' -bench 'Refresh$' -benchtime 30000x
func BenchmarkRefresh(b *testing.B) {
	const callers = 64
	a := serveAPI(b, storetest.OnDisk(b))
	a.server.Site.Log = slog.New(slog.NewJSONHandler(io.Discard, nil))
	var calls []func()
	for i := range callers {
		calls = append(calls, refreshing(b, a, fmt.Sprintf("tess%d", i)))
	}
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ReportAllocs()
	b.ResetTimer()
	before := storetest.CPU()
	var working sync.WaitGroup
	for _, call := range calls {
		working.Go(func() {
			for left.Add(-1) >= 0 {
				call()
			}
		})
	}
	working.Wait()
	b.ReportMetric(float64((storetest.CPU()-before).Nanoseconds())/1000/float64(b.N), "cpu-µs/op")
}

package handlers

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"tollhouse/store/storetest"
)

// cutWriter counts the deadlines that have been set.
type cutWriter struct {
	http.ResponseWriter
	reads, writes int
}

func (w *cutWriter) SetReadDeadline(time.Time) error  { w.reads++; return nil }
func (w *cutWriter) SetWriteDeadline(time.Time) error { w.writes++; return nil }

// TestStreamsGiveWay: one more request over HTTP/2 is accepted at any time, as long as
// others wait for their peers.
func TestStreamsGiveWay(t *testing.T) {
	t.Parallel()
	const streams = 8
	l := newLoad(streams * streamCost)
	from := func(n byte) *demand {
		return &demand{load: l, connection: noConnection{}, source: netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, n}), 32)}
	}
	var all []*demand
	var writers []*cutWriter
	for n := range byte(streams) {
		d, w := from(n), &cutWriter{}
		if !d.try(streamBudget, 1) {
			t.Fatalf("request %d of %d is refused", n, streams)
		}
		if n > 0 { // the first is being worked on
			d.waitFor(w, n%2 == 0)
		}
		all, writers = append(all, d), append(writers, w)
	}
	for n := range byte(2) {
		if !from(100+n).try(streamBudget, 1) {
			t.Fatal("one more request is refused, and others wait for their peers")
		}
	}
	if writers[1].writes != 1 || writers[2].reads != 1 || writers[3].writes != 0 {
		t.Error("want the two that waited longest cut off: one as it wrote, one as it read")
	}
	for n, d := range all {
		if gaveWay := n > 0 && d.goOn(); gaveWay != (n == 1 || n == 2) {
			t.Errorf("request %d gave way: %t", n, gaveWay)
		}
	}
	if from(110).try(streamBudget, 1) {
		t.Error("one more request is taken, and all others are worked for")
	}
	for _, d := range all {
		d.end()
	}
	if used := l.pools[streamBudget].used; used != 2 {
		t.Errorf("%d requests are counted, want the 2 that are left", used)
	}
	greedy := from(120)
	for range streams / ownerPart {
		if !greedy.try(streamBudget, 1) {
			t.Fatal("a request within the share of its source is refused")
		}
	}
	if greedy.try(streamBudget, 1) {
		t.Error("a source has more than its share")
	}
}

// TestSlowReaderHoldsNoCompressor: a compressed answer is complete before it is sent.
func TestSlowReaderHoldsNoCompressor(t *testing.T) {
	t.Parallel()
	ended := false
	h := withGzip(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeBody(w, http.StatusOK, asJSON, []byte(strings.Repeat(`{"a":1}`, 10_000)))
		ended = true
	}))
	r := httptest.NewRequest(http.MethodGet, "/api/events", nil)
	r.Header.Set("Accept-Encoding", "gzip")
	w := &watchedWriter{ResponseRecorder: httptest.NewRecorder(), ready: func() bool { return ended }}
	h.ServeHTTP(w, r)
	if w.early || w.Header().Get("Content-Encoding") != "gzip" || w.Body.Len() == 0 {
		t.Errorf("bytes left before the answer was whole: %t; encoding %q, %d bytes", w.early, w.Header().Get("Content-Encoding"), w.Body.Len())
	}
}

// watchedWriter records whether anything is written too early.
type watchedWriter struct {
	*httptest.ResponseRecorder
	ready func() bool
	early bool
}

func (w *watchedWriter) Write(b []byte) (int, error) {
	w.early = w.early || !w.ready()
	return w.ResponseRecorder.Write(b)
}

// BenchmarkBudgets measures what the budgets cost an honest request: a refresh, and a page
// of 100 events, with and without them, alternating.
//
//	go test -run xxx -bench Budgets ./handlers
func BenchmarkBudgets(b *testing.B) {
	a := serveAPI(b, storetest.OnDisk(b))
	a.server.log = slog.New(slog.NewJSONHandler(io.Discard, nil))
	token := a.benchEvents(b, 10_000)
	bounded := a.server.load
	for _, bench := range []struct {
		name string
		call func()
	}{
		{"Page", called(a.server.Public(), "/api/events?limit=100", token)},
		{"Token", a.refreshing(b)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			with := func() { a.server.load = bounded; bench.call() }
			without := func() { a.server.load = nil; bench.call() }
			defer func() { a.server.load = bounded }()
			var p storetest.Pairs
			for b.Loop() {
				p.Take(repeated(with), repeated(without))
			}
			p.Report(b, "bounded", "unbounded")
		})
	}
}

// refreshing returns a call that refreshes one family's pair.
func (a *api) refreshing(b *testing.B) func() {
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

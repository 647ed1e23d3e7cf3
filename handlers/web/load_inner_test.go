package web

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"
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
//
// Promise (Credentials, memory, connections): unread answers of one account; unread compressed
// answers; HTTP/2 requests of one source, and of many
func TestStreamsGiveWay(t *testing.T) {
	t.Parallel()
	const streams = 8
	l := newLoad(streams * streamCost)
	from := func(n byte) *Lease {
		return &Lease{load: l, connection: noConnection{}, source: netip.AddrFrom4([4]byte{192, 0, 2, n})}
	}
	var all []*Lease
	var writers []*cutWriter
	for n := range byte(streams) {
		d, w := from(n), &cutWriter{}
		if !d.Try(streamBudget, 1) {
			t.Fatalf("request %d of %d is refused", n, streams)
		}
		if n > 0 { // the first is being worked on
			d.waitFor(w, n%2 == 0)
		}
		all, writers = append(all, d), append(writers, w)
	}
	for n := range byte(2) {
		if !from(100+n).Try(streamBudget, 1) {
			t.Fatal("one more request is refused, and others wait for their peers")
		}
	}
	if writers[1].writes != 1 || writers[2].reads != 1 || writers[3].writes != 0 {
		t.Error("want the two that waited longest cut off: one as it wrote, one as it read")
	}
	for n, d := range all {
		if gaveWay := n > 0 && d.resume(); gaveWay != (n == 1 || n == 2) {
			t.Errorf("request %d gave way: %t", n, gaveWay)
		}
	}
	if from(110).Try(streamBudget, 1) {
		t.Error("one more request is taken, and all others are worked for")
	}
	for _, d := range all {
		d.end()
	}
	if used := l.pools[streamBudget].used; used != 2 {
		t.Errorf("%d requests are counted, want the 2 that are left", used)
	}
	greedy := from(120)
	for range streams / 4 {
		if !greedy.Try(streamBudget, 1) {
			t.Fatal("a request within the share of its source is refused")
		}
	}
	if greedy.Try(streamBudget, 1) {
		t.Error("a source has more than its share")
	}
}

// TestNetworksShareBudgets: an IPv6 network holds at most a part of a budget, with however
// many sources.
//
// Promise (Credentials, memory, connections): an IPv6 /56 or /48 as many sources: failures, turns,
// connections, bodies, HTTP/2 requests
func TestNetworksShareBudgets(t *testing.T) {
	t.Parallel()
	for _, b := range []budget{streamBudget, strangersBodyBudget} {
		l := newLoad(64 << 20)
		l.pools[b].size = 16
		var held []*Lease
		for _, part := range []struct {
			networks string
			want     int
		}{{"2001:db8:1:200::%x", 4}, {"2001:db8:1:2%02x::1", 4}, {"2001:db8:1:%x00::1", 4}, {"2001:db8:2:%x00::1", 4}} {
			got := 0
			for i := range 16 - len(held) {
				d := &Lease{load: l, connection: noConnection{}, source: netip.MustParseAddr(fmt.Sprintf(part.networks, i))}
				if d.Try(b, 1) {
					held = append(held, d)
					got++
				}
			}
			if got != part.want {
				t.Errorf("budget %d: %s has %d of 16 more, want %d", b, part.networks, got, part.want)
			}
		}
		for _, d := range held {
			d.end()
		}
		if l.pools[b].used != 0 || len(l.pools[b].owners) != 0 {
			t.Errorf("budget %d: %d are used by %d owners after the end", b, l.pools[b].used, len(l.pools[b].owners))
		}
	}
}

// TestSlowReaderHoldsNoCompressor: a compressed answer is complete before it is sent.
//
// Promise (Credentials, memory, connections): unread answers of one account; unread compressed
// answers; HTTP/2 requests of one source, and of many
func TestSlowReaderHoldsNoCompressor(t *testing.T) {
	t.Parallel()
	ended := false
	h := WithGzip(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		WriteBody(w, http.StatusOK, AsJSON, []byte(strings.Repeat(`{"a":1}`, 10_000)))
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

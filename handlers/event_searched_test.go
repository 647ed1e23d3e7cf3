package handlers

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"tollhouse/handlers/api"
	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// searchedEvents are more than two pages of a search of the log.
const searchedEvents = 2*eventlog.SearchedMax + 500

// newSearched is an account with more types than one page reads; only the newest event is
// of the type created. Requests go over a connection.
func newSearched(t *testing.T, change ...func(*Server)) (l *live, token string) {
	t.Helper()
	wide := func(o *store.Options) { o.SegmentEvents = 0 } // a page searches a bounded number of segments
	return fillSearched(t, listenLive(t, serveAPI(t, storetest.New(t, wide)), change...))
}

func fillSearched(t *testing.T, l *live) (_ *live, token string) {
	t.Helper()
	token = l.token(t, "bob", "acct_a", store.ScopeUnstated)
	var lines strings.Builder
	for i := range searchedEvents {
		typ := fmt.Sprintf("kind_%d.updated", i%(eventlog.KnownTypesMax+100))
		if i == searchedEvents-1 {
			typ = "plan.created"
		}
		fmt.Fprintf(&lines, `{"type":%q,"resource":"r1","eventData":{"object":{}},"createdAt":%d}`+"\n", typ, 1_770_000_000+i)
	}
	l.importLines(t, "acct_a", lines.String())
	return l, token
}

// page is one page received over the connection.
func (l *live) page(t *testing.T, query, token string) (p struct {
	Data    []json.RawMessage `json:"data"`
	HasMore bool              `json:"hasMore"`
	Next    string            `json:"nextCursor"`
}, notices []string) {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, l.url+"/api/events"+query, nil))(t)
	r.Header.Set("Authorization", "Bearer "+token)
	res := must.Get(http.DefaultClient.Do(r))(t)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("GET %s = %d %s, %v", query, res.StatusCode, body, err)
	}
	must.Do(t, json.Unmarshal(body, &p))
	return p, res.Header.Values("Tollhouse-Notice")
}

// TestWildcardOfAnAccountWithTooManyTypes: a page ends early and says why, and its cursor
// leads to the matching events.
//
// Promise (Attacks on the events API): wildcards in an account with many types; filters that match
// nearly nothing
func TestWildcardOfAnAccountWithTooManyTypes(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	l, token := newSearched(t, func(s *Server) { s.API.SearchFor = 0 })
	for _, pattern := range []string{"*.created", "plan.*"} {
		query, pages := "?order=asc&limit=1&type="+pattern, 1
		p, notices := l.page(t, query, token)
		if len(notices) != 1 || !strings.Contains(notices[0], fmt.Sprintf("more than %d types", eventlog.KnownTypesMax)) || !strings.Contains(notices[0], "nextCursor") {
			t.Errorf("type=%s: Tollhouse-Notice = %q, want the bound and the next step", pattern, notices)
		}
		for ; p.HasMore && pages < 10; pages++ {
			if len(p.Data) > 0 {
				t.Errorf("type=%s: page %d has an event, want an empty one", pattern, pages)
			}
			p, _ = l.page(t, query+"&after="+p.Next, token)
		}
		if len(p.Data) != 1 || pages != 3 {
			t.Errorf("type=%s: %d events on page %d, want one on the third", pattern, len(p.Data), pages)
		}
	}
	t.Run("types_asked_for_by_name_are_found_at_once", func(t *testing.T) {
		p, notices := l.page(t, "?type=kind_1.closed,kind_2.closed,kind_3.closed,kind_4.closed,plan.created", token)
		if len(p.Data) != 1 || p.HasMore {
			t.Errorf("%d events, more %v; want only one", len(p.Data), p.HasMore)
		}
		for _, notice := range notices {
			if !strings.HasPrefix(notice, "no event has type") {
				t.Errorf("Tollhouse-Notice = %q, want notices of the four unknown types alone", notice)
			}
		}
	})
}

// TestARequestSearchesUntilItHasARowOrItsTimeIsOver: in every form of a list, and a page
// that is empty all the same leads on.
//
// Promise (Attacks on the events API): wildcards in an account with many types; filters that match
// nearly nothing
func TestARequestSearchesUntilItHasARowOrItsTimeIsOver(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	l, token := newSearched(t)
	if l.server.API.SearchFor != 250*time.Millisecond {
		t.Errorf("a request searches for %s", l.server.API.SearchFor)
	}
	first, newest := l.get("/api/events?order=asc&limit=1", token).page(t).Next, l.get("/api/events?limit=1", token).page(t).Next
	const removed = 10_100 // more than one page of resources passes over
	var lines strings.Builder
	for i := range removed {
		fmt.Fprintf(&lines, `{"type":"plan.deleted","resource":"p%05d","eventData":{"object":{}},"createdAt":1760000000}`+"\n", i)
	}
	lines.WriteString(`{"type":"plan.kept","resource":"q","eventData":{"object":{}},"createdAt":1760000000}` + "\n")
	l.importLines(t, "acct_b", lines.String())
	other := l.token(t, "carol", "acct_b", store.ScopeUnstated)
	for _, c := range []struct {
		name, list, param, start, token string
		want                            int // rows
	}{
		{"oldest_first", "/api/events?order=asc&limit=1&type=plan.*", "after", "", token, 1},
		{"after", "/api/events?order=asc&limit=1&type=*.created", "after", first, token, 1},
		{"before", "/api/events?limit=1&type=*.created", "before", first, token, 1},
		{"before_oldest_first", "/api/events?order=asc&limit=1&type=*.created", "before", newest, token, 0},
		{"of_a_resource", "/api/events?order=asc&resource=r1&type=plan.created", "after", "", token, 1},
		{"of_nothing", "/api/events?type=*.closed", "after", "", token, 0},
		{"resources", "/api/resources/plan?limit=2", "after", "", other, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := func(cursor string) eventPage {
				if cursor == "" {
					return l.get(c.list, c.token).page(t)
				}
				return l.get(c.list+"&"+c.param+"="+cursor, c.token).page(t)
			}
			l.server.API.SearchFor = time.Hour
			if p := at(c.start); len(p.Data) != c.want || p.HasMore {
				t.Errorf("with time: %d rows, more %v; want %d and no more", len(p.Data), p.HasMore, c.want)
			}
			l.server.API.SearchFor = 0
			p, pages := at(c.start), 1
			for ; p.HasMore && pages < 10; pages++ {
				if len(p.Data) > 0 {
					t.Errorf("page %d has a row, and more follow", pages)
				}
				p = at(p.Next)
			}
			if len(p.Data) != c.want || pages == 1 {
				t.Errorf("without time: %d rows on page %d, want %d on a later one", len(p.Data), pages, c.want)
			}
		})
	}
	t.Run("ndjson_and_HEAD", func(t *testing.T) {
		const target = "/api/events?order=asc&limit=1&type=plan.*"
		l.server.API.SearchFor = 0
		if w := l.get(target, token, "Accept", api.AsNDJSON); w.Body.Len() > 0 || !strings.Contains(w.Header().Get("Link"), `rel="next"`) {
			t.Errorf("%q, Link %q; want no line and a next page", w.Body, w.Header().Get("Link"))
		}
		l.server.API.SearchFor = time.Hour
		if w := l.get(target, token, "Accept", api.AsNDJSON); strings.Count(w.Body.String(), "\n") != 1 || w.Header().Get("Link") != "" {
			t.Errorf("%q, Link %q; want one line and no next page", w.Body, w.Header().Get("Link"))
		}
		whole := l.get(target, token)
		if w := l.request(http.MethodHead, target, token, nil); w.Header().Get("Content-Length") != whole.Header().Get("Content-Length") || w.Header().Get("ETag") != whole.Header().Get("ETag") {
			t.Errorf("HEAD = %v, want the headers of %v", w.Header(), whole.Header())
		}
	})
	t.Run("a_change_makes_a_page_that_was_searched_stale", func(t *testing.T) {
		const target = "/api/events?order=asc&limit=5&type=plan.*"
		tag := l.get(target, token).Header().Get("ETag")
		if w := l.get(target, token, "If-None-Match", tag); w.Code != http.StatusNotModified {
			t.Errorf("the same page is %d, want 304", w.Code)
		}
		l.put("/api/resources/plan/p1", token, `{}`)
		if w := l.get(target, token, "If-None-Match", tag); w.Code != http.StatusOK || len(w.page(t).Data) != 2 {
			t.Errorf("the page after a change is %d %.200s", w.Code, w.Body)
		}
	})
}

// TestLongPollSearchesNoLongerThanItMay: a long poll whose filter matches almost nothing
// answers with its progress when its time is over.
//
// Promise (Attacks on the events API): wildcards in an account with many types; filters that match
// nearly nothing
func TestLongPollSearchesNoLongerThanItMay(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	l, token := newSearched(t)
	query := "?order=asc&wait=55&limit=1&type=*.created"
	if p, _ := l.page(t, query+"&createdAt[gte]=1", token); len(p.Data) != 1 {
		t.Errorf("%d events, want the one at the end", len(p.Data))
	}
	l.server.API.Drain() // ends every wait, as its own end does
	p, _ := l.page(t, query, token)
	if len(p.Data) > 0 || !p.HasMore {
		t.Fatalf("%d events, more %v; want none and more to search", len(p.Data), p.HasMore)
	}
	at, ok := record.ParsePosition(p.Next)
	if second := int64(at.Millis() / 1000); !ok || second != 1_770_000_000+eventlog.SearchedMax-1 {
		t.Errorf("nextCursor is of the second %d, want that of the last row that was looked at", second)
	}
}

// TestStreamBeatsWhileItSearches: a reader whose filter matches almost nothing gets
// heartbeats.
func TestStreamBeatsWhileItSearches(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	l, token := newSearched(t, func(s *Server) { s.API.HeartbeatEvery = 200 * time.Microsecond })
	s := l.open(t, "?type=*.created&createdAt[gte]=1", token)
	for f := s.next(t); f.event != "ready"; f = s.next(t) {
		if f.retry == "" {
			t.Fatalf("frame = %+v, want retry and ready", f)
		}
	}
	if f := s.next(t); f.comment == "" {
		t.Errorf("frame behind ready = %+v, want a heartbeat before the event", f)
	}
	for range 1_000 {
		if f := s.next(t); f.data != "" {
			return
		}
	}
	t.Error("no event among 1,000 frames")
}

// TestLongPollSearchesOnFromWhereItWas: an event that does not match wakes a long poll,
// which reads that event but repeats no search.
func TestLongPollSearchesOnFromWhereItWas(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	const unwanted = 200
	rows := storetest.CountRows(storetest.EmptyInMemory())
	l, token := fillSearched(t, listenLive(t, serveAPI(t, storetest.Open(t, rows, storetest.NewClock()))))
	before := rows.Read()
	polled := make(chan int)
	go func() {
		p, _ := l.page(t, "?order=asc&wait=55&createdAt[gte]=1&type=*.closed", token)
		polled <- len(p.Data)
	}()
	for began := time.Now(); rows.Read() < before+searchedEvents && time.Since(began) < livePatience; {
		runtime.Gosched() // until it has searched the log
	}
	for i := range unwanted {
		l.put("/api/resources/plan/p1", token, fmt.Sprintf(`{"n":%d}`, i))
	}
	l.put("/api/resources/plan/p1?action=closed", token, `{}`)
	if n := <-polled; n != 1 {
		t.Errorf("the long poll found %d events, want the one that was closed", n)
	}
	// Each event may wake it, and takes some reads of its own.
	if n, most := rows.Read()-before, int64(searchedEvents+3*eventlog.KnownTypesMax+20*unwanted); n > most {
		t.Errorf("%d rows were read, want %d at most", n, most)
	}
}

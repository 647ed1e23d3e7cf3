package handlers

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

const fastBeat = 20 * time.Millisecond

// TestAReaderThatHadNoEventResumes: what is recorded while a reader reconnects reaches it,
// wherever its stream started, also at another server of the database.
//
// Promise (§4.1, §4.2): a reader that had no event resumes; a filtered one meets no false gap
func TestAReaderThatHadNoEventResumes(t *testing.T) {
	t.Parallel()
	t.Run("one_server", func(t *testing.T) {
		t.Parallel()
		l := newLive(t)
		resumeWithoutEvent(t, l, l)
	})
	for name, open := range storetest.SharedEngines() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbA, dbB := open(t)
			fa, fb := storetest.Two(t, dbA, dbB)
			resumeWithoutEvent(t, listenLive(t, serveAPI(t, fa)), listenLive(t, serveAPI(t, fb)))
		})
	}
}

func resumeWithoutEvent(t *testing.T, first, second *live) {
	const wait = 5 * time.Minute
	for name, query := range map[string]string{
		"now": "", "latest": "?after=latest", "filter": "?type=plan.*", "beginning": "?type=plan.*&createdAt[gte]=0",
		"ahead": "?createdAt[gte]=",
	} {
		for _, logged := range []int{0, 2} {
			account := fmt.Sprintf("acct_%s_%d", name, logged)
			token := first.token(t, account, account, store.ScopeUnstated)
			for i := range logged {
				first.put(fmt.Sprintf("/api/resources/card/c%d", i), token, `{}`)
			}
			query := query
			if name == "ahead" {
				query += fmt.Sprint(first.Now().Add(wait).Unix())
			}
			s := first.open(t, query, token)
			at := s.ready(t)
			s.close()
			if name == "ahead" {
				first.Clock.Advance(wait)
			}
			want := first.put("/api/resources/plan/p", token, `{}`).Header().Get("Tollhouse-Event")
			s = second.open(t, query, token, "Last-Event-ID", at)
			if again, notice := s.ready(t), s.Header.Get("Tollhouse-Notice"); again != at || strings.Contains(notice, "clock") {
				t.Errorf("%s: the second stream starts at %s with notice %q, want %s and none about the clock", account, again, notice, at)
			}
			if f := s.next(t); f.id != want {
				t.Errorf("%s: frame = %+v, want %s, recorded between the streams", account, f, want)
			}
			s.close()
		}
	}
}

// TestAFilteredReaderMeetsNoFalseGap: its id moves on with the heartbeats, past events that
// it does not want and that retention then removes.
//
// Promise (§4.1, §4.2): a reader that had no event resumes; a filtered one meets no false gap
func TestAFilteredReaderMeetsNoFalseGap(t *testing.T) {
	t.Parallel()
	l := newLive(t, func(s *Server) { s.API.HeartbeatEvery = fastBeat })
	l.retain(t, web.Day, 0)
	token := l.token(t, "bob", "acct_a", store.ScopeUnstated)
	s := l.open(t, "?type=customer.*", token)
	began := s.ready(t)
	l.put("/api/resources/plan/p", token, `{}`)
	l.put("/api/resources/plan/p", token, `{"n":"1"}`)
	head := l.get("/api/events?limit=1", token).page(t).Next
	at := s.position(t, head)
	s.close()
	l.Clock.Advance(2 * web.Day)
	l.retain(t, web.Day, 2) // what the filter does not match is gone
	token = l.token(t, "bea", "acct_a", store.ScopeUnstated)
	s = l.open(t, "?type=customer.*", token, "Last-Event-ID", at)
	s.ready(t)
	want := l.put("/api/resources/customer/c", token, `{}`).Header().Get("Tollhouse-Event")
	if f := s.nextNews(t); f.id != want {
		t.Errorf("frame = %+v, want %s and no gap", f, want)
	}
	s = l.open(t, "?type=customer.*", token, "Last-Event-ID", began)
	s.ready(t)
	if f := s.nextNews(t); f.event != "gap" {
		t.Errorf("frame = %+v from the position at the start, want a gap: heartbeats made no difference", f)
	}
}

// TestAReaderBehindTheHeadMovesOnWhileItSearches: whoever loses the stream before the search
// of a long log has found anything need not search it again.
//
// Promise (§4.1, §4.2): a reader far behind the head moves on while a filter finds nothing for it
func TestAReaderBehindTheHeadMovesOnWhileItSearches(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	l, token := newSearched(t, func(s *Server) { s.API.HeartbeatEvery = 200 * time.Microsecond })
	s := l.open(t, "?type=*.created&createdAt[gte]=1", token)
	began, at := s.ready(t), ""
	for f := s.next(t); f.data == ""; f = s.next(t) {
		if at = f.id; at > began {
			break
		}
	}
	s.close()
	s = l.open(t, "?type=*.created", token, "Last-Event-ID", at)
	if again := s.ready(t); again <= began {
		t.Fatalf("the search of the second stream begins at %s, want a position after %s", again, began)
	}
	if f := s.nextNews(t); !strings.Contains(f.data, "plan.created") {
		t.Errorf("frame = %+v, want the event", f)
	}
}

// TestAGapIsReportedUntilItIsPassed: a reader that took ready and lost the gap behind it
// gets it again; one that passed it does not.
//
// Promise (§4.1, §4.2): a position below retention is a gap frame until the reader has passed it; a
// stream takes no token in its address
func TestAGapIsReportedUntilItIsPassed(t *testing.T) {
	t.Parallel()
	l := newLive(t)
	token := l.token(t, "bob", "acct_a", store.ScopeUnstated)
	old := l.put("/api/resources/plan/p", token, `{}`).Header().Get("Tollhouse-Event")
	l.put("/api/resources/plan/p", token, `{"n":"1"}`)
	l.Clock.Advance(2 * web.Day)
	token = l.token(t, "bea", "acct_a", store.ScopeUnstated)
	kept := l.put("/api/resources/plan/p", token, `{"n":"2"}`).Header().Get("Tollhouse-Event")
	l.retain(t, web.Day, 2)
	at := old
	for range 2 {
		s := l.open(t, "", token, "Last-Event-ID", at)
		at = s.ready(t)
		if f := s.next(t); f.event != "gap" {
			t.Fatalf("frame = %+v, want the gap", f)
		}
		passed := s.next(t)
		if f := s.next(t); passed != (frame{id: passed.id}) || f.id != kept {
			t.Fatalf("frames = %+v, %+v, want only an id, and then %s", passed, f, kept)
		}
		s.close()
		s = l.open(t, "", token, "Last-Event-ID", passed.id)
		s.ready(t)
		if f := s.next(t); f.id != kept {
			t.Errorf("frame = %+v behind the gap, want %s", f, kept)
		}
		s.close()
	}
}

// position reads heartbeats until they have the id.
func (s *stream) position(t *testing.T, id string) string {
	t.Helper()
	for range 1000 {
		if f := s.next(t); f == (frame{id: id}) {
			return f.id
		}
	}
	t.Fatalf("no heartbeat has the position %s", id)
	return ""
}

// nextNews returns the next frame that is more than a heartbeat.
func (s *stream) nextNews(t *testing.T) frame {
	t.Helper()
	for {
		if f := s.next(t); f.data != "" || f == (frame{}) {
			return f
		}
	}
}

// TestACursorAheadOfTheClockIsNoted: it is another server's, or from before a reset, and its
// reader would wait in vain.
//
// Promise (§4.1, §4.2): a stream names its charset; a cursor over 60 s ahead of the clock gets a
// notice
func TestACursorAheadOfTheClockIsNoted(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	h := newHooked(t)
	l := listenLive(t, h.apiHouse)
	h.put("/api/resources/plan/p", h.token, `{}`)
	e := h.created(t, `{"url":"https://hooks.example.com/a"}`)
	at := func(ahead time.Duration) string {
		return record.NewPosition(h.Now().Add(ahead).UnixMilli(), 0, [8]byte{}).String()
	}
	want := func(param string, ahead time.Duration) []string {
		return []string{fmt.Sprintf("%s is a position at %s, ahead of the server's clock (%s); it may be from another server, or from before a reset",
			param, h.Now().Add(ahead).UTC().Format(time.RFC3339), h.Now().UTC().Format(time.RFC3339))}
	}
	ask := func(target string, headers ...string) func(string) http.Header {
		return func(cursor string) http.Header { return h.get(target+cursor, h.token, headers...).Header() }
	}
	asOperator := func(target string) func(string) http.Header {
		return func(cursor string) http.Header { return h.admin(http.MethodGet, target+cursor, nil).Header() }
	}
	tag := func(cursor string) string { return h.get("/api/events?after="+cursor, h.token).Header().Get("ETag") }
	for name, tt := range map[string]struct {
		param string
		ask   func(cursor string) http.Header
	}{
		"after":        {"after", ask("/api/events?after=")},
		"after_asc":    {"after", ask("/api/events?order=asc&after=")},
		"before":       {"before", ask("/api/events?before=")},
		"long_poll":    {"after", ask("/api/events?order=asc&wait=1&after=")},
		"ndjson":       {"after", ask("/api/events?after=", "Accept", api.AsNDJSON)},
		"not_modified": {"after", func(c string) http.Header { return ask("/api/events?after=", "If-None-Match", tag(c))(c) }},
		"HEAD": {"after", func(c string) http.Header {
			return h.request(http.MethodHead, "/api/events?after="+c, h.token, nil).Header()
		}},
		"operator":   {"after", asOperator("/admin/events?account=acct_a&after=")},
		"audit":      {"after", asOperator("/api/platform/audit?after=")},
		"deliveries": {"after", ask(api.WebhooksPath + "/" + e.ID + "/deliveries?after=")},
		"stream":     {"after", func(c string) http.Header { return l.open(t, "?after="+c, h.token).Header }},
		"Last-Event-ID": {"Last-Event-ID", func(c string) http.Header {
			return l.open(t, "?after="+at(time.Hour), h.token, "Last-Event-ID", c).Header
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for ahead, notices := range map[time.Duration][]string{
				-time.Hour: nil, 0: nil, time.Minute: nil, 61 * time.Second: want(tt.param, 61*time.Second), 4e4 * time.Hour: want(tt.param, 4e4*time.Hour),
			} {
				for range 3 { // a page that is requested again is kept
					if got := tt.ask(at(ahead)).Values("Tollhouse-Notice"); !slices.Equal(got, notices) {
						t.Errorf("%v ahead: notices %q, want %q", ahead, got, notices)
					}
				}
			}
		})
	}
	t.Run("beside_the_notice_of_a_type", func(t *testing.T) {
		for range 3 {
			if got := ask("/api/events?type=plan.create&after=")(at(time.Hour)).Values("Tollhouse-Notice"); len(got) != 2 {
				t.Errorf("notices %q, want that of the cursor and that of the type", got)
			}
		}
	})
	t.Run("a_kept_page_has_it_no_longer_when_the_clock_has_passed", func(t *testing.T) {
		cursor := at(2 * time.Minute)
		for range 2 {
			ask("/api/events?after=")(cursor)
		}
		if len(h.server.API.Kept.Pages) == 0 {
			t.Fatal("no page was kept")
		}
		h.Clock.Advance(time.Minute)
		if got := ask("/api/events?after=")(cursor).Values("Tollhouse-Notice"); got != nil {
			t.Errorf("notices %q, want none", got)
		}
	})
	t.Run("latest_and_foreign_ids_are_positions_of_this_log", func(t *testing.T) {
		h.importLines(t, "acct_a", h.lineOf("foreign-1", "plan.updated", "p", 0))
		for _, cursor := range []string{"latest", "foreign-1"} {
			if got := ask("/api/events?after=")(cursor).Values("Tollhouse-Notice"); got != nil {
				t.Errorf("%s: notices %q, want none", cursor, got)
			}
		}
	})
}

// TestEveryStreamNamesItsEncoding: Python's requests reads text without a charset as Latin-1.
//
// Promise (§4.1, §4.2): a stream names its charset; a cursor over 60 s ahead of the clock gets a
// notice
func TestEveryStreamNamesItsEncoding(t *testing.T) {
	t.Parallel()
	l, cookie := deskLive(t)
	token := l.token(t, "bob", "acct_a", store.ScopeUnstated)
	const want = "text/event-stream; charset=utf-8"
	for name, got := range map[string]string{
		"API":                      l.open(t, "", token).Header.Get("Content-Type"),
		"operator":                 l.admin(http.MethodHead, "/admin/events?account=acct_a", nil, "Accept", web.AsEventStream).Header().Get("Content-Type"),
		"desk":                     l.tail(t, "", cookie).Header.Get("Content-Type"),
		"asked_for_with_a_charset": l.open(t, "", token, "Accept", "text/event-stream;charset=UTF-8").Header.Get("Content-Type"),
	} {
		if got != want {
			t.Errorf("%s: Content-Type = %q, want %q", name, got, want)
		}
	}
}

package handlers

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/storetest/must"
)

const livePatience = time.Minute // far longer than any step here takes

// live is the server on a listener, for long requests.
type live struct {
	*apiHouse
	url string
}

func newLive(t *testing.T, change ...func(*Server)) *live {
	t.Helper()
	return listenLive(t, newAPI(t), change...)
}

func listenLive(t *testing.T, a *apiHouse, change ...func(*Server)) *live {
	t.Helper()
	a.server.API.HeartbeatEvery = time.Hour // on a busy machine a test may outlast a heartbeat
	for _, c := range change {
		c(a.server)
	}
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	srv := web.NewHTTPServer(a.server.Public(), slog.New(slog.DiscardHandler))
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })
	return &live{a, "http://" + l.Addr().String()}
}

// frame is one server-sent event.
type frame struct{ event, id, data, comment, retry string }

// stream is an open event stream.
type stream struct {
	*http.Response
	frames chan frame
	cancel context.CancelFunc
}

func (l *live) open(t *testing.T, query, token string, headers ...string) *stream {
	t.Helper()
	return openStream(t, l.url+"/api/events"+query, append(headers, "Authorization", "Bearer "+token)...)
}

func openStream(t *testing.T, target string, headers ...string) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, target, nil))(t)
	r.Header.Set("Accept", "text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer := must.Get(http.DefaultClient.Do(r))(t)
	s := &stream{answer, make(chan frame, 4096), cancel}
	t.Cleanup(s.close)
	go s.read()
	return s
}

func (s *stream) close() {
	s.cancel()
	_ = s.Body.Close()
}

// read parses frames by HTML §9.2.6.
func (s *stream) read() {
	defer close(s.frames)
	lines := bufio.NewScanner(s.Body)
	lines.Buffer(nil, 1<<20)
	var f frame
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case lines.Text() == "":
			s.frames <- f
			f = frame{}
		case name == "":
			f.comment = ":" + value
		case name == "event":
			f.event = value
		case name == "id":
			f.id = value
		case name == "retry":
			f.retry = value
		case name == "data":
			f.data += value
		}
	}
}

// next returns the next frame; the zero frame when the stream has ended.
func (s *stream) next(t *testing.T) frame {
	t.Helper()
	select {
	case f := <-s.frames:
		return f
	case <-time.After(livePatience):
		t.Fatal("no frame came")
	}
	panic("unreachable")
}

// ready reads what precedes all events, and returns the stream's position.
func (s *stream) ready(t *testing.T) string {
	t.Helper()
	if f := s.next(t); f != (frame{retry: "2000"}) {
		t.Fatalf("the first frame is %+v, want retry: 2000 alone", f)
	}
	f := s.next(t)
	var data struct{ After string }
	if err := json.Unmarshal([]byte(f.data), &data); err != nil || f.event != "ready" || f.id != data.After || f.id == "" {
		t.Fatalf("the second frame is %+v, want ready with its position as id", f)
	}
	return data.After
}

// events reads n events and returns their types.
func (s *stream) events(t *testing.T, n int) (types []string, last string) {
	t.Helper()
	for range n {
		f := s.next(t)
		if f.event != "" || f.id == "" {
			t.Fatalf("frame = %+v, want an event", f)
		}
		types = append(types, decodeObject(t, []byte(f.data))["type"].(string))
		last = f.id
	}
	return types, last
}

// Promise (§2.2): a well-formed unused type is an empty page with a notice of the nearest
// Promise (§4.1, §4.2): a stream starts after Last-Event-ID, else after, else createdAt, else now;
// order, before, limit and wait are refused
func TestEventStream(t *testing.T) {
	t.Parallel()
	l := newLive(t)
	token := l.token(t, "bob", "acct_a", store.ScopeUnstated)
	for i := range 5 {
		l.put(fmt.Sprintf("/api/resources/plan/p%d", i), token, `{}`)
	}
	first := l.get("/api/events?order=asc&limit=1", token).page(t)
	newest := l.get("/api/events?limit=1", token).page(t)

	t.Run("headers", func(t *testing.T) {
		t.Parallel()
		s := l.open(t, "", token, "Accept-Encoding", "gzip")
		want := map[string]string{
			"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "private, no-cache", "Vary": "Authorization, Accept, Accept-Encoding, Tollhouse-Account",
			"X-Accel-Buffering": "no", "Content-Encoding": "", "No-Gzip-Compression": "", "ETag": "",
		}
		for name, value := range want {
			if got := s.Header.Get(name); got != value {
				t.Errorf("%s = %q, want %q", name, got, value)
			}
		}
	})
	t.Run("starts_now_and_continues", func(t *testing.T) {
		t.Parallel()
		other := l.token(t, "carol", "acct_c", store.ScopeUnstated)
		l.put("/api/resources/plan/old", other, `{}`)
		s := l.open(t, "", other)
		if at := s.ready(t); at != l.get("/api/events", other).page(t).Next {
			t.Errorf("ready names %s, want the newest event", at)
		}
		for i := range 3 {
			w := l.put("/api/resources/plan/new", other, fmt.Sprintf(`{"n":"%d"}`, i))
			f := s.next(t)
			want := l.get("/api/events/"+w.Header().Get("Tollhouse-Event"), other).Body.String()
			if f.id != w.Header().Get("Tollhouse-Event") || f.data != want || f.event != "" {
				t.Errorf("frame = %+v, want %s without a name", f, want)
			}
		}
	})
	t.Run("Last-Event-ID_before_after_before_createdAt_before_now", func(t *testing.T) {
		t.Parallel()
		for name, tt := range map[string]struct {
			query, seen, place string
			events             int
		}{
			"seen":      {"?after=" + newest.Next + "&createdAt[gte]=0", first.Next, first.Next, 4},
			"after":     {"?after=" + first.Next, "", first.Next, 4},
			"createdAt": {"?createdAt[gte]=1000000000", "", record.PositionBefore(1000000000).String(), 5},
			"latest":    {"?after=latest", "", newest.Next, 0},
			"beginning": {"?createdAt[gte]=0", "", record.Position{}.String(), 5},
			"now":       {"?createdAt[lte]=99999999999", "", newest.Next, 0},
		} {
			var headers []string
			if tt.seen != "" {
				headers = []string{"Last-Event-ID", tt.seen}
			}
			s := l.open(t, tt.query, token, headers...)
			if at := s.ready(t); at != tt.place {
				t.Errorf("%s: ready names %s, want %s", name, at, tt.place)
			}
			if tt.events > 0 {
				if _, last := s.events(t, tt.events); last != newest.Next {
					t.Errorf("%s: the last of %d events is %s, want %s", name, tt.events, last, newest.Next)
				}
			}
		}
	})
	t.Run("filters", func(t *testing.T) {
		t.Parallel()
		dora := l.token(t, "dora", "acct_d", store.ScopeUnstated)
		s := l.open(t, "?type=customer.*,plan.retired&resource=cus_1,p", dora)
		s.ready(t)
		l.put("/api/resources/customer/cus_2", dora, `{}`)
		l.put("/api/resources/plan/p", dora, `{}`)
		l.put("/api/resources/customer/cus_1", dora, `{}`)
		l.put("/api/resources/plan/p?action=retired", dora, `{}`)
		if types, _ := s.events(t, 2); !slices.Equal(types, []string{"customer.created", "plan.retired"}) {
			t.Errorf("types = %q", types)
		}
	})
	t.Run("parameters_of_a_page_are_refused", func(t *testing.T) {
		t.Parallel()
		for param, query := range map[string]string{
			"order": "order=asc", "limit": "limit=5", "before": "before=" + first.Next, "wait": "order=asc&wait=3",
		} {
			w := l.get("/api/events?"+query, token, "Accept", "text/event-stream")
			if param == "wait" {
				param = "order"
			}
			w.fault(t, http.StatusBadRequest, "invalid_parameter", param)
		}
		l.get("/api/events", token, "Accept", "text/event-stream", "Last-Event-ID", "no such!").fault(t, http.StatusBadRequest, "invalid_cursor", "Last-Event-ID")
		l.get("/api/events", token, "Accept", "text/event-stream", "Last-Event-ID", "foreign").fault(t, http.StatusBadRequest, "invalid_cursor", "Last-Event-ID")
		l.get("/api/events?after=foreign", token, "Accept", "text/event-stream").fault(t, http.StatusBadRequest, "invalid_cursor", "after")
		l.get("/api/events", "", "Accept", "text/event-stream").fault(t, http.StatusUnauthorized, "unauthorized", "")
	})
	t.Run("HEAD_ends", func(t *testing.T) {
		t.Parallel()
		w := l.request(http.MethodHead, "/api/events", token, nil, "Accept", "text/event-stream")
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/event-stream; charset=utf-8" {
			t.Errorf("HEAD = %d %v", w.Code, w.Header())
		}
	})
	t.Run("headers_are_the_readers_on_the_operators_socket_too", func(t *testing.T) {
		t.Parallel()
		s := l.admin(http.MethodHead, "/admin/events?account=acct_a", nil, "Accept", "text/event-stream")
		if s.Code != http.StatusOK || s.Header().Get("No-Gzip-Compression") != "" {
			t.Errorf("HEAD = %d %v, want no word to the compressor", s.Code, s.Header())
		}
	})
	t.Run("a_type_that_no_event_has_is_noted", func(t *testing.T) {
		t.Parallel()
		s := l.open(t, "?type=plan.create", token)
		if got := s.Header.Get("Tollhouse-Notice"); got != `no event has type "plan.create"; nearest: plan.created` {
			t.Errorf("Tollhouse-Notice = %q", got)
		}
	})
	t.Run("a_foreign_event_has_its_place_as_id", func(t *testing.T) {
		t.Parallel()
		l.importLines(t, "acct_f", `{"id":"ev-foreign_7","type":"plan.created","resource":"p1","eventData":{"object":{}},"createdAt":1773066601}`)
		fay := l.token(t, "fay", "acct_f", store.ScopeUnstated)
		s := l.open(t, "?createdAt[gte]=1", fay)
		s.ready(t)
		f := s.next(t)
		if place := l.get("/api/events", fay).page(t).Next; f.id != place || !strings.Contains(f.data, `"id":"ev-foreign_7"`) {
			t.Errorf("frame = %+v, want the place %s as id", f, place)
		}
	})
	t.Run("attack_another_accounts_events_never_come", func(t *testing.T) {
		t.Parallel()
		eve, gil := l.token(t, "eve", "acct_e", store.ScopeUnstated), l.token(t, "gil", "acct_g", store.ScopeUnstated)
		s := l.open(t, "?after="+first.Next, eve)
		s.ready(t)
		l.Clock.Advance(time.Millisecond) // within one millisecond the order is random
		l.put("/api/resources/plan/p", gil, `{}`)
		own := l.put("/api/resources/plan/p", eve, `{}`).Header().Get("Tollhouse-Event")
		if f := s.next(t); f.id != own {
			t.Errorf("frame = %+v, want %s", f, own)
		}
	})
}

// Promise (§4.1, §4.2): a frame has the position as its id and the event on one line; a stream has
// retry, a heartbeat with its position each 15 s, no proxy buffering, a limit per frame, none
// overall
func TestEventStreamHeartbeat(t *testing.T) {
	t.Parallel()
	l := newLive(t, func(s *Server) { s.API.HeartbeatEvery = 20 * time.Millisecond })
	s := l.open(t, "", l.token(t, "bob", "acct_a", store.ScopeUnstated))
	at := s.ready(t)
	for range 2 {
		if f := s.next(t); f != (frame{comment: ":"}) {
			t.Errorf("heartbeat: frame = %+v, want a comment", f)
		}
		if f := s.next(t); f != (frame{id: at}) {
			t.Errorf("heartbeat: frame = %+v, want only the id %s", f, at)
		}
	}
}

// Promise (§4.1, §4.2): backfill, gap and end carry no id; an expired or revoked token, or a
// server's stop, ends a stream with a reason
func TestEventStreamEnds(t *testing.T) {
	t.Parallel()
	t.Run("token_expired", func(t *testing.T) {
		t.Parallel()
		l := newLive(t, func(s *Server) { s.API.HeartbeatEvery = 20 * time.Millisecond })
		s := l.open(t, "", l.token(t, "bob", "acct_a", store.ScopeUnstated))
		s.ready(t)
		l.Clock.Advance(2 * time.Hour)
		l.wantEnd(t, s, "token_expired")
	})
	t.Run("attack_a_revoked_token_reads_nothing_more", func(t *testing.T) {
		t.Parallel()
		l := newLive(t)
		token, other := l.token(t, "bob", "acct_a", store.ScopeUnstated), l.token(t, "carol", "acct_a", store.ScopeUnstated)
		s := l.open(t, "", token)
		s.ready(t)
		must.Get(l.DisableUser(t.Context(), "bob"))(t)
		l.put("/api/resources/plan/p", other, `{"for":"those who may read"}`)
		l.wantEnd(t, s, "token_expired")
	})
	t.Run("a_token_of_a_disabled_account_reads_nothing_more", func(t *testing.T) {
		t.Parallel()
		l := newLive(t, func(s *Server) { s.API.HeartbeatEvery = 20 * time.Millisecond })
		s := l.open(t, "", l.token(t, "bob", "acct_a", store.ScopeUnstated))
		s.ready(t)
		must.Get(l.DisableAccount(t.Context(), "acct_a"))(t)
		l.wantEnd(t, s, "token_expired")
	})
	t.Run("a_revoked_token_hears_of_no_import", func(t *testing.T) {
		t.Parallel()
		l := newLive(t)
		token := l.token(t, "bob", "acct_a", store.ScopeUnstated)
		l.put("/api/resources/plan/p", token, `{}`)
		s := l.open(t, "", token)
		s.ready(t)
		must.Get(l.DisableUser(t.Context(), "bob"))(t)
		l.importLines(t, "acct_a", `{"type":"plan.created","resource":"q","eventData":{"object":{}},"createdAt":1000000000}`)
		l.wantEnd(t, s, "token_expired")
	})
	t.Run("restart", func(t *testing.T) {
		t.Parallel()
		l := newLive(t)
		token := l.token(t, "bob", "acct_a", store.ScopeUnstated)
		s := l.open(t, "", token)
		s.ready(t)
		polled := make(chan answer)
		go func() { polled <- l.get("/api/events?order=asc&wait=50", token) }()
		l.waitFor(t, 2)
		l.server.API.Drain()
		l.wantEnd(t, s, "restart")
		if w := <-polled; w.Code != http.StatusOK {
			t.Errorf("the long poll = %d, want an empty page at once", w.Code)
		}
	})
	t.Run("restart_does_not_wait_for_the_backlog", func(t *testing.T) {
		t.Parallel()
		l := newLive(t)
		var lines strings.Builder
		for i := range 2*api.StreamRows + 1 {
			fmt.Fprintf(&lines, `{"type":"plan.created","resource":"p%d","eventData":{"object":{}},"createdAt":1773066601}`+"\n", i)
		}
		l.importLines(t, "acct_a", lines.String())
		l.server.API.Drain()
		s := l.open(t, "?createdAt[gte]=1", l.token(t, "bob", "acct_a", store.ScopeUnstated))
		s.ready(t)
		s.events(t, api.StreamRows) // one page only
		l.wantEnd(t, s, "restart")
	})
}

func (l *live) wantEnd(t *testing.T, s *stream, reason string) {
	t.Helper()
	f := s.next(t)
	for f.comment != "" || f == (frame{id: f.id}) && f.id != "" { // heartbeats
		f = s.next(t)
	}
	if f != (frame{event: "end", data: fmt.Sprintf(`{"reason":%q}`, reason)}) {
		t.Errorf("frame = %+v, want the end because of %s", f, reason)
	}
	if f := s.next(t); f != (frame{}) {
		t.Errorf("after the end comes %+v", f)
	}
}

// waitFor returns when n requests wait for events.
func (l *live) waitFor(t *testing.T, n int) {
	t.Helper()
	for deadline := time.Now().Add(livePatience); l.Counts().LiveReaders < n; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d requests never waited", n)
		}
	}
}

// Promise (§4.1, §4.2): backfill, gap and end carry no id; an expired or revoked token, or a
// server's stop, ends a stream with a reason
func TestEventStreamBackfill(t *testing.T) {
	t.Parallel()
	l := newLive(t)
	token := l.token(t, "bob", "acct_a", store.ScopeUnstated)
	l.put("/api/resources/plan/p", token, `{}`)
	s := l.open(t, "", token)
	s.ready(t)
	l.importLines(t, "acct_a", `{"type":"plan.created","resource":"q","eventData":{"object":{}},"createdAt":1000000000}
{"type":"plan.updated","resource":"q","eventData":{"object":{}},"createdAt":1000000007}`)
	page := l.get("/api/events?order=asc&limit=2", token).page(t)
	want := frame{event: "backfill", data: fmt.Sprintf(`{"first":%q,"last":%q}`, page.Data[0].ID, page.Next)}
	if f := s.next(t); f != want {
		t.Errorf("backfill_is_announced_on_streams: frame = %+v, want %+v", f, want)
	}
	own := l.put("/api/resources/plan/p", token, `{"n":"1"}`).Header().Get("Tollhouse-Event")
	if f := s.next(t); f.id != own {
		t.Errorf("backfill_is_not_sent_to_streams: frame = %+v, want %s", f, own)
	}
}

// Promise (§4.1, §4.2): a position below retention is a gap frame until the reader has passed it; a
// stream takes no token in its address
func TestEventStreamGap(t *testing.T) {
	t.Parallel()
	l := newLive(t)
	token := l.token(t, "bob", "acct_a", store.ScopeUnstated)
	old := l.put("/api/resources/plan/p", token, `{}`).Header().Get("Tollhouse-Event")
	l.put("/api/resources/plan/p", token, `{"n":"1"}`)
	l.Clock.Advance(48 * time.Hour)
	token = l.token(t, "bea", "acct_a", store.ScopeUnstated)
	kept := l.put("/api/resources/plan/p", token, `{"n":"2"}`).Header().Get("Tollhouse-Event")
	must.Do(t, l.Events.SetRetention(t.Context(), 24*time.Hour))
	must.Get(l.TrimEvents(t.Context()))(t)
	s := l.open(t, "", token, "Last-Event-ID", old)
	s.ready(t)
	if f, want := s.next(t), (frame{event: "gap", data: fmt.Sprintf(`{"oldestAvailable":%q}`, kept)}); f != want {
		t.Errorf("gap: frame = %+v, want %+v", f, want)
	}
	resume := s.next(t)
	if resume.id < old || resume.id >= kept || resume != (frame{id: resume.id}) {
		t.Errorf("the_gap_is_passed: frame = %+v, want only an id before %s", resume, kept)
	}
	if f := s.next(t); f.id != kept {
		t.Errorf("continues_after_a_gap: frame = %+v, want %s", f, kept)
	}
}

// Promise (§4.1, §4.2): a poll returns matches at once, else the first new one, else an empty page
// with a cursor; at most 64 wait per account; more are 429; it needs order=asc and 0 to 55 whole
// seconds
func TestLongPoll(t *testing.T) {
	t.Parallel()
	l := newLive(t)
	token := l.token(t, "bob", "acct_a", store.ScopeUnstated)
	l.put("/api/resources/plan/p", token, `{}`)
	head := l.get("/api/events", token).page(t).Next
	poll := func(query string) chan answer {
		done := make(chan answer, 1)
		go func() { done <- l.get("/api/events?order=asc&"+query, token) }()
		return done
	}
	t.Run("existing_events_are_answered_at_once", func(t *testing.T) {
		if page := (<-poll("wait=55")).page(t); len(page.Data) != 1 {
			t.Errorf("page = %+v", page)
		}
		if page := (<-poll("wait=0&after=latest")).page(t); len(page.Data) != 0 || page.Next != head {
			t.Errorf("page without a wait = %+v", page)
		}
	})
	t.Run("the_first_match_is_answered", func(t *testing.T) {
		waiting := []chan answer{poll("wait=55&after=latest"), poll("wait=55&type=plan.retired"), poll("wait=55&resource=p&after=" + head)}
		l.waitFor(t, 3)
		other := l.put("/api/resources/plan/other", token, `{}`).Header().Get("Tollhouse-Event")
		own := l.put("/api/resources/plan/p?action=retired", token, `{}`).Header().Get("Tollhouse-Event")
		for i, want := range []string{other, own, own} {
			if page := (<-waiting[i]).page(t); len(page.Data) == 0 || page.Data[0].ID != want {
				t.Errorf("poll %d = %+v, want %s", i, page, want)
			}
		}
	})
	t.Run("an_empty_page_when_the_time_is_over", func(t *testing.T) {
		head := l.get("/api/events?order=asc&after=latest", token).page(t).Next
		started := time.Now()
		w := <-poll("wait=1&type=plan.never&after=" + head)
		if page := w.page(t); len(page.Data) != 0 || page.Next != head || page.HasMore || time.Since(started) < time.Second {
			t.Errorf("page = %+v after %v", page, time.Since(started))
		}
		if w.Header().Get("ETag") == "" {
			t.Error("a page of the cursor that was asked for has no ETag")
		}
	})
	// An import during the wait may add events between the cursor asked for and the one
	// that the wait has moved to. The page lacks them, so it is not that of the question.
	t.Run("a_page_past_the_cursor_asked_for_has_no_tag", func(t *testing.T) {
		question := "type=plan.never&after=" + zeroPosition
		tag := (<-poll(question)).Header().Get("ETag")
		if w := <-poll("wait=1&" + question); w.Code != http.StatusOK || tag == "" || w.Header().Get("ETag") != "" {
			t.Errorf("answer = %d with ETag %s, want none; that of the cursor asked for is %s", w.Code, w.Header().Get("ETag"), tag)
		}
	})
	t.Run("example_10_a_tag_does_not_end_a_wait", func(t *testing.T) {
		target := "/api/events?order=asc&wait=55&after=latest"
		tag := l.get("/api/events?order=asc&after=latest", token).Header().Get("ETag")
		done := make(chan answer, 1)
		go func() { done <- l.get(target, token, "If-None-Match", tag) }()
		l.waitFor(t, 1)
		l.put("/api/resources/plan/p", token, `{"n":"2"}`)
		if w := <-done; w.Code != http.StatusOK || len(w.page(t).Data) != 1 {
			t.Errorf("answer = %d %s", w.Code, w.Body)
		}
	})
	t.Run("a_revoked_token_reads_nothing_that_it_waited_for", func(t *testing.T) {
		eve := l.token(t, "eve", "acct_a", store.ScopeUnstated)
		done := make(chan answer, 1)
		go func() { done <- l.get("/api/events?order=asc&wait=55&after=latest", eve) }()
		l.waitFor(t, 1)
		must.Get(l.DisableUser(t.Context(), "eve"))(t)
		l.put("/api/resources/plan/p", token, `{"for":"those who may read"}`)
		(<-done).fault(t, http.StatusUnauthorized, "invalid_token", "")
	})
	t.Run("at_most_64_of_an_account_wait", func(t *testing.T) {
		var held []*eventlog.Watch
		for range 64 {
			w := must.Get(l.Events.WatchEvents(t.Context(), "acct_a"))(t)
			held = append(held, w)
		}
		for _, accept := range []string{"application/json", "text/event-stream"} {
			query := "?order=asc&wait=5&after=latest"
			if accept == "text/event-stream" {
				query = ""
			}
			w := l.get("/api/events"+query, token, "Accept", accept)
			w.fault(t, http.StatusTooManyRequests, "too_many_requests", "")
			if w.Header().Get("Retry-After") == "" {
				t.Errorf("%s: no Retry-After", accept)
			}
		}
		if w := l.get("/api/events", token); w.Code != http.StatusOK {
			t.Errorf("a page beside them = %d", w.Code)
		}
		for _, w := range held {
			w.Close()
		}
		if w := l.get("/api/events?order=asc&wait=1&after=latest", token); w.Code != http.StatusOK {
			t.Errorf("when they are gone = %d", w.Code)
		}
	})
}

// Eight readers come and go at random, while eight writers record: each reader gets every
// event once, in order.
//
// Promise (§4.1, §4.2): a slow reader loses nothing; readers that reconnect, over restarts and
// kills, miss nothing and see nothing twice
func TestEventStreamMissesNothing(t *testing.T) {
	t.Parallel()
	l := newLive(t)
	token := l.token(t, "bob", "acct_a", store.ScopeUnstated)
	const writers, each, readers = 8, 100, 8
	var writing, reading sync.WaitGroup
	got := make([][]string, readers)
	for i := range readers {
		reading.Go(func() {
			seen := zeroPosition
			for round := 0; len(got[i]) < writers*each; round++ {
				s := l.open(t, "", token, "Last-Event-ID", seen)
				s.ready(t)
				for stay := 1 + (i*31+round*17)%60; stay > 0 && len(got[i]) < writers*each; stay-- {
					f := s.next(t)
					if f.id == "" {
						t.Errorf("frame = %+v", f)
						return
					}
					got[i] = append(got[i], f.id)
					seen = f.id
				}
				s.close()
			}
		})
	}
	for i := range writers {
		writing.Go(func() {
			for n := range each {
				if w := l.put(fmt.Sprintf("/api/resources/plan/p%d", i), token, fmt.Sprintf(`{"n":"%d"}`, n)); w.Code >= 300 {
					t.Errorf("put = %d %s", w.Code, w.Body)
				}
			}
		})
	}
	writing.Wait()
	reading.Wait()
	page := l.get("/api/events?order=asc&limit=1000", token).page(t)
	for i := range got {
		if !slices.Equal(got[i], page.ids()) {
			t.Errorf("no_seam: reader %d got %d events that are not the %d of the log in order", i, len(got[i]), len(page.Data))
		}
	}
}

// A reader that does not read delays no other, and gets everything when it does.
//
// Promise (§4.1, §4.2): a slow reader loses nothing; readers that reconnect, over restarts and
// kills, miss nothing and see nothing twice
func TestEventStreamOfASlowReader(t *testing.T) {
	t.Parallel()
	l := newLive(t)
	token := l.token(t, "bob", "acct_a", store.ScopeUnstated)
	conn := must.Get(net.Dial("tcp", strings.TrimPrefix(l.url, "http://")))(t)
	defer conn.Close()
	fmt.Fprintf(conn, "GET /api/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nAccept: text/event-stream\r\n\r\n", token)
	l.waitFor(t, 1)
	const events = 600
	note := strings.Repeat("a long note ", 1500) // 18 KB, so that no buffer on the way holds them all
	for i := range events {
		if w := l.put("/api/resources/plan/p", token, fmt.Sprintf(`{"n":"%d","note":%q}`, i, note)); w.Code >= 300 {
			t.Fatalf("put = %d %s", w.Code, w.Body)
		}
	}
	_ = conn.SetReadDeadline(time.Now().Add(livePatience))
	answer := must.Get(http.ReadResponse(bufio.NewReader(conn), nil))(t)
	s := &stream{Response: answer, frames: make(chan frame, events+8), cancel: func() {}}
	go s.read()
	s.ready(t)
	for i := range events {
		f := s.next(t)
		var e struct {
			EventData struct{ Object struct{ N string } }
		}
		if err := json.Unmarshal([]byte(f.data), &e); err != nil || e.EventData.Object.N != fmt.Sprint(i) {
			t.Fatalf("slow_but_never_lossy: event %d is %.80s %v", i, f.data, err)
		}
	}
}

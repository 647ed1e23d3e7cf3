package handlers

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

const feedKept = 24 * time.Hour

// feedAPI is an API whose store keeps a feed.
func feedAPI(t *testing.T) *apiHouse {
	t.Helper()
	a := parallelAPI(t)
	must.Do(t, a.Events.SetFeed(context.Background(), feedKept))
	return a
}

// feedPage is a page of the feed.
type feedPage struct {
	Object string
	Data   []struct {
		ID, Owner, Type, Resource string
		CreatedAt                 int64
	}
	HasMore                    bool
	NextCursor, PreviousCursor string
}

func (p feedPage) resources() (all []string) {
	for _, e := range p.Data {
		all = append(all, e.Owner+" "+e.Resource)
	}
	return all
}

// feed reads a page as the operator.
func (a *apiHouse) feed(t testing.TB, query string) feedPage {
	t.Helper()
	w := a.admin(http.MethodGet, api.FeedPath+query, nil)
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("GET %s = %d %s", query, w.Code, w.Body)
	}
	var page feedPage
	must.Do(t, json.Unmarshal(w.Body.Bytes(), &page))
	return page
}

func (a *apiHouse) record(t testing.TB, account, typ, resource string) {
	t.Helper()
	body := fmt.Sprintf(`{"type":%q,"resource":%q,"eventData":{"object":{}}}`, typ, resource)
	if w := a.admin(http.MethodPost, "/admin/events?account="+account, strings.NewReader(body), "Content-Type", "application/json"); w.Code != http.StatusCreated {
		t.Fatalf("record = %d %s", w.Code, w.Body)
	}
}

// Promise (Platform §6): GET /api/platform/events reads all accounts oldest first, by page, wait,
// NDJSON or stream; types take wildcards, rows name their account, cursors are fd_ positions
func TestFeedPage(t *testing.T) {
	a := feedAPI(t)
	a.record(t, "acct_a", "plan.created", "r1")
	a.record(t, "acct_b", "plan.created", "r2")
	a.record(t, "acct_a", "plan.updated", "r1")
	a.record(t, "acct_c", "price.created", "r3")
	t.Run("a_walk_meets_each_event_once_in_the_order_of_recording", func(t *testing.T) {
		t.Parallel()
		var all []string
		for cursor, more := "start", true; more; {
			page := a.feed(t, "?limit=3&after="+cursor)
			all, cursor, more = append(all, page.resources()...), page.NextCursor, page.HasMore
			if page.Object != "list" || !strings.HasPrefix(page.NextCursor, "fd_") || !strings.HasPrefix(page.PreviousCursor, "fd_") || len(page.NextCursor) != 16 {
				t.Errorf("page = %+v", page)
			}
		}
		if want := []string{"acct_a r1", "acct_b r2", "acct_a r1", "acct_c r3"}; !slices.Equal(all, want) {
			t.Errorf("the walk met %v, want %v", all, want)
		}
	})
	t.Run("filters", func(t *testing.T) {
		t.Parallel()
		for query, want := range map[string]string{
			"type=plan.*": "acct_a r1,acct_b r2,acct_a r1", "type=*.created&resource=r2,r3": "acct_b r2,acct_c r3", "type[]=price.created&type[]=plan.updated": "acct_a r1,acct_c r3",
			"type=*": "acct_a r1,acct_b r2,acct_a r1,acct_c r3", "type=plan.lost": "", "resource=r1&limit=1": "acct_a r1",
		} {
			if got := strings.Join(a.feed(t, "?after=start&"+query).resources(), ","); got != want {
				t.Errorf("%s: %q, want %q", query, got, want)
			}
		}
	})
	t.Run("latest_is_behind_all_and_stays_while_nothing_is_recorded", func(t *testing.T) {
		t.Parallel()
		latest := a.feed(t, "?after=latest")
		if len(latest.Data) != 0 || latest.HasMore || latest.NextCursor != latest.PreviousCursor {
			t.Errorf("latest = %+v", latest)
		}
		if again := a.feed(t, "?after="+latest.NextCursor); again.NextCursor != latest.NextCursor {
			t.Errorf("again = %+v, want the same cursor as %+v", again, latest)
		}
		filtered := a.feed(t, "?after=start&type=plan.lost")
		if filtered.NextCursor != latest.NextCursor {
			t.Errorf("a page without a match ends at %s, want %s", filtered.NextCursor, latest.NextCursor)
		}
	})
	t.Run("headers", func(t *testing.T) {
		t.Parallel()
		page := a.feed(t, "?after=start&limit=2")
		w := a.admin(http.MethodGet, api.FeedPath+"?after=start&limit=2", nil, "Accept", "application/x-ndjson")
		lines := strings.Split(strings.TrimSpace(w.Body.String()), "\n")
		if w.Header().Get("Tollhouse-Next-Cursor") != page.NextCursor || len(lines) != 2 || !json.Valid([]byte(lines[0])) || w.Header().Get("ETag") != "" {
			t.Errorf("as NDJSON: %v\n%s", w.Header(), w.Body)
		}
		if link, want := w.Header().Get("Link"), fmt.Sprintf(`<%s?limit=2&after=%s>; rel="next"`, api.FeedPath, page.NextCursor); link != want {
			t.Errorf("Link: %s, want %s", link, want)
		}
	})
}

// Promise (Platform §6): an event id at the feed, or a feed position at /api/events, is 400
// invalid_cursor that says what it is; order, before, createdAt and account are unknown; after is
// required
func TestFeedRefusals(t *testing.T) {
	a := feedAPI(t)
	a.record(t, "acct_a", "plan.created", "r1")
	page := a.feed(t, "?after=start")
	token := a.token(t, "ann", "acct_a", store.ScopeUnstated)
	stream := []string{"Accept", "text/event-stream"}
	t.Run("at_the_feed", func(t *testing.T) {
		for query, want := range map[string][2]string{
			"":                                     {"invalid_parameter", "after"},
			"?limit=5":                             {"invalid_parameter", "after"},
			"?after=":                              {"invalid_cursor", "after"},
			"?after=fd_0":                          {"invalid_cursor", "after"},
			"?after=FD_0000000000000":              {"invalid_cursor", "after"},
			"?after=fd_g000000000000":              {"invalid_cursor", "after"},
			"?after=some-id":                       {"invalid_cursor", "after"},
			"?after=" + page.Data[0].ID:            {"invalid_cursor", "after"},
			"?after=start&after=latest":            {"duplicate_parameter", "after"},
			"?after=start&limit=0":                 {"invalid_parameter", "limit"},
			"?after=start&limit=1001":              {"invalid_parameter", "limit"},
			"?after=start&wait=56":                 {"invalid_parameter", "wait"},
			"?after=start&type=plan":               {"invalid_parameter", "type"},
			"?after=start&resource=":               {"invalid_parameter", "resource"},
			"?after=start&order=asc":               {"unknown_parameter", "order"},
			"?after=start&before=" + "fd_0":        {"unknown_parameter", "before"},
			"?after=start&createdAt[gte]=1":        {"unknown_parameter", "createdAt[gte]"},
			"?after=start&account=acct_a":          {"unknown_parameter", "account"},
			"?starting_after=" + page.NextCursor:   {"unknown_parameter", "starting_after"},
			"?after=start&sort=asc":                {"unknown_parameter", "sort"},
			"?after=start&limit=5&page=1&per_page": {"unknown_parameter", "page"},
		} {
			a.admin(http.MethodGet, api.FeedPath+query, nil).fault(t, http.StatusBadRequest, want[0], want[1])
		}
		a.admin(http.MethodGet, api.FeedPath, nil, stream...).fault(t, http.StatusBadRequest, "invalid_parameter", "after")
		a.admin(http.MethodGet, api.FeedPath+"?after=start&limit=5", nil, stream...).fault(t, http.StatusBadRequest, "invalid_parameter", "limit")
		a.admin(http.MethodGet, api.FeedPath+"?after=start&wait=5", nil, stream...).fault(t, http.StatusBadRequest, "invalid_parameter", "wait")
		a.admin(http.MethodGet, api.FeedPath+"?after=start", nil, append(stream, "Last-Event-ID", page.Data[0].ID)...).fault(t, http.StatusBadRequest, "invalid_cursor", "Last-Event-ID")
		a.admin(http.MethodGet, api.FeedPath+"?after=start", nil, append(stream, "Last-Event-ID", "latest")...).fault(t, http.StatusBadRequest, "invalid_cursor", "Last-Event-ID")
		a.admin(http.MethodGet, api.FeedPath+"?after=start", nil, "Accept", "text/html").fault(t, http.StatusNotAcceptable, "not_acceptable", "")
		for query, says := range map[string]string{"?after=" + page.Data[0].ID: "id of an event", "?after=some-id": "start or latest", "?starting_after=x": "did you mean after?"} {
			if w := a.admin(http.MethodGet, api.FeedPath+query, nil); !strings.Contains(w.Body.String(), says) {
				t.Errorf("%s: %s does not say %q", query, w.Body, says)
			}
		}
		if w := a.admin(http.MethodGet, api.FeedPath+"?after=start&sort=asc", nil); strings.Contains(w.Body.String(), "did you mean") {
			t.Errorf("it suggests a parameter that the feed does not have: %s", w.Body)
		}
	})
	t.Run("at_the_events_of_an_account", func(t *testing.T) {
		for _, w := range []answer{
			a.get("/api/events?after="+page.NextCursor, token), a.get("/api/events?before="+page.NextCursor, token), a.get("/api/events?after="+page.NextCursor, token, stream...),
		} {
			if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "invalid_cursor") || !strings.Contains(w.Body.String(), "is a position in the feed of all accounts") {
				t.Errorf("%d %s, want invalid_cursor that names the feed", w.Code, w.Body)
			}
		}
		a.get("/api/events", token, append(stream, "Last-Event-ID", page.NextCursor)...).fault(t, http.StatusBadRequest, "invalid_cursor", "Last-Event-ID")
		a.admin(http.MethodGet, "/admin/events?account=acct_a&after="+page.NextCursor, nil).fault(t, http.StatusBadRequest, "invalid_cursor", "after")
		a.admin(http.MethodGet, "/admin/events?account=*", nil).fault(t, http.StatusNotFound, "not_found", "")
	})
	t.Run("that_has_expired", func(t *testing.T) {
		a.Clock.Advance(feedKept + time.Second)
		a.record(t, "acct_b", "plan.created", "r2")
		must.Get(a.TrimEvents(t.Context()))(t)
		w := a.admin(http.MethodGet, api.FeedPath+"?after="+page.PreviousCursor, nil) // which is what was removed
		if w.Code != http.StatusOK {
			t.Errorf("continuing behind what was removed = %d %s", w.Code, w.Body)
		}
		expired := a.admin(http.MethodGet, api.FeedPath+"?after=fd_0000000000000", nil)
		expired.fault(t, http.StatusGone, "cursor_expired", "after")
		oldest := decodeObject(t, expired.Body.Bytes())["oldestAvailable"]
		if left := a.feed(t, "?after=start"); oldest != left.PreviousCursor || len(left.Data) != 1 {
			t.Errorf("oldestAvailable is %v, and the feed begins with %+v", oldest, left)
		}
	})
	t.Run("that_is_off", func(t *testing.T) {
		must.Do(t, a.Events.SetFeed(context.Background(), 0))
		for _, query := range []string{"?after=start", "?after=latest&wait=55", "?after=" + page.NextCursor} {
			a.admin(http.MethodGet, api.FeedPath+query, nil).fault(t, http.StatusConflict, "feed_off", "")
		}
		a.admin(http.MethodGet, api.FeedPath+"?after=latest", nil, stream...).fault(t, http.StatusConflict, "feed_off", "")
	})
}

// listenAdmin serves the admin API over TCP.
func listenAdmin(t *testing.T, a *apiHouse) (url string) {
	t.Helper()
	a.server.API.HeartbeatEvery = time.Hour // on a busy machine a test may outlast a heartbeat
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	srv := web.NewHTTPServer(a.operators, slog.New(slog.DiscardHandler))
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })
	return "http://" + l.Addr().String()
}

func (a *apiHouse) waitForReaders(t *testing.T, n int) {
	t.Helper()
	for deadline := time.Now().Add(livePatience); a.Counts().LiveReaders < n; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d readers wait, want %d", a.Counts().LiveReaders, n)
		}
	}
}

func TestFeedWait(t *testing.T) {
	a := feedAPI(t)
	url := listenAdmin(t, a)
	answered := make(chan feedPage, 1)
	go func() {
		var page feedPage
		if w, err := http.Get(url + api.FeedPath + "?after=latest&wait=55&type=plan.*"); err == nil {
			_ = json.NewDecoder(w.Body).Decode(&page)
			w.Body.Close()
		}
		answered <- page
	}()
	a.waitForReaders(t, 1)
	a.record(t, "acct_a", "price.created", "r1") // does not match
	a.record(t, "acct_b", "plan.created", "r2")
	if page := <-answered; !slices.Equal(page.resources(), []string{"acct_b r2"}) {
		t.Errorf("the wait ended with %+v", page)
	}
}

// Promise (Platform §6): the stream's id is the feed position, Last-Event-ID goes before after; frames
// backfill name account, from and to, and gap the oldest position left
func TestFeedStream(t *testing.T) {
	a := feedAPI(t)
	url := listenAdmin(t, a) + api.FeedPath
	a.record(t, "acct_a", "plan.created", "r1")
	s := openStream(t, url+"?after=start")
	if at := s.ready(t); !strings.HasPrefix(at, "fd_") {
		t.Errorf("the stream begins at %s", at)
	}
	first := s.next(t)
	a.record(t, "acct_b", "plan.updated", "r2")
	second := s.next(t)
	for i, f := range []frame{first, second} {
		owner := decodeObject(t, []byte(f.data))["owner"]
		if f.event != "" || len(f.id) != 16 || !strings.HasPrefix(f.id, "fd_") || owner != []string{"acct_a", "acct_b"}[i] {
			t.Errorf("frame %d is %+v", i, f)
		}
	}
	t.Run("resumes", func(t *testing.T) {
		again := openStream(t, url+"?after=latest", "Last-Event-ID", first.id)
		if at := again.ready(t); at != first.id {
			t.Errorf("it resumes at %s, want %s", at, first.id)
		}
		if f := again.next(t); f.id != second.id {
			t.Errorf("it resumes with %+v, want %+v", f, second)
		}
	})
	t.Run("without_after_but_with_an_id", func(t *testing.T) {
		again := openStream(t, url, "Last-Event-ID", second.id)
		if at := again.ready(t); at != second.id {
			t.Errorf("it resumes at %s, want %s", at, second.id)
		}
	})
	t.Run("backfill", func(t *testing.T) {
		a.importLines(t, "acct_a", a.lineOf("old-1", "plan.created", "p1", 3*time.Hour)+a.lineOf("old-2", "plan.created", "p1", time.Hour))
		f := s.next(t)
		var data struct{ Account, From, To string }
		must.Do(t, json.Unmarshal([]byte(f.data), &data))
		log := a.admin(http.MethodGet, "/admin/events?account=acct_a&order=asc&before="+data.To, nil)
		if f.event != "backfill" || f.id != "" || data.Account != "acct_a" || !strings.HasPrefix(data.From, "evt_") || !strings.Contains(log.Body.String(), `"old-1"`) {
			t.Errorf("the frame is %+v", f)
		}
		a.record(t, "acct_c", "plan.created", "r3")
		if f := s.next(t); decodeObject(t, []byte(f.data))["owner"] != "acct_c" {
			t.Errorf("behind it: %+v", f)
		}
		away := openStream(t, url, "Last-Event-ID", second.id)
		away.ready(t)
		if again := away.next(t); again != f {
			t.Errorf("a reader that was away during the import gets %+v, want %+v", again, f)
		}
	})
	t.Run("gap", func(t *testing.T) {
		a.Clock.Advance(feedKept + time.Second)
		a.record(t, "acct_d", "plan.created", "r4")
		must.Get(a.TrimEvents(t.Context()))(t)
		late := openStream(t, url+"?after="+first.id)
		if at := late.ready(t); at != first.id {
			t.Errorf("it begins at %s, want %s", at, first.id)
		}
		gap := late.next(t)
		var data struct{ OldestAvailable string }
		must.Do(t, json.Unmarshal([]byte(gap.data), &data))
		next := late.next(t)
		if gap.event != "gap" || data.OldestAvailable == "" {
			t.Errorf("the frame is %+v", gap)
		}
		if gap.id == "" && next.data == "" {
			next = late.next(t) // the position behind the gap, alone
		}
		if next.id != data.OldestAvailable || decodeObject(t, []byte(next.data))["owner"] != "acct_d" {
			t.Errorf("behind the gap %+v comes %+v", gap, next)
		}
	})
	if n := a.Counts().LiveReaders; n == 0 {
		t.Error("streams of the feed are not counted")
	}
	if _, err := a.Events.WatchEvents(t.Context(), eventlog.AllAccounts); err != nil {
		t.Error(err)
	}
}

func TestWebhookOfAllAccounts(t *testing.T) {
	a := parallelAPI(t)
	const path, body, plain = "/admin/webhook-endpoints", `{"url":"https://hooks.example.com/all"}`, "application/json"
	post := func(target, body string) answer {
		return a.admin(http.MethodPost, target, strings.NewReader(body), "Content-Type", plain)
	}
	post(path+"?account=*", body).fault(t, http.StatusConflict, "feed_off", "")
	must.Do(t, a.Events.SetFeed(context.Background(), feedKept))
	made := post(path+"?account=*", body)
	shown := decodeObject(t, made.Body.Bytes())
	if made.Code != http.StatusCreated || shown["account"] != "*" || shown["order"] != "none" || !strings.HasPrefix(shown["cursor"].(string), "fd_") {
		t.Fatalf("create = %d %s", made.Code, made.Body)
	}
	id := shown["id"].(string)
	for query, want := range map[string]int{"?account=*": 1, "": 1} {
		list := decodeObject(t, a.admin(http.MethodGet, path+query, nil).Body.Bytes())
		if data := list["data"].([]any); len(data) != want {
			t.Errorf("list%s = %v", query, data)
		}
	}
	for _, order := range []string{`"strict"`, `null`} {
		w := a.admin(http.MethodPatch, path+"/"+id, strings.NewReader(`{"order":`+order+`}`), "Content-Type", web.MergePatchType)
		if want := map[string]string{`"strict"`: "strict", `null`: "none"}[order]; decodeObject(t, w.Body.Bytes())["order"] != want {
			t.Errorf("order %s = %d %s, want %s", order, w.Code, w.Body, want)
		}
	}
	post(path+"/"+id+"/enable", `{"from":"evt_01kk9kgbjj00023m5qehe9m3gk"}`).fault(t, http.StatusBadRequest, "invalid_parameter", "from")
	post(path+"?account=acct_none", body).fault(t, http.StatusNotFound, "not_found", "")
	token := a.token(t, "ann", "acct_a", store.ScopeUnstated)
	a.request(http.MethodPost, api.WebhooksPath+"?account=*", token, strings.NewReader(body), "Content-Type", plain).fault(t, http.StatusBadRequest, "unknown_parameter", "account")
	if w := a.get(api.WebhooksPath+"/"+id, token); w.Code != http.StatusNotFound {
		t.Errorf("a token of an account finds it: %d %s", w.Code, w.Body)
	}
}

// Promise (Platform §6): the feed needs accounts:act and events:read; a token for one account, of a
// user or with one of the two alone is 403, and its readers count among the client's 64
func TestFeedByPlatformClients(t *testing.T) {
	a := feedAPI(t)
	l := listenLive(t, a)
	a.record(t, "acct_a", "plan.created", "r1")
	token := func(account string, scopes ...string) string {
		c, _ := a.Client(t, storetest.Platform(scopes...))
		scope := c.Scope
		if account != "" {
			scope = store.ScopeEventsRead
		}
		return must.Get(a.IssueForClient(t.Context(), store.By{}, c, account, scope))(t).AccessToken.Reveal()
	}
	both := token("", "accounts:act", "events:read")
	const path = api.FeedPath + "?after=start"
	get := func(path, token string, headers ...string) answer { // from this machine: elsewhere there is no such address
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Host, r.RemoteAddr = "127.0.0.1:8080", "127.0.0.1:40000"
		r.Header.Set("Authorization", "Bearer "+token)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		a.server.Public().ServeHTTP(w, r)
		return answer{w}
	}
	if w := get(path, both); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"owner":"acct_a"`) {
		t.Errorf("the feed = %d %s", w.Code, w.Body)
	}
	for name, refused := range map[string]string{
		"accounts:act": token("", "accounts:act"), "events:read": token("", "events:read"), "one account": token("acct_a", "accounts:act", "events:read"), "a user": a.token(t, "ann", "acct_a", store.ScopeUnstated),
	} {
		if w := get(path, refused); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "insufficient_scope") {
			t.Errorf("%s alone: %d %s", name, w.Code, w.Body)
		}
	}
	get(path, both, web.AccountHeader, "acct_a").fault(t, http.StatusBadRequest, "invalid_parameter", web.AccountHeader)
	l.hold(t, 32, both, "acct_a")
	for range 32 {
		openStream(t, l.url+path, "Authorization", "Bearer "+both).ready(t)
	}
	get(path+"&wait=1", both).fault(t, http.StatusTooManyRequests, "too_many_requests", "")
}

// slowFeed is an engine in which a search of the feed takes a time. It notes when each began.
type slowFeed struct {
	kv.DB
	took time.Duration

	mu    sync.Mutex
	begun []time.Time
}

func (d *slowFeed) View(ctx context.Context, fn func(kv.Reader) error) error {
	return d.DB.View(ctx, func(r kv.Reader) error { return fn(&slowFeedReader{Reader: r, db: d}) })
}

func (d *slowFeed) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begun = nil
}

type slowFeedReader struct {
	kv.Reader
	db  *slowFeed
	any bool
}

func (r *slowFeedReader) Scan(of kv.Range) iter.Seq2[[]byte, []byte] {
	if !r.any && !of.KeysOnly && of.Lo[0] == record.TagFeed {
		r.any = true
		r.db.mu.Lock()
		r.db.begun = append(r.db.begun, time.Now())
		r.db.mu.Unlock()
		time.Sleep(r.db.took)
	}
	return r.Reader.Scan(of)
}

// TestSearchesOfALongFeedPause: a stream or a wait for a rare type rests for as long as each
// part of its search took, however often it is woken.
func TestSearchesOfALongFeedPause(t *testing.T) {
	t.Parallel()
	db := &slowFeed{DB: storetest.EmptyInMemory(), took: 30 * time.Millisecond}
	a := serveAPI(t, storetest.Open(t, db, storetest.NewClock()))
	must.Do(t, a.Events.SetFeed(t.Context(), feedKept))
	var lines strings.Builder
	for i := range 2*eventlog.SearchedMax + 10 {
		lines.WriteString(a.lineOf(fmt.Sprint("many-", i), "plan.updated", "r1", 0))
	}
	a.importLines(t, "acct_a", lines.String())
	a.record(t, "acct_b", "price.created", "r2")
	url := listenAdmin(t, a) + api.FeedPath + "?after=start&type=price.*"
	wake := make(chan struct{})
	go func() {
		defer close(wake)
		for range 20 {
			a.Events.Recorded("acct_a")
			time.Sleep(5 * time.Millisecond)
		}
	}()
	for name, read := range map[string]func() string{
		"stream": func() string {
			s := openStream(t, url)
			defer s.close()
			s.ready(t)
			return s.next(t).data
		},
		"wait": func() string {
			w := must.Get(http.Get(url + "&wait=55"))(t)
			defer w.Body.Close()
			return string(must.Get(io.ReadAll(w.Body))(t))
		},
	} {
		db.forget()
		if got := read(); !strings.Contains(got, `"owner":"acct_b"`) {
			t.Errorf("the %s has %s, want the event of acct_b", name, got)
		}
		db.mu.Lock()
		if len(db.begun) < 3 {
			t.Errorf("the %s searched %d times, want 3", name, len(db.begun))
		}
		pauses := 0
		for i := 1; i < len(db.begun); i++ {
			if db.begun[i].Sub(db.begun[i-1]) >= 2*db.took {
				pauses++
			}
		}
		if pauses < 2 {
			t.Errorf("the %s began its searches at %v, want two pauses", name, db.begun)
		}
		db.mu.Unlock()
	}
	<-wake
}

package server

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

	"tollhouse/cli/datadir"
	"tollhouse/handlers"
	"tollhouse/handlers/dev"
	"tollhouse/handlers/web"
	"tollhouse/store/eventlog"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest/must"
)

// testInstance is an instance of dev that answers over TCP.
type testInstance struct {
	*running
	t    testing.TB
	url  string
	demo *web.Demo
}

func newTestInstance(t testing.TB, change func(*devFlags)) *testInstance {
	t.Helper()
	f := devFlags{engine: datadir.EngineMemory}
	change(&f)
	r := &running{log: quiet, logDropped: func() uint64 { return 0 }, listeners: must.Get(listenAll([]string{"127.0.0.1:0"}))(t), metrics: newMetrics(), fatal: make(chan error, 1)}
	i := &testInstance{running: r, t: t, url: baseURL(r.listeners[0]).String()}
	i.demo = must.Get(r.begin(t.Context(), f, nil))(t)
	server := &httptest.Server{Listener: r.listeners[0], Config: &http.Server{Handler: r.handler((*handlers.Server).Public)}}
	server.Start()
	t.Cleanup(func() {
		r.server().API.Drain() // ends streams
		server.Close()
		must.Do(t, r.data().Close())
	})
	return i
}

func plain(*devFlags) {}

// predictable makes every run the same.
func predictable(f *devFlags) {
	f.seeded, f.randSeed = true, 7
	f.clock.Time = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
}

// reply is the status and the body of an answer.
type reply struct {
	status int
	body   string
}

func (i *testInstance) ask(method, path, token, body string) reply {
	i.t.Helper()
	got, err := i.try(method, path, token, body)
	must.Do(i.t, err)
	return got
}

func (i *testInstance) try(method, path, token, body string) (reply, error) {
	req, err := http.NewRequestWithContext(i.t.Context(), method, i.url+path, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	switch {
	case strings.HasPrefix(body, "grant_type"):
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	case body != "":
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return reply{res.StatusCode, string(text)}, err
}

// want fails the test unless the answer has the status.
func (i *testInstance) want(status int, method, path, token, body string) string {
	i.t.Helper()
	got := i.ask(method, path, token, body)
	if got.status != status {
		i.t.Fatalf("%s %s: %d %s, want %d", method, path, got.status, got.body, status)
	}
	return got.body
}

func (i *testInstance) password() string {
	return url.Values{
		"grant_type": {"password"}, "client_id": {i.demo.ClientID}, "client_secret": {i.demo.ClientSecret},
		"username": {i.demo.Username}, "password": {i.demo.Password},
	}.Encode()
}

func (i *testInstance) refresh(token string) string {
	return url.Values{"grant_type": {"refresh_token"}, "client_id": {i.demo.ClientID}, "client_secret": {i.demo.ClientSecret}, "refresh_token": {token}}.Encode()
}

type pair struct {
	Access  string `json:"access_token"`
	Refresh string `json:"refresh_token"`
}

func (i *testInstance) tokens() (p pair) {
	i.t.Helper()
	// The members of Encode are sorted, so that grant_type is not the first.
	must.Do(i.t, json.Unmarshal([]byte(i.want(http.StatusOK, "POST", "/oauth/v2/token", "", asForm(i.password()))), &p))
	return p
}

// asForm puts grant_type first.
func asForm(query string) string {
	values, _ := url.ParseQuery(query)
	first := "grant_type=" + values.Get("grant_type")
	values.Del("grant_type")
	return first + "&" + values.Encode()
}

func (i *testInstance) state() (state struct {
	Events, Resets int
	Snapshots      []string
	Clock          struct{ Now string }
}) {
	i.t.Helper()
	must.Do(i.t, json.Unmarshal([]byte(i.want(http.StatusOK, "GET", "/_dev/state", "", "")), &state))
	return state
}

func (i *testInstance) change(token string) {
	i.t.Helper()
	i.want(http.StatusCreated, "PUT", "/api/resources/customer/cus_new", token, `{"displayName":"Larkspur Tea Room"}`)
}

func TestResetGoesBackToTheBeginning(t *testing.T) {
	t.Parallel()
	for _, engine := range []datadir.EngineName{datadir.EngineMemory, datadir.EngineBadger} {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			i := newTestInstance(t, func(f *devFlags) { predictable(f); f.engine = engine })
			begun := i.state()
			first := i.tokens()
			i.change(first.Access)
			i.want(http.StatusOK, "POST", "/_dev/clock", "", `{"advance":"30m"}`)
			if s := i.state(); s.Events != begun.Events+1 || s.Clock == begun.Clock {
				t.Fatalf("state %+v after a change and a move of the clock, before it %+v", s, begun)
			}
			i.want(http.StatusCreated, "POST", "/_dev/snapshot", "", `{"name":"changed"}`)
			i.want(http.StatusNoContent, "POST", "/_dev/reset", "", "")

			s := i.state()
			if s.Events != begun.Events || s.Clock != begun.Clock || s.Resets != 1 || !slices.Equal(s.Snapshots, []string{"changed"}) {
				t.Errorf("state %+v after the reset, at the beginning %+v", s, begun)
			}
			i.want(http.StatusUnauthorized, "GET", "/api/events", first.Access, "")
			i.want(http.StatusBadRequest, "POST", "/oauth/v2/token", "", asForm(i.refresh(first.Refresh)))
			if again := i.tokens(); again != first {
				t.Errorf("tokens %+v after the reset, %+v before it", again, first)
			}
		})
	}
}

func TestRestoreGoesBackToASnapshotEachTime(t *testing.T) {
	t.Parallel()
	i := newTestInstance(t, plain)
	kept := i.tokens()
	i.change(kept.Access)
	events := i.state().Events
	if got := i.want(http.StatusCreated, "POST", "/_dev/snapshot", "", ""); !strings.Contains(got, fmt.Sprintf(`"events":%d`, events)) || !strings.Contains(got, `"name":"default"`) {
		t.Errorf("snapshot %s, want %d events", got, events)
	}
	i.want(http.StatusOK, "POST", "/_dev/snapshot", "", `{"name":"default"}`)
	for range 2 {
		i.want(http.StatusOK, "POST", "/oauth/v2/token", "", asForm(i.refresh(kept.Refresh))) // spent
		since := i.tokens()
		i.want(http.StatusOK, "POST", "/oauth/v2/revoke", "", asForm(i.refresh(kept.Refresh))+"&token="+kept.Access) // and revoked
		i.want(http.StatusUnauthorized, "GET", "/api/events", kept.Access, "")
		i.want(http.StatusNoContent, "POST", "/_dev/restore", "", "")
		i.want(http.StatusOK, "GET", "/api/events", kept.Access, "")
		i.want(http.StatusUnauthorized, "GET", "/api/events", since.Access, "")
		if s := i.state(); s.Events != events {
			t.Errorf("%d events after the restore, want %d", s.Events, events)
		}
	}
	if got := i.want(http.StatusNotFound, "POST", "/_dev/restore", "", `{"name":"paid"}`); !strings.Contains(got, "default") {
		t.Errorf("unknown snapshot: %s, want the known names", got)
	}
	i.want(http.StatusNoContent, "DELETE", "/_dev/snapshots/default", "", "")
	i.want(http.StatusNotFound, "POST", "/_dev/restore", "", "")
}

func TestAtMost32Snapshots(t *testing.T) {
	t.Parallel()
	i := newTestInstance(t, plain)
	for n := range dev.SnapshotsMax {
		i.want(http.StatusCreated, "POST", "/_dev/snapshot", "", fmt.Sprintf(`{"name":"s%d"}`, n))
	}
	i.want(http.StatusConflict, "POST", "/_dev/snapshot", "", "")
	i.want(http.StatusOK, "POST", "/_dev/snapshot", "", `{"name":"s7"}`)
	i.want(http.StatusNoContent, "DELETE", "/_dev/snapshots", "", "")
	i.want(http.StatusCreated, "POST", "/_dev/snapshot", "", "")
}

// TestWritersThroughResets: whoever writes through resets gets whole answers.
func TestWritersThroughResets(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	const writers, resets = 8, 200
	i := newTestInstance(t, plain)
	begun := i.state().Events
	done := make(chan struct{})
	seen := make(chan int, 1<<16)
	var work sync.WaitGroup
	for n := range writers {
		work.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				got, err := i.try("POST", "/oauth/v2/token", "", asForm(i.password()))
				var p pair
				if err == nil && got.status == http.StatusOK {
					seen <- got.status
					err = json.Unmarshal([]byte(got.body), &p)
				}
				if err == nil {
					got, err = i.try("PUT", fmt.Sprint("/api/resources/customer/cus_", n), p.Access, `{"displayName":"Larkspur"}`)
				}
				if err != nil {
					t.Error(err)
					return
				}
				seen <- got.status
				if got.status/100 != 2 && got.status != http.StatusUnauthorized && got.status != http.StatusNotFound {
					t.Errorf("a writer got %d %s", got.status, got.body)
				}
			}
		})
	}
	for range resets {
		i.want(http.StatusNoContent, "POST", "/_dev/reset", "", "")
	}
	close(done)
	go func() { work.Wait(); close(seen) }()
	statuses := map[int]int{}
	for status := range seen {
		statuses[status]++
	}
	if statuses[http.StatusOK] == 0 {
		t.Errorf("statuses %v, want some successes", statuses)
	}
	i.want(http.StatusNoContent, "POST", "/_dev/reset", "", "")
	if s := i.state(); s.Events != begun || s.Resets != resets+1 {
		t.Errorf("%d events and %d resets at the end, want %d and %d", s.Events, s.Resets, begun, resets+1)
	}
}

// TestRequestUnderWayEndsOnItsOwnState: a reset neither waits for a long request nor
// lets it leave anything behind.
// sendSlowly begins a request, calls meanwhile once the instance has it, and returns the
// status of its answer.
func (i *testInstance) sendSlowly(method, path, token, body string, meanwhile func()) int {
	i.t.Helper()
	in, send := io.Pipe()
	req := must.Get(http.NewRequestWithContext(i.t.Context(), method, i.url+path, in))(i.t)
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	answered := make(chan int, 1)
	go func() {
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			i.t.Error(err)
			answered <- 0
			return
		}
		_ = res.Body.Close()
		answered <- res.StatusCode
	}()
	must.Get(io.WriteString(send, body[:1]))(i.t)
	before := i.current.Load()
	for entered := false; !entered; runtime.Gosched() {
		before.mu.Lock()
		entered = before.inFlight > 0
		before.mu.Unlock()
	}
	meanwhile()
	must.Get(io.WriteString(send, body[1:]))(i.t)
	must.Do(i.t, send.Close())
	return <-answered
}

func TestRequestUnderWayEndsOnItsOwnState(t *testing.T) {
	t.Parallel()
	i := newTestInstance(t, plain)
	begun, token := i.state().Events, i.tokens().Access
	status := i.sendSlowly("PUT", "/api/resources/customer/cus_slow", token, `{"displayName":"Larkspur"}`, func() {
		i.want(http.StatusNoContent, "POST", "/_dev/reset", "", "")
	})
	if status != http.StatusCreated {
		t.Errorf("the request that was under way got %d, want %d", status, http.StatusCreated)
	}
	if s := i.state(); s.Events != begun {
		t.Errorf("%d events after the reset, want %d", s.Events, begun)
	}
}

func TestSeedUnderWayEndsOnItsOwnState(t *testing.T) {
	t.Parallel()
	const client = `[{"client":{"client_id":"till","redirect_uris":["http://app/callback"]}}]`
	i := newTestInstance(t, predictable)
	first := i.want(http.StatusCreated, "POST", "/_dev/seed", "", client)
	i.want(http.StatusNoContent, "POST", "/_dev/reset", "", "")
	status := i.sendSlowly("POST", "/_dev/seed", "", client, func() {
		i.want(http.StatusNoContent, "POST", "/_dev/reset", "", "")
	})
	if status != http.StatusCreated {
		t.Errorf("the seed that was under way got %d, want %d", status, http.StatusCreated)
	}
	if again := i.want(http.StatusCreated, "POST", "/_dev/seed", "", client); again != first {
		t.Errorf("a seed after the reset made %s, want %s as before it", again, first)
	}
}

func TestResetEndsStreamsAndLongPolls(t *testing.T) {
	t.Parallel()
	i := newTestInstance(t, plain)
	token := i.tokens().Access
	req := must.Get(http.NewRequestWithContext(t.Context(), "GET", i.url+"/api/events", nil))(t)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Accept", "text/event-stream")
	res := must.Get(http.DefaultClient.Do(req))(t)
	defer res.Body.Close()
	stream := bufio.NewReader(res.Body)
	must.Get(stream.ReadByte())(t)

	i.want(http.StatusNoContent, "POST", "/_dev/reset", "", "")
	if _, err := io.Copy(io.Discard, stream); err != nil {
		t.Errorf("the stream ended with %v, want its end", err)
	}
	// A long poll that begins afterwards waits on the new instance.
	fresh := i.tokens().Access
	polled := make(chan reply, 1)
	go func() {
		got, err := i.try("GET", "/api/events?type=customer.created&order=asc&wait=20", fresh, "")
		if err != nil {
			t.Error(err)
		}
		polled <- got
	}()
	i.want(http.StatusNoContent, "POST", "/_dev/reset", "", "")
	if got := <-polled; got.status != http.StatusOK && got.status != http.StatusUnauthorized {
		t.Errorf("the long poll got %d %s", got.status, got.body)
	}
}

// TestResetCostsTheSameWithManyEvents compares allocations, which no busy machine
// changes.
func TestResetCostsTheSameWithManyEvents(t *testing.T) {
	must.SkipInShort(t)
	cost := func(events int) float64 {
		i := newTestInstance(t, plain)
		i.beginWith(events)
		return testing.AllocsPerRun(20, func() { must.Do(t, i.control.Reset(t.Context())) })
	}
	few, many := cost(0), cost(10_000)
	t.Logf("%.0f allocations with 100 events, %.0f with 10,100", few, many)
	if many > 1.5*few {
		t.Errorf("a reset makes %.0f allocations with 10,100 events and %.0f with 100", many, few)
	}
}

// TestResetsReturnMemory: an instance that was replaced ends with its goroutines.
func TestResetsReturnMemory(t *testing.T) {
	must.SkipInShort(t)
	i := newTestInstance(t, plain)
	reset := func() { i.want(http.StatusNoContent, "POST", "/_dev/reset", "", "") }
	reset()
	dropped := weak.Make(i.server())
	reset()
	reset()
	for late := time.Now().Add(time.Minute); dropped.Value() != nil; runtime.GC() {
		if time.Now().After(late) {
			t.Fatal("the handlers of a state that was dropped are still in memory")
		}
	}
	goroutines := runtime.NumGoroutine()
	for range 300 {
		must.Do(t, i.control.Reset(t.Context()))
	}
	for n := runtime.NumGoroutine(); n > goroutines+2; n = runtime.NumGoroutine() {
		if t.Context().Err() != nil {
			t.Fatalf("%d goroutines after 300 resets, %d before", n, goroutines)
		}
		time.Sleep(time.Millisecond)
	}
}

// BenchmarkReset is a reset over HTTP with 10 and with 10,000 events.
//
//	go test ./cli/server -run '^$' -bench Reset -count 6
func BenchmarkReset(b *testing.B) {
	for _, events := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("events=%d", events), func(b *testing.B) {
			i := newTestInstance(b, plain)
			i.beginWith(events)
			for b.Loop() {
				i.want(http.StatusNoContent, "POST", "/_dev/reset", "", "")
			}
		})
	}
}

// beginWith adds events to what a reset goes back to.
func (i *testInstance) beginWith(events int) {
	i.t.Helper()
	for n := range events {
		object := snapshot.ObjectOf(snapshot.Member{Name: "n", Value: snapshot.Text(fmt.Sprint(n))})
		_, err := i.data().Store.Events.RecordEvent(i.t.Context(), eventlog.NewEvent{Owner: i.demo.Account, Resource: fmt.Sprint("cus_", n), Type: "customer.updated", Object: object})
		must.Do(i.t, err)
	}
	must.Do(i.t, i.control.begin(i.t.Context(), i.demo))
}

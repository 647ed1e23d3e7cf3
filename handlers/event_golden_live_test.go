package handlers

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
	"tollhouse/store/storetest/must"
)

// The golden examples that take time, with a clock that shows the examples' seconds.
//
// Promise (§6): the golden examples, byte for byte
func TestGoldenExamplesLive(t *testing.T) {
	t.Parallel()
	t.Run("a_quiet_poll_is_304", func(t *testing.T) {
		t.Parallel()
		a, token := newGoldenAPI(t)
		tag := a.get("/api/events?limit=1", token).Header().Get("ETag")
		golden(t, filepath.Join("events", "10_quiet_poll.http"), shown(a.get("/api/events?limit=1", token, "If-None-Match", tag)))
	})
	t.Run("a_long_poll_ends_after_25_s_in_an_empty_page", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			a, token := newGoldenAPI(t)
			started := time.Now()
			w := a.get("/api/events?order=asc&after="+goldenFourth+"&wait=25", token)
			if took := time.Since(started); took != 25*time.Second {
				t.Errorf("the answer came after %v, want 25 s", took)
			}
			golden(t, filepath.Join("events", "10_long_poll.http"), shown(w))
			for link := range strings.SplitSeq(w.Header().Get("Link"), ", ") {
				target, _, _ := strings.Cut(link[1:], ">")
				if w := a.get(target, token); w.Code != http.StatusOK {
					t.Errorf("its link %s leads to %d %s", target, w.Code, w.Body)
				}
			}
		})
	})
	t.Run("a_stream_continues_frame_by_frame_and_beats_after_15_s", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			a, token := newGoldenAPI(t)
			ctx, leave := context.WithCancel(t.Context())
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/events?type=transaction.*,account.*", nil)
			r.Host = "127.0.0.1:8080"
			r.Header.Set("Authorization", "Bearer "+token)
			r.Header.Set("Accept", web.AsEventStream)
			r.Header.Set(api.LastEventID, goldenSecond)
			w := httptest.NewRecorder()
			left := make(chan struct{})
			go func() { a.server.Public().ServeHTTP(w, r); close(left) }()
			time.Sleep(api.HeartbeatEvery + time.Second)
			leave()
			<-left
			golden(t, filepath.Join("events", "12_stream.http"), shown(answer{w}))
		})
	})
}

// A stream has a limit per frame, and none in total: it continues long after the limits of
// other answers have passed.
//
// Promise (§4.1, §4.2): a frame has the position as its id and the event on one line; a stream has
// retry, a heartbeat with its position each 15 s, no proxy buffering, a limit per frame, none
// overall
func TestEventStreamOutlivesTheLimitsOfAnAnswer(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	a, token := newGoldenAPI(t)
	const limit, beat = 2 * time.Second, 100 * time.Millisecond
	a.server.API.HeartbeatEvery = beat
	server := httptest.NewUnstartedServer(nil)
	server.Config = web.NewHTTPServer(a.server.Public(), slog.New(slog.DiscardHandler))
	server.Config.ReadTimeout, server.Config.WriteTimeout = limit, limit
	server.Start()
	t.Cleanup(server.Close)
	s := (&live{a, server.URL}).open(t, "", token)
	at := s.ready(t)
	for beats := 1; beats <= 2*int(limit/beat); beats++ {
		if f, moved := s.next(t), s.next(t); f != (frame{comment: ":"}) || moved != (frame{id: at}) {
			t.Fatalf("after %d heartbeats comes %+v, want another", beats-1, f)
		}
	}
}

package handlers

import (
	"bufio"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/storetest/must"
)

// The server waits a bounded time for a body that does not come, both before its answer
// begins and afterwards.
func TestLiveReadersBody(t *testing.T) {
	a := parallelAPI(t)
	token := a.token(t, "bob", "acct_a", store.ScopeUnstated)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	srv := web.NewHTTPServer(a.server.Public(), slog.New(slog.DiscardHandler))
	srv.ReadTimeout = 200 * time.Millisecond
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })
	for accept, query := range map[string]string{"application/json": "?order=asc&wait=1", "text/event-stream": ""} {
		for name, tt := range map[string]struct {
			body       string
			wantStatus int
		}{
			"that_never_comes_ends_the_request": {"", http.StatusBadRequest},
			"that_arrived_is_ignored":           {"{}", http.StatusOK},
		} {
			t.Run(name+"_"+accept, func(t *testing.T) {
				t.Parallel()
				conn := must.Get(net.Dial("tcp", l.Addr().String()))(t)
				defer conn.Close()
				must.Do(t, conn.SetDeadline(time.Now().Add(livePatience)))
				fmt.Fprintf(conn, "GET /api/events%s HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAuthorization: Bearer %s\r\nAccept: %s\r\nContent-Length: 2\r\n\r\n%s", query, token, accept, tt.body)
				answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil || answer.StatusCode != tt.wantStatus {
					t.Fatalf("answer = %v, %v, want %d", answer, err, tt.wantStatus)
				}
				// Its body stays open: Close would read a stream to its end.
			})
		}
	}
}

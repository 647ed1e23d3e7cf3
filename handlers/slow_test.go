package handlers_test

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"tollhouse/handlers/web"
	"tollhouse/store/storetest/must"
)

// hurried is the factor by which these tests shorten the limits: five seconds become a
// tenth of one.
const hurried = 50

// listenHurried serves the house with every limit of a deployment shortened.
func (h *house) listenHurried(t testing.TB) string {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	server := web.NewHTTPServer(h.public, slog.New(slog.DiscardHandler))
	for _, limit := range []*time.Duration{&server.ReadHeaderTimeout, &server.ReadTimeout, &server.WriteTimeout, &server.IdleTimeout} {
		*limit /= hurried
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		if err := errors.Join(server.Close(), <-ended); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve() = %v", err)
		}
	})
	return listener.Addr().String()
}

// began dials the server and sends the beginning of a request.
func began(t testing.TB, address, beginning string) net.Conn {
	t.Helper()
	conn := must.Get((&net.Dialer{}).DialContext(t.Context(), "tcp", address))(t)
	t.Cleanup(func() { _ = conn.Close() })
	must.Do(t, conn.SetDeadline(time.Now().Add(wireWaitMax)))
	must.Get(io.WriteString(conn, beginning))(t)
	return conn
}

// wantHungUp fails the test unless the server closes the connection.
func wantHungUp(t testing.TB, conn net.Conn) {
	t.Helper()
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection is held after %s, want the server to hang up", wireWaitMax)
	}
}

// Promise (RFC 9110, RFC 9112): idle connections live 120 s, longer than load balancers keep theirs
func TestSlowPeers(t *testing.T) {
	h := parallelHouse(t)
	t.Run("the_limits_of_every_deployment", func(t *testing.T) {
		t.Parallel()
		s := web.NewHTTPServer(h.public, slog.New(slog.DiscardHandler))
		for name, c := range map[string][2]time.Duration{
			"header": {s.ReadHeaderTimeout, 5 * time.Second}, "read": {s.ReadTimeout, 15 * time.Second},
			"write": {s.WriteTimeout, 30 * time.Second}, "idle": {s.IdleTimeout, 2 * time.Minute}, // above the minute of load balancers
		} {
			if c[0] != c[1] {
				t.Errorf("%s timeout = %s, want %s", name, c[0], c[1])
			}
		}
	})
	address := h.listenHurried(t)
	post := "POST " + tokenPath + " HTTP/1.1\r\nHost: pay.example\r\nContent-Type: " + formType + "\r\nContent-Length: 1000\r\n\r\ngrant_type="
	for name, beginning := range map[string]string{
		"nothing_at_all":  "",
		"half_a_header":   "GET /healthz HTTP/1.1\r\nHost: pay.example\r\nX-Slow: ",
		"half_a_body":     post,
		"half_a_chunk":    strings.Replace(post, "Content-Length: 1000\r\n\r\ngrant", "Transfer-Encoding: chunked\r\n\r\n3e8\r\ngrant", 1),
		"nothing_further": "GET /healthz HTTP/1.1\r\nHost: pay.example\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantHungUp(t, began(t, address, beginning))
		})
	}
	t.Run("an_unread_answer", func(t *testing.T) {
		t.Parallel()
		conn := began(t, address, "")
		must.Do(t, conn.(*net.TCPConn).SetReadBuffer(4<<10))
		// More and more answers are asked for, until they fill what the system
		// holds back and the server has to wait for its reader.
		ask := strings.Repeat("GET /login HTTP/1.1\r\nHost: pay.example\r\n\r\n", 100)
		var err error
		for err == nil {
			_, err = io.WriteString(conn, ask)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the connection is held after %s, want the server to hang up", wireWaitMax)
		}
	})
}

// TestManySlowPeers: slow peers do not keep others from being served. A benchmark measures
// what they cost.
//
// Promise (RFC 9110, RFC 9112): slow headers, bodies and readers; HTTP/2 and TLS on the plain port
func TestManySlowPeers(t *testing.T) {
	h := parallelHouse(t)
	address := h.listen(t) // unhurried: all of them are there while the others ask
	t.Run("do_not_delay_others", func(t *testing.T) {
		const peers = 300
		for range peers {
			began(t, address, "POST "+tokenPath+" HTTP/1.1\r\nHost: pay.example\r\nX-Slow: ")
		}
		conn := began(t, address, "")
		r := bufio.NewReader(conn)
		for range 20 {
			must.Get(io.WriteString(conn, "GET /login HTTP/1.1\r\nHost: pay.example\r\n\r\n"))(t)
			res := must.Get(http.ReadResponse(r, nil))(t)
			if a := readAnswer(t, res); a.StatusCode != http.StatusOK {
				t.Errorf("status = %d beside %d slow peers, want 200", a.StatusCode, peers)
			}
		}
	})
}

package handlers_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"tollhouse/handlers"
	"tollhouse/store/eventlog"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// withMemory limits the memory of requests in flight.
func withMemory(bytes int64) func(*handlers.Config) {
	return func(c *handlers.Config) { c.Memory = bytes }
}

// unbuffered keeps the system from buffering a response for a reader that does not read.
func unbuffered(s *http.Server) {
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		_ = c.(*net.TCPConn).SetWriteBuffer(4 << 10)
		return ctx
	}
}

// beganFrom is began from an address of this machine, with a small receive buffer.
func beganFrom(t *testing.T, from, address, beginning string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext(t.Context(), "tcp", address)
	must.Have(t, err == nil, fmt.Sprintf("the address %s: %v", from, err))
	t.Cleanup(func() { _ = conn.Close() })
	must.Do(t, conn.SetDeadline(time.Now().Add(wireWaitMax)))
	must.Get(io.WriteString(conn, beginning))(t)
	return conn
}

// half is a request without the end of its body of 64 KiB.
func half(method, path, header string) string {
	return method + " " + path + " HTTP/1.1\r\nHost: pay.example\r\n" + header + "Content-Length: 65536\r\n\r\n" + strings.Repeat("x", 60<<10)
}

// wantAnswer reads an answer and checks its status.
func wantAnswer(t *testing.T, what string, conn net.Conn, status int) answer {
	t.Helper()
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	a := readAnswer(t, res)
	if a.StatusCode != status {
		t.Errorf("%s: %s %.200s, want %d", what, a.Status, a.body, status)
	}
	return a
}

type said struct {
	a   answer
	err error
}

// answersOn reads the answers on connections.
func answersOn(conns []net.Conn) <-chan said {
	answers := make(chan said, len(conns))
	for _, conn := range conns {
		go func() {
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				answers <- said{err: err}
				return
			}
			body, err := io.ReadAll(res.Body) // to the end of the connection
			answers <- said{answer{Response: res, body: string(body)}, err}
		}()
	}
	return answers
}

// wantOneRefused fails the test unless exactly one connection is answered that a budget is
// exhausted.
func wantOneRefused(t *testing.T, what string, answers <-chan said, conns []net.Conn) {
	t.Helper()
	first := <-answers
	if first.err != nil {
		t.Fatalf("%s: %v", what, first.err)
	}
	if a := first.a; a.StatusCode != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" || !strings.Contains(a.body, "temporarily_unavailable") {
		t.Errorf("%s: %s, Retry-After %q, %s; want 503 with one", what, a.Status, a.Header.Get("Retry-After"), a.body)
	}
	for _, conn := range conns {
		_ = conn.SetReadDeadline(time.Now())
	}
	for range conns[1:] {
		if other := <-answers; !errors.Is(other.err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: another one is answered too: %v %v", what, other.a.Response, other.err)
		}
	}
}

const stalledForm = "Content-Type: " + formType + "\r\n"

// TestStalledBodies: unfinished bodies stay within a budget.
//
// Promise (Credentials, memory, connections): stalled bodies of one source or one account, and of
// many
func TestStalledBodies(t *testing.T) {
	t.Parallel()
	const (
		perSource = 2
		memory    = perSource * 4 * 32 * 64 << 10 // four sources have two bodies each
	)
	small := "POST " + tokenPath + " HTTP/1.1\r\nHost: pay.example\r\n" + stalledForm + "Content-Length: 10\r\n\r\ngrant_type"
	begin := func(t *testing.T, address, from, request string, count int) (conns []net.Conn) {
		for range count {
			conns = append(conns, beganFrom(t, from, address, request))
		}
		return conns
	}
	form, rest := half("POST", tokenPath, stalledForm), strings.Repeat("x", 4<<10)
	t.Run("a_source_has_a_share", func(t *testing.T) {
		address := parallelHouse(t, withMemory(memory)).listen(t)
		held := begin(t, address, "127.0.0.1", form, perSource+1)
		wantAnswer(t, "a small body of the same source", beganFrom(t, "127.0.0.1", address, small), http.StatusUnauthorized)
		wantAnswer(t, "a whole large body of another source", beganFrom(t, "127.0.0.2", address, form+rest), http.StatusUnauthorized)
		wantOneRefused(t, "one body more than the source's share", answersOn(held), held)
	})
	t.Run("a_stalled_body_gives_way", func(t *testing.T) {
		address := parallelHouse(t, withMemory(memory)).listen(t)
		var held []net.Conn
		for n := range byte(4) {
			held = append(held, begin(t, address, fmt.Sprintf("127.0.0.%d", 1+n), form, perSource)...)
		}
		answers := answersOn(held)
		for begun := time.Now(); len(answers) == 0 && time.Since(begun) < wireWaitMax; { // what was sent may not have come yet
			wantAnswer(t, "one more, which comes whole", beganFrom(t, "127.0.0.9", address, form+rest), http.StatusUnauthorized)
		}
		wantOneRefused(t, "one of those that have been stalled", answers, held)
	})
	t.Run("bodies_behind_a_token_have_a_budget_of_their_own", func(t *testing.T) {
		h := parallelHouse(t, withMemory(memory))
		address := h.listen(t)
		h.User(t, "otto", "acct_other")
		put := func(user string) string {
			return half("PUT", "/api/resources/plan/p", "Content-Type: application/json\r\nAuthorization: Bearer "+h.accessOf(t, user)+"\r\n")
		}
		mara, otto := put("mara"), put("otto")
		begin(t, address, "127.0.0.1", form, perSource)
		held := begin(t, address, "127.0.0.1", mara, perSource+1)
		wantAnswer(t, "a body of another account", beganFrom(t, "127.0.0.2", address, otto+rest), http.StatusBadRequest)
		wantOneRefused(t, "one body more than the account's share", answersOn(held), held)
	})
}

// accessOf returns an access token of a user.
func (h *house) accessOf(t *testing.T, user string) string {
	t.Helper()
	a := h.grant(t, user, storetest.Password)
	var pair struct {
		Access string `json:"access_token"`
	}
	if err := json.Unmarshal([]byte(a.body), &pair); err != nil || pair.Access == "" {
		t.Fatalf("token of %s: %s", user, a.body)
	}
	return pair.Access
}

// TestSlowReaders: unread pages stay within a budget.
//
// Promise (Credentials, memory, connections): unread answers of one account; unread compressed
// answers; HTTP/2 requests of one source, and of many
func TestSlowReaders(t *testing.T) {
	const (
		readers = 2 // of an account at once
		memory  = readers * 32 << 20
	)
	h := parallelHouse(t, withMemory(memory))
	address := h.listen(t, unbuffered)
	h.User(t, "otto", "acct_other")
	object := func(size int) snapshot.Value {
		return snapshot.ObjectOf(snapshot.Member{Name: "n", Value: snapshot.Text(strings.Repeat("x", size))})
	}
	const events = 200 // 1.4 MiB
	large, err := h.Events.RecordEvent(t.Context(), eventlog.NewEvent{Owner: h.account, Resource: "large", Type: "a.b", Object: object(23 << 10)})
	must.Do(t, err)
	for _, account := range []string{h.account, "acct_other"} {
		for n := range events {
			if _, err := h.Events.RecordEvent(t.Context(), eventlog.NewEvent{Owner: account, Resource: fmt.Sprint("r", n), Type: "a.b", Object: object(7 << 10)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	ask := func(path, user string) string {
		return "GET " + path + " HTTP/1.1\r\nHost: pay.example\r\nAuthorization: Bearer " + h.accessOf(t, user) + "\r\n\r\n"
	}
	mara, otto, one := ask("/api/events?limit=1000", "mara"), ask("/api/events?limit=1000", "otto"), ask("/api/events/"+idOfEvent(t, large), "mara")
	count := func(what string, conn net.Conn) (n int, more bool, etag string) {
		a := wantAnswer(t, what, conn, http.StatusOK)
		var page struct {
			Data    []json.RawMessage
			HasMore bool
		}
		must.Do(t, json.Unmarshal([]byte(a.body), &page))
		return len(page.Data), page.HasMore, a.Header.Get("ETag")
	}
	full, more, etag := count("a page alone", beganFrom(t, "127.0.0.1", address, mara))
	if !more || full < 100 || full >= events || etag == "" {
		t.Errorf("a page has %d events of 7 KiB, more %t, ETag %q; want as many as 1 MiB has, and more", full, more, etag)
	}
	for range readers {
		conn := beganFrom(t, "127.0.0.1", address, "")
		must.Do(t, conn.(*net.TCPConn).SetReadBuffer(4<<10))
		must.Get(io.WriteString(conn, mara))(t)
		must.Get(io.ReadFull(conn, make([]byte, 1)))(t) // a page that has begun is charged
	}
	if n, more, etag := count("a page of the account beside them", beganFrom(t, "127.0.0.2", address, mara)); n == 0 || n >= full || !more || etag != "" {
		t.Errorf("a page beside %d slow readers has %d events, more %t, ETag %q; want some, more, and no ETag", readers, n, more, etag)
	}
	refused := wantAnswer(t, "a large event of the account beside them", beganFrom(t, "127.0.0.2", address, one), http.StatusServiceUnavailable)
	if refused.Header.Get("Retry-After") == "" {
		t.Error("a refused event has no Retry-After")
	}
	if n, _, _ := count("a page of another account", beganFrom(t, "127.0.0.2", address, otto)); n != full {
		t.Errorf("a page of another account has %d events beside slow readers, want %d", n, full)
	}
}

// TestPageIsChargedAsItGrows: a page is whole although a page of the greatest size would not
// fit into the budget.
func TestPageIsChargedAsItGrows(t *testing.T) {
	const share = 256 << 10 // of one account
	h := parallelHouse(t, withMemory(share*32))
	for n := range 20 { // 140 KiB
		must.Get(h.Events.RecordEvent(t.Context(), eventlog.NewEvent{Owner: h.account, Resource: fmt.Sprint("r", n), Type: "a.b",
			Object: snapshot.ObjectOf(snapshot.Member{Name: "n", Value: snapshot.Text(strings.Repeat("x", 7<<10))})}))(t)
	}
	conn := beganFrom(t, "127.0.0.1", h.listen(t), "GET /api/events HTTP/1.1\r\nHost: pay.example\r\nAuthorization: Bearer "+h.accessOf(t, "mara")+"\r\n\r\n")
	a := wantAnswer(t, "a page", conn, http.StatusOK)
	if strings.Contains(a.body, `"hasMore":true`) || a.Header.Get("ETag") == "" {
		t.Errorf("a page of 140 KiB in a budget of 256 is cut: %d bytes, ETag %q", len(a.body), a.Header.Get("ETag"))
	}
}

// idOfEvent reads the id of an event on the wire.
func idOfEvent(t *testing.T, wire []byte) string {
	t.Helper()
	var event struct{ ID string }
	if err := json.Unmarshal(wire, &event); err != nil || event.ID == "" {
		t.Fatalf("event %.100s: %v", wire, err)
	}
	return event.ID
}

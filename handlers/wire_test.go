package handlers_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"tollhouse/handlers/web"
	"tollhouse/store/storetest/must"
)

// listen serves the house with the limits of a deployment and returns its address.
func (h *house) listen(t testing.TB, changes ...func(*http.Server)) string {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	server := web.NewHTTPServer(h.public, slog.New(slog.NewJSONHandler(h.log, nil)))
	for _, change := range changes {
		change(server)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Errorf("close the server: %v", err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve() = %v", err)
		}
	})
	return listener.Addr().String()
}

// overTCP puts a listening socket between the house's requests and its router.
func (h *house) overTCP(t testing.TB) *house {
	t.Helper()
	server := &url.URL{Scheme: "http", Host: h.listen(t)}
	h.public = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(server)
		r.Out.Host = r.In.Host
	}}
	return h
}

const wireWaitMax = time.Minute // for an answer that is due at once

// exchange sends raw bytes and returns everything that comes back until the server closes
// or stays silent.
func exchange(t testing.TB, address, request string) (answers []answer, closed bool) {
	t.Helper()
	conn := must.Get((&net.Dialer{}).DialContext(t.Context(), "tcp", address))(t)
	defer conn.Close()
	must.Do(t, conn.SetDeadline(time.Now().Add(wireWaitMax)))
	go func() { _, _ = io.WriteString(conn, request) }() // the server may hang up before the end
	r := bufio.NewReader(conn)
	for {
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			return answers, errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || isReset(err)
		}
		answers = append(answers, readAnswer(t, res))
		if !res.Close {
			return answers, false
		}
	}
}

func isReset(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && !op.Timeout()
}

// Promise (RFC 9110, RFC 9112): another Host; request smuggling
func TestWireFraming(t *testing.T) {
	h := parallelHouse(t)
	address := h.listen(t)
	form := h.refreshForm("x").Encode()
	post := func(headers, body string) string {
		return "POST " + tokenPath + " HTTP/1.1\r\nHost: pay.example\r\nContent-Type: " + formType + "\r\n" + headers + "\r\n" + body
	}
	chunked := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(form), form)
	smuggled := "GET /healthz HTTP/1.1\r\nHost: pay.example\r\n\r\n"
	cases := []struct {
		name, request string
		want          int
	}{
		{"length_and_chunks", post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", chunked) + smuggled, 400},
		{"chunks_alone", post("Transfer-Encoding: chunked\r\n", chunked) + smuggled, 400},
		{"two_lengths", post("Content-Length: 5\r\nContent-Length: 6\r\n", "hello") + smuggled, 400},
		{"signed_length", post("Content-Length: +3\r\n", "abc") + smuggled, 400},
		{"xchunked", post("Transfer-Encoding: xchunked\r\n", chunked) + smuggled, 501},
		{"chunked_identity", post("Transfer-Encoding: chunked, identity\r\n", chunked) + smuggled, 501},
		{"nul_in_a_header", post("X: a\x00b\r\nContent-Length: 0\r\n", "") + smuggled, 400},
		{"bare_cr_in_a_header", post("X: a\rb\r\nContent-Length: 0\r\n", "") + smuggled, 400},
		{"space_before_the_colon", post("Content-Length : 0\r\n", "") + smuggled, 400},
		{"bad_host", "GET / HTTP/1.1\r\nHost: pay.exa mple\r\n\r\n" + smuggled, 400},
		{"two_hosts", "GET / HTTP/1.1\r\nHost: pay.example\r\nHost: evil.example\r\n\r\n" + smuggled, 400},
		{"no_host", "GET / HTTP/1.1\r\n\r\n" + smuggled, 400},
		{"absolute_form", "GET http://evil.example/login HTTP/1.1\r\nHost: pay.example\r\n\r\n", 421},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			answers, _ := exchange(t, address, c.request)
			if len(answers) != 1 || answers[0].StatusCode != c.want {
				t.Fatalf("%d answers, the first %d, want one and %d: what was smuggled behind must not be answered", len(answers), first(answers), c.want)
			}
			if c.want != 421 && !answers[0].Close {
				t.Error("the connection stays open, want it closed")
			}
		})
	}
	t.Run("folded_header_is_accepted", func(t *testing.T) {
		t.Parallel()
		answers, _ := exchange(t, address, "GET /healthz HTTP/1.1\r\nHost: pay.example\r\nX: a\r\n b\r\n\r\n")
		if first(answers) != http.StatusOK {
			t.Errorf("status = %d, want 200", first(answers))
		}
	})
}

func first(answers []answer) int {
	if len(answers) == 0 {
		return 0
	}
	return answers[0].StatusCode
}

// Promise (RFC 9110, RFC 9112): endless headers and queries; endless bodies
// Promise (Credentials, memory, connections): stalled bodies and streams, half-sent headers and
// slow readers by the thousand, beside honest visitors
func TestWireBounds(t *testing.T) {
	h := parallelHouse(t)
	address := h.listen(t)
	get := func(target, headers string) string {
		return "GET " + target + " HTTP/1.1\r\nHost: pay.example\r\n" + headers + "\r\n"
	}
	cases := []struct {
		name, request string
		want          int
	}{
		{"headers_within_32_KiB", get("/healthz", "X: "+strings.Repeat("a", 31<<10)+"\r\n"), 200},
		{"headers_over_32_KiB", get("/healthz", "X: "+strings.Repeat("a", 33<<10)+"\r\n"), 431},
		{"many_headers_over_32_KiB", get("/healthz", strings.Repeat("X: aaaaaaaaaaaaaaaaaaaa\r\n", 2000)), 431},
		{"100_header_fields", get("/healthz", strings.Repeat("X: a\r\n", 100)), 200},
		{"101_header_fields", get("/healthz", strings.Repeat("X: a\r\n", 101)), 431},
		{"101_header_fields_before_a_stalled_body", "POST " + tokenPath + " HTTP/1.1\r\nHost: pay.example\r\nContent-Length: 9\r\n" + strings.Repeat("X: a\r\n", 100) + "\r\n", 431},
		{"query_of_8_KiB", get("/login?"+strings.Repeat("a", 8<<10), ""), 200},
		{"query_over_8_KiB", get("/login?"+strings.Repeat("a", 8<<10+1), ""), 414},
		{"query_over_8_KiB_at_the_token_endpoint", "POST " + tokenPath + "?" + strings.Repeat("a", 9<<10) + " HTTP/1.1\r\nHost: pay.example\r\nContent-Length: 0\r\n\r\n", 414},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			answers, _ := exchange(t, address, c.request)
			if first(answers) != c.want {
				t.Errorf("status = %d, want %d", first(answers), c.want)
			}
		})
	}
	for _, path := range []string{tokenPath, "/login", "/consent"} {
		t.Run("body_of_1_MB_to_"+strings.ReplaceAll(path, "/", "_"), func(t *testing.T) {
			t.Parallel()
			body := strings.Repeat("a", 1<<20)
			answers, closed := exchange(t, address, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: pay.example\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", path, formType, len(body), body))
			if first(answers) != http.StatusRequestEntityTooLarge || !closed {
				t.Errorf("status = %d and the connection closed: %t, want 413 and true", first(answers), closed)
			}
		})
		t.Run("endless_chunks_to_"+strings.ReplaceAll(path, "/", "_"), func(t *testing.T) {
			t.Parallel()
			endless(t, address, path)
		})
	}
}

// endless sends chunks until the server stops it.
func endless(t *testing.T, address, path string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wireWaitMax)
	defer cancel()
	conn := must.Get((&net.Dialer{}).DialContext(ctx, "tcp", address))(t)
	defer conn.Close()
	must.Do(t, conn.SetDeadline(time.Now().Add(wireWaitMax)))
	hungUp := make(chan error, 1)
	go func() {
		_, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: pay.example\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n", path, formType)
		for err == nil {
			_, err = io.WriteString(conn, "1000\r\n"+strings.Repeat("a", 0x1000)+"\r\n")
		}
		hungUp <- err
	}()
	res := must.Get(http.ReadResponse(bufio.NewReader(conn), nil))(t)
	if a := readAnswer(t, res); a.StatusCode != http.StatusRequestEntityTooLarge || !res.Close {
		t.Errorf("status = %d, Connection: close %t, want 413 and true", a.StatusCode, res.Close)
	}
	if err := <-hungUp; !isReset(err) {
		t.Errorf("the server took chunks until %v, want it to hang up", err)
	}
}

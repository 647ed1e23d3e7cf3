package handlers_test

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"tollhouse/store/storetest/must"
)

// TestForeignProtocols sends other protocols to the plain port.
//
// Promise (RFC 9110, RFC 9112): slow headers, bodies and readers; HTTP/2 and TLS on the plain port
func TestForeignProtocols(t *testing.T) {
	h := parallelHouse(t)
	address := h.listen(t)
	refused := []struct {
		name, request string
		want          int
	}{
		// The preface of HTTP/2 names no Host (RFC 9113 §3.4), so no issuer matches it.
		{"the_preface_of_HTTP_2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + strings.Repeat("\x00", 64), http.StatusMisdirectedRequest},
		{"its_method_with_a_host", "PRI * HTTP/1.1\r\nHost: pay.example\r\nConnection: close\r\n\r\n", http.StatusMethodNotAllowed},
		{"a_TLS_record", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", http.StatusBadRequest},
	}
	for _, c := range refused {
		t.Run(c.name, func(t *testing.T) {
			answers, _ := exchange(t, address, c.request)
			if len(answers) != 1 || answers[0].StatusCode != c.want || !answers[0].Close {
				t.Errorf("%d answers, the first %d, want one %d and the connection closed", len(answers), first(answers), c.want)
			}
		})
	}
	t.Run("upgrading_to_it_is_ignored", func(t *testing.T) {
		answers, _ := exchange(t, address, "GET /healthz HTTP/1.1\r\nHost: pay.example\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n")
		if len(answers) != 1 || answers[0].StatusCode != http.StatusOK {
			t.Errorf("%d answers, the first %d, want 200 in HTTP/1.1", len(answers), first(answers))
		}
	})
	t.Run("a_TLS_handshake", func(t *testing.T) {
		conn := began(t, address, "")
		client := tls.Client(conn, &tls.Config{ServerName: "pay.example", MinVersion: tls.VersionTLS12})
		if err := client.HandshakeContext(t.Context()); err == nil {
			t.Error("a handshake succeeds on the plain port")
		}
	})
	t.Run("noise", func(t *testing.T) {
		for _, noise := range []string{"\x16\x03\x01\x02\x00\x01\x00", "\x00\x00\x00\x00\r\n\r\n", "\xff\xfe\r\n\r\n", "GET\r\n\r\n", "* / HTTP/9.9\r\n\r\n", "\r\n\r\n\r\n"} {
			conn := began(t, address, noise)
			must.Do(t, conn.(*net.TCPConn).CloseWrite())
			said, err := io.ReadAll(conn)
			if err != nil && !isReset(err) {
				t.Errorf("after %q: %v, want the server to hang up", noise, err)
			}
			if text := string(said); text != "" && !strings.HasPrefix(text, "HTTP/1.1 4") && !strings.HasPrefix(text, "HTTP/1.1 5") && !strings.HasPrefix(text, "HTTP/1.0 400") {
				t.Errorf("after %q: %.80q, want a refusal or nothing", noise, text)
			}
		}
	})
	t.Run("the_server_lives_and_its_log_is_short", func(t *testing.T) {
		if answers, _ := exchange(t, address, "GET /healthz HTTP/1.1\r\nHost: pay.example\r\nConnection: close\r\n\r\n"); first(answers) != http.StatusOK {
			t.Errorf("status = %d after all that, want 200", first(answers))
		}
		log := h.log.String()
		if lines := strings.Count(log, "\n"); lines > 20 {
			t.Errorf("the log has %d lines of a dozen attempts, want a line each at most", lines)
		}
		if !utf8.ValidString(log) || strings.ContainsAny(log, "\x00\x16") || strings.Contains(log, "goroutine") {
			t.Errorf("the log holds raw bytes or a trace: %q", log)
		}
	})
}

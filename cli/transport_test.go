package cli

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"tollhouse/cli/term"
	"tollhouse/store/storetest/must"
)

func through(h http.HandlerFunc) (*http.Client, *inProcess) {
	t := &inProcess{handler: h}
	return &http.Client{Transport: t}, t
}

func TestInProcess(t *testing.T) {
	t.Parallel()
	t.Run("status_header_and_body_arrive", func(t *testing.T) {
		t.Parallel()
		client, transport := through(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			w.Header().Set("X-Path", r.RequestURI)
			w.WriteHeader(http.StatusTeapot)
			_, _ = w.Write(body)
		})
		answer := must.Get(client.Post("http://tollhouse/a%2Fb?c=d", "text/plain", strings.NewReader("hello")))(t)
		body, err := io.ReadAll(answer.Body)
		if err != nil || string(body) != "hello" || answer.StatusCode != http.StatusTeapot || answer.Header.Get("X-Path") != "/a%2Fb?c=d" {
			t.Errorf("answer = %d %v %q, %v", answer.StatusCode, answer.Header, body, err)
		}
		transport.wait()
	})
	t.Run("answer_begins_while_the_request_is_still_sent", func(t *testing.T) {
		t.Parallel()
		client, transport := through(func(w http.ResponseWriter, r *http.Request) {
			if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
				t.Error(err)
			}
			for lines := bufio.NewScanner(r.Body); lines.Scan(); {
				_, _ = io.WriteString(w, lines.Text()+"!\n")
			}
		})
		body, send := io.Pipe()
		go func() { _, _ = io.WriteString(send, "one\n") }()
		answer := must.Get(client.Post("http://tollhouse/", "text/plain", body))(t)
		lines := bufio.NewScanner(answer.Body)
		if !lines.Scan() || lines.Text() != "one!" {
			t.Fatalf("first line %q, %v", lines.Text(), lines.Err())
		}
		go func() { _, _ = io.WriteString(send, "two\n"); _ = send.Close() }()
		if !lines.Scan() || lines.Text() != "two!" || lines.Scan() {
			t.Errorf("second line %q, %v", lines.Text(), lines.Err())
		}
		transport.wait()
	})
	// The end of a handler looks like that of its request. What has answered and
	// ended before anybody waits for it was once taken for a request given up.
	t.Run("an_answer_without_a_body_is_whole_however_soon_it_ends", func(t *testing.T) {
		t.Parallel()
		client, transport := through(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
		for range 50_000 { // it went wrong once in some thousands
			answer := must.Get(client.Get("http://tollhouse/"))(t)
			if body, err := io.ReadAll(answer.Body); err != nil || len(body) > 0 || answer.StatusCode != http.StatusNoContent {
				t.Fatalf("answer = %d %q, %v; want 204 and nothing more", answer.StatusCode, body, err)
			}
			_ = answer.Body.Close()
		}
		transport.wait()
	})
	t.Run("handler_that_gives_up_is_no_whole_answer", func(t *testing.T) {
		t.Parallel()
		client, transport := through(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "half")
			panic(http.ErrAbortHandler)
		})
		answer := must.Get(client.Get("http://tollhouse/"))(t)
		if _, err := io.ReadAll(answer.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("read = %v, want an unexpected end", err)
		}
		transport.wait()
	})
	t.Run("interrupt_releases_a_handler_that_waits_for_input", func(t *testing.T) {
		t.Parallel()
		reading := make(chan struct{})
		client, transport := through(func(_ http.ResponseWriter, r *http.Request) {
			close(reading)
			_, _ = io.ReadAll(r.Body)
		})
		ctx, cancel := context.WithCancel(context.Background())
		never, _ := io.Pipe()
		req, err := http.NewRequestWithContext(ctx, "POST", "http://tollhouse/", term.Interruptible(ctx, never))
		must.Do(t, err)
		go func() { <-reading; cancel() }()
		if answer, err := client.Do(req); err == nil {
			_ = answer.Body.Close()
		} else if !errors.Is(err, context.Canceled) {
			t.Errorf("Do = %v, want canceled", err)
		}
		transport.wait()
	})
}

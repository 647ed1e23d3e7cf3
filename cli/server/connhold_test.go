package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	"tollhouse/store/storetest/must"
)

func TestAHeldWriteIsSentWithTheNext(t *testing.T) {
	t.Parallel()
	l := newLimited(t, newConnLimit(8, anySource, slog.New(slog.DiscardHandler)))
	write := func(t *testing.T, c *limitedConn, b []byte) {
		t.Helper()
		if n, err := c.Write(b); n != len(b) || err != nil {
			t.Errorf("Write of %d bytes = %d, %v", len(b), n, err)
		}
	}
	wantNothing := func(t *testing.T, visitor net.Conn) {
		t.Helper()
		must.Do(t, visitor.SetReadDeadline(time.Now().Add(time.Millisecond)))
		if n, err := visitor.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the peer has %d bytes, %v, want none yet", n, err)
		}
	}
	wantAll := func(t *testing.T, visitor net.Conn, want []byte) {
		t.Helper()
		must.Do(t, visitor.SetReadDeadline(time.Now().Add(10*time.Second)))
		got := make([]byte, len(want))
		if _, err := io.ReadFull(visitor, got); err != nil || !bytes.Equal(got, want) {
			t.Errorf("the peer has other bytes, %v", err)
		}
	}
	head, body := bytes.Repeat([]byte("h"), 4<<10), bytes.Repeat([]byte("b"), 70<<10)
	t.Run("both_arrive_in_order_and_later_writes_are_not_held", func(t *testing.T) {
		visitor, c := l.both("127.0.0.1")
		for range 3 {
			c.Hold()
			write(t, c, head)
			wantNothing(t, visitor)
			write(t, c, body)
			wantAll(t, visitor, append(bytes.Clone(head), body...))
			write(t, c, []byte("x"))
			wantAll(t, visitor, []byte("x"))
			c.Release()
		}
	})
	t.Run("release_sends_what_is_kept", func(t *testing.T) {
		visitor, c := l.both("127.0.0.1")
		c.Hold()
		write(t, c, head)
		c.Release()
		wantAll(t, visitor, head)
		write(t, c, head)
		wantAll(t, visitor, head)
	})
	t.Run("a_large_write_is_not_kept", func(t *testing.T) {
		visitor, c := l.both("127.0.0.1")
		c.Hold()
		write(t, c, body)
		wantAll(t, visitor, body)
	})
	t.Run("an_error_counts_only_what_the_caller_wrote_now", func(t *testing.T) {
		_, c := l.both("127.0.0.1")
		c.Hold()
		write(t, c, head)
		must.Do(t, c.Close())
		if n, err := c.Write(body); n != 0 || !errors.Is(err, net.ErrClosed) {
			t.Errorf("Write on a closed connection = %d, %v, want 0 and that it is closed", n, err)
		}
	})
}

func TestResponsesOfEverySizeArriveWholeThroughHeldWrites(t *testing.T) {
	t.Parallel()
	limit := newConnLimit(8, anySource, slog.New(slog.DiscardHandler))
	inner := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	pattern := bytes.Repeat([]byte("0123456789abcde"), 16<<10)
	type connKey struct{}
	server := &http.Server{
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			size, err := strconv.Atoi(r.URL.Query().Get("size"))
			if err != nil {
				panic(err)
			}
			c := r.Context().Value(connKey{}).(*limitedConn)
			c.Hold()
			defer c.Release()
			_, _ = w.Write(pattern[:size])
		}),
	}
	go func() { _ = server.Serve(limit.listener(inner)) }()
	t.Cleanup(func() { _ = server.Close() })
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for _, size := range []int{0, 1, 2000, 3800, 4 << 10, 4<<10 + 1, 8 << 10, 12<<10 + 1, 64 << 10, 200 << 10} {
		r := must.Get(http.NewRequestWithContext(context.Background(), http.MethodGet, fmt.Sprintf("http://%s/?size=%d", inner.Addr(), size), nil))(t)
		answer := must.Get(client.Do(r))(t)
		body := must.Get(io.ReadAll(answer.Body))(t)
		_ = answer.Body.Close()
		if !bytes.Equal(body, pattern[:size]) {
			t.Errorf("a response of %d bytes arrives with %d others", size, len(body))
		}
	}
}

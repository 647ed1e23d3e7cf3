package cli

import (
	"errors"
	"log/slog"
	"net"
	"testing"
)

// visited is a listener that tells when it is asked for the next visitor.
type visited struct {
	net.Listener
	asked chan struct{}
}

func (l *visited) Accept() (net.Conn, error) {
	l.asked <- struct{}{}
	return l.Listener.Accept()
}

func TestCrowd(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	door := &visited{Listener: inner, asked: make(chan struct{}, 8)}
	l := newCrowd(2, slog.New(slog.DiscardHandler)).through(door)
	enter := func() net.Conn {
		visitor, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = visitor.Close() })
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	first := enter()
	enter()
	if _, ok := first.(interface{ CloseWrite() error }); !ok {
		t.Error("a connection lost its CloseWrite")
	}
	for range 2 { // a place is given back once
		_ = first.Close()
	}
	enter()
	if n := len(door.asked); n != 3 {
		t.Fatalf("the door was asked %d times, want 3", n)
	}
	waiting := make(chan error, 1)
	go func() { _, err := l.Accept(); waiting <- err }()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-waiting; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept of a closed listener = %v, want %v", err, net.ErrClosed)
	}
	if n := len(door.asked); n != 3 {
		t.Errorf("a third visitor was let in beside two: the door was asked %d times", n)
	}
}

func TestConnectionsAllowed(t *testing.T) {
	t.Parallel()
	for files, want := range map[uint64]int{0: connectionsLeast, 120: 60, 1024: 512, 1 << 20: connectionsMax, 1<<64 - 1: connectionsMax} {
		if got := connectionsAllowed(files); got != want {
			t.Errorf("connectionsAllowed(%d) = %d, want %d", files, got, want)
		}
	}
}

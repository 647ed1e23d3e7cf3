package server

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"tollhouse/cli/datadir"
	"tollhouse/store/kv/badgerkv"
	"tollhouse/store/storetest/must"
)

// limited is a listener with a connection limit.
type limited struct {
	net.Listener
	t *testing.T
}

func newLimited(t *testing.T, l *connLimit) *limited {
	t.Helper()
	inner := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	outer := l.listener(inner)
	t.Cleanup(func() { _ = outer.Close() })
	return &limited{outer, t}
}

// enter connects from a loopback address.
func (l *limited) enter(from string) (visitor net.Conn) {
	l.t.Helper()
	visitor, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).Dial("tcp", l.Addr().String())
	must.Have(l.t, err == nil, fmt.Sprintf("the address %s: %v", from, err))
	l.t.Cleanup(func() { _ = visitor.Close() })
	return visitor
}

func (l *limited) accept() *limitedConn {
	l.t.Helper()
	conn, err := l.Accept()
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = conn.Close() })
	return conn.(*limitedConn)
}

// both connects and accepts.
func (l *limited) both(from string) (visitor net.Conn, conn *limitedConn) {
	l.t.Helper()
	return l.enter(from), l.accept()
}

// wantClosed fails the test unless the server closed the client's connection.
func wantClosed(t *testing.T, what string, visitor net.Conn, closed bool) {
	t.Helper()
	wait := time.Millisecond
	if closed {
		wait = 10 * time.Second
	}
	must.Do(t, visitor.SetReadDeadline(time.Now().Add(wait)))
	if _, err := visitor.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) == closed {
		t.Errorf("%s: Read = %v, want it closed: %t", what, err, closed)
	}
}

// Promise (Credentials, memory, connections): an IPv6 /56 or /48 as many sources: failures, turns,
// connections, bodies, HTTP/2 requests
// Promise (Credentials, memory, connections): idle connections of one address, of many, and behind
// a trusted proxy
func TestConnectionLimit(t *testing.T) {
	t.Parallel()
	const one, other = "127.0.0.1", "127.0.0.2"
	newLimit := func(allowed int, exempt func(netip.Addr) bool) *connLimit {
		return newConnLimit(fixed(allowed), exempt, slog.New(slog.DiscardHandler))
	}
	t.Run("the_longest_idle_connection_is_closed", func(t *testing.T) {
		t.Parallel()
		l := newLimited(t, newLimit(3, anySource))
		first, firstConn := l.both(one)
		second, _ := l.both(one)
		third, _ := l.both(one)
		if _, ok := net.Conn(firstConn).(interface{ CloseWrite() error }); !ok {
			t.Error("a connection lost its CloseWrite")
		}
		firstConn.Work()
		firstConn.Rest() // idle again, and not as long as the second
		l.both(one)
		wantClosed(t, "the second", second, true)
		wantClosed(t, "the first", first, false)
		wantClosed(t, "the third", third, false)
	})
	t.Run("a_busy_connection_stays_open", func(t *testing.T) {
		t.Parallel()
		limit := newLimit(2, anySource)
		l := newLimited(t, limit)
		first, firstConn := l.both(one)
		_, secondConn := l.both(one)
		firstConn.Work()
		secondConn.Work()
		l.enter(one)
		waiting := make(chan *limitedConn)
		go func() { conn, _ := l.Accept(); waiting <- conn.(*limitedConn) }()
		for _, waiting := limit.open(); waiting == 0; _, waiting = limit.open() {
			time.Sleep(time.Millisecond)
		}
		secondConn.Rest()
		<-waiting
		wantClosed(t, "the first", first, false)
		if n, _ := limit.open(); n != 2 {
			t.Errorf("%d connections, want 2", n)
		}
	})
	t.Run("a_source_has_a_limit_of_its_own", func(t *testing.T) {
		t.Parallel()
		limit := newLimit(8, func(netip.Addr) bool { return false })
		l := newLimited(t, limit)
		others, _ := l.both(other)
		first, firstConn := l.both(one)
		second, secondConn := l.both(one)
		l.both(one)
		wantClosed(t, "the source's first", first, true)
		wantClosed(t, "another source's", others, false)
		wantClosed(t, "the source's second", second, false)
		secondConn.Work()
		_, fourthConn := l.both(one) // the third gives way
		fourthConn.Work()
		refused := l.enter(one)
		l.both(other)
		wantClosed(t, "one more than the source's busy ones", refused, true)
		for range 2 { // a place is given back once
			_ = firstConn.Close()
			_ = secondConn.Close()
		}
		if n, _ := limit.open(); n != 3 {
			t.Errorf("%d connections, want 3", n)
		}
	})
	t.Run("an_IPv6_network_has_a_limit_of_its_own", func(t *testing.T) {
		t.Parallel()
		limit := newLimit(16, func(netip.Addr) bool { return false })
		l := newLimited(t, limit)
		// from has as many busy connections as the format's networks get.
		from := func(format string, most int) (busy int) {
			t.Helper()
			for i := range most {
				l.enter(one)
				tcp := must.Get(l.Listener.(*limitedListener).Listener.Accept())(t).(*net.TCPConn)
				t.Cleanup(func() { _ = tcp.Close() })
				c, err := l.Listener.(*limitedListener).admit(tcp, netip.MustParseAddr(fmt.Sprintf(format, i)))
				if err == nil {
					c.Work()
					busy++
				}
			}
			return busy
		}
		for _, part := range []struct {
			networks string
			want     int
		}{{"2001:db8:1:200::%x", 4}, {"2001:db8:1:2%02x::1", 4}, {"2001:db8:1:%x00::1", 4}, {"2001:db8:2:%x00::1", 4}} {
			if got := from(part.networks, 16-limit.count); got != part.want {
				t.Errorf("%s has %d busy connections more, want %d", part.networks, got, part.want)
			}
		}
	})
	t.Run("the_oldest_unfinished_header_is_closed", func(t *testing.T) {
		t.Parallel()
		limit := newLimit(2*headersLarge, anySource) // two may be large
		l := newLimited(t, limit)
		read := func(visitor net.Conn, conn *limitedConn, size int) {
			t.Helper()
			if _, err := visitor.Write(make([]byte, size)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(conn, make([]byte, size)); err != nil {
				t.Fatal(err)
			}
		}
		var visitors [5]net.Conn
		var conns [5]*limitedConn
		for n := range visitors {
			visitors[n], conns[n] = l.both(one)
			size := headerSizeFree + 1
			if n == 1 {
				size = headerSizeFree
			}
			read(visitors[n], conns[n], size)
			if n == 0 { // its request begins, with a body as large
				conns[n].readsHeader(false)
				read(visitors[n], conns[n], size)
			}
		}
		wantClosed(t, "one in a request", visitors[0], false)
		wantClosed(t, "one with a small header", visitors[1], false)
		wantClosed(t, "the longest unfinished header", visitors[2], true)
		wantClosed(t, "the next one", visitors[3], false)
		conns[0].readsHeader(true)
		read(visitors[0], conns[0], headerSizeFree+1)
		wantClosed(t, "the next one, when the first has begun another header", visitors[3], true)
		if n, _ := limit.open(); n != 3 {
			t.Errorf("%d connections, want 3", n)
		}
	})
	t.Run("a_trusted_proxy_has_no_limit_of_its_own", func(t *testing.T) {
		t.Parallel()
		limit := newLimit(8, func(a netip.Addr) bool { return a == netip.MustParseAddr(one) })
		l := newLimited(t, limit)
		for range 8 {
			l.both(one)
		}
		if n, _ := limit.open(); n != 8 {
			t.Errorf("%d connections, want 8", n)
		}
	})
	t.Run("a_closed_listener_accepts_no_connection", func(t *testing.T) {
		t.Parallel()
		limit := newLimit(1, anySource)
		l := newLimited(t, limit)
		_, conn := l.both(one)
		conn.Work()
		l.enter(one)
		ended := make(chan error, 1)
		go func() { _, err := l.Accept(); ended <- err }()
		for _, waiting := limit.open(); waiting == 0; _, waiting = limit.open() {
			time.Sleep(time.Millisecond)
		}
		_ = l.Close()
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept of a closed listener = %v, want %v", err, net.ErrClosed)
		}
	})
}

func TestConnectionsAllowed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit, need uint64 // of open files
		memory      datadir.Memory
		want        int
	}{
		{0, 0, datadir.MemoryDefault, connectionsLeast}, {120, 0, datadir.MemoryDefault, 60}, {1024, 0, datadir.MemoryDefault, 512}, {1 << 20, 64, datadir.MemoryMin, 1024},
		{1 << 20, 64, datadir.MemoryDefault, 2048}, {1 << 20, 64, datadir.MemoryMax, connectionsMax}, {math.MaxUint64, 64, datadir.MemoryMax, connectionsMax},
		{1024, 964, datadir.MemoryDefault, 60}, {1024, 1020, datadir.MemoryDefault, connectionsLeast}, {1024, 2000, datadir.MemoryDefault, connectionsLeast},
	} {
		files := badgerkv.Files{Limit: c.limit, Need: c.need}
		if got := connectionsAllowed(files, c.memory); got != c.want {
			t.Errorf("connectionsAllowed(%+v, %d) = %d, want %d", files, c.memory, got, c.want)
		}
	}
}

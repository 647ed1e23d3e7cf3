package cli

import (
	"log/slog"
	"net"
	"sync"
)

// The store opens files as it grows, and a store that cannot open one stops the
// process. A visitor can hold a connection open for a minute without a word, so
// visitors may have half of the files that the process may open, at most.
const (
	connectionsMax   = 16 << 10 // however many files there may be; our choice
	connectionsLeast = 16
)

// connectionsAllowed returns how many connections a process may keep that may
// have so many files open.
func connectionsAllowed(files uint64) int {
	return int(max(connectionsLeast, min(files/2, connectionsMax)))
}

// crowd counts the connections of all public listeners.
type crowd struct {
	places chan struct{} // one taken for each connection
	full   sync.Once
	log    *slog.Logger
}

func newCrowd(allowed int, log *slog.Logger) *crowd {
	return &crowd{places: make(chan struct{}, allowed), log: log}
}

// through returns l, held to the crowd's size: those who come while every place
// is taken wait in the system's queue until somebody leaves.
func (c *crowd) through(l net.Listener) net.Listener {
	return &crowdListener{Listener: l, crowd: c, closed: make(chan struct{})}
}

type crowdListener struct {
	net.Listener
	crowd   *crowd
	closed  chan struct{}
	closing sync.Once
}

func (l *crowdListener) Accept() (net.Conn, error) {
	select {
	case l.crowd.places <- struct{}{}:
	default:
		l.crowd.full.Do(func() {
			l.crowd.log.Warn("connections are at their limit; further ones wait", "limit", cap(l.crowd.places))
		})
		select {
		case l.crowd.places <- struct{}{}:
		case <-l.closed:
			return nil, net.ErrClosed
		}
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.crowd.places
		return nil, err
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		panic("cli: listener without TCP connections")
	}
	return &crowdConn{TCPConn: tcp, leave: sync.OnceFunc(func() { <-l.crowd.places })}, nil
}

func (l *crowdListener) Close() error {
	l.closing.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// crowdConn gives its place back when it closes. It stays a TCP connection:
// net/http closes its writing half alone behind an answer to a body that is too
// large, so that the answer arrives.
type crowdConn struct {
	*net.TCPConn
	leave func()
}

func (c *crowdConn) Close() error {
	defer c.leave()
	return c.TCPConn.Close()
}

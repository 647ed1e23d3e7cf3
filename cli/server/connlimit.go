package server

import (
	linked "container/list"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"

	"tollhouse/cli/datadir"
	"tollhouse/handlers"
)

// The store opens files as it grows, and a store that cannot open one stops the
// process. Connections may therefore take half of the files that the process may
// open, at most. Each also has a share of --memory: the buffers and stacks of one
// with a request in flight take 30 to 60 KiB, and as much again until they are
// collected.
const (
	connectionsMax      = 16 << 10 // whatever the memory and the files; our choice
	connectionsLeast    = 16
	connectionShare     = 128 << 10 // bytes of --memory for each
	connectionsOfSource = 4         // a source may have one part in so many

	// A header that is not complete yet is in memory already, where its fields take
	// ten times the bytes that they took on the wire. headerSizeFree is part of
	// connectionShare; one connection in headersLarge may have sent more.
	headerSizeFree = 4 << 10
	headersLarge   = 16
)

// connectionsAllowed returns how many connections a process may keep that may
// have so many files open and so much memory.
func connectionsAllowed(files uint64, m datadir.Memory) int {
	return int(max(connectionsLeast, min(files/2, uint64(m/connectionShare), connectionsMax)))
}

// connLimit bounds the connections of several listeners together, and those of
// each source. A new connection takes the place of the one that has been idle the
// longest when there are too many.
type connLimit struct {
	max, ofSource int
	exempt        func(netip.Addr) bool // from ofSource
	log           *slog.Logger
	full          sync.Once

	mu      sync.Mutex
	count   int
	sources map[netip.Prefix]int
	idle    linked.List // of *limitedConn, the longest idle first
	large   linked.List // of *limitedConn with much of an unfinished header, the longest first
	changed *sync.Cond  // a connection has ended or become idle
	waiting int         // listeners that wait for that
}

// newConnLimit returns a limit of so many connections. A source for which exempt
// is true may have all of them.
func newConnLimit(allowed int, exempt func(netip.Addr) bool, log *slog.Logger) *connLimit {
	l := &connLimit{max: allowed, ofSource: max(allowed/connectionsOfSource, 1), exempt: exempt, log: log, sources: map[netip.Prefix]int{}}
	l.changed = sync.NewCond(&l.mu)
	return l
}

// anySource is exempt for a listener that has no limit for each source.
func anySource(netip.Addr) bool { return true }

// open returns how many connections there are, and how many listeners wait.
func (l *connLimit) open() (connections, waiting int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count, l.waiting
}

// listener returns inner, held to the limit.
func (l *connLimit) listener(inner net.Listener) net.Listener {
	return &limitedListener{Listener: inner, limit: l}
}

type limitedListener struct {
	net.Listener
	limit  *connLimit
	closed bool // with limit.mu
}

func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		tcp, ok := conn.(*net.TCPConn)
		if !ok {
			panic("server: listener without TCP connections")
		}
		c, err := l.admit(tcp)
		if err == nil {
			return c, nil
		}
		_ = tcp.Close()
		if !errors.Is(err, errSourceFull) {
			return nil, err
		}
	}
}

func (l *limitedListener) Close() error {
	l.limit.mu.Lock()
	l.closed = true
	l.limit.changed.Broadcast()
	l.limit.mu.Unlock()
	return l.Listener.Close()
}

var errSourceFull = errors.New("the source has all connections that it may have, and all are busy")

// admit counts a new connection, and closes idle ones in its place where it must.
// When all connections are busy it waits. Errors: errSourceFull, net.ErrClosed.
func (l *limitedListener) admit(tcp *net.TCPConn) (*limitedConn, error) {
	limit := l.limit
	c := &limitedConn{TCPConn: tcp, limit: limit}
	if addr := tcp.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap(); !limit.exempt(addr) {
		c.source = handlers.SourceOf(addr)
	}
	limit.mu.Lock()
	defer limit.mu.Unlock()
	for c.source.IsValid() && limit.sources[c.source] >= limit.ofSource {
		if !limit.closeIdle(func(other *limitedConn) bool { return other.source == c.source }) {
			return nil, errSourceFull
		}
	}
	for limit.count >= limit.max {
		limit.full.Do(func() {
			limit.log.Warn("connection limit reached: the longest idle connections are closed", "limit", limit.max)
		})
		if limit.closeIdle(func(*limitedConn) bool { return true }) {
			continue
		}
		if l.closed {
			return nil, net.ErrClosed
		}
		limit.waiting++
		limit.changed.Wait()
		limit.waiting--
	}
	limit.count++
	if c.source.IsValid() {
		limit.sources[c.source]++
	}
	c.idle = limit.idle.PushBack(c)
	return c, nil
}

// closeIdle closes the connection that has been idle the longest of those that may
// be, and reports whether there was one. The caller holds mu.
func (l *connLimit) closeIdle(mayBe func(*limitedConn) bool) bool {
	for e := l.idle.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*limitedConn); mayBe(c) {
			l.remove(c)
			_ = c.TCPConn.Close()
			return true
		}
	}
	return false
}

// remove takes a connection off the books, once. The caller holds mu.
func (l *connLimit) remove(c *limitedConn) {
	if c.removed {
		return
	}
	c.removed = true
	c.isIdle(false)
	c.isLarge(false)
	l.count--
	if c.source.IsValid() {
		if l.sources[c.source]--; l.sources[c.source] == 0 {
			delete(l.sources, c.source)
		}
	}
	l.changed.Broadcast()
}

// limitedConn is a connection that knows whether the server works for it. It stays
// a TCP connection: net/http closes its writing half alone behind an answer to a
// body that is too large, so that the answer arrives.
type limitedConn struct {
	*net.TCPConn
	limit  *connLimit
	source netip.Prefix // invalid: exempt
	header atomic.Int64 // bytes of the header that is being read; inRequest or more while none is

	// With limit.mu.
	busy    int             // requests that wait for the server and not for their peer
	idle    *linked.Element // in limit.idle
	inLarge *linked.Element // in limit.large
	removed bool
}

const inRequest = math.MaxInt64 / 2

// Read counts the bytes of a header. When too many connections have sent much of an
// unfinished one, the one that did so first is closed.
func (c *limitedConn) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	if size := c.header.Add(int64(n)); size > headerSizeFree && size-int64(n) <= headerSizeFree {
		c.limit.mu.Lock()
		defer c.limit.mu.Unlock()
		c.isLarge(!c.removed && c.header.Load() < inRequest)
		if first := c.limit.large.Front(); c.limit.large.Len() > max(c.limit.max/headersLarge, 1) {
			other := first.Value.(*limitedConn)
			c.limit.remove(other)
			_ = other.TCPConn.Close()
		}
	}
	return n, err
}

// readsHeader says whether what comes next is a request's header.
func (c *limitedConn) readsHeader(now bool) {
	next := int64(inRequest)
	if now {
		next = 0
	}
	if size := c.header.Swap(next); size > headerSizeFree && size < inRequest {
		c.limit.mu.Lock()
		defer c.limit.mu.Unlock()
		c.isLarge(false)
	}
}

func (c *limitedConn) isLarge(now bool) {
	switch {
	case now:
		c.inLarge = c.limit.large.PushBack(c)
	case c.inLarge != nil:
		c.limit.large.Remove(c.inLarge)
		c.inLarge = nil
	}
}

// Work is the beginning of work for the connection's peer.
func (c *limitedConn) Work() {
	c.limit.mu.Lock()
	defer c.limit.mu.Unlock()
	if c.busy++; c.busy == 1 {
		c.isIdle(false)
	}
}

// Rest is its end: from here on the peer is waited for.
func (c *limitedConn) Rest() {
	c.limit.mu.Lock()
	defer c.limit.mu.Unlock()
	if c.busy--; c.busy == 0 && !c.removed {
		c.isIdle(true)
		c.limit.changed.Broadcast()
	}
}

func (c *limitedConn) isIdle(now bool) {
	switch {
	case now:
		c.idle = c.limit.idle.PushBack(c)
	case c.idle != nil:
		c.limit.idle.Remove(c.idle)
		c.idle = nil
	}
}

func (c *limitedConn) Close() error {
	c.limit.mu.Lock()
	c.limit.remove(c)
	c.limit.mu.Unlock()
	return c.TCPConn.Close()
}

// trackConnections has a server and its requests tell their connections when they
// work, when they wait, and when a header is read.
func trackConnections(s *http.Server) *http.Server {
	s.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		if c := limitedConnOf(conn); c != nil {
			return handlers.WithConnection(ctx, c)
		}
		return ctx
	}
	s.ConnState = func(conn net.Conn, state http.ConnState) {
		if c := limitedConnOf(conn); c != nil {
			c.readsHeader(state == http.StateNew || state == http.StateIdle)
		}
	}
	return s
}

// limitedConnOf returns what carries a connection, with TLS or without, or nil.
func limitedConnOf(conn net.Conn) *limitedConn {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	c, _ := conn.(*limitedConn)
	return c
}

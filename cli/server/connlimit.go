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
	"tollhouse/handlers/throttle"
	"tollhouse/handlers/web"
	"tollhouse/store/kv/badgerkv"
)

// The store opens files as it grows, and stops the process when it cannot open one. So
// connections may take what it leaves of the file limit, and at most half. Each also takes a share of
// --memory: a connection with a request in flight needs 30 to 60 KiB of buffers and
// stacks, and as much again until the garbage is collected.
const (
	connectionsMax   = 16 << 10 // whatever the memory and the file limit; our choice
	connectionsLeast = 16
	connectionShare  = 128 << 10 // bytes of --memory for each

	// An incomplete header is already in memory, where its fields take ten times their
	// size on the wire. headerSizeFree fits into connectionShare; one connection in
	// headersLarge may have sent more.
	headerSizeFree = 4 << 10
	headersLarge   = 16
)

// connectionsAllowed returns the connection limit for open files and memory.
func connectionsAllowed(files badgerkv.Files, m datadir.Memory) int {
	return int(max(connectionsLeast, min(files.Left(), files.Limit/2, uint64(m/connectionShare), connectionsMax)))
}

// connLimit limits the connections of several listeners together, and those of each
// source. At the limit a new connection replaces the one that has been idle the longest.
type connLimit struct {
	allowed func() int            // the limit, which falls as the store grows
	exempt  func(netip.Addr) bool // from the limit per source
	log     *slog.Logger
	full    sync.Once

	mu      sync.Mutex
	max     int // the limit at the last connection
	count   int
	sources map[netip.Prefix]int // and the networks around them
	idle    linked.List          // of *limitedConn, longest idle first
	large   linked.List          // of *limitedConn with a large unfinished header, oldest first
	changed *sync.Cond           // a connection was closed or became idle
	waiting int                  // listeners that wait for that
}

// newConnLimit returns a limit of as many connections as allowed returns. A source for which exempt is true
// may have all of them.
func newConnLimit(allowed func() int, exempt func(netip.Addr) bool, log *slog.Logger) *connLimit {
	l := &connLimit{allowed: allowed, max: allowed(), exempt: exempt, log: log, sources: map[netip.Prefix]int{}}
	l.changed = sync.NewCond(&l.mu)
	return l
}

// anySource exempts every source from the limit per source.
func anySource(netip.Addr) bool { return true }

// fixed is a limit that does not change.
func fixed(limit int) func() int { return func() int { return limit } }

// most returns the limit.
func (l *connLimit) most() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.max
}

// open returns how many connections there are, and how many listeners wait.
func (l *connLimit) open() (connections, waiting int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count, l.waiting
}

// listener returns inner with the limit applied.
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
		c, err := l.admit(tcp, tcp.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap())
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

var errSourceFull = errors.New("the source is at its limit, and all its connections are busy")

// admit counts a new connection and closes an idle one if that is necessary. It waits
// while all connections are busy. Errors: errSourceFull, net.ErrClosed.
func (l *limitedListener) admit(tcp *net.TCPConn, addr netip.Addr) (*limitedConn, error) {
	limit := l.limit
	c := &limitedConn{TCPConn: tcp, limit: limit}
	if !limit.exempt(addr) {
		c.source = addr
	}
	allowed := limit.allowed()
	limit.mu.Lock()
	defer limit.mu.Unlock()
	limit.max = allowed
	for n := range throttle.Networks(c.source) {
		for limit.sources[n.Prefix] >= max(int(n.Part(int64(limit.max))), 1) {
			if !limit.closeIdle(func(other *limitedConn) bool { return n.Contains(other.source) }) {
				return nil, errSourceFull
			}
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
	for n := range throttle.Networks(c.source) {
		limit.sources[n.Prefix]++
	}
	c.idle = limit.idle.PushBack(c)
	return c, nil
}

// closeIdle closes the longest idle connection for which mayBe is true, and reports
// whether there was one. The caller holds mu.
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

// remove stops counting a connection. The caller holds mu.
func (l *connLimit) remove(c *limitedConn) {
	if c.removed {
		return
	}
	c.removed = true
	c.isIdle(false)
	c.isLarge(false)
	l.count--
	for n := range throttle.Networks(c.source) {
		if l.sources[n.Prefix]--; l.sources[n.Prefix] == 0 {
			delete(l.sources, n.Prefix)
		}
	}
	l.changed.Broadcast()
}

// limitedConn is a connection that knows whether the server is working on a request of
// it. It embeds a TCP connection: after a response to a body that is too large, net/http
// closes only the writing half, so that the response arrives.
type limitedConn struct {
	*net.TCPConn
	limit  *connLimit
	source netip.Addr   // invalid: exempt
	header atomic.Int64 // bytes of the header being read; inRequest or more if none is

	// With limit.mu.
	busy    int             // requests that the server is working on
	idle    *linked.Element // in limit.idle
	inLarge *linked.Element // in limit.large
	removed bool
}

const inRequest = math.MaxInt64 / 2

// Read counts the bytes of a header. If too many connections have a large unfinished
// header, the oldest of them is closed.
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

// readsHeader sets whether the next bytes are the header of a request.
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

// Work marks the start of work on a request of the connection.
func (c *limitedConn) Work() {
	c.limit.mu.Lock()
	defer c.limit.mu.Unlock()
	if c.busy++; c.busy == 1 {
		c.isIdle(false)
	}
}

// Rest marks its end: from now on the server waits for the peer.
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

// trackConnections makes a server report to its connections when it works on a request,
// when it waits for the peer, and when it reads a header.
func trackConnections(s *http.Server) *http.Server {
	s.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		if c := limitedConnOf(conn); c != nil {
			return web.WithConnection(ctx, c)
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

// limitedConnOf returns the limitedConn below conn, which may be TLS, or nil.
func limitedConnOf(conn net.Conn) *limitedConn {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	c, _ := conn.(*limitedConn)
	return c
}

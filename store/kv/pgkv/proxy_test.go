package pgkv_test

import (
	"bytes"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"tollhouse/store/kv/pgkv/pgtest"
)

// proxy stands between a store and its database, and cuts all connections at once.
type proxy struct {
	listener net.Listener
	server   *pgtest.Server

	mu    sync.Mutex
	conns map[net.Conn]bool
	next  when // to cut
	cuts  int
	away  bool // takes no connections

	stalled chan struct{}
	frozen  atomic.Bool // nothing is answered, as by a stopped server
}

// when says which moment of a commit a cut awaits.
type when int

const (
	never        when = iota
	beforeCommit      // the statement does not arrive
	afterCommit       // its answer does not arrive
	stalled           // nothing is cut: the answer waits until the channel of that name is closed
	halfTurn          // from within a flight on nothing arrives: after the turn was taken
	halfWrites        // after the writes
)

// marks are the messages by which the moments are known. A statement is bound with one code for
// the format of parameters, which the message that prepares it does not have.
var marks = map[when][]byte{halfTurn: bound("site"), halfWrites: bound("mark")}

func bound(name string) []byte { return []byte("\x00" + name + "\x00\x00\x01") }

// newProxy returns a proxy and the URL of the database through it.
func newProxy(t *testing.T, s *pgtest.Server, dsn string) (*proxy, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, server: s, conns: map[net.Conn]bool{}, stalled: make(chan struct{})}
	var serving sync.WaitGroup
	serving.Go(func() { p.serve(&serving) })
	t.Cleanup(func() {
		listener.Close()
		p.cut()
		serving.Wait()
	})
	host, port, _ := net.SplitHostPort(listener.Addr().String())
	name := strings.TrimPrefix(dsn, "postgres:///")
	name, _, _ = strings.Cut(name, "?")
	return p, "postgres://postgres@" + net.JoinHostPort(host, port) + "/" + name + "?sslmode=disable"
}

func (p *proxy) serve(serving *sync.WaitGroup) {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("unix", p.server.Socket())
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		if p.away {
			client.Close()
			server.Close()
		}
		p.mu.Unlock()
		answered := make(chan when, 1) // gets what to do with the answer to a commit
		serving.Go(func() { p.toServer(client, server, answered) })
		serving.Go(func() { p.toClient(server, client, answered) })
	}
}

var commitMark = bound("commit")

func (p *proxy) toServer(client, server net.Conn, answered chan when) {
	defer client.Close()
	defer server.Close()
	buffer := make([]byte, 64<<10)
	var tail []byte
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		if at := p.halfAt(buffer[:n]); at >= 0 {
			_, _ = server.Write(buffer[:at])
			_, _ = io.Copy(io.Discard, client) // until it is closed
			return
		}
		seen := append(tail, buffer[:n]...)
		if bytes.Contains(seen, commitMark) {
			switch w := p.take(); w {
			case beforeCommit:
				p.cut()
				return
			case afterCommit, stalled:
				answered <- w
			}
		}
		tail = bytes.Clone(seen[max(0, len(seen)-len(commitMark)+1):])
		if _, err := server.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (p *proxy) toClient(server, client net.Conn, answered chan when) {
	defer client.Close()
	defer server.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if err != nil {
			return
		}
		select {
		case w := <-answered: // the server has committed
			if w == afterCommit {
				p.cut()
				return
			}
			<-p.stalled
		default:
		}
		if p.frozen.Load() {
			continue
		}
		if _, err := client.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// isNext reports whether a moment is still awaited.
func (p *proxy) isNext(w when) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next == w
}

// halfAt returns where to stop in what a client has sent, or -1.
func (p *proxy) halfAt(sent []byte) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := bytes.Index(sent, marks[p.next])
	if marks[p.next] == nil || at < 0 {
		return -1
	}
	p.next = never
	return at
}

// cutAt cuts at the next commit.
func (p *proxy) cutAt(w when) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = w
}

func (p *proxy) take() when {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.next
	p.next = never
	return w
}

// cut closes all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
		delete(p.conns, c)
	}
	p.cuts++
}

func (p *proxy) cutSoFar() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

func (p *proxy) setAway(away bool) {
	p.mu.Lock()
	p.away = away
	p.mu.Unlock()
	if away {
		p.cut()
	}
}

func itoa(n int) []byte { return []byte(strconv.Itoa(n)) }

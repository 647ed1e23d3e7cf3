package proof

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tollhouse/store/storetest/must"
)

// What strangers can make a server hold, while honest visitors use it:
// docs/internals/decisions.md, "Memory under attack". The attackers come from many addresses,
// so that no limit for one source can help. Those who are hung up on come back.
const (
	attackedMemory  = 256 << 20
	heldMemoryMax   = attackedMemory / 2 * 3
	honestWaitMax   = 2 * time.Second
	honestSlowest   = 10 * honestWaitMax // of one visit, while the tests of other packages run
	honestMargin    = 20                 // honestWaitMax is judged on a machine that is so much faster without an attack
	standingWait    = 10 * time.Second   // for every attacker to have sent what they have
	attackLasts     = 4 * time.Second
	spread          = 2 * time.Second // of their first coming
	comeBackAfter   = 4 * time.Second
	stalledBodies   = 5000
	secureAttackers = 60
	streamsEach     = 99
	slowReaders     = 150
	bodySize        = 64 << 10
	freeBody        = 2 << 10 // that is charged to no budget
	stalledHeaders  = 3000
	headerFields    = 3500 // of 6 bytes each, as many as a header has room for
	streamFields    = 600  // likewise over HTTP/2, which counts 32 bytes more for each
	filesNeeded     = 12000
)

// TestMemoryUnderAttack runs its parts one after another, and beside no other test:
// each of them keeps the machine busy, and is judged by the clock.
//
// Promise (Credentials, memory, connections): stalled bodies and streams, half-sent headers and
// slow readers by the thousand, beside honest visitors
func TestMemoryUnderAttack(t *testing.T) {
	must.SkipInShort(t)
	var files syscall.Rlimit
	must.Do(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files))
	must.Have(t, files.Cur >= filesNeeded, fmt.Sprintf("a test of %d connections needs %d open files, and may have %d", stalledBodies, filesNeeded, files.Cur))
	pair := newKeyPair(t, false, secureHost)
	memory := fmt.Sprint(attackedMemory)
	t.Run("stalled_bodies_over_plain_connections", func(t *testing.T) {
		s := startServe(t, filepath.Join(t.TempDir(), "data"), "--memory", memory)
		s.wantHeld(s.underAttack(&http.Transport{DisableKeepAlives: true}, s.stallBodies))
	})
	t.Run("stalled_bodies_over_HTTP_2", func(t *testing.T) {
		s := startSecure(t, pair, "--memory", memory)
		visitors := s.transport(pair.roots, true)
		visitors.DisableKeepAlives = true
		s.wantHeld(s.underAttack(visitors, func(a *attack) {
			s.stallStreams(a, &tls.Config{RootCAs: pair.roots, ServerName: secureHost}, bodySize, nil)
		}))
	})
	t.Run("header_fields_over_plain_connections", func(t *testing.T) {
		s := startServe(t, filepath.Join(t.TempDir(), "data"), "--memory", memory)
		s.wantHeld(s.underAttack(&http.Transport{DisableKeepAlives: true}, s.stallHeaders))
	})
	t.Run("header_fields_over_HTTP_2", func(t *testing.T) {
		fields := http.Header{}
		for n := range streamFields {
			fields.Set(fmt.Sprintf("X-%03x", n), "")
		}
		attacked := func() (*server, int64) {
			s := startSecure(t, pair, "--memory", memory)
			visitors := s.transport(pair.roots, true)
			visitors.DisableKeepAlives = true
			return s, s.underAttack(visitors, func(a *attack) {
				s.stallStreams(a, &tls.Config{RootCAs: pair.roots, ServerName: secureHost}, freeBody, fields)
			})
		}
		s, peak := attacked()
		if peak > heldMemoryMax { // thousands of requests, whose headers were read before any of them got to run
			s.stop()
			s, peak = attacked()
		}
		s.wantHeld(peak)
	})
	t.Run("slow_readers_of_the_largest_pages", func(t *testing.T) {
		s := startServe(t, filepath.Join(t.TempDir(), "data"), "--memory", memory)
		s.wantHeld(s.underAttack(&http.Transport{DisableKeepAlives: true}, s.readSlowly))
	})
}

// attack is a number of attackers, who have an access token of an account of their
// own.
type attack struct {
	ctx      context.Context
	access   string
	standing sync.WaitGroup // until each has sent what they have, for the first time
	working  sync.WaitGroup
}

// by runs attackers until the attack is over. Each calls sent when it has sent what
// it has.
func (a *attack) by(count int, attacker func(n int, sent func())) {
	a.standing.Add(count)
	for n := range count {
		a.working.Go(func() {
			sent := sync.OnceFunc(a.standing.Done)
			defer sent()
			pause(a.ctx, rand.N(spread))
			for a.ctx.Err() == nil {
				attacker(n, sent)
				pause(a.ctx, rand.N(comeBackAfter))
			}
		})
	}
}

// await returns when the attack stands, or after standingWait.
func (a *attack) await(t testing.TB) {
	stands := make(chan struct{})
	go func() { a.standing.Wait(); close(stands) }()
	select {
	case <-stands:
	case <-time.After(standingWait):
		t.Logf("after %v not every attacker has sent what they have", standingWait)
	}
}

// wantHeld holds the server to its memory during an attack.
func (s *server) wantHeld(peak int64) {
	s.t.Helper()
	if peak > heldMemoryMax {
		s.t.Errorf("RssAnon %d MiB, want at most %d", peak>>20, heldMemoryMax>>20)
	}
}

// underAttack holds the server to its manners during an attack, and returns the most
// memory that it had.
func (s *server) underAttack(visitors http.RoundTripper, begin func(*attack)) int64 {
	t := s.t.(*testing.T)
	creds := s.createClient("Larkspur Bookkeeping", callbackURI)
	s.createUser("ines", "acct_honest", odilePassword)
	s.createUser("mallory", "acct_attacker", odilePassword)
	honest := &client{base: s.base, credentials: creds, http: &http.Client{Transport: visitors, Timeout: requestWait}}
	malice, refused, err := honest.grant(t.Context(), "password", "username", "mallory", "password", odilePassword)
	if err != nil || malice.Access == "" {
		t.Fatalf("token of the attacker: %v %v", refused, err)
	}
	s.importLarge("acct_attacker", 220)
	s.importLarge("acct_honest", 5)
	undisturbed := honest.visit(t)

	ctx, cancel := context.WithCancel(t.Context())
	a := &attack{ctx: ctx, access: malice.Access}
	var peak atomic.Int64
	a.working.Go(func() {
		for ctx.Err() == nil {
			peak.Store(max(peak.Load(), anonymousMemory(t, s)))
			pause(ctx, 10*time.Millisecond)
		}
	})
	begin(a)
	a.await(t)
	var visits []time.Duration
	for end := time.Now().Add(attackLasts); time.Now().Before(end); {
		visits = append(visits, honest.visit(t))
	}
	slices.Sort(visits)
	usual, slowest := visits[(len(visits)-1)/2], visits[len(visits)-1]
	cancel()
	a.working.Wait()
	after := honest.visit(t)
	for range 2 {
		after = min(after, honest.visit(t))
	}
	undisturbed = max(undisturbed, after) // other tests may have begun meanwhile
	t.Logf("RssAnon at most %d MiB; %d honest visits, the slowest request took %v, and %v without an attack",
		peak.Load()>>20, len(visits), slowest.Round(time.Millisecond), undisturbed.Round(time.Millisecond))
	const visitsMin = 3 // one slow visit beside the tests of other packages is not the usual one
	if (len(visits) >= visitsMin && usual > honestWaitMax || slowest > honestSlowest) && undisturbed < honestWaitMax/honestMargin {
		t.Errorf("honest requests took %v, the slowest %v; want at most %v, and never more than %v", usual, slowest, honestWaitMax, honestSlowest)
	}
	return peak.Load()
}

// TestFewConnectionsLeaveRoom runs a server that may keep 60 connections, of which one
// address may have 15.
//
// Promise (Credentials, memory, connections): idle connections of one address, of many, and behind
// a trusted proxy
func TestFewConnectionsLeaveRoom(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	const (
		idle    = 150
		waitMax = 4 * time.Second // less than any deadline that would make room
		tries   = 3               // beside the tests of other packages
	)
	for _, c := range []struct {
		name, sent string
		args       []string
	}{
		{"beside_idle_connections_of_one_address", "", nil},
		{"beside_half_sent_headers_of_one_address", "GET /login HTTP/1.1\r\n", nil},
		{"behind_a_trusted_proxy_with_idle_connections", "", []string{"--trusted-proxies", "127.0.0.1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"-c", `ulimit -n 120 && exec "$0" "$@"`, program(t), "serve", "--data", filepath.Join(t.TempDir(), "data"), "--listen", "127.0.0.1:0"}, c.args...)
			cmd := exec.Command("sh", args...)
			cmd.Env = environ()
			s := startCommand(t, cmd, "serve")
			for n, from := range []string{"127.0.0.1", "127.0.0.2"} {
				d := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
				visitor := &client{base: s.base, http: &http.Client{Timeout: requestWait, Transport: &http.Transport{DialContext: d.DialContext, DisableKeepAlives: true}}}
				took := waitMax + 1
				for try := 0; try < tries && took > waitMax; try++ {
					for range idle {
						conn := must.Get(net.DialTimeout("tcp", s.ready.Listen[0], requestWait))(t)
						defer conn.Close()
						_, _ = io.WriteString(conn, c.sent) // it may have given way already
					}
					begun := time.Now()
					a, err := visitor.send(t.Context(), http.MethodGet, "/login", "")
					if took = time.Since(begun); err != nil || a.status != http.StatusOK {
						t.Errorf("visitor %d, from %s: %.100s, %v after %v", n, from, a, err, took)
					}
				}
				if took > waitMax {
					t.Errorf("visitor %d, from %s, waited %v for an answer, want at most %v", n, from, took, waitMax)
				}
			}
		})
	}
}

// visit is an honest visitor, who gets a token by password, reads a page, and looks
// at the login page. It returns how long the slowest of these took. Whoever is hung up on,
// as a machine that is slow enough does by its deadlines, has waited in vain.
func (c *client) visit(t *testing.T) (slowest time.Duration) {
	t.Helper()
	timed := func(what string, ask func() (answer, error)) {
		begun := time.Now()
		a, err := ask()
		slowest = max(slowest, time.Since(begun))
		if errors.Is(err, errLost) {
			slowest = max(slowest, 2*honestSlowest)
		} else if err != nil || a.status != http.StatusOK {
			t.Errorf("%s of an honest visitor after %v: %.300s, %v", what, time.Since(begun), a, err)
		}
	}
	var pair tokens
	timed("token", func() (a answer, err error) {
		pair, a, err = c.grant(t.Context(), "password", "username", "ines", "password", odilePassword)
		return a, err
	})
	if pair.Access == "" {
		return slowest
	}
	timed("page", func() (answer, error) {
		return c.call(t.Context(), pair.Access, http.MethodGet, "/api/events?limit=100", "")
	})
	timed("login page", func() (answer, error) { return c.send(t.Context(), http.MethodGet, "/login", "") })
	return slowest
}

// importLarge records events of some 20 KiB each.
func (s *server) importLarge(account string, count int) {
	s.t.Helper()
	var lines strings.Builder
	for n := range count {
		fmt.Fprintf(&lines, `{"id":"evt_large_%s_%d","resource":"doc_large","source":"test","type":"document.created","createdAt":%d,"eventData":{"object":{"text":"%s"}}}`+"\n",
			account, n, 1700000000+n, strings.Repeat("x", 20<<10))
	}
	file := filepath.Join(s.t.TempDir(), "large.ndjson")
	writeFile(s.t, file, lines.String())
	s.run("event", "import", file, "--account", account, "--quiet")
}

// attackerDialer dials from one of many addresses of this machine.
func attackerDialer(n int) *net.Dialer {
	return &net.Dialer{Timeout: requestWait, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 66, byte(n/250), byte(1+n%250))}}
}

// stallBodies sends requests for tokens but for the end of their bodies.
func (s *server) stallBodies(a *attack) {
	s.stall(a, stalledBodies, fmt.Sprintf("POST /oauth/v2/token HTTP/1.1\r\nHost: %s\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s",
		s.ready.Listen[0], bodySize, strings.Repeat("x", bodySize-1<<10)))
}

// stallHeaders sends requests of many header fields, and every other one without
// the end of its header.
func (s *server) stallHeaders(a *attack) {
	var fields strings.Builder
	for n := range headerFields {
		fmt.Fprintf(&fields, "%03x:\r\n", n)
	}
	half := fmt.Sprintf("POST /oauth/v2/token HTTP/1.1\r\nHost: %s\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n%s",
		s.ready.Listen[0], freeBody, fields.String())
	s.stall(a, stalledHeaders, half, half+"\r\nx")
}

// stall sends the beginnings of requests, in turn, over a connection for each.
func (s *server) stall(a *attack, count int, beginnings ...string) {
	a.by(count, func(n int, sent func()) {
		conn, err := attackerDialer(n).DialContext(a.ctx, "tcp", s.ready.Listen[0])
		if err != nil {
			return
		}
		defer conn.Close()
		defer context.AfterFunc(a.ctx, func() { _ = conn.Close() })()
		_, _ = io.WriteString(conn, beginnings[n%len(beginnings)]) // who is hung up on has tried
		sent()
		_, _ = conn.Read(make([]byte, 1))
	})
}

// stalledBody is a body that does not come to its end before the attack does.
type stalledBody struct {
	ctx  context.Context
	left int
	sent func()
}

func (b *stalledBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		b.sent()
		<-b.ctx.Done()
		return 0, b.ctx.Err()
	}
	n := min(len(p), b.left)
	for i := range n {
		p[i] = 'x'
	}
	b.left -= n
	return n, nil
}

// stallStreams is stallBodies over a few connections with many streams each.
func (s *server) stallStreams(a *attack, config *tls.Config, size int, fields http.Header) {
	transports := make([]*http.Transport, secureAttackers)
	for n := range transports {
		transports[n] = s.transportFrom(config, n)
	}
	a.by(secureAttackers*streamsEach, func(n int, sent func()) {
		ctx, cancel := context.WithCancel(a.ctx)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, secureURL+"/oauth/v2/token", &stalledBody{ctx, size - 1<<10, sent})
		if err != nil {
			panic(err) // the address is a constant
		}
		r.ContentLength = int64(size)
		maps.Copy(r.Header, fields)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if answer, err := transports[n/streamsEach].RoundTrip(r); err == nil {
			_ = answer.Body.Close()
		}
		sent()
	})
}

// transportFrom is an attacker's with one connection.
func (s *server) transportFrom(config *tls.Config, n int) *http.Transport {
	tr := &http.Transport{
		TLSClientConfig: config.Clone(), ForceAttemptHTTP2: true, DisableCompression: true, MaxConnsPerHost: 1,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return attackerDialer(n).DialContext(ctx, network, s.ready.Listen[0])
		},
	}
	s.t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// readSlowly asks for the largest pages and takes next to nothing of them.
func (s *server) readSlowly(a *attack) {
	a.by(slowReaders, func(n int, sent func()) {
		d := attackerDialer(n)
		d.Control = func(_, _ string, c syscall.RawConn) error {
			return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10) })
		}
		conn, err := d.DialContext(a.ctx, "tcp", s.ready.Listen[0])
		if err != nil {
			return
		}
		defer conn.Close()
		defer context.AfterFunc(a.ctx, func() { _ = conn.Close() })()
		_, _ = fmt.Fprintf(conn, "GET /api/events?limit=1000 HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", s.ready.Listen[0], a.access)
		for err == nil {
			_, err = conn.Read(make([]byte, 64))
			sent()
			pause(a.ctx, 20*time.Millisecond)
		}
	})
}

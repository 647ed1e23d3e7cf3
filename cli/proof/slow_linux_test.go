package proof

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tollhouse/store/storetest/must"
)

const (
	slowHandshakes = 200
	slowHeaders    = 400
	slowBodies     = 400
	slowPages      = 200
	slowStreams    = 40

	slowAccounts   = 4 // whose pages are read
	slowTick       = 500 * time.Millisecond
	slowRounds     = 1
	slowRoundsLong = 10
	slowLate       = 3  // times its deadline a connection may last on a busy machine
	spareFiles     = 64 // that the server may open meanwhile
)

// slowPeer is one way to be slow. It sends a byte each slowTick, until the server hangs
// up.
type slowPeer struct {
	name     string
	count    int
	deadline time.Duration // of the server
	secure   bool          // finishes the handshake
	request  func(n int) string
	answered bool // waits for an answer
	reads    bool // a little of it each time
}

// slowPeers are all ways. The tokens are of accounts with pages to read.
func slowPeers(tokens []string) []slowPeer {
	head := "Host: " + secureHost + "\r\n"
	read := func(path, accept string) func(int) string {
		return func(n int) string {
			return "GET " + path + " HTTP/1.1\r\n" + head + "Accept: " + accept + "\r\nAuthorization: Bearer " + tokens[n%len(tokens)] + "\r\n\r\n"
		}
	}
	return []slowPeer{
		{name: "handshake", count: slowHandshakes, deadline: 5 * time.Second, request: func(int) string { return "\x16\x03\x01\x02\x00" }},
		{name: "header", count: slowHeaders, deadline: 5 * time.Second, secure: true, request: func(int) string { return "GET /login HTTP/1.1\r\n" + head + "X-Slow: " }},
		{name: "body", count: slowBodies, deadline: 15 * time.Second, secure: true, request: func(int) string {
			return "POST /oauth/v2/token HTTP/1.1\r\n" + head + "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n\r\n"
		}},
		{name: "page", count: slowPages, deadline: 30 * time.Second, secure: true, request: read("/api/events?limit=1000", "*/*"), answered: true, reads: true},
		{name: "stream", count: slowStreams, deadline: 30 * time.Second, secure: true, request: read("/api/events?createdAt[gte]=0", "text/event-stream"), answered: true},
	}
}

// slowCrowd is everybody who is slow, in a process of its own, so that its work does not
// delay the honest client that is measured.
type slowCrowd struct {
	Address string
	Cert    string // the server's, in PEM
	Tokens  []string
	Within  time.Duration // in which all come

	roots *x509.CertPool
	stuck atomic.Int64 // have the beginning of an answer
	mu    sync.Mutex
	slowResult
}

// slowResult is what the crowd has seen.
type slowResult struct {
	Stuck   int64                    // when it left
	Longest map[string]time.Duration // that the server has held a connection
	Ended   int                      // by the server
}

const envSlowCrowd = "TOLLHOUSE_PROOF_SLOW_CROWD"

func init() {
	if text := os.Getenv(envSlowCrowd); text != "" {
		if err := beSlow(text); err != nil {
			fmt.Fprintln(os.Stderr, "slow clients:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// beSlow is the crowd's process. It ends when its standard input does.
func beSlow(text string) error {
	c := &slowCrowd{roots: x509.NewCertPool()}
	if err := json.Unmarshal([]byte(text), c); err != nil {
		return err
	}
	c.roots.AppendCertsFromPEM([]byte(c.Cert))
	c.Longest = map[string]time.Duration{}
	ctx, cancel := context.WithCancel(context.Background())
	wait := c.come(ctx, slowPeers(c.Tokens), c.Within)
	for c.stuck.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	fmt.Println("come")
	_, err := io.Copy(io.Discard, os.Stdin)
	c.Stuck = c.stuck.Load()
	cancel()
	wait()
	return errors.Join(err, json.NewEncoder(os.Stdout).Encode(c.slowResult))
}

// start starts the crowd's process, and waits until it is at work. leave ends it.
func (c *slowCrowd) start(t *testing.T) (leave func() slowResult) {
	t.Helper()
	cmd := exec.Command(must.Get(os.Executable())(t))
	cmd.Env = append(os.Environ(), envSlowCrowd+"="+string(must.Get(json.Marshal(c))(t)))
	cmd.Stderr = os.Stderr
	stdin, stdout := must.Get(cmd.StdinPipe())(t), must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	t.Cleanup(func() { _ = stdin.Close() })
	lines := bufio.NewReader(stdout)
	if line, err := lines.ReadString('\n'); err != nil {
		t.Fatalf("the slow clients say %q, %v", line, err)
	}
	return func() (seen slowResult) {
		t.Helper()
		must.Do(t, stdin.Close())
		must.Do(t, json.NewDecoder(lines).Decode(&seen))
		must.Do(t, cmd.Wait())
		return seen
	}
}

// slowTarget is a server that slow clients visit, and an honest one.
type slowTarget struct {
	*server
	honest *client
	access string // the honest client's token
	crowd  *slowCrowd
}

// newSlowTarget starts a server with accounts whose pages are large. Its slow clients come
// within a time.
func newSlowTarget(t *testing.T, within time.Duration) *slowTarget {
	t.Helper()
	pair := newKeyPair(t, false, secureHost)
	s := startSecure(t, pair, "--memory", fmt.Sprint(attackedMemory))
	honest := &client{base: s.base, credentials: s.createClient("Larkspur Bookkeeping", callbackURI),
		http: &http.Client{Transport: s.transport(pair.roots, false), Timeout: requestWait}}
	tokenOf := func(name, account string, events int) string {
		s.createUser(name, account, odilePassword)
		s.importLarge(account, events)
		pair, refused, err := honest.grant(t.Context(), "password", "username", name, "password", odilePassword)
		if err != nil || pair.Access == "" {
			t.Fatalf("token of %s: %v %v", name, refused, err)
		}
		return pair.Access
	}
	to := &slowTarget{server: s, honest: honest, access: tokenOf("ines", "acct_honest", 5)}
	var others []string
	for n := range slowAccounts {
		others = append(others, tokenOf(fmt.Sprintf("mallory%d", n), fmt.Sprintf("acct_slow%d", n), 220))
	}
	to.crowd = &slowCrowd{Address: s.ready.Listen[0], Cert: string(must.Get(os.ReadFile(pair.cert))(t)), Tokens: others, Within: within}
	return to
}

// TestSlowClientsServer: handshakes, headers and bodies that come by the byte, and readers
// that hardly read, neither delay others nor keep a transaction of the store open while
// an answer is written. Each connection is closed by its deadline.
//
// The slow clients work on the same processors. So the long form also lets them visit
// another server, and probe_p99_times_elsewhere compares with that.
func TestSlowClientsServer(t *testing.T) {
	must.SkipInShort(t)
	var files syscall.Rlimit
	must.Do(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files))
	must.Have(t, files.Cur >= filesNeeded, fmt.Sprintf("this test needs %d open files, and may have %d", filesNeeded, files.Cur))
	stands, probed := 1500*time.Millisecond, 600*time.Millisecond
	if must.Long() {
		stands, probed = 5*time.Second, 40*time.Second // longer than every deadline
	}
	s := newSlowTarget(t, stands/2)
	var other *slowTarget
	if must.Long() {
		other = newSlowTarget(t, stands/2)
	}
	probe(t, s.honest, s.access, probed/2) // fills the caches
	var stuck, opened, open, late float64
	var before, elsewhere, during []time.Duration
	for round := 0; round == 0 || must.More(round, slowRounds, slowRoundsLong); round++ {
		filesBefore := s.descriptors(t)
		undisturbed := probe(t, s.honest, s.access, probed/2)
		if other != nil {
			leave := other.crowd.start(t)
			pause(t.Context(), stands)
			elsewhere = append(elsewhere, probe(t, s.honest, s.access, probed)...)
			leave()
		}
		leave := s.crowd.start(t)
		pause(t.Context(), stands)
		disturbed := probe(t, s.honest, s.access, probed)
		// Nobody asks for anything now: what is open is open for those who do not read.
		var least float64
		eventually(t, func() bool {
			least = s.metrics(t)["tollhouse_store_transactions"]
			return least == 0
		}, "nobody asks for anything, and transactions stay open")
		filesNow := s.descriptors(t)
		seen := leave()
		if seen.Stuck == 0 {
			t.Error("nobody reads slowly")
		}
		if most := filesBefore + slowHandshakes + slowHeaders + slowBodies + slowPages + slowStreams + spareFiles; filesNow > most {
			t.Errorf("%d open files, want at most %d", filesNow, most)
		}
		eventually(t, func() bool { return s.descriptors(t) <= filesBefore+spareFiles }, "open files after the attack stay above %d", filesBefore+spareFiles)
		for _, p := range slowPeers(s.crowd.Tokens) {
			if held := seen.Longest[p.name]; held > p.deadline {
				late = max(late, float64((held - p.deadline).Milliseconds()))
				if held > slowLate*p.deadline {
					t.Errorf("a slow %s is held for %v, want %v", p.name, held, p.deadline)
				}
			}
		}
		t.Logf("%d slow readers, %d open files, %d connections ended by the server, the longest after %v; probes p99 %v, and %v before",
			seen.Stuck, filesNow, seen.Ended, seen.Longest, p99(disturbed), p99(undisturbed))
		stuck, opened, open = max(stuck, float64(seen.Stuck)), max(opened, float64(filesNow)), max(open, least)
		before, during = append(before, undisturbed...), append(during, disturbed...)
	}
	if was, is := p99(before), p99(during); is > honestSlowest && was < honestWaitMax/honestMargin {
		t.Errorf("p99 of the probes %v beside slow clients, and %v without; want at most %v", is, was, honestSlowest)
	}
	must.Figure(t, "slow_readers", stuck)
	must.Figure(t, "open_files", opened)
	must.Figure(t, "open_transactions", open)
	must.Figure(t, "late_ms", late)
	must.Figure(t, "probe_p99_ms", float64(p99(during).Microseconds())/1000)
	must.Figure(t, "probe_p99_times_before", float64(p99(during))/float64(p99(before)))
	if other != nil {
		must.Figure(t, "probe_p99_times_elsewhere", float64(p99(during))/float64(p99(elsewhere)))
	}
}

func p99(times []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[(len(sorted)-1)*99/100]
}

// probe is an honest client, who reads a page and looks at the login page in turns.
func probe(t *testing.T, c *client, access string, lasts time.Duration) (took []time.Duration) {
	t.Helper()
	for end := time.Now().Add(lasts); len(took) == 0 || time.Now().Before(end); {
		begun := time.Now()
		a, err := c.call(t.Context(), access, http.MethodGet, []string{"/api/events?limit=2", "/login"}[len(took)%2], "")
		took = append(took, time.Since(begun))
		if err != nil || a.status != http.StatusOK {
			t.Fatalf("an honest request after %v: %.200s, %v", took[len(took)-1], a, err)
		}
	}
	return took
}

// come lets everybody come within a time. Who is hung up on comes back. wait returns when
// all have left after the end of ctx.
func (c *slowCrowd) come(ctx context.Context, peers []slowPeer, within time.Duration) (wait func()) {
	var working sync.WaitGroup
	number := 0
	for _, p := range peers {
		for range p.count {
			n := number
			number++
			working.Go(func() {
				pause(ctx, rand.N(within))
				for ctx.Err() == nil {
					c.visit(ctx, p, n)
					pause(ctx, rand.N(slowTick))
				}
			})
		}
	}
	return working.Wait
}

// visit is slow until the server hangs up.
func (c *slowCrowd) visit(ctx context.Context, p slowPeer, n int) {
	d := attackerDialer(n)
	d.Control = func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10) })
	}
	begun := time.Now()
	conn, err := d.DialContext(ctx, "tcp", c.Address)
	if err != nil {
		return
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_ = conn.(*net.TCPConn).SetLinger(0)
	if p.secure {
		secure := tls.Client(conn, &tls.Config{RootCAs: c.roots, ServerName: secureHost})
		if secure.Handshake() != nil {
			return // it may have given way to a new one
		}
		conn = secure
		begun = time.Now()
	}
	if _, err := io.WriteString(conn, p.request(n)); err != nil {
		return
	}
	hungUp := make(chan struct{})
	if p.answered {
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			return
		}
		c.stuck.Add(1)
		defer c.stuck.Add(-1)
	} else {
		go func() {
			_, _ = io.Copy(io.Discard, conn)
			close(hungUp)
		}()
	}
	for err == nil {
		select {
		case <-hungUp:
			err = net.ErrClosed
			continue
		case <-time.After(slowTick):
		}
		if p.reads {
			_, _ = conn.Read(make([]byte, 64))
		}
		_, err = io.WriteString(conn, "x")
	}
	if ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Longest[p.name] = max(c.Longest[p.name], time.Since(begun))
	c.Ended++
}

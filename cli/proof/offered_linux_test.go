package proof

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// What offers load shares the processors with the server. So its clients write requests
// that were made beforehand, and read from an answer no more than they need.

// wire is a client's connection.
type wire struct {
	dialer  *net.Dialer
	address string
	conn    *net.TCPConn
	answers *bufio.Reader
	body    bytes.Buffer // of the last answer
}

// ask sends a request and reads the answer to its end. ctx ends it early.
func (w *wire) ask(ctx context.Context, request []byte) (status int, header http.Header, err error) {
	if w.conn == nil {
		conn, err := w.dialer.DialContext(ctx, "tcp", w.address)
		if err != nil {
			return 0, nil, err
		}
		w.conn, w.answers = conn.(*net.TCPConn), bufio.NewReader(conn)
		_ = w.conn.SetLinger(0) // closing leaves no port behind that waits
	}
	conn := w.conn
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer func() {
		if err != nil {
			w.leave()
		}
	}()
	if err := conn.SetDeadline(time.Now().Add(requestWait)); err != nil {
		return 0, nil, err
	}
	if _, err := conn.Write(request); err != nil {
		return 0, nil, err
	}
	answer, err := http.ReadResponse(w.answers, nil)
	if err != nil {
		return 0, nil, err
	}
	w.body.Reset()
	if _, err := w.body.ReadFrom(answer.Body); err != nil {
		return 0, nil, err
	}
	if answer.Close {
		w.leave()
	}
	return answer.StatusCode, answer.Header, nil
}

func (w *wire) leave() {
	if w.conn != nil {
		_ = w.conn.Close()
		w.conn = nil
	}
}

// offering is what all clients of a load share.
type offering struct {
	t                          testing.TB
	pid                        int
	host, basic, access, event string
	families                   []tokens
	authorize                  func(context.Context) (tokens, error) // makes another
}

const (
	offeredPage   = "/api/events?limit=100"
	offeredAtOnce = 16 // families that are made
)

// offer makes a client that remembers consent, an account with events, and a refresh
// token for each of count families, without a password for each.
func (s *server) offer(count int) *offering {
	s.t.Helper()
	creds := s.remembers("Larkspur Bookkeeping", callbackURI)
	s.createUser(odile, odileAccount, odilePassword)
	s.run("event", "generate", "--account", odileAccount, "--events", "1000", "--span", "1h", "--until", time.Now().UTC().Format(time.RFC3339), "--quiet")
	address := s.authorizeURL(creds.ID, callbackURI, "s")
	v := newVisitor(s.t)
	v.allow(v.signIn(address, odile, odilePassword))
	c := s.asClient(creds)
	o := &offering{t: s.t, pid: s.process.Pid, host: s.ready.Listen[0], basic: base64.StdEncoding.EncodeToString([]byte(creds.ID + ":" + creds.Secret))}
	o.authorize = func(ctx context.Context) (made tokens, err error) {
		seen, err := openPage(ctx, v.http, address)
		to, _ := url.Parse(seen.location)
		if err == nil {
			made, _, err = c.grant(ctx, "authorization_code", "code", to.Query().Get("code"), "redirect_uri", callbackURI)
		}
		if err != nil || made.Refresh == "" {
			err = fmt.Errorf("a code: status %d to %q, %w", seen.status, seen.location, err)
		}
		return made, err
	}
	o.families = make([]tokens, count)
	var working sync.WaitGroup
	for own := range slices.Chunk(o.families, (count+offeredAtOnce-1)/offeredAtOnce) {
		working.Go(func() {
			for i := range own {
				var err error
				if own[i], err = o.authorize(s.t.Context()); err != nil {
					s.t.Error(err)
					return
				}
			}
		})
	}
	if working.Wait(); s.t.Failed() {
		s.t.FailNow()
	}
	o.access = o.families[0].Access
	a, err := c.call(s.t.Context(), o.access, http.MethodGet, offeredPage, "")
	var page struct{ Data []struct{ ID string } }
	if err := errors.Join(err, json.Unmarshal(a.body, &page)); err != nil || len(page.Data) != 100 {
		s.t.Fatalf("a page has %d events, %v: %.300s", len(page.Data), err, a)
	}
	o.event = page.Data[0].ID
	return o
}

// offerer is one client of a load. It refreshes its tokens, reads a page and an event,
// and records an event, over and over.
type offerer struct {
	*offering
	wire
	pair    tokens // without a refresh token it does not refresh
	leaves  bool   // makes a connection for each request
	number  int
	count   int
	request []byte
}

// client returns the client of a number, which comes from an address of its own.
func (o *offering) client(number int) *offerer {
	c := &offerer{offering: o, wire: wire{dialer: attackerDialer(number), address: o.host}, pair: tokens{Access: o.access}, number: number, leaves: number%4 == 3}
	if number < len(o.families) {
		c.pair = o.families[number]
	}
	return c
}

// next returns the next request. A client begins with a change.
func (c *offerer) next() []byte {
	c.count++
	c.request = c.request[:0]
	switch turn := c.count % 4; {
	case turn == 0 && c.pair.Refresh != "":
		form := "grant_type=refresh_token&refresh_token=" + c.pair.Refresh
		c.request = fmt.Appendf(c.request, "POST /oauth/v2/token HTTP/1.1\r\nHost: %s\r\nAuthorization: Basic %s\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s",
			c.host, c.basic, len(form), form)
	case turn == 1:
		body := fmt.Sprintf(`{"displayName":"Customer %d","notes":"%d"}`, c.number, c.count)
		c.request = fmt.Appendf(c.request, "PUT /api/resources/customer/cus_%d HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			c.number, c.host, c.pair.Access, len(body), body)
	case turn == 2:
		c.get("/api/events/" + c.event)
	default:
		c.get(offeredPage)
	}
	return c.request
}

func (c *offerer) get(path string) {
	c.request = fmt.Appendf(c.request, "GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", path, c.host, c.pair.Access)
}

// step makes the next request and returns its status. A refused refresh, and one whose
// answer was lost, is sent again.
func (c *offerer) step(ctx context.Context) (status int, header http.Header, err error) {
	request := c.next()
	status, header, err = c.ask(ctx, request)
	if c.leaves {
		c.leave()
	}
	if err != nil || c.count%4 != 0 || c.pair.Refresh == "" || status != http.StatusOK {
		return status, header, err
	}
	var pair tokens
	if err := json.Unmarshal(c.body.Bytes(), &pair); err != nil {
		return status, header, err
	}
	c.pair, c.families[c.number] = pair, pair
	return status, header, nil
}

// tally counts the answers to a load.
type tally struct {
	took     []time.Duration // of the accepted
	lasted   time.Duration   // in which they were
	served   int             // accepted, also before they count
	cpu      time.Duration   // of the server meanwhile
	refused  int             // by 429 and 503
	refusals []time.Duration // how long those took
	cut      int             // connections that broke
	how      error           // one of them did
	wrong    []string        // answers that no load explains
}

func (t *tally) add(other tally) {
	t.took = append(t.took, other.took...)
	t.served += other.served
	t.refused += other.refused
	t.refusals = append(t.refusals, other.refusals...)
	t.cut += other.cut
	t.how = cmp.Or(t.how, other.how)
	t.wrong = append(t.wrong, other.wrong...)
}

// perCPU is how many requests were served in a second of the server's processor time.
func (t *tally) perCPU() float64 { return float64(t.served) / max(t.cpu, time.Millisecond).Seconds() }

func (t *tally) perSecond() float64 { return float64(len(t.took)) / t.lasted.Seconds() }

// quantile of the accepted, which are sorted.
func (t *tally) quantile(share float64) time.Duration { return quantile(t.took, share) }

func quantile(sorted []time.Duration, share float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(share*float64(len(sorted)-1))]
}

// crowd runs clients for as long as lasts, and counts the answers after the first rampUp.
// Whoever waits for an answer at the end hangs up.
func (o *offering) crowd(ctx context.Context, clients int, rampUp, lasts time.Duration) tally {
	before, from := cpuOf(o.t, o.pid), time.Now().Add(rampUp)
	ctx, cancel := context.WithCancel(ctx) // whose end is no deadline of a dialer
	defer time.AfterFunc(rampUp+lasts, cancel).Stop()
	var all tally
	var mu sync.Mutex
	var working sync.WaitGroup
	for number := range clients {
		working.Go(func() {
			own := o.client(number).run(ctx, from)
			mu.Lock()
			defer mu.Unlock()
			all.add(own)
		})
	}
	working.Wait()
	all.cpu, all.lasted = cpuOf(o.t, o.pid)-before, lasts
	slices.Sort(all.took)
	slices.Sort(all.refusals)
	return all
}

// burst makes as many clients send one change each at the same moment, and returns how many
// were refused.
func (o *offering) burst(ctx context.Context, clients int) (refused int) {
	var not atomic.Int64
	var working sync.WaitGroup
	for number := range clients {
		working.Go(func() {
			c := o.client(number)
			defer c.leave()
			if status, _, err := c.step(ctx); err != nil || status/100 != 2 {
				o.t.Logf("in a burst: %d, %v", status, err)
				not.Add(1)
			}
		})
	}
	working.Wait()
	return int(not.Load())
}

const cutPause = 10 * time.Millisecond // before the next connection

func (c *offerer) run(ctx context.Context, from time.Time) (own tally) {
	defer c.leave()
	for ctx.Err() == nil {
		begun := time.Now()
		status, header, err := c.step(ctx)
		counts := begun.After(from)
		switch {
		case err != nil && ctx.Err() == nil:
			own.cut, own.how = own.cut+1, err
			pause(ctx, cutPause)
		case err != nil:
		case status/100 == 2:
			own.served++
			if counts {
				own.took = append(own.took, time.Since(begun))
			}
		case (status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable) && header.Get("Retry-After") != "":
			if counts {
				own.refused++
				own.refusals = append(own.refusals, time.Since(begun))
			}
		case len(own.wrong) < 3:
			own.wrong = append(own.wrong, fmt.Sprintf("%d, Retry-After %q: %.300s", status, header.Get("Retry-After"), &c.body))
		}
	}
	return own
}

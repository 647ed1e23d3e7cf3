package proof

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tollhouse/store/storetest/must"
)

// The measure of the proof that those who follow a log miss nothing. The short
// form is part of every test run.
const (
	liveKills       = 3
	liveKillsLong   = 500
	liveWriters     = 8
	liveEventsMin   = 500 // of each life of the server
	liveStayMax     = 100 // events that a reader takes from one connection
	liveRetry       = 5 * time.Millisecond
	liveKillSpread  = 20 * time.Millisecond
	livePatience    = 3 * time.Minute // for what takes a few seconds on an idle machine
	liveNoteSizeMax = 2000            // bytes, so that events are of all sizes
)

// TestLiveThroughKills lets readers follow an account's log while writers fill
// it, each reader coming and going as it likes, and the server is killed and
// started again in between. Then everyone has seen what the log holds: each
// event once, in order, byte for byte.
func TestLiveThroughKills(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	if !must.Long() {
		liveThroughKills(t, onDirectory(t))
		return
	}
	eachSite(t, liveThroughKills) // on a busy machine a reader at a database may wait too long for its last events
}

func liveThroughKills(t *testing.T, p site) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))

	serve := func() *server { return p.serve(t, "--public-url", "http://127.0.0.1") }
	s := serve()
	l := newLiveLog(t, s, "acct_live")
	readers := []*liveReader{
		{name: "all"}, {name: "all again"}, {name: "updated", query: "?type=*.updated", holds: `"type":"customer.updated"`},
		{name: "of one", query: "?resource=cus_1", holds: `"resource":"cus_1"`}, {name: "tail"},
	}
	working, finish := context.WithCancel(t.Context())
	var writing, reading sync.WaitGroup
	defer func() { finish(); writing.Wait(); reading.Wait() }()
	for i := range liveWriters {
		own := rand.New(rand.NewPCG(seed, uint64(1+i)))
		writing.Go(func() { l.write(working, t, i, own) })
	}
	following, leave := context.WithCancel(t.Context())
	defer leave()
	tail := readers[len(readers)-1]
	for i, r := range readers[:len(readers)-1] {
		own := rand.New(rand.NewPCG(seed, uint64(100+i)))
		reading.Go(func() { r.follow(following, t, l, own) })
	}
	reading.Go(func() { tail.run(following, t, p, l.account) })

	kills := 0
	for ; must.More(kills, liveKills, liveKillsLong); kills++ {
		l.awaitLife(t, readers)
		time.Sleep(time.Duration(random.Int64N(int64(liveKillSpread)))) // so that death comes anywhere
		s.kill()
		s.finish()
		s = serve()
		l.moveTo(s)
		if t.Failed() {
			t.Fatalf("after kill %d", kills+1)
		}
	}
	l.awaitLife(t, readers)
	finish()
	writing.Wait()
	log := l.list(t)
	for _, r := range readers {
		r.await(t, len(r.of(log)))
	}
	leave()
	reading.Wait()
	s.stop()
	if p.shared {
		tail.connections = kills // it reads the database, which stays
	}
	l.compare(t, log, readers, kills)
}

// sighting is an event as somebody saw it.
type sighting struct {
	id  string
	sum uint64 // of its bytes
}

var liveSeed = maphash.MakeSeed()

func sightingOf(id, wire string) sighting { return sighting{id, maphash.String(liveSeed, wire)} }

// logged is an event of the log in the end.
type logged struct {
	sighting
	wanted map[string]bool // what a reader may ask for, and the event holds
}

// liveLog is the log that is written and followed, through all lives of its
// server.
type liveLog struct {
	account, token string

	mu    sync.Mutex
	to    *client // at the address of the present life
	acked map[string]bool
	acks  atomic.Int64
}

func newLiveLog(t *testing.T, s *server, account string) *liveLog {
	t.Helper()
	const username, password = "lively", "nothing missed, nothing twice"
	creds := s.createClient("Live", callbackURI)
	s.createUser(username, account, password)
	l := &liveLog{account: account, acked: map[string]bool{}}
	l.to = &client{base: s.base, credentials: creds, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: liveWriters}}}
	p, a, err := l.to.grant(t.Context(), "password", "username", username, "password", password)
	if err != nil || p.Access == "" {
		t.Fatalf("password grant: %s, %v", a, err)
	}
	l.token = p.Access
	return l
}

func (l *liveLog) moveTo(s *server) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := *l.to
	next.base = s.base
	l.to = &next
}

func (l *liveLog) client() *client {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to
}

// write changes customers until it is stopped, whatever becomes of the server.
func (l *liveLog) write(ctx context.Context, t *testing.T, number int, r *rand.Rand) {
	for n := 0; ctx.Err() == nil; n++ {
		path := fmt.Sprintf("/api/resources/customer/cus_%d", r.IntN(3))
		body := fmt.Sprintf(`{"notes":"%d of %d %s"}`, n, number, strings.Repeat("x", r.IntN(liveNoteSizeMax)))
		method := http.MethodPut
		if r.IntN(20) == 0 {
			method, body = http.MethodDelete, ""
		}
		a, err := l.client().call(ctx, l.token, method, path, body)
		switch {
		case errors.Is(err, errLost), err == nil && a.status == http.StatusServiceUnavailable:
			pause(ctx, liveRetry)
		case err != nil:
			t.Error(err)
			return
		case a.status == http.StatusNotFound && method == http.MethodDelete: // another was faster
		case a.status/100 != 2:
			t.Errorf("%s %s: %s", method, path, a)
			return
		default:
			l.acknowledge(a.header.Get("Tollhouse-Event"))
		}
	}
}

func (l *liveLog) acknowledge(id string) {
	if id == "" {
		return // nothing was changed
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked[id] = true
	l.acks.Add(1)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// awaitLife returns when the server has lived long enough to be worth killing:
// events were recorded, and every reader got some.
func (l *liveLog) awaitLife(t *testing.T, readers []*liveReader) {
	t.Helper()
	acks := l.acks.Load()
	for _, r := range readers {
		r.await(t, r.count()+1)
	}
	for begun := time.Now(); l.acks.Load() < acks+liveEventsMin; time.Sleep(time.Millisecond) {
		if t.Failed() || time.Since(begun) > livePatience {
			t.Fatalf("%d events were recorded, want %d", l.acks.Load()-acks, liveEventsMin)
		}
	}
}

// list reads the whole log, page by page, as it is on the wire.
func (l *liveLog) list(t *testing.T) []logged {
	t.Helper()
	var log []logged
	for cursor := noSuchEvent; ; {
		a, err := l.client().send(t.Context(), http.MethodGet, fmt.Sprintf("/api/events?order=asc&limit=%d&after=%s", pageLimit, cursor), "",
			"Authorization", "Bearer "+l.token, "Accept", "application/x-ndjson")
		if err != nil || a.status != http.StatusOK {
			t.Fatalf("list events: %s, %v", a, err)
		}
		for line := range strings.Lines(string(a.body)) {
			wire := strings.TrimSuffix(line, "\n")
			e := logged{sightingOf(idOf(wire), wire), map[string]bool{"": true}}
			for _, part := range []string{`"type":"customer.updated"`, `"resource":"cus_1"`} {
				e.wanted[part] = strings.Contains(wire, part)
			}
			log = append(log, e)
		}
		if !strings.Contains(a.header.Get("Link"), `rel="next"`) {
			return log // a page of large events is shorter than was asked for
		}
		cursor = a.header.Get("Tollhouse-Next-Cursor")
	}
}

// idOf returns the id that an event of ours begins with.
func idOf(wire string) string {
	id, _, _ := strings.Cut(strings.TrimPrefix(wire, `{"id":"`), `"`)
	return id
}

// compare holds what each reader saw to the log, and the log to what was
// acknowledged.
func (l *liveLog) compare(t *testing.T, log []logged, readers []*liveReader, kills int) {
	t.Helper()
	inLog := map[string]bool{}
	for _, e := range log {
		inLog[e.id] = true
	}
	lost := 0
	for id := range l.acked {
		if !inLog[id] {
			lost++
			t.Errorf("%s was acknowledged and is not in the log", id)
		}
	}
	sightings, missedAll, repeatedAll := 0, 0, 0
	for _, r := range readers {
		t.Run("live_through_kills_nothing_missed_nothing_repeated_"+strings.ReplaceAll(r.name, " ", "_"), func(t *testing.T) {
			missed, repeated := r.judge(r.of(log))
			t.Logf("%d events over %d connections", len(r.seen), r.connections)
			sightings, missedAll, repeatedAll = sightings+len(r.seen), missedAll+missed, repeatedAll+repeated
			if missed > 0 || repeated > 0 || len(r.seen) < kills || r.connections < kills {
				t.Errorf("%d events missed, %d repeated, changed or out of order, of %d, over %d connections", missed, repeated, len(r.of(log)), r.connections)
			}
		})
	}
	must.Figure(t, "kills", kills)
	must.Figure(t, "acknowledged", len(l.acked))
	must.Figure(t, "lost", lost)
	must.Figure(t, "sightings", sightings)
	must.Figure(t, "missed", missedAll)
	must.Figure(t, "repeated", repeatedAll)
}

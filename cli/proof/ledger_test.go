package proof

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tollhouse/store/storetest/must"
)

// The ledger's measure. The short form is part of every test run.
const (
	ledgerCycles     = 20
	ledgerCyclesLong = 1000
	familyWriters    = 8 // rotate refresh tokens
	resourceWriters  = 5 // change resources, and cause events
	codeWriters      = 3 // walk through consent, and redeem codes

	killAfterMin = 40 // acknowledged changes
	killAfterMax = 800
	killSpread   = 3 * time.Millisecond // some commits long, so that death comes anywhere in one
	writeWait    = 5 * time.Second      // on a machine that is too slow for that
	recoverWait  = time.Second          // to open again
	margin       = 20                   // between a figure and the bound that a test holds it to
)

// A ledger is one site's memory of what a server has acknowledged, through all
// of that server's deaths.
type ledger struct {
	*client // at the address of the present life

	username, password, account string
	reader                      string // an access token that does nothing but read

	acks atomic.Int64 // every acknowledged change
	busy atomic.Int64 // refusals before a commit: nothing happened

	// The power is cut by cut, once that many changes were acknowledged.
	cutAt int64
	cut   func()

	events   history
	replayed int // codes and refresh tokens that were spent, tried again
}

// A writer makes changes and remembers those that were acknowledged.
type writer interface {
	// prepare does what must be done once, before the first change.
	prepare(ctx context.Context, l *ledger) error
	// write makes one change. It returns errLost, and remembers what was asked
	// for, when the outcome is not known.
	write(ctx context.Context, l *ledger, r *rand.Rand) error
	// check holds the reopened server to what was acknowledged.
	check(ctx context.Context, l *ledger) error
	// replay tries what was spent once more, and returns how often.
	replay(ctx context.Context, l *ledger) (int, error)
}

// TestKillLedger kills the binary: kill -9 at a random moment under
// sixteen writers, again and again, and after each death every acknowledged
// token, rotation, code, resource and event is there, and nothing that was
// spent is taken again.
func TestKillLedger(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	eachSite(t, ledgerThroughKills)
}

func ledgerThroughKills(t *testing.T, p site) {
	cycles := ledgerCycles
	if must.Long() {
		cycles = ledgerCyclesLong
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))

	serve := func() *server { return p.serve(t, "--public-url", "http://127.0.0.1") }
	s := serve()
	l, writers := newLedger(t, s)
	var reopened []time.Duration
	for cycle := range cycles {
		before := l.acks.Load()
		l.writeUntilKilled(t, s, writers, random)
		s.finish()
		s = serve()
		reopened = append(reopened, s.took)
		l.moveTo(s)
		l.audit(t, writers)
		if t.Failed() {
			t.Fatalf("cycle %d of %d, after %d acknowledged changes", cycle+1, cycles, l.acks.Load()-before)
		}
	}
	l.closeBooks(t, writers)
	s.stop()

	slices.Sort(reopened)
	slowest := reopened[len(reopened)-1]
	t.Logf("%d kills, %d acknowledged changes, %d events; %d spent codes and tokens tried again; %d refused as busy; reopened in %v (median), %v (slowest)",
		cycles, l.acks.Load(), len(l.events.ids), l.replayed, l.busy.Load(), reopened[len(reopened)/2].Round(time.Millisecond), slowest.Round(time.Millisecond))
	if slowest > margin*recoverWait {
		t.Errorf("it took %v to open again, want at most %v", slowest, margin*recoverWait)
	}
	if l.acks.Load() < int64(cycles)*(familyWriters+resourceWriters+codeWriters) || l.replayed < cycles {
		t.Errorf("%d changes and %d spent codes and tokens in %d cycles are no load", l.acks.Load(), l.replayed, cycles)
	}
}

// newLedger makes a client, a user and the writers.
func newLedger(t *testing.T, s *server) (*ledger, []writer) {
	t.Helper()
	l := openLedger(t, s)
	var writers []writer
	for range familyWriters {
		writers = append(writers, &familyWriter{})
	}
	for i := range resourceWriters {
		writers = append(writers, newResourceWriter(&l.events, i))
	}
	for range codeWriters {
		writers = append(writers, &codeWriter{})
	}
	for _, w := range writers { // one after another, as each password costs a hash
		if err := w.prepare(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	return l, writers
}

// openLedger makes a client and a user.
func openLedger(t *testing.T, s *server) *ledger {
	t.Helper()
	l := &ledger{username: "ledger", password: "written down in good order", account: "acct_ledger"}
	creds := s.createClient("Ledger", callbackURI)
	s.createUser(l.username, l.account, l.password)
	l.client = &client{credentials: creds}
	l.moveTo(s)
	l.events.init()

	p, a, err := l.grant(t.Context(), "password", "username", l.username, "password", l.password)
	if err != nil || p.Access == "" {
		t.Fatalf("password grant: %s, %v", a, err)
	}
	l.reader = p.Access
	return l
}

// moveTo goes on at the next life of the server.
func (l *ledger) moveTo(s *server) {
	l.base = s.base
	l.http = &http.Client{Timeout: requestWait, Transport: &http.Transport{MaxIdleConnsPerHost: 2 * (familyWriters + resourceWriters + codeWriters)}}
}

// writeUntilKilled lets all writers write and kills the server meanwhile.
func (l *ledger) writeUntilKilled(t *testing.T, s *server, writers []writer, random *rand.Rand) {
	t.Helper()
	delay := time.Duration(random.Int64N(int64(killSpread)))
	l.cutAt = l.acks.Load() + killAfterMin + random.Int64N(killAfterMax-killAfterMin)
	l.cut = func() { time.AfterFunc(delay, s.kill) }
	slow := time.AfterFunc(writeWait, s.kill)
	defer slow.Stop()
	l.each(t, writers, func(w writer, r *rand.Rand) error {
		for {
			if err := w.write(t.Context(), l, r); errors.Is(err, errLost) {
				return nil // the server is dead
			} else if err != nil {
				return err
			}
		}
	}, random)
	<-s.ended
	l.http.CloseIdleConnections()
}

// audit compares what is there with what was acknowledged.
func (l *ledger) audit(t *testing.T, writers []writer) {
	t.Helper()
	if err := l.events.read(t.Context(), l); err != nil {
		t.Error(err)
	}
	l.each(t, writers, func(w writer, _ *rand.Rand) error { return w.check(t.Context(), l) }, rand.New(rand.NewPCG(0, 0)))
}

// each runs fn for every writer at once, with a source of chance of its own.
func (l *ledger) each(t *testing.T, writers []writer, fn func(writer, *rand.Rand) error, random *rand.Rand) {
	t.Helper()
	var all sync.WaitGroup
	for i, w := range writers {
		own := rand.New(rand.NewPCG(random.Uint64(), uint64(i)))
		all.Go(func() {
			if err := fn(w, own); err != nil {
				t.Errorf("writer %d (%T): %v", i, w, err)
			}
		})
	}
	all.Wait()
}

// closeBooks reads the whole log once more from the beginning, and tries all
// that was ever spent.
func (l *ledger) closeBooks(t *testing.T, writers []writer) {
	t.Helper()
	if err := l.events.readAll(t.Context(), l); err != nil {
		t.Error(err)
	}
	var replayed atomic.Int64
	l.each(t, writers, func(w writer, _ *rand.Rand) error {
		n, err := w.replay(t.Context(), l)
		replayed.Add(int64(n))
		return err
	}, rand.New(rand.NewPCG(0, 0)))
	l.replayed = int(replayed.Load())
}

// acknowledge counts a change that was answered with success.
func (l *ledger) acknowledge() {
	if l.acks.Add(1) == l.cutAt {
		l.cut()
	}
}

// refusedBusy reports whether an answer says that nothing was done for now.
func (l *ledger) refusedBusy(a answer) bool {
	if a.status != http.StatusServiceUnavailable {
		return false
	}
	l.busy.Add(1)
	return true
}

// lives reports whether an access token is live: an event that does not exist is
// 404 to a live token and 401 to a dead one.
func (l *ledger) lives(ctx context.Context, access string) (bool, error) {
	a, err := l.call(ctx, access, http.MethodGet, "/api/events/"+noSuchEvent, "")
	switch {
	case err != nil:
		return false, err
	case a.status == http.StatusNotFound:
		return true, nil
	case a.status == http.StatusUnauthorized:
		return false, nil
	}
	return false, fmt.Errorf("asked for an event that is not there: %s", a)
}

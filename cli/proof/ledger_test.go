package proof

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
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

	killAfterMin     = 40 // acknowledged changes
	killAfterMax     = 800
	killAfterMaxLong = 10_000
	killSpread       = 3 * time.Millisecond // some commits long, so that death comes anywhere in one
	busyPause        = 100 * time.Millisecond
	writeWait        = 5 * time.Second // on a machine that is too slow for that
	writeWaitLong    = 30 * time.Second
	recoverWait      = time.Second      // to open again
	readerLifetime   = 20 * time.Minute // of an access token that reads; it may have an hour
	margin           = 20               // between a figure and the bound that a test holds it to
)

// crew is how many writers of each kind write to a ledger.
type crew struct {
	families    int // rotate refresh tokens
	resources   int // change resources, and cause events
	codes       int // walk through consent, and redeem codes
	revocations int // revoke what they were issued
	imports     int // import files of events
}

// fullCrew is sixteen, and thirty-two in the long form.
func fullCrew() crew {
	if must.Long() {
		return crew{families: 12, resources: 9, codes: 6, revocations: 3, imports: 2}
	}
	return crew{families: 7, resources: 4, codes: 3, revocations: 1, imports: 1}
}

// A ledger is one site's memory of what a server has acknowledged, through all
// of that server's deaths.
type ledger struct {
	*client // at the address of the present life

	username, password, account string
	reader                      string // an access token that does nothing but read
	readerSince                 time.Time
	operator                    *http.Client // at the admin socket

	acks     atomic.Int64 // every acknowledged change
	busy     atomic.Int64 // refusals before a commit: nothing happened
	replayed atomic.Int64 // codes and tokens that were spent, tried again
	lost     atomic.Int64 // acknowledged, and not there
	twice    atomic.Int64 // spent or revoked, and accepted

	// The power is cut by cut, once that many changes were acknowledged.
	cutAt    int64
	cut      func()
	longLife bool // thousands of changes, where they are quick

	events history
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
	// replay tries what was spent once more.
	replay(ctx context.Context, l *ledger) error
}

// TestKillLedger kills the binary: kill -9 at a random moment under
// sixteen writers, again and again, and after each death every acknowledged
// token, rotation, code, revocation, resource and event is there, and nothing that was
// spent or revoked is taken again.
//
// Promise (§2.4): an acknowledged write survives a kill: event, resource and indexes together
func TestKillLedger(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	eachSite(t, ledgerThroughKills)
}

func ledgerThroughKills(t *testing.T, p site) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))

	serve := func() *server { return p.serve(t, "--public-url", "http://127.0.0.1") }
	s := serve()
	l, writers := newLedger(t, s)
	l.longLife = must.Long() && !p.shared
	var reopened []time.Duration
	kills := 0
	for ; must.More(kills, ledgerCycles, ledgerCyclesLong); kills++ {
		before := l.acks.Load()
		l.writeUntilKilled(t, s, writers, random)
		s.finish()
		s = serve()
		reopened = append(reopened, s.took)
		l.moveTo(s)
		l.audit(t, writers)
		if t.Failed() {
			t.Errorf("kill %d, after %d acknowledged changes", kills+1, l.acks.Load()-before)
			break
		}
	}
	if !t.Failed() {
		l.closeBooks(t, writers)
	}
	s.stop()

	slices.Sort(reopened)
	slowest := reopened[len(reopened)-1]
	must.Figure(t, "kills", kills)
	must.Figure(t, "clients", len(writers))
	must.Figure(t, "events", l.events.seen.count)
	must.Figure(t, "refused_as_busy", l.busy.Load())
	must.Figure(t, "reopened_median_ms", reopened[len(reopened)/2].Milliseconds())
	must.Figure(t, "reopened_worst_ms", slowest.Milliseconds())
	l.report(t)
	if slowest > margin*recoverWait {
		t.Errorf("it took %v to open again, want at most %v", slowest, margin*recoverWait)
	}
	if l.acks.Load() < int64(kills*len(writers)) || l.replayed.Load() < int64(kills) {
		t.Errorf("%d changes and %d spent codes and tokens in %d cycles are no load", l.acks.Load(), l.replayed.Load(), kills)
	}
}

// report gives the figures of every ledger.
func (l *ledger) report(t testing.TB) {
	t.Helper()
	must.Figure(t, "acknowledged", l.acks.Load())
	must.Figure(t, "lost", l.lost.Load())
	must.Figure(t, "double_accepted", l.twice.Load())
	must.Figure(t, "replayed", l.replayed.Load())
}

// newLedger makes a client, a user and the writers.
func newLedger(t testing.TB, s *server) (*ledger, []writer) {
	t.Helper()
	return newLedgerOf(t, s, fullCrew())
}

func newLedgerOf(t testing.TB, s *server, c crew) (*ledger, []writer) {
	t.Helper()
	l := openLedger(t, s)
	var writers []writer
	for range c.families {
		writers = append(writers, &familyWriter{})
	}
	for i := range c.resources {
		writers = append(writers, newResourceWriter(&l.events, i))
	}
	for range c.codes {
		writers = append(writers, &codeWriter{})
	}
	for range c.revocations {
		writers = append(writers, &revoker{})
	}
	for i := range c.imports {
		w := &importer{name: fmt.Sprintf("importer_%d", i)}
		s.createUser(w.name, w.account(), l.password)
		writers = append(writers, w)
	}
	for _, w := range writers { // one after another, as each password costs a hash
		if err := w.prepare(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	return l, writers
}

// openLedger makes a client and a user.
func openLedger(t testing.TB, s *server) *ledger {
	t.Helper()
	l := &ledger{username: "ledger", password: "written down in good order", account: "acct_ledger"}
	creds := s.createClient("Ledger", callbackURI)
	s.createUser(l.username, l.account, l.password)
	l.client = &client{credentials: creds}
	l.moveTo(s)
	l.events.init()

	if err := l.renewReader(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l
}

// renewReader signs in again before the reader's token expires.
func (l *ledger) renewReader(ctx context.Context) error {
	if time.Since(l.readerSince) < readerLifetime {
		return nil
	}
	p, a, err := l.grant(ctx, "password", "username", l.username, "password", l.password)
	if err != nil || p.Access == "" {
		return fmt.Errorf("password grant: %s, %w", a, err)
	}
	l.reader, l.readerSince = p.Access, time.Now()
	return nil
}

// moveTo goes on at the next life of the server.
func (l *ledger) moveTo(s *server) {
	l.base = s.base
	l.http = &http.Client{Timeout: requestWait, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	socket := s.ready.AdminSocket
	l.operator = &http.Client{Timeout: requestWait, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
}

// writeUntilKilled lets all writers write and kills the server meanwhile.
func (l *ledger) writeUntilKilled(t testing.TB, s *server, writers []writer, random *rand.Rand) {
	t.Helper()
	delay := time.Duration(random.Int64N(int64(killSpread)))
	acksMax, wait := int64(killAfterMax), writeWait
	if l.longLife {
		acksMax, wait = killAfterMaxLong, writeWaitLong
	}
	l.cutAt = l.acks.Load() + killAfterMin + random.Int64N(acksMax-killAfterMin)
	l.cut = func() { time.AfterFunc(delay, s.kill) }
	slow := time.AfterFunc(wait, s.kill)
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
	l.operator.CloseIdleConnections()
}

// audit compares what is there with what was acknowledged. That the server is busy is no
// answer to that.
func (l *ledger) audit(t testing.TB, writers []writer) {
	t.Helper()
	l.patient = true
	defer func() { l.patient = false }()
	if err := l.renewReader(t.Context()); err != nil {
		t.Error(err)
	}
	if err := l.events.read(t.Context(), l); err != nil {
		t.Error(err)
	}
	l.each(t, writers, func(w writer, _ *rand.Rand) error { return w.check(t.Context(), l) }, rand.New(rand.NewPCG(0, 0)))
}

// each runs fn for every writer at once, with a source of chance of its own.
func (l *ledger) each(t testing.TB, writers []writer, fn func(writer, *rand.Rand) error, random *rand.Rand) {
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

// closeBooks reads the whole log once more from the beginning, and tries what was
// spent.
func (l *ledger) closeBooks(t testing.TB, writers []writer) {
	t.Helper()
	l.patient = true
	defer func() { l.patient = false }()
	if err := l.events.readAll(t.Context(), l); err != nil {
		t.Error(err)
	}
	l.each(t, writers, func(w writer, _ *rand.Rand) error { return w.replay(t.Context(), l) }, rand.New(rand.NewPCG(0, 0)))
}

// missing is the error of what was acknowledged and is not there.
func (l *ledger) missing(format string, args ...any) error {
	l.lost.Add(1)
	return fmt.Errorf(format, args...)
}

// accepted is the error of what was spent or revoked, and is taken again.
func (l *ledger) accepted(format string, args ...any) error {
	l.twice.Add(1)
	return fmt.Errorf(format, args...)
}

// acknowledge counts a change that was answered with success.
func (l *ledger) acknowledge() {
	if l.acks.Add(1) == l.cutAt {
		l.cut()
	}
}

// refusedBusy reports whether an answer says that nothing was done for now, and when to try
// again.
func (l *ledger) refusedBusy(a answer) bool {
	if a.status != http.StatusServiceUnavailable || a.header != nil && a.header.Get("Retry-After") == "" {
		return false
	}
	l.busy.Add(1)
	return true
}

// whileBusy asks until the answer is another than that nothing was done for now.
func (l *ledger) whileBusy(ask func() (status int, err error)) error {
	for {
		status, err := ask()
		if err != nil || !l.refusedBusy(answer{status: status}) {
			return err
		}
		time.Sleep(busyPause)
	}
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

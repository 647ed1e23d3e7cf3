package handlers

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// The throttle slows down guessing and never locks an account. It counts failures per
// username as typed, known or not; per source; and per client of the password grant,
// since one backend serves many people. A client has its own bucket per username, and
// so has a browser in which the user has signed in before: failures of strangers at
// the sign-in form affect neither.
const (
	userFailuresFree   = 10
	userDelayFirst     = time.Second
	userDelayMax       = time.Minute
	userForgottenAfter = 15 * time.Minute
	pendingMax         = 64  // attempts of a user in progress: as many as wait for a hash
	sourceFailuresMax  = 30  // a minute and source
	deviceFailuresMax  = 10  // a minute and source, when the source has no more left: of known browsers
	clientFailuresMax  = 300 // a minute and client
	auditLinesMax      = 60  // a minute and source, of what costs the caller nothing
)

const auditBucketsMax = 1 << 11 // the bucket that was unused for longest is dropped

const sourceBitsIPv6 = 64 // what one subscriber has

// throttle counts failures. It is safe for concurrent use.
type throttle struct {
	off  bool // counts no failures
	now  func() time.Time
	over buckets

	mu     sync.Mutex // guards audits
	audits *lru.Cache[auditSource, *bucket]
}

// buckets keep the failures: those of this process in its memory, or those of several
// processes in a table.
type buckets interface {
	// change runs step over the buckets of an attempt and keeps what it changes, alone and
	// atomically. step may run more than once. Errors: record.ErrUnavailable.
	change(ctx context.Context, k bucketKeys, step func(f *failures, now time.Time)) error
	// refused returns how long an attempt must wait, as far as that is known without
	// reading the buckets.
	refused(k bucketKeys) time.Duration
}

func newBuckets(c Config) buckets {
	if c.Guesses != nil {
		return newTableBuckets(c.Guesses, c.Key, c.Store.Now)
	}
	return newMemoryBuckets(c.Store.Now)
}

func newThrottle(now func() time.Time, over buckets) *throttle {
	return &throttle{now: now, over: over, audits: newLRU[auditSource, *bucket](auditBucketsMax)}
}

func newLRU[K comparable, V any](size int) *lru.Cache[K, V] {
	cache, err := lru.New[K, V](size)
	if err != nil {
		panic("handlers: " + err.Error()) // only if the size is not positive
	}
	return cache
}

// attempt is one try at a user's password.
type attempt struct {
	name   string     // as typed
	device string     // id of a browser that the user has signed in with
	source netip.Addr // invalid if the client is charged instead
	client string     // of the password grant
	atDesk bool       // confirms a change there
}

// key is the bucket of the attempt.
func (a attempt) key() secret.Hash {
	if a.device != "" {
		return secret.HashOf("device\x00" + a.device)
	}
	return a.user()
}

// user identifies a username at a client or at our own pages. Names are hashed, because
// people type passwords into the wrong field, and spellings of one name share a bucket.
// A name with a space around it is unknown, but gets no second bucket.
func (a attempt) user() secret.Hash {
	name := strings.TrimSpace(a.name)
	if canonical, err := store.CanonicalUsername(name); err == nil {
		name = canonical
	}
	if a.client != "" {
		return secret.HashOf("client\x00" + a.client + "\x00" + name)
	}
	return secret.HashOf("user\x00" + name)
}

// caller is charged for hashing. Known browsers have no share of their own: a person
// with many browsers would have many shares.
func (a attempt) caller() secret.Caller {
	c := secret.Caller{User: a.user(), Source: "client " + a.client}
	if a.source.IsValid() {
		c.Source = prefixOf(a.source).String()
	}
	return c
}

// bucketKeys name the buckets of an attempt. A zero one is none.
type bucketKeys struct {
	user           secret.Hash  // or known browser
	source, device netip.Prefix // both are the source; device is for known browsers
	client         string
}

func (a attempt) buckets() bucketKeys {
	k := bucketKeys{user: a.key(), client: a.client}
	if a.source.IsValid() {
		k.source = prefixOf(a.source)
	}
	if a.device != "" {
		k.device = prefixOf(a.source)
	}
	return k
}

// begin admits an attempt and returns how to end it; or, if it comes too soon, nil and
// how long to wait. It counts no failure: unjudged attempts must not evict others.
// Errors: record.ErrUnavailable, record.ErrBusy.
func (t *throttle) begin(ctx context.Context, a attempt) (end func(verdict) error, wait time.Duration, err error) {
	if t.off {
		return func(verdict) error { return nil }, 0, nil
	}
	k := a.buckets()
	if wait = t.over.refused(k); wait > 0 {
		return nil, wait, nil
	}
	var begun time.Time
	err = t.over.change(ctx, k, func(f *failures, now time.Time) {
		begun = time.Time{}
		if wait = k.wait(f.waits(now)); wait == 0 && f.pending < pendingMax {
			f.begin(now)
			begun = now
		}
	})
	if err == nil && wait == 0 && begun.IsZero() {
		err = fmt.Errorf("throttle: %d attempts of a user are in progress: %w", pendingMax, record.ErrBusy)
	}
	if err != nil || wait > 0 {
		return nil, wait, err
	}
	return func(v verdict) error { return t.end(ctx, k, begun, v) }, 0, nil
}

// verdict is the result of an attempt.
type verdict int

const (
	unjudged  verdict = iota // the server was busy
	abandoned                // the caller left before it was judged
	right
	wrong
)

// end counts the attempt even if the caller has disconnected. An abandoned one is charged
// to its source. Otherwise requests that are cancelled again and again could take up all of
// a user's attempts in progress, at no cost.
func (t *throttle) end(ctx context.Context, k bucketKeys, begun time.Time, v verdict) error {
	return t.over.change(context.WithoutCancel(ctx), k, func(f *failures, now time.Time) {
		f.end(begun)
		switch v {
		case abandoned:
			if k.source.IsValid() {
				f.source = f.source.charged(now, sourceFailuresMax)
			}
		case right:
			f.user = nil
		case wrong:
			f.guessed(k, now)
		}
	})
}

// waits are how long each bucket of an attempt must wait.
type waits struct{ user, source, device, client time.Duration }

// wait returns how long an attempt must wait. Our choice: if strangers have used up a
// source's failures, known browsers still get a few attempts from there.
func (k bucketKeys) wait(w waits) time.Duration {
	wait := w.source
	if k.device.IsValid() {
		wait = min(wait, w.device)
	}
	return max(wait, w.client, w.user)
}

// failures are the buckets of one attempt. A nil one has counted none.
type failures struct {
	user                   *guesses
	source, device, client *bucket

	pending      int // attempts of the user in progress
	begun, ended time.Time
}

func (f *failures) waits(now time.Time) waits {
	w := waits{
		source: f.source.wait(now, sourceFailuresMax),
		device: f.device.wait(now, deviceFailuresMax),
		client: f.client.wait(now, clientFailuresMax),
	}
	if f.user != nil {
		w.user = f.user.wait(now, f.pending)
	}
	return w
}

func (f *failures) begin(now time.Time) { f.pending, f.begun = f.pending+1, now }

func (f *failures) end(begun time.Time) { f.pending, f.ended = f.pending-1, begun }

// guessed counts a wrong password. Known browsers are charged as their source is:
// cookies give a source a few extra attempts once, and not one failure a minute more.
func (f *failures) guessed(k bucketKeys, now time.Time) {
	if f.user == nil {
		f.user = &guesses{}
	}
	f.user.failures, f.user.last = f.user.failures+1, now
	if k.source.IsValid() {
		f.source = f.source.charged(now, sourceFailuresMax)
	}
	if k.device.IsValid() {
		f.device = f.device.charged(now, deviceFailuresMax)
	}
	if k.client != "" {
		f.client = f.client.charged(now, clientFailuresMax)
	}
}

// guesses is the bucket of a user or of a device.
type guesses struct {
	failures int
	last     time.Time
}

// wait returns how long the bucket must wait before its next attempt. After the first
// failure, attempts in progress count as failed. Before it they do not, since a backend may
// send many at once for one user: begin bounds them.
func (g *guesses) wait(now time.Time, pending int) time.Duration {
	switch since := now.Sub(g.last); {
	case since >= userForgottenAfter:
		g.failures = 0
	case since < 0: // the clock was set back
		g.last = now
	}
	if g.failures == 0 || g.failures+pending < userFailuresFree {
		return 0
	}
	delay := g.delay()
	if pending > 0 { // one at a time after the free ones
		return delay
	}
	return max(g.last.Add(delay).Sub(now), 0)
}

// delay is the wait after the last failure.
func (g *guesses) delay() time.Duration {
	delay := userDelayFirst
	for range g.failures - userFailuresFree {
		if delay = min(2*delay, userDelayMax); delay == userDelayMax {
			break
		}
	}
	return delay
}

// bucket limits the failures a minute of a source or a client: to max at once, and then
// to as many as are refilled. A nil one is full.
type bucket struct {
	free float64 // failures that remained at last; negative is a debt
	last time.Time
}

// at returns how many failures remain.
func (b *bucket) at(now time.Time, maxPerMinute int) float64 {
	if b == nil {
		return float64(maxPerMinute)
	}
	refilled := max(now.Sub(b.last), 0).Minutes() * float64(maxPerMinute)
	return min(b.free+refilled, float64(maxPerMinute))
}

// wait returns how long until the bucket admits a failure.
func (b *bucket) wait(now time.Time, maxPerMinute int) time.Duration {
	missing := max(1-b.at(now, maxPerMinute), 0)
	return time.Duration(missing / float64(maxPerMinute) * float64(time.Minute))
}

// charged returns the bucket with one failure more. Excess failures become a debt of
// later attempts.
func (b *bucket) charged(now time.Time, maxPerMinute int) *bucket {
	return &bucket{free: b.at(now, maxPerMinute) - 1, last: now}
}

// clientFailed counts a failed client authentication of the source and returns how long
// it must wait. A client with the right secret never waits: secrets cannot be guessed.
// Errors: record.ErrUnavailable.
func (t *throttle) clientFailed(ctx context.Context, source netip.Addr) (wait time.Duration, err error) {
	if t.off {
		return 0, nil
	}
	k := bucketKeys{source: prefixOf(source)}
	if !k.source.IsValid() {
		k.source = noAddress
	}
	if wait = t.over.refused(k); wait > 0 {
		return wait, nil
	}
	err = t.over.change(context.WithoutCancel(ctx), k, func(f *failures, now time.Time) {
		if wait = k.wait(f.waits(now)); wait == 0 {
			f.source = f.source.charged(now, sourceFailuresMax)
		}
	})
	return wait, err
}

type auditSource struct {
	what   store.Audited
	source netip.Prefix
}

// mayRecord reports whether the source may cause another such audit line: strangers
// must not fill the disk.
func (t *throttle) mayRecord(what store.Audited, source netip.Addr) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, key := t.now(), auditSource{what: what, source: prefixOf(source)}
	b, _ := t.audits.Get(key)
	if b.wait(now, auditLinesMax) > 0 {
		return false
	}
	t.audits.Add(key, b.charged(now, auditLinesMax))
	return true
}

// noAddress is the source of clients without an address.
var noAddress = netip.PrefixFrom(netip.IPv6Unspecified(), 0)

// prefixOf returns the source of an address.
func prefixOf(source netip.Addr) netip.Prefix {
	bits := source.BitLen()
	if source.Is6() {
		bits = sourceBitsIPv6
	}
	prefix, err := source.WithZone("").Prefix(bits)
	if err != nil {
		return netip.Prefix{} // no address
	}
	return prefix
}

// tooMany refuses an attempt that comes too soon, in the same words for known and
// unknown names.
func tooMany(wait time.Duration) *problem {
	seconds := strconv.FormatInt(max(int64(math.Ceil(wait.Seconds())), 1), 10)
	return newProblem(http.StatusTooManyRequests, "too_many_requests", "Too many failed attempts. %s", tryAgainIn(seconds)).
		with("Retry-After", seconds)
}

func tryAgainIn(seconds string) string {
	if seconds == "1" {
		return "Try again in 1 second."
	}
	return "Try again in " + seconds + " seconds."
}

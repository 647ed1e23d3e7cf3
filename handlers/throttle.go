package handlers

import (
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"tollhouse/store"
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
	sourceFailuresMax  = 30  // a minute and source
	deviceFailuresMax  = 10  // a minute and source, when the source has no more left: of known browsers
	clientFailuresMax  = 300 // a minute and client
	auditLinesMax      = 60  // a minute and source, of what costs the caller nothing
)

// The memory of the throttle is bounded, to about 11 MiB: the bucket that was unused
// for longest is dropped. Only failures create buckets, so evicting a user's takes that
// many failures, at 30 a minute and source.
const (
	userBucketsMax   = 1 << 14
	sourceBucketsMax = 1 << 14
	deviceBucketsMax = 1 << 10
	clientBucketsMax = 1 << 10
	auditBucketsMax  = 1 << 11
)

const sourceBitsIPv6 = 64 // what one subscriber has

// throttle counts failures. It is safe for concurrent use.
type throttle struct {
	off     bool // counts no failures
	now     func() time.Time
	mu      sync.Mutex
	pending map[secret.Hash]int // attempts in progress, by bucket
	users   *lru.Cache[secret.Hash, *guesses]
	sources *lru.Cache[netip.Prefix, bucket]
	devices *lru.Cache[netip.Prefix, bucket] // known browsers, by source
	clients *lru.Cache[string, bucket]
	audits  *lru.Cache[auditSource, bucket]
}

func newThrottle(now func() time.Time) *throttle {
	return &throttle{
		now:     now,
		pending: make(map[secret.Hash]int),
		users:   newLRU[secret.Hash, *guesses](userBucketsMax),
		sources: newLRU[netip.Prefix, bucket](sourceBucketsMax),
		devices: newLRU[netip.Prefix, bucket](deviceBucketsMax),
		clients: newLRU[string, bucket](clientBucketsMax),
		audits:  newLRU[auditSource, bucket](auditBucketsMax),
	}
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

// begin admits an attempt and returns how to end it; or, if it comes too soon, nil and
// how long to wait. It creates no bucket: unjudged attempts must not evict others.
func (t *throttle) begin(a attempt) (end func(verdict), wait time.Duration) {
	if t.off {
		return func(verdict) {}, 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now, key := t.now(), a.key()
	wait = t.sharedWait(a, now)
	if g, ok := t.users.Get(key); ok {
		wait = max(wait, g.wait(now, t.pending[key]))
	}
	if wait > 0 {
		return nil, wait
	}
	t.pending[key]++
	return func(v verdict) { t.end(a, key, v) }, 0
}

// sharedWait returns how long the source and the client of an attempt must wait. Our
// choice: if strangers have used up a source's failures, known browsers still get a
// few attempts from there.
func (t *throttle) sharedWait(a attempt, now time.Time) (wait time.Duration) {
	if a.source.IsValid() {
		wait = waitOf(t.sources, prefixOf(a.source), now)
	}
	if a.device != "" {
		wait = min(wait, waitOf(t.devices, prefixOf(a.source), now))
	}
	if a.client != "" {
		wait = max(wait, waitOf(t.clients, a.client, now))
	}
	return wait
}

// chargeShared charges a failure to the source and the client. Known browsers are
// charged too: cookies give a source a few extra attempts once, and not one failure a
// minute more.
func (t *throttle) chargeShared(a attempt, now time.Time) {
	if a.source.IsValid() {
		bucketOf(t.sources, prefixOf(a.source), sourceFailuresMax).charge(now)
	}
	if a.device != "" {
		bucketOf(t.devices, prefixOf(a.source), deviceFailuresMax).charge(now)
	}
	if a.client != "" {
		bucketOf(t.clients, a.client, clientFailuresMax).charge(now)
	}
}

// verdict is the result of an attempt.
type verdict int

const (
	unjudged verdict = iota // the server was busy
	right
	wrong
)

func (t *throttle) end(a attempt, key secret.Hash, v verdict) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pending[key]--; t.pending[key] == 0 {
		delete(t.pending, key)
	}
	now := t.now()
	switch v {
	case right:
		t.users.Remove(key)
	case wrong:
		t.guessed(key, now)
		t.chargeShared(a, now)
	}
}

// guessed counts a wrong password.
func (t *throttle) guessed(key secret.Hash, now time.Time) {
	g, ok := t.users.Get(key)
	if !ok {
		g = &guesses{}
		t.users.Add(key, g)
	}
	g.failures, g.last = g.failures+1, now
}

// guesses is the bucket of a user or of a device.
type guesses struct {
	failures int
	last     time.Time
}

// wait returns how long the bucket must wait before its next attempt. After the first
// failure, attempts in progress count as failed. Before it they do not, since a backend
// may send many at once for one user; the queue for hashing bounds them.
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

// bucket limits the failures a minute of a source or a client.
type bucket struct{ *rate.Limiter }

func bucketOf[K comparable](cache *lru.Cache[K, bucket], key K, perMinute int) bucket {
	if b, ok := cache.Get(key); ok {
		return b
	}
	b := bucket{Limiter: rate.NewLimiter(rate.Limit(float64(perMinute)/time.Minute.Seconds()), perMinute)}
	cache.Add(key, b)
	return b
}

// waitOf returns how long the bucket of key must wait. It has none before its first
// failure.
func waitOf[K comparable](cache *lru.Cache[K, bucket], key K, now time.Time) time.Duration {
	b, ok := cache.Get(key)
	if !ok {
		return 0
	}
	return b.wait(now)
}

// charge counts a failure. Excess failures become a debt of later attempts.
func (b bucket) charge(now time.Time) { b.ReserveN(now, 1) }

// wait returns how long until the bucket admits a failure.
func (b bucket) wait(now time.Time) time.Duration {
	missing := 1 - b.TokensAt(now)
	if missing <= 0 {
		return 0
	}
	return time.Duration(missing / float64(b.Limit()) * float64(time.Second))
}

// clientFailed counts a failed client authentication of the source and returns how long
// it must wait. A client with the right secret never waits: secrets cannot be guessed.
func (t *throttle) clientFailed(source netip.Addr) time.Duration {
	if t.off {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now, b := t.now(), bucketOf(t.sources, prefixOf(source), sourceFailuresMax)
	wait := b.wait(now)
	if wait == 0 {
		b.AllowN(now, 1)
	}
	return wait
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
	return bucketOf(t.audits, auditSource{what: what, source: prefixOf(source)}, auditLinesMax).AllowN(t.now(), 1)
}

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

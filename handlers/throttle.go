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

// The throttle slows down guessing, and locks nobody out. Failures are counted
// in buckets: of the user whose name was typed, known or not; of the source
// that the request comes from; and of the client that asks for many users by
// the password grant, since one backend posts for many people. A browser in
// which the user signed in before has a bucket of its own, so that what
// strangers do to a name does not reach its owner.
const (
	userFailuresFree   = 10
	userDelayFirst     = time.Second
	userDelayMax       = time.Minute
	userForgottenAfter = 15 * time.Minute
	sourceFailuresMax  = 30  // a minute and source
	clientFailuresMax  = 300 // a minute and client
	auditLinesMax      = 60  // a minute and source, of what costs the caller nothing
)

// The bounds of the throttle's memory, about 11 MiB when all are full: the
// bucket that was longest untouched gives way. To push a user's out, somebody
// must fail under so many names, at 30 a minute from each source.
const (
	userBucketsMax   = 1 << 14
	sourceBucketsMax = 1 << 14
	clientBucketsMax = 1 << 10
	auditBucketsMax  = 1 << 11
)

const sourceBitsIPv6 = 64 // of an address: what one subscriber has

// throttle counts failures. It is safe for many goroutines.
type throttle struct {
	now     func() time.Time
	mu      sync.Mutex
	users   *lru.Cache[secret.Hash, *guesses]
	sources *lru.Cache[netip.Prefix, bucket]
	clients *lru.Cache[string, bucket]
	audits  *lru.Cache[auditSource, bucket]
}

func newThrottle(now func() time.Time) *throttle {
	return &throttle{
		now:     now,
		users:   newLRU[secret.Hash, *guesses](userBucketsMax),
		sources: newLRU[netip.Prefix, bucket](sourceBucketsMax),
		clients: newLRU[string, bucket](clientBucketsMax),
		audits:  newLRU[auditSource, bucket](auditBucketsMax),
	}
}

func newLRU[K comparable, V any](size int) *lru.Cache[K, V] {
	cache, err := lru.New[K, V](size)
	if err != nil {
		panic("handlers: " + err.Error()) // only for a size that is not positive
	}
	return cache
}

// attempt is one try at a user's password.
type attempt struct {
	name   string     // as it was typed
	device string     // the browser's id, when the user of that name signed in with it before
	source netip.Addr // invalid when the client is charged in its place
	client string     // of the password grant
}

// key names the bucket of the attempt's guesses. Names are hashed, so that what
// people type into the wrong field is not kept, and every spelling of a name is
// one. A space around it makes it nobody's name, and no second bucket.
func (a attempt) key() secret.Hash {
	if a.device != "" {
		return secret.HashOf("device\x00" + a.device)
	}
	name := strings.TrimSpace(a.name)
	if canonical, err := store.CanonicalUsername(name); err == nil {
		name = canonical
	}
	return secret.HashOf("user\x00" + name)
}

// begin admits an attempt and returns how to end it; or, when it comes too
// soon, nil and how long to wait. An attempt that is refused leaves no trace, so
// that nobody can wash a bucket out of memory for free.
func (t *throttle) begin(a attempt) (end func(verdict), wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, key := t.now(), a.key()
	shared := t.sharedBuckets(a)
	for _, b := range shared {
		wait = max(wait, b.wait(now))
	}
	g, known := t.users.Get(key)
	if known {
		wait = max(wait, g.wait(now))
	}
	if wait > 0 {
		return nil, wait
	}
	if !known {
		g = &guesses{}
		t.users.Add(key, g)
	}
	g.pending++
	return func(v verdict) { t.end(g, shared, v) }, 0
}

// sharedBuckets are those that an attempt is charged to beside its user's.
func (t *throttle) sharedBuckets(a attempt) (shared []bucket) {
	if a.device != "" {
		return nil
	}
	if a.source.IsValid() {
		shared = append(shared, bucketOf(t.sources, prefixOf(a.source), sourceFailuresMax))
	}
	if a.client != "" {
		shared = append(shared, bucketOf(t.clients, a.client, clientFailuresMax))
	}
	return shared
}

// verdict is how an attempt was judged.
type verdict int

const (
	unjudged verdict = iota // it was not: too much was going on
	right
	wrong
)

func (t *throttle) end(g *guesses, shared []bucket, v verdict) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	g.pending--
	switch v {
	case right:
		g.failures = 0
	case wrong:
		g.failures, g.last = g.failures+1, now
		for _, b := range shared {
			// A reservation, since many may fail at once: what is too much is a
			// debt that the next ones wait for.
			b.ReserveN(now, 1)
		}
	}
}

// guesses is the bucket of a user or of a device.
type guesses struct {
	failures int
	pending  int // attempts that are being judged
	last     time.Time
}

// wait returns how long the bucket must rest before its next attempt. Once one
// has failed, those that are being judged count as if they had too. Until then
// they do not, since a backend may ask many times at once for one user; the
// queue for hashing bounds them.
func (g *guesses) wait(now time.Time) time.Duration {
	switch since := now.Sub(g.last); {
	case since >= userForgottenAfter:
		g.failures = 0
	case since < 0: // the clock was set back; the delay begins anew
		g.last = now
	}
	if g.failures == 0 || g.failures+g.pending < userFailuresFree {
		return 0
	}
	delay := g.delay()
	if g.pending > 0 { // past the free ones they come one by one
		return delay
	}
	return max(g.last.Add(delay).Sub(now), 0)
}

// delay is the rest after the last failure.
func (g *guesses) delay() time.Duration {
	delay := userDelayFirst
	for range g.failures - userFailuresFree {
		if delay = min(2*delay, userDelayMax); delay == userDelayMax {
			break
		}
	}
	return delay
}

// bucket is that of a source or of a client: so many failures a minute.
type bucket struct{ *rate.Limiter }

func bucketOf[K comparable](cache *lru.Cache[K, bucket], key K, perMinute int) bucket {
	if b, ok := cache.Get(key); ok {
		return b
	}
	b := bucket{Limiter: rate.NewLimiter(rate.Limit(float64(perMinute)/time.Minute.Seconds()), perMinute)}
	cache.Add(key, b)
	return b
}

// wait returns how long until the bucket has room for a failure.
func (b bucket) wait(now time.Time) time.Duration {
	missing := 1 - b.TokensAt(now)
	if missing <= 0 {
		return 0
	}
	return time.Duration(missing / float64(b.Limit()) * float64(time.Second))
}

// clientFailed counts a failed client authentication against its source, and
// returns how long the source must wait when it has had too many. A client that
// proves itself is never made to wait: its secret cannot be guessed.
func (t *throttle) clientFailed(source netip.Addr) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, b := t.now(), bucketOf(t.sources, prefixOf(source), sourceFailuresMax)
	wait := b.wait(now)
	if wait == 0 {
		b.AllowN(now, 1)
	}
	return wait
}

// auditSource is who has audit lines of one kind written.
type auditSource struct {
	what   store.Audited
	source netip.Prefix
}

// mayRecord reports whether another such line of the source may be written:
// disk must not be what a stranger pays with.
func (t *throttle) mayRecord(what store.Audited, source netip.Addr) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bucketOf(t.audits, auditSource{what: what, source: prefixOf(source)}, auditLinesMax).AllowN(t.now(), 1)
}

// prefixOf is what is counted as one source.
func prefixOf(source netip.Addr) netip.Prefix {
	bits := source.BitLen()
	if source.Is6() {
		bits = sourceBitsIPv6
	}
	prefix, err := source.WithZone("").Prefix(bits)
	if err != nil {
		return netip.Prefix{} // no address at all
	}
	return prefix
}

// tooMany is the answer to an attempt that comes too soon: the same for every
// name, known or not.
func tooMany(wait time.Duration) *problem {
	seconds := max(int64(math.Ceil(wait.Seconds())), 1)
	return newProblem(http.StatusTooManyRequests, "too_many_requests", "Too many attempts have failed. Wait, then try again.").
		with("Retry-After", strconv.FormatInt(seconds, 10))
}

package handlers

import (
	"math"
	"net/http"
	"net/netip"
	"strconv"
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
)

// The bounds of the throttle's memory, about 12 MiB when all are full: the
// bucket that was longest untouched gives way.
const (
	userBucketsMax   = 1 << 15
	sourceBucketsMax = 1 << 14
	clientBucketsMax = 1 << 10
)

const sourceBitsIPv6 = 64 // of an address: what one subscriber has

// throttle counts failures. It is safe for many goroutines.
type throttle struct {
	now     func() time.Time
	mu      sync.Mutex
	users   *lru.Cache[secret.Hash, *guesses]
	sources *lru.Cache[netip.Prefix, *rate.Limiter]
	clients *lru.Cache[string, *rate.Limiter]
}

func newThrottle(now func() time.Time) *throttle {
	return &throttle{
		now:     now,
		users:   newLRU[secret.Hash, *guesses](userBucketsMax),
		sources: newLRU[netip.Prefix, *rate.Limiter](sourceBucketsMax),
		clients: newLRU[string, *rate.Limiter](clientBucketsMax),
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
	source netip.Addr // invalid when the client is charged, or nobody is
	client string     // of the password grant
}

// bucket names the bucket of the attempt's guesses. Names are hashed, so that
// what people type into the wrong field is not kept, and every spelling of a
// name is one.
func (a attempt) bucket() secret.Hash {
	if a.device != "" {
		return secret.HashOf("device\x00" + a.device)
	}
	name, err := store.CanonicalUsername(a.name)
	if err != nil {
		name = a.name
	}
	return secret.HashOf("user\x00" + name)
}

// begin admits an attempt and returns how to end it; or, when it comes too
// soon, nil and how long to wait. What is admitted at the same time as others
// is bounded by the queue for hashing.
func (t *throttle) begin(a attempt) (end func(verdict), wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	g := t.guessesOf(a.bucket())
	wait = g.wait(now)
	if a.device == "" {
		wait = max(wait, t.sourceWait(a.source, now), t.clientWait(a.client, now))
	}
	if wait > 0 {
		return nil, wait
	}
	g.pending++
	return func(v verdict) { t.end(a, g, v) }, 0
}

// verdict is how an attempt was judged.
type verdict int

const (
	unjudged verdict = iota // it was not: too much was going on
	right
	wrong
)

func (t *throttle) end(a attempt, g *guesses, v verdict) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	g.pending--
	switch v {
	case unjudged:
		return
	case right:
		g.failures = 0
		return
	}
	g.failures, g.last = g.failures+1, now
	if a.device == "" {
		t.charge(a.source, a.client, now)
	}
}

func (t *throttle) guessesOf(bucket secret.Hash) *guesses {
	if g, ok := t.users.Get(bucket); ok {
		return g
	}
	g := &guesses{}
	t.users.Add(bucket, g)
	return g
}

// guesses is the bucket of a user or of a device.
type guesses struct {
	failures int
	pending  int // attempts that are being judged
	last     time.Time
}

// wait returns how long the bucket must rest before its next attempt.
func (g *guesses) wait(now time.Time) time.Duration {
	if now.Sub(g.last) >= userForgottenAfter {
		g.failures = 0
	}
	over := g.failures - userFailuresFree
	if over < 0 {
		return 0
	}
	delay := userDelayMax
	if over < 6 {
		delay = userDelayFirst << over
	}
	if g.pending > 0 { // past the free ones they come one by one
		return delay
	}
	return max(g.last.Add(delay).Sub(now), 0)
}

// charge counts a failure against a source or a client.
func (t *throttle) charge(source netip.Addr, client string, now time.Time) {
	if client != "" {
		limiterOf(t.clients, client, clientFailuresMax).AllowN(now, 1)
	}
	if source.IsValid() {
		limiterOf(t.sources, prefixOf(source), sourceFailuresMax).AllowN(now, 1)
	}
}

func (t *throttle) sourceWait(source netip.Addr, now time.Time) time.Duration {
	if !source.IsValid() {
		return 0
	}
	return limiterWait(t.sources, prefixOf(source), now)
}

func (t *throttle) clientWait(client string, now time.Time) time.Duration {
	return limiterWait(t.clients, client, now)
}

// clientFailed counts a failed client authentication against its source, and
// returns how long the source must wait when it has had too many. A client that
// proves itself is never made to wait: its secret cannot be guessed.
func (t *throttle) clientFailed(source netip.Addr) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	wait := t.sourceWait(source, now)
	t.charge(source, "", now)
	return wait
}

// prefixOf is what is counted as one source.
func prefixOf(source netip.Addr) netip.Prefix {
	bits := source.BitLen()
	if source.Is6() {
		bits = sourceBitsIPv6
	}
	prefix, err := source.Prefix(bits)
	if err != nil {
		return netip.Prefix{} // an address with a zone: all such are one source
	}
	return prefix
}

func limiterOf[K comparable](cache *lru.Cache[K, *rate.Limiter], key K, perMinute int) *rate.Limiter {
	if l, ok := cache.Get(key); ok {
		return l
	}
	l := rate.NewLimiter(rate.Limit(float64(perMinute)/time.Minute.Seconds()), perMinute)
	cache.Add(key, l)
	return l
}

// limiterWait returns how long until a bucket has room for a failure.
func limiterWait[K comparable](cache *lru.Cache[K, *rate.Limiter], key K, now time.Time) time.Duration {
	l, ok := cache.Get(key)
	if !ok {
		return 0
	}
	missing := 1 - l.TokensAt(now)
	if missing <= 0 {
		return 0
	}
	return time.Duration(missing / float64(l.Limit()) * float64(time.Second))
}

// tooMany is the answer to an attempt that comes too soon: the same for every
// name, known or not.
func tooMany(wait time.Duration) *problem {
	seconds := max(int64(math.Ceil(wait.Seconds())), 1)
	return newProblem(http.StatusTooManyRequests, "too_many_requests", "Too many attempts have failed. Wait, then try again.").
		with("Retry-After", strconv.FormatInt(seconds, 10))
}

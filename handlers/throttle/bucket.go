package throttle

import (
	"net/netip"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// guesses is the bucket of a user or of a device.
type guesses struct {
	failures int
	last     time.Time
}

// wait returns how long the bucket must wait before its next attempt. After the first
// failure, attempts in progress count as failed. Before it they do not, since a backend may
// send many at the same time for one user: Begin bounds them.
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

// bucket limits what may happen in a minute: to a burst of max, and then to as much as is
// refilled. A nil one is full.
type bucket struct {
	free float64 // what remained at last; negative is a debt
	last time.Time
}

// at returns how much remains.
func (b *bucket) at(now time.Time, maxPerMinute int) float64 {
	if b == nil {
		return float64(maxPerMinute)
	}
	refilled := max(now.Sub(b.last), 0).Minutes() * float64(maxPerMinute)
	return min(b.free+refilled, float64(maxPerMinute))
}

// wait returns how long until as much as need remains.
func (b *bucket) wait(now time.Time, maxPerMinute, need int) time.Duration {
	missing := max(float64(need)-b.at(now, maxPerMinute), 0)
	return time.Duration(missing / float64(maxPerMinute) * float64(time.Minute))
}

// charged returns the bucket with n less. An excess becomes a debt.
func (b *bucket) charged(now time.Time, maxPerMinute, n int) *bucket {
	return &bucket{free: b.at(now, maxPerMinute) - float64(n), last: now}
}

// buckets are those of one kind. A key that counts as several sources has as many times
// the limit.
type buckets[K comparable] struct {
	perMinute int
	cache     *lru.Cache[K, *bucket]
}

func newBuckets[K comparable](size, perMinute int) buckets[K] {
	return buckets[K]{perMinute: perMinute, cache: newLRU[K, *bucket](size)}
}

// wait returns how long the key must wait for one more.
func (b buckets[K]) wait(key K, sources int, now time.Time) time.Duration {
	one, _ := b.cache.Get(key)
	return one.wait(now, b.perMinute*sources, 1)
}

func (b buckets[K]) charge(key K, sources int, now time.Time) {
	one, _ := b.cache.Get(key)
	b.cache.Add(key, one.charged(now, b.perMinute*sources, 1))
}

// waitOfSource returns how long all networks around an address must wait.
func waitOfSource(b buckets[netip.Prefix], source netip.Addr, now time.Time) (wait time.Duration) {
	for n := range Networks(source) {
		wait = max(wait, b.wait(n.Prefix, n.Sources, now))
	}
	return wait
}

func chargeSource(b buckets[netip.Prefix], source netip.Addr, now time.Time) {
	for n := range Networks(source) {
		b.charge(n.Prefix, n.Sources, now)
	}
}

func newLRU[K comparable, V any](size int) *lru.Cache[K, V] {
	cache, err := lru.New[K, V](size)
	if err != nil {
		panic("throttle: " + err.Error()) // only if the size is not positive
	}
	return cache
}

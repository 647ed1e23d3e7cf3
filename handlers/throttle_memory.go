package handlers

import (
	"context"
	"net/netip"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"tollhouse/store/secret"
)

// The memory of the throttle is bounded, to about 9 MiB: the bucket that was unused
// for longest is dropped. Only failures create buckets, so evicting a user's takes that
// many failures, at 30 a minute and source.
const (
	userBucketsMax   = 1 << 14
	sourceBucketsMax = 1 << 14
	deviceBucketsMax = 1 << 10
	clientBucketsMax = 1 << 10
)

// memoryBuckets are the buckets of a process that is alone.
type memoryBuckets struct {
	now     func() time.Time
	mu      sync.Mutex
	pending map[secret.Hash]int // attempts in progress, by bucket
	users   *lru.Cache[secret.Hash, *guesses]
	sources *lru.Cache[netip.Prefix, *bucket]
	devices *lru.Cache[netip.Prefix, *bucket] // known browsers, by source
	clients *lru.Cache[string, *bucket]
}

func newMemoryBuckets(now func() time.Time) *memoryBuckets {
	return &memoryBuckets{
		now:     now,
		pending: make(map[secret.Hash]int),
		users:   newLRU[secret.Hash, *guesses](userBucketsMax),
		sources: newLRU[netip.Prefix, *bucket](sourceBucketsMax),
		devices: newLRU[netip.Prefix, *bucket](deviceBucketsMax),
		clients: newLRU[string, *bucket](clientBucketsMax),
	}
}

func (m *memoryBuckets) change(_ context.Context, k bucketKeys, step func(*failures, time.Time)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := failures{
		user: cached(m.users, k.user), pending: m.pending[k.user],
		source: cached(m.sources, k.source), device: cached(m.devices, k.device), client: cached(m.clients, k.client),
	}
	f := before
	step(&f, m.now())
	keep(m.users, k.user, before.user, f.user)
	keep(m.sources, k.source, before.source, f.source)
	keep(m.devices, k.device, before.device, f.device)
	keep(m.clients, k.client, before.client, f.client)
	if m.pending[k.user] = f.pending; f.pending == 0 {
		delete(m.pending, k.user)
	}
	return nil
}

// refused returns 0: a look at the buckets costs nothing.
func (m *memoryBuckets) refused(bucketKeys) time.Duration { return 0 }

func cached[K comparable, V any](cache *lru.Cache[K, *V], key K) *V {
	value, _ := cache.Get(key)
	return value
}

func keep[K comparable, V any](cache *lru.Cache[K, *V], key K, before, after *V) {
	switch {
	case after == before:
	case after == nil:
		cache.Remove(key)
	default:
		cache.Add(key, after)
	}
}

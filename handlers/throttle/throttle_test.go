package throttle

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"runtime"
	"strconv"
	"testing"
	"time"

	"tollhouse/store/secret"
	"tollhouse/store/storetest/must"
)

func TestThrottlePending(t *testing.T) {
	t.Parallel()
	throttle := New(func() time.Time { return time.Unix(1_773_070_200, 0) })
	begin := func() (*Try, time.Duration) {
		t.Helper()
		try, wait, err := throttle.Begin(Attempt{Name: "mara"})
		must.Do(t, err)
		return try, wait
	}
	first, _ := begin()
	first.End(Wrong)
	t.Run("what_is_being_judged_counts_once_one_has_failed", func(t *testing.T) {
		var tries []*Try
		for i := range userFailuresFree - 1 {
			try, wait := begin()
			if wait > 0 {
				t.Fatalf("attempt %d waits %s, want it admitted", i, wait)
			}
			tries = append(tries, try)
		}
		if _, wait := begin(); wait != userDelayFirst {
			t.Errorf("one more waits %s, want %s", wait, userDelayFirst)
		}
		for _, try := range tries {
			try.End(Unchecked) // not hashed, so not counted as failures
		}
		if _, wait := begin(); wait > 0 {
			t.Errorf("the next waits %s, want it admitted", wait)
		}
	})
	t.Run("an_abandoned_attempt_is_charged_to_its_source", func(t *testing.T) {
		a := Attempt{Name: "minna", Source: netip.MustParseAddr("192.0.2.7")}
		for i := range sourceFailuresMax {
			try, wait, err := throttle.Begin(a)
			if must.Do(t, err); wait > 0 {
				t.Fatalf("attempt %d waits %s, want it admitted", i, wait)
			}
			try.End(Abandoned)
		}
		if _, wait, _ := throttle.Begin(a); wait == 0 {
			t.Error("one more is admitted, want that it waits")
		}
		a.Source = netip.MustParseAddr("192.0.2.8")
		if _, wait, _ := throttle.Begin(a); wait > 0 {
			t.Errorf("another source waits %s, want it admitted", wait)
		}
	})
}

// TestOwnTurnsOfManySources: sources that ask for a name without end leave a turn to one
// that comes later, at its first or second try.
//
// Promise (Credentials, memory, connections): huge passwords; locking an owner out, from one source
// or many
func TestOwnTurnsOfManySources(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	for _, sources := range []int{1, 30, 80, 256, 65_536} {
		t.Run(strconv.Itoa(sources), func(t *testing.T) {
			t.Parallel()
			now := time.Unix(1_773_070_200, 0)
			throttle := New(func() time.Time { return now })
			judged := 0
			flood := func() { // each source once, in some seconds
				for i := range sources {
					if i%(1+sources/8) == 0 {
						now = now.Add(time.Second)
					}
					source := netip.AddrFrom4([4]byte{198, 51, byte(i >> 8), byte(i)})
					if try, _, _ := throttle.Begin(Attempt{Name: "mara", Source: source}); try != nil {
						try.End(Wrong)
						judged++
					}
				}
			}
			began := now
			for range 3 {
				flood()
			}
			for now.Sub(began) < time.Minute {
				now = now.Add(time.Second)
				flood()
			}
			if most := userFailuresFree + 2*ownTurnsMax*int(now.Sub(began)/time.Minute+1); judged > most {
				t.Errorf("%d guesses were judged in %v, want at most %d", judged, now.Sub(began), most)
			}
			honest := netip.MustParseAddr("203.0.113.1")
			began = now
			for {
				try, wait, err := throttle.Begin(Attempt{Name: "mara", Source: honest})
				must.Do(t, err)
				if try != nil {
					break
				}
				now = now.Add(wait)
				if flood(); now.Sub(began) > 2*time.Minute {
					t.Fatal("the right password waits for two minutes")
				}
			}
			t.Logf("%d guesses judged; the right password waits %v", judged, now.Sub(began))
		})
	}
}

// TestOwnTurnsOfNetworks: a /56 fails for a name as 8 sources, and a /48 as 32.
//
// Promise (Credentials, memory, connections): an IPv6 /56 or /48 as many sources: failures, turns,
// connections, bodies, HTTP/2 requests
func TestOwnTurnsOfNetworks(t *testing.T) {
	t.Parallel()
	for sources, want := range map[string]int{
		"2001:db8:1:200::%x": 1, "2001:db8:1:2%02x::1": 8, "2001:db8:1:%x00::1": 32, "2001:db8:%x::1": 50, "198.51.100.%d": 50,
	} {
		now := time.Unix(1_773_070_200, 0)
		own, judged := newOwnTurns(now), 0
		for i := range 50 {
			now = now.Add(3 * time.Second) // a turn more
			source := netip.MustParseAddr(fmt.Sprintf(sources, i))
			if wait, ok := own.take(secret.HashOf("mara"), source, now); ok && wait == 0 {
				own.failed(secret.HashOf("mara"), source, now)
				judged++
			}
		}
		if judged != want {
			t.Errorf("50 sources like %s have %d turns, want %d", sources, judged, want)
		}
	}
}

// TestThrottleMemory is not parallel: it measures the heap.
//
// Promise (Credentials, memory, connections): filling the throttle's memory; tokens outside the
// header
func TestThrottleMemory(t *testing.T) {
	const (
		names   = 1_000_000
		sources = 100_000
		heapMax = 16 << 20
	)
	must.SkipInShort(t)
	must.SkipUnderRace(t)
	now := time.Unix(1_773_070_200, 0)
	before := heapInUse()
	clock := func() time.Time { return now }
	throttle := New(clock)
	address := netip.MustParseAddr("2001:db8::1").As16()
	for i := range names {
		var source netip.Addr
		if i < sources {
			binary.BigEndian.PutUint32(address[2:], uint32(i)) // another /48 each
			source = netip.AddrFrom16(address)
		}
		try, wait, _ := throttle.Begin(Attempt{Name: "user" + strconv.Itoa(i), Source: source})
		if wait > 0 {
			t.Fatalf("name %d waits %s, want each judged once", i, wait)
		}
		try.End(Wrong)
	}
	t.Run("a_million_names_and_sources_take_16_MiB_at_most", func(t *testing.T) {
		grown := int64(heapInUse()) - int64(before)
		t.Logf("the throttle holds %.1f MiB", float64(grown)/(1<<20))
		if grown > heapMax {
			t.Errorf("the heap grew by %d MiB, want at most %d", grown>>20, heapMax>>20)
		}
		for what, have := range map[string][2]int{
			"users": {throttle.users.Len(), userBucketsMax}, "sources": {throttle.sources.cache.Len(), sourceBucketsMax},
		} {
			if have[0] != have[1] {
				t.Errorf("%s: %d buckets, want %d", what, have[0], have[1])
			}
		}
	})
	runtime.KeepAlive(throttle)
}

func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkAttempt is what the throttle costs a right password.
func BenchmarkAttempt(b *testing.B) {
	throttle := New(time.Now)
	a := Attempt{Name: "mara", Source: netip.MustParseAddr("2001:db8::1")}
	for b.Loop() {
		try, _, _ := throttle.Begin(a)
		try.End(Right)
	}
}

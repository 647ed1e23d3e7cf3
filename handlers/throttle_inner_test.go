package handlers

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"runtime"
	"strconv"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

func TestThrottlePending(t *testing.T) {
	t.Parallel()
	now := func() time.Time { return time.Unix(1_773_070_200, 0) }
	for name, over := range map[string]buckets{
		"in_memory":  newMemoryBuckets(now),
		"in_a_table": newTableBuckets(storetest.NewGuesses(now), secret.Key{}, now),
	} {
		t.Run(name, func(t *testing.T) { testThrottlePending(t, newThrottle(now, over)) })
	}
}

func testThrottlePending(t *testing.T, throttle *throttle) {
	begin := func() (func(verdict) error, time.Duration) {
		t.Helper()
		end, wait, err := throttle.begin(t.Context(), attempt{name: "mara"})
		must.Do(t, err)
		return end, wait
	}
	end, _ := begin()
	end(wrong)
	t.Run("what_is_being_judged_counts_once_one_has_failed", func(t *testing.T) {
		var ends []func(verdict) error
		for i := range userFailuresFree - 1 {
			end, wait := begin()
			if wait > 0 {
				t.Fatalf("attempt %d waits %s, want it admitted", i, wait)
			}
			ends = append(ends, end)
		}
		if _, wait := begin(); wait != userDelayFirst {
			t.Errorf("one more waits %s, want %s", wait, userDelayFirst)
		}
		for _, end := range ends {
			end(unjudged) // not hashed, so not counted as failures
		}
		if _, wait := begin(); wait > 0 {
			t.Errorf("the next waits %s, want it admitted", wait)
		}
	})
	t.Run("an_abandoned_attempt_is_charged_to_its_source", func(t *testing.T) {
		a := attempt{name: "minna", source: netip.MustParseAddr("192.0.2.7")}
		for i := range sourceFailuresMax {
			end, wait, err := throttle.begin(t.Context(), a)
			if must.Do(t, err); wait > 0 {
				t.Fatalf("attempt %d waits %s, want it admitted", i, wait)
			}
			must.Do(t, end(abandoned))
		}
		if _, wait, _ := throttle.begin(t.Context(), a); wait == 0 {
			t.Error("one more is admitted, want that it waits")
		}
		a.source = netip.MustParseAddr("192.0.2.8")
		if _, wait, _ := throttle.begin(t.Context(), a); wait > 0 {
			t.Errorf("another source waits %s, want it admitted", wait)
		}
	})
	t.Run("a_caller_that_disconnects_is_counted", func(t *testing.T) {
		for range userFailuresFree {
			ctx, disconnect := context.WithCancel(t.Context())
			end, wait, err := throttle.begin(ctx, attempt{name: "moira"})
			if must.Do(t, err); wait > 0 {
				t.Fatalf("an attempt waits %s, want it admitted", wait)
			}
			disconnect()
			must.Do(t, end(wrong))
		}
		if _, wait, _ := throttle.begin(t.Context(), attempt{name: "moira"}); wait != userDelayFirst {
			t.Errorf("one more waits %s, want %s", wait, userDelayFirst)
		}
	})
}

// TestCallersThatLeaveAreCharged: a caller that leaves while its password waits for a hash
// is charged. One that the busy server refuses is not.
func TestCallersThatLeaveAreCharged(t *testing.T) {
	t.Parallel()
	s := &Server{throttle: newThrottle(time.Now, newMemoryBuckets(time.Now))}
	for name, leaves := range map[string]bool{"leaves": true, "is_refused": false} {
		t.Run(name, func(t *testing.T) {
			a := attempt{name: "mara", source: netip.MustParseAddr("2001:db8::1")}
			if leaves {
				a.source = netip.MustParseAddr("192.0.2.1")
			}
			for range sourceFailuresMax {
				ctx, leave := context.WithCancel(t.Context())
				_, _, err := s.judge(ctx, a, func() (store.User, error) {
					if leaves {
						leave()
					}
					return store.User{}, record.ErrBusy
				}, nil)
				if leave(); !errors.Is(err, record.ErrBusy) {
					t.Fatalf("judge() = %v, want the outcome of the attempt", err)
				}
			}
			if _, wait, _ := s.throttle.begin(t.Context(), a); (wait > 0) != leaves {
				t.Errorf("the next attempt waits %s", wait)
			}
		})
	}
}

// FuzzThrottleRows: whatever a row contains, an attempt is admitted or waits a bounded time,
// and a row that was written is read back as it was.
func FuzzThrottleRows(f *testing.F) {
	now := time.Unix(1_773_070_200, 0)
	state, _ := writeGuesses(&guesses{failures: 11, last: now}, []time.Time{now, now})
	f.Add(state, []byte(nil))
	state, _ = writeBucket(&bucket{free: -3.5, last: now}, sourceFailuresMax, now)
	f.Add([]byte("malformed"), state)
	f.Add([]byte{}, []byte{0x7f, 0xf8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}) // not a number
	f.Fuzz(func(t *testing.T, user, source []byte) {
		n := rowNames{user: "u", source: "s"}
		r := readRows(n, [][]byte{user, source}, now)
		if w := r.waits(now); w.user < 0 || w.user > userDelayMax || w.source < 0 {
			t.Fatalf("waits = %+v", w)
		}
		states, until := make([][]byte, 2), make([]time.Time, 2)
		r.write(n, states, until, now)
		again := make([][]byte, 2)
		readRows(n, states, now).write(n, again, until, now)
		for i := range states {
			if !bytes.Equal(states[i], again[i]) {
				t.Errorf("row %d is written as %x, read and written as %x", i, states[i], again[i])
			}
		}
	})
}

// TestThrottleMemory is not parallel: it measures the heap.
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
	over := newMemoryBuckets(clock)
	throttle := newThrottle(clock, over)
	address := netip.MustParseAddr("2001:db8::1").As16()
	for i := range names {
		var source netip.Addr
		if i < sources {
			binary.BigEndian.PutUint32(address[4:], uint32(i)) // another /64 each
			source = netip.AddrFrom16(address)
		}
		end, wait, _ := throttle.begin(t.Context(), attempt{name: "user" + strconv.Itoa(i), source: source})
		if wait > 0 {
			t.Fatalf("name %d waits %s, want each judged once", i, wait)
		}
		end(wrong)
		throttle.mayRecord("throttle", source)
	}
	t.Run("a_million_names_and_sources_take_16_MiB_at_most", func(t *testing.T) {
		grown := int64(heapInUse()) - int64(before)
		t.Logf("the throttle holds %.1f MiB", float64(grown)/(1<<20))
		if grown > heapMax {
			t.Errorf("the heap grew by %d MiB, want at most %d", grown>>20, heapMax>>20)
		}
		for what, have := range map[string][2]int{
			"users": {over.users.Len(), userBucketsMax}, "sources": {over.sources.Len(), sourceBucketsMax}, "audit": {throttle.audits.Len(), auditBucketsMax},
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

// LeaveAttempt begins an attempt of a user at a client and never ends it.
func LeaveAttempt(t testing.TB, s *Server, name, client string) {
	t.Helper()
	_, wait, err := s.throttle.begin(t.Context(), attempt{name: name, client: client})
	if must.Do(t, err); wait > 0 {
		t.Fatalf("the attempt waits %s, want it admitted", wait)
	}
}

package handlers

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// Guesses is a table of the throttle's buckets that several processes share.
type Guesses interface {
	// Change runs change over the states of the named buckets, alone among all processes,
	// and stores the elements that it replaces, at once or not at all. A nil state is no
	// bucket. A state may be dropped after its until, and before it if there are too many.
	// now is the same clock for all processes. change may run more than once.
	Change(ctx context.Context, names [][]byte, change func(now time.Time, states [][]byte, until []time.Time)) error
}

const (
	pendingEndsAfter = 30 * time.Second // of a process that ended first
	refusalsMax      = 1 << 14
)

// tableBuckets are the buckets of several processes. Nothing shortens the wait of a
// bucket without attempts in progress, so this process answers for it until it is over.
type tableBuckets struct {
	table Guesses
	key   secret.Key
	now   func() time.Time

	mu       sync.Mutex // guards refusals
	refusals *lru.Cache[string, refusal]
}

// refusal is the time for which a bucket refuses, by the clock of this process.
type refusal struct{ from, until time.Time }

func newTableBuckets(table Guesses, key secret.Key, now func() time.Time) *tableBuckets {
	return &tableBuckets{table: table, key: key, now: now, refusals: newLRU[string, refusal](refusalsMax)}
}

// rowNames are the names of an attempt's buckets in the table; "" is none.
type rowNames struct{ user, source, device, client string }

// names are keyed hashes: people type passwords into the wrong field, and the database
// must not know them.
func (t *tableBuckets) names(k bucketKeys) (n rowNames) {
	name := func(kind, text string) string { return t.key.MAC("throttle", kind, text) }
	if !k.user.IsZero() {
		n.user = name("user", string(k.user[:]))
	}
	if k.source.IsValid() {
		n.source = name("source", k.source.String())
	}
	if k.device.IsValid() {
		n.device = name("device", k.device.String())
	}
	if k.client != "" {
		n.client = name("client", k.client)
	}
	return n
}

func (t *tableBuckets) change(ctx context.Context, k bucketKeys, step func(*failures, time.Time)) error {
	n := t.names(k)
	var all [][]byte
	for _, name := range []string{n.user, n.source, n.device, n.client} {
		if name != "" {
			all = append(all, []byte(name))
		}
	}
	var after waits
	err := t.table.Change(ctx, all, func(now time.Time, states [][]byte, until []time.Time) {
		r := readRows(n, states, now)
		step(&r.failures, now)
		after = r.waits(now)
		if r.pending > 0 {
			after.user = 0 // one in progress may be right
		}
		r.write(n, states, until, now)
	})
	if err != nil {
		return fmt.Errorf("%w: throttle: %w", record.ErrUnavailable, err)
	}
	t.refuse(n, after)
	return nil
}

// refuse remembers what must wait.
func (t *tableBuckets) refuse(n rowNames, w waits) {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, wait := range map[string]time.Duration{n.user: w.user, n.source: w.source, n.device: w.device, n.client: w.client} {
		if wait > 0 {
			t.refusals.Add(name, refusal{from: now, until: now.Add(wait)})
		}
	}
}

func (t *tableBuckets) refused(k bucketKeys) time.Duration {
	n, now := t.names(k), t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	left := func(name string) time.Duration {
		r, ok := t.refusals.Get(name)
		if !ok || now.Before(r.from) { // the clock was set back
			return 0
		}
		return max(r.until.Sub(now), 0)
	}
	return k.wait(waits{user: left(n.user), source: left(n.source), device: left(n.device), client: left(n.client)})
}

// rows are the failures of an attempt as the table has them.
type rows struct {
	failures
	began []time.Time // attempts of the user in progress
}

// readRows decodes states, which are in the order of names. One that is malformed has
// counted nothing.
func readRows(n rowNames, states [][]byte, now time.Time) *rows {
	r := &rows{}
	next := func(name string) (state []byte) {
		if name != "" {
			state, states = states[0], states[1:]
		}
		return state
	}
	if state := next(n.user); len(state) >= guessesSize && len(state)%8 == guessesSize%8 {
		if failures := binary.BigEndian.Uint32(state); failures > 0 {
			r.user = &guesses{failures: int(failures), last: readTime(state[4:])}
		}
		for rest := state[guessesSize:]; len(rest) > 0; rest = rest[8:] {
			if began := readTime(rest); now.Sub(began).Abs() < pendingEndsAfter {
				r.began = append(r.began, began)
			}
		}
	}
	r.pending = len(r.began)
	r.source, r.device, r.client = readBucket(next(n.source)), readBucket(next(n.device)), readBucket(next(n.client))
	return r
}

// write encodes what step left, in the order of names.
func (r *rows) write(n rowNames, states [][]byte, until []time.Time, now time.Time) {
	i := 0
	put := func(name string, state []byte, end time.Time) {
		if name != "" {
			states[i], until[i] = state, end
			i++
		}
	}
	if !r.ended.IsZero() {
		if at := slices.IndexFunc(r.began, r.ended.Equal); at >= 0 {
			r.began = slices.Delete(r.began, at, at+1)
		}
	}
	if !r.begun.IsZero() {
		r.began = append(r.began, r.begun)
	}
	state, end := writeGuesses(r.user, r.began)
	put(n.user, state, end)
	state, end = writeBucket(r.source, sourceFailuresMax, now)
	put(n.source, state, end)
	state, end = writeBucket(r.device, deviceFailuresMax, now)
	put(n.device, state, end)
	state, end = writeBucket(r.client, clientFailuresMax, now)
	put(n.client, state, end)
}

// The states, big-endian: of a user, the number of failures (4 bytes), the time of the
// last and the times at which attempts in progress began; of a bucket, what is free as a
// float and since when. A time is in nanoseconds since 1970.
const (
	guessesSize = 4 + 8
	bucketSize  = 8 + 8
	freeMax     = 1e6 // either way; a debt comes from attempts at once
)

func readTime(state []byte) time.Time { return time.Unix(0, int64(binary.BigEndian.Uint64(state))) }

func appendTime(state []byte, t time.Time) []byte {
	return binary.BigEndian.AppendUint64(state, uint64(t.UnixNano()))
}

func writeGuesses(g *guesses, began []time.Time) (state []byte, until time.Time) {
	if g == nil || g.failures == 0 {
		g = &guesses{last: time.Unix(0, 0)}
	}
	if g.failures == 0 && len(began) == 0 {
		return nil, time.Time{}
	}
	state = appendTime(binary.BigEndian.AppendUint32(nil, uint32(g.failures)), g.last)
	until = g.last.Add(userForgottenAfter)
	for _, at := range began {
		state = appendTime(state, at)
		if end := at.Add(pendingEndsAfter); end.After(until) {
			until = end
		}
	}
	return state, until
}

func readBucket(state []byte) *bucket {
	if len(state) != bucketSize {
		return nil
	}
	free := math.Float64frombits(binary.BigEndian.Uint64(state))
	if !(math.Abs(free) <= freeMax) { // not a number either
		return nil
	}
	return &bucket{free: free, last: readTime(state[8:])}
}

func writeBucket(b *bucket, maxPerMinute int, now time.Time) (state []byte, until time.Time) {
	missing := float64(maxPerMinute) - b.at(now, maxPerMinute)
	if missing <= 0 {
		return nil, time.Time{}
	}
	state = appendTime(binary.BigEndian.AppendUint64(nil, math.Float64bits(b.free)), b.last)
	return state, now.Add(time.Duration(missing / float64(maxPerMinute) * float64(time.Minute)))
}

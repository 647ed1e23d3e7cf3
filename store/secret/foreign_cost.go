package secret

import (
	"context"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"time"
)

// Cost is how dear it is to check a hash of another system: its method and its parameters, which
// are rounded up by a quarter at most, so that a store counts a bounded number of costs. It is a
// text such as pbkdf2-sha256$i=655360,l=32.
type Cost string

const wrappedCost = "wrapped " // begins the cost of a wrapped hash

// CostOf returns the cost of a hash of a record. Errors: one for a damaged text.
func CostOf(stored string) (Cost, error) {
	k, err := parseKept(stored)
	if err != nil {
		return "", err
	}
	return k.inner.rounded().costOf(k.isWrapped), nil
}

func (h foreignHash) costOf(isWrapped bool) Cost {
	cost := Cost(h.scheme.name + "$" + h.params())
	if isWrapped {
		cost = wrappedCost + cost
	}
	return cost
}

// Check rejects a text that [CostOf] cannot have returned.
func (c Cost) Check() error {
	_, err := c.parse()
	return err
}

// Wrapped reports whether it is the cost of a wrapped hash.
func (c Cost) Wrapped() bool { return strings.HasPrefix(string(c), wrappedCost) }

// Kind is [Foreign].Kind of the hashes of that cost.
func (c Cost) Kind() string {
	h, err := c.parse()
	if err != nil {
		return ""
	}
	return h.countedAs(c.Wrapped())
}

func (c Cost) parse() (foreignHash, error) {
	return parseCost(strings.TrimPrefix(string(c), wrappedCost))
}

// countedAs returns the kind of a hash.
func (h foreignHash) countedAs(isWrapped bool) string {
	if h.scheme.kind == "bcrypt" && !isWrapped {
		return fmt.Sprintf("%s-%d", h.scheme.kind, h.cost[0])
	}
	return h.scheme.kind
}

// rounded returns a hash without a salt and a key that takes at least as long.
func (h foreignHash) rounded() foreignHash {
	r := foreignHash{scheme: h.scheme, size: h.scheme.fixed}
	switch a, b, c := h.cost[0], h.cost[1], h.cost[2]; {
	case h.isLogarithmic():
		r.cost[0] = a
	case strings.HasPrefix(h.scheme.name, "argon2"):
		memory := powerOfTwo(a)
		r.cost, r.size = [3]uint32{memory, upTo(quarters(a*b), memory), 1}, argonKeySize
	case h.scheme.name == "scrypt":
		usual := uint32(8) // r
		if b < usual {
			usual = 1 // which is slower
		}
		n := max(powerOfTwo(upTo(a*b, usual)), 2)
		r.cost, r.size = [3]uint32{n, usual, upTo(quarters(a*b*c), n*usual)}, argonKeySize
	case h.scheme.fixed == 0: // PBKDF2: in one block of a key
		block := uint32(digests[strings.TrimPrefix(h.scheme.name, "pbkdf2-")]().Size())
		r.cost[0], r.size = quarters(a*upTo(h.size, block)), block
	case len(h.scheme.params) > 0:
		r.cost[0] = quarters(a)
	}
	return r
}

// isLogarithmic reports whether the cost is a power of two.
func (h foreignHash) isLogarithmic() bool {
	return h.scheme.kind == "bcrypt" || h.scheme.kind == "phpass"
}

// quarters rounds n up to four significant values between two powers of two.
func quarters(n uint32) uint32 {
	step := uint32(1) << max(bits.Len32(max(n, 1)-1)-3, 0)
	return upTo(n, step) * step
}

func powerOfTwo(n uint32) uint32 { return 1 << bits.Len32(max(n, 1)-1) }

// upTo returns n/of, rounded up.
func upTo(n, of uint32) uint32 { return (n + of - 1) / of }

// work compares the costs of one method.
func (h foreignHash) work() uint64 {
	if h.isLogarithmic() {
		return 1 << h.cost[0]
	}
	return uint64(max(h.cost[0], 1)) * uint64(max(h.cost[1], 1)) * uint64(max(h.cost[2], 1))
}

// shape is what a count of rounds cannot compare: a method, and how much memory it works on. Rounds
// in the caches of a processor take a third of the time of others.
type shape struct {
	method string // with the wrapping
	memory uint32 // as the first parameter of Argon2 and scrypt
}

// dearestOf returns the costs of each method that may take longest: the dearest of each shape.
func dearestOf(costs []Cost) (map[string][]Cost, error) {
	work, dearest := map[shape]uint64{}, map[shape]Cost{}
	for _, c := range costs {
		p, err := c.parse()
		if err != nil {
			return nil, err
		}
		of := shape{method: strings.SplitAfter(string(c), "$")[0]}
		if p.memoryKiB() > 0 {
			of.memory = p.cost[0]
		}
		if p.work() > work[of] {
			work[of], dearest[of] = p.work(), c
		}
	}
	byMethod := map[string][]Cost{}
	for of, c := range dearest {
		byMethod[of.method] = append(byMethod[of.method], c)
	}
	return byMethod, nil
}

// sample returns a hash of the same shape with so few passes that it takes some 20 ms, if the memory
// allows it.
func (h foreignHash) sample() foreignHash {
	const argonKiB, scryptBlocks = 16 << 10, 1 << 15
	if h.scheme.name == "scrypt" {
		h.cost[2] = min(h.cost[2], max(scryptBlocks/(h.cost[0]*h.cost[1]), 1))
	} else {
		h.cost[1] = min(h.cost[1], max(argonKiB/h.cost[0], 1))
	}
	return h
}

// measured has how long checks took that were measured.
type measured struct {
	mu   sync.Mutex
	took map[Cost]time.Duration
}

const (
	// A check is measured with the longest password, as some methods read it in every round.
	measureRuns = 3
	measureLong = 150 * time.Millisecond // then one run is enough
	// measuredMax bounds what is remembered: the dearest of each method, and a sample of each shape.
	measuredMax = 500
)

// recent has the longest check of another system's hash in this minute and in the one before. On a
// busy machine checks take longer than they did when they were measured.
type recent struct {
	mu           sync.Mutex
	began        time.Time // of this minute
	this, before time.Duration
}

const (
	recentEvery = time.Minute
	recentMax   = 4 // times what was measured; a machine that stood still says nothing about hashes
)

func (r *recent) note(took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn()
	r.this = max(r.this, took)
}

func (r *recent) longest() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn()
	return max(r.this, r.before)
}

// turn begins another minute when the last is over.
func (r *recent) turn() {
	switch past := time.Since(r.began); {
	case past >= 2*recentEvery:
		r.began, r.this, r.before = time.Now(), 0, 0
	case past >= recentEvery:
		r.began, r.this, r.before = r.began.Add(recentEvery), 0, r.this
	}
}

// RefusalTime returns how long after its turn began a refused sign-in is answered, in a store that
// has hashes of those costs: a quarter longer than the dearest check takes, ours included, or has
// taken lately. Without any it is 0. It measures what was not measured yet, in a turn for each.
// Errors: ErrBusy and ctx's.
func (h *Hasher) RefusalTime(ctx context.Context, costs []Cost) (time.Duration, error) {
	if len(costs) == 0 {
		return 0, nil
	}
	dearest, err := dearestOf(costs)
	if err != nil {
		return 0, err
	}
	h.measured.mu.Lock()
	defer h.measured.mu.Unlock()
	longest, err := h.measure(ctx, "") // ours
	for _, shapes := range dearest {
		if err != nil {
			return 0, err
		}
		var took time.Duration
		took, err = h.measureDearest(ctx, shapes)
		longest = max(longest, took)
	}
	return max(longest, min(h.recent.longest(), recentMax*longest)) * 5 / 4, err
}

// measureDearest measures the dearest of the shapes of a method. Samples say which it is: a hundred
// shapes at a second each would delay a start.
func (h *Hasher) measureDearest(ctx context.Context, shapes []Cost) (time.Duration, error) {
	if len(shapes) == 1 {
		return h.measure(ctx, shapes[0])
	}
	var dearest Cost
	longest := time.Duration(-1)
	for _, c := range shapes {
		p, err := c.parse()
		if err != nil {
			return 0, err
		}
		few := p.sample()
		took, err := h.measure(ctx, few.costOf(c.Wrapped()))
		if err != nil {
			return 0, err
		}
		if took *= time.Duration(p.work() / few.work()); took > longest {
			dearest, longest = c, took
		}
	}
	return h.measure(ctx, dearest)
}

// measure returns how long a check of that cost takes, or with "" one of ours.
func (h *Hasher) measure(ctx context.Context, c Cost) (time.Duration, error) {
	if took, known := h.measured.took[c]; known {
		return took, nil
	}
	ours := h.newHash()
	k := kept{inner: ours}
	if c != "" {
		k = kept{outer: ours, isWrapped: c.Wrapped()}
		k.inner, _ = c.parse()
		k.inner.salt = make([]byte, max(k.inner.scheme.salt, argonSaltSize))
	}
	var runs []time.Duration
	password := strings.Repeat("x", PasswordSizeMax)
	for len(runs) < measureRuns {
		var took time.Duration
		_, err := h.inTurn(ctx, Caller{}, k.memoryKiB(), func() {
			began := time.Now()
			k.derive(password)
			took = time.Since(began)
		})
		if err != nil {
			return 0, err
		}
		if runs = append(runs, took); took > measureLong {
			break
		}
	}
	slices.Sort(runs)
	if h.measured.took == nil || len(h.measured.took) >= measuredMax {
		h.measured.took = map[Cost]time.Duration{}
	}
	h.measured.took[c] = runs[len(runs)/2]
	return h.measured.took[c], nil
}

// Refuse waits until a refused check of a password may be answered: refusal after its turn began,
// and again for a second form of the password. It ends early with ctx.
func (v Verdict) Refuse(ctx context.Context, refusal time.Duration) {
	wait := time.NewTimer(time.Until(v.Began.Add(refusal * time.Duration(v.forms))))
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
	}
}

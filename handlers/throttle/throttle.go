package throttle

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

const (
	userFailuresFree   = 10
	userDelayFirst     = time.Second
	userDelayMax       = time.Minute
	userForgottenAfter = 15 * time.Minute
	pendingMax         = 64  // attempts of a user in progress: as many as wait for a hash
	sourceFailuresMax  = 30  // a minute and source
	deviceFailuresMax  = 10  // a minute and source, when the source has no more left: of known browsers
	clientFailuresMax  = 300 // a minute and client
)

// The memory of the throttle is bounded, to about 14 MiB: the bucket that was unused
// for longest is dropped. Only failures create buckets, so evicting a user's takes that
// many failures, at 30 a minute and source.
const (
	userBucketsMax   = 1 << 14
	sourceBucketsMax = 1 << 14
	deviceBucketsMax = 1 << 10
	clientBucketsMax = 1 << 10
)

// Throttle counts failures. It is safe for concurrent use.
type Throttle struct {
	// Off makes it count nothing. Set it before the first use.
	Off bool

	now func() time.Time

	mu      sync.Mutex
	pending map[secret.Hash]int // attempts in progress, by bucket
	users   *lru.Cache[secret.Hash, *guesses]
	sources buckets[netip.Prefix] // by network
	devices buckets[netip.Prefix] // of known browsers, by network
	clients buckets[string]
	own     ownTurns
}

// New returns an empty Throttle.
func New(now func() time.Time) *Throttle {
	return &Throttle{
		now:     now,
		pending: make(map[secret.Hash]int),
		users:   newLRU[secret.Hash, *guesses](userBucketsMax),
		sources: newBuckets[netip.Prefix](sourceBucketsMax, sourceFailuresMax),
		devices: newBuckets[netip.Prefix](deviceBucketsMax, deviceFailuresMax),
		clients: newBuckets[string](clientBucketsMax, clientFailuresMax),
		own:     newOwnTurns(now()),
	}
}

// Attempt is one try at a user's password.
type Attempt struct {
	Name   string     // as typed
	Device string     // id of a browser that the user has signed in with
	Source netip.Addr // not charged if there is a client
	Client string     // of the password grant
}

// user identifies a username at a client or at our own pages. Names are hashed, because
// people type passwords into the wrong field, and spellings of one name share a bucket.
func (a Attempt) user() secret.Hash {
	name := strings.TrimSpace(a.Name)
	if canonical, err := store.CanonicalUsername(name); err == nil {
		name = canonical
	}
	if a.Client != "" {
		return secret.HashOf("client\x00" + a.Client + "\x00" + name)
	}
	return secret.HashOf("user\x00" + name)
}

// Try is an attempt that was admitted.
type Try struct {
	Caller secret.Caller // is charged for hashing

	t      *Throttle
	a      Attempt
	user   secret.Hash
	bucket secret.Hash // of the user or of the known browser
	isOwn  bool        // a turn of the source, not of that bucket
}

// Begin admits an attempt, which the caller must end; or, if it is too early, it returns
// nil and how long to wait. It counts no failure: unjudged attempts must not evict others.
// Errors: record.ErrBusy.
func (t *Throttle) Begin(a Attempt) (*Try, time.Duration, error) {
	y := &Try{t: t, a: a, user: a.user()}
	y.bucket = y.user
	if a.Device != "" {
		y.bucket = secret.HashOf("device\x00" + a.Device)
	}
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	y.Caller = a.caller(y.user, func(n Network) int { return t.own.failures(n, now) })
	if t.Off {
		return y, 0, nil
	}
	if wait := t.waitOfCharged(a, now); wait > 0 {
		return nil, wait, nil
	}
	pending, wait := t.pending[y.bucket], time.Duration(0)
	if g, ok := t.users.Get(y.bucket); ok {
		wait = g.wait(now, pending)
	}
	if wait == 0 && pending < pendingMax {
		t.pending[y.bucket]++
		return y, 0, nil
	}
	ownWait, hasTurns := t.own.take(y.user, a.Source, now)
	switch {
	case hasTurns && ownWait == 0:
		y.isOwn = true
		return y, 0, nil
	case wait == 0:
		return nil, 0, fmt.Errorf("throttle: %d attempts of a user are in progress: %w", pendingMax, record.ErrBusy)
	case hasTurns:
		wait = min(wait, ownWait)
	}
	return nil, wait, nil
}

// waitOfCharged returns how long the source or the client of an attempt must wait. Our
// choice: if strangers have used up a source's failures, known browsers still get a few
// attempts from there.
func (t *Throttle) waitOfCharged(a Attempt, now time.Time) time.Duration {
	if a.Client != "" {
		return t.clients.wait(a.Client, 1, now)
	}
	wait := waitOfSource(t.sources, a.Source, now)
	if a.Device != "" {
		wait = min(wait, waitOfSource(t.devices, a.Source, now))
	}
	return wait
}

// Verdict is the result of an attempt.
type Verdict int

const (
	Unchecked Verdict = iota // the server was busy
	Abandoned                // the caller left before it was checked
	Right
	Wrong
)

// End counts the attempt. An abandoned one is charged to its source. Otherwise requests
// that are cancelled again and again could take up all of a user's attempts in progress, at
// no cost.
func (y *Try) End(v Verdict) {
	t := y.t
	if t.Off {
		return
	}
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if !y.isOwn {
		if t.pending[y.bucket]--; t.pending[y.bucket] == 0 {
			delete(t.pending, y.bucket)
		}
	}
	switch v {
	case Unchecked:
		if y.isOwn {
			t.own.giveBack(y.user, now)
		}
	case Abandoned:
		if y.a.Client == "" {
			t.chargeSource(y.a.Source, now)
		}
	case Right:
		t.users.Remove(y.bucket)
	case Wrong:
		t.failed(y, now)
	}
}

// failed counts a wrong password. Known browsers are charged as their source is:
// cookies give a source a few extra attempts once, and not one failure a minute more.
func (t *Throttle) failed(y *Try, now time.Time) {
	if !y.isOwn {
		g, ok := t.users.Get(y.bucket)
		if !ok {
			g = &guesses{}
			t.users.Add(y.bucket, g)
		}
		g.failures, g.last = g.failures+1, now
	}
	t.own.failed(y.user, y.a.Source, now)
	if y.a.Client != "" {
		t.clients.charge(y.a.Client, 1, now)
		return
	}
	t.chargeSource(y.a.Source, now)
	if y.a.Device != "" {
		chargeSource(t.devices, y.a.Source, now)
	}
}

// Failed counts a failure of the source at something that nobody can guess, such as the
// secret of a client, and returns how long it must wait. Whoever has it never waits.
func (t *Throttle) Failed(source netip.Addr) (wait time.Duration) {
	if t.Off {
		return 0
	}
	if !source.IsValid() {
		source = netip.IPv6Unspecified() // all callers without an address are one
	}
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if wait = waitOfSource(t.sources, source, now); wait == 0 {
		t.chargeSource(source, now)
	}
	return wait
}

// BeginSecret admits a check of a client's secret that costs as much as one of a password, and
// returns who is charged for it, or how long to wait. Unlike others such a check waits until its
// source and its client have failures left. So guesses at imported secrets, which name a public
// client id, cannot take up the processors.
func (t *Throttle) BeginSecret(client string, source netip.Addr) (c secret.Caller, wait time.Duration) {
	a := Attempt{Source: source}
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	c = a.caller(secret.HashOf(secretOf(client)), func(n Network) int { return t.own.failures(n, now) })
	if t.Off {
		return c, 0
	}
	return c, max(waitOfSource(t.sources, source, now), t.clients.wait(secretOf(client), 1, now))
}

// FailedSecret charges a client whose secret [Throttle.BeginSecret] let be checked, and which was
// wrong. [Throttle.Failed] charges the source.
func (t *Throttle) FailedSecret(client string, source netip.Addr) {
	if t.Off {
		return
	}
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clients.charge(secretOf(client), 1, now)
	t.own.failed(secret.HashOf(secretOf(client)), source, now)
}

// secretOf is the bucket of guesses at a client's secret. No client has such an id, so that they do
// not keep its users from signing in.
func secretOf(client string) string { return "secret " + client }

func (t *Throttle) chargeSource(source netip.Addr, now time.Time) {
	chargeSource(t.sources, source, now)
	t.own.failed(anyName, source, now)
}

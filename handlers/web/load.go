package web

import (
	"container/list"
	"context"
	"errors"
	"iter"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"tollhouse/handlers/throttle"
)

// The memory of requests in flight is bounded: docs/internals/decisions.md, "Memory under
// attack". The first bytes of a body and of a response belong to the cost of their
// connection. The rest is charged to a budget, which is part of --memory, until the
// request is over. When a budget is used up, the request that has waited longest for
// its peer while holding some of it is cut off.

// Budget is a limited resource of requests.
type budget int

const (
	streamBudget        budget = iota // requests over HTTP/2, by source
	strangersBodyBudget               // bytes of bodies without a valid access token, by source
	bodyBudget                        // bytes of bodies with one, by account
	AnswerBudget                      // bytes of API responses, by account
	budgetCount
)

const (
	memoryDefault = 256 << 20 // bytes, the default of --memory
	streamCost    = 128 << 10 // bytes for a request over HTTP/2
	bodyPart      = 32        // share of memory for each of the two kinds of bodies: 1/32
	answerPart    = 8
	accountPart   = 4 // share of a budget for one account: 1/4; of a source see throttle.Network

	bodySizeFree   = 4 << 10  // free bytes of a body; a token request is under 2 KiB
	AnswerSizeFree = 16 << 10 // free bytes of a response
	envelopeSize   = 256      // at least what a page has around its rows

	budgetWaitMax = time.Second // for room in a budget
	budgetWaiters = 64          // requests that may wait for it at the same time

	// How long a request must have waited for its peer before it is cut off for want
	// of memory. HTTP/2 streams are cut off immediately, so that another request always
	// fits.
	bodyStallMin   = time.Second
	answerStallMin = 5 * time.Second // enough for a page over a slow line
)

// load is what all requests in flight hold. It is safe for concurrent use.
type load struct {
	mu      sync.Mutex
	pools   [budgetCount]pool
	stalled list.List // of *Lease that hold something and wait for their peer, the longest wait first
}

type pool struct {
	size     int64
	stallMin time.Duration
	used     int64
	owners   map[owner]int64
	waiting  int
	freed    chan struct{} // closed and replaced when something is released
}

// owner is charged: a network, or whoever has the access token.
type owner struct {
	network netip.Prefix
	holder
}

// holder of an access token is an account, or a platform client: what it does for an account
// must not use up the account's share.
type holder struct{ account, client string }

func newLoad(memory int64) *load {
	if memory == 0 {
		memory = memoryDefault
	}
	l := &load{}
	for b, size := range [budgetCount]int64{memory / streamCost, memory / bodyPart, memory / bodyPart,
		memory / answerPart} {
		l.pools[b] = pool{size: size, owners: map[owner]int64{}, freed: make(chan struct{})}
	}
	l.pools[strangersBodyBudget].stallMin, l.pools[bodyBudget].stallMin = bodyStallMin, bodyStallMin
	l.pools[AnswerBudget].stallMin = answerStallMin
	return l
}

// Lease is what one request holds, and whether it waits for its peer. Only the
// goroutine that serves the request may call its methods.
type Lease struct {
	load       *load // nil on the admin socket, which is unbounded
	connection Connection
	source     netip.Addr
	holder     holder
	unshared   bool // the source stands for many callers
	held       [budgetCount]int64
	Refused    bool   // a page had to end early
	Reads      func() // ends the snapshot that the request reads from; nil without one

	peer    http.ResponseWriter // while the request waits for it, otherwise nil
	reading bool                // waits for the body, otherwise for the response to be taken
	listed  bool                // was in load.stalled since the wait began
	since   time.Time
	element *list.Element // in load.stalled
	gaveWay bool
}

// owners yields who is charged for a request, with how much of a budget's size each may
// hold.
func (d *Lease) owners(b budget, size int64) iter.Seq2[owner, int64] {
	return func(yield func(owner, int64) bool) {
		if b != streamBudget && b != strangersBodyBudget {
			yield(owner{holder: d.holder}, size/accountPart)
			return
		}
		for n := range throttle.Networks(d.source) {
			if !yield(owner{network: n.Prefix}, n.Part(size)) {
				return
			}
		}
	}
}

// Try charges the request n more of a budget if it fits.
func (d *Lease) Try(b budget, n int64) bool {
	if d.load == nil || n <= 0 {
		return true
	}
	d.load.mu.Lock()
	defer d.load.mu.Unlock()
	return d.load.take(d, b, n)
}

var errBudget = errors.New("the memory for requests in flight is used up")

// take is Try that waits up to budgetWaitMax. Errors: temporarily_unavailable.
func (d *Lease) take(ctx context.Context, b budget, n int64) error {
	if d.Try(b, n) {
		return nil
	}
	d.EndReads()
	late := time.NewTimer(budgetWaitMax)
	defer late.Stop()
	d.load.mu.Lock()
	defer d.load.mu.Unlock()
	p := &d.load.pools[b]
	for over := false; !over && !d.gaveWay && p.waiting < budgetWaiters; {
		freed := p.freed
		p.waiting++
		d.load.mu.Unlock()
		select {
		case <-freed:
		case <-late.C:
			over = true
		case <-ctx.Done():
			over = true
		}
		d.load.mu.Lock()
		p.waiting--
		if !d.gaveWay && d.load.take(d, b, n) {
			return nil
		}
	}
	return TemporarilyUnavailable(errBudget)
}

// Keep releases what the request holds of a budget beyond n.
func (d *Lease) Keep(b budget, n int64) {
	if d.load == nil {
		return
	}
	d.load.mu.Lock()
	defer d.load.mu.Unlock()
	d.load.give(d, b, max(d.held[b]-n, 0))
}

// Fits charges the request for a page of size bytes, and for as many again, so
// that few rows ask. A page beyond the free part ends early when there is no room for it.
func (d *Lease) Fits(size int) bool {
	held, need := d.held[AnswerBudget], int64(size+envelopeSize)
	room := max(held, AnswerSizeFree)
	if need <= room {
		return true
	}
	for room < need {
		room *= 2
	}
	d.Refused = !d.Try(AnswerBudget, room-held)
	return !d.Refused
}

// Settle charges the request for exactly this size of response. It may wait, as take
// does, for a single event larger than the free part.
func (d *Lease) Settle(ctx context.Context, size int) error {
	n := int64(size)
	if n <= AnswerSizeFree {
		n = 0
	}
	d.Keep(AnswerBudget, n)
	return d.take(ctx, AnswerBudget, n-d.held[AnswerBudget])
}

// EndReads ends the snapshot from which the request reads, before it waits for anything.
func (d *Lease) EndReads() {
	if d.Reads != nil {
		d.Reads()
		d.Reads = nil
	}
}

// End releases everything.
func (d *Lease) end() {
	if d.held == ([budgetCount]int64{}) {
		return
	}
	d.load.mu.Lock()
	defer d.load.mu.Unlock()
	d.load.drop(d)
}

// WaitFor begins to wait for the peer of w: for the body, or until the response is
// taken. The caller then calls resume.
func (d *Lease) waitFor(w http.ResponseWriter, reading bool) {
	d.EndReads()
	d.connection.Rest()
	d.peer, d.reading = w, reading
	if d.load == nil || d.held == ([budgetCount]int64{}) {
		return
	}
	d.load.mu.Lock()
	defer d.load.mu.Unlock()
	d.load.stall(d)
}

// resume ends the wait and reports whether the request was cut off while it waited.
func (d *Lease) resume() (gaveWay bool) {
	d.connection.Work()
	d.peer = nil
	if !d.listed {
		return false
	}
	d.load.mu.Lock()
	defer d.load.mu.Unlock()
	d.listed = false
	d.load.unstall(d)
	return d.gaveWay
}

// The rest of load requires mu.

// take charges a request if it fits, or after cutting off a stalled one.
func (l *load) take(d *Lease, b budget, n int64) bool {
	p := &l.pools[b]
	for o, share := range d.owners(b, p.size) {
		if !d.unshared && p.owners[o]+n > share {
			return false
		}
	}
	if n > p.size {
		return false
	}
	for p.used+n > p.size {
		if !l.giveWay(d, b) {
			return false
		}
	}
	p.used += n
	for o := range d.owners(b, p.size) {
		p.owners[o] += n
	}
	d.held[b] += n
	if d.peer != nil {
		l.unstall(d) // data has arrived, so the wait begins again
		l.stall(d)
	}
	return true
}

// giveWay cuts off the longest stalled request, other than d, that holds some of a
// budget.
func (l *load) giveWay(d *Lease, b budget) bool {
	for e := l.stalled.Front(); e != nil; e = e.Next() {
		other := e.Value.(*Lease)
		if other == d || other.held[b] == 0 {
			continue
		}
		if time.Since(other.since) < l.pools[b].stallMin {
			return false
		}
		other.gaveWay = true
		l.unstall(other)
		l.drop(other)
		other.cutOff()
		return true
	}
	return false
}

// cutOff ends a wait with a deadline in the past, which works over HTTP/1.1 and HTTP/2
// and overrides the connection's own deadlines.
func (d *Lease) cutOff() {
	c := http.NewResponseController(d.peer)
	if d.reading {
		_ = c.SetReadDeadline(longPast)
		return
	}
	_ = c.SetWriteDeadline(longPast)
}

// longPast is an expired deadline.
var longPast = time.Unix(1, 0)

func (l *load) stall(d *Lease) {
	d.listed, d.since = true, time.Now()
	d.element = l.stalled.PushBack(d)
}

func (l *load) unstall(d *Lease) {
	if d.element != nil {
		l.stalled.Remove(d.element)
		d.element = nil
	}
}

func (l *load) drop(d *Lease) {
	for b := range budgetCount {
		l.give(d, b, d.held[b])
	}
}

func (l *load) give(d *Lease, b budget, n int64) {
	if n == 0 {
		return
	}
	p := &l.pools[b]
	p.used -= n
	d.held[b] -= n
	for o := range d.owners(b, p.size) {
		if p.owners[o] -= n; p.owners[o] == 0 {
			delete(p.owners, o)
		}
	}
	if p.waiting > 0 {
		close(p.freed)
		p.freed = make(chan struct{})
	}
}

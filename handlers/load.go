package handlers

import (
	"container/list"
	"context"
	"errors"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// The memory of requests in flight is bounded: docs/decisions.md, "Memory under
// attack". The first bytes of a body and of a response belong to the cost of their
// connection. The rest is charged to a budget, which is part of --memory, until the
// request is over. When a budget is used up, the request that has waited longest for
// its peer while holding some of it is cut off.

// budget is a limited resource of requests.
type budget int

const (
	streamBudget        budget = iota // requests over HTTP/2, by source
	strangersBodyBudget               // bytes of bodies without a valid access token, by source
	bodyBudget                        // bytes of bodies with one, by account
	answerBudget                      // bytes of API responses, by account
	budgetCount
)

const (
	memoryDefault = 256 << 20 // bytes, the default of --memory
	streamCost    = 128 << 10 // bytes for a request over HTTP/2
	bodyPart      = 32        // share of memory for each of the two kinds of bodies: 1/32
	answerPart    = 8
	ownerPart     = 4 // share of a budget for one source or account: 1/4

	bodySizeFree   = 4 << 10  // free bytes of a body; a token request is under 2 KiB
	answerSizeFree = 16 << 10 // free bytes of a response
	envelopeSize   = 256      // at least what a page has around its rows

	budgetWaitMax = time.Second // for room in a budget
	budgetWaiters = 64          // requests that may wait for it at once

	// How long a request must have waited for its peer before it is cut off for want
	// of memory. HTTP/2 streams are cut off at once, so that another request always
	// fits.
	bodyStallMin   = time.Second
	answerStallMin = 5 * time.Second // enough for a page over a slow line
)

// load is what all requests in flight hold. It is safe for concurrent use.
type load struct {
	mu      sync.Mutex
	pools   [budgetCount]pool
	stalled list.List // of *demand that hold something and wait for their peer, the longest wait first
}

type pool struct {
	size, share int64 // in total, and for one owner
	stallMin    time.Duration
	used        int64
	owners      map[owner]int64
	waiting     int
	freed       chan struct{} // closed and replaced when something is released
}

// owner is charged: a source or an account.
type owner struct {
	source  netip.Prefix
	account string
}

func newLoad(memory int64) *load {
	if memory == 0 {
		memory = memoryDefault
	}
	l := &load{}
	for b, size := range [budgetCount]int64{memory / streamCost, memory / bodyPart, memory / bodyPart, memory / answerPart} {
		l.pools[b] = pool{size: size, share: size / ownerPart, owners: map[owner]int64{}, freed: make(chan struct{})}
	}
	l.pools[strangersBodyBudget].stallMin, l.pools[bodyBudget].stallMin = bodyStallMin, bodyStallMin
	l.pools[answerBudget].stallMin = answerStallMin
	return l
}

// demand is what one request holds, and whether it waits for its peer. Only the
// goroutine that serves the request may call its methods.
type demand struct {
	load       *load // nil on the admin socket, which is unbounded
	connection Connection
	source     netip.Prefix
	account    string
	unshared   bool // the source stands for many callers
	held       [budgetCount]int64
	refused    bool // a page had to end early

	peer    http.ResponseWriter // while the request waits for it, otherwise nil
	reading bool                // waits for the body, otherwise for the response to be taken
	listed  bool                // was in load.stalled since the wait began
	since   time.Time
	element *list.Element // in load.stalled
	gaveWay bool
}

func (d *demand) owner(b budget) owner {
	if b == streamBudget || b == strangersBodyBudget {
		return owner{source: d.source}
	}
	return owner{account: d.account}
}

// try charges the request n more of a budget if it fits.
func (d *demand) try(b budget, n int64) bool {
	if d.load == nil || n <= 0 {
		return true
	}
	d.load.mu.Lock()
	defer d.load.mu.Unlock()
	return d.load.take(d, b, n)
}

var errBudget = errors.New("the memory for requests in flight is used up")

// take is try that waits up to budgetWaitMax. Errors: temporarily_unavailable.
func (d *demand) take(ctx context.Context, b budget, n int64) error {
	if d.try(b, n) {
		return nil
	}
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
	return temporarilyUnavailable(errBudget)
}

// keep releases what the request holds of a budget beyond n.
func (d *demand) keep(b budget, n int64) {
	if d.load == nil {
		return
	}
	d.load.mu.Lock()
	defer d.load.mu.Unlock()
	d.load.give(d, b, max(d.held[b]-n, 0))
}

// fits charges the request for a page of size bytes, and for up to as many again, so
// that few rows ask. A page beyond the free part ends early when there is no room for it.
func (d *demand) fits(size int) bool {
	held, need := d.held[answerBudget], int64(size+envelopeSize)
	room := max(held, answerSizeFree)
	if need <= room {
		return true
	}
	for room < need {
		room *= 2
	}
	d.refused = !d.try(answerBudget, room-held)
	return !d.refused
}

// settle charges the request for exactly this size of response. It may wait, as take
// does, for a single event larger than the free part.
func (d *demand) settle(ctx context.Context, size int) error {
	n := int64(size)
	if n <= answerSizeFree {
		n = 0
	}
	d.keep(answerBudget, n)
	return d.take(ctx, answerBudget, n-d.held[answerBudget])
}

// end releases everything.
func (d *demand) end() {
	if d.held == ([budgetCount]int64{}) {
		return
	}
	d.load.mu.Lock()
	defer d.load.mu.Unlock()
	d.load.drop(d)
}

// waitFor begins to wait for the peer of w: for the body, or until the response is
// taken. The caller then calls goOn.
func (d *demand) waitFor(w http.ResponseWriter, reading bool) {
	d.connection.Rest()
	d.peer, d.reading = w, reading
	if d.load == nil || d.held == ([budgetCount]int64{}) {
		return
	}
	d.load.mu.Lock()
	defer d.load.mu.Unlock()
	d.load.stall(d)
}

// goOn ends the wait and reports whether the request was cut off meanwhile.
func (d *demand) goOn() (gaveWay bool) {
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
func (l *load) take(d *demand, b budget, n int64) bool {
	p, o := &l.pools[b], d.owner(b)
	if !d.unshared && p.owners[o]+n > p.share || n > p.size {
		return false
	}
	for p.used+n > p.size {
		if !l.giveWay(d, b) {
			return false
		}
	}
	p.used += n
	p.owners[o] += n
	d.held[b] += n
	if d.peer != nil {
		l.unstall(d) // data has arrived, so the wait begins again
		l.stall(d)
	}
	return true
}

// giveWay cuts off the longest stalled request, other than d, that holds some of a
// budget.
func (l *load) giveWay(d *demand, b budget) bool {
	for e := l.stalled.Front(); e != nil; e = e.Next() {
		other := e.Value.(*demand)
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
func (d *demand) cutOff() {
	c := http.NewResponseController(d.peer)
	if d.reading {
		_ = c.SetReadDeadline(longPast)
		return
	}
	_ = c.SetWriteDeadline(longPast)
}

// longPast is an expired deadline.
var longPast = time.Unix(1, 0)

func (l *load) stall(d *demand) {
	d.listed, d.since = true, time.Now()
	d.element = l.stalled.PushBack(d)
}

func (l *load) unstall(d *demand) {
	if d.element != nil {
		l.stalled.Remove(d.element)
		d.element = nil
	}
}

func (l *load) drop(d *demand) {
	for b := range budgetCount {
		l.give(d, b, d.held[b])
	}
}

func (l *load) give(d *demand, b budget, n int64) {
	if n == 0 {
		return
	}
	p, o := &l.pools[b], d.owner(b)
	p.used -= n
	d.held[b] -= n
	if p.owners[o] -= n; p.owners[o] == 0 {
		delete(p.owners, o)
	}
	if p.waiting > 0 {
		close(p.freed)
		p.freed = make(chan struct{})
	}
}

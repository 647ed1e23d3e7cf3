package secret

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// Caller is charged for hashing a password. The zero Caller is the operator.
type Caller struct {
	User   Hash   // of the username, known or not
	Source string // the address or the client that sent the password
}

// turns shares the processors fairly among callers that hash a password. It works in
// rounds: in each round a user and a source get one turn, whether the password is
// right or wrong. A user with many connections, or a source with many usernames, must
// therefore let others go first, and gets every turn only while no others wait.
type turns struct {
	mu      sync.Mutex
	free    int
	round   uint64    // the round that a new user or source joins
	waiting []*waiter // in order of arrival, at most hashQueueMax
	users   map[Hash]*share
	sources map[string]*share
}

// share is the state of a user or source while it waits or hashes.
type share struct {
	next    uint64 // the round of its next turn
	present int    // how many of its callers wait or hash
	waiting int    // how many of them wait
}

// waiter is a caller that waits for a turn or has it.
type waiter struct {
	caller       Caller
	user, source *share
	admitted     chan bool // receives true for a turn, false for a refusal
}

func newTurns(processors int) *turns {
	return &turns{free: processors, users: make(map[Hash]*share), sources: make(map[string]*share)}
}

// take waits for a turn and returns the function that ends it. Errors: ErrBusy and
// ctx's.
func (t *turns) take(ctx context.Context, c Caller) (done func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := t.enter(c)
	wait := time.NewTimer(hashWaitMax)
	defer wait.Stop()
	admitted := false
	select {
	case admitted = <-w.admitted:
	case <-wait.C:
		admitted = t.decided(w)
	case <-ctx.Done():
		if t.decided(w) {
			t.leave(w)
		}
		return nil, ctx.Err()
	}
	if !admitted {
		return nil, ErrBusy
	}
	return func() { t.leave(w) }, nil
}

// enter gives the caller a turn if one is free, or else queues it. When the queue is
// full, the user or source with the most waiters loses its newest.
func (t *turns) enter(c Caller) *waiter {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := &waiter{caller: c, user: joined(t.users, c.User, t.round), source: joined(t.sources, c.Source, t.round), admitted: make(chan bool, 1)}
	if t.free > 0 {
		t.admit(w)
		return w
	}
	t.waiting = append(t.waiting, w)
	w.user.waiting++
	w.source.waiting++
	if len(t.waiting) > hashQueueMax {
		t.refuse(t.greediest())
	}
	return w
}

func joined[K comparable](shares map[K]*share, key K, round uint64) *share {
	s, ok := shares[key]
	if !ok {
		s = &share{next: round}
		shares[key] = s
	}
	s.present++
	return s
}

// leave ends a turn and starts the next waiter's.
func (t *turns) leave(w *waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free++
	t.forget(w)
	if len(t.waiting) > 0 {
		next := slices.MinFunc(t.waiting, byRound)
		t.unqueue(next)
		t.admit(next)
	}
}

// decided stops the wait of w, and reports whether it already got its turn.
func (t *turns) decided(w *waiter) (admitted bool) {
	t.mu.Lock()
	if slices.Contains(t.waiting, w) {
		t.refuse(w)
	}
	t.mu.Unlock()
	return <-w.admitted
}

func (t *turns) admit(w *waiter) {
	t.free--
	next := w.round() + 1
	w.user.next, w.source.next, t.round = next, next, max(t.round, next)
	w.admitted <- true
}

func (t *turns) refuse(w *waiter) {
	t.unqueue(w)
	t.forget(w)
	w.admitted <- false
}

func (t *turns) unqueue(w *waiter) {
	at := slices.Index(t.waiting, w)
	t.waiting = slices.Delete(t.waiting, at, at+1)
	w.user.waiting--
	w.source.waiting--
}

func (t *turns) forget(w *waiter) {
	if w.user.present--; w.user.present == 0 {
		delete(t.users, w.caller.User)
	}
	if w.source.present--; w.source.present == 0 {
		delete(t.sources, w.caller.Source)
	}
}

// round is the first in which both the user and the source have a turn.
func (w *waiter) round() uint64 { return max(w.user.next, w.source.next) }

// byRound orders waiters by round. Within a round, the users of a source and the
// sources of a user come in the order of their last turns.
func byRound(a, b *waiter) int {
	return cmp.Or(cmp.Compare(a.round(), b.round()), cmp.Compare(a.user.next+a.source.next, b.user.next+b.source.next))
}

// greediest returns the waiter to refuse: the newest of the user or source with the
// most waiters, with ties broken by the other of the two.
func (t *turns) greediest() (most *waiter) {
	for _, w := range t.waiting {
		if most == nil || byWaiters(w, most) >= 0 {
			most = w
		}
	}
	return most
}

func byWaiters(a, b *waiter) int {
	return cmp.Or(cmp.Compare(a.waiters(), b.waiters()), cmp.Compare(a.user.waiting+a.source.waiting, b.user.waiting+b.source.waiting))
}

func (w *waiter) waiters() int { return max(w.user.waiting, w.source.waiting) }

// length returns how many callers wait.
func (t *turns) length() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.waiting)
}

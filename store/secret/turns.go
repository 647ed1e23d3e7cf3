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
	// Stranger is a caller who has proved nothing. Others have a known browser, a session,
	// a client's secret or a one-time code.
	Stranger bool
	// Shares are what the caller belongs to, such as a user and a source, at most six. Each
	// has turns of its own.
	Shares []Share
}

// Share is what callers belong to that get their turns together.
type Share struct {
	Key   string
	Turns int // in a round; 0 is 1
	Pass  int // rounds that it lets pass before each turn, because of its failures
}

const (
	// roundSize can be divided by the turns of every share.
	roundSize = 32
	// provedTurns may be given in a row while strangers wait. So callers who proved something get
	// three quarters of the processors' time, and strangers at least a quarter.
	provedTurns = 3
	sharesMax   = 6 // of a caller
)

// turns shares the processors among callers that hash a password. Strangers wait in a line
// of their own, so that however many there are, others wait for one hash of theirs at most.
type turns struct {
	mu                sync.Mutex
	free              int  // processors
	large             bool // one of those that take much memory has a turn
	proved, strangers line
	inRow             int // turns of proved callers in a row while strangers waited
}

// line is a queue that works in rounds: in each round every share gets its turns, whether
// the password is right or wrong. A user with many connections, or a source with many
// usernames, must therefore let others go first, and gets every turn only while no others
// wait.
type line struct {
	round   uint64    // that a new share joins
	waiting []*waiter // in order of arrival, at most hashQueueMax
	shares  map[string]*share
}

// share is the state of a [Share] while callers of it wait or hash.
type share struct {
	key     string
	cost    uint64 // of a turn, as part of roundSize
	pass    uint64 // what it lets pass before a turn
	next    uint64 // the round of its next turn, times roundSize
	present int    // how many of its callers wait or hash
	waiting uint64 // how many of them wait
}

// waiter is a caller that waits for a turn or has it.
type waiter struct {
	line     *line
	isLarge  bool // takes much memory: one such has a turn at a time
	shares   []*share
	admitted chan bool // receives true for a turn, false for a refusal
}

func newTurns(processors int) *turns {
	return &turns{free: processors, proved: line{shares: map[string]*share{}}, strangers: line{shares: map[string]*share{}}}
}

// take waits for a turn and returns the function that ends it. Of those that take much memory one
// has a turn at a time. Errors: ErrBusy and ctx's.
func (t *turns) take(ctx context.Context, c Caller, isLarge bool) (done func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := t.enter(c, isLarge)
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
// full, the share with the most waiters loses its newest.
func (t *turns) enter(c Caller, isLarge bool) *waiter {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := &t.proved
	if c.Stranger {
		l = &t.strangers
	}
	w := l.join(c.Shares)
	w.isLarge = isLarge
	if t.free > 0 && t.mayStart(w) {
		t.admit(w)
		return w
	}
	l.waiting = append(l.waiting, w)
	for _, s := range w.shares {
		s.waiting++
	}
	if len(l.waiting) > hashQueueMax {
		l.refuse(l.greediest())
	}
	return w
}

func (l *line) join(shares []Share) *waiter {
	w := &waiter{line: l, admitted: make(chan bool, 1)}
	if len(shares) == 0 {
		shares = []Share{{Key: "operator"}}
	}
	for _, of := range shares {
		s, ok := l.shares[of.Key]
		if !ok {
			s = &share{key: of.Key, next: l.round + roundSize*uint64(of.Pass)}
			l.shares[of.Key] = s
		}
		s.cost, s.pass = roundSize/uint64(max(of.Turns, 1)), roundSize*uint64(of.Pass)
		s.present++
		w.shares = append(w.shares, s)
	}
	return w
}

// leave ends a turn and starts the next waiter's.
func (t *turns) leave(w *waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free++
	if w.isLarge {
		t.large = false
	}
	w.forget()
	for t.free > 0 { // a large one may have left a processor idle
		next := t.next()
		if next == nil {
			return
		}
		next.unqueue()
		t.admit(next)
	}
}

// mayStart reports whether the memory for w is free.
func (t *turns) mayStart(w *waiter) bool { return !w.isLarge || !t.large }

// next returns whose turn it is, or nil.
func (t *turns) next() *waiter {
	proved, stranger := t.firstOf(&t.proved), t.firstOf(&t.strangers)
	if proved != nil && (stranger == nil || t.inRow < provedTurns) {
		if stranger != nil {
			t.inRow++
		}
		return proved
	}
	t.inRow = 0
	return stranger
}

// firstOf returns whose turn it is in a line, or nil.
func (t *turns) firstOf(l *line) (next *waiter) {
	for _, w := range l.waiting {
		if t.mayStart(w) && (next == nil || byRound(w, next) < 0) {
			next = w
		}
	}
	return next
}

// decided stops the wait of w, and reports whether it already got its turn.
func (t *turns) decided(w *waiter) (admitted bool) {
	t.mu.Lock()
	if slices.Contains(w.line.waiting, w) {
		w.line.refuse(w)
	}
	t.mu.Unlock()
	return <-w.admitted
}

func (t *turns) admit(w *waiter) {
	t.free--
	t.large = t.large || w.isLarge
	round := w.round()
	for _, s := range w.shares {
		s.next = round + s.cost + s.pass
	}
	w.line.round = max(w.line.round, round+roundSize)
	w.admitted <- true
}

func (l *line) refuse(w *waiter) {
	w.unqueue()
	w.forget()
	w.admitted <- false
}

func (w *waiter) unqueue() {
	at := slices.Index(w.line.waiting, w)
	w.line.waiting = slices.Delete(w.line.waiting, at, at+1)
	for _, s := range w.shares {
		s.waiting--
	}
}

func (w *waiter) forget() {
	for _, s := range w.shares {
		if s.present--; s.present == 0 {
			delete(w.line.shares, s.key)
		}
	}
}

// round is the first in which all shares have a turn, times roundSize.
func (w *waiter) round() uint64 { return ranked(w, nextOf)[0] }

func nextOf(s *share) uint64 { return s.next }

// crowdOf returns how many wait in a share, for one turn in a round.
func crowdOf(s *share) uint64 { return s.waiting * s.cost }

// byRound orders waiters by round. Within a round, those whose other shares had
// their turns longer ago come first.
func byRound(a, b *waiter) int { return compare(a, b, nextOf) }

// compare compares the greatest values of the shares, then the next ones, as many as both
// have.
func compare(a, b *waiter, of func(*share) uint64) int {
	x, y, both := ranked(a, of), ranked(b, of), min(len(a.shares), len(b.shares))
	return slices.Compare(x[:both], y[:both])
}

// ranked returns the values of the shares, the greatest first.
func ranked(w *waiter, of func(*share) uint64) (values [sharesMax]uint64) {
	for i, s := range w.shares {
		value := of(s)
		for ; i > 0 && values[i-1] < value; i-- {
			values[i] = values[i-1]
		}
		values[i] = value
	}
	return values
}

// greediest returns the waiter to refuse: the one whose shares have the most waiters, then
// the one whose turn comes last, then the newest.
func (l *line) greediest() (most *waiter) {
	for _, w := range l.waiting {
		if most == nil || cmp.Or(compare(w, most, crowdOf), byRound(w, most)) >= 0 {
			most = w
		}
	}
	return most
}

// length returns how many callers wait.
func (t *turns) length() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.proved.waiting) + len(t.strangers.waiting)
}

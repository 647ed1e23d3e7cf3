package eventlog

import (
	"context"
	"errors"
	"sync"
	"time"

	"tollhouse/store/kv"
)

const (
	settleMax = time.Second // that a list waits
	// settleFor is how long after its end a window may still be waiting for a commit. On
	// PostgreSQL a commit takes at most five seconds, or has an unknown outcome.
	settleFor = time.Minute
	// clocksApart is how far the clocks of servers on one database may differ.
	clocksApart = 250 * time.Millisecond
	settleAgain = 10 * time.Millisecond // after a refusal
)

// Settle waits, at most a second, until no commit is in flight that may add an event of
// the second to, in seconds since 1970, or an earlier one. It waits only if that second
// has just ended. Imports are not covered: they bring history.
//
// An event takes its time in the committer's turn, which an empty update waits for: every
// turn before it is then committed, and every later one takes a later time. On an engine
// that several servers share the turn is that of all of them, but their clocks may differ,
// so Settle first lets a little time pass.
func (l *Log) Settle(ctx context.Context, to int64) {
	now, ended := l.now(), time.Unix(to+1, 0)
	if now.Before(ended) || now.Sub(ended) > settleFor {
		return
	}
	kv.SharedOf(ctx).End() // what is read next must see those commits
	ctx, stop := context.WithTimeout(ctx, settleMax)
	defer stop()
	if l.others.engine != nil {
		pause(ctx, ended.Add(clocksApart).Sub(now))
	}
	select {
	case <-l.turns.next(l.db):
	case <-ctx.Done():
	}
}

// turns are the empty updates that readers wait for: one at a time, shared by all who
// arrived before it, so that readers cannot fill the committer's queue.
type turns struct {
	mu     sync.Mutex
	taking bool
	wanted chan struct{} // closed after the next turn; nil if nobody waits for it
}

// next returns a channel that is closed after a turn that begins after the call, or when
// no turn was possible for settleMax.
func (t *turns) next(db kv.DB) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.wanted == nil {
		t.wanted = make(chan struct{})
	}
	if !t.taking {
		t.taking = true
		go t.take(db)
	}
	return t.wanted
}

func (t *turns) take(db kv.DB) {
	for {
		t.mu.Lock()
		turn := t.wanted
		t.wanted, t.taking = nil, turn != nil
		t.mu.Unlock()
		if turn == nil {
			return
		}
		takeTurn(db)
		close(turn)
	}
}

func takeTurn(db kv.DB) {
	ctx, stop := context.WithTimeout(context.Background(), settleMax)
	defer stop()
	for ctx.Err() == nil {
		err := db.Update(ctx, func(kv.Txn) error { return nil })
		if !errors.Is(err, kv.ErrUnavailable) {
			return
		}
		pause(ctx, settleAgain)
	}
}

// pause returns after d, or when ctx is done.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

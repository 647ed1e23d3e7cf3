package kv

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// A queue stands when for standingFor each group left its updates waiting for longer than
	// waitMax, or than two commits. A burst does not stand so long.
	waitMax     = 15 * time.Millisecond
	standingFor = 500 * time.Millisecond
	// inFlightMin updates may always be in flight.
	inFlightMin = 256
	// calmFor after the last refusal any number may be in flight again.
	calmFor = 5 * time.Second
	// QueueKept is how many places in an engine's queue updates that yield may not take.
	QueueKept = 128
)

// Yielding returns a context for updates that are refused when only QueueKept places in the engine's
// queue are free, such as those of programs, which retry.
func Yielding(ctx context.Context) context.Context {
	return context.WithValue(ctx, yieldingKey, true)
}

// Yields reports whether the updates of ctx leave the last places to others.
func Yields(ctx context.Context) bool {
	yields, _ := ctx.Value(yieldingKey).(bool)
	return yields
}

// Admission says when changes that come should be refused, because those in flight add to the
// time of every answer and to nothing else. As in CoDel (RFC 8289) the time for which a queue has
// been standing decides, and not its length. The zero value admits everything.
type Admission struct {
	taken atomic.Int64 // updates of the present group
	limit atomic.Int64 // of those in flight; 0 is none
	// The first and the last of the latest refusals that came without a pause, in nanoseconds of
	// Unix. While the queue stands, the end of each group counts as one.
	first, last atomic.Int64

	// The rest belongs to the committer.
	begun, ended time.Time // the present group, and the one before it
	standing     time.Time // since when updates have waited for too long; zero while they have not
}

// Begin notes that a committer begins with a group.
func (a *Admission) Begin(now time.Time) { a.begun = now }

// Take notes that n updates join the group.
func (a *Admission) Take(n int) { a.taken.Add(int64(n)) }

// End notes that the group has ended, how long its commit alone took, and how many updates wait
// behind it.
func (a *Admission) End(now time.Time, commit time.Duration, waiting int) {
	served := max(a.taken.Swap(0), 1)
	all := served + int64(waiting)
	lasted := now.Sub(a.begun)
	target := max(waitMax, 2*commit)
	wasEmpty := a.begun.Sub(a.ended) > waitMax
	a.ended = now
	switch {
	case wasEmpty || all <= inFlightMin || int64(lasted)*all/served <= int64(target):
		a.standing = time.Time{}
	case a.standing.IsZero():
		a.standing = now
	case now.Sub(a.standing) >= standingFor: // as many as are served within target
		a.note(now)
		a.limit.Store(max(inFlightMin, served*int64(target)/int64(max(lasted, 1))))
	}
}

// Fail notes that the group has failed, which says nothing of a crowd.
func (a *Admission) Fail() {
	a.taken.Store(0)
	a.standing = time.Time{}
}

// Crowded reports whether a change that comes now should be refused, while so many wait behind
// the present group.
func (a *Admission) Crowded(now time.Time, waiting int) bool {
	limit := a.limit.Load()
	if limit == 0 || a.taken.Load()+int64(waiting) < limit {
		return false
	}
	if a.isCalm(now) {
		a.limit.Store(0)
		return false
	}
	a.note(now)
	return true
}

func (a *Admission) note(now time.Time) {
	at := now.UnixNano()
	if at-a.last.Swap(at) > int64(standingFor) {
		a.first.Store(at)
	}
}

// isCalm reports whether nothing was refused for calmFor, or since refusals that did not last: a
// burst that is served in less than standingFor is no crowd, even soon after one.
func (a *Admission) isCalm(now time.Time) bool {
	last := a.last.Load()
	rest := now.UnixNano() - last
	return rest > int64(calmFor) || rest > int64(standingFor) && last-a.first.Load() < int64(standingFor)
}

// Crowder is an engine that tells when updates wait for too long.
type Crowder interface {
	// Crowded reports whether a change that comes now should be refused ([Admission]).
	Crowded() bool
}

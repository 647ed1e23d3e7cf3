package pgkv

import (
	"context"
	"time"
)

// Clock is the database's clock, seen from this machine.
type Clock struct {
	Offset    time.Duration // of this machine's clock: positive when it is ahead
	Now       time.Time     // of the database
	LastWrite time.Time     // the last commit of any server, by the database's clock; zero before the first
}

// clockSamples are taken of which the quickest counts: its answer had the least time to
// become stale.
const clockSamples = 5

// Clock compares the machine's clock with the database's.
func (s *Session) Clock(ctx context.Context) (c Clock, err error) {
	least := time.Duration(-1)
	for range clockSamples {
		begun := time.Now()
		now, err := one[time.Time](ctx, s, "select clock_timestamp()")
		if err != nil {
			return Clock{}, err
		}
		if took := time.Since(begun); least < 0 || took < least {
			least = took
			c.Now, c.Offset = now, begun.Add(took/2).Sub(now)
		}
	}
	return c, nil
}

// lastWrite returns when any server committed last, or the zero time.
func (s *Session) lastWrite(ctx context.Context) (time.Time, error) {
	last, err := one[*time.Time](ctx, s, "select max(at) from mark")
	if last == nil {
		return time.Time{}, err
	}
	return *last, err
}

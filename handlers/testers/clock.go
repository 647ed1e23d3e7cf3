// Package testers holds what `tollhouse dev` gives to people who test against it: the
// instance's [Clock], the [Faults] that it injects into answers, and the [Journal] of
// the requests that it got. Every object belongs to one instance, so a reset makes new
// ones instead of clearing them. The package speaks no HTTP; handlers serves it below
// /_dev.
package testers

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"tollhouse/store/eventlog"
)

// clockReserve is the time that a clock set as late as possible can still run:
// filters and cursors cannot name events after [eventlog.CreatedAtMax].
const clockReserve = 366 * 24 * time.Hour

// ClockMax is the latest time that a clock can be set to.
var ClockMax = time.Unix(eventlog.CreatedAtMax, 0).Add(-clockReserve).UTC()

var (
	// ErrBackwards refuses a time before the one that the clock shows.
	ErrBackwards = errors.New("the clock goes forward only")
	// ErrTooLate refuses a time after [ClockMax].
	ErrTooLate = errors.New("the time is too late")
)

// ClockState is what a clock shows and does.
type ClockState struct {
	Own     bool      // the machine's own clock, never moved or stopped
	Shows   time.Time // in whole milliseconds, UTC
	Running bool
}

// Clock is the time of an instance. It goes forward only and is safe for concurrent
// use.
type Clock struct {
	moving sync.Mutex
	face   atomic.Pointer[face]
}

// face is how a clock finds its time: start, plus the machine's time since then if it
// runs. The machine's own clock has no start.
type face struct {
	start   time.Time
	since   time.Time
	running bool
}

func (f *face) now() time.Time {
	switch {
	case f.start.IsZero():
		return time.Now().UTC()
	case f.running:
		return f.start.Add(time.Since(f.since))
	}
	return f.start
}

// NewClock returns a clock in the given state.
func NewClock(s ClockState) *Clock {
	c := &Clock{}
	if s.Own {
		c.face.Store(&face{running: true})
		return c
	}
	c.show(s.Shows, s.Running)
	return c
}

func (c *Clock) show(t time.Time, running bool) {
	c.face.Store(&face{start: t.UTC().Truncate(time.Millisecond), since: time.Now(), running: running})
}

// Now returns the time.
func (c *Clock) Now() time.Time { return c.face.Load().now() }

// State returns what the clock shows and does.
func (c *Clock) State() ClockState {
	f := c.face.Load()
	return ClockState{Own: f.start.IsZero(), Shows: f.now().Truncate(time.Millisecond), Running: f.running}
}

// IsOwn reports whether the clock is the machine's own, never moved or stopped.
func (c *Clock) IsOwn() bool { return c.face.Load().start.IsZero() }

// IsRunning reports whether the clock runs.
func (c *Clock) IsRunning() bool { return c.face.Load().running }

// After returns the clock of an instance that goes back to the state begun. The
// machine's own clock goes on; any other shows and does again what begun says.
func (c *Clock) After(begun ClockState) *Clock {
	begun.Own = begun.Own && c.IsOwn()
	return NewClock(begun)
}

// Move is a change of a clock: at most one of Advance and Set, and Running.
type Move struct {
	Advance time.Duration
	Set     time.Time // zero for none
	Running *bool     // nil: as before
}

// Move changes the clock at once or not at all, and returns its new state. Errors:
// ErrBackwards, ErrTooLate.
func (c *Clock) Move(m Move) (ClockState, error) {
	c.moving.Lock()
	defer c.moving.Unlock()
	before := c.State()
	to, running := before.Shows.Add(m.Advance), before.Running
	if !m.Set.IsZero() {
		to = m.Set.Truncate(time.Millisecond)
	}
	if m.Running != nil {
		running = *m.Running
	}
	switch {
	case to.Before(before.Shows):
		return before, ErrBackwards
	case to.After(ClockMax) && to.After(before.Shows):
		return before, ErrTooLate
	case to.Equal(before.Shows) && running == before.Running:
		return before, nil
	}
	c.show(to, running)
	return c.State(), nil
}

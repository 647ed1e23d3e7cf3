package dev_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tollhouse/handlers/dev"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func yes() *bool { b := true; return &b }
func no() *bool  { b := false; return &b }

func TestClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		wait := func() { time.Sleep(time.Minute) } // of synctest's time
		own := dev.NewClock(dev.ClockState{Own: true})
		if wait(); !own.Now().Equal(time.Now()) || !own.IsOwn() || !own.IsRunning() {
			t.Errorf("the machine's own clock shows %v, want %v", own.Now(), time.Now())
		}
		stands := dev.NewClock(dev.ClockState{Shows: noon})
		if wait(); !stands.Now().Equal(noon) {
			t.Errorf("a standing clock shows %v after a minute, want %v", stands.Now(), noon)
		}
		runs := dev.NewClock(dev.ClockState{Shows: noon, Running: true})
		if wait(); !runs.Now().Equal(noon.Add(time.Minute)) {
			t.Errorf("a running clock shows %v after a minute", runs.Now())
		}
		_, _ = runs.Move(dev.Move{Advance: time.Hour, Running: no()})
		if wait(); !runs.Now().Equal(noon.Add(61 * time.Minute)) {
			t.Errorf("a stopped clock shows %v, want 13:01", runs.Now())
		}
		_, _ = runs.Move(dev.Move{Running: yes()})
		if wait(); !runs.Now().Equal(noon.Add(62 * time.Minute)) {
			t.Errorf("a clock that runs again shows %v, want 13:02", runs.Now())
		}
		if state, err := runs.Move(dev.Move{Set: noon}); !errors.Is(err, dev.ErrBackwards) || !state.Shows.Equal(noon.Add(62*time.Minute)) {
			t.Errorf("Move back = %v, %v, want ErrBackwards", state, err)
		}
		if _, err := runs.Move(dev.Move{Set: dev.ClockMax.Add(time.Millisecond)}); !errors.Is(err, dev.ErrTooLate) {
			t.Errorf("Move past the last time: %v, want ErrTooLate", err)
		}
	})
}

// The machine's own clock follows the machine through a reset; any other begins again.
func TestClockAfterAReset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		own := dev.NewClock(dev.ClockState{Own: true})
		begun := own.State()
		time.Sleep(time.Hour)
		if _, err := own.Move(dev.Move{Running: yes()}); err != nil || !own.IsOwn() {
			t.Errorf("a move that changes nothing: %v, own %v", err, own.IsOwn())
		}
		if after := own.After(begun); !after.Now().Equal(time.Now()) || !after.IsOwn() {
			t.Errorf("the machine's own clock shows %v after a reset, want the machine's time", after.Now())
		}
		_, _ = own.Move(dev.Move{Advance: time.Hour})
		if after := own.After(begun); !after.Now().Equal(begun.Shows) || !after.IsRunning() || after.IsOwn() {
			t.Errorf("a clock that was moved shows %v after a reset, want %v", after.Now(), begun.Shows)
		}
		set := dev.NewClock(dev.ClockState{Shows: noon})
		begun = set.State()
		_, _ = set.Move(dev.Move{Advance: time.Hour, Running: yes()})
		if after := set.After(begun); !after.Now().Equal(noon) || after.IsRunning() {
			t.Errorf("a set clock shows %v after a reset, want it to stand at noon", after.Now())
		}
	})
}

func TestClockNeverGoesBack(t *testing.T) {
	t.Parallel()
	c := dev.NewClock(dev.ClockState{Own: true})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			last := c.State().Shows
			for i := range 200 {
				if i%10 == 0 {
					_, _ = c.Move(dev.Move{Advance: time.Millisecond, Running: []*bool{yes(), no()}[i/10%2]})
				}
				now := c.State().Shows
				if now.Before(last) {
					t.Errorf("the clock shows %v after %v", now, last)
				}
				last = now
			}
		})
	}
	all.Wait()
}

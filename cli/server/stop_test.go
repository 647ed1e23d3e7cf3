package server

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"tollhouse/cli/term"
)

// TestEveryStopHasABound: something that a stop waits for hangs, such as a disk.
//
// Promise (Monitoring): SIGTERM: not ready, no new connections, requests in flight finish; a second
// signal forces the stop, two within a moment count as one; no stop lasts forever
func TestEveryStopHasABound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, hangs, begun := &running{}, make(chan struct{}), time.Now()
		err := r.bounded(func() error {
			r.limitStop()
			<-hangs
			return nil
		})
		if f := term.FailureOf(err); f == nil || f.Code != term.ExitIO || !term.IsFatal(err) || time.Since(begun) != stopMax {
			t.Errorf("bounded() = %v after %s, want exit code %d after %s, and nothing more written", err, time.Since(begun), term.ExitIO, stopMax)
		}
		close(hangs)
	})
	r, broken := &running{}, errors.New("broken")
	if err := r.bounded(func() error { r.limitStop(); return broken }); err != broken {
		t.Errorf("bounded() = %v, want %v", err, broken)
	}
}

package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"tollhouse/store/eventlog"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// Promise (§2.4): the order survives a clock set back; at start, future events are refused unless
// allowed
func TestCheckClock(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := storetest.New(t)
	if err := f.Events.CheckClock(ctx); err != nil {
		t.Errorf("CheckClock() of an empty store = %v", err)
	}
	const accounts = 1001 // more than one batch
	for i := range accounts {
		must.Get(f.Events.RecordEvent(ctx, newEvent(fmt.Sprintf("acct_%04d", i), "plan.created", "p1")))(t)
	}
	f.Clock.Advance(-time.Minute)
	if err := f.Events.CheckClock(ctx); err != nil {
		t.Errorf("a_newest_event_a_minute_ahead_of_the_clock_is_accepted: %v", err)
	}
	f.Clock.Advance(time.Minute + time.Millisecond)
	must.Get(f.Events.RecordEvent(ctx, newEvent("acct_1000", "plan.updated", "p1")))(t)
	f.Clock.Advance(-time.Minute - time.Millisecond)
	var ahead *eventlog.AheadError
	if err := f.Events.CheckClock(ctx); !errors.As(err, &ahead) || ahead.Account != "acct_1000" {
		t.Errorf("a_newest_event_further_ahead_is_reported: %v, want an AheadError of acct_1000", err)
	}
}

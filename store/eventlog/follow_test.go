package eventlog_test

import (
	"fmt"
	"slices"
	"testing"

	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// TestFollowReadsTheWholeLogInOrder: whatever the limit and the types, a reader that
// continues where it stopped gets each matching event once, in order, over segments.
func TestFollowReadsTheWholeLogInOrder(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	want := map[string][]string{}
	all := []string{"customer.created", "invoice.paid", "customer.updated"}
	patterns := []string{"*", "customer.*", "*.paid", "invoice.paid", "none.such"}
	for i := range 40 {
		typ := all[i%len(all)]
		wire := must.Get(s.Events.RecordEvent(t.Context(), eventlog.NewEvent{Owner: "a", Resource: fmt.Sprint("r", i), Type: typ, Object: snapshot.ObjectOf()}))(t)
		for _, pattern := range patterns {
			if eventlog.MatchesTypes([]string{pattern}, typ) {
				want[pattern] = append(want[pattern], string(wire))
			}
		}
	}
	for _, pattern := range patterns {
		for _, limit := range []int{1, 3, 13, 14, 39, 40, 100} {
			var got []string
			after, more := record.Position{}, true
			for more {
				stretch := must.Get(s.Events.Follow(t.Context(), "a", []string{pattern}, after, limit))(t)
				for _, e := range stretch.Events {
					got = append(got, string(e.Wire))
				}
				if len(stretch.Events) > limit {
					t.Fatalf("%d events at a limit of %d", len(stretch.Events), limit)
				}
				after, more = stretch.Passed, stretch.More
			}
			if !slices.Equal(got, want[pattern]) {
				t.Errorf("%s, %d at a time: %d events, want %d", pattern, limit, len(got), len(want[pattern]))
			}
			if head := must.Get(s.Events.EventsVersion(t.Context(), "a"))(t).Head; after != head {
				t.Errorf("%s: it has passed %s, want the head %s", pattern, after, head)
			}
		}
	}
}

package store_test

import (
	"context"
	"slices"
	"testing"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// TestCounts: each event is counted once, whichever way it came.
//
// Promise (Credentials, memory, connections): a crash loses no accepted sign-in and no operator's
// change from the audit record; a store that is away loses no line, and refusals displace none
func TestCounts(t *testing.T) {
	t.Parallel()
	f, ctx := storetest.New(t), context.Background()
	t.Run("events_recorded", func(t *testing.T) {
		before := f.Counts().EventsRecorded
		for _, account := range []string{"acct_a", "acct_b", "acct_a"} {
			if _, err := f.Events.RecordEvent(ctx, eventlog.NewEvent{Owner: account, Type: "plan.created", Resource: "p1", Source: "test", Location: "system", Object: snapshot.ObjectOf()}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := f.Events.RecordEvent(ctx, eventlog.NewEvent{Owner: "acct_a", Type: "no type", Resource: "p1", Object: snapshot.ObjectOf()}); err == nil {
			t.Error("an event without a type was recorded")
		}
		if got := f.Counts().EventsRecorded - before; got != 3 {
			t.Errorf("3 events recorded and one refused counted as %d", got)
		}
	})
	t.Run("live_readers_come_and_go", func(t *testing.T) {
		var watches []*eventlog.Watch
		for _, account := range []string{"acct_a", "acct_b", "acct_a"} {
			w := must.Get(f.Events.WatchEvents(t.Context(), account))(t)
			watches = append(watches, w)
		}
		if got := f.Counts().LiveReaders; got != len(watches) {
			t.Errorf("%d readers counted as %d", len(watches), got)
		}
		for _, w := range watches {
			w.Close()
		}
		if got := f.Counts().LiveReaders; got != 0 {
			t.Errorf("no reader counted as %d", got)
		}
	})
	t.Run("audit_lines_lost", func(t *testing.T) {
		f.Audit(store.AuditLine{What: store.AuditAdmin, Reason: "kept"})
		f.AuditReasons(t, record.Position{}, 10)
		if got := f.Counts().AuditLost; got != 0 {
			t.Errorf("a line that was written counts as lost: %d", got)
		}
		f.Rest() // or it might write the line before the store breaks
		f.Faults.Break(record.ErrUnavailable)
		f.Audit(store.AuditLine{What: store.AuditAdmin, Reason: "waits"})
		if _, err := f.ListAudit(ctx, record.Position{}, 10); err == nil {
			t.Error("a broken store lists its record")
		}
		f.Faults.Repair()
		if list, _ := f.AuditReasons(t, record.Position{}, 10); !slices.Equal(list, []string{"kept", "waits"}) || f.Counts().AuditLost != 0 {
			t.Errorf("the record = %v and %d are lost, want the line that waited for the store", list, f.Counts().AuditLost)
		}
	})
	t.Run("audit_lines_lost_at_the_end", func(t *testing.T) {
		f := storetest.New(t)
		f.Faults.Break(record.ErrUnavailable)
		f.Audit(store.AuditLine{What: store.AuditAdmin, Reason: "lost"})
		f.Rest()
		f.Faults.Repair()
		if got := f.Counts().AuditLost; got != 1 {
			t.Errorf("a line that was lost counts as %d", got)
		}
	})
	t.Run("audit_lines_that_nobody_writes_are_bounded", func(t *testing.T) {
		f := storetest.New(t)
		f.Rest()
		const waiting = 1 << 12
		for range waiting + 3 {
			f.Audit(store.AuditLine{What: store.AuditAdmin, Reason: "waits"})
		}
		lines := must.Get(f.ListAudit(ctx, record.Position{}, 2*waiting))(t)
		if got := f.Counts().AuditLost; len(lines) != waiting || got != 3 {
			t.Errorf("%d lines are written and %d lost, want %d and 3", len(lines), got, waiting)
		}
	})
}

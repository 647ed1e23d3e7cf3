package eventlog_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// histories is a store with events of two accounts, some of them counted by slot and some by
// hour.
func histories(t *testing.T) *storetest.Fixture {
	t.Helper()
	f := storetest.NewKeeping(t, func(o *store.Options) { o.StrictTypes = true })
	must.Do(t, f.Events.SetFeed(t.Context(), 2*time.Hour))
	manyEvents(t, f, "acct_a", 20)
	manyEvents(t, f, "acct_b", 3)
	storetest.ImportLines(t, f.Store, "acct_a", importedLine("late-1", f.Now().Add(-30*time.Hour)))
	for _, resource := range []string{"p1", "p2"} {
		must.Get(f.Events.PutResource(t.Context(), planChange(resource), snapshot.ObjectOf()))(t)
	}
	f.Clock.Advance(3 * time.Hour)
	must.Get(f.Events.RecordEvent(t.Context(), newEvent("acct_a", "plan.updated", "p1")))(t)
	return f
}

func planChange(id string) eventlog.ResourceChange {
	return eventlog.ResourceChange{Owner: "acct_a", Kind: "plan", ID: id, Source: "test", Location: "api"}
}

func importedLine(id string, at time.Time) string {
	return fmt.Sprintf(`{"id":%q,"type":"customer.created","resource":"c1","eventData":{"object":{}},"createdAt":%d}`, id, at.Unix())
}

// logCalls are the methods of a log, over a store of histories.
func logCalls(t *testing.T, f *storetest.Fixture) []storetest.Call {
	t.Helper()
	type (
		ctxt = context.Context
		st   = *store.Store
	)
	now, newestInFeed, removedFromFeed := f.Now(), extentOfFeed(t, f).Last, extentOfFeed(t, f).Removed
	all := eventlog.Filter{To: eventlog.CreatedAtMax, Limit: 5}
	list := func(change func(*eventlog.Filter)) func(ctxt, st) (any, error) {
		filter := all
		change(&filter)
		return func(ctx ctxt, s st) (any, error) { return s.Events.ListEvents(ctx, "acct_a", filter, nil) }
	}
	lines := func(o eventlog.ImportOptions, lines ...string) func(ctxt, st) (any, error) {
		return func(ctx ctxt, s st) (any, error) {
			im, err := s.Events.NewImporter("acct_a", o)
			if err != nil {
				return nil, err
			}
			var refused []eventlog.LineError
			for _, line := range lines {
				more, err := im.Add(ctx, []byte(line), 0)
				if refused = append(refused, more...); err != nil {
					return refused, err
				}
			}
			more, err := im.Flush(ctx)
			return append(refused, more...), err
		}
	}
	purge := func(p eventlog.Purge) func(ctxt, st) (any, error) {
		return func(ctx ctxt, s st) (any, error) { return s.PurgeEvents(ctx, store.By{}, p) }
	}
	counts := func(owner string, g eventlog.Grain) func(ctxt, st) (any, error) {
		return func(ctx ctxt, s st) (any, error) {
			return s.Events.EventCounts(ctx, owner, g, now.Add(-72*time.Hour), now)
		}
	}
	oldest := after(t, f, record.Position{})[:2]
	fixture := must.Get(eventlog.ParseFixture(must.Get(snapshot.Parse([]byte(`{"type":"plan.created","resource":"p5","eventData":{"object":{}}}`), snapshot.DepthMax))(t), "acct_a"))(t)
	imported := importedLine("new-1", now.Add(-40*time.Hour))
	return []storetest.Call{
		{Name: "RecordEvent", Run: func(ctx ctxt, s st) (any, error) {
			return s.Events.RecordEvent(ctx, newEvent("acct_c", "plan.created", "p9"))
		}},
		{Name: "FindEvent", Run: func(ctx ctxt, s st) (any, error) { return s.Events.FindEvent(ctx, "acct_a", "late-1", nil) }},
		{Name: "EventsVersion", Run: func(ctx ctxt, s st) (any, error) { return s.Events.EventsVersion(ctx, "acct_a") }},
		{Name: "ListEvents", Run: list(func(*eventlog.Filter) {})},
		{Name: "ListEvents_after_a_foreign_id", Run: list(func(f *eventlog.Filter) { f.After, _ = eventlog.ParseCursor("late-1") })},
		{Name: "ListEvents_of_one_type", Run: list(func(f *eventlog.Filter) { f.Types = []string{"plan.updated"} })},
		{Name: "ListEvents_of_a_pattern", Run: list(func(f *eventlog.Filter) { f.Types = []string{"customer.*"} })},
		{Name: "ListEvents_of_unknown_types", Run: list(func(f *eventlog.Filter) { f.Types = []string{"customer.lost", "plan.lost"} })},
		{Name: "ListEvents_of_a_resource", Run: list(func(f *eventlog.Filter) { f.Resources, f.Types = []string{"r1"}, []string{"plan.created"} })},
		{Name: "ListEventTypes", Run: func(ctx ctxt, s st) (any, error) {
			types, _, err := s.Events.ListEventTypes(ctx, "acct_a")
			return types, err
		}},
		{Name: "CheckTypes", Run: func(ctx ctxt, s st) (any, error) {
			return nil, s.Events.CheckTypes(ctx, "acct_a", "plan.updated", "other.done")
		}},
		{Name: "ListEvents_of_all_accounts", Run: func(ctx ctxt, s st) (any, error) {
			return s.Events.ListEvents(ctx, eventlog.AllAccounts, eventlog.Filter{After: eventlog.StartCursor(), Limit: 30, Types: []string{"plan.*"}}, nil)
		}},
		{Name: "Follow_of_all_accounts", Run: func(ctx ctxt, s st) (any, error) {
			return s.Events.Follow(ctx, eventlog.AllAccounts, []string{"*"}, removedFromFeed, 5)
		}},
		{Name: "EventsAt_of_all_accounts", Run: func(ctx ctxt, s st) (any, error) {
			return s.Events.EventsAt(ctx, eventlog.AllAccounts, []record.Position{newestInFeed})
		}},
		{Name: "SetFeed", Run: func(ctx ctxt, s st) (any, error) { return nil, s.Events.SetFeed(ctx, 3*time.Hour) }},
		{Name: "SetFeed_off", Run: func(ctx ctxt, s st) (any, error) { return nil, s.Events.SetFeed(ctx, 0) }},
		{Name: "CountEvents", Run: func(ctx ctxt, s st) (any, error) { return s.Events.CountEvents(ctx) }},
		{Name: "CheckClock", Run: func(ctx ctxt, s st) (any, error) { return nil, s.Events.CheckClock(ctx) }},
		{Name: "Follow", Run: func(ctx ctxt, s st) (any, error) {
			return s.Events.Follow(ctx, "acct_a", []string{"plan.*"}, record.Position{}, 5)
		}},
		{Name: "FollowUntil", Run: func(ctx ctxt, s st) (any, error) {
			return s.Events.FollowUntil(ctx, "acct_a", []string{"*"}, record.Position{}, record.LastPosition, 5)
		}},
		{Name: "EventsAt", Run: func(ctx ctxt, s st) (any, error) { return s.Events.EventsAt(ctx, "acct_a", oldest) }},
		{Name: "Export", Run: func(ctx ctxt, s st) (any, error) {
			page, _, err := s.Events.NewExport("acct_a").Next(ctx, 5, nil)
			return page, err
		}},
		{Name: "PutResource", Run: func(ctx ctxt, s st) (any, error) {
			return s.Events.PutResource(ctx, planChange("p3"), snapshot.ObjectOf())
		}},
		{Name: "PatchResource", Run: func(ctx ctxt, s st) (any, error) {
			return s.Events.PatchResource(ctx, planChange("p1"), snapshot.ObjectOf(snapshot.Member{Name: "n", Value: snapshot.Text("1")}))
		}},
		{Name: "DeleteResource", Run: func(ctx ctxt, s st) (any, error) { return s.Events.DeleteResource(ctx, planChange("p2")) }},
		{Name: "FindResource", Run: func(ctx ctxt, s st) (any, error) { return s.Events.FindResource(ctx, "acct_a", "plan", "p1") }},
		{Name: "ListResources", Run: func(ctx ctxt, s st) (any, error) {
			return s.Events.ListResources(ctx, "acct_a", "plan", "", 5, nil, nil)
		}},
		{Name: "Import", InSteps: true, Remakes: true, Run: lines(eventlog.ImportOptions{}, imported, importedLine("late-1", now.Add(-30*time.Hour)))},
		{Name: "Import_skipping_errors", InSteps: true, Remakes: true, Run: lines(eventlog.ImportOptions{SkipErrors: true}, imported)},
		{Name: "Import_dry_run", Run: lines(eventlog.ImportOptions{DryRun: true}, imported, imported)},
		{Name: "RecordFixtures", InSteps: true, Leaves: true, Run: func(ctx ctxt, s st) (any, error) {
			recorded, refused, err := s.Events.RecordFixtures(ctx, []eventlog.Fixture{fixture})
			return []any{recorded, refused}, err
		}},
		{Name: "PurgeEvents", InSteps: true, Leaves: true, Remakes: true, Run: purge(eventlog.Purge{Account: "acct_a"})},
		{Name: "PurgeEvents_of_a_resource", InSteps: true, Leaves: true, Remakes: true, Run: purge(eventlog.Purge{Account: "acct_a", Kind: "plan", Resource: "r2"})},
		{Name: "TrimEvents", InSteps: true, Run: func(ctx ctxt, s st) (any, error) {
			if err := s.Events.SetRetention(ctx, 47*time.Hour); err != nil {
				return nil, err
			}
			return s.TrimEvents(ctx)
		}},
		{Name: "EventCounts", Run: counts("acct_a", eventlog.ByHour)},
		{Name: "EventCounts_of_all", Run: counts("", eventlog.ByDay)},
		{Name: "FindCustomers", Run: func(ctx ctxt, s st) (any, error) { return s.Events.FindCustomers(ctx, "acct_a", "tea", "", 5) }},
		{Name: "NewestOwners", Run: func(ctx ctxt, s st) (any, error) { return s.Events.NewestOwners(ctx, 3) }},
		{Name: "BusiestOwners", Run: func(ctx ctxt, s st) (any, error) {
			return s.Events.BusiestOwners(ctx, eventlog.ByDay, now.Add(-72*time.Hour), now, 5)
		}},
		{Name: "RepairCounts", Remakes: true, Run: func(ctx ctxt, s st) (any, error) { return s.Events.RepairCounts(ctx) }},
	}
}

// Whatever fails below a log, the caller learns of it, no change is half made, and the same
// call succeeds once the engine works again.
func TestEngineFaults(t *testing.T) {
	t.Parallel()
	f := histories(t)
	f.EachFault(t, logCalls(t, f))
}

// No call serves or counts a damaged record, or writes on its base.
func TestDamagedRecords(t *testing.T) {
	t.Parallel()
	f := histories(t)
	f.EachDamage(t, logCalls(t, f))
}

// A call whose caller has gone says so and changes nothing.
func TestCallersThatHaveGone(t *testing.T) {
	t.Parallel()
	f := histories(t)
	f.EachCancelled(t, logCalls(t, f))
}

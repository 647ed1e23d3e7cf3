package eventlog_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// A line exactly at the head's position can be recorded after a purge removed the event
// there. Readers who know that head must notice.
func TestImportAtTheHeadIsTold(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := storetest.New(t)
	line := `{"id":"evt_01kk9kgbjj00023m5qehe9m3gk","type":"plan.created","resource":"p1","eventData":{"object":{}},"createdAt":1773070200}`
	storetest.ImportLines(t, f.Store, "acct_a", line)
	must.Get(f.PurgeEvents(ctx, store.By{}, eventlog.Purge{Account: "acct_a", Kind: "plan", Resource: "p1"}))(t)
	before := must.Get(f.Events.EventsVersion(ctx, "acct_a"))(t)
	watch := must.Get(f.Events.WatchEvents(t.Context(), "acct_a"))(t)
	defer watch.Close()
	storetest.ImportLines(t, f.Store, "acct_a", line)
	after := must.Get(f.Events.EventsVersion(ctx, "acct_a"))(t)
	if span := watch.TakeBackfill(); after == before || span == nil || span.First != before.Head {
		t.Errorf("ETag: the version was %+v and is %+v; reported backfill: %+v", before, after, span)
	}
}

// A line may wait long for its batch: its age is checked again when it is recorded.
func TestImportJudgesTheAgeWhenItRecords(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := storetest.New(t)
	must.Do(t, f.Events.SetRetention(ctx, 24*time.Hour))
	im := must.Get(f.Events.NewImporter("acct_a", eventlog.ImportOptions{}))(t)
	line := fmt.Appendf(nil, `{"type":"plan.created","resource":"p1","eventData":{"object":{}},"createdAt":%d}`, f.Now().Add(-23*time.Hour).Unix())
	if refused, err := im.Add(ctx, line, 0); err != nil || len(refused) > 0 {
		t.Fatal(refused, err)
	}
	f.Clock.Advance(3 * time.Hour)
	refused, err := im.Flush(ctx)
	if err != nil || len(refused) != 1 || refused[0].Code != "invalid_event" || refused[0].Param != "createdAt" {
		t.Errorf("below_the_horizon: refused = %+v %v, want the line", refused, err)
	}
	if _, err := f.FindAccount(ctx, "acct_a"); err == nil {
		t.Error("an_import_of_refused_lines_alone_made_the_account")
	}
}

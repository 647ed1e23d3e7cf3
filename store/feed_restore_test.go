package store_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// Promise (Platform §6): after a restore the feed is on as before, its positions are later than all
// before, and a reader continues with a cursor from before
func TestFeedAfterARestore(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := storetest.New(t)
	must.Do(t, f.Events.SetFeed(ctx, 24*time.Hour))
	add := func(s *store.Store, resource string) record.Position {
		e := eventlog.NewEvent{Owner: "acct_a", Type: "plan.created", Resource: resource, Object: snapshot.ObjectOf()}
		must.Get(s.Events.RecordEvent(ctx, e))(t)
		return must.Get(s.Events.EventsVersion(ctx, eventlog.AllAccounts))(t).Head
	}
	add(f.Store, "kept")
	file := backUp(t, f)
	f.Clock.Advance(time.Second)
	cursor := add(f.Store, "lost")

	b := must.Get(store.OpenBackup(bytes.NewReader(file)))(t)
	defer b.Close()
	db := storetest.EmptyInMemory()
	must.Get(b.Load(ctx, db, f.Now()))(t)
	f.Clock.Advance(time.Second)
	must.Do(t, store.RecordRestore(ctx, db, b.Header, f.Now()))
	restored := storetest.Open(t, db, f.Clock)
	if at := add(restored.Store, "new"); at.Compare(cursor) <= 0 {
		t.Errorf("the position after the restore, %v, is not behind %v", at, cursor)
	}
	page, err := restored.Events.ListEvents(ctx, eventlog.AllAccounts, eventlog.Filter{After: eventlog.CursorAt(cursor), Limit: 10}, nil)
	if err != nil || page.Count != 1 || !bytes.Contains(page.Data, []byte(`"resource":"new"`)) {
		t.Errorf("a reader that continues gets %s, %v; want the event recorded since", page.Data, err)
	}
	must.Get(restored.CheckAll(ctx))(t)
}

package eventlog

import (
	"context"
	"errors"
	"testing"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest/must"
)

func TestNamesOf(t *testing.T) {
	t.Parallel()
	d := must.Get(newDraft(&NewEvent{
		Owner: "acct_a", Resource: "r1", Type: "plan.renewed",
		Source: `a "quoted\" name, and ,"type":"plan.forged"\`, Location: "back\\slash\\", Object: snapshot.ObjectOf(),
	}, []byte(`{"id":"r2","type":"x.y"}`)))(t)
	wire := d.appendWire(nil, "one", 5)
	if got, err := namesOf(wire); err != nil || got != (eventNames{"one", "r1", "plan.renewed"}) {
		t.Errorf("namesOf(%s) = %+v, %v", wire, got, err)
	}
	if _, err := namesOf(wire[:60]); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("namesOf() of a part = %v, want ErrCorrupt", err)
	}
}

// A list's ETag depends on the head: if a removal did not change it, the tag would keep
// confirming pages that are gone.
//
// Promise (§2.3): a list's ETag is weak; a quiet poll is 304 before any scan; any write or removal
// changes it
func TestRemovalRaisesTheGeneration(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	ctx := context.Background()
	var before, after Head
	read := func(into *Head) {
		t.Helper()
		must.Do(t, s.db.View(ctx, func(r kv.Reader) (err error) { *into, err = ReadHead(r, "a"); return err }))
	}
	for range 2 {
		if _, err := s.RecordEvent(ctx, NewEvent{Owner: "a", Resource: "r1", Type: "plan.renewed", Object: snapshot.ObjectOf()}); err != nil {
			t.Fatal(err)
		}
	}
	read(&before)
	for _, retained := range []bool{true, false} {
		var positions []record.Position
		must.Do(t, s.db.View(ctx, func(r kv.Reader) error {
			positions = stretch{list: eventsOf("a"), hi: through(record.LastPosition)}.positions(r, before.Segments)
			return nil
		}))
		if n, err := s.removeEvents(ctx, "a", "", positions[:1], retained); n != 1 || err != nil {
			t.Fatalf("removeEvents() = %d, %v", n, err)
		}
		read(&after)
		if after.generation != before.generation+1 || after.last != before.last {
			t.Errorf("a_removal_raises_the_generation: the head was %+v and is %+v", before, after)
		}
		if retained && after.removed != positions[0] || !retained && after.removed != before.removed {
			t.Errorf("only_retention_moves_what_cursors_are_judged_by: the head was %+v and is %+v", before, after)
		}
		before = after
	}
}

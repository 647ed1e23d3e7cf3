package eventlog_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"tollhouse/store/eventlog"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// Promise (§3.4, §3.5): the catalogue has all types
func TestCatalogue(t *testing.T) {
	t.Parallel()
	actions := []struct{ kind, actions string }{
		{"customer", "created updated deleted merged activated deactivated"},
		{"account", "created updated deleted autoupdate autoupdate_closed autoupdate_contact verified verification_failed expiring expired default_changed"},
		{"transaction", "created updated deleted authorized captured declined voided settled settlement_failed refunded partially_refunded refund_failed ach_submitted ach_process_error ach_return ach_notice_of_change ach_settled disputed dispute_won dispute_lost held released"},
		{"invoice", "created updated deleted sent viewed reminder_sent paid partially_paid payment_failed overdue voided written_off"},
		{"recurring", "created updated deleted paused resumed completed payment_failed retry_scheduled"},
		{"batch", "closed settled"},
		{"deposit", "created settled returned"},
		{"token", "created deleted"},
		{"user", "created updated deleted locked"},
		{"client", "authorized deauthorized secret_rotated"},
		{"webhook_endpoint", "created updated deleted disabled enabled secret_rotated gap"},
		{"system", "test"},
	}
	described := map[string][]eventlog.Type{}
	for _, e := range eventlog.Catalogue() {
		described[e.Kind()] = append(described[e.Kind()], e)
	}
	for _, tt := range actions {
		t.Run(tt.kind, func(t *testing.T) {
			t.Parallel()
			var want, got []string
			for action := range strings.FieldsSeq(tt.actions) {
				want = append(want, tt.kind+"."+action)
			}
			for _, e := range described[tt.kind] {
				got = append(got, e.Name)
				wantDescribed(t, e)
			}
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("the catalogue has\n%s\nwant\n%s", got, want)
			}
		})
	}
	t.Run("no_other_kinds", func(t *testing.T) {
		t.Parallel()
		if kinds := snapshot.Kinds(); len(described) != len(actions) || len(kinds) != len(actions) {
			t.Errorf("%d kinds have types, and %s have schemas; want the same %d", len(described), kinds, len(actions))
		}
	})
}

func wantDescribed(t *testing.T, e eventlog.Type) {
	t.Helper()
	if !eventlog.IsEventType(e.Name) || !snapshot.IsDescribed(e.Kind()) {
		t.Errorf("%s has no form or no schema", e.Name)
	}
	if len(e.Meaning) < 10 || !strings.HasSuffix(e.Meaning, ".") || strings.Count(e.Meaning, ".") != 1 {
		t.Errorf("the meaning of %s is no plain sentence: %q", e.Name, e.Meaning)
	}
}

// Promise (§3.4, §3.5): GET /api/event-types lists them with meaning, schema, count and last time;
// an unlisted type may be recorded
func TestListEventTypes(t *testing.T) {
	t.Parallel()
	f, ctx := storetest.New(t), context.Background()
	began := f.Clock.Now().Unix()
	for _, e := range []eventlog.NewEvent{
		newEvent("a", "zebra.seen", "r"), newEvent("a", "customer.updated", "r"), newEvent("a", "customer.updated", "r"),
		newEvent("b", "customer.deleted", "r"), newEvent("a_", "customer.merged", "r"),
	} {
		f.Clock.Advance(time.Minute)
		must.Get(f.Events.RecordEvent(ctx, e))(t)
	}
	types, more, err := f.Events.ListEventTypes(ctx, "a")
	if err != nil || more {
		t.Fatalf("ListEventTypes = %v, more %v", err, more)
	}
	if !slices.IsSortedFunc(types, func(x, y eventlog.TypeUse) int { return strings.Compare(x.Name, y.Name) }) {
		t.Error("the list is not sorted by name")
	}
	if got, want := len(types), len(eventlog.Catalogue())+1; got != want {
		t.Errorf("%d types, want %d: the catalogue's, and the one that only the account has", got, want)
	}
	for _, use := range types {
		want := eventlog.TypeUse{Type: use.Type}
		switch use.Name {
		case "zebra.seen":
			want = eventlog.TypeUse{Type: eventlog.Type{Name: "zebra.seen"}, Count: 1, LastCreatedAt: began + 60}
		case "customer.updated":
			want.Count, want.LastCreatedAt = 2, began+180
		}
		if use != want {
			t.Errorf("use = %+v, want %+v", use, want)
		}
	}
}

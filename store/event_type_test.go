package store_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest"
)

func TestCatalogue(t *testing.T) {
	t.Parallel()
	actions := map[string]string{
		"customer":         "created updated deleted merged activated deactivated",
		"account":          "created updated deleted autoupdate autoupdate_closed autoupdate_contact verified verification_failed expiring expired default_changed",
		"transaction":      "created updated deleted authorized captured declined voided settled settlement_failed refunded partially_refunded refund_failed ach_submitted ach_process_error ach_return ach_notice_of_change ach_settled disputed dispute_won dispute_lost held released",
		"invoice":          "created updated deleted sent viewed reminder_sent paid partially_paid payment_failed overdue voided written_off",
		"recurring":        "created updated deleted paused resumed completed payment_failed retry_scheduled",
		"batch":            "closed settled",
		"deposit":          "created settled returned",
		"token":            "created deleted",
		"user":             "created updated deleted locked",
		"client":           "authorized deauthorized secret_rotated",
		"webhook_endpoint": "created updated deleted disabled enabled secret_rotated",
		"system":           "test",
	}
	var want []string
	for kind, words := range actions {
		for action := range strings.FieldsSeq(words) {
			want = append(want, kind+"."+action)
		}
	}
	slices.Sort(want)
	var got []string
	for _, described := range store.Catalogue() {
		got = append(got, described.Name)
		if !store.IsEventType(described.Name) || !snapshot.IsDescribed(described.Kind()) {
			t.Errorf("events_3.5: %s has no form or no schema", described.Name)
		}
		if meaning := described.Meaning; len(meaning) < 10 || !strings.HasSuffix(meaning, ".") || strings.Count(meaning, ".") != 1 {
			t.Errorf("events_3.5: the meaning of %s is no plain sentence: %q", described.Name, meaning)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("events_3.5: the catalogue has\n%s\nwant\n%s", got, want)
	}
	if kinds := snapshot.Kinds(); len(kinds) != len(actions) {
		t.Errorf("events_3.5: kinds = %s, want those of the catalogue", kinds)
	}
}

func TestListEventTypes(t *testing.T) {
	t.Parallel()
	f, ctx := storetest.New(t), context.Background()
	began := f.Clock.Now().Unix()
	for _, e := range []store.NewEvent{
		newEvent("a", "zebra.seen", "r"), newEvent("a", "customer.updated", "r"), newEvent("a", "customer.updated", "r"),
		newEvent("b", "customer.deleted", "r"), newEvent("a_", "customer.merged", "r"),
	} {
		f.Clock.Advance(time.Minute)
		if _, err := f.RecordEvent(ctx, e); err != nil {
			t.Fatal(err)
		}
	}
	types, more, err := f.ListEventTypes(ctx, "a")
	if err != nil || more {
		t.Fatalf("ListEventTypes = %v, more %v", err, more)
	}
	if !slices.IsSortedFunc(types, func(x, y store.EventTypeUse) int { return strings.Compare(x.Name, y.Name) }) {
		t.Error("events_3.5: the list is not sorted by name")
	}
	if got, want := len(types), len(store.Catalogue())+1; got != want {
		t.Errorf("events_3.5: %d types, want %d: the catalogue's, and the one that only the account has", got, want)
	}
	for _, use := range types {
		want := store.EventTypeUse{EventType: use.EventType}
		switch use.Name {
		case "zebra.seen":
			want = store.EventTypeUse{EventType: store.EventType{Name: "zebra.seen"}, Count: 1, LastCreatedAt: began + 60}
		case "customer.updated":
			want.Count, want.LastCreatedAt = 2, began+180
		}
		if use != want {
			t.Errorf("events_3.5: %+v, want %+v", use, want)
		}
	}
}

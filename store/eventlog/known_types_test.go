package eventlog_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// TestListEventsOfTypesThatComeAndGo lists by type while new types, imported history and
// purges make what was known of the types obsolete.
func TestListEventsOfTypesThatComeAndGo(t *testing.T) {
	t.Parallel()
	const owner = "acct_1"
	random := rand.New(rand.NewPCG(3, 4))
	f := storetest.New(t)
	ctx := context.Background()
	var log []eventOf // in any order
	kinds, actions := []string{"plan", "seat", "coupon", "dunning"}, []string{"created", "updated", "closed", "moved", "merged", "held"}
	anyType := func() string {
		return kinds[random.IntN(len(kinds))] + "." + actions[random.IntN(len(actions))]
	}
	steps := 400
	if must.Long() {
		steps = 20_000
	}
	for step := range steps {
		switch roll := random.IntN(20); {
		case roll < 12:
			e := newEvent(owner, anyType(), fmt.Sprintf("r%d", random.IntN(3)))
			wire := must.Get(f.Events.RecordEvent(ctx, e))(t)
			log = append(log, eventIn(t, wire))
		case roll < 14:
			line := fmt.Sprintf(`{"id":"old_%d","type":%q,"resource":"r%d","eventData":{"object":{}},"createdAt":%d}`, step, anyType(), random.IntN(3), 1_000_000_000+random.IntN(1000))
			storetest.ImportLines(t, f.Store, owner, line)
			log = append(log, eventIn(t, []byte(line)))
		case roll < 16 && len(log) > 0:
			gone := log[random.IntN(len(log))]
			kind, _, _ := strings.Cut(gone.Type, ".")
			if _, err := f.PurgeEvents(ctx, store.By{}, eventlog.Purge{Account: owner, Kind: kind, Resource: gone.Resource}); err != nil {
				t.Fatal(err)
			}
			log = slices.DeleteFunc(log, func(e eventOf) bool {
				return strings.HasPrefix(e.Type, kind+".") && e.Resource == gone.Resource
			})
		default:
			f.Clock.Advance(time.Duration(random.IntN(8000)) * time.Millisecond)
		}
		for range 3 {
			wantTypesListed(t, f.Store, random, owner, log, anyType)
		}
	}
}

// eventOf has the fields of an event that decide in which lists it is.
type eventOf struct {
	ID, Type, Resource string
	CreatedAt          int64
}

func eventIn(t *testing.T, wire []byte) (e eventOf) {
	t.Helper()
	must.Do(t, json.Unmarshal(wire, &e))
	return e
}

// wantTypesListed lists by random types and patterns, and compares with the log.
func wantTypesListed(t *testing.T, s *store.Store, random *rand.Rand, owner string, log []eventOf, anyType func() string) {
	t.Helper()
	named := random.IntN(2) == 0 // many, and no pattern
	count := 1 + random.IntN(7)
	if named {
		count += 5
	}
	var types []string
	for range count {
		typ := anyType()
		kind, action, _ := strings.Cut(typ, ".")
		if roll := random.IntN(6); roll == 0 && !named {
			typ = kind + ".*"
		} else if roll == 1 && !named {
			typ = "*." + action
		}
		types = append(types, typ)
	}
	filter := eventlog.Filter{Types: types, To: eventlog.CreatedAtMax, Limit: 1000, Ascending: random.IntN(2) == 0}
	if random.IntN(2) == 0 {
		filter.From = s.Now().Unix() - random.Int64N(10)
	}
	if random.IntN(4) == 0 {
		filter.Resources = []string{"r1", "r2"}
	}
	var want, unseen []string
	for _, e := range log {
		if slices.ContainsFunc(types, func(pattern string) bool { return matches(pattern, e.Type) }) && e.CreatedAt >= filter.From && (filter.Resources == nil || slices.Contains(filter.Resources, e.Resource)) {
			want = append(want, e.ID)
		}
	}
	for _, pattern := range types {
		if !slices.ContainsFunc(log, func(e eventOf) bool { return matches(pattern, e.Type) }) {
			unseen = append(unseen, pattern)
		}
	}
	page, err := s.Events.ListEvents(context.Background(), owner, filter, nil)
	if err != nil {
		t.Fatalf("ListEvents(%q): %v", types, err)
	}
	var listed []eventOf
	must.Do(t, json.Unmarshal(append(append([]byte("["), page.Data...), ']'), &listed))
	var got []string
	for _, e := range listed {
		got = append(got, e.ID)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("ListEvents(%q, of %q) = %d events %q, want %d, %q", types, filter.Resources, len(got), got, len(want), want)
	}
	var noticed []string
	for _, u := range page.Unseen {
		noticed = append(noticed, u.Type)
	}
	slices.Sort(unseen)
	unseen = slices.Compact(unseen)
	if !slices.Equal(noticed, unseen[:min(len(unseen), 5)]) {
		t.Fatalf("ListEvents(%q): notices of %q, want of %q", types, noticed, unseen)
	}
}

package eventlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest/must"
)

// meddler changes something before each of the first updates, as another caller might
// between the computation of a change and its commit.
type meddler struct {
	kv.DB
	left   int
	meddle func()
}

func (m *meddler) Update(ctx context.Context, fn func(kv.Txn) error) error {
	if m.left > 0 {
		m.left--
		m.meddle()
	}
	return m.DB.Update(ctx, fn)
}

func document(t testing.TB, text string) snapshot.Value {
	t.Helper()
	v := must.Get(snapshot.Parse([]byte(text), snapshot.DepthMax))(t)
	return v
}

// Promise (§3.1): a change and its event are one commit; replayed events rebuild every resource
func TestChangeResourceComputesAgainWhenOvertaken(t *testing.T) {
	t.Parallel()
	plan := ResourceChange{Owner: "a", Kind: "plan", ID: "p1", Source: "test", Location: "api"}
	overtaken := func(t *testing.T, times int) (*Log, error) {
		t.Helper()
		s, ctx := openTest(t), context.Background()
		must.Get(s.PutResource(ctx, plan, document(t, `{"n":0,"kept":true}`)))(t)
		m, n := &meddler{DB: s.db, left: times}, 0
		m.meddle = func() {
			left := m.left
			m.left = 0 // its own updates are left alone
			n++
			must.Get(s.PatchResource(ctx, plan, document(t, fmt.Sprintf(`{"n":%d}`, n))))(t)
			m.left = left
		}
		s.db = m
		_, err := s.PatchResource(ctx, plan, document(t, `{"n":"mine"}`))
		return s, err
	}
	t.Run("the_event_has_the_values_replaced_in_the_end", func(t *testing.T) {
		t.Parallel()
		s := must.Get(overtaken(t, changeTries-1))(t)
		page, err := s.ListEvents(context.Background(), "a", Filter{To: CreatedAtMax, Limit: 1}, nil)
		if want := fmt.Sprintf(`"eventData":{"object":{"id":"p1","object":"plan","n":"mine","kept":true},"previousAttributes":{"n":%d}}`, changeTries-1); err != nil || !strings.Contains(string(page.Data), want) {
			t.Errorf("event = %s, %v, want %s in it", page.Data, err, want)
		}
	})
	t.Run("after_eight_tries_it_is_unavailable", func(t *testing.T) {
		t.Parallel()
		s, err := overtaken(t, changeTries)
		if !errors.Is(err, record.ErrUnavailable) {
			t.Errorf("PatchResource = %v, want ErrUnavailable", err)
		}
		if found, err := s.FindResource(context.Background(), "a", "plan", "p1"); err != nil || strings.Contains(string(found.JSON), "mine") {
			t.Errorf("the resource is %s, %v, although the change was refused", found.JSON, err)
		}
	})
}

// After any changes of a resource, its events lead back from the last snapshot to the
// first, one previousAttributes at a time.
//
// Promise (§3.1): a change and its event are one commit; replayed events rebuild every resource
func TestResourceHistoryLeadsBack(t *testing.T) {
	t.Parallel()
	s, account := openTest(t), 0
	rapid.Check(t, func(rt *rapid.T) {
		account++
		c := ResourceChange{Owner: fmt.Sprintf("a%d", account), Kind: "plan", ID: "p1"}
		for range rapid.IntRange(1, 20).Draw(rt, "changes") {
			change(rt, s, c)
		}
		page, err := s.ListEvents(context.Background(), c.Owner, Filter{To: CreatedAtMax, Limit: 100, Ascending: true}, nil)
		must.Do(rt, err)
		checkHistory(rt, page.Data)
	})
}

func change(rt *rapid.T, s *Log, c ResourceChange) {
	names := rapid.SampledFrom([]string{"a", "b", "c"})
	values := rapid.SampledFrom([]string{`1`, `1.0`, `"x"`, `null`, `{"d":1}`, `{"d":1,"e":null}`, `{"e":[null,1]}`, `[1]`})
	body := fmt.Sprintf(`{%q:%s}`, names.Draw(rt, "name"), values.Draw(rt, "value"))
	v, err := snapshot.Parse([]byte(body), snapshot.DepthMax)
	must.Do(rt, err)
	ctx := context.Background()
	switch rapid.IntRange(0, 4).Draw(rt, "do") {
	case 0:
		_, err = s.PutResource(ctx, c, v)
	case 1, 2:
		_, err = s.PatchResource(ctx, c, v)
	case 3:
		c.Action = "renewed"
		_, err = s.PatchResource(ctx, c, v)
	default:
		_, err = s.DeleteResource(ctx, c)
	}
	if err != nil && !errors.Is(err, record.ErrNotFound) {
		rt.Fatal(err)
	}
}

func checkHistory(rt *rapid.T, data []byte) {
	var events []struct {
		Type      string
		EventData struct{ Object, PreviousAttributes json.RawMessage }
	}
	must.Do(rt, json.Unmarshal([]byte("["+string(data)+"]"), &events))
	before := snapshot.Value{}
	for i, e := range events {
		after, err := snapshot.Parse(e.EventData.Object, snapshot.DepthMax)
		must.Do(rt, err)
		previous := snapshot.ObjectOf()
		if e.EventData.PreviousAttributes != nil {
			previous = must.Get(snapshot.Parse(e.EventData.PreviousAttributes, snapshot.DepthMax))(rt)
		}
		switch back := snapshot.Merge(after, previous); {
		case e.Type == "plan.created" && (before.Kind() != snapshot.Null || e.EventData.PreviousAttributes != nil):
			rt.Fatalf("event %d: created although it was there, or with previousAttributes", i)
		case e.Type == "plan.created":
		case !back.Equal(before):
			rt.Fatalf("event %d (%s): %s and %s lead back to %s, and it was %s", i, e.Type, after, previous, back, before)
		case e.Type == "plan.updated" && len(previous.Members()) == 0:
			rt.Fatalf("event %d: updated, and nothing was", i)
		}
		before = after
		if e.Type == "plan.deleted" {
			before = snapshot.Value{}
		}
	}
}

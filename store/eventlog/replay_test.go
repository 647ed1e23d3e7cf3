package eventlog_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// The histories use few resources, so that each is created, changed, removed and created
// again, and imports add events before and after.
var (
	replayKinds = []string{"customer", "plan"}
	replayIDs   = []string{"r1", "r2"}
)

// replayed is one account: its store, and the generator.
type replayed struct {
	*storetest.Fixture
	owner   string
	foreign int // number of foreign ids used so far
}

func (a *replayed) body(t *rapid.T, kind string) string {
	if kind == "customer" {
		return fmt.Sprintf(`{"city":%q,"notes":%s}`, rapid.SampledFrom([]string{"", "Dunmere", "<é>"}).Draw(t, "city"), rapid.SampledFrom([]string{`null`, `"x"`}).Draw(t, "notes"))
	}
	return `{` + drawMembers(t, 3) + `}`
}

// drawMembers draws nested members with few names.
func drawMembers(t *rapid.T, depth int) string {
	values := []string{`1`, `1.0`, `"x"`, `null`, `[1,{"z":null}]`, `[]`, `true`}
	members := map[string]string{}
	for range rapid.IntRange(0, 3).Draw(t, "members") {
		name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
		if depth > 0 && rapid.IntRange(0, 2).Draw(t, "nested") == 0 {
			members[name] = `{` + drawMembers(t, depth-1) + `}`
		} else {
			members[name] = rapid.SampledFrom(values).Draw(t, "value")
		}
	}
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		texts = append(texts, fmt.Sprintf("%q:%s", name, members[name]))
	}
	return strings.Join(texts, ",")
}

// happen makes one change to one resource of the account.
func (a *replayed) happen(t *rapid.T) {
	ctx := context.Background()
	c := eventlog.ResourceChange{Owner: a.owner, Kind: rapid.SampledFrom(replayKinds).Draw(t, "kind"), ID: rapid.SampledFrom(replayIDs).Draw(t, "id"), Source: "test", Location: "api"}
	body := a.body(t, c.Kind)
	v, err := snapshot.Parse([]byte(body), snapshot.DepthMax)
	must.Do(t, err)
	switch rapid.IntRange(0, 6).Draw(t, "do") {
	case 0, 1:
		_, err = a.Events.PutResource(ctx, c, v)
	case 2:
		_, err = a.Events.PatchResource(ctx, c, v)
	case 3:
		c.Action = "renewed"
		_, err = a.Events.PatchResource(ctx, c, v)
	case 4:
		_, err = a.Events.DeleteResource(ctx, c)
	case 5:
		_, err = a.Events.RecordEvent(ctx, eventlog.NewEvent{Owner: a.owner, Type: c.Kind + ".seen", Resource: c.ID, Source: "test", Location: "system", Object: v})
	default:
		a.importSome(t, c, body)
	}
	if err != nil && !errors.Is(err, record.ErrNotFound) {
		t.Fatal(err)
	}
	a.Clock.Advance(time.Duration(rapid.SampledFrom([]int{0, 1, 700, 1500}).Draw(t, "ms")) * time.Millisecond)
}

// importSome imports a few lines of the last seconds, with and without ids.
func (a *replayed) importSome(t *rapid.T, c eventlog.ResourceChange, body string) {
	var lines []string
	for range rapid.IntRange(1, 3).Draw(t, "lines") {
		id := ""
		if rapid.Bool().Draw(t, "foreign") {
			a.foreign++
			id = fmt.Sprintf(`"id":"other-%d",`, a.foreign)
		}
		action := rapid.SampledFrom([]string{"created", "updated", "deleted", "merged"}).Draw(t, "action")
		createdAt := a.Clock.Now().Unix() - int64(rapid.IntRange(0, 4).Draw(t, "age"))
		lines = append(lines, fmt.Sprintf(`{%s"type":"%s.%s","resource":%q,"eventData":{"object":%s},"createdAt":%d}`, id, c.Kind, action, c.ID, body, createdAt))
	}
	storetest.ImportLines(t, a.Store, a.owner, lines...)
}

// log returns the account's events, oldest first, as on the wire.
func (a *replayed) log(t *rapid.T) (wires []string) {
	page, err := a.Events.ListEvents(context.Background(), a.owner, eventlog.Filter{To: eventlog.CreatedAtMax, Limit: 1000, Ascending: true}, nil)
	if err != nil || page.More {
		t.Fatalf("ListEvents: %v, more %v", err, page.More)
	}
	var events []json.RawMessage
	must.Do(t, json.Unmarshal([]byte("["+string(page.Data)+"]"), &events))
	for _, e := range events {
		wires = append(wires, string(e))
	}
	return wires
}

// resources returns the current snapshots in a store by kind and id.
func resources(t *rapid.T, s *store.Store, owner string) map[string]string {
	now := map[string]string{}
	for _, kind := range replayKinds {
		for _, id := range replayIDs {
			found, err := s.Events.FindResource(context.Background(), owner, kind, id)
			if err != nil && !errors.Is(err, record.ErrNotFound) {
				t.Fatal(err)
			}
			if err == nil {
				now[kind+" "+id] = string(found.JSON)
			}
		}
	}
	return now
}

// replay rebuilds the resources from their events alone.
func replay(t *rapid.T, wires []string) map[string]string {
	made := map[string]string{}
	for _, wire := range wires {
		var e struct {
			Type, Resource string
			EventData      struct{ Object json.RawMessage }
		}
		must.Do(t, json.Unmarshal([]byte(wire), &e))
		kind, action, _ := strings.Cut(e.Type, ".")
		if action == "deleted" {
			delete(made, kind+" "+e.Resource)
		} else {
			made[kind+" "+e.Resource] = string(e.EventData.Object)
		}
	}
	return made
}

// Replaying an account's events from the start rebuilds every resource byte for byte,
// here and by an import into an empty store. The long form draws more and longer
// histories.
//
// Promise (§3.1): a change and its event are one commit; replayed events rebuild every resource
func TestReplayRebuildsEveryResource(t *testing.T) {
	t.Parallel()
	histories, changesMax := 1, 25
	if must.Long() {
		histories, changesMax = 20, 100
	}
	source, fresh := storetest.New(t), storetest.New(t)
	fresh.Clock.Advance(365 * 24 * time.Hour) // an import refuses events of the future
	account, seen := 0, map[string]int{}
	t.Run("replay_rebuilds_every_resource_exactly", func(t *testing.T) {
		for range histories {
			rapid.Check(t, func(rt *rapid.T) {
				account++
				a := &replayed{Fixture: source, owner: fmt.Sprintf("acct_%d", account)}
				for range rapid.IntRange(1, changesMax).Draw(rt, "changes") {
					a.happen(rt)
				}
				wires, want := a.log(rt), resources(rt, source.Store, a.owner)
				if got := replay(rt, wires); !maps.Equal(got, want) {
					rt.Fatalf("the events make %v, but the store has %v", got, want)
				}
				storetest.ImportLines(rt, fresh.Store, a.owner, wires...)
				if got := resources(rt, fresh.Store, a.owner); !maps.Equal(got, want) {
					rt.Fatalf("the import makes %v, but the store had %v", got, want)
				}
				for _, wire := range wires {
					_, rest, _ := strings.Cut(wire, `"type":"`)
					typ, _, _ := strings.Cut(rest, `"`)
					seen[typ]++
				}
			})
		}
		if len(seen) < 8 {
			t.Errorf("the histories had only %v", seen)
		}
	})
}

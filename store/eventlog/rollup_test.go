package eventlog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// countedStore is a store whose log is changed at random, and killed.
type countedStore struct {
	*store.Store
	f      *storetest.Fixture
	warned *bytes.Buffer // what the store has logged
	lines  int
}

var countedAccounts = []string{"acct_a", "acct_b"}

func newCountedStore(t *testing.T) *countedStore {
	warned := &bytes.Buffer{}
	f := storetest.New(t, func(o *store.Options) { o.Log = slog.New(slog.NewTextHandler(warned, nil)) })
	return &countedStore{Store: f.Store, f: f, warned: warned}
}

// unitCounts are the events of each kind by the start of their unit.
type unitCounts map[string]map[int64]map[string]uint64

func (u unitCounts) add(owner string, start int64, kind string) {
	for _, o := range []string{owner, ""} {
		if u[o] == nil {
			u[o] = map[int64]map[string]uint64{}
		}
		if u[o][start] == nil {
			u[o][start] = map[string]uint64{}
		}
		u[o][start][kind]++
	}
}

// listed counts the events that the list of each account shows, by grain.
func (c *countedStore) listed(t require, g eventlog.Grain) unitCounts {
	found := unitCounts{}
	for _, owner := range countedAccounts {
		f := eventlog.Filter{To: eventlog.CreatedAtMax, Limit: 1000}
		for {
			page, err := c.ListEvents(context.Background(), owner, f, nil)
			if err != nil {
				t.Fatalf("list: %v", err)
			}
			var rows []struct {
				Type      string `json:"type"`
				CreatedAt int64  `json:"createdAt"`
			}
			if err := json.Unmarshal([]byte("["+strings.TrimSuffix(string(page.Data), ",")+"]"), &rows); err != nil {
				t.Fatalf("list: %v", err)
			}
			for _, row := range rows {
				kind, _, _ := strings.Cut(row.Type, ".")
				found.add(owner, time.Unix(row.CreatedAt, 0).Truncate(g.Length()).Unix(), kind)
			}
			if !page.More {
				break
			}
			f.After, _ = eventlog.ParseCursor(page.Next.String())
		}
	}
	return found
}

type require interface {
	Fatalf(format string, args ...any)
}

// counted reads the counts of all accounts by grain, and how many events are behind.
func (c *countedStore) counted(t require, g eventlog.Grain, from, to time.Time) (found unitCounts, behind uint64) {
	found = unitCounts{}
	for _, owner := range append([]string{""}, countedAccounts...) {
		units, n, err := c.EventCounts(context.Background(), owner, g, from, to)
		if err != nil {
			t.Fatalf("EventCounts(%q): %v", owner, err)
		}
		behind = max(behind, n)
		for _, u := range units {
			for _, k := range u.Tally {
				if found[owner] == nil {
					found[owner] = map[int64]map[string]uint64{}
				}
				if found[owner][u.Start.Unix()] == nil {
					found[owner][u.Start.Unix()] = map[string]uint64{}
				}
				found[owner][u.Start.Unix()][k.Kind] = k.Count
			}
		}
	}
	return found, behind
}

// check compares the counts with the lists, which they equal when nothing is behind.
func (c *countedStore) check(t require) {
	now := c.f.Now()
	recent := now.Truncate(time.Hour).Add(-2 * time.Hour)
	for g, from := range map[eventlog.Grain]time.Time{eventlog.ByHour: {}, eventlog.ByDay: {}, eventlog.BySlot: recent} {
		to := now.Add(100 * time.Hour) // the clock steps back; by slots, each more hour costs
		if g != eventlog.BySlot {
			from, to = time.Unix(0, 0), now.Add(1000*time.Hour)
		}
		got, behind := c.counted(t, g, from, to)
		want := c.listed(t, g)
		for owner, units := range want {
			maps.DeleteFunc(units, func(start int64, _ map[string]uint64) bool { return start < from.Unix() })
			if len(units) == 0 {
				delete(want, owner)
			}
		}
		if behind == 0 && fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("grain %q: counted\n%v\nand the lists have\n%v", g, got, want)
		}
	}
	if strings.Contains(c.warned.String(), "differed") {
		t.Fatalf("the counts were made again: %s", c.warned)
	}
}

func (c *countedStore) catchUp(t require) {
	if err := c.CatchUpCounts(context.Background()); err != nil {
		t.Fatalf("CatchUpCounts: %v", err)
	}
	if _, behind := c.counted(t, eventlog.ByHour, time.Unix(0, 0), c.f.Now()); behind != 0 {
		t.Fatalf("%d events are behind after all were counted", behind)
	}
}

// kill opens the store again without what it had in memory.
func (c *countedStore) kill(t *testing.T) { c.Store = c.f.Reopened(t) }

func (c *countedStore) record(t *rapid.T) {
	owner := rapid.SampledFrom(countedAccounts).Draw(t, "account")
	for range rapid.IntRange(1, 12).Draw(t, "events") {
		kind := rapid.SampledFrom([]string{"customer", "plan", "invoice"}).Draw(t, "kind")
		if _, err := c.RecordEvent(context.Background(), newEvent(owner, kind+".updated", rapid.SampledFrom(keptResources).Draw(t, "resource"))); err != nil {
			t.Fatal(err)
		}
	}
}

// history imports events of the last days, most of them below the head.
func (c *countedStore) history(t *rapid.T) {
	owner := rapid.SampledFrom(countedAccounts).Draw(t, "account")
	im := must.Get(c.NewImporter(owner, eventlog.ImportOptions{SkipErrors: true}))(t)
	for range rapid.IntRange(1, 20).Draw(t, "lines") {
		c.lines++
		kind := rapid.SampledFrom([]string{"customer", "plan", "invoice"}).Draw(t, "kind")
		at := c.f.Now().Add(-time.Duration(rapid.IntRange(0, 3*24*60).Draw(t, "minutes ago")) * time.Minute).Unix()
		line := fmt.Sprintf(`{"id":"%s-%d","type":"%s.created","resource":"%s","eventData":{"object":{}},"createdAt":%d}`,
			owner, c.lines, kind, rapid.SampledFrom(keptResources).Draw(t, "resource"), at)
		must.Get(im.Add(context.Background(), []byte(line), 0))(t)
	}
	must.Get(im.Flush(context.Background()))(t)
}

func (c *countedStore) purge(t *rapid.T) {
	p := eventlog.Purge{Account: rapid.SampledFrom(countedAccounts).Draw(t, "account")}
	if rapid.IntRange(0, 3).Draw(t, "scope") > 0 {
		p.Kind, p.Resource = "plan", rapid.SampledFrom(keptResources).Draw(t, "resource")
	}
	if _, err := c.PurgeEvents(context.Background(), store.By{}, p); err != nil && !errors.Is(err, record.ErrNotFound) {
		t.Fatal(err)
	}
}

func (c *countedStore) trim(t *rapid.T) {
	err := c.SetRetention(context.Background(), rapid.SampledFrom([]time.Duration{0, aDay, 2 * aDay}).Draw(t, "kept"))
	if err == nil {
		_, err = c.TrimEvents(context.Background())
	}
	must.Do(t, err)
}

func (c *countedStore) erase(t *rapid.T) {
	err := c.DeleteAccount(context.Background(), rapid.SampledFrom(countedAccounts).Draw(t, "account"))
	if err != nil && !errors.Is(err, record.ErrNotFound) {
		t.Fatal(err)
	}
}

// interrupted does something that the end of the process cuts short, and opens the
// store again.
func (c *countedStore) interrupted(t *rapid.T, outer *testing.T, do func(*rapid.T) error) {
	c.f.CutAt(rapid.IntRange(0, 5).Draw(t, "cut at"), rapid.Bool().Draw(t, "applied"))
	err := do(t)
	c.f.Faults.Repair()
	if err != nil && !errors.Is(err, record.ErrUnavailable) && !errors.Is(err, record.ErrNotFound) {
		t.Fatal(err)
	}
	c.kill(outer)
}

// TestCountsEqualTheLog: after any history of appends, imports below the head, purges,
// retention and kills, the counts of each hour are those of the log once all is counted.
func TestCountsEqualTheLog(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	rapid.Check(t, func(rt *rapid.T) {
		c := newCountedStore(t)
		rt.Repeat(map[string]func(*rapid.T){
			"record":  c.record,
			"record ": c.record,
			"history": c.history,
			"purge":   c.purge,
			"trim":    c.trim,
			"erase":   c.erase,
			"time": func(t *rapid.T) {
				c.f.Clock.Advance(time.Duration(rapid.IntRange(0, 300).Draw(t, "minutes")) * time.Minute)
			},
			"time stepped back": func(t *rapid.T) {
				c.f.Clock.Advance(-time.Duration(rapid.IntRange(0, 90).Draw(t, "minutes")) * time.Minute)
			},
			"count": func(t *rapid.T) { c.catchUp(t) },
			"kill":  func(*rapid.T) { c.kill(t) },
			"count while the log changes": func(t *rapid.T) {
				change := rapid.SampledFrom([]func(*rapid.T){c.history, c.purge, c.record}).Draw(t, "change")
				begun := false
				c.f.Faults.OnUpdate(func(run func() error) error {
					if !begun { // after the pass has read, and before it writes
						begun = true
						change(t)
					}
					return run()
				})
				err := c.CatchUpCounts(ctx)
				c.f.Faults.Repair()
				must.Do(t, err)
			},
			"count until killed": func(rt *rapid.T) {
				c.interrupted(rt, t, func(*rapid.T) error { return c.CatchUpCounts(ctx) })
			},
			"purge until killed": func(rt *rapid.T) {
				c.interrupted(rt, t, func(rt *rapid.T) error {
					_, err := c.PurgeEvents(ctx, store.By{}, eventlog.Purge{Account: rapid.SampledFrom(countedAccounts).Draw(rt, "account")})
					return err
				})
			},
			"erase until killed": func(rt *rapid.T) {
				owner := rapid.SampledFrom(countedAccounts).Draw(rt, "account")
				c.interrupted(rt, t, func(*rapid.T) error { return c.DeleteAccount(ctx, owner) })
				if err := c.DeleteAccount(ctx, owner); err != nil && !errors.Is(err, record.ErrNotFound) {
					rt.Fatal(err)
				}
			},
			"": func(t *rapid.T) {
				c.check(t)
			},
		})
		c.catchUp(rt)
		c.check(rt)
		if differs, err := c.RepairCounts(ctx); differs || err != nil {
			rt.Fatalf("RepairCounts() = %v, %v after all of this", differs, err)
		}
	})
}

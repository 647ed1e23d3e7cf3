package eventlog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	f           *storetest.Fixture
	lines       int
	steppedBack bool // the clock
}

var countedAccounts = []string{"acct_a", "acct_b"}

func newCountedStore(t *testing.T) *countedStore { return countedIn(storetest.New(t)) }

func countedIn(f *storetest.Fixture) *countedStore { return &countedStore{Store: f.Store, f: f} }

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
			page, err := c.Events.ListEvents(context.Background(), owner, f, nil)
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

// counted reads the counts of all accounts by grain, and the units that are not known.
func (c *countedStore) counted(t require, g eventlog.Grain, from, to time.Time) (found unitCounts, unknown map[int64]bool) {
	found, unknown = unitCounts{}, map[int64]bool{}
	for _, owner := range append([]string{""}, countedAccounts...) {
		units, err := c.Events.EventCounts(context.Background(), owner, g, from, to)
		if err != nil {
			t.Fatalf("EventCounts(%q): %v", owner, err)
		}
		for _, u := range units {
			if u.Unknown {
				unknown[u.Start.Unix()] = true
			}
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
	return found, unknown
}

// check compares the counts with the lists.
func (c *countedStore) check(t require) {
	now := c.f.Now()
	recent := now.Truncate(time.Hour).Add(-2 * time.Hour)
	for g, from := range map[eventlog.Grain]time.Time{eventlog.ByHour: {}, eventlog.ByDay: {}, eventlog.BySlot: recent} {
		to := now.Add(100 * time.Hour) // the clock steps back; by slots, each more hour costs
		if g != eventlog.BySlot {
			from, to = time.Unix(0, 0), now.Add(1000*time.Hour)
		}
		got, unknown := c.counted(t, g, from, to)
		if len(unknown) > 0 && (g != eventlog.BySlot || !c.steppedBack) {
			t.Fatalf("grain %q: %v are not known", g, unknown)
		}
		want := c.listed(t, g)
		for _, units := range []unitCounts{want, got} {
			for owner, of := range units {
				maps.DeleteFunc(of, func(start int64, _ map[string]uint64) bool { return start < from.Unix() || unknown[start] })
				if len(of) == 0 {
					delete(units, owner)
				}
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("grain %q: counted\n%v\nand the lists have\n%v", g, got, want)
		}
	}
}

// agrees fails the test unless a count of everything finds no difference.
func (c *countedStore) agrees(t require) {
	c.check(t)
	if differs, err := c.Events.RepairCounts(context.Background()); differs || err != nil {
		t.Fatalf("RepairCounts() = %v, %v", differs, err)
	}
	if _, err := c.CheckAll(context.Background()); err != nil {
		t.Fatalf("CheckAll() = %v", err)
	}
}

// kill opens the store again without what it had in memory.
func (c *countedStore) kill(t *testing.T) { c.Store = c.f.Reopened(t) }

func (c *countedStore) record(t *rapid.T) {
	owner := rapid.SampledFrom(countedAccounts).Draw(t, "account")
	for range rapid.IntRange(1, 12).Draw(t, "events") {
		kind := rapid.SampledFrom([]string{"customer", "plan", "invoice"}).Draw(t, "kind")
		if _, err := c.Events.RecordEvent(context.Background(), newEvent(owner, kind+".updated", rapid.SampledFrom(keptResources).Draw(t, "resource"))); err != nil {
			t.Fatal(err)
		}
	}
}

// history imports events of the last days, most of them below the head.
func (c *countedStore) history(t *rapid.T) {
	owner := rapid.SampledFrom(countedAccounts).Draw(t, "account")
	im := must.Get(c.Events.NewImporter(owner, eventlog.ImportOptions{SkipErrors: true}))(t)
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
	err := c.Events.SetRetention(context.Background(), rapid.SampledFrom([]time.Duration{0, aDay, 2 * aDay}).Draw(t, "kept"))
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

// restore puts a restored backup in the place of the store.
func (c *countedStore) restore(t *testing.T) {
	ctx := context.Background()
	var file bytes.Buffer
	must.Get(c.Backup(ctx, &file, store.BackupNotes{}))(t)
	b := must.Get(store.OpenBackup(&file))(t)
	defer b.Close()
	db := storetest.EmptyInMemory()
	must.Get(b.Load(ctx, db, c.f.Now()))(t)
	faults := storetest.NewFaults(db)
	c.f = storetest.Open(t, faults, c.f.Clock)
	c.f.Faults = faults
	c.Store = c.f.Store
}

// Promise (Monitoring): the counts of each hour and day, of an account and of all, equal its log after any
// order of appends, imports, purges, retention, erasures, restores, kills and steps of the clock
func TestCountsEqualTheLog(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	rapid.Check(t, func(rt *rapid.T) {
		c := newCountedStore(t)
		both := []*store.Store{c.Store, c.f.Reopened(t)}
		with := func(do func(*rapid.T)) func(*rapid.T) {
			return func(t *rapid.T) { c.Store = rapid.SampledFrom(both).Draw(t, "server"); do(t) }
		}
		reopened := func() { both = []*store.Store{c.f.Reopened(t), c.f.Reopened(t)} }
		rt.Repeat(map[string]func(*rapid.T){
			"record":  with(c.record),
			"record ": with(c.record),
			"history": with(c.history),
			"purge":   with(c.purge),
			"trim":    with(c.trim),
			"erase":   with(c.erase),
			"time": func(t *rapid.T) {
				c.f.Clock.Advance(time.Duration(rapid.IntRange(0, 300).Draw(t, "minutes")) * time.Minute)
			},
			"time stepped back": func(t *rapid.T) {
				c.steppedBack = true
				c.f.Clock.Advance(-time.Duration(rapid.IntRange(0, 90).Draw(t, "minutes")) * time.Minute)
			},
			"kill":    func(*rapid.T) { reopened() },
			"restore": func(*rapid.T) { c.restore(t); reopened() },
			"purge until killed": with(func(rt *rapid.T) {
				c.interrupted(rt, t, func(rt *rapid.T) error {
					_, err := c.PurgeEvents(ctx, store.By{}, eventlog.Purge{Account: rapid.SampledFrom(countedAccounts).Draw(rt, "account")})
					return err
				})
				reopened()
			}),
			"erase until killed": with(func(rt *rapid.T) {
				owner := rapid.SampledFrom(countedAccounts).Draw(rt, "account")
				c.interrupted(rt, t, func(*rapid.T) error { return c.DeleteAccount(ctx, owner) })
				if differs, err := c.Events.RepairCounts(ctx); differs || err != nil {
					rt.Fatalf("RepairCounts(half erased) = %v, %v", differs, err)
				}
				if err := c.DeleteAccount(ctx, owner); err != nil && !errors.Is(err, record.ErrNotFound) {
					rt.Fatal(err)
				}
				reopened()
			}),
			"": func(t *rapid.T) { with(func(t *rapid.T) { c.check(t) })(t) },
		})
		c.agrees(rt)
	})
}

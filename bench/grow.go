package main

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// What -grow lets grow: the accounts that share a number of events, and the connections
// that ask a server.
var (
	growAccounts    = []int{1, 30, 1000}
	growConnections = []int{1, 4, 16, 64, 256}
)

// growStore is a store whose events are shared by so many accounts.
type growStore struct {
	dir      string
	accounts int
	opened   []time.Duration
	disk     int64
}

// growScenario is one kind of request at one size.
type growScenario struct {
	*scenario
	what, size string
	smallest   *scenario // the same kind of request
	memory     []int64   // anonymous memory of the server after each round
}

// runGrow measures what requests cost over more connections, and among more accounts that
// share as many events. Each size has a server of its own. All are open and take
// turns.
func runGrow(s settings) error {
	dir, err := os.MkdirTemp("", "tollhouse-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var stores []*growStore
	for _, accounts := range growAccounts {
		if s.events/accounts < benchPage {
			fmt.Printf("left out: %d accounts, which need %d events\n", accounts, accounts*benchPage)
			continue
		}
		store := &growStore{dir: filepath.Join(dir, "accounts-"+strconv.Itoa(accounts)), accounts: accounts}
		if s.binary, err = store.fill(ctx, s); err != nil {
			return err
		}
		stores = append(stores, store)
	}
	var scenarios []*growScenario
	open := func(dir, size string, kinds func(*instance, string) []*growScenario) (func(), error) {
		ours, access, err := openChecked(ctx, s, dir)
		if err != nil {
			return nil, err
		}
		for _, sc := range kinds(ours, access) {
			sc.server, sc.size, sc.smallest = ours.server, size, sc.scenario
			if i := slices.IndexFunc(scenarios, func(o *growScenario) bool { return o.what == sc.what }); i >= 0 {
				sc.smallest = scenarios[i].scenario
			}
			scenarios = append(scenarios, sc)
		}
		return ours.stop, nil
	}
	for _, connections := range growConnections {
		own := filepath.Join(dir, "connections-"+strconv.Itoa(connections))
		if out, err := exec.CommandContext(ctx, "cp", "-a", stores[0].dir, own).CombinedOutput(); err != nil {
			return fmt.Errorf("copy the store: %w: %s", err, out)
		}
		end, err := open(own, "connections: "+strconv.Itoa(connections), func(t *instance, access string) []*growScenario {
			return t.overConnections(connections, s.events, access)
		})
		if err != nil {
			return err
		}
		defer end()
	}
	for _, store := range stores {
		end, err := open(store.dir, "accounts: "+strconv.Itoa(store.accounts), func(t *instance, access string) []*growScenario {
			return t.ofOneAccount(s.events, access)
		})
		if err != nil {
			return err
		}
		defer end()
		if store.disk, err = diskOf(filepath.Join(store.dir, "data")); err != nil {
			return err
		}
	}
	for round := range s.rounds {
		for _, sc := range scenarios {
			if ctx.Err() != nil {
				return fmt.Errorf("interrupted in round %d", round+1)
			}
			if err := sc.measure(s); err != nil {
				return fmt.Errorf("%s, %s: %w", sc.what, sc.size, err)
			}
			memory, err := sc.server.anonymousMemory()
			if err != nil {
				return err
			}
			sc.memory = append(sc.memory, memory)
		}
	}
	fmt.Printf("\n%d events, %d clients where connections are not named, %d rounds of %s each\n\n", s.events, s.clients, s.rounds, s.length)
	printGrown(os.Stdout, s.events, stores, scenarios)
	return nil
}

// fill makes the store through its running server, and opens it again as often as there
// are rounds.
func (g *growStore) fill(ctx context.Context, s settings) (binary string, err error) {
	if err := os.Mkdir(g.dir, 0o700); err != nil {
		return "", err
	}
	events := s.events
	s.events = 0
	t, err := startTollhouse(s, g.dir)
	if err != nil {
		return "", err
	}
	defer func() { t.stop() }()
	for i := range g.accounts {
		owner := account
		if i > 0 {
			owner += "_" + strconv.Itoa(i)
		}
		if err := ctx.Err(); err != nil {
			return "", err
		}
		if err := t.importEvents(owner, benchTypes, nil, 0, events/g.accounts, g.accounts); err != nil {
			return "", err
		}
	}
	for range s.rounds {
		t.stop()
		if err := t.serve(); err != nil {
			return "", err
		}
		g.opened = append(g.opened, t.took)
	}
	return t.binary, nil
}

// openChecked starts a server that has searched its store for damage.
func openChecked(ctx context.Context, s settings, dir string) (*instance, string, error) {
	ours, err := startTollhouse(s, dir)
	if err != nil {
		return nil, "", err
	}
	access, _, err := ours.passwordGrant(http.DefaultClient)
	if err == nil {
		err = ours.untilChecked(ctx)
	}
	if err != nil {
		ours.stop()
	}
	return ours, access, err
}

func (t *instance) overConnections(connections, events int, access string) []*growScenario {
	anywhere := func() string {
		return t.text("url") + ourPaths.page(firstSecond+events/eventsASecond-rand.IntN(events/eventsASecond/3))
	}
	return []*growScenario{
		{what: "page by type from anywhere", scenario: &scenario{clients: connections, client: getEach(anywhere, access, constantPageSize/2)}},
		{what: "event by id", scenario: &scenario{clients: connections, client: t.anEvent(access)}},
		{what: "refresh rotation", scenario: &scenario{clients: connections, client: t.rotate}},
	}
}

func (t *instance) ofOneAccount(events int, access string) []*growScenario {
	newest := func() string { // another question each time, as a page that repeats is kept
		return t.text("url") + "/api/events?" + url.Values{"limit": {strconv.Itoa(benchPage)}, "createdAt[lte]": {strconv.Itoa(firstSecond + events + rand.IntN(1<<20))}}.Encode()
	}
	return []*growScenario{
		{what: "newest page of one account", scenario: &scenario{client: getEach(newest, access, constantPageSize/2)}},
		{what: "event by id, one account", scenario: &scenario{client: t.anEvent(access)}},
		{what: "recording an event", scenario: &scenario{client: func(hc *http.Client) (func() error, error) {
			resource, turn := fmt.Sprintf("%s/api/resources/note/grow_%d", t.text("url"), rand.Int64()), 0
			return func() error {
				turn++
				_, err := ask(hc, access, "PUT", resource, fmt.Sprintf(`{"turn":%d}`, turn))
				return err
			}, nil
		}}},
	}
}

// anEvent is a client that reads the newest event.
func (t *instance) anEvent(access string) func(*http.Client) (func() error, error) {
	return func(hc *http.Client) (func() error, error) {
		id, _, err := checkPage(t.text("url")+"/api/events?limit="+strconv.Itoa(benchPage), access)
		if err != nil {
			return nil, err
		}
		return get(t.text("url")+ourPaths.event(id), access, 1)(hc)
	}
}

// diskOf returns the bytes of the blocks that the files of a folder have, without the
// reserve, which is space for merges.
func diskOf(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() == "reserve" {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			sum += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
		return err
	})
	return sum, err
}

// printGrown prints medians over the rounds. The ratio is of processor time, to the same
// request at the smallest size, round by round.
func printGrown(w io.Writer, events int, stores []*growStore, scenarios []*growScenario) {
	fmt.Fprint(w, "| what | size | requests/s (min–max) | p50 | p99 | CPU | against the smallest (min–max) | anonymous memory after it |\n|---|---|---|---|---|---|---|---|\n")
	for _, sc := range scenarios {
		rate := func(m measured) float64 { return m.perSecond }
		low, high := extremes(sc.rounds, rate)
		ratios := sc.costAgainst(sc.smallest)
		fmt.Fprintf(w, "| %s | %s | %.0f (%.0f–%.0f) | %s | %s | %s | %.2f × (%.2f–%.2f) | %.0f MiB |\n", sc.what, sc.size, median(sc.rounds, rate), low, high,
			median(sc.rounds, func(m measured) time.Duration { return m.p50 }).Round(time.Microsecond),
			median(sc.rounds, func(m measured) time.Duration { return m.p99 }).Round(time.Microsecond),
			median(sc.rounds, func(m measured) time.Duration { return m.cpu }),
			median(ratios, same), slices.Min(ratios), slices.Max(ratios),
			median(sc.memory, func(bytes int64) float64 { return float64(bytes) / (1 << 20) }))
	}
	fmt.Fprint(w, "\n| accounts | disk, bytes an event | ready after (min–max) |\n|---|---|---|\n")
	for _, store := range stores {
		low, high := extremes(store.opened, func(d time.Duration) time.Duration { return d })
		fmt.Fprintf(w, "| %d | %d | %s (%s–%s) |\n", store.accounts, store.disk/int64(events/store.accounts*store.accounts),
			inMillis(median(store.opened, func(d time.Duration) time.Duration { return d })), inMillis(low), inMillis(high))
	}
}

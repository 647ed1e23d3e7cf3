package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

// pageTypes are the types of the events whose pages are measured, each as
// frequent as any other.
var pageTypes = func() (types []string) {
	for _, kind := range []string{"customer", "account", "transaction", "invoice", "recurring", "batch", "deposit", "token"} {
		for _, action := range []string{"created", "updated", "settled", "paid", "sent", "closed"} {
			types = append(types, kind+"."+action)
		}
	}
	return types
}()

// sizesMax bounds the stores of one run: each is a process.
const sizesMax = 4

// parseSizes reads numbers of events, parted by commas.
func parseSizes(text string) (sizes []int, err error) {
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 10_000 || n > eventsMax || len(sizes) == sizesMax {
			return nil, fmt.Errorf("-pages %s: give up to %d numbers from 10000 to %d, parted by commas", text, sizesMax, eventsMax)
		}
		sizes = append(sizes, n)
	}
	return sizes, nil
}

// pageScenario is one kind of page of a store of one size.
type pageScenario struct {
	*scenario
	events      int
	page, where string
}

// runPages measures pages of events by time and by one, three and twenty types
// of 48, the newest and from anywhere, of stores of several sizes, one event by
// its id, and what a tail asks, next to a constant page and an empty answer. All
// stores are open and take turns, so that what a page costs more in a
// larger one is of one run too.
func runPages(s settings, list string) error {
	sizes, err := parseSizes(list)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "tollhouse-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	floor, err := startFloor()
	if err != nil {
		return err
	}
	defer floor.stop()
	empty := &pageScenario{scenario: &scenario{server: floor, client: get(floor.text("url")+"/empty", "", 0)}, page: "floor: empty answer"}
	constant := &pageScenario{scenario: &scenario{server: floor, client: get(floor.text("url")+"/page", "", constantPageSize)}, page: "floor: constant 92 KB page"}
	scenarios := []*pageScenario{empty, constant}
	var stores []*openStore
	for _, events := range sizes {
		own := filepath.Join(cmp.Or(s.stores, dir), strconv.Itoa(events))
		if err := os.MkdirAll(own, 0o700); err != nil {
			return err
		}
		s.events, s.types = events, pageTypes
		ours, err := startTollhouse(s, own)
		if err != nil {
			return err
		}
		defer ours.stop()
		s.binary = ours.binary
		if err := ours.untilChecked(ctx); err != nil {
			return err
		}
		stores = append(stores, &openStore{server: ours.server, events: events})
		more, err := ours.pageScenarios(events, constant.scenario, empty.scenario)
		if err != nil {
			return err
		}
		scenarios = append(scenarios, more...)
	}
	for round := range s.rounds {
		for _, sc := range scenarios {
			if ctx.Err() != nil {
				return fmt.Errorf("interrupted in round %d", round+1)
			}
			if err := sc.measure(s); err != nil {
				return fmt.Errorf("%s: %w", sc.page, err)
			}
		}
		for _, o := range stores {
			memory, err := o.anonymousMemory()
			if err != nil {
				return err
			}
			o.memory = max(o.memory, memory)
		}
	}
	fmt.Printf("%d clients, %d rounds of %s each\n\n", s.clients, s.rounds, s.length)
	for _, o := range stores {
		fmt.Printf("%d events: ready after %s, at most %.0f MiB of anonymous memory behind a round of pages\n", o.events, o.took.Round(time.Millisecond), float64(o.memory)/(1<<20))
	}
	fmt.Println()
	return printPages(os.Stdout, scenarios)
}

// checkMax bounds how long a server may search its store for damage.
const checkMax = 30 * time.Minute

// untilChecked waits until a server has searched its store for damage, which it
// does once behind its start, and which would be measured with the pages.
func (t *instance) untilChecked(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, checkMax)
	defer stop()
	for {
		out, err := t.command("status", "--json")
		if err != nil {
			return err
		}
		var answer struct {
			Check struct{ Ended int64 }
		}
		if err := json.Unmarshal(out, &answer); err != nil || answer.Check.Ended > 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the search for damage did not end: %w", ctx.Err())
		case <-time.After(time.Second):
		}
	}
}

// openStore is a server of the run, and what its memory came to.
type openStore struct {
	*server
	events int
	memory int64
}

// pageScenarios returns what is measured of one store, whose answers are checked.
func (t *instance) pageScenarios(events int, constant, empty *scenario) (scenarios []*pageScenario, err error) {
	access, _, err := t.passwordGrant(http.DefaultClient)
	if err != nil {
		return nil, err
	}
	last := firstSecond + events/eventsASecond
	for _, where := range []string{"newest", "random"} {
		before := func() int { return last + rand.IntN(1<<20) } // another question each time, as a page that repeats is kept
		if where == "random" {                                  // in the newest third, so that each type has a page before
			before = func() int { return last - rand.IntN(events/eventsASecond/3) }
		}
		for _, of := range []struct {
			page  string
			types []string
		}{{"by time", nil}, {"by one type", pageTypes[:1]}, {"by three types", pageTypes[1:4]}, {"by twenty types", pageTypes[5:25]}} {
			address := func() string {
				query := url.Values{"limit": {strconv.Itoa(benchPage)}, "createdAt[lte]": {strconv.Itoa(before())}}
				if of.types != nil {
					query.Set("type", strings.Join(of.types, ","))
				}
				return t.text("url") + "/api/events?" + query.Encode()
			}
			_, size, err := checkPage(address(), access)
			if err != nil {
				return nil, err
			}
			scenarios = append(scenarios, &pageScenario{
				scenario: &scenario{server: t.server, floor: constant, client: getEach(address, access, size/2)},
				events:   events, page: of.page, where: where,
			})
		}
	}
	id, _, err := checkPage(t.text("url")+"/api/events?limit="+strconv.Itoa(benchPage), access)
	if err != nil {
		return nil, err
	}
	scenarios = append(scenarios, &pageScenario{
		scenario: &scenario{server: t.server, floor: empty, client: getEach(func() string { return t.text("url") + ourPaths.event(anyEventID(events)) }, access, 1)},
		events:   events, page: "one event by id", where: "random",
	}, &pageScenario{
		scenario: &scenario{server: t.server, floor: empty, client: get(t.text("url")+ourPaths.event(id), access, 1)},
		events:   events, page: "the same event each time", where: "newest",
	})
	return append(scenarios, t.tailScenarios(events, empty, access)...), nil
}

// getEach is get of an address that is new each time.
func getEach(address func() string, bearer string, sizeMin int64) func(*http.Client) (func() error, error) {
	return func(hc *http.Client) (func() error, error) {
		return func() error {
			step, err := get(address(), bearer, sizeMin)(hc)
			if err != nil {
				return err
			}
			return step()
		}, nil
	}
}

// printPages prints the medians over the rounds. The ratios are of processor time
// of the server for one request, each of one round: to the floor, with how far
// it strays, to the page by one type of the same store and place, and to the same
// page of the first store.
func printPages(w io.Writer, scenarios []*pageScenario) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "events\tpage\twhere\treq/s\tmin–max\tp50\tp99\tserver CPU\t: floor\tmin–max\t: one type\t: first size\t")
	find := func(match func(*pageScenario) bool) *scenario {
		if i := slices.IndexFunc(scenarios, match); i >= 0 {
			return scenarios[i].scenario
		}
		return nil
	}
	for _, sc := range scenarios {
		rate := func(m measured) float64 { return m.perSecond }
		low, high := extremes(sc.rounds, rate)
		events := "–"
		if sc.events > 0 {
			events = strconv.Itoa(sc.events)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%.0f\t%.0f–%.0f\t%s\t%s\t%s", events, sc.page, sc.where, median(sc.rounds, rate), low, high,
			median(sc.rounds, func(m measured) time.Duration { return m.p50 }).Round(time.Microsecond),
			median(sc.rounds, func(m measured) time.Duration { return m.p99 }).Round(time.Microsecond),
			median(sc.rounds, func(m measured) time.Duration { return m.cpu }))
		if sc.floor == nil {
			fmt.Fprint(t, "\t–\t–\t–\t–\t\n")
			continue
		}
		ratios := sc.costAgainst(sc.floor)
		least, most := extremes(ratios, same)
		fmt.Fprintf(t, "\t%.2f\t%.2f–%.2f", median(ratios, same), least, most)
		one := find(func(o *pageScenario) bool {
			return o.events == sc.events && o.where == sc.where && o.page == "by one type"
		})
		first := find(func(o *pageScenario) bool { return o.page == sc.page && o.where == sc.where })
		for _, other := range []*scenario{one, first} {
			if other == sc.scenario || sc.floor == scenarios[0].scenario && other == one {
				fmt.Fprint(t, "\t–")
				continue
			}
			fmt.Fprintf(t, "\t%.2f", median(sc.costAgainst(other), same))
		}
		fmt.Fprint(t, "\t\n")
	}
	return t.Flush()
}

// costAgainst returns how many times the processor time of another's request
// one of sc takes, round by round.
func (sc *scenario) costAgainst(other *scenario) (ratios []float64) {
	for i, m := range sc.rounds {
		ratios = append(ratios, float64(m.cpu)/float64(max(other.rounds[i].cpu, 1)))
	}
	return ratios
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// clientFunc makes one client of a scenario.
type clientFunc = func(*http.Client) (func() error, error)

// kind is one kind of request, as a server is asked for it.
type kind struct {
	name string
	of   func(from eventServer, rotate clientFunc) clientFunc
}

// runDatabase measures tollhouse on PostgreSQL beside the peer that is written by hand, on the
// same PostgreSQL: one server, and two that share the clients. Then it holds a snapshot of the
// database open for some time, and measures what is left of the rates of writes.
func runDatabase(s settings, held time.Duration) error {
	dir, err := os.MkdirTemp("", "tollhouse-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	hand, servers, err := startOnOneDatabase(ctx, s, dir)
	for _, server := range append(servers, hand) {
		if server.server != nil {
			defer server.stop()
		}
	}
	if err != nil {
		return err
	}
	id, size, err := checkPage(servers[0].text("url")+ourPaths.page(0), servers[0].bearer)
	if err != nil {
		return err
	}
	if err := sameEvents(servers[0].eventServer, hand.eventServer, id, 0); err != nil {
		return err
	}
	before := func() int { return firstSecond + s.events/eventsASecond - rand.IntN(s.events/eventsASecond/3) }
	kinds := []kind{
		{"event by id", func(from eventServer, _ clientFunc) clientFunc {
			return get(from.text("url")+from.event(id), from.bearer, 1)
		}},
		{"page by type and range", func(from eventServer, _ clientFunc) clientFunc {
			return getEach(func() string { return from.text("url") + from.page(before()) }, from.bearer, size/2)
		}},
		{"newest page by type", func(from eventServer, _ clientFunc) clientFunc {
			return get(from.text("url")+from.page(0), from.bearer, size/2)
		}},
		{"refresh", func(_ eventServer, rotate clientFunc) clientFunc { return rotate }},
		{"append to one log", func(from eventServer, _ clientFunc) clientFunc {
			return putEach(from.text("url")+"/api/resources/customer/", from.bearer)
		}},
	}
	fmt.Printf("%d events, %d rounds of %s each\n\n", s.events, s.rounds, s.length)
	fmt.Print("| what | clients | hand-written pgx, requests/s | one server, beside it | two servers, beside it |\n|---|---|---|---|---|\n")
	for _, k := range kinds {
		for _, clients := range []int{1, 16, 64} {
			scenarioOf := func(at ...onDatabase) *scenario {
				var each []clientFunc
				for _, a := range at {
					each = append(each, k.of(a.eventServer, a.rotate))
				}
				return &scenario{name: k.name, server: at[0].server, clients: clients, client: inTurn(each)}
			}
			byHand, one, two := scenarioOf(hand), scenarioOf(servers[0]), scenarioOf(servers...)
			if err := measureInTurn(ctx, s, s.rounds, byHand, one, two); err != nil {
				return err
			}
			fmt.Printf("| %s | %d | %s | %s | %s |\n", k.name, clients, spread(rates(byHand), "%.0f"), spread(ratios(one, byHand), "%.2f"), spread(ratios(two, byHand), "%.2f"))
		}
	}
	if held > 0 {
		return underSnapshot(ctx, s, filepath.Join(dir, "pg"), held, servers[0], kinds[len(kinds)-2:])
	}
	return nil
}

// underSnapshot measures kinds of writes of 16 clients before a snapshot is taken and at the
// end of the time for which it is open. The writers go on all the time.
func underSnapshot(ctx context.Context, s settings, socket string, held time.Duration, at onDatabase, kinds []kind) error {
	var all []*scenario
	for _, k := range kinds {
		all = append(all, &scenario{name: k.name, server: at.server, clients: 16, client: k.of(at.eventServer, at.rotate)})
	}
	if err := measureInTurn(ctx, s, s.rounds, all...); err != nil {
		return err
	}
	db, err := pgx.Connect(ctx, "host="+socket+" user=postgres dbname=tollhouse")
	if err != nil {
		return err
	}
	defer db.Close(context.Background())
	if _, err := db.Exec(ctx, "begin isolation level repeatable read; select count(*) from pg_class"); err != nil {
		return err
	}
	for begun := time.Now(); time.Since(begun) < held; {
		if err := measureInTurn(ctx, s, 1, all...); err != nil {
			return err
		}
	}
	fmt.Printf("\n| 16 clients | before, requests/s | after a snapshot was open for %s | kept |\n|---|---|---|---|\n", held)
	for _, sc := range all {
		list := rates(sc)
		before, after := list[:s.rounds], list[max(s.rounds, len(list)-s.rounds):]
		fmt.Printf("| %s | %s | %s | %.2f |\n", sc.name, spread(before, "%.0f"), spread(after, "%.0f"), median(after, same)/median(before, same))
	}
	return nil
}

// onDatabase is a server on the database, with a client that refreshes its tokens.
type onDatabase struct {
	eventServer
	rotate clientFunc
}

// startOnOneDatabase starts the peer that is written by hand and two servers on its PostgreSQL,
// with the same events. It also returns what has started before an error.
func startOnOneDatabase(ctx context.Context, s settings, dir string) (hand onDatabase, servers []onDatabase, err error) {
	if err := os.Chmod(dir, 0o755); err != nil { // PostgreSQL may run as another user
		return hand, nil, err
	}
	file := filepath.Join(dir, "events.ndjson")
	binary, err := writeEvents(s, dir, file)
	if err != nil {
		return hand, nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return hand, nil, err
	}
	served, err := start(self, "-serve-peer", "postgres", "-peer-dir", dir)
	if err != nil {
		return hand, nil, err
	}
	hand = onDatabase{eventServer{served, peerSecret, &ourPaths}, rotateAt(served.text("url"))}
	if why := served.text("absent"); why != "" {
		return hand, nil, errors.New(why)
	}
	first, err := startTollhouseBeside(ctx, binary, dir, file)
	if err != nil {
		return hand, nil, err
	}
	second := *first
	second.server = nil
	err = second.serveOn(dir)
	for _, t := range []*instance{first, &second} {
		if t.server == nil {
			continue
		}
		bearer, _, failed := t.passwordGrant(http.DefaultClient)
		err = cmp.Or(err, failed)
		servers = append(servers, onDatabase{eventServer{t.server, bearer, &ourPaths}, t.rotate})
	}
	return hand, servers, err
}

// writeEvents writes the events of a store in a directory as the API has them, and returns the
// binary of tollhouse.
func writeEvents(s settings, dir, file string) (binary string, err error) {
	t, err := startTollhouse(s, dir)
	if err != nil {
		return "", err
	}
	defer t.stop()
	access, _, err := t.passwordGrant(http.DefaultClient)
	if err != nil {
		return "", err
	}
	return t.binary, t.saveEvents(file, access)
}

func measureInTurn(ctx context.Context, s settings, rounds int, all ...*scenario) error {
	for range rounds {
		for _, sc := range all {
			if ctx.Err() != nil {
				return errors.New("interrupted")
			}
			if err := sc.measure(s); err != nil {
				return fmt.Errorf("%s: %w", sc.name, err)
			}
		}
	}
	return nil
}

// inTurn makes one client after another, of each server in turn.
func inTurn(each []clientFunc) clientFunc {
	next := 0
	return func(hc *http.Client) (func() error, error) {
		next++
		return each[next%len(each)](hc)
	}
}

// puts numbers the changes, so that each changes something.
var puts atomic.Int64

// putEach is a client that puts one of 5,000 resources, another change each time.
func putEach(address, bearer string) clientFunc {
	notes := strings.Repeat("lorem ipsum ", 42)
	return func(hc *http.Client) (func() error, error) {
		return func() error {
			n := puts.Add(1)
			r, err := http.NewRequest("PUT", fmt.Sprintf("%scus_%d", address, n%5000), strings.NewReader(fmt.Sprintf(`{"notes":"%s%d"}`, notes, n)))
			if err != nil {
				return err
			}
			r.Header.Set("Authorization", "Bearer "+bearer)
			r.Header.Set("Content-Type", "application/json")
			_, err = send(hc, r)
			return err
		}, nil
	}
}

func rates(sc *scenario) (list []float64) {
	for _, m := range sc.rounds {
		list = append(list, m.perSecond)
	}
	return list
}

// ratios compares round by round.
func ratios(a, b *scenario) []float64 {
	return pairs(&scenario{rounds: a.rounds, floor: b}, func(a, b measured) float64 { return a.perSecond / b.perSecond })
}

// spread is the median, with the least and the most.
func spread(list []float64, format string) string {
	return fmt.Sprintf(format+" ("+format+"–"+format+")", median(list, same), slices.Min(list), slices.Max(list))
}

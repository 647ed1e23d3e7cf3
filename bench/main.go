// Command bench measures tollhouse next to the floors that no server over
// net/http can go below, in one run on one machine: it starts each server as a
// process of its own on loopback, checks that their answers are what they
// should be, and then runs them in turn, round after round, so that whatever
// else the machine does falls on all alike.
//
//	go run . -rounds 5 -seconds 2
//	go run . -pages 10000,1000000,10000000 -stores DIR
//
// The second measures pages of events alone, of stores of these sizes, and says
// what it took to load them. With -peers it measures next to other servers, and
// installs or builds some of them; with -grow, over more connections and among more
// accounts; with -database, one server and two on PostgreSQL next to what one writes by hand,
// and under a snapshot that is held open (-snapshot 5m). Only the ratios within one run mean anything.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

type settings struct {
	rounds  int
	length  time.Duration
	clients int
	events  int
	types   []string // of the events; benchTypes when nil
	binary  string
	ingest  int
	ready   int
	stores  string // a directory in which stores are kept; "" for none
}

// The bounds of a run: it ends by itself, whatever it is asked.
const (
	roundsMax  = 50
	secondsMax = 60
	clientsMax = 256
	eventsMax  = 10_000_000
	startsMax  = 500

	snapshotMax = time.Hour
)

func main() {
	var s settings
	var seconds float64
	flag.IntVar(&s.rounds, "rounds", 5, "rounds; the median is quoted")
	flag.Float64Var(&seconds, "seconds", 2, "seconds of load a scenario and round")
	flag.IntVar(&s.clients, "clients", 16, "concurrent clients")
	flag.IntVar(&s.events, "events", 10_000, "events in the store")
	flag.StringVar(&s.binary, "tollhouse", "", "the binary to measure; built from the folder above when not given")
	pages := flag.String("pages", "", "measure pages of events by the number of types instead, of stores of so many events: 10000,1000000")
	flag.StringVar(&s.stores, "stores", "", "with -pages: keep the stores in this directory, and measure those that are there already")
	flag.IntVar(&s.ingest, "ingest", 0, "measure the import of so many events a round instead")
	flag.IntVar(&s.ready, "ready", 0, "measure so many starts of dev, and of serve on a fresh directory, instead")
	beside := flag.Bool("peers", false, "measure refreshes and events next to other servers instead")
	grow := flag.Bool("grow", false, "measure requests over 1 to 256 connections, and events that 1 to 1,000 accounts share, instead")
	database := flag.Bool("database", false, "measure one server and two on PostgreSQL next to hand-written pgx instead")
	held := flag.Duration("snapshot", 0, "with -database: measure writes also while a snapshot is open for so long")
	peerName := flag.String("serve-peer", "", "serve a peer (bench starts itself so)")
	peerDir := flag.String("peer-dir", "", "where that peer has its data")
	serveFloor := flag.Bool("serve-floor", false, "serve the floors (bench starts itself so)")
	flag.Parse()
	if *serveFloor {
		exit(runFloor())
	}
	if *peerName != "" {
		exit(servePeer(*peerName, *peerDir))
	}
	s.rounds, s.clients, s.events = min(s.rounds, roundsMax), min(s.clients, clientsMax), min(s.events, eventsMax)
	s.ingest = min(s.ingest, eventsMax)
	s.length = time.Duration(min(seconds, secondsMax) * float64(time.Second))
	if *pages != "" {
		exit(runPages(s, *pages))
	}
	if *beside {
		exit(runPeers(s))
	}
	if *database {
		exit(runDatabase(s, min(*held, snapshotMax)))
	}
	if *grow {
		exit(runGrow(s))
	}
	if s.ingest > 0 {
		exit(runIngest(s))
	}
	if s.ready = min(s.ready, startsMax); s.ready > 0 {
		exit(runReady(s))
	}
	exit(run(s))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(s settings) error {
	dir, err := os.MkdirTemp("", "tollhouse-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)

	floor, err := startFloor()
	if err != nil {
		return err
	}
	defer floor.stop()
	ours, err := startTollhouse(s, dir)
	if err != nil {
		return err
	}
	defer ours.stop()

	scenarios, err := scenariosOf(s, floor, ours)
	if err != nil {
		return err
	}
	fmt.Printf("%s, %d cores, %d clients, %d events, %d rounds of %s each\n\n", runtime.Version(), runtime.NumCPU(), s.clients, s.events, s.rounds, s.length)
	for round := range s.rounds {
		for _, sc := range scenarios {
			select {
			case <-interrupted:
				return fmt.Errorf("interrupted in round %d", round+1)
			default:
			}
			if err := sc.measure(s); err != nil {
				return fmt.Errorf("%s: %w", sc.name, err)
			}
		}
	}
	printTable(os.Stdout, scenarios)
	return nil
}

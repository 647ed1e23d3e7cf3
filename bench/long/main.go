// Command long runs the proofs that take hours: kills, power cuts, full disks, overload,
// simulation, fuzzing. It keeps what each run has measured in runs.jsonl, and writes
// docs/internals/reliability.md from it. Run it in bench:
//
//	go run ./long --list                             the parts and their progress
//	go run ./long --only R1,R10 --again --for 30m    half an hour of each of their parts
//	go run ./long                                    every part, until it meets its goals
//
// --only also takes the name of a part. A part that has met its goals runs only with --again.
//
// A part runs in slices, and each finished slice is kept: an interrupted part continues at
// the next call.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"
)

const (
	runsFile = "bench/long/runs.jsonl"
	pageFile = "docs/internals/reliability.md"

	sliceTime = 10 * time.Minute // what an interruption can lose
	wholeTime = 2 * time.Hour    // of a part that is one run
	noEnd     = 1000 * time.Hour
)

func main() {
	only := flag.String("only", "", "rows to run, such as R1,R10, or parts by name; all when not given")
	length := flag.Duration("for", noEnd, "how long each part of a row may run, such as 30m")
	again := flag.Bool("again", false, "run also what has reached its goals: once, or for as long as --for says")
	list := flag.Bool("list", false, "list the parts and their progress, write the page, and run nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := long(ctx, *only, *length, *again, *list); err != nil {
		fmt.Fprintln(os.Stderr, "long:", err)
		os.Exit(1)
	}
}

func long(ctx context.Context, only string, length time.Duration, again, list bool) error {
	if err := os.Chdir(".."); err != nil { // to the sources
		return err
	}
	runs, err := readRuns(runsFile)
	if err != nil {
		return err
	}
	chosen, err := choose(only)
	if err != nil {
		return err
	}
	if list {
		fmt.Print(overview(chosen, runs))
		fmt.Println("written:", pageFile)
		return os.WriteFile(pageFile, []byte(page(rows, runs)), 0o644)
	}
	failed := 0
	for _, r := range chosen {
		for _, p := range r.parts {
			runs, err = runPart(ctx, r, p, runs, length, again)
			if err != nil {
				return err
			}
			if last := ofPart(runs, p.name); len(last) > 0 && last[len(last)-1].Failed != "" {
				failed++
			}
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d parts failed at their last run; %s has what they printed", failed, pageFile)
	}
	return nil
}

// runPart runs a part slice by slice until more runs cannot bring it nearer to its goals, it
// fails, or its time is over.
func runPart(ctx context.Context, r row, p part, runs []run, length time.Duration, again bool) ([]run, error) {
	end := time.Now().Add(length)
	for first := true; ; first = false {
		if !p.wants(runs) && (!again || !first && length == noEnd) {
			if first {
				fmt.Printf("%s, %s: nothing is left to run; --again runs it all the same\n", r.id, p.name)
			}
			return runs, nil
		}
		left := time.Until(end).Round(time.Second)
		if left <= 0 {
			return runs, nil
		}
		slice := min(left, sliceTime)
		if p.whole {
			slice = min(left, wholeTime)
		}
		fmt.Printf("%s, %s, for %v\n", r.id, p.name, slice)
		done, err := p.run(ctx, slice)
		if err != nil {
			return runs, err
		}
		fmt.Print(done.summary())
		if err := appendRun(runsFile, done); err != nil {
			return runs, err
		}
		runs = append(runs, done)
		if err := os.WriteFile(pageFile, []byte(page(rows, runs)), 0o644); err != nil {
			return runs, err
		}
		if done.Failed != "" || done.Skipped != "" || p.whole {
			return runs, nil
		}
	}
}

func choose(only string) ([]row, error) {
	if only == "" {
		return rows, nil
	}
	if chosen := partsOf(only); len(chosen) > 0 { // some names have commas
		return chosen, nil
	}
	var chosen []row
	for name := range strings.SplitSeq(only, ",") {
		name = strings.TrimSpace(name)
		found := slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return !strings.EqualFold(r.id, name) })
		if len(found) == 0 {
			found = partsOf(name)
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("--only: there is no row and no part %q; --list shows them", name)
		}
		chosen = append(chosen, found...)
	}
	return chosen, nil
}

// partsOf returns the rows with no parts but those of that name.
func partsOf(name string) (found []row) {
	for _, r := range rows {
		r.parts = slices.DeleteFunc(slices.Clone(r.parts), func(p part) bool { return p.name != name })
		if len(r.parts) > 0 {
			found = append(found, r)
		}
	}
	return found
}

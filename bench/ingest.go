package main

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

// runIngest measures the import of events over the admin socket, all of them
// synced, next to the fastest that the engine itself takes in the same bytes: its
// own WriteBatch of each event and of its covering copy, and nothing else. Both
// stores grow from round to round, and lie on the same disk.
func runIngest(s settings) error {
	dir, err := os.MkdirTemp("", "tollhouse-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ours, err := startTollhouse(settings{binary: s.binary, events: benchPage}, dir)
	if err != nil {
		return err
	}
	defer ours.stop()
	engine, err := badger.Open(engineOptions(filepath.Join(dir, "floor")))
	if err != nil {
		return err
	}
	defer engine.Close()

	var rounds []ingestRound
	file := filepath.Join(dir, "ingest.ndjson")
	for round := range s.rounds {
		if err := writeEventsFrom(file, (round+1)*s.ingest, s.ingest); err != nil {
			return err
		}
		var r ingestRound
		floor := func() (err error) { r.floor, err = batchWritten(engine, file); return err }
		ingest := func() (err error) { r.ours, err = ours.imported(file, s.ingest); return err }
		order := []func() error{floor, ingest}
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, measure := range order {
			if err := measure(); err != nil {
				return err
			}
		}
		rounds = append(rounds, r)
	}
	fmt.Printf("%d events a round, %d rounds\n\n", s.ingest, s.rounds)
	return printIngest(os.Stdout, s.ingest, rounds)
}

// ingestRound is what one round took, of the floor and of ours.
type ingestRound struct{ floor, ours taken }

type taken struct {
	wall   time.Duration
	server time.Duration // processor time of who stores
	client time.Duration // and of who sends
}

// engineOptions are those with which tollhouse opens the engine: engine in
// store/kv/badgerkv/options.go, with the default of --memory.
func engineOptions(dir string) badger.Options {
	o := badger.DefaultOptions(dir).
		WithLogger(nil).WithSyncWrites(true).WithDetectConflicts(false).WithNumVersionsToKeep(1).
		WithMemTableSize(8 << 20).WithNumMemtables(2).WithBaseTableSize(512 << 10).
		WithValueThreshold(128 << 10).WithVLogPercentile(0).WithValueLogFileSize(16 << 20).
		WithBlockSize(16 << 10).WithBlockCacheSize(38 << 20).WithIndexCacheSize(0).
		WithBaseLevelSize(256 << 20).WithNumLevelZeroTables(8).WithNumLevelZeroTablesStall(20).WithCompactL0OnClose(false).
		WithCompression(options.Snappy).WithNumCompactors(2).WithMetricsEnabled(false).
		WithChecksumVerificationMode(options.NoVerification)
	o.TableSizeMultiplier = 4
	return o
}

// batchWritten stores each line of a file twice, under keys of the length and
// the order of tollhouse's own, and returns what that took; the file is read
// before.
func batchWritten(engine *badger.DB, path string) (taken, error) {
	pairs, err := pairsOf(path)
	if err != nil {
		return taken{}, err
	}
	cpuBefore, err := ownCPU()
	if err != nil {
		return taken{}, err
	}
	started := time.Now()
	batch := engine.NewWriteBatch()
	defer batch.Cancel()
	for _, p := range pairs {
		if err := batch.Set(p.key, p.value); err != nil {
			return taken{}, err
		}
	}
	if err := batch.Flush(); err != nil {
		return taken{}, err
	}
	wall := time.Since(started)
	cpuAfter, err := ownCPU()
	return taken{wall: wall, server: cpuAfter - cpuBefore}, err
}

type pair struct{ key, value []byte }

func pairsOf(path string) ([]pair, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var pairs []pair
	for line := range bytes.Lines(data) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		second, typ := fieldOf(line, `"createdAt":`, "}"), fieldOf(line, `"type":"`, `"`)
		place := binary.BigEndian.AppendUint64([]byte(second), uint64(len(pairs)))
		pairs = append(pairs,
			pair{slices.Concat([]byte("e"+account+"\x00"), place), line},
			pair{slices.Concat([]byte("y"+account+"\x00"+typ+"\x00"), place), line})
	}
	return pairs, nil
}

// fieldOf returns the text between a mark and an end.
func fieldOf(line []byte, mark, end string) string {
	_, rest, _ := strings.Cut(string(line), mark)
	text, _, _ := strings.Cut(rest, end)
	return text
}

// imported sends a file by the command that an operator would use.
func (t *instance) imported(file string, events int) (taken, error) {
	cpuBefore, err := t.cpu()
	if err != nil {
		return taken{}, err
	}
	started := time.Now()
	cmd := exec.Command(t.binary, slices.Concat([]string{"event", "import", file, "--account", account, "--json"}, t.where)...)
	out, err := cmd.Output()
	wall := time.Since(started)
	if err != nil {
		return taken{}, fmt.Errorf("import: %w: %s", err, out)
	}
	if want := fmt.Sprintf(`"recorded":%d,`, events); !strings.Contains(string(out), want) {
		return taken{}, fmt.Errorf("import said %s, want %s", out, want)
	}
	cpuAfter, err := t.cpu()
	return taken{wall: wall, server: cpuAfter - cpuBefore, client: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}, err
}

func ownCPU() (time.Duration, error) {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0, err
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()), nil
}

// printIngest prints the medians over the rounds and how far they stray. A ratio
// is of one round, whose two halves had the same machine.
func printIngest(w io.Writer, events int, rounds []ingestRound) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "what\tdurability\tevents/s\tmin–max\tCPU an event\tof the client\t")
	each := func(name string, of func(ingestRound) taken) {
		rate := func(r ingestRound) float64 { return float64(events) / of(r).wall.Seconds() }
		low, high := extremes(rounds, rate)
		cpu := median(rounds, func(r ingestRound) time.Duration { return of(r).server / time.Duration(events) })
		client := median(rounds, func(r ingestRound) time.Duration { return of(r).client / time.Duration(events) })
		fmt.Fprintf(t, "%s\tsynced\t%.0f\t%.0f–%.0f\t%s\t%s\t\n", name, median(rounds, rate), low, high, cpu, client)
	}
	each("floor: WriteBatch, event and covering copy", func(r ingestRound) taken { return r.floor })
	each("event import over the admin socket", func(r ingestRound) taken { return r.ours })
	if err := t.Flush(); err != nil {
		return err
	}
	// Both stores are as many events larger in each round.
	for _, of := range []struct {
		name string
		half func(ingestRound) taken
	}{{"floor", func(r ingestRound) taken { return r.floor }}, {"import", func(r ingestRound) taken { return r.ours }}} {
		fmt.Fprintf(w, "\nCPU an event, round by round, %s:", of.name)
		for _, r := range rounds {
			fmt.Fprintf(w, " %s", (of.half(r).server / time.Duration(events)).Round(100*time.Nanosecond))
		}
	}
	fmt.Fprintln(w)
	speed := func(r ingestRound) float64 { return r.floor.wall.Seconds() / r.ours.wall.Seconds() }
	work := func(r ingestRound) float64 { return r.ours.server.Seconds() / r.floor.server.Seconds() }
	slowest, fastest := extremes(rounds, speed)
	least, most := extremes(rounds, work)
	_, err := fmt.Fprintf(w, "\nimport : floor  events/s %.2f (%.2f–%.2f), server CPU %.2f (%.2f–%.2f)\n",
		median(rounds, speed), slowest, fastest, median(rounds, work), least, most)
	return err
}

func extremes[T any, N cmp.Ordered](list []T, of func(T) N) (low, high N) {
	values := make([]N, len(list))
	for i, item := range list {
		values[i] = of(item)
	}
	return slices.Min(values), slices.Max(values)
}

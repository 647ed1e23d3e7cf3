package cli

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/store/storetest/must"
)

// TestMemory: the knob reaches the engine and Go's collector.
//
// Promise (Commands and settings): doctor finds present and coming problems with the next step, and
// exits 1 for any; one setting scales memory
func TestMemory(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                   string
		flags                  []string
		environ                []string
		limit, engine, garbage int64
	}{
		{"memory_default_is_for_a_small_machine", nil, nil, 352 << 20, 80 << 20, 100},
		{"memory_scales_caches_and_collector", []string{"--memory", "1GiB"}, nil, 1408 << 20, 320 << 20, 100},
		{"memory_least", []string{"--memory", "128MiB"}, nil, 176 << 20, 40 << 20, 100},
		{"memory_leaves_a_limit_of_the_operators_own", []string{"--memory", "1GiB"}, []string{"GOMEMLIMIT=300MiB", "GOGC=77"}, 300 << 20, 320 << 20, 77},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"serve", "--data", filepath.Join(t.TempDir(), "data"), "--listen", "127.0.0.1:0"}, c.flags...)
			s := must.Get(startProcess("", c.environ, args...))(t)
			defer s.end()
			page := metricsOf(t, s)
			for name, want := range map[string]int64{"go_gc_gomemlimit_bytes": c.limit, "tollhouse_store_memory_limit_bytes": c.engine, "go_gc_gogc_percent": c.garbage} {
				// The engine divides the caches by three.
				if got := gauge(page, name); got > float64(want) || got < float64(want-2) {
					t.Errorf("%s %.0f, want %d", name, got, want)
				}
			}
		})
	}
}

// TestMemoryOfCommands: a command that opens the store itself keeps to the default,
// unless its operator says otherwise. What it sets is the process's.
func TestMemoryOfCommands(t *testing.T) {
	const left = 77 // percent, before each of them
	before, percent := debug.SetMemoryLimit(math.MaxInt64), debug.SetGCPercent(left)
	defer func() { debug.SetMemoryLimit(before); debug.SetGCPercent(percent) }()
	wantSet := func(what string, limit int64, percent int) {
		t.Helper()
		if got, gotPercent := debug.SetMemoryLimit(math.MaxInt64), debug.SetGCPercent(left); got != limit || gotPercent != percent {
			t.Errorf("memory_of_commands: %s keeps to %d bytes and %d %%, want %d and %d", what, got, gotPercent, limit, percent)
		}
	}
	for _, c := range []struct {
		what    string
		environ []string
		limit   int64
		percent int
	}{
		{"one whose operator has set both", []string{"GOMEMLIMIT=off", "GOGC=100"}, math.MaxInt64, left},
		{"one that looks at a store", nil, datadir.MemoryDefault.Collector(), datadir.Garbage},
	} {
		p := &program{data: filepath.Join(t.TempDir(), "data"), environ: c.environ, Console: term.Console{Out: io.Discard, Err: io.Discard}}
		if err := p.manage(t.Context(), "test", makesData, func(*adminClient) error { return nil }); err != nil {
			t.Error(err)
		}
		wantSet(c.what, c.limit, c.percent)
	}
	if stderr, code := runHere([]byte("no backup"), "restore", "-", "--data", filepath.Join(t.TempDir(), "data")); code != term.ExitBadData {
		t.Errorf("restore of what is no backup: exit %d, %s", code, stderr)
	}
	wantSet("a restore", datadir.MemoryDefault.Collector(), datadir.Garbage)
}

// metricsOf reads the metrics of a server.
func metricsOf(t *testing.T, s *process) string {
	t.Helper()
	a := newSocketAdmin(s.text("admin_socket"))
	defer a.close()
	answer := must.Get(a.send(t.Context(), http.MethodGet, "/metrics", "", nil))(t)
	defer answer.Body.Close()
	page := must.Get(io.ReadAll(answer.Body))(t)
	return string(page)
}

// gauge returns a metric's value, or -1.
func gauge(page, name string) float64 {
	_, rest, found := strings.Cut(page, "\n"+name+" ")
	var value float64
	if _, err := fmt.Sscan(rest, &value); !found || err != nil {
		return -1
	}
	return value
}

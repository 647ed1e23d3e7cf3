package proof

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tollhouse/store/storetest/must"
)

const (
	// idleMemoryMax bounds the anonymous memory of a fresh instance at rest, of
	// which a third is used.
	idleMemoryMax = 10 << 20
	idleWait      = 30 * time.Second // for the work behind a start; a second is usual
	lookEvery     = 100 * time.Millisecond

	// startsTaken are measured; and startMax bounds the quickest first answer, since
	// other tests make starts slower and nothing makes them quicker. It is 30 times
	// what a start takes on the machines that we measured: it finds a start that waits
	// for a disk, a timer or a password, not one that is slower.
	startsTaken    = 5
	startsTakenMax = 50 // while none was quick: the tests of other packages may run too
	startMax       = 500 * time.Millisecond
)

// TestIdle: an instance that nobody uses holds next to nothing.
func TestIdle(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	for name, begin := range map[string]func(*testing.T) *server{
		"dev":                      func(t *testing.T) *server { return startDev(t) },
		"serve_on_fresh_directory": func(t *testing.T) *server { return startServe(t, t.TempDir()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begin(t)
			s.untilAtRest()
			held := anonymousMemory(t, s)
			t.Logf("%d KiB of anonymous memory at rest", held>>10)
			if held > idleMemoryMax {
				t.Errorf("%d KiB of anonymous memory at rest, want at most %d", held>>10, idleMemoryMax>>10)
			}
		})
	}
}

// TestNothingIsCollectedBeforeTheStoreIsOpen: on memory that was in use before, Go clears
// the memtable of a fresh store, which then holds 11 MiB that are otherwise untouched.
func TestNothingIsCollectedBeforeTheStoreIsOpen(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	const memtable = 8 // MiB
	s := startIn(t, append(environ(), "GODEBUG=gctrace=1"), "serve", "--data", t.TempDir(), "--listen", "127.0.0.1:0")
	s.untilAtRest()
	first := firstCollection.FindStringSubmatch(s.log.all())
	if first == nil {
		t.Fatal("no collection was traced")
	}
	if used := must.Get(strconv.Atoi(first[1]))(t); used < memtable {
		t.Errorf("the first collection found %d MiB in use, so it came before the memtable of %d", used, memtable)
	}
}

// firstCollection is a line of GODEBUG=gctrace=1, with the heap in use at its start in MiB.
var firstCollection = regexp.MustCompile(`(?m)^gc 1 .* (\d+)->\d+->\d+ MB`)

// TestReady: dev answers at once.
//
// Promise (Monitoring): /healthz answers; /readyz reports store, disk and clock, reasons to
// operators alone; metrics are not public
func TestReady(t *testing.T) {
	must.SkipInShort(t)
	var taken []time.Duration
	for len(taken) < startsTaken || slices.Min(taken) > startMax && len(taken) < startsTakenMax {
		begun := time.Now()
		s := startDev(t)
		answer := must.Get(http.Get(s.base + "/healthz"))(t)
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		taken = append(taken, time.Since(begun))
		s.stop()
	}
	t.Logf("first answers after %v", taken)
	if quickest := slices.Min(taken); quickest > startMax {
		t.Errorf("the quickest first answer came after %v, want at most %v", quickest, startMax)
	}
}

func (s *server) untilAtRest() {
	s.t.Helper()
	for end := time.Now().Add(idleWait); !s.isAtRest(); {
		if time.Now().After(end) {
			s.t.Fatalf("not at rest after %v", idleWait)
		}
		time.Sleep(lookEvery)
	}
}

// isAtRest reports whether the work behind the start is done: the search for
// damage is the last of it.
func (s *server) isAtRest() bool {
	s.t.Helper()
	var status struct{ Check *json.RawMessage }
	decode(s.t, s.run("status", "--json"), &status)
	return status.Check != nil
}

// anonymousMemory returns RssAnon of proc_pid_status(5), in bytes.
func anonymousMemory(t *testing.T, s *server) int64 {
	t.Helper()
	bytes := must.Get(anonymousOf(s.process.Pid))(t)
	return bytes
}

// anonymousOf fails for a process that has ended.
func anonymousOf(pid int) (bytes int64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(status), "RssAnon:")
	line, _, _ := strings.Cut(rest, "\n")
	kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(line, "kB")), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("RssAnon: %w", err)
	}
	return kib << 10, nil
}

package proof

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"tollhouse/store/storetest/must"
)

const (
	importHeldMax  = 440 << 20
	importWait     = 30 * time.Minute
	largeImport    = 2_000_000 // events
	besideAnImport = 16        // clients
)

// TestMemoryOfImport: an import without a server stays within the limit of the collector, of three
// eighths more than the default of --memory, and a quarter for what that does not count. It does not
// grow with the file: store TestImportHoldsNoLine measures the importer alone.
//
// Promise (Platform §9): the memory of an import does not grow with the file: of 30,000 lines and of
// 240,000 it stays below 440 MiB
func TestMemoryOfImport(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	dir := t.TempDir()
	generated := map[int][]byte{}
	for name, c := range map[string]struct {
		events int
		args   []string
		most   int64
	}{
		"events":       {150_000, []string{"event", "import"}, 320 << 20},
		"lines":        {15_000, []string{"import"}, importHeldMax},
		"eight_times":  {120_000, []string{"import"}, importHeldMax},
		"in_a_dry_run": {120_000, []string{"import", "--dry-run"}, importHeldMax},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(dir, name)
			if generated[c.events] == nil {
				generated[c.events] = command(t, "", "event", "generate", "--events", fmt.Sprint(c.events))
			}
			events := generated[c.events]
			if c.args[0] == "import" {
				events = asMovingLines(events)
			}
			writeFile(t, file, string(events))
			peak := peakOf(t, nil, append(c.args, file, "--data", filepath.Join(dir, name+".data"), "--quiet")...)
			t.Logf("RssAnon at most %d MiB", peak>>20)
			if peak == 0 || peak > c.most {
				t.Errorf("RssAnon %d MiB during an import, want at most %d", peak>>20, c.most>>20)
			}
		})
	}
}

// asMovingLines returns the lines of an import of events as those of an import, after a user each.
func asMovingLines(events []byte) []byte {
	lines := []byte(`{"account":{"account":"default"}}` + "\n")
	n := 0
	for range bytes.Lines(events) {
		n++
		lines = fmt.Appendf(lines, `{"user":{"username":"user%d","password_hash":%q}}`+"\n", n, canaryHash)
	}
	for event := range bytes.Lines(events) {
		lines = fmt.Appendf(lines, `{"event":%s}`+"\n", bytes.TrimSpace(event))
	}
	return lines
}

// peakOf runs a command and returns the most RssAnon it had.
func peakOf(t *testing.T, stdin io.Reader, args ...string) (peak int64) {
	t.Helper()
	cmd := exec.Command(program(t), args...)
	cmd.Env, cmd.Stdin = environ(), stdin
	must.Do(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	late := time.AfterFunc(importWait, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	every := time.NewTicker(5 * time.Millisecond)
	defer every.Stop()
	for {
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("%v ended with %v", args, err)
			}
			return peak
		case <-every.C:
			if now, err := anonymousOf(cmd.Process.Pid); err == nil { // it may just have ended
				peak = max(peak, now)
			}
		}
	}
}

// TestMemoryOfALargeImport imports two million events into a store of as many: without a server, and
// through one that is busy. A large store is where merges hold the most buffers. The goal of its
// figures is one and a half times --memory.
func TestMemoryOfALargeImport(t *testing.T) {
	must.OnlyLong(t, "imports six million events")
	data, copied := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "data")
	first := largeImportOf(t, 1, "--data", data)
	must.Do(t, os.CopyFS(copied, os.DirFS(data)))
	second := largeImportOf(t, 2, "--data", copied)

	s := startServe(t, data, "--public-url", "http://127.0.0.1")
	o := s.offer(besideAnImport)
	ctx, leave := context.WithCancel(t.Context())
	var served tally
	var working sync.WaitGroup
	working.Go(func() { served = o.crowd(ctx, besideAnImport, 0, 2*importWait) })
	held := s.watchMemory(t)
	largeImportOf(t, 2, "--admin-socket", s.ready.AdminSocket)
	beside := held()
	leave()
	working.Wait()

	t.Logf("RssAnon at most %d MiB into an empty store, %d into two million events, %d beside clients", first>>20, second>>20, beside>>20)
	if most := max(first, second, beside); most > importHeldMax {
		t.Errorf("RssAnon %d MiB, want at most %d", most>>20, importHeldMax>>20)
	}
	if len(served.wrong) > 0 || len(served.took) == 0 {
		t.Errorf("beside an import %d requests were served, and %d answered otherwise: %.3q", len(served.took), len(served.wrong), served.wrong)
	}
	must.Figure(t, "into_empty_mib", first>>20)
	must.Figure(t, "rss_anon_mib", second>>20)
	must.Figure(t, "beside_clients_mib", beside>>20)
	must.Figure(t, "beside_clients_p99_ms", served.quantile(0.99).Milliseconds())
}

// largeImportOf imports events while they are generated, and returns the most RssAnon of the
// command.
func largeImportOf(t *testing.T, seed int, into ...string) int64 {
	t.Helper()
	generate := exec.Command(program(t), "event", "generate", "--events", fmt.Sprint(largeImport), "--seed", fmt.Sprint(seed))
	generate.Env = environ()
	events := must.Get(generate.StdoutPipe())(t)
	must.Do(t, generate.Start())
	most := peakOf(t, events, append([]string{"event", "import", "-", "--account", "acct_large", "--quiet"}, into...)...)
	must.Do(t, generate.Wait())
	return most
}

package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tollhouse/cli/term"
	"tollhouse/store/storetest/must"
)

// TestGenerateLive: a live history goes on until it is interrupted, and what it
// says it has recorded is there.
//
// Promise (§3.4, §3.5): --live records at a rate
func TestGenerateLive(t *testing.T) {
	t.Parallel()
	t.Run("live_goes_on_until_interrupted_and_counts_what_it_recorded", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(t.TempDir(), "data")
		start(t, "serve", "--data", dir, "--listen", "127.0.0.1:0")
		var out strings.Builder
		cmd := exec.Command("tollhouse", "event", "generate", "--live", "--rate", "100/s", "--account", "a", "--data", dir, "--json")
		cmd.Stdout = &out
		must.Do(t, cmd.Start())
		recorded := func() int64 {
			stdout, _, _ := run(t, "event", "list", "--account", "a", "--data", dir, "--limit", "1000", "--json")
			return int64(strings.Count(stdout, "\n"))
		}
		for deadline := time.Now().Add(startMax); recorded() < 5; {
			if time.Now().After(deadline) {
				t.Error("nothing is recorded")
				break
			}
		}
		must.Do(t, cmd.Process.Signal(os.Interrupt))
		_ = cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != term.ExitInterrupted {
			t.Errorf("exit %d, want %d", got, term.ExitInterrupted)
		}
		var summary importAnswer
		if err := json.Unmarshal([]byte(out.String()), &summary); err != nil || !summary.Summary {
			t.Fatalf("%v: %q is no summary", err, out.String())
		}
		if got := recorded(); got != min(summary.Recorded, 1000) {
			t.Errorf("%d events are there, and the summary says %d", got, summary.Recorded)
		}
	})
}

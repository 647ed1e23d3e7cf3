package proof

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"tollhouse/store/storetest/must"
)

const (
	failedSyncs     = 10
	failedSyncsLong = 200
	exitIOError     = 74
	exitWait        = time.Second // to end after the failure
	writesToFail    = 400         // most writes until a thread has made so many syncs
)

// TestFailedSync fails one call that syncs a file, the first, the second and so on. The
// server acknowledges nothing from then on and ends with its own exit code; it starts
// again by itself with all that was acknowledged. After a failed sync the kernel may have
// dropped what it was to write, so that to try again would prove nothing.
func TestFailedSync(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	strace := needTool(t, "strace")
	if out, err := exec.Command(strace, "-qq", "-f", "-e", "trace=none", "true").CombinedOutput(); err != nil {
		t.Skipf("skipped: strace may not trace here: %v %s", err, out)
	}
	dir := filepath.Join(t.TempDir(), "data")
	s := startServe(t, dir)
	l := openLedger(t, s)
	s.stop()
	f := &syncFailure{strace: strace, dir: dir, ledger: l}
	n := 0
	for ; must.More(n, failedSyncs, failedSyncsLong) && !t.Failed(); n++ {
		f.failAt(t, n+1)
		f.audit(t)
	}
	must.Figure(t, "failed_syncs", n)
	must.Figure(t, "at_the_start", f.atStart)
	must.Figure(t, "not_reached", f.notReached)
	must.Figure(t, "acknowledged", len(f.acknowledged))
	must.Figure(t, "lost", f.lost)
	must.Figure(t, "ended_worst_ms", f.slowest.Milliseconds())
	if f.notReached == n || f.slowest > margin*exitWait {
		t.Errorf("of %d failures %d were not reached, and the server ended after %v at most", n, f.notReached, f.slowest)
	}
}

type syncFailure struct {
	strace, dir         string
	ledger              *ledger
	acknowledged        []string
	checked             int // of acknowledged
	lost                int
	atStart, notReached int
	slowest             time.Duration // from the first refusal to the end
}

// failAt lets the nth sync of a thread fail, and writes until the server has ended.
func (f *syncFailure) failAt(t *testing.T, n int) {
	t.Helper()
	inject := fmt.Sprintf("inject=msync,fsync,fdatasync:error=EIO:when=%d", n)
	cmd := exec.Command(f.strace, "-qq", "-f", "-o", os.DevNull, "-e", "trace=msync,fsync,fdatasync", "-e", inject,
		program(t), "serve", "--data", f.dir, "--listen", "127.0.0.1:0")
	cmd.Env = environ()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	stuck := time.AfterFunc(readyWait, func() { _ = cmd.Process.Kill() })
	defer stuck.Stop()
	line, _ := bufio.NewReader(stdout).ReadBytes('\n') // no line when it does not start
	var ready readyLine
	if err := json.Unmarshal(line, &ready); err != nil {
		f.atStart++
		f.wantExit(t, cmd.Wait(), stderr.String())
		return
	}
	f.ledger.base = "http://" + ready.Listen[0]
	refused := time.Time{}
	for range writesToFail {
		if !f.write(t) {
			refused = time.Now()
			break
		}
	}
	if refused.IsZero() {
		f.notReached++
		must.Do(t, syscall.Kill(ready.PID, syscall.SIGTERM))
		_ = cmd.Wait() // a sync of the end may be the one that fails
		return
	}
	for range 3 {
		if f.write(t) {
			t.Errorf("sync %d failed, and a later change is acknowledged", n)
		}
	}
	err := cmd.Wait()
	f.slowest = max(f.slowest, time.Since(refused))
	f.wantExit(t, err, stderr.String())
	// The process that ended had the store open, so the lock was not given up before.
	if held := must.Get(os.ReadFile(filepath.Join(f.dir, "LOCK")))(t); len(held) == 0 {
		t.Errorf("sync %d failed, and the lock was released while the store was open", n)
	}
}

func (f *syncFailure) wantExit(t *testing.T, err error, stderr string) {
	t.Helper()
	if ended, is := errors.AsType[*exec.ExitError](err); !is || ended.ExitCode() != exitIOError {
		t.Errorf("the server ended with %v, want exit code %d:\n%s", err, exitIOError, stderr)
	}
}

// write records a resource, and reports whether it was acknowledged.
func (f *syncFailure) write(t *testing.T) bool {
	name := fmt.Sprintf("cus_%d", len(f.acknowledged))
	a, err := f.ledger.call(t.Context(), f.ledger.reader, http.MethodPut, "/api/resources/customer/"+name, fmt.Sprintf(`{"notes":"%d"}`, time.Now().UnixNano()))
	if err != nil || a.status/100 != 2 {
		return false
	}
	f.acknowledged = append(f.acknowledged, name)
	return true
}

// audit starts the server anew and looks for what was acknowledged.
func (f *syncFailure) audit(t *testing.T) {
	t.Helper()
	s := startServe(t, f.dir)
	defer s.stop()
	f.ledger.moveTo(s)
	for _, name := range f.acknowledged[f.checked:] {
		if a, err := f.ledger.call(t.Context(), f.ledger.reader, http.MethodGet, "/api/resources/customer/"+name, ""); err != nil || a.status != http.StatusOK {
			f.lost++
			t.Errorf("%s was acknowledged: %s, %v", name, a, err)
		}
	}
	f.checked = len(f.acknowledged)
}

package proof

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
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
	failedFiles     = 6
	failedFilesLong = 600
	opensMost       = 40 // by a thread, about
	truncatesMost   = 6
	changesBetween  = 20 // a start and a stop
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
	f := newFailure(t, "msync,fsync,fdatasync", "EIO")
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

// TestFailedFiles fails one call that opens or truncates a file, as when the disk has no
// room for another. The server goes on, or ends and says why, and starts again with all
// that was acknowledged. Badger ends some of these starts itself, with an exit code of 1.
func TestFailedFiles(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	opens, truncates := newFailure(t, "openat", "ENOSPC"), newFailure(t, "ftruncate", "ENOSPC")
	for n := 0; must.More(n, failedFiles, failedFilesLong) && !t.Failed(); n++ {
		f, at := opens, 1+random.IntN(opensMost)
		if n%2 == 1 {
			f, at = truncates, 1+random.IntN(truncatesMost)
		}
		f.failAnywhere(t, at)
		f.audit(t)
	}
	must.Figure(t, "failed_opens", opens.failed)
	must.Figure(t, "failed_truncates", truncates.failed)
	must.Figure(t, "at_the_start", opens.atStart+truncates.atStart)
	must.Figure(t, "acknowledged", len(opens.acknowledged)+len(truncates.acknowledged))
	must.Figure(t, "lost", opens.lost+truncates.lost)
	if opens.failed == 0 || truncates.failed == 0 {
		t.Errorf("%d opens and %d truncates failed, want some of each", opens.failed, truncates.failed)
	}
}

// failure is a server of which one call fails.
type failure struct {
	strace              string
	calls, with         string // that fail, and their error
	dir                 string
	ledger              *ledger
	acknowledged        []string
	checked             int // of acknowledged
	lost                int
	atStart, notReached int
	failed              int           // starts in which the call was reached
	slowest             time.Duration // from the first refusal to the end
}

func newFailure(t *testing.T, calls, with string) *failure {
	t.Helper()
	must.SkipInShort(t)
	strace := needTool(t, "strace")
	out, err := exec.Command(strace, "-qq", "-f", "-e", "trace=none", "true").CombinedOutput()
	must.Have(t, err == nil, fmt.Sprintf("a kernel that lets strace trace: %v %s", err, out))
	dir := filepath.Join(t.TempDir(), "data")
	s := startServe(t, dir)
	defer s.stop()
	return &failure{strace: strace, calls: calls, with: with, dir: dir, ledger: openLedger(t, s)}
}

// failing is a server of which a chosen call fails.
type failing struct {
	cmd    *exec.Cmd
	trace  string // file
	stderr bytes.Buffer
	ready  readyLine
}

// start starts the server with the nth call of a thread failing, and reports whether it
// got ready. After a minute it is killed.
func (f *failure) start(t *testing.T, n int) (s *failing, started bool) {
	t.Helper()
	trace := filepath.Join(t.TempDir(), "trace")
	s = &failing{trace: trace, cmd: exec.Command(f.strace, "-qq", "-f", "-o", trace, "-e", "trace="+f.calls,
		"-e", fmt.Sprintf("inject=%s:error=%s:when=%d", f.calls, f.with, n),
		program(t), "serve", "--data", f.dir, "--listen", "127.0.0.1:0")}
	s.cmd.Env, s.cmd.Stderr = environ(), &s.stderr
	stdout := must.Get(s.cmd.StdoutPipe())(t)
	must.Do(t, s.cmd.Start())
	stuck := time.AfterFunc(readyWait, func() { _ = s.cmd.Process.Kill() })
	t.Cleanup(func() { stuck.Stop() })
	line, _ := bufio.NewReader(stdout).ReadBytes('\n') // no line when it does not start
	if err := json.Unmarshal(line, &s.ready); err != nil {
		f.atStart++
		return s, false
	}
	f.ledger.base = "http://" + s.ready.Listen[0]
	return s, true
}

// failAt lets the nth sync of a thread fail, and writes until the server has ended.
func (f *failure) failAt(t *testing.T, n int) {
	t.Helper()
	s, started := f.start(t, n)
	if !started {
		s.wantExit(t)
		return
	}
	refused := time.Time{}
	for range writesToFail {
		if !f.write(t) {
			refused = time.Now()
			break
		}
	}
	if refused.IsZero() {
		f.notReached++
		must.Do(t, syscall.Kill(s.ready.PID, syscall.SIGTERM))
		_ = s.cmd.Wait() // a sync of the end may be the one that fails
		return
	}
	for range 3 {
		if f.write(t) {
			t.Errorf("sync %d failed, and a later change is acknowledged", n)
		}
	}
	s.wantExit(t)
	f.slowest = max(f.slowest, time.Since(refused))
	// The process that ended had the store open, so the lock was not given up before.
	if held := must.Get(os.ReadFile(filepath.Join(f.dir, "LOCK")))(t); len(held) == 0 {
		t.Errorf("sync %d failed, and the lock was released while the store was open", n)
	}
}

// failAnywhere lets the nth call of a thread fail, in a start, some changes or a stop.
func (f *failure) failAnywhere(t *testing.T, n int) {
	t.Helper()
	s, started := f.start(t, n)
	if started {
		for range changesBetween {
			f.write(t)
		}
		_ = syscall.Kill(s.ready.PID, syscall.SIGTERM) // unless it has ended
	}
	if err := s.cmd.Wait(); !started && err == nil || err != nil && s.stderr.Len() == 0 {
		t.Errorf("%s %d failed, and the server ended with %v and said %q", f.calls, n, err, &s.stderr)
	}
	if bytes.Contains(must.Get(os.ReadFile(s.trace))(t), []byte("(INJECTED)")) {
		f.failed++
	}
}

func (s *failing) wantExit(t *testing.T) {
	t.Helper()
	err := s.cmd.Wait()
	if ended, is := errors.AsType[*exec.ExitError](err); !is || ended.ExitCode() != exitIOError {
		t.Errorf("the server ended with %v, want exit code %d:\n%s", err, exitIOError, &s.stderr)
	}
}

// write records a resource, and reports whether it was acknowledged.
func (f *failure) write(t *testing.T) bool {
	name := fmt.Sprintf("cus_%d", len(f.acknowledged))
	a, err := f.ledger.call(t.Context(), f.ledger.reader, http.MethodPut, "/api/resources/customer/"+name, fmt.Sprintf(`{"notes":"%d"}`, time.Now().UnixNano()))
	if err != nil || a.status/100 != 2 {
		return false
	}
	f.acknowledged = append(f.acknowledged, name)
	return true
}

// audit starts the server anew and looks for what was acknowledged.
func (f *failure) audit(t *testing.T) {
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

//go:build unix

package cli

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tollhouse/cli/term"
	"tollhouse/store/storetest/must"
)

// hearHangups has the processes that start from now on die of SIGHUP unless they do
// something about it, also when the tests run under nohup: a signal that is ignored stays
// so in children, one that is handled does not.
var hearHangups = sync.OnceFunc(func() { signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) })

// startAlone starts a server without a terminal.
func startAlone(t *testing.T, args ...string) *process {
	t.Helper()
	hearHangups()
	cmd := exec.Command("tollhouse", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	s := must.Get(startCommand(cmd))(t)
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return s
}

// TestSIGHUPReloadsAServerWithoutATerminal: it goes on.
//
// Promise (Monitoring): SIGHUP reloads the certificate; on a terminal, and for dev and commands, it
// is SIGTERM
func TestSIGHUPReloadsAServerWithoutATerminal(t *testing.T) {
	t.Parallel()
	s := startAlone(t, "serve", "--data", filepath.Join(t.TempDir(), "data"), "--listen", "127.0.0.1:0")
	conn, answers := slowRequest(t, s)
	must.Do(t, s.cmd.Process.Signal(syscall.SIGHUP))
	if got := ask(t, "GET", s.text("url")+"/readyz", ""); got != http.StatusOK {
		t.Errorf("after SIGHUP /readyz is %d, want 200", got)
	}
	fmt.Fprint(conn, "grant_type=password")
	if answer, err := http.ReadResponse(answers, nil); err != nil || answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("the request in flight got %v, %v; want its answer, 401", answer, err)
	}
	if code := s.end(); code != term.ExitOK || !strings.Contains(s.stderr.String(), `"reloading"`) {
		t.Errorf("exit %d, want 0 and a line about the reload: %s", code, s.stderr)
	}
}

// TestSIGHUPStopsDev as SIGTERM does.
func TestSIGHUPStopsDev(t *testing.T) {
	t.Parallel()
	s := startAlone(t, "dev")
	must.Do(t, s.cmd.Process.Signal(syscall.SIGHUP))
	if <-s.ended; s.cmd.ProcessState.ExitCode() != term.ExitOK {
		t.Errorf("dev ended with %v, want 0: %s", s.cmd.ProcessState, s.stderr)
	}
}

// TestTwoSIGTERMsAtOnceAreOne: timeout(1) sends two, and requests in flight still finish.
//
// Promise (Monitoring): SIGTERM: not ready, no new connections, requests in flight finish; a second
// signal forces the stop, two within a moment count as one; no stop lasts forever
func TestTwoSIGTERMsAtOnceAreOne(t *testing.T) {
	t.Parallel()
	s := startAlone(t, "serve", "--data", filepath.Join(t.TempDir(), "data"), "--listen", "127.0.0.1:0")
	conn, answers := slowRequest(t, s)
	for range 2 {
		must.Do(t, s.cmd.Process.Signal(syscall.SIGTERM))
		<-time.After(time.Millisecond) // or both would be delivered as one
	}
	untilRefused(t, s)
	fmt.Fprint(conn, "grant_type=password")
	if answer, err := http.ReadResponse(answers, nil); err != nil || answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("the request in flight got %v, %v; want its answer, 401", answer, err)
	}
	if <-s.ended; s.cmd.ProcessState.ExitCode() != term.ExitOK {
		t.Errorf("the server ended with %v, want 0: %s", s.cmd.ProcessState, s.stderr)
	}
}

// TestAServerSurvivesWhoeverReadsItsLog: when they are gone, and at the signals that tell
// other servers to open their log again.
func TestAServerSurvivesWhoeverReadsItsLog(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"dev"}, {"serve", "--data", filepath.Join(t.TempDir(), "data"), "--listen", "127.0.0.1:0"}} {
		s := startUnread(t, append(args, "--log-format", "json")...)
		must.Do(t, s.log.Close())
		for _, signal := range []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE} {
			must.Do(t, s.cmd.Process.Signal(signal))
		}
		for begun := time.Now(); time.Since(begun) < 200*time.Millisecond; { // the log waits a little
			if got := ask(t, "GET", s.text("url")+"/api/events", ""); got != http.StatusUnauthorized {
				t.Errorf("%s: a request is %d, want 401", args[0], got)
			}
		}
		stopsSoon(t, s.process)
	}
}

// TestACrashIsNoExitCodeThatKeepsTheUnitFromRestarting: Go ends with 2 after a panic, which
// is also a wrong flag.
func TestACrashIsNoExitCodeThatKeepsTheUnitFromRestarting(t *testing.T) {
	t.Parallel()
	s := startAlone(t, "serve", "--data", filepath.Join(t.TempDir(), "data"), "--listen", "127.0.0.1:0")
	must.Do(t, s.cmd.Process.Signal(syscall.SIGQUIT)) // which the runtime handles as a crash
	<-s.ended
	if status, ok := s.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGABRT || status.CoreDump() {
		t.Errorf("a crash ends with %v, want SIGABRT and no core file", s.cmd.ProcessState)
	}
}

// TestSIGHUPInterruptsACommand, which then cleans up; under nohup it goes on.
//
// Promise (Monitoring): SIGHUP reloads the certificate; on a terminal, and for dev and commands, it
// is SIGTERM
func TestSIGHUPInterruptsACommand(t *testing.T) {
	t.Parallel()
	importing := func(t *testing.T, shell string) (*exec.Cmd, io.WriteCloser) {
		hearHangups()
		cmd := exec.Command("sh", "-c", shell+`exec "$@"`, "sh", "tollhouse", "event", "import", "-", "--data", filepath.Join(t.TempDir(), "data"))
		in := must.Get(cmd.StdinPipe())(t)
		must.Do(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		// The pipe holds 64 KiB: once more is written, the command has begun to read.
		line := []byte(`{"id":"a","type":"customer.created","resource":"cus_1","eventData":{"object":{"note":"` + strings.Repeat("x", 1000) + `"}},"createdAt":1773066600}` + "\n")
		for range 200 {
			must.Get(in.Write(line))(t)
		}
		return cmd, in
	}
	for name, signals := range map[string][]os.Signal{
		"sighup":       {syscall.SIGHUP},
		"two_sigterms": {syscall.SIGTERM, syscall.SIGTERM},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd, _ := importing(t, "")
			for _, signal := range signals {
				_ = cmd.Process.Signal(signal)
				<-time.After(time.Millisecond) // or both would be delivered as one
			}
			if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != term.ExitInterrupted {
				t.Errorf("the command ended with %v, want exit code %d", cmd.ProcessState, term.ExitInterrupted)
			}
		})
	}
	t.Run("nohup", func(t *testing.T) {
		t.Parallel()
		cmd, in := importing(t, "trap '' HUP; ")
		must.Do(t, cmd.Process.Signal(syscall.SIGHUP))
		must.Do(t, in.Close())
		if err := cmd.Wait(); err != nil {
			t.Errorf("the command ended with %v, want 0", err)
		}
	})
}

// TestDevEndsWhenItsParentDiedBeforeTheFirstLook: then the process that has adopted it
// looks like its parent.
//
// Promise (Testers, bad input): dev ends with its parent on request
func TestDevEndsWhenItsParentDiedBeforeTheFirstLook(t *testing.T) {
	t.Parallel()
	out, theirs, err := os.Pipe()
	must.Do(t, err)
	defer out.Close()
	cmd := exec.Command("sh", "-c", `(while kill -0 $$ 2>/dev/null; do :; done; exec tollhouse dev --exit-with-parent) &`)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Stdout, cmd.Stderr = theirs, theirs
	must.Do(t, cmd.Run())
	must.Do(t, theirs.Close())
	must.Do(t, out.SetReadDeadline(time.Now().Add(startMax)))
	if shown, err := io.ReadAll(out); err != nil {
		t.Errorf("dev goes on without a parent: %v, %s", err, shown)
	}
}

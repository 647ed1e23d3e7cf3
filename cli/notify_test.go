package cli

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"tollhouse/cli/term"
	"tollhouse/store/storetest/must"
)

// Promise (Monitoring): systemd is notified of start, stop and, after a read from the store,
// liveness
func TestNotify(t *testing.T) {
	t.Parallel()
	const alive, stopping = "WATCHDOG=1", "STOPPING=1"
	places := map[string]func(t *testing.T) string{
		"socket_in_a_directory": func(t *testing.T) string { return filepath.Join(t.TempDir(), "notify") },
	}
	if runtime.GOOS == "linux" {
		places["abstract_socket"] = func(*testing.T) string { return fmt.Sprintf("@tollhouse-notify-%d", os.Getpid()) }
	}
	for name, place := range places {
		t.Run("manager_is_told_of_start_life_and_stop/"+name, func(t *testing.T) {
			t.Parallel()
			socket := place(t)
			manager := must.ListenNotify(t, socket)
			s, err := startProcess("", []string{"NOTIFY_SOCKET=" + socket, "WATCHDOG_USEC=20000"}, "serve", "--data", filepath.Join(t.TempDir(), "data"), "--listen", "127.0.0.1:0")
			must.Do(t, err)
			for i, want := range []string{"READY=1", alive, alive} {
				if got := heard(t, manager); got != want {
					t.Errorf("state %d is %q, want %q", i, got, want)
				}
			}
			must.Do(t, s.cmd.Process.Signal(syscall.SIGTERM))
			for got := alive; got != stopping; { // read at once: a full socket holds the server up
				if got = heard(t, manager); got != alive && got != stopping {
					t.Fatalf("state %q before the stop", got)
				}
			}
			// It stays alive until what is in flight has ended.
			go func() { _, _ = io.Copy(io.Discard, manager) }()
			if <-s.ended; s.cmd.ProcessState.ExitCode() != term.ExitOK {
				t.Errorf("exit code %d, want %d: %s", s.cmd.ProcessState.ExitCode(), term.ExitOK, s.stderr)
			}
		})
	}
	t.Run("server_serves_though_no_manager_listens", func(t *testing.T) {
		t.Parallel()
		s, err := startProcess("", []string{"NOTIFY_SOCKET=" + filepath.Join(t.TempDir(), "gone")}, "serve", "--data", filepath.Join(t.TempDir(), "data"), "--listen", "127.0.0.1:0")
		must.Do(t, err)
		if code := s.end(); code != term.ExitOK {
			t.Errorf("exit code %d, want %d", code, term.ExitOK)
		}
	})
}

// Promise (Postgres §3, §9): the watchdog is fed while the database is away, for longer than the
// manager waits.
func TestWatchdogWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	h := newDatabaseHouse(t)
	socket := filepath.Join(t.TempDir(), "notify")
	manager := must.ListenNotify(t, socket)
	s := must.Get(startProcess("", []string{"NOTIFY_SOCKET=" + socket, "WATCHDOG_USEC=400000"}, h.args()...))(t)
	if got := heard(t, manager); got != "READY=1" {
		t.Fatalf("the first state is %q", got)
	}
	ended := make(chan struct{})
	go func() { // a full socket holds the server up
		defer close(ended)
		h.postgres.Stop(t)
		eventually(t, func() (bool, string) {
			status, _, body := get(t, s.text("url")+"/readyz", "")
			return status == http.StatusServiceUnavailable, "readyz = " + body
		})
	}()
	for away := false; !away; {
		heard(t, manager)
		select {
		case <-ended:
			away = true
		default:
		}
	}
	for range 10 { // some that were sent before, and those of five intervals
		if got := heard(t, manager); got != "WATCHDOG=1" {
			t.Fatalf("the state is %q while the database is away", got)
		}
	}
	if strings.Contains(s.stderr.String(), "watchdog not notified") {
		t.Errorf("the watchdog was not fed: %s", s.stderr)
	}
	must.Do(t, s.cmd.Process.Signal(syscall.SIGTERM))
	go func() { _, _ = io.Copy(io.Discard, manager) }()
	<-s.ended
}

func heard(t *testing.T, manager *net.UnixConn) string {
	t.Helper()
	must.Do(t, manager.SetReadDeadline(time.Now().Add(startMax)))
	said := make([]byte, 64)
	n := must.Get(manager.Read(said))(t)
	return string(said[:n])
}

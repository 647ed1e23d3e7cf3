package cli

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/store/secret"
)

func TestNotify(t *testing.T) {
	t.Parallel()
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
			manager := listenNotify(t, socket)
			s, err := startProcess("", []string{"NOTIFY_SOCKET=" + socket, "WATCHDOG_USEC=20000"}, "serve", "--data", filepath.Join(t.TempDir(), "data"), "--listen", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range []string{notifyReady, notifyAlive, notifyAlive} {
				if got := heard(t, manager); got != want {
					t.Errorf("state %d is %q, want %q", i, got, want)
				}
			}
			if code := s.end(); code != term.ExitOK {
				t.Errorf("exit code %d, want %d", code, term.ExitOK)
			}
			for got := notifyAlive; got != notifyStopping; {
				if got = heard(t, manager); got != notifyAlive && got != notifyStopping {
					t.Fatalf("state %q before the stop", got)
				}
			}
		})
	}
	t.Run("server_serves_though_no_manager_listens", func(t *testing.T) {
		t.Parallel()
		s, err := startProcess("", []string{"NOTIFY_SOCKET=" + filepath.Join(t.TempDir(), "gone")}, "serve", "--data", filepath.Join(t.TempDir(), "data"), "--listen", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if code := s.end(); code != term.ExitOK {
			t.Errorf("exit code %d, want %d", code, term.ExitOK)
		}
	})
	t.Run("store_that_cannot_be_read_is_not_alive", func(t *testing.T) {
		t.Parallel()
		socket := filepath.Join(t.TempDir(), "notify")
		manager := listenNotify(t, socket)
		said := make(chan string, 16)
		log := slog.New(slog.NewTextHandler(lineWriter(said), nil))
		k, err := datadir.Open(t.Context(), datadir.Options{Key: secret.NewKey(nil), Log: slog.New(slog.NewTextHandler(io.Discard, nil)), OnFatal: func(error) {}})
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}
		r := &running{log: log, keep: k, notify: notifier{socket: socket, watchdog: time.Millisecond}}
		stop := r.feedWatchdog()
		<-said
		stop()
		if err := manager.SetReadDeadline(time.Now()); err != nil {
			t.Fatal(err)
		}
		if n, err := manager.Read(make([]byte, 64)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the manager heard %d bytes, %v; want none", n, err)
		}
	})
}

func TestNewNotifier(t *testing.T) {
	t.Parallel()
	const pid = 4711
	for _, c := range []struct {
		name    string
		environ []string
		want    notifier
	}{
		{"nobody_listens", []string{"HOME=/root"}, notifier{}},
		{"notify_only", []string{"NOTIFY_SOCKET=/run/n"}, notifier{socket: "/run/n"}},
		{"watchdog_for_everybody", []string{"NOTIFY_SOCKET=@n", "WATCHDOG_USEC=30000000"}, notifier{"@n", 30 * time.Second}},
		{"watchdog_for_us", []string{"NOTIFY_SOCKET=@n", "WATCHDOG_USEC=30000000", "WATCHDOG_PID=4711"}, notifier{"@n", 30 * time.Second}},
		{"watchdog_for_another", []string{"NOTIFY_SOCKET=@n", "WATCHDOG_USEC=30000000", "WATCHDOG_PID=4712"}, notifier{socket: "@n"}},
		{"watchdog_without_sense", []string{"NOTIFY_SOCKET=@n", "WATCHDOG_USEC=-1"}, notifier{socket: "@n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, environ := range [][]string{c.environ, slices.Concat([]string{"A", "=B"}, c.environ)} {
				if got := newNotifier(environ, pid); got != c.want {
					t.Errorf("newNotifier(%q) = %+v, want %+v", environ, got, c.want)
				}
			}
		})
	}
}

// listenNotify is the manager's end.
func listenNotify(t *testing.T, socket string) *net.UnixConn {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: socket})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func heard(t *testing.T, manager *net.UnixConn) string {
	t.Helper()
	if err := manager.SetReadDeadline(time.Now().Add(startMax)); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 64)
	n, err := manager.Read(said)
	if err != nil {
		t.Fatal(err)
	}
	return string(said[:n])
}

// lineWriter hands on what is written while there is room.
type lineWriter chan<- string

func (w lineWriter) Write(line []byte) (int, error) {
	select {
	case w <- string(line):
	default:
	}
	return len(line), nil
}

package server

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"tollhouse/cli/datadir"
	"tollhouse/store/secret"
	"tollhouse/store/storetest/must"
)

// Promise (Monitoring): systemd is notified of start, stop and, after a read from the store,
// liveness
func TestWatchdog(t *testing.T) {
	t.Parallel()
	t.Run("a_server_whose_store_cannot_be_read_is_not_alive", func(t *testing.T) {
		t.Parallel()
		socket := filepath.Join(t.TempDir(), "notify")
		manager := must.ListenNotify(t, socket)
		said := make(chan string, 16)
		log := slog.New(slog.NewTextHandler(lineWriter(said), nil))
		k, err := datadir.Open(t.Context(), datadir.Options{Key: secret.NewKey(nil), Log: slog.New(slog.NewTextHandler(io.Discard, nil)), OnFatal: func(error) {}})
		if err != nil {
			t.Fatal(err)
		}
		must.Do(t, k.Close())
		r := &running{log: log, notify: notifier{socket: socket, watchdog: time.Millisecond}}
		r.current.Store(newInstance(k))
		stop := r.feedWatchdog()
		<-said
		stop()
		must.Do(t, manager.SetReadDeadline(time.Now()))
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
		{"no_manager", []string{"HOME=/root"}, notifier{}},
		{"notify_only", []string{"NOTIFY_SOCKET=/run/n"}, notifier{socket: "/run/n"}},
		{"watchdog_without_pid", []string{"NOTIFY_SOCKET=@n", "WATCHDOG_USEC=30000000"}, notifier{"@n", 30 * time.Second}},
		{"watchdog_for_us", []string{"NOTIFY_SOCKET=@n", "WATCHDOG_USEC=30000000", "WATCHDOG_PID=4711"}, notifier{"@n", 30 * time.Second}},
		{"watchdog_for_another", []string{"NOTIFY_SOCKET=@n", "WATCHDOG_USEC=30000000", "WATCHDOG_PID=4712"}, notifier{socket: "@n"}},
		{"watchdog_with_a_negative_interval", []string{"NOTIFY_SOCKET=@n", "WATCHDOG_USEC=-1"}, notifier{socket: "@n"}},
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

// lineWriter sends each line to a channel and drops it if the channel is full.
type lineWriter chan<- string

func (w lineWriter) Write(line []byte) (int, error) {
	select {
	case w <- string(line):
	default:
	}
	return len(line), nil
}

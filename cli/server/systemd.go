package server

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"tollhouse/cli/term"
)

// systemd starts a service of Type=notify with the address of a datagram socket
// in its environment, and believes that it serves, or that it still lives, when
// it says so there: sd_notify(3), sd_watchdog_enabled(3).

// notifier speaks to the service manager, or to nobody.
type notifier struct {
	socket   string        // "" when no manager listens
	watchdog time.Duration // the silence after which it ends us, or 0
}

const (
	notifyReady    = "READY=1"
	notifyStopping = "STOPPING=1"
	notifyAlive    = "WATCHDOG=1"
)

func newNotifier(environ []string, pid int) notifier {
	said := map[string]string{}
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		said[name] = value
	}
	n := notifier{socket: said["NOTIFY_SOCKET"]}
	// WATCHDOG_PID says for whom the watchdog is, so that a process which one of
	// ours has started does not take it for its own.
	if whose := said["WATCHDOG_PID"]; whose == "" || whose == strconv.Itoa(pid) {
		usec, _ := strconv.ParseInt(said["WATCHDOG_USEC"], 10, 64)
		n.watchdog = max(0, time.Duration(usec)*time.Microsecond)
	}
	return n
}

// send sends a state. The net package takes a name that begins with @ for an
// abstract one, as systemd writes it.
func (n notifier) send(state string) error {
	if n.socket == "" {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Net: "unixgram", Name: n.socket})
	if err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	defer c.Close()
	if _, err := c.Write([]byte(state)); err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	return nil
}

// notifyManager is tell for a server: that nobody hears it is worth a line of the
// log, and no reason to stop.
func (r *running) notifyManager(state string) {
	if err := r.notify.send(state); err != nil {
		r.log.Warn("service manager not notified", "state", state, "err", err)
	}
}

// feedWatchdog tells the manager twice in its time that we live, each time after
// a record was read from the store: a process that answers and a store that
// hangs is not alive. The manager ends us when it hears nothing. The caller
// calls the function that it returns, also while requests in flight come to
// their end.
func (r *running) feedWatchdog() (stop func()) {
	if r.notify.socket == "" || r.notify.watchdog == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for every := r.notify.watchdog / 2; term.Sleep(ctx, every) == nil; {
			if err := r.data.Store.Check(ctx); err != nil {
				r.log.Error("watchdog not notified: the store cannot be read", "err", err)
				continue
			}
			r.notifyManager(notifyAlive)
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

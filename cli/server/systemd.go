package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"tollhouse/cli/term"
	"tollhouse/store/record"
)

// systemd puts the address of a datagram socket into the environment of a service of
// Type=notify. The service reports there that it is ready and alive: sd_notify(3),
// sd_watchdog_enabled(3).

// notifier reports to the service manager, if there is one.
type notifier struct {
	socket   string        // "" without a manager
	watchdog time.Duration // the manager kills a service that is silent for so long; 0 means never
}

const (
	notifyReady    = "READY=1"
	notifyStopping = "STOPPING=1"
	notifyAlive    = "WATCHDOG=1"
)

func newNotifier(environ []string, pid int) notifier {
	values := map[string]string{}
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		values[name] = value
	}
	n := notifier{socket: values["NOTIFY_SOCKET"]}
	// WATCHDOG_PID keeps child processes from taking the watchdog for their own.
	if whose := values["WATCHDOG_PID"]; whose == "" || whose == strconv.Itoa(pid) {
		usec, _ := strconv.ParseInt(values["WATCHDOG_USEC"], 10, 64)
		n.watchdog = max(0, time.Duration(usec)*time.Microsecond)
	}
	return n
}

// send reports a state. Package net and systemd both write an abstract socket as @name.
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

// notifyManager reports a state and logs a failure, which does not stop the server.
func (r *running) notifyManager(state string) {
	if err := r.notify.send(state); err != nil {
		r.log.Warn("cannot notify the service manager", "state", state, "err", err)
	}
}

// feedWatchdog reports twice per watchdog interval that the server is alive, each time
// after it read a record: a server whose store hangs is not alive, and the manager
// restarts it. One whose database is away is alive: a restart would not bring it back. Reports continue while requests in flight finish, until the caller calls
// stop.
func (r *running) feedWatchdog() (stop func()) {
	if r.notify.socket == "" || r.notify.watchdog == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for every := r.notify.watchdog / 2; term.Sleep(ctx, every) == nil; {
			if err := r.data().Store.Check(ctx); err != nil && !errors.Is(err, record.ErrAway) {
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

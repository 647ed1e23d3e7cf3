package cli

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"tollhouse/handlers"
	"tollhouse/store/secret"
)

func (p *program) devCommand() *cobra.Command {
	var f serverFlags
	var clock moment
	c := &cobra.Command{
		Use:   "dev",
		Short: "serve a throwaway instance with demo data, in memory",
		Long: `Serve a throwaway instance in memory: for tests, and to look around.

It has a client, a user and an account with a history of events, all with fixed
names and secrets that everybody knows, so it listens on this machine only unless
told otherwise. The line that it prints when it is ready has everything in it.`,
		Args: operands(),
		RunE: func(c *cobra.Command, _ []string) error { return p.dev(c, f, clock) },
	}
	f.add(c.Flags(), "127.0.0.1:0")
	c.Flags().Lookup("listen").Usage += "; unless given, on a terminal " + demoAddress + " when that is free"
	c.Flags().Var(&clock, "clock", "the `time` from which the instance's clock runs on: RFC 3339 or Unix seconds")
	return c
}

func (p *program) dev(c *cobra.Command, f serverFlags, clock moment) error {
	config, err := f.parse(c.Flags())
	if err != nil {
		return err
	}
	if err := checkClock(clock); err != nil {
		return err
	}
	level := slog.LevelInfo
	if f.logFormat == "auto" && !isTerminal(p.stderr) {
		// A test that never reads our standard error must not be stopped by it.
		level = slog.LevelWarn
	}
	log, err := p.serverLog(f.logFormat, level)
	if err != nil {
		return err
	}
	for _, addr := range config.listen {
		if !isLoopbackAddress(addr) {
			log.Warn("demo credentials are public: whoever reaches this address can use them", "listen", addr)
		}
	}
	socket, removeSocketDir, err := p.devSocket()
	if err != nil {
		return err
	}
	defer removeSocketDir()
	r := &running{log: log, config: config, fatal: make(chan error, 1)}
	return p.serveDemo(c.Context(), r, clock, socket, c.Flags().Changed("listen"))
}

// clockRoom is what dev's clock has left at least when it begins: what is
// recorded past the last second that a filter can name is listed nowhere.
const clockRoom = 366 * 24 * time.Hour

// checkClock refuses a clock from which the demo's history would reach back
// before 1970, or the instance run on past the end of time.
func checkClock(clock moment) error {
	if clock.IsZero() {
		return nil
	}
	first := time.Unix(0, 0).Add(demoSteps[0].ago)
	last := time.Unix(momentSecondsMax, 0).Add(-clockRoom)
	switch {
	case clock.Before(first):
		return usage("the first time that works is --clock "+showTime(first.Unix()), "--clock %s is too early: the demo's history would begin before 1970", &clock)
	case clock.After(last):
		return usage("the last time that works is --clock "+showTime(last.Unix()), "--clock %s is too late: it is to run on for a year, and no event can be later than %s", &clock, showTime(momentSecondsMax))
	}
	return nil
}

// devSocket returns where dev's admin socket lies: where it was asked for, or
// in a private directory that ends with it.
func (p *program) devSocket() (path string, remove func(), err error) {
	if p.adminSocket != "" {
		return socketPath(p.adminSocket, ""), func() {}, nil
	}
	dir, err := os.MkdirTemp("", "tollhouse-dev-") // mode 0700
	if err != nil {
		return "", nil, fail(exitCannotCreate, "name a place with --admin-socket, or set TMPDIR", "cannot make a directory for the admin socket: %w", err)
	}
	return filepath.Join(dir, socketName), func() { _ = os.RemoveAll(dir) }, nil
}

// runningFrom returns a clock that shows t now and goes on from there, or nil
// for the machine's own.
func runningFrom(t moment) func() time.Time {
	if t.IsZero() {
		return nil
	}
	started := time.Now()
	return func() time.Time { return t.Add(time.Since(started)) }
}

// demoAddress is where dev listens for a person, when that port is free: the
// lines of the README can then be pasted as they stand. Scripts get a free port
// each time, so that many instances never meet.
const demoAddress = "127.0.0.1:8655"

func (p *program) listenForDemo(addrs []string, given bool) ([]net.Listener, error) {
	if !given && !p.json && isTerminal(p.stdout) {
		if listeners, err := listenAll([]string{demoAddress}); err == nil {
			return listeners, nil
		}
	}
	return listenAll(addrs)
}

func (p *program) serveDemo(ctx context.Context, r *running, clock moment, socket string, listenGiven bool) (err error) {
	if r.listeners, err = p.listenForDemo(r.config.listen, listenGiven); err != nil {
		return err
	}
	defer closeAll(r.listeners)
	key, usersReady := secret.NewKey(), make(chan struct{})
	r.keep, err = openKeep(ctx, keepOptions{
		key: key, log: r.log, now: runningFrom(clock), lifetimes: r.config.lifetimes, cardGuard: r.config.cardGuard,
		usersReady: usersReady, onFatal: func(err error) { r.fatal <- err },
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.keep.close()) }()
	if r.admin, err = listenAdmin(socket, r.log); err != nil {
		return err
	}
	defer r.admin.Close()
	r.build(handlers.Config{Key: key, Demo: demo()})
	begin := clock.Time // exactly, so that a given clock gives the same events every time
	if begin.IsZero() {
		begin = r.keep.store.Now()
	}
	if err := seedDemo(ctx, r.keep.store, begin); err != nil {
		return err
	}
	return r.serve(func() {
		p.announce(r, demo())
		r.work.Go(func() {
			if err := seedDemoUser(context.WithoutCancel(ctx), r.keep.store); err != nil {
				r.log.Error("demo user not made", "err", err)
			}
			close(usersReady)
			debug.FreeOSMemory() // hashing took as much as all else together
		})
	})
}

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

// devFlags are dev's own settings: what a test asks for, and serve must not
// have.
type devFlags struct {
	serverFlags
	clock          moment
	seedFile       string
	randSeed       uint64
	foretold       bool // randSeed was given
	autoLogin      string
	autoConsent    bool
	exitWithParent bool
}

func (p *program) devCommand() *cobra.Command {
	var f devFlags
	c := &cobra.Command{
		Use:   "dev",
		Short: "serve a throwaway instance with demo data, in memory",
		Long: `Serve a throwaway instance in memory: for tests, and to look around.

It has a client, a user and an account with a history of events, all with fixed
names and secrets that everybody knows, so it listens on this machine only unless
told otherwise. The line that it prints when it is ready has everything in it.

--seed-file puts clients, users, accounts and events of your own in their place, one
JSON object a line: {"client":{…}}, {"user":{…}}, {"account":{…}} or {"event":{…}}.
With --rand-seed the same requests get the same tokens and codes, which anybody who
knows the number can foretell; with --clock too the clock stands still, and the ids
of events are the same as well.`,
		Args: operands(),
		RunE: func(c *cobra.Command, _ []string) error {
			f.foretold = c.Flags().Changed("rand-seed")
			return p.dev(c, f)
		},
	}
	flags := c.Flags()
	f.add(flags, "127.0.0.1:0")
	flags.Lookup("listen").Usage += "; unless given, on a terminal " + demoAddress + " when that is free"
	flags.Var(&f.clock, "clock", "the `time` from which the instance's clock runs on: RFC 3339 or Unix seconds")
	flags.StringVar(&f.seedFile, "seed-file", "", "a `file` of JSON lines to begin with instead of the demo, or - for standard input")
	flags.Uint64Var(&f.randSeed, "rand-seed", 0, "a `number` from which every id, code and token follows; they can be foretold then")
	flags.StringVar(&f.autoLogin, "auto-login", "", "sign browsers that ask for a code in as this `user`, without a form")
	flags.BoolVar(&f.autoConsent, "auto-consent", false, "allow what a client asks for, without a screen")
	flags.BoolVar(&f.exitWithParent, "exit-with-parent", false, "stop when the process that started this one has ended")
	return c
}

func (p *program) dev(c *cobra.Command, f devFlags) error {
	config, err := f.parse(c.Flags())
	if err != nil {
		return err
	}
	seed, err := p.readSeed(f.seedFile)
	if err != nil {
		return err
	}
	if err := checkClock(f.clock); err != nil {
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
	warnOfDev(log, config, f)
	r := &running{log: log, config: config, fatal: make(chan error, 1)}
	if f.exitWithParent {
		if r.orphaned, err = orphaned(); err != nil {
			return err
		}
	}
	socket, removeSocketDir, err := p.devSocket()
	if err != nil {
		return err
	}
	defer removeSocketDir()
	foretell(f)
	return p.serveDev(c.Context(), r, f, seed, socket, c.Flags().Changed("listen"))
}

// warnOfDev tells what makes an instance less than safe to be reached.
func warnOfDev(log *slog.Logger, config serverConfig, f devFlags) {
	for _, addr := range config.listen {
		if isLoopbackAddress(addr) {
			continue
		}
		log.Warn("demo credentials are public: whoever reaches this address can use them", "listen", addr)
		if f.autoLogin != "" {
			log.Warn("whoever reaches this address is signed in without a password", "listen", addr, "username", f.autoLogin)
		}
	}
	if f.foretold {
		log.Warn("tokens are predictable: whoever knows --rand-seed knows them all")
	}
}

// foretell makes ids, codes and tokens follow from --rand-seed. Nothing else
// calls it, and openKeep refuses to keep anything on disk after it.
func foretell(f devFlags) {
	if f.foretold {
		secret.Foretell(f.randSeed)
	}
}

// collectLater has nothing collected until what it returns is called: a start
// leaves little behind, and to look for it takes as long as to make it.
func collectLater() (again func()) {
	percent := debug.SetGCPercent(-1)
	return func() { debug.SetGCPercent(percent) }
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

// devClock returns a clock that shows the time of --clock now and goes on from
// there, or nil for the machine's own. With --rand-seed it stands: a run is then
// the same however long it takes.
func (f devFlags) devClock() func() time.Time {
	t := f.clock.Time
	switch {
	case t.IsZero():
		return nil
	case f.foretold:
		return func() time.Time { return t }
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

// lateListener lets nobody in before the demo stands: a command that looks for
// its events as soon as it has read the ready line must find them. Who comes over
// the public listener needs a sign-in first, which waits for the demo's user.
type lateListener struct {
	net.Listener
	planted <-chan struct{}
}

func (l *lateListener) Accept() (net.Conn, error) {
	<-l.planted
	return l.Listener.Accept()
}

func (p *program) serveDev(ctx context.Context, r *running, f devFlags, seed *seed, socket string, listenGiven bool) (err error) {
	collectAgain := collectLater()
	defer collectAgain()
	if r.listeners, err = p.listenForDemo(r.config.listen, listenGiven); err != nil {
		return err
	}
	defer closeAll(r.listeners)
	key, usersReady := secret.NewKey(), make(chan struct{})
	r.keep, err = openKeep(ctx, keepOptions{
		key: key, log: r.log, now: f.devClock(), lifetimes: r.config.lifetimes, cardGuard: r.config.cardGuard,
		usersReady: usersReady, onFatal: func(err error) { r.fatal <- err },
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.keep.close()) }()
	if r.admin, err = listenAdmin(socket, r.log); err != nil {
		return err
	}
	planted := make(chan struct{})
	r.admin = &lateListener{r.admin, planted}
	defer r.admin.Close()
	shown, late, err := r.keep.plant(ctx, f, seed)
	if err != nil {
		return err
	}
	r.build(handlers.Config{Key: key, Demo: shown})
	return r.serve(func() {
		p.announce(r, shown)
		r.work.Go(func() {
			if err := late(context.WithoutCancel(ctx), planted); err != nil {
				r.log.Error("demo not made", "err", err)
			}
			close(usersReady)
			collectAgain()
		})
	})
}

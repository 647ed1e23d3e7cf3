package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/handlers/dev"
	"tollhouse/handlers/web"
	"tollhouse/store/eventlog"
	"tollhouse/store/snapshot"
)

// devFlags are the settings of dev: conveniences for tests that serve must not offer.
type devFlags struct {
	serverFlags
	clock          term.Moment
	seedFile       string
	randSeed       uint64
	seeded         bool // randSeed was given
	autoLogin      string
	autoConsent    bool
	exitWithParent bool
	throttle       bool
	strictTypes    bool
	maskJournal    bool
	engine         datadir.EngineName
	hosts          []string
	webhookTo      string
}

// DevCommand returns the command that serves a throwaway instance in memory. It
// calls program when it runs.
func DevCommand(program func() *Program) *cobra.Command {
	var f devFlags
	c := &cobra.Command{
		Use:   "dev",
		Short: "run a throwaway server in memory, with demo data",
		Long: `Run a throwaway server in memory, for tests and for trying things out.

It has a client, a user and an account with a history of events. Their names and secrets
are fixed and public, so it listens on loopback unless --listen says otherwise. The ready
line that it prints contains all of them.

Without --public-url the issuer is the address of each request, so browsers and containers
can use different names for the server.

--seed-file replaces the demo data with your own, one JSON object per line: {"client":{…}},
{"user":{…}}, {"account":{…}}, {"event":{…}}, {"resource":{…}}, {"webhook":{…}} or
{"token":{…}}. Secrets, passwords, redirect URIs and tokens may be as simple as your tests
need.

--webhook-to sends the events of the demo account to a URL, such as a program on this
machine. The ready line has the secret that signs the requests.

With --rand-seed the same requests get the same tokens and codes, so anyone who knows the
number can predict them. With --clock as well, the clock stands still and event ids are
the same too.

Controls below /_dev reset the server, set its clock, make requests fail and show the
requests it received, including secrets. GET /_dev lists them.`,
		RunE: func(c *cobra.Command, _ []string) error {
			f.seeded = c.Flags().Changed("rand-seed")
			return program().dev(c, f)
		},
	}
	flags := c.Flags()
	f.feed = term.Duration(eventlog.FeedMin)
	f.add(flags, "127.0.0.1:0")
	f.webhooks.add(flags, true)
	f.engine = datadir.EngineMemory
	flags.Var(&f.engine, "engine", "storage engine for the data in memory: memory (fast) or badger (the one that serve uses)")
	flags.Lookup("trusted-proxies").Usage = "`networks` of proxies whose X-Forwarded-For and X-Forwarded-Proto are trusted, separated by commas"
	flags.Lookup("listen").Usage += "; on a terminal the default is " + demoAddress + " if that port is free"
	flags.Var(&f.clock, "clock", "the `time` at which the server's clock starts: 2026-03-09, RFC 3339 or Unix seconds")
	flags.StringVar(&f.seedFile, "seed-file", "", "`file` of JSON lines with the initial data instead of the demo, or - for standard input")
	flags.Uint64Var(&f.randSeed, "rand-seed", 0, "seed for reproducible ids, codes and tokens (a `number`)")
	flags.StringVar(&f.autoLogin, "auto-login", "", "sign every browser in as this `user`, without the sign-in form")
	flags.BoolVar(&f.autoConsent, "auto-consent", false, "grant every client what it requests, without the consent screen")
	flags.BoolVar(&f.throttle, "throttle", false, "delay repeated wrong passwords and secrets, as serve does")
	flags.BoolVar(&f.strictTypes, "strict-types", false, "refuse unknown event types that are close to a known one")
	flags.BoolVar(&f.maskJournal, "mask-journal", false, "mask passwords, secrets and tokens in GET /_dev/requests, for logs that others read")
	flags.BoolVar(&f.exitWithParent, "exit-with-parent", false, "stop when the parent process exits")
	flags.StringArrayVar(&f.hosts, "host", nil, "another host `name` to accept, or .name for all its subdomains; may be given several times")
	flags.StringVar(&f.webhookTo, "webhook-to", "", "a `URL` to send the events of the demo account to, such as http://127.0.0.1:3000/hook")
	return c
}

func (p *Program) dev(c *cobra.Command, f devFlags) error {
	if p.Store.Given() {
		return term.Usage("leave it out, or use serve", "dev keeps everything in memory and cannot use %s", p.Store.Flag())
	}
	config, err := f.parse(c.Flags())
	if err != nil {
		return err
	}
	config.settings = p.Settings(c.Flags())
	if f.hosts, err = parseHosts(f.hosts); err != nil {
		return err
	}
	seed, err := p.readSeed(f.seedFile, snapshot.Rules{OpenKinds: f.openKinds})
	if err != nil {
		return err
	}
	if err := checkClock(f.clock); err != nil {
		return err
	}
	level := slog.LevelInfo
	if f.logFormat == "auto" && !term.IsTerminal(p.Err) {
		// A test that never reads standard error keeps the warnings in the pipe.
		level = slog.LevelWarn
	}
	log, err := p.ServerLog(f.logFormat, level)
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGPIPE) // survive the exit of whoever reads the log, as serve does
	warnOfDev(log, config, f)
	r := &running{search: make(chan struct{}, 1), version: p.Version, revision: p.Revision, log: log, logDropped: p.LogDropped, config: config, metrics: newMetrics(), fatal: make(chan error, 1), drainFor: drainDev}
	if f.exitWithParent {
		if r.orphaned, err = orphaned(); err != nil {
			return err
		}
	}
	return r.bounded(func() error { return p.serveDev(c.Context(), r, f, seed, c.Flags().Changed("listen")) })
}

// warnOfDev logs what makes this server unsafe for others to reach.
func warnOfDev(log *slog.Logger, config serverConfig, f devFlags) {
	for _, addr := range config.listen {
		if isLoopbackAddress(addr) {
			continue
		}
		log.Warn("demo credentials are public: anyone who can reach this address can use them", "listen", addr)
		if f.autoLogin != "" {
			log.Warn("anyone who can reach this address is signed in without a password", "listen", addr, "username", f.autoLogin)
		}
	}
	if f.seeded {
		log.Warn("tokens are predictable by anyone who knows --rand-seed")
	}
}

// checkClock refuses a clock so early that the demo's history would begin before 1970,
// or so late that it would soon pass the last valid time.
func checkClock(clock term.Moment) error {
	if clock.IsZero() {
		return nil
	}
	first := time.Unix(0, 0).Add(demoAge)
	last := dev.ClockMax
	switch {
	case clock.Before(first):
		return term.Usage("the earliest is --clock "+term.ShowTime(first.Unix()), "--clock %s is too early: the demo's history would begin before 1970", &clock)
	case clock.After(last):
		return term.Usage("the latest is --clock "+term.ShowTime(last.Unix()), "--clock %s is too late: the clock must be able to run for a year, and no event can be later than %s", &clock, term.ShowTime(eventlog.CreatedAtMax))
	}
	return nil
}

// clockState returns the clock with which dev starts. With --rand-seed a given clock is
// stopped, so that a run does not depend on how long it takes.
func (f devFlags) clockState() dev.ClockState {
	if f.clock.IsZero() {
		return dev.ClockState{Own: true}
	}
	return dev.ClockState{Shows: f.clock.Time, Running: !f.seeded}
}

// demoAddress is the default of dev on a terminal, so that the commands in the README
// can be pasted. Scripts get a free port, so that servers run side by side.
const demoAddress = "127.0.0.1:8655"

func (p *Program) listenForDemo(addrs []string, given bool) ([]net.Listener, error) {
	if !given && !p.JSON && term.IsTerminal(p.Out) {
		if listeners, err := listenAll([]string{demoAddress}); err == nil {
			return listeners, nil
		}
	}
	return listenAll(addrs)
}

func (p *Program) serveDev(ctx context.Context, r *running, f devFlags, seed *seed, listenGiven bool) (err error) {
	if r.listeners, err = p.listenForDemo(r.config.listen, listenGiven); err != nil {
		return err
	}
	defer closeAll(r.listeners)
	shown, err := r.begin(ctx, f, seed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.data().Close()) }()
	closeAdmin, err := p.listenForDevAdmin(r)
	if err != nil {
		return err
	}
	defer closeAdmin()
	return r.serve(func() { p.announce(r, shown) })
}

// begin makes the first instance, to which a reset returns, and returns what it shows
// of itself.
func (r *running) begin(ctx context.Context, f devFlags, seed *seed) (*web.Demo, error) {
	r.control = newControl(r, f)
	first, err := r.control.open(ctx, state{}, dev.NewClock(f.clockState()))
	if err != nil {
		return nil, err
	}
	r.current.Store(first)
	var shown *web.Demo
	if err = first.data.Store.Events.SetFeed(ctx, r.config.feed); err == nil {
		shown, err = seedStore(ctx, first.data.Store, f, seed, r.control.random.source(), r.config.webhooks.Rules)
	}
	if err == nil {
		err = r.control.begin(ctx, shown)
	}
	if err != nil {
		return nil, errors.Join(err, first.data.Close())
	}
	r.build(r.control.config())
	return shown, nil
}

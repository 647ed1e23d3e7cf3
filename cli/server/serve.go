package server

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/handlers"
	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/kv/pgkv"
	"tollhouse/store/record"
)

// serveFlags are serve's own settings.
type serveFlags struct {
	serverFlags
	tls           tlsFlags
	insecureHTTP  bool
	acceptClock   bool
	retain        term.Duration
	monitor       string
	backups       backupFlags
	alarms        alarmFlags
	memory        datadir.Memory
	accountWrites datadir.Memory

	// With a database only.
	connections int
	newKey      bool
}

const listenDefault = "127.0.0.1:8080"

// ServeCommand returns the command that serves from a data directory. It calls
// program when it runs.
func ServeCommand(program func() *Program) *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "run a server on a data directory, or one of several on a database",
		Long: `Run a server on a data directory until SIGTERM or Ctrl-C. The directory is created if it
does not exist. With --store, run one of several equal servers on a PostgreSQL database
instead; see Several machines in docs/operations.md.

Requests carry passwords and tokens, so other machines must connect over TLS. Give the
https address of the server with --public-url, and choose who terminates TLS: a proxy
(name it with --trusted-proxies), or the server itself, with your own certificate
(--tls files) or with one that it gets and renews by ACME (--tls auto).`,
		RunE: func(c *cobra.Command, _ []string) error { return program().serve(c, f) },
	}
	f.addTo(c.Flags())
	return c
}

func (f *serveFlags) addTo(flags *pflag.FlagSet) {
	f.add(flags, listenDefault)
	f.webhooks.add(flags, false)
	f.tls.add(flags)
	flags.BoolVar(&f.insecureHTTP, "insecure-http", false, "allow plain http from other machines, which exposes passwords and tokens on the network")
	flags.Var(&f.retain, "retain", "how long to keep events, such as 400d; 0 keeps them forever")
	flags.StringVar(&f.monitor, "metrics-listen", "", "`address` of a separate plain http listener for /metrics, /healthz and /readyz, without authentication")
	flags.BoolVar(&f.acceptClock, "accept-clock", false, "start even if the clock is far from the last write")
	flags.IntVar(&f.connections, "store-connections", storeConnections, "with --store, the number of connections for reading")
	flags.BoolVar(&f.newKey, "new-key", false, "replace the recorded server key with this server's own; on a database, only if no other server is running")
	f.backups.add(flags)
	f.alarms.add(flags)
	f.memory = datadir.MemoryDefault
	f.accountWrites = record.WritesDefault
	flags.Var(&f.accountWrites, "account-writes", "bytes that an account may write per hour, in bursts of up to an eighth; 0 for no limit")
	flags.Var(&f.memory, "memory", "memory limit of the server, including caches; a higher limit caches more of a large store")
}

func (p *Program) serve(c *cobra.Command, f serveFlags) error {
	config, err := f.parse(c.Flags())
	if err != nil {
		return err
	}
	if p.Store.Given() {
		if err := p.checkDatabaseFlags(c.Flags()); err != nil {
			return err
		}
	}
	if config.alarms, err = f.alarms.parse(); err != nil {
		return err
	}
	config.settings = p.Settings(c.Flags())
	host, err := f.check(c.Flags(), config)
	if err != nil {
		return err
	}
	log, err := p.ServerLog(f.logFormat, slog.LevelInfo)
	if err != nil {
		return err
	}
	// The server must survive the exit of the process that reads its log.
	signal.Ignore(syscall.SIGPIPE)
	// A crash ends with SIGABRT: after exit code 2, Go's own, the unit would not start the
	// server again. Its memory has secrets, which do not belong in a file.
	debug.SetTraceback("crash")
	dumpNoCore()
	asked, err := filepath.Abs(p.Data)
	if err != nil {
		return err
	}
	dir := datadir.Locate(asked)
	r := &running{at: p.serveAt(), search: make(chan struct{}, 1), version: p.Version, revision: p.Revision, program: findProgram(), log: log, logDropped: p.LogDropped, config: config, metrics: newMetrics(), hangups: hangups(), memory: f.memory, notify: newNotifier(p.Environ, os.Getpid()), fatal: make(chan error, 1)}
	if r.certificates, err = f.tls.open(host, p.Version, log); err != nil {
		return err
	}
	r.hostOf = f.tls.host
	defer r.closeListeners()
	if p.Store.Given() {
		return r.bounded(func() error { return p.serveDatabase(c.Context(), r, f) })
	}
	if datadir.IsEmpty(dir) {
		// A port in use must not leave a new directory behind. In an existing
		// directory the lock is taken first: its holder makes the better message.
		if err := r.listen(f); err != nil {
			return err
		}
	}
	if dir, err = datadir.Prepare(dir, term.ExitConfig, log); err != nil {
		return err
	}
	if dir != asked {
		log.Info("the data is in a subdirectory of --data", "data", dir)
	}
	lock, err := p.lockForServe(c.Context(), dir)
	if err != nil {
		return err
	}
	err = r.bounded(func() error { return p.serveLocked(c.Context(), r, f, dir, lock) })
	if term.IsFatal(err) { // the store is still open: the lock is released with the process
		return err
	}
	return errors.Join(err, lock.Release())
}

// check refuses values that contradict each other or are out of bounds. It returns the host
// that the certificate must be valid for, or "" if any will do.
func (f *serveFlags) check(flags *pflag.FlagSet, config serverConfig) (host string, err error) {
	f.tls.mode = inferMode(flags)
	if host, err = f.tls.check(flags, config); err != nil {
		return "", err
	}
	if err := checkExposure(config, f.tls.on(), f.insecureHTTP); err != nil {
		return "", err
	}
	if err := f.checkRetain(); err != nil {
		return "", err
	}
	if err := f.checkMonitor(config); err != nil {
		return "", err
	}
	if err := f.backups.check(flags); err != nil {
		return "", err
	}
	if f.accountWrites > 0 && f.accountWrites < accountWritesMin {
		return "", term.Usage("give 64KiB or more, or 0 for no limit", "--account-writes %s is too little", &f.accountWrites)
	}
	return host, f.memory.Check()
}

func (f *serveFlags) checkRetain() error {
	if f.retain != 0 && time.Duration(f.retain) < eventlog.RetentionMin {
		return term.Usage("give 1d or more, or leave it out to keep all events", "--retain %s is too short", &f.retain)
	}
	return nil
}

const accountWritesMin = 64 << 10 // less than one change may write

// checkExposure refuses to send secrets over the network in plain text, and to serve
// the network under a loopback URL.
func checkExposure(c serverConfig, secure, insecure bool) error {
	open := ""
	for _, addr := range c.listen {
		var unknown *net.DNSError
		if _, err := net.ResolveTCPAddr("tcp", addr); errors.As(err, &unknown) {
			return listenError("listen", addr, err) // it may be loopback
		}
		if !isLoopbackAddress(addr) {
			open = addr
			break
		}
	}
	safe := secure || insecure || len(c.proxies) > 0
	switch {
	case open != "" && c.publicURL == nil:
		return term.Fail(term.ExitConfig, "add --public-url https://…, the address that clients use", "--public-url is required, because %s is not a loopback address", open)
	case open != "" && !safe:
		return term.Fail(term.ExitConfig, "add --tls auto or --tls files, name a TLS proxy with --trusted-proxies, listen on 127.0.0.1, or add --insecure-http",
			"serving plain http on %s would send passwords and tokens over the network unencrypted", open)
	case c.publicURL != nil && c.publicURL.Scheme == "http" && !isLoopbackHost(c.publicURL.Hostname()) && !insecure:
		return term.Fail(term.ExitConfig, "give the https address of the TLS proxy, or add --insecure-http",
			"--public-url %s would send passwords and tokens over the network unencrypted", c.publicURL)
	}
	return nil
}

// checkMonitor refuses to serve metrics on a public listener.
func (f *serveFlags) checkMonitor(c serverConfig) error {
	if f.monitor == "" {
		return nil
	}
	if err := checkAddress("metrics-listen", f.monitor); err != nil {
		return err
	}
	if _, port, _ := net.SplitHostPort(f.monitor); port != "0" && slices.Contains(c.listen, f.monitor) {
		return term.Usage("give it a port of its own that no proxy forwards", "--metrics-listen %s is also the public listener", f.monitor)
	}
	return nil
}

// listen opens the public listeners and, if configured, those of plain http and metrics.
func (r *running) listen(f serveFlags) (err error) {
	if r.listeners, err = listenAll(r.config.listen); err != nil {
		return err
	}
	if f.tls.redirect != "" {
		if r.plain, err = listenOn("http-redirect", f.tls.redirect); err != nil {
			return err
		}
	}
	if f.monitor != "" {
		r.monitor, err = listenOn("metrics-listen", f.monitor)
	}
	return err
}

func (r *running) closeListeners() {
	closeAll(r.listeners)
	for _, l := range []net.Listener{r.plain, r.monitor} {
		if l != nil {
			_ = l.Close()
		}
	}
}

// lockForServe takes the lock of dir. It waits for a command that holds the lock, but
// not for a running server.
func (p *Program) lockForServe(ctx context.Context, dir string) (*datadir.Lock, error) {
	deadline := time.Now().Add(datadir.LockTries)
	for {
		lock, err := datadir.TryLock(dir, "serve")
		if !errors.Is(err, datadir.ErrLocked) {
			return lock, err
		}
		h := datadir.ReadHolder(dir)
		socket := cmp.Or(p.AdminSocket, datadir.HolderSocket(dir))
		if datadir.Answers(ctx, socket) || time.Now().After(deadline) {
			return nil, datadir.HeldError(dir, h)
		}
		if err := term.Sleep(ctx, datadir.LockWait); err != nil {
			return nil, err
		}
	}
}

// serveLocked serves from a directory whose lock is held.
func (p *Program) serveLocked(ctx context.Context, r *running, f serveFlags, dir string, lock *datadir.Lock) (err error) {
	if r.listeners == nil {
		if err := r.listen(f); err != nil {
			return err
		}
	}
	path, fresh, err := datadir.CurrentStore(dir)
	if err != nil {
		return err
	}
	if fresh {
		r.log.Warn("new store created: the data directory had none", "data", dir)
	}
	key, err := datadir.ServerKey(datadir.KeyOptions{Dir: dir, Generation: path, File: p.KeyFile, Fresh: fresh, Replace: f.newKey, Log: r.log})
	if err != nil {
		return err
	}
	data, err := datadir.Open(ctx, datadir.Options{
		Dir: path, Lock: lock, Key: key, Log: r.log, Lifetimes: r.config.lifetimes, CardGuard: r.config.cardGuard, OpenKinds: f.openKinds, SecondFactor: r.config.secondFactor,
		AcceptClock: f.acceptClock, OnFatal: func(err error) { r.fatal <- err }, Memory: f.memory.Engine(), AccountWrites: int64(f.accountWrites),
		OnHash: r.metrics.hashed, OnCommit: r.metrics.committed,
	})
	if err != nil {
		return err
	}
	r.current.Store(newInstance(data))
	if err = f.prepareStore(ctx, data.Store, r); err == nil {
		r.backups, err = f.backups.begin(ctx, dir, r, key, lock, p.Environ)
		defer r.backups.release()
	}
	if err == nil {
		err = p.serveStore(r, handlers.Config{Key: key, BackupRecipients: f.backups.recipients.Keys()}, datadir.SocketPath(p.AdminSocket, dir), func(socket string) error {
			lock.Socket, lock.Listen = socket, addressesOf(r.listeners)
			return lock.Write()
		})
	}
	if term.IsFatal(err) {
		return err // the state of the disk is unknown, so nothing more is written
	}
	closing := data.Close()
	if term.IsFatal(closing) {
		return term.Fatal(closing)
	}
	return errors.Join(err, closing, r.unknownOutcome())
}

// prepareStore checks the clock against the events and sets the retention and the feed,
// before the server answers requests.
func (f *serveFlags) prepareStore(ctx context.Context, s *store.Store, r *running) error {
	err := s.Events.CheckClock(ctx)
	var ahead *eventlog.AheadError
	switch {
	case errors.As(err, &ahead) && f.acceptClock:
		r.log.Warn("clock accepted", "err", ahead)
	case errors.As(err, &ahead):
		return term.Fail(term.ExitBusy, ahead.Hint(), "%w", ahead)
	case err != nil:
		return err
	}
	return errors.Join(s.Events.SetRetention(ctx, time.Duration(f.retain)), s.Events.SetFeed(ctx, r.config.feed))
}

// serveStore opens the admin socket unless its path is "", calls write, which tells others
// where the server is, and serves.
func (p *Program) serveStore(r *running, c handlers.Config, socket string, write func(socket string) error) (err error) {
	// Only now that the store is open. If the collector runs before that, the memtable may
	// get memory that was in use, and Go clears all of it: 11 MiB that otherwise stay
	// untouched.
	r.memory.Limit(p.Environ)
	if socket != "" {
		if r.admin, err = datadir.ListenAdmin(socket, r.log); err != nil {
			return err
		}
		defer r.admin.Close()
	}
	if a, ok := r.certificates.(*acmeCertificates); ok {
		a.useStore(r.data().Store)
		if r.presence != nil {
			a.share(func() bool { return r.presence.Holds(pgkv.JobACME) })
		}
	}
	r.build(c)
	r.alarms = r.newAlarms()
	r.hearHappenings()
	if err := write(socket); err != nil {
		return term.Fail(term.ExitIO, "check the disk", "cannot write %s: %w", datadir.LockName, err)
	}
	return r.serve(func() { p.announce(r, nil); r.notifyManager(notifyReady) })
}

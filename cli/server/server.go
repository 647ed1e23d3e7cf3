package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"tollhouse/cli/database"
	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/handlers"
	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/kv/pgkv"
	"tollhouse/store/record"
	"tollhouse/store/stats"
)

// serverFlags are the settings that dev and serve have in common.
type serverFlags struct {
	listen         []string
	publicURL      string
	trustedProxies []string
	logFormat      string
	cardGuard      string
	instanceName   string
	logo           string

	accessTTL, refreshTTL, codeTTL, sessionIdle, refreshGrace term.Duration

	auditRetain term.Duration
	desk        deskFlags
	webhooks    webhookFlags
}

func (f *serverFlags) add(flags *pflag.FlagSet, listen string) {
	d := store.DefaultLifetimes()
	f.accessTTL, f.refreshTTL, f.codeTTL = term.Duration(d.AccessToken), term.Duration(d.RefreshToken), term.Duration(d.Code)
	f.sessionIdle, f.refreshGrace = term.Duration(d.SessionIdle), term.Duration(d.RefreshGrace)
	flags.StringArrayVar(&f.listen, "listen", []string{listen}, "`address` to listen on; may be given several times")
	flags.StringVar(&f.publicURL, "public-url", "", "`URL` by which clients and users reach the server: the issuer and the base of all links")
	flags.StringArrayVar(&f.trustedProxies, "trusted-proxies", nil, "`networks` of proxies whose X-Forwarded-For is trusted, separated by commas")
	flags.StringVar(&f.instanceName, "instance-name", instanceNameDefault, "the `name` of the server in its pages and their titles, at most 60 characters")
	flags.StringVar(&f.logo, "logo", "", "PNG `file` in place of the mark and the icon, at most 64 KiB and 1,024 pixels")
	flags.Var(&f.accessTTL, "access-ttl", "lifetime of an access token")
	flags.Var(&f.refreshTTL, "refresh-ttl", "lifetime of a refresh token")
	flags.Var(&f.codeTTL, "code-ttl", "lifetime of an authorization code, at most 10m")
	flags.Var(&f.sessionIdle, "session-idle", "how long a sign-in lasts after its last use")
	flags.Var(&f.refreshGrace, "refresh-grace", "how long a repeated refresh returns the identical tokens")
	f.auditRetain = term.Duration(auditRetainDefault)
	flags.Var(&f.auditRetain, "audit-retain", "how long to keep lines of the audit record")
	flags.StringVar(&f.logFormat, "log-format", "auto", "format of the log: text, json, or auto (text on a terminal, json elsewhere)")
	f.desk.add(flags)
	flags.StringVar(&f.cardGuard, "card-guard", "refuse", "card numbers and secrets in events: refuse, warn, or off to allow them")
}

// serverConfig holds the parsed and checked flags.
type serverConfig struct {
	listen    []string
	publicURL *url.URL // nil: the first listener
	proxies   []netip.Prefix
	lifetimes store.Lifetimes
	cardGuard eventlog.CardGuard
	desk      *handlers.Desk // nil without the operators' pages

	auditRetain time.Duration
	webhooks    webhookConfig

	instanceName string
	logo         []byte // a PNG, or nil
}

func (f *serverFlags) parse(flags *pflag.FlagSet) (c serverConfig, err error) {
	c.listen = term.SplitLists(f.listen)
	if len(c.listen) == 0 {
		return c, term.Usage("give an address such as 127.0.0.1:8080", "--listen has no address")
	}
	for _, addr := range c.listen {
		if err := checkAddress("listen", addr); err != nil {
			return c, err
		}
	}
	if f.publicURL != "" {
		if c.publicURL, err = ParsePublicURL(f.publicURL); err != nil {
			return c, err
		}
	}
	if c.proxies, err = parseProxies(f.trustedProxies); err != nil {
		return c, err
	}
	if c.cardGuard, err = eventlog.ParseCardGuard(f.cardGuard); err != nil {
		return c, term.Usage("give refuse, warn or off", "--card-guard %q is not valid", f.cardGuard)
	}
	for _, name := range []string{"access-ttl", "refresh-ttl", "code-ttl", "session-idle"} {
		if ttl := flags.Lookup(name).Value.(*term.Duration); time.Duration(*ttl) < time.Second {
			return c, term.Usage("give one second or more", "--%s %s is too short", name, ttl)
		}
	}
	if c.auditRetain = time.Duration(f.auditRetain); c.auditRetain < auditRetainMin {
		return c, term.Usage("give 1d or more", "--audit-retain %s is too short", &f.auditRetain)
	}
	if err := store.CheckInstanceName(f.instanceName); err != nil {
		return c, instanceNameError(err)
	}
	c.instanceName = f.instanceName
	if c.logo, err = readLogo(f.logo); err != nil {
		return c, err
	}
	dev := flags.Lookup("rand-seed") != nil
	confirmMin := deskConfirmMin
	if dev {
		confirmMin = time.Second
	}
	if c.desk, err = f.desk.parse(confirmMin); err != nil {
		return c, err
	}
	if c.webhooks, err = f.webhooks.parse(dev); err != nil {
		return c, err
	}
	c.lifetimes = store.DefaultLifetimes()
	c.lifetimes.AccessToken, c.lifetimes.RefreshToken = time.Duration(f.accessTTL), time.Duration(f.refreshTTL)
	c.lifetimes.Code, c.lifetimes.SessionIdle = time.Duration(f.codeTTL), time.Duration(f.sessionIdle)
	c.lifetimes.RefreshGrace = time.Duration(f.refreshGrace)
	if !flags.Changed("refresh-grace") {
		// The default grace never exceeds the lifetime of an access token.
		c.lifetimes.RefreshGrace = min(c.lifetimes.RefreshGrace, c.lifetimes.AccessToken)
	}
	return c, nil
}

// DeriveDefaults sets the flags whose defaults depend on other flags.
func DeriveDefaults(flags *pflag.FlagSet) {
	if grace := flags.Lookup("refresh-grace"); !grace.Changed {
		ttl := grace.Value.(*term.Duration)
		*ttl = min(*ttl, *flags.Lookup("access-ttl").Value.(*term.Duration))
	}
	if flags.Lookup("tls") != nil { // dev has none
		inferMode(flags)
	}
}

const (
	drainMax   = 20 * time.Second       // for requests in flight after SIGTERM
	drainDev   = 200 * time.Millisecond // the same of dev: streams can send their last frame
	watchAfter = time.Second            // delay of background work after the start
	checkEvery = 24 * time.Hour         // between two checks of the stored data
	trimEvery  = 24 * time.Hour         // between two removals of old audit lines

	sweepEvery = time.Minute // between two removals of expired records

	// retainEvery is between two removals of old events. For that long an event past
	// its retention may still be listed.
	retainEvery = time.Minute

	auditRetainDefault = 400 * 24 * time.Hour // a year, and some time to investigate
	auditRetainMin     = 24 * time.Hour
)

// running is a server between its first listener and its last goroutine.
type running struct {
	version, revision string // of the binary

	log       *slog.Logger
	started   time.Time
	config    serverConfig
	listeners []net.Listener
	current   atomic.Pointer[instance]
	control   *control // of dev, or nil
	metrics   *metrics
	exposed   http.Handler // /metrics
	notify    notifier
	monitor   net.Listener // for health and metrics only, or nil
	backups   *backupSchedule

	certificates certificates // nil without TLS
	plain        net.Listener // plain http that redirects to TLS, or nil

	presence *pgkv.Presence // among the servers of a database, or nil

	admin    net.Listener
	memory   datadir.Memory // limit; 0 means the default
	visitors *connLimit
	closing  atomic.Bool
	damage   atomic.Pointer[error]     // found in the stored data
	checked  atomic.Pointer[lastCheck] // the last finished check of the stored data
	checking sync.Mutex                // held during a check
	search   chan struct{}             // asks for a check now; nil is never
	fatal    chan error                // a write with an unknown outcome
	work     sync.WaitGroup

	drainFor time.Duration   // for requests in flight when it stops; 0 is drainMax
	orphaned <-chan struct{} // closed when the parent process ends; nil if that does not matter
}

// lastCheck is a finished check of the stored data.
type lastCheck struct {
	ended time.Time
	took  time.Duration
}

// listenAll opens all listeners or none. The error for a port in use suggests a free one.
func listenAll(addrs []string) ([]net.Listener, error) {
	var listeners []net.Listener
	for _, addr := range addrs {
		l, err := listenOn("listen", addr)
		if err != nil {
			closeAll(listeners)
			return nil, err
		}
		listeners = append(listeners, l)
	}
	return listeners, nil
}

// listenOn opens a listener at addr, the value of flag.
func listenOn(flag, addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, listenError(flag, addr, err)
	}
	return l, nil
}

func closeAll(listeners []net.Listener) {
	for _, l := range listeners {
		_ = l.Close()
	}
}

func listenError(flag, addr string, err error) error {
	var op *net.OpError
	reason := err
	if errors.As(err, &op) {
		reason = op.Err
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		hint := "stop the process that listens there, or choose another address with --" + flag
		if free := freeAddress(addr); free != "" {
			hint = "--" + flag + " " + free + " is free"
		}
		return term.Fail(term.ExitBusy, hint, "the address %s is in use by another process", addr)
	case errors.Is(err, syscall.EACCES):
		return term.Fail(term.ExitNotAllowed, "choose a port of 1024 or above, or allow the binary to use lower ones: setcap cap_net_bind_service=+ep FILE", "no permission to listen on %s", addr)
	}
	return term.Fail(term.ExitConfig, "give an address of this machine with --"+flag, "cannot listen on %s: %w", addr, reason)
}

const freePortTries = 20 // ports above the one asked for

// freeAddress finds a free port near the one in use, or any.
func freeAddress(addr string) string {
	host, portText, _ := net.SplitHostPort(addr)
	port, _ := strconv.Atoi(portText)
	for next := port + 1; next <= port+freePortTries+1; next++ {
		try := next
		if next > port+freePortTries || next > 65535 {
			try = 0
		}
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(try)))
		if err != nil {
			continue
		}
		_, found, _ := net.SplitHostPort(l.Addr().String())
		_ = l.Close()
		return net.JoinHostPort(host, found)
	}
	return ""
}

// baseURL is the address of the server when no --public-url names it: the first
// listener's, where an address that means all of them is shown as loopback.
func baseURL(l net.Listener) *url.URL {
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		panic("server: listener without a TCP address")
	}
	host := addr.IP.String()
	if addr.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	return &url.URL{Scheme: "http", Host: net.JoinHostPort(host, strconv.Itoa(addr.Port))}
}

// build creates the HTTP handlers over the listeners and the store. c has the key, and
// what dev adds.
func (r *running) build(c handlers.Config) {
	i := r.current.Load()
	i.server = r.newServer(i, c)
	r.visitors = newConnLimit(connectionsAllowed(filesMax(), r.memory), i.server.TrustsProxy, r.log)
}

// newServer makes the handlers over an open store.
func (r *running) newServer(i *instance, c handlers.Config) *handlers.Server {
	data := i.data
	i.sender = r.newSender(data)
	if !r.config.webhooks.Off {
		c.Webhooks = webhookSender{i.sender}
	}
	if r.exposed == nil {
		r.exposed = r.metrics.handler(r)
	}
	if r.memory == 0 {
		r.memory = datadir.MemoryDefault
	}
	c.Store, c.PublicURL, c.TrustedProxies = data.Store, r.config.publicURL, r.config.proxies
	c.InstanceName, c.Logo = r.config.instanceName, r.config.logo
	c.Log, c.Version, c.Ready, c.Memory = r.log, r.version, r.ready, int64(r.memory)
	c.Status, c.Doctor = r.status, checkup{data: data, server: r}.run
	c.Desk = r.desk()
	c.Observe, c.Metrics = r.metrics.observe, r.exposed
	c.WebhookRules = r.config.webhooks.Rules
	c.Shared = r.presence != nil
	data.Store.Ring().Begin(func() stats.Disk {
		if r.presence != nil {
			return stats.Disk{Used: uint64(r.presence.State().Size)}
		}
		return diskOf(data.DB)
	})
	if c.PublicURL == nil {
		c.PublicURL = baseURL(r.listeners[0])
		if r.certificates != nil {
			c.PublicURL.Scheme = "https"
		}
	}
	return handlers.New(c)
}

// diskOf returns the space of a store on disk, or the size of one in memory.
func diskOf(db datadir.Engine) stats.Disk {
	if m, inMemory := db.(interface{ Size() int }); inMemory {
		return stats.Disk{Used: uint64(m.Size())}
	}
	space, _, _ := datadir.SpaceOf(db)
	return stats.Disk{Used: space.Used, Free: space.Free}
}

// ready returns why the server should get no requests, or nil.
func (r *running) ready() error {
	if r.closing.Load() {
		return errors.New("the server is stopping")
	}
	if damage := r.damaged(); damage != nil {
		return damage
	}
	if r.presence != nil {
		if err := database.CheckOffset(r.presence.State().Clock); err != nil {
			return err
		}
	}
	return r.data().DB.Ready()
}

// damaged returns the damage that the last check found, or nil. Servers of one database
// share it.
func (r *running) damaged() error {
	if r.presence != nil {
		if damage := r.presence.State().Damage; damage != "" {
			return errors.New(damage)
		}
		return nil
	}
	if damage := r.damage.Load(); damage != nil {
		return *damage
	}
	return nil
}

// serve answers requests until a signal. Then it becomes unready, closes the public
// listeners, finishes requests in flight (for at most drainFor), and closes the monitor
// listener and the admin socket. A second signal cuts this short. The caller closes the
// store, unless a write had an unknown outcome: then the process must end at once and
// acknowledge nothing more.
func (r *running) serve(announce func()) error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)

	r.started = time.Now()
	public, plain := r.publicServers()
	private := handlers.NewHTTPServer(r.handler((*handlers.Server).Admin), r.log)
	monitor := handlers.NewHTTPServer(r.handler((*handlers.Server).Monitor), r.log)
	broken := make(chan error, len(r.listeners)+3)
	for _, l := range r.publicListeners() {
		r.serveOn(public, l, broken)
	}
	if r.plain != nil {
		r.serveOn(plain, r.visitors.listener(r.plain), broken)
	}
	if r.admin != nil {
		r.serveOn(private, r.admin, broken)
	}
	if r.monitor != nil {
		r.serveOn(monitor, newConnLimit(connectionsLeast, anySource, r.log).listener(r.monitor), broken)
	}
	announce()
	defer r.feedWatchdog()()

	working, stop := context.WithCancel(context.Background())
	defer stop()
	if r.presence != nil {
		r.work.Go(func() { r.presence.Do(working, pgkv.JobSweep, r.sweep) })
	}
	r.work.Go(func() { r.watch(working) })
	r.work.Go(func() { r.onlyHere(working, pgkv.JobSweep, r.trimAudit) })
	r.work.Go(func() { r.onlyHere(working, pgkv.JobSweep, r.trimEvents) })
	if !r.config.webhooks.Off {
		r.work.Go(func() { r.sendWebhooks(working) })
	}
	if r.backups != nil {
		r.work.Go(func() { r.backups.run(working) })
	}
	if r.certificates != nil {
		r.work.Go(func() { r.certificates.run(working) })
	}

	var failed error
	select {
	case failed = <-r.fatal:
		if r.presence == nil {
			return term.Fatal(failed)
		}
	case failed = <-broken:
		failed = fmt.Errorf("serve: %w", failed)
	case s := <-signals:
		r.log.Info("stopping", "signal", s.String())
	case <-r.orphaned:
		r.log.Info("stopping", "reason", "the parent process has ended")
	}
	r.closing.Store(true)
	r.notifyManager(notifyStopping)
	r.server().Drain()
	stop()
	failed = errors.Join(failed, r.drain(signals, public, plain, monitor, private))
	r.work.Wait()
	if r.presence != nil {
		return failed
	}
	if err := r.unknownOutcome(); err != nil { // by one of the requests in flight
		return err
	}
	return failed
}

// unknownOutcome returns the error of a write with an unknown outcome, or nil.
func (r *running) unknownOutcome() error {
	select {
	case err := <-r.fatal:
		return term.Fatal(err)
	default:
		return nil
	}
}

func (r *running) serveOn(s *http.Server, l net.Listener, broken chan<- error) {
	r.work.Go(func() {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			broken <- err
		}
	})
}

// drain shuts the servers down one after another, those that report the progress last.
func (r *running) drain(signals <-chan os.Signal, servers ...*http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(r.drainFor, drainMax))
	defer cancel()
	var forced atomic.Bool
	r.work.Go(func() {
		select {
		case <-signals:
			forced.Store(true)
			cancel()
		case <-ctx.Done():
		}
	})
	for _, s := range servers {
		if err := s.Shutdown(ctx); err != nil {
			level := slog.LevelWarn
			if r.drainFor != 0 {
				level = slog.LevelInfo // dev does not wait for them
			}
			r.log.Log(ctx, level, "requests in flight were cut off", "err", err)
			_ = s.Close()
		}
	}
	cancel()
	if forced.Load() {
		return term.Fail(term.ExitInterrupted, "", "stopped at the second signal, with requests still in flight")
	}
	return nil
}

// watch returns the memory that opening the store needed, and checks the stored data
// for damage soon after the start and then every day.
func (r *running) watch(ctx context.Context) {
	if term.Sleep(ctx, watchAfter) != nil {
		return
	}
	debug.FreeOSMemory()
	if r.presence == nil {
		r.checkDaily(ctx, 0)
		return
	}
	r.work.Go(func() {
		r.presence.Do(ctx, pgkv.JobCheck, func(ctx context.Context) {
			r.checkDaily(ctx, checkEvery-time.Since(r.presence.State().Checked))
		})
	})
	for { // a check on request needs no job
		select {
		case <-ctx.Done():
			return
		case <-r.search:
			r.check(ctx)
		}
	}
}

// checkDaily checks the stored data after first, then every day and when asked.
func (r *running) checkDaily(ctx context.Context, first time.Duration) {
	for wait := first; ; wait = checkEvery {
		select {
		case <-ctx.Done():
			return
		case <-r.search:
		case <-time.After(wait):
		}
		r.check(ctx)
	}
}

func (r *running) check(ctx context.Context) {
	r.checking.Lock()
	defer r.checking.Unlock()
	begun := time.Now()
	err := r.data().DB.Check(ctx)
	switch {
	case ctx.Err() != nil:
		return
	case r.presence != nil && errors.Is(err, record.ErrUnavailable):
		r.log.Warn("store not checked", "err", err)
		return
	}
	r.checked.Store(&lastCheck{ended: time.Now(), took: time.Since(begun)})
	r.recordCheck(ctx, err)
}

// sweep removes expired records from a database, now and every minute. An engine on a disk
// does it by itself.
func (r *running) sweep(ctx context.Context) {
	db := r.data().DB.(*database.Engine)
	for {
		if _, err := db.Sweep(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("expired records not removed", "err", err)
		}
		if term.Sleep(ctx, sweepEvery) != nil {
			return
		}
	}
}

// recordCheck makes damage at rest known to /readyz, status and metrics.
func (r *running) recordCheck(ctx context.Context, damage error) {
	if damage != nil {
		r.log.Error("damage found in the store", "err", damage)
	}
	switch {
	case r.presence != nil:
		if err := r.presence.RecordCheck(ctx, damage); err != nil {
			r.log.Warn("result of the check not stored", "err", err)
		}
	case damage != nil:
		r.damage.Store(&damage)
	}
}

// onlyHere runs work that one server does for all: this one, or on a database the one that
// has the job.
func (r *running) onlyHere(ctx context.Context, job pgkv.Job, work func(context.Context)) {
	if r.presence == nil {
		work(ctx)
		return
	}
	r.presence.Do(ctx, job, work)
}

// trimAudit removes old lines of the audit record and old counts of requests, now and
// every day.
func (r *running) trimAudit(ctx context.Context) {
	for {
		before := r.data().Store.Now().Add(-r.config.auditRetain)
		if err := r.data().Store.TrimAudit(ctx, before); err != nil && ctx.Err() == nil {
			r.log.Warn("old audit lines not removed", "err", err)
		}
		if err := r.data().Store.Ring().Trim(ctx, before); err != nil && ctx.Err() == nil {
			r.log.Warn("old counts of requests not removed", "err", err)
		}
		if term.Sleep(ctx, trimEvery) != nil {
			return
		}
	}
}

// trimEvents removes events past their retention, now and every minute.
func (r *running) trimEvents(ctx context.Context) {
	if r.data().Store.Retention() == 0 {
		return
	}
	for {
		removed, err := r.data().Store.TrimEvents(ctx)
		if removed > 0 {
			r.log.Info("old events removed", "count", removed)
		}
		if err != nil && ctx.Err() == nil {
			r.log.Warn("old events not removed", "err", err)
		}
		if term.Sleep(ctx, retainEvery) != nil {
			return
		}
	}
}

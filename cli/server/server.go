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
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"tollhouse/cli/alarms"
	"tollhouse/cli/database"
	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/handlers"
	"tollhouse/handlers/admin"
	"tollhouse/handlers/web"
	"tollhouse/store/kv/pgkv"
	"tollhouse/store/stats"
)

const (
	drainMax = 20 * time.Second       // for requests in flight after SIGTERM
	drainDev = 200 * time.Millisecond // the same of dev: streams can send their last frame
	// stopMax bounds a stop and all that it waits for, such as a disk that hangs. The systemd
	// unit kills the process after 40 s.
	stopMax = 35 * time.Second
)

// running is a server between its first listener and its last goroutine.
type running struct {
	version, revision string       // of the binary
	program           *programFile // nil in tests

	log        *slog.Logger
	logDropped func() uint64 // lines

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
	at        string // flags that name the store to other commands

	certificates certificates                       // nil without TLS
	hostOf       func(serverConfig) (string, error) // that the certificate must be valid for
	plain        net.Listener                       // plain http that redirects to TLS, or nil

	presence *pgkv.Presence // among the servers of a database, or nil
	agreed   agreed         // what these servers agreed on

	admin    net.Listener
	memory   datadir.Memory // limit; 0 means the default
	visitors *connLimit
	closing  atomic.Bool
	damage   atomic.Pointer[error]     // found in the stored data
	checked  atomic.Pointer[lastCheck] // the last finished check of the stored data
	checking sync.Mutex                // held during a check
	outcomes outcomes                  // of work on a schedule
	factors  keptRows
	alarms   *alarms.Sender // nil without a URL
	search   chan struct{}  // asks for a check now; nil is never
	fatal    chan error     // a write with an unknown outcome, or a store that was moved
	overdue  chan struct{}  // receives when a stop has taken too long
	work     sync.WaitGroup

	drainFor time.Duration   // for requests in flight when it stops; 0 is drainMax
	hangups  chan os.Signal  // SIGHUP where it asks for a reload; nil where it stops the server
	orphaned <-chan struct{} // closed when the parent process exits; nil if that does not matter
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
	l, err := net.Listen(networkOf(addr), addr)
	if err != nil {
		return nil, listenError(flag, addr, err)
	}
	return l, nil
}

// networkOf returns the network on which to listen at addr. For 0.0.0.0 Go would open
// [::], which also accepts IPv6: more than the operator, and perhaps a firewall, expects.
func networkOf(addr string) string {
	host, _, _ := net.SplitHostPort(addr)
	if ip, err := netip.ParseAddr(host); err == nil && ip.Unmap().Is4() {
		return "tcp4"
	}
	return "tcp"
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
	// An interface, a virtual address or the name server may become available later. The kernel calls an
	// address of an interface that does not exist invalid.
	code, unknown := term.ExitConfig, (*net.DNSError)(nil)
	if errors.As(err, &unknown) || errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EINVAL) && strings.Contains(addr, "%") {
		code = term.ExitBusy
	}
	return term.Fail(code, "give an address of this machine with --"+flag, "cannot listen on %s: %w", addr, reason)
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
		l, err := net.Listen(networkOf(addr), net.JoinHostPort(host, strconv.Itoa(try)))
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

// ownURL is baseURL of the first listener, with the scheme that it speaks.
func (r *running) ownURL() *url.URL {
	u := baseURL(r.listeners[0])
	if r.certificates != nil {
		u.Scheme = "https"
	}
	return u
}

// build creates the HTTP handlers over the listeners and the store. c has the key, and
// what dev adds.
func (r *running) build(c handlers.Config) {
	i := r.current.Load()
	i.server = r.newServer(i, c)
	r.visitors = newConnLimit(r.connectionsAllowed, i.server.Site.TrustsProxy, r.log)
}

// connectionsAllowed returns how many connections there may be now.
func (r *running) connectionsAllowed() int {
	files := datadir.FilesOf(r.data().DB)
	files.Need += uint64(r.config.webhooks.Parallel) // connections of our own
	return connectionsAllowed(files, r.memory)
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
	c.Alarms = &admin.Alarms{Test: r.testAlarms, List: r.listAlarms}
	c.Desk, c.Settings, c.Platform = r.desk(), r.settings, r.config.platform
	c.Command = func(text string) string { return CompleteCommands(text, r.at) }
	c.Observe, c.Metrics = r.metrics.observe, r.exposed
	c.WebhookRules = r.config.webhooks.Rules
	c.Shared = r.presence != nil
	if err := data.Store.MeasureHashes(context.Background()); err != nil {
		r.log.Warn("imported password hashes not measured", "err", err) // the first refused sign-in tries again
	}
	data.Store.Ring().Begin(func() stats.Disk {
		if r.presence != nil {
			return stats.Disk{Used: uint64(r.presence.State().Size)}
		}
		return diskOf(data.DB)
	})
	if c.PublicURL == nil {
		c.PublicURL = r.ownURL()
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
	err := r.readyPresence()
	if err == nil {
		err = r.data().DB.Ready()
	}
	if err == nil && r.presence != nil {
		err = r.leftOut()
	}
	return err
}

// readyPresence returns what the last look at the database found against serving, or nil.
func (r *running) readyPresence() error {
	if r.presence == nil {
		return nil
	}
	s := r.presence.State()
	return cmp.Or(s.Unfit, database.CheckOffset(s.Clock))
}

// leftOut returns why this server is no longer one of those on the database, although it answers,
// or nil.
func (r *running) leftOut() error {
	if s := r.presence.State(); s.Away != nil && time.Since(s.Looked) > awayLong {
		return s.Away
	}
	return nil
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

// serve answers requests until a signal stops it. Then it becomes unready, closes the public
// listeners, finishes requests in flight (for at most drainFor), and closes the monitor
// listener and the admin socket. A second signal cuts this short. The caller closes the
// store, unless a write had an unknown outcome: then the process must exit immediately and
// acknowledge nothing more.
func (r *running) serve(announce func()) error {
	signals := r.listenForSignals()
	defer signals.close()
	r.started = time.Now()
	public, plain := r.publicServers()
	private := web.NewHTTPServer(r.handler((*handlers.Server).Admin), r.log)
	monitor := web.NewHTTPServer(r.handler((*handlers.Server).Monitor), r.log)
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
		r.serveOn(monitor, newConnLimit(fixed(connectionsLeast), anySource, r.log).listener(r.monitor), broken)
	}
	announce()
	defer r.feedWatchdog()()

	working, stop := context.WithCancel(context.Background())
	defer stop()
	r.beginWork(working)
	var failed error
	select {
	case failed = <-r.fatal:
		if r.presence == nil {
			r.limitStop()
			return term.Fatal(failed)
		}
	case failed = <-broken:
		failed = fmt.Errorf("serve: %w", failed)
	case s := <-signals.first:
		r.log.Info("stopping", "signal", s.String())
	case <-r.orphaned:
		r.log.Info("stopping", "reason", "parent process exited")
	}
	r.limitStop()
	r.closing.Store(true)
	r.notifyManager(notifyStopping)
	r.server().API.Drain()
	stop()
	failed = errors.Join(failed, r.drain(signals.second, public, plain, monitor, private))
	r.work.Wait()
	if r.presence != nil {
		return failed
	}
	if err := r.unknownOutcome(); err != nil { // by one of the requests in flight
		return err
	}
	return failed
}

// beginWork starts what the server does besides answering requests.
func (r *running) beginWork(ctx context.Context) {
	if r.presence != nil {
		r.work.Go(func() { r.takeAgreed(ctx) })
		r.work.Go(func() { r.presence.Do(ctx, pgkv.JobSweep, r.sweep) })
	}
	r.work.Go(func() { r.watch(ctx) })
	r.work.Go(func() { r.onlyHere(ctx, pgkv.JobSweep, r.trimAudit) })
	r.work.Go(func() { r.onlyHere(ctx, pgkv.JobSweep, r.trimEvents) })
	if !r.config.webhooks.Off {
		r.work.Go(func() { r.sendWebhooks(ctx) })
	}
	if r.alarms != nil {
		r.work.Go(func() { r.runAlarms(ctx) })
	}
	if r.backups != nil {
		r.work.Go(func() { r.backups.run(ctx) })
		if then := r.backups.then; then != nil {
			r.work.Go(func() {
				own, _ := r.backups.own()
				then.run(ctx, own)
			})
		}
	}
	if r.certificates != nil {
		r.work.Go(func() { r.certificates.run(ctx) })
	}
}

// bounded calls run, which serves, and gives up when a stop takes longer than stopMax. Then
// the process must exit.
func (r *running) bounded(run func() error) error {
	r.overdue = make(chan struct{}, 1)
	ended := make(chan error, 1)
	go func() { ended <- run() }()
	select {
	case err := <-ended:
		return err
	case <-r.overdue:
		return term.Overdue(stopMax)
	}
}

// limitStop starts the time that a stop may take.
func (r *running) limitStop() {
	time.AfterFunc(stopMax, func() {
		select {
		case r.overdue <- struct{}{}:
		default:
		}
	})
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
func (r *running) drain(hurry <-chan struct{}, servers ...*http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(r.drainFor, drainMax))
	defer cancel()
	var forced atomic.Bool
	r.work.Go(func() {
		select {
		case <-hurry:
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

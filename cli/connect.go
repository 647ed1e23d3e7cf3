package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"tollhouse/cli/datadir"
	"tollhouse/cli/server"
	"tollhouse/cli/term"
	"tollhouse/handlers"
	"tollhouse/store/secret"
)

// connect returns the admin API: that of the server that runs on the data
// directory, or, when none does, one in this process over the store itself.
//
// A process that gets the directory's lock opens the store. Any other process talks
// to the socket. If no server answers, because another command holds the lock or a
// server is starting or stopping, both are retried until one works.

// need says whether a command creates a missing data directory or treats it as empty.
// A typo in a path must not leave a directory behind.
type need bool

const (
	makesData need = true
	needsData need = false
)

// manage runs do over the admin API.
func (p *program) manage(ctx context.Context, role string, n need, do func(*admin) error) error {
	a, err := p.connect(ctx, role, n)
	if err != nil {
		return err
	}
	err = do(a)
	if fatal := a.fatal(); fatal != nil {
		return term.Fatal(fatal) // the store is left as a crash would leave it
	}
	if closeErr := a.close(); err == nil {
		err = closeErr
	}
	return err
}

func (p *program) connect(ctx context.Context, role string, n need) (*admin, error) {
	if p.adminSocket != "" && !p.dataGiven {
		return p.connectServer(ctx, p.adminSocket)
	}
	if p.store.Given() {
		return p.connectDatabase(ctx, n)
	}
	dir, err := filepath.Abs(p.data)
	if err != nil {
		return nil, err
	}
	if err := datadir.BecomeOwner(dir); err != nil {
		return nil, err
	}
	if n == needsData && datadir.IsEmpty(dir) {
		p.Note("%s has no data yet", dir)
		return p.openAdmin(ctx, datadir.Options{Log: p.QuietLog()}, secret.Key{}, nil)
	}
	if err := datadir.Prepare(dir, term.ExitNotAllowed); err != nil {
		return nil, err
	}
	return p.connectDataDir(ctx, dir, role)
}

// somethingTo refuses an empty data directory, which is probably a typo in a path.
func (p *program) somethingTo(do string) error {
	if p.adminSocket != "" && !p.dataGiven || p.store.Given() {
		return nil
	}
	dir, err := filepath.Abs(p.data)
	if err == nil && datadir.IsEmpty(dir) {
		err = term.Fail(term.ExitNotFound, "name the data directory with --data", "%s has no data to %s", dir, do)
	}
	return err
}

// connectRunning connects to the running server of the data directory. A database needs
// none.
func (p *program) connectRunning(ctx context.Context) (*admin, error) {
	if p.adminSocket != "" && !p.dataMeant {
		return p.connectServer(ctx, p.adminSocket)
	}
	if p.store.Given() {
		return p.connectDatabase(ctx, needsData)
	}
	dir, err := filepath.Abs(p.data)
	if err != nil {
		return nil, err
	}
	return p.connectServer(ctx, p.socketOf(dir))
}

// connectServer connects to the server on socket, which must be running.
func (p *program) connectServer(ctx context.Context, socket string) (*admin, error) {
	a := newSocketAdmin(socket)
	err := a.ask(ctx)
	switch {
	case err == nil:
		return a, nil
	case errors.Is(err, fs.ErrPermission):
		return nil, socketNotAllowed(socket, err)
	case datadir.NoListener(err):
		return nil, term.Fail(term.ExitUnreachable, "start one, or name the socket of a running server with --admin-socket", "no server answers on %s", socket)
	}
	return nil, err
}

func socketNotAllowed(socket string, err error) error {
	return term.Fail(term.ExitNotAllowed, "run tollhouse as the user who runs the server, or as root", "no permission to talk to the server on %s: %w", socket, term.SystemReason(err))
}

// connectDataDir locks dir and opens its store, or connects to the server that
// holds the lock.
func (p *program) connectDataDir(ctx context.Context, dir, role string) (*admin, error) {
	deadline := time.Now().Add(datadir.LockTries)
	for {
		lock, err := datadir.TryLock(dir, role)
		if err == nil {
			return p.openDataDir(ctx, dir, lock)
		}
		if !errors.Is(err, datadir.ErrLocked) {
			return nil, err
		}
		socket := p.socketOf(dir)
		a := newSocketAdmin(socket)
		err = a.ask(ctx)
		switch {
		case err == nil:
			return a, nil
		case errors.Is(err, fs.ErrPermission):
			return nil, socketNotAllowed(socket, err)
		case (datadir.NoListener(err) || errors.Is(err, context.DeadlineExceeded)) && time.Now().After(deadline):
			return nil, datadir.HeldError(dir, datadir.ReadHolder(dir))
		case isHungUp(err) && time.Now().After(deadline):
			return nil, socketNotAllowed(socket, err)
		case !datadir.NoListener(err) && !isHungUp(err):
			return nil, err
		}
		if err := term.Sleep(ctx, datadir.LockWait); err != nil {
			return nil, err
		}
	}
}

// socketOf returns the socket of the server that holds dir.
func (p *program) socketOf(dir string) string {
	if p.adminSocket != "" && !p.dataMeant {
		return p.adminSocket
	}
	return datadir.HolderSocket(dir)
}

// isHungUp reports whether the other end closed the connection unanswered: a
// server that is stopping, or one that refuses our user.
func isHungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// openDataDir opens the store of dir, whose lock is held, until the admin is
// closed.
func (p *program) openDataDir(ctx context.Context, dir string, lock *datadir.Lock) (*admin, error) {
	a, err := func() (*admin, error) {
		path, fresh, err := datadir.CurrentStore(dir)
		if err != nil {
			return nil, err
		}
		if fresh && p.keyFile == "" {
			if _, err := datadir.ServerKey(dir, "", fresh, p.QuietLog()); err != nil {
				return nil, err
			}
		}
		return p.openAdmin(ctx, datadir.Options{Dir: path, Log: p.QuietLog()}, p.knownKey(dir), lock)
	}()
	if err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	return a, nil
}

// openAdmin serves the admin API in this process. Only what seals a secret needs the server
// key; known is zero if the key cannot be read.
func (p *program) openAdmin(ctx context.Context, o datadir.Options, known secret.Key, lock *datadir.Lock) (*admin, error) {
	rules, err := server.ParseWebhookAllow(p.webhookAllow)
	if err != nil {
		return nil, err
	}
	o.Key = keyOrAny(known)
	if o.Dir != "" {
		datadir.MemoryDefault.Limit(p.environ) // imports and deep checks would otherwise use all memory
	}
	var fatal atomic.Pointer[error]
	o.OnFatal = func(err error) { fatal.Store(&err) }
	k, err := datadir.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	a := newOwnAdmin(handlers.Config{
		Store: k.Store, Key: known, PublicURL: &url.URL{Scheme: "http", Host: "127.0.0.1"}, Log: o.Log, Doctor: server.StoreCheck(k), WebhookRules: rules,
	})
	a.keyless = o.Dir != "" && known == (secret.Key{})
	a.fatal = func() error {
		if err := fatal.Load(); err != nil {
			return *err
		}
		return nil
	}
	stop := a.close
	a.close = func() error {
		err := errors.Join(stop(), k.Close())
		if lock != nil {
			err = errors.Join(err, lock.Release())
		}
		return err
	}
	return a.asked(ctx)
}

// newOwnAdmin serves the admin API in this process. Its close waits for the requests.
func newOwnAdmin(c handlers.Config) *admin {
	c.Version = version()
	transport := &inProcess{handler: handlers.New(c).Admin()}
	return &admin{
		http: &http.Client{Transport: transport}, own: true,
		fatal: func() error { return nil },
		close: func() error { transport.wait(); return nil },
	}
}

// asked returns a once it has answered, and closes it if it does not.
func (a *admin) asked(ctx context.Context) (*admin, error) {
	if err := a.ask(ctx); err != nil {
		return nil, errors.Join(err, a.close())
	}
	return a, nil
}

// keyOrAny returns the server key, or a new one if it is not known.
func keyOrAny(known secret.Key) secret.Key {
	if known == (secret.Key{}) {
		return secret.NewKey(nil)
	}
	return known
}

// knownKey returns the server key of a data directory (of none if dir is ""), or the zero key when it
// cannot be read: only a server needs it.
func (p *program) knownKey(dir string) secret.Key {
	path := p.keyFile
	if path == "" && dir == "" {
		return secret.Key{}
	}
	if path == "" {
		path = filepath.Join(dir, datadir.KeyName)
	}
	key, err := datadir.ReadKey(path, p.keyFile != "", slog.New(slog.DiscardHandler))
	if err != nil {
		return secret.Key{}
	}
	return key
}

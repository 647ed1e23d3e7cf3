package cli

import (
	"bytes"
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
	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// connect returns the admin API: that of the server that runs on the data
// directory, or, when none does, one in this process over the store itself.
//
// A process that gets the directory's lock opens the store. Any other process talks
// to the socket. If no server answers, because another command holds the lock or a
// server is starting or stopping, both are retried until one works.

// need says what a command does without data. A typo in a path must not leave a directory
// behind, or look like an empty store.
type need int

const (
	needsData need = iota // it is refused
	makesData             // it creates a store and says so, unless it fails
	triesData             // it works on an empty store in memory
)

// manage runs do over the admin API.
func (p *program) manage(ctx context.Context, role string, n need, do func(*adminClient) error) error {
	a, err := p.connect(ctx, role, n)
	if err != nil {
		return err
	}
	err = do(a)
	if fatal := a.fatal(); fatal != nil {
		return term.Fatal(fatal) // the store is left as a crash would leave it
	}
	a.failed = err != nil
	if closeErr := a.close(); err == nil {
		err = closeErr
	}
	if a.created != "" && !a.discarded {
		p.Note("notice: created a new store in %s", a.created)
	}
	return err
}

func (p *program) connect(ctx context.Context, role string, n need) (*adminClient, error) {
	if p.adminSocket != "" && !p.dataGiven {
		return p.connectServer(ctx, p.adminSocket)
	}
	if p.store.Given() {
		return p.connectDatabase(ctx, n)
	}
	dir, err := filepath.Abs(datadir.Locate(p.data))
	if err != nil {
		return nil, err
	}
	if err := datadir.BecomeOwner(dir); err != nil {
		return nil, err
	}
	if err := datadir.CheckLink(dir); err != nil {
		return nil, err
	}
	empty := datadir.IsEmpty(dir)
	if empty && n == triesData {
		p.Note("%s has no data yet", dir)
		return p.openAdmin(ctx, datadir.Options{Log: p.QuietLog()}, secret.Key{}, "", nil)
	}
	if empty && n == needsData {
		return nil, noData(dir, "")
	}
	above, _ := datadir.NearestThere(dir)
	if dir, err = datadir.Prepare(dir, term.ExitNotAllowed, p.QuietLog()); err != nil {
		return nil, err
	}
	a, err := p.connectDataDir(ctx, dir, role)
	if err == nil && a.created != "" && empty {
		a.discard = func() error { return datadir.Discard(dir, above) }
	}
	return a, err
}

// noData refuses a directory without data, which is probably a typo in a path.
func noData(dir, to string) error {
	return term.Fail(term.ExitNotFound, "name the data directory with --data", "%s has no data%s", dir, to)
}

// somethingTo refuses an empty data directory for a command that does not open it first.
func (p *program) somethingTo(do string) error {
	if p.adminSocket != "" && !p.dataGiven || p.store.Given() {
		return nil
	}
	dir, err := filepath.Abs(datadir.Locate(p.data))
	if err == nil {
		err = datadir.CheckLink(dir)
	}
	if err == nil && datadir.IsEmpty(dir) {
		err = noData(dir, " to "+do)
	}
	return err
}

// connectRunning connects to the running server of the data directory. A database needs
// none.
func (p *program) connectRunning(ctx context.Context) (*adminClient, error) {
	if p.adminSocket != "" && !p.dataMeant {
		return p.connectServer(ctx, p.adminSocket)
	}
	if p.store.Given() {
		return p.connectDatabase(ctx, needsData)
	}
	dir, err := filepath.Abs(datadir.Locate(p.data))
	if err != nil {
		return nil, err
	}
	if p.adminSocket == "" {
		if err := datadir.CheckLink(dir); err != nil {
			return nil, err
		}
	}
	if p.adminSocket == "" && datadir.IsEmpty(dir) {
		return nil, term.Fail(term.ExitUnreachable, "start one, or name its data directory with --data", "no server answers on %s: %s has no data", p.socketOf(dir), dir)
	}
	return p.connectServer(ctx, p.socketOf(dir))
}

// connectServer connects to the server on socket, which must be running.
func (p *program) connectServer(ctx context.Context, socket string) (*adminClient, error) {
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
func (p *program) connectDataDir(ctx context.Context, dir, role string) (*adminClient, error) {
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
func (p *program) openDataDir(ctx context.Context, dir string, lock *datadir.Lock) (*adminClient, error) {
	a, err := func() (*adminClient, error) {
		path, fresh, err := datadir.CurrentStore(dir)
		if err != nil {
			return nil, err
		}
		if fresh && p.keyFile == "" {
			if _, err := datadir.ServerKey(datadir.KeyOptions{Dir: dir, Generation: path, Fresh: fresh, Log: p.QuietLog()}); err != nil {
				return nil, err
			}
		}
		wanted, err := datadir.WantedKey(path)
		if err != nil {
			return nil, err
		}
		known := p.knownKey(dir)
		if wanted != "" && datadir.Fingerprint(known) != wanted {
			known = secret.Key{} // nothing may be sealed with another key
		}
		a, err := p.openAdmin(ctx, datadir.Options{Dir: path, Lock: lock, Log: p.QuietLog()}, known, wanted, lock)
		if err == nil && fresh {
			a.created = dir
		}
		return a, err
	}()
	if err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	return a, nil
}

// openAdmin serves the admin API in this process. Only sealing a secret needs the server
// key; known is zero if the key cannot be read, or if the data wants one with another fingerprint.
func (p *program) openAdmin(ctx context.Context, o datadir.Options, known secret.Key, wanted string, lock *datadir.Lock) (*adminClient, error) {
	rules, err := server.ParseWebhookAllow(p.webhookAllow)
	if err != nil {
		return nil, err
	}
	o.Key, o.OpenKinds = keyOrAny(known), p.openKinds
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
		Store: k.Store, Key: known, KeyFingerprint: wanted, PublicURL: &url.URL{Scheme: "http", Host: "127.0.0.1"}, Log: o.Log, Doctor: server.StoreCheck(k), WebhookRules: rules,
	})
	a.keyless, a.wanted = o.Dir != "" && known == (secret.Key{}), wanted
	a.fatal = func() error {
		if err := fatal.Load(); err != nil {
			return *err
		}
		return nil
	}
	stop := a.close
	a.close = func() error {
		err := stop()
		a.discarded = a.failed && a.discard != nil && !hasFacts(k.DB)
		err = errors.Join(err, k.Close())
		if a.discarded {
			err = errors.Join(err, a.discard())
		}
		if lock != nil {
			err = errors.Join(err, lock.Release())
		}
		return err
	}
	return a.asked(ctx)
}

// hasFacts reports whether a store has, or may have, more than it was created with.
func hasFacts(db kv.Snapshotter) bool {
	own := []byte{record.TagMeta, record.TagRing, record.TagCounts}
	return db.Snapshot(context.Background(), func(page []kv.Record) error {
		for _, r := range page {
			if !bytes.Contains(own, r.Key[:1]) {
				return errors.New("a fact")
			}
		}
		return nil
	}) != nil
}

// newOwnAdmin serves the admin API in this process. Its close waits for the requests.
func newOwnAdmin(c handlers.Config) *adminClient {
	c.Version = version()
	transport := &inProcess{handler: handlers.New(c).Admin()}
	return &adminClient{
		http: &http.Client{Transport: transport}, own: true,
		fatal: func() error { return nil },
		close: func() error { transport.wait(); return nil },
	}
}

// asked returns a once it has answered, and closes it if it does not.
func (a *adminClient) asked(ctx context.Context) (*adminClient, error) {
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

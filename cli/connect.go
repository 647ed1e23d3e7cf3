package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"tollhouse/handlers"
	"tollhouse/store/secret"
)

// connect returns the admin API: that of the server that runs on the data
// directory, or, when none does, one in this process over the store itself.
//
// Whoever gets the lock of the directory opens the store. Whoever does not
// speaks to the socket; when nobody answers there, because the holder is
// another command, or a server that is only starting or already stopping, both
// are tried again until one of them works.

// A command either makes the data directory when there is none, or finds
// nothing in it: a slip in a path must not leave a directory behind.
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
		return fatalFault(fatal) // the store is left as a crash would leave it
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
	dir, err := filepath.Abs(p.data)
	if err != nil {
		return nil, err
	}
	if err := becomeOwner(dir); err != nil {
		return nil, err
	}
	if n == needsData && isNothing(dir) {
		p.note("there is no data in %s yet", dir)
		return p.openAdmin(ctx, keepOptions{log: p.quietLog()}, secret.Key{}, nil)
	}
	if err := prepareDataDir(dir, exitNotAllowed); err != nil {
		return nil, err
	}
	return p.connectDataDir(ctx, dir, role)
}

// somethingTo refuses a slip in a path, for a command that looks at what is there
// or backs it up.
func (p *program) somethingTo(do string) error {
	if p.adminSocket != "" && !p.dataGiven {
		return nil
	}
	dir, err := filepath.Abs(p.data)
	if err == nil && isNothing(dir) {
		err = fail(exitNotFound, "name the data directory with --data", "there is no data in %s to %s", dir, do)
	}
	return err
}

// isNothing reports whether dir is not there, or empty.
func isNothing(dir string) bool {
	entries, err := os.ReadDir(dir)
	return errors.Is(err, fs.ErrNotExist) || err == nil && isEmptyDir(entries)
}

// connectRunning speaks to the server of the data directory, which must run.
func (p *program) connectRunning(ctx context.Context) (*admin, error) {
	if p.adminSocket != "" {
		return p.connectServer(ctx, p.adminSocket)
	}
	dir, err := filepath.Abs(p.data)
	if err != nil {
		return nil, err
	}
	return p.connectServer(ctx, p.socketOf(dir))
}

// connectServer speaks to a server that must be there.
func (p *program) connectServer(ctx context.Context, socket string) (*admin, error) {
	a := newSocketAdmin(socket)
	err := a.ask(ctx)
	switch {
	case err == nil:
		return a, nil
	case errors.Is(err, fs.ErrPermission):
		return nil, socketNotAllowed(socket, err)
	case isNobodyThere(err):
		return nil, fail(exitUnreachable, "start one, or name the socket of one that runs with --admin-socket", "no server answers on %s", socket)
	}
	return nil, err
}

func socketNotAllowed(socket string, err error) error {
	return fail(exitNotAllowed, "run tollhouse as the user who runs the server, or as root", "we may not speak to the server on %s: %w", socket, systemReason(err))
}

// connectDataDir takes the lock of dir and opens its store, or speaks to the
// server that holds it.
func (p *program) connectDataDir(ctx context.Context, dir, role string) (*admin, error) {
	deadline := time.Now().Add(lockTries)
	for {
		lock, err := tryLock(dir, role)
		if err == nil {
			return p.openDataDir(ctx, dir, lock)
		}
		if !errors.Is(err, errLocked) {
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
		case isNobodyThere(err) && time.Now().After(deadline):
			return nil, heldFault(dir, readHolder(dir))
		case isHungUp(err) && time.Now().After(deadline):
			return nil, socketNotAllowed(socket, err)
		case !isNobodyThere(err) && !isHungUp(err):
			return nil, err
		}
		if err := sleep(ctx, lockWait); err != nil {
			return nil, err
		}
	}
}

// socketOf returns the socket of the server that holds dir.
func (p *program) socketOf(dir string) string {
	if p.adminSocket != "" {
		return p.adminSocket
	}
	if told := readHolder(dir).Socket; told != "" {
		return told
	}
	return filepath.Join(dir, socketName)
}

// isHungUp reports whether the other end closed the connection unanswered: a
// server that is stopping, or one that does not take us for its operator.
func isHungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// openDataDir opens the store of dir, whose lock is held, until the admin is
// closed.
func (p *program) openDataDir(ctx context.Context, dir string, lock *dirLock) (*admin, error) {
	a, err := func() (*admin, error) {
		path, fresh, err := storeDir(dir)
		if err != nil {
			return nil, err
		}
		if fresh && p.keyFile == "" {
			if _, err := serverKey(dir, "", fresh, p.quietLog()); err != nil {
				return nil, err
			}
		}
		return p.openAdmin(ctx, keepOptions{dir: path, log: p.quietLog()}, p.knownKey(dir), lock)
	}()
	if err != nil {
		return nil, errors.Join(err, lock.release())
	}
	return a, nil
}

// openAdmin answers the admin API in this process. Nothing in it needs the
// server key, so a command works where it may not read that; then known is zero.
func (p *program) openAdmin(ctx context.Context, o keepOptions, known secret.Key, lock *dirLock) (*admin, error) {
	o.key = secret.NewKey()
	if o.dir != "" {
		memoryDefault.limit(p.environ) // for imports and deep looks, which take what there is
	}
	var fatal atomic.Pointer[error]
	o.onFatal = func(err error) { fatal.Store(&err) }
	k, err := p.openToManage(ctx, o)
	if err != nil {
		return nil, err
	}
	server := handlers.New(handlers.Config{
		Store: k.store, Key: known, PublicURL: &url.URL{Scheme: "http", Host: "127.0.0.1"}, Log: o.log, Version: version(),
	})
	transport := &inProcess{handler: withDoctor(server.Admin(), k, nil)}
	a := &admin{http: &http.Client{Transport: transport}}
	a.fatal = func() error {
		if err := fatal.Load(); err != nil {
			return *err
		}
		return nil
	}
	a.close = func() error {
		transport.wait()
		err := k.close()
		if lock != nil {
			err = errors.Join(err, lock.release())
		}
		return err
	}
	if err := a.ask(ctx); err != nil {
		return nil, errors.Join(err, a.close())
	}
	return a, nil
}

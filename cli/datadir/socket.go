package datadir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"tollhouse/cli/term"
)

// socketPathMax is what a Unix socket's address holds, without its NUL, on the
// narrowest system.
const socketPathMax = 103

// ListenAdmin listens on a Unix socket at path for our own user and root. It refuses a
// directory where another user could plant a socket, and removes the socket of a
// crashed server.
func ListenAdmin(path string, log *slog.Logger) (net.Listener, error) {
	if err := checkSocketPlace(path); err != nil {
		return nil, err
	}
	short, done, err := shortSocketPath(path)
	if err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: short})
	if err != nil {
		done()
		return nil, term.Fail(term.ExitCannotCreate, "choose another path with --admin-socket", "cannot listen on the admin socket %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false) // it knows the short name, which may be gone
	if err := os.Chmod(short, 0o600); err != nil {
		return nil, errors.Join(term.Fail(term.ExitConfig, "", "cannot remove other users' access to the admin socket %s: %w", path, err), l.Close())
	}
	made, err := os.Lstat(short)
	if err != nil {
		return nil, errors.Join(term.Fail(term.ExitIO, "", "cannot examine the admin socket %s: %w", path, err), l.Close())
	}
	return &adminListener{UnixListener: l, path: path, made: made, done: done, log: log}, nil
}

// checkSocketPlace makes way for a socket at path.
func checkSocketPlace(path string) error {
	dir := filepath.Dir(path)
	info, err := os.Stat(dir)
	if err != nil {
		code := term.ExitCannotCreate
		if errors.Is(err, fs.ErrNotExist) {
			code = term.ExitBusy // another program may make it, as systemd does below /run
		}
		return term.Fail(code, "create the directory first: install -d -m 700 "+term.ShellQuote(dir), "cannot use the directory of the admin socket %s: %w", path, term.PathReason(err))
	}
	if info.Mode().Perm()&0o022 != 0 {
		return term.Fail(term.ExitConfig, "use a directory of its own: install -d -m 700 "+term.ShellQuote(filepath.Join(dir, "tollhouse"))+", and --admin-socket with a path in it",
			"the admin socket cannot be in %s: other users can write there (mode %04o)", dir, info.Mode().Perm())
	}
	if owner, ours := OwnedByUs(info); !ours && owner != 0 {
		return term.Fail(term.ExitConfig, "use a directory of your own with --admin-socket", "the admin socket cannot be in %s: it belongs to %s", dir, UserNamed(owner))
	}
	info, err = os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return NotAllowedOr(term.ExitConfig, path, err)
	}
	return removeStaleSocket(path, info)
}

func removeStaleSocket(path string, info fs.FileInfo) error {
	look := "name another path with --admin-socket, or find out who put it there: ls -l " + term.ShellQuote(path)
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return term.Fail(term.ExitConfig, look, "the admin socket %s is a symbolic link", path)
	case info.Mode()&fs.ModeSocket == 0:
		return term.Fail(term.ExitConfig, look, "the admin socket %s is not a socket", path)
	case info.Mode().Perm()&0o022 != 0:
		return term.Fail(term.ExitConfig, look, "the admin socket %s is writable by other users (mode %04o)", path, info.Mode().Perm())
	}
	conn, err := dialAdmin(path)
	if err == nil {
		_ = conn.Close()
		return term.Fail(term.ExitBusy, "give each server its own with --admin-socket", "another server answers on the admin socket %s", path)
	}
	if !NoListener(err) {
		code := term.ExitConfig
		if errors.Is(err, syscall.EAGAIN) { // a server that does not accept connections now
			code = term.ExitBusy
		}
		return term.Fail(code, look, "cannot determine whether a server answers on the admin socket %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return term.Fail(term.ExitConfig, look, "cannot remove the stale admin socket %s: %w", path, err)
	}
	return nil
}

// dialAdmin connects to the server on the socket at path.
func dialAdmin(path string) (net.Conn, error) {
	short, done, err := shortSocketPath(path)
	if err != nil {
		return nil, err
	}
	defer done()
	return net.Dial("unix", short)
}

// NoListener reports whether a failed dial means that no server listens.
func NoListener(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}

// adminListener accepts connections of our own user and of root. The mode of
// the socket says the same, but not every system checks it.
type adminListener struct {
	*net.UnixListener
	path   string
	made   fs.FileInfo // of the socket
	done   func()
	log    *slog.Logger
	closed sync.Once
}

func (l *adminListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		uid, err := peerUID(conn)
		if err == nil && mayAdminister(uid, os.Geteuid()) {
			return conn, nil
		}
		l.log.Warn("admin connection refused: it came from another user", "uid", uid, "err", err)
		_ = conn.Close()
	}
}

// peerUID returns the user at the other end of a connection.
func peerUID(conn *net.UnixConn) (uid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return -1, err
	}
	uid = -1
	var credErr error
	err = raw.Control(func(fd uintptr) { uid, credErr = userBehind(int(fd)) })
	return uid, errors.Join(err, credErr)
}

// mayAdminister reports whether the user peer may administer a server of ours.
func mayAdminister(peer, server int) bool { return peer == server || peer == 0 }

// Close removes the socket and then stops listening. A second call does nothing: the
// socket may be that of the next server.
func (l *adminListener) Close() (err error) {
	l.closed.Do(func() {
		defer l.done()
		// Another server's may be in its place, in a directory that was moved here.
		if now, statErr := os.Lstat(l.path); statErr == nil && os.SameFile(now, l.made) {
			err = os.Remove(l.path)
		}
		err = errors.Join(err, l.UnixListener.Close())
	})
	return err
}

// Addr returns the full path.
func (l *adminListener) Addr() net.Addr { return &net.UnixAddr{Net: "unix", Name: l.path} }

func tooLongFault(path string) error {
	return term.Fail(term.ExitCannotCreate, "choose a shorter path with --admin-socket", "%s", fmt.Sprintf("the path of the admin socket has %d bytes, but the system allows only %d: %s", len(path), socketPathMax, path))
}

// SocketPath returns the absolute path of the admin socket: named, or the one in
// dir.
func SocketPath(named, dir string) string {
	if named == "" {
		return filepath.Join(dir, SocketName)
	}
	if abs, err := filepath.Abs(named); err == nil {
		return abs
	}
	return named
}

// SocketTransport carries requests to the server on the socket at path.
func SocketTransport(path string) *http.Transport {
	return &http.Transport{
		DialContext:        func(context.Context, string, string) (net.Conn, error) { return dialAdmin(path) },
		DisableCompression: true,
		MaxIdleConns:       1,
	}
}

// Answers reports whether a server answers on the socket at path within LockTries.
func Answers(ctx context.Context, path string) bool {
	ctx, cancel := context.WithTimeout(ctx, LockTries)
	defer cancel()
	transport := SocketTransport(path)
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://tollhouse/admin/info", nil)
	if err != nil {
		return false
	}
	answer, err := transport.RoundTrip(req)
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

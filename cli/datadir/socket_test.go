package datadir

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"tollhouse/cli/term"
	"tollhouse/store/storetest/must"
)

var quiet = slog.New(slog.DiscardHandler)

// answering serves "hello" on a socket until the test ends.
func answering(t *testing.T, path string) net.Listener {
	t.Helper()
	l := must.Get(ListenAdmin(path, quiet))(t)
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "hello")
	})}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close(); <-ended })
	return l
}

// Promise (One data directory, one owner): a lost server key is recreated; another, or one open to
// others, is refused; a socket's path may be long
func TestListenAdmin(t *testing.T) {
	t.Parallel()
	t.Run("closed_twice_it_leaves_the_next_server_its_socket", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(must.ClosedDir(t), SocketName)
		first := must.Get(ListenAdmin(path, quiet))(t)
		must.Do(t, first.Close())
		answering(t, path)
		must.Do(t, first.Close())
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("the next server's socket: %v", err)
		}
	})
	t.Run("mode_0600", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(must.ClosedDir(t), SocketName)
		answering(t, path)
		info, err := os.Lstat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("socket mode %v, %v; want 0600", info.Mode(), err)
		}
	})
	t.Run("path_longer_than_an_address_holds", func(t *testing.T) {
		t.Parallel()
		must.Have(t, runtime.GOOS == "linux", "Linux, which has a shorter name for the path")
		path := filepath.Join(must.ClosedDir(t, strings.Repeat("d", 100), strings.Repeat("e", 100)), SocketName)
		l := answering(t, path)
		answer := must.Get((&http.Client{Transport: SocketTransport(path)}).Get("http://tollhouse/"))(t)
		if said, err := io.ReadAll(answer.Body); err != nil || string(said) != "hello" {
			t.Errorf("over a path of %d bytes: %q, %v", len(path), said, err)
		}
		if got := l.Addr().String(); got != path {
			t.Errorf("the listener calls itself %s, want %s", got, path)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(path); err == nil {
			t.Error("the socket is still there")
		}
	})
	t.Run("name_longer_than_an_address_holds_is_refused", func(t *testing.T) {
		t.Parallel()
		_, err := ListenAdmin(filepath.Join(must.ClosedDir(t), strings.Repeat("s", 200)), quiet)
		if err == nil || term.FailureOf(err).Code != term.ExitCannotCreate || term.FailureOf(err).Hint == "" {
			t.Errorf("listenAdmin = %v, want a fault with a hint", err)
		}
	})
	t.Run("stale_socket_is_taken_away", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(must.ClosedDir(t), SocketName)
		stale := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: path}))(t)
		stale.SetUnlinkOnClose(false)
		must.Do(t, errors.Join(os.Chmod(path, 0o600), stale.Close()))
		answering(t, path)
	})
	refused := func(name string, code int, place func(t *testing.T, dir string) string) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := place(t, must.ClosedDir(t))
			l, err := ListenAdmin(path, quiet)
			if err == nil {
				_ = l.Close()
				t.Fatal("listenAdmin took it")
			}
			if f := term.FailureOf(err); f.Code != code || f.Hint == "" {
				t.Errorf("listenAdmin = exit %d, %v, hint %q; want %d and a hint", f.Code, err, f.Hint, code)
			}
		})
	}
	refused("symlink", term.ExitConfig, func(t *testing.T, dir string) string {
		path := filepath.Join(dir, SocketName)
		must.Do(t, os.Symlink(filepath.Join(dir, "elsewhere"), path))
		return path
	})
	refused("group_writable_socket", term.ExitConfig, func(t *testing.T, dir string) string {
		path := filepath.Join(dir, SocketName)
		l := must.Get(net.Listen("unix", path))(t)
		t.Cleanup(func() { _ = l.Close() })
		must.Do(t, os.Chmod(path, 0o660))
		return path
	})
	refused("group_writable_directory", term.ExitConfig, func(t *testing.T, dir string) string {
		must.Do(t, os.Chmod(dir, 0o770))
		return filepath.Join(dir, SocketName)
	})
	refused("a_file_of_that_name", term.ExitConfig, func(t *testing.T, dir string) string {
		path := filepath.Join(dir, SocketName)
		must.Do(t, os.WriteFile(path, nil, 0o600))
		return path
	})
	refused("another_server_answers", term.ExitBusy, func(t *testing.T, dir string) string {
		path := filepath.Join(dir, SocketName)
		answering(t, path)
		return path
	})
	refused("no_directory", term.ExitBusy, func(_ *testing.T, dir string) string { return filepath.Join(dir, "none", SocketName) })
}

// Promise (Attacks on operations): the admin socket; a data directory open to others
func TestMayAdminister(t *testing.T) {
	t.Parallel()
	t.Run("only_the_servers_user_and_root", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			peer, server int
			want         bool
		}{{1000, 1000, true}, {0, 1000, true}, {0, 0, true}, {1001, 1000, false}, {1000, 0, false}, {-1, 1000, false}} {
			if got := mayAdminister(c.peer, c.server); got != c.want {
				t.Errorf("mayAdminister(%d, %d) = %v, want %v", c.peer, c.server, got, c.want)
			}
		}
	})
}

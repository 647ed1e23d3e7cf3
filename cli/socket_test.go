package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

var quiet = slog.New(slog.DiscardHandler)

// closedDir is a directory as a data directory is.
func closedDir(t *testing.T, name ...string) string {
	t.Helper()
	dir := filepath.Join(append([]string{t.TempDir()}, name...)...)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// answering serves "hello" on a socket until the test ends.
func answering(t *testing.T, path string) net.Listener {
	t.Helper()
	l, err := listenAdmin(path, quiet)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"account":"hello"}`)
	})}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close(); <-ended })
	return l
}

func TestListenAdmin(t *testing.T) {
	t.Parallel()
	t.Run("attack_94_mode_0600", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(closedDir(t), socketName)
		answering(t, path)
		info, err := os.Lstat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("socket mode %v, %v; want 0600", info.Mode(), err)
		}
	})
	t.Run("path_longer_than_an_address_holds", func(t *testing.T) {
		t.Parallel()
		if runtime.GOOS != "linux" {
			t.Skip("only Linux has a shorter name for it")
		}
		path := filepath.Join(closedDir(t, strings.Repeat("d", 100), strings.Repeat("e", 100)), socketName)
		l := answering(t, path)
		a := newSocketAdmin(path)
		if err := a.ask(context.Background()); err != nil || a.info.Account != "hello" {
			t.Errorf("ask over a path of %d bytes = %+v, %v", len(path), a.info, err)
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
		_, err := listenAdmin(filepath.Join(closedDir(t), strings.Repeat("s", 200)), quiet)
		if err == nil || asFault(err).code != exitConfig || asFault(err).hint == "" {
			t.Errorf("listenAdmin = %v, want a fault with a hint", err)
		}
	})
	t.Run("stale_socket_is_taken_away", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(closedDir(t), socketName)
		stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
		if err != nil {
			t.Fatal(err)
		}
		stale.SetUnlinkOnClose(false)
		if err := errors.Join(os.Chmod(path, 0o600), stale.Close()); err != nil {
			t.Fatal(err)
		}
		answering(t, path)
	})
	refused := func(name string, code int, place func(t *testing.T, dir string) string) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := place(t, closedDir(t))
			l, err := listenAdmin(path, quiet)
			if err == nil {
				_ = l.Close()
				t.Fatal("listenAdmin took it")
			}
			if f := asFault(err); f.code != code || f.hint == "" {
				t.Errorf("listenAdmin = exit %d, %v, hint %q; want %d and a hint", f.code, err, f.hint, code)
			}
		})
	}
	refused("attack_94_symlink", exitConfig, func(t *testing.T, dir string) string {
		path := filepath.Join(dir, socketName)
		if err := os.Symlink(filepath.Join(dir, "elsewhere"), path); err != nil {
			t.Fatal(err)
		}
		return path
	})
	refused("attack_94_group_writable_socket", exitConfig, func(t *testing.T, dir string) string {
		path := filepath.Join(dir, socketName)
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		if err := os.Chmod(path, 0o660); err != nil {
			t.Fatal(err)
		}
		return path
	})
	refused("attack_94_group_writable_directory", exitConfig, func(t *testing.T, dir string) string {
		if err := os.Chmod(dir, 0o770); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, socketName)
	})
	refused("a_file_of_that_name", exitConfig, func(t *testing.T, dir string) string {
		path := filepath.Join(dir, socketName)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	})
	refused("another_server_answers", exitBusy, func(t *testing.T, dir string) string {
		path := filepath.Join(dir, socketName)
		answering(t, path)
		return path
	})
	refused("no_directory", exitConfig, func(_ *testing.T, dir string) string { return filepath.Join(dir, "none", socketName) })
}

func TestPeer(t *testing.T) {
	t.Parallel()
	t.Run("attack_94_only_the_servers_user_and_root", func(t *testing.T) {
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
	t.Run("attack_94_another_user_is_hung_up_on", func(t *testing.T) {
		t.Parallel()
		if os.Geteuid() != 0 {
			t.Skip("only root can become another user")
		}
		// The directory is opened after the socket stands, as if its modes had
		// been loosened: the peer's user is then all that keeps others out.
		dir, err := os.MkdirTemp("/tmp", "tollhouse-peer-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		path := filepath.Join(dir, socketName)
		answering(t, path)
		if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(path, 0o666)); err != nil {
			t.Fatal(err)
		}
		binary := copyForOthers(t, dir)
		cmd := exec.Command(binary, "health", "--admin-socket", path)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != exitUnreachable {
			t.Errorf("health as another user: %v, %s; want exit %d", err, out, exitUnreachable)
		}
	})
}

// copyForOthers copies this binary, as tollhouse, to where every user may run it.
func copyForOthers(t *testing.T, dir string) string {
	t.Helper()
	self, err := exec.LookPath("tollhouse")
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "tollhouse")
	if err := os.WriteFile(path, content, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestOwner: another user's directory is never opened by going round the
// socket, and root works on it as its owner.
func TestOwner(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	top, err := os.MkdirTemp("/tmp", "tollhouse-owner-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	if err := os.Chmod(top, 0o755); err != nil {
		t.Fatal(err)
	}
	binary := copyForOthers(t, top)
	theirs := filepath.Join(top, "data")
	if err := errors.Join(os.Mkdir(theirs, 0o700), os.Chown(theirs, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	as := func(uid uint32, args ...string) (string, int) {
		cmd := exec.Command(binary, args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, err := cmd.CombinedOutput()
		if err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	if out, code := as(0, "account", "create", "acct_root", "--data", theirs); code != exitOK {
		t.Fatalf("root's command: exit %d, %s", code, out)
	}
	err = filepath.WalkDir(theirs, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		if owner, _ := ownedByUs(info); owner != 65534 {
			t.Errorf("%s belongs to %d, want the directory's owner", path, owner)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if out, code := as(0, "serve", "--data", theirs, "--listen", "127.0.0.1:0"); code != exitConfig || !strings.Contains(out, "run tollhouse as that user") {
		t.Errorf("root's serve: exit %d, %s; want %d and the cure", code, out, exitConfig)
	}
	if out, code := as(65533, "account", "list", "--data", theirs); code != exitNotAllowed || !strings.Contains(out, "hint: run tollhouse as that user") {
		t.Errorf("another user's command: exit %d, %s; want %d and the cure", code, out, exitNotAllowed)
	}
	if out, code := as(65533, "health", "--data", theirs); code != exitNotAllowed {
		t.Errorf("another user's health: exit %d, %s; want %d", code, out, exitNotAllowed)
	}
}

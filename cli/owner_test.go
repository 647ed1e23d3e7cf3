//go:build unix

package cli

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/store/storetest/must"
)

// TestPeer: a real other user connects to the admin socket.
//
// Promise (Attacks on operations): the admin socket; a data directory open to others
func TestPeer(t *testing.T) {
	t.Parallel()
	t.Run("another_user_is_hung_up_on", func(t *testing.T) {
		t.Parallel()
		must.Have(t, os.Geteuid() == 0, "only root can become another user")
		// The directory is opened after the socket stands, as if its modes had
		// been loosened: the peer's user is then all that keeps others out.
		dir := must.Get(os.MkdirTemp("/tmp", "tollhouse-peer-"))(t)
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		path := filepath.Join(dir, datadir.SocketName)
		l := must.Get(datadir.ListenAdmin(path, quiet))(t)
		server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.NotFoundHandler()}
		ended := make(chan struct{})
		go func() { defer close(ended); _ = server.Serve(l) }()
		t.Cleanup(func() { _ = server.Close(); <-ended })
		must.Do(t, errors.Join(os.Chmod(dir, 0o755), os.Chmod(path, 0o666)))
		binary := copyForOthers(t, dir)
		cmd := exec.Command(binary, "health", "--admin-socket", path)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != term.ExitUnreachable {
			t.Errorf("health as another user: %v, %s; want exit %d", err, out, term.ExitUnreachable)
		}
	})
}

// copyForOthers copies this binary, as tollhouse, to where every user may run it.
func copyForOthers(t *testing.T, dir string) string {
	t.Helper()
	self := must.Get(exec.LookPath("tollhouse"))(t)
	path := filepath.Join(dir, "tollhouse")
	// By a process of its own: a file that this one writes is open for writing in
	// whatever it starts at that moment, and can then not be run.
	if out, err := exec.Command("install", "-m", "755", self, path).CombinedOutput(); err != nil {
		t.Fatalf("install: %v, %s", err, out)
	}
	return path
}

// TestUnwritable: who may not use a directory is told its owner, its mode, who
// they are, and the cure.
//
// Promise (Commands and settings): an unusable path names owner, mode, our user and the fix;
// quotes, `~`, `$` and white space around it are refused; a byte order mark is skipped
func TestUnwritable(t *testing.T) {
	t.Parallel()
	top := must.Get(os.MkdirTemp("/tmp", "tollhouse-unwritable-"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	must.Do(t, os.Chmod(top, 0o755))
	binary := copyForOthers(t, top)
	us, credential := os.Geteuid(), (*syscall.Credential)(nil)
	if us == 0 { // whom no mode stops
		us, credential = 65534, &syscall.Credential{Uid: 65534, Gid: 65534}
	}
	made := func(t *testing.T, name string, mode os.FileMode) string {
		dir := filepath.Join(top, name)
		must.Do(t, errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, us, -1), os.Chmod(dir, mode)))
		t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
		return dir
	}
	ours := datadir.UserNamed(us)
	for name, c := range map[string]struct {
		dir, under string // the data directory is under dir
		mode       os.FileMode
		code       int
		want, hint string
	}{
		"unwritable_names_owner_mode_uid_and_cure": {"ours", "", 0o500, term.ExitNotAllowed,
			"no permission to use DIR/LOCK: DIR belongs to " + ours + " with mode 0500, but this process runs as " + ours + ": permission denied", "chmod u+rwx DIR"},
		"unreadable_names_owner_mode_uid_and_cure": {"blind", "", 0, term.ExitNotAllowed,
			"no permission to use DIR: DIR belongs to " + ours + " with mode 0000, but this process runs as " + ours + ": permission denied", "chmod u+rwx DIR"},
		"exit_73_names_owner_mode_uid_and_cure": {"above", "data", 0o500, term.ExitCannotCreate,
			"cannot create the data directory DIR/data: DIR belongs to " + ours + " with mode 0500, but this process runs as " + ours + ": permission denied", "chmod u+wx DIR"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := made(t, c.dir, c.mode)
			cmd := exec.Command(binary, "account", "create", "a", "--data", filepath.Join(dir, c.under))
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
			out, err := cmd.CombinedOutput()
			if err != nil && cmd.ProcessState == nil {
				t.Fatal(err)
			}
			text := strings.ReplaceAll(string(out), dir, "DIR")
			if cmd.ProcessState.ExitCode() != c.code || !strings.Contains(text, "error: "+c.want+"\n") || !strings.HasSuffix(text, c.hint+"\n") {
				t.Errorf("exit %d, %s; want %d, %q and %q", cmd.ProcessState.ExitCode(), text, c.code, c.want, c.hint)
			}
		})
	}
}

// TestBackupDirectoryOfAnotherUser: a server puts no backups where another user could
// replace them.
//
// Promise (Attacks on operations): a malicious backup; a backup directory of another user
func TestBackupDirectoryOfAnotherUser(t *testing.T) {
	t.Parallel()
	must.Have(t, os.Geteuid() == 0, "only root can make another user's directory and write to it")
	theirs := filepath.Join(t.TempDir(), "backups")
	must.Do(t, errors.Join(os.Mkdir(theirs, 0o755), os.Chown(theirs, 65534, 65534)))
	serve := []string{"serve", "--data", filepath.Join(t.TempDir(), "data"), "--listen", "127.0.0.1:0", "--backup-every", "24h", "--backup-dir", theirs}
	_, stderr, code := run(t, serve...)
	if code != term.ExitConfig || !strings.Contains(stderr, "the backup directory "+theirs+" belongs to "+datadir.UserNamed(65534)+", who could replace its files; the server runs as "+datadir.UserNamed(0)) ||
		!strings.HasSuffix(stderr, "chown 0 "+theirs+"\n") {
		t.Errorf("exit %d, %s; want %d, the owner and the next step", code, stderr, term.ExitConfig)
	}
	if left, err := os.ReadDir(theirs); err != nil || len(left) > 0 {
		t.Errorf("%d files, %v, are left there; want none", len(left), err)
	}
	must.Do(t, os.Chown(theirs, 0, 0))
	start(t, serve...)
}

// TestOwner: another user's directory is never opened by going round the
// socket, and root works on it as its owner.
//
// Promise (One data directory, one owner): the directory belongs to the serving user; root acts as
// its owner or says how
func TestOwner(t *testing.T) {
	t.Parallel()
	must.Have(t, os.Geteuid() == 0, "only root can become another user")
	top := must.Get(os.MkdirTemp("/tmp", "tollhouse-owner-"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	must.Do(t, os.Chmod(top, 0o755))
	binary := copyForOthers(t, top)
	theirs := filepath.Join(top, "data")
	must.Do(t, errors.Join(os.Mkdir(theirs, 0o700), os.Chown(theirs, 65534, 65534)))
	as := func(uid uint32, args ...string) (string, int) {
		cmd := exec.Command(binary, args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, err := cmd.CombinedOutput()
		if err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	if out, code := as(0, "account", "create", "acct_root", "--data", theirs); code != term.ExitOK {
		t.Fatalf("root's command: exit %d, %s", code, out)
	}
	must.Do(t, filepath.WalkDir(theirs, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		if owner, _ := datadir.OwnedByUs(info); owner != 65534 {
			t.Errorf("%s belongs to %d, want the directory's owner", path, owner)
		}
		return nil
	}))
	if out, code := as(0, "serve", "--data", theirs, "--listen", "127.0.0.1:0"); code != term.ExitConfig || !strings.Contains(out, "run tollhouse as that user") {
		t.Errorf("root's serve: exit %d, %s; want %d and the cure", code, out, term.ExitConfig)
	}
	if out, code := as(65533, "account", "list", "--data", theirs); code != term.ExitNotAllowed || !strings.Contains(out, "with mode 0700, but this process runs as uid 65533") || !strings.Contains(out, "hint: run tollhouse as that user") {
		t.Errorf("another user's command: exit %d, %s; want %d and the cure", code, out, term.ExitNotAllowed)
	}
	if out, code := as(65533, "health", "--data", theirs); code != term.ExitNotAllowed {
		t.Errorf("another user's health: exit %d, %s; want %d", code, out, term.ExitNotAllowed)
	}
}

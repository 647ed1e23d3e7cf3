//go:build unix

package cli

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestPeer: attack 94, with a real other user.
func TestPeer(t *testing.T) {
	t.Parallel()
	t.Run("attack_94_another_user_is_hung_up_on", func(t *testing.T) {
		t.Parallel()
		demand(t, os.Geteuid() == 0, "only root can become another user")
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
func TestUnwritable(t *testing.T) {
	t.Parallel()
	top, err := os.MkdirTemp("/tmp", "tollhouse-unwritable-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	if err := os.Chmod(top, 0o755); err != nil {
		t.Fatal(err)
	}
	binary := copyForOthers(t, top)
	us, credential := os.Geteuid(), (*syscall.Credential)(nil)
	if us == 0 { // whom no mode stops
		us, credential = 65534, &syscall.Credential{Uid: 65534, Gid: 65534}
	}
	made := func(t *testing.T, name string, mode os.FileMode) string {
		dir := filepath.Join(top, name)
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, us, -1), os.Chmod(dir, mode)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
		return dir
	}
	ours := userNamed(us)
	for name, c := range map[string]struct {
		dir, under string // the data directory is under dir
		mode       os.FileMode
		code       int
		want, hint string
	}{
		"appliance_unwritable_names_owner_mode_uid_and_cure": {"ours", "", 0o500, exitNotAllowed,
			"we may not use DIR/LOCK: DIR belongs to " + ours + " with mode 0500, and we are " + ours + ": permission denied", "chmod 700 DIR"},
		"appliance_unreadable_names_owner_mode_uid_and_cure": {"blind", "", 0, exitNotAllowed,
			"we may not use DIR: DIR belongs to " + ours + " with mode 0000, and we are " + ours + ": permission denied", "chmod 700 DIR"},
		"appliance_exit_73_names_owner_mode_uid_and_cure": {"above", "data", 0o500, exitCannotCreate,
			"cannot create the data directory DIR/data: DIR belongs to " + ours + " with mode 0500, and we are " + ours + ": permission denied", "chmod u+wx DIR"},
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
	t.Run("a_reason_that_is_no_permission_names_no_owner", func(t *testing.T) {
		t.Parallel()
		for _, reason := range []error{syscall.ENOENT, syscall.EROFS, syscall.ENOTDIR} {
			err := notAllowedOr(exitIO, top, &os.PathError{Op: "open", Path: top, Err: reason})
			if f := asFault(err); f.code != exitIO || strings.Contains(f.Error(), "belongs") || !strings.Contains(f.Error(), reason.Error()) || f.hint == "" {
				t.Errorf("%v: exit %d, %v, hint %q", reason, f.code, f, f.hint)
			}
		}
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if f := asFault(makeDataDir(filepath.Join(file, "data"))); f.code != exitCannotCreate || strings.Contains(f.Error(), "belongs") {
			t.Errorf("under a file: exit %d, %v", f.code, f)
		}
	})
}

// TestOwner: another user's directory is never opened by going round the
// socket, and root works on it as its owner.
func TestOwner(t *testing.T) {
	t.Parallel()
	demand(t, os.Geteuid() == 0, "only root can become another user")
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
	if out, code := as(65533, "account", "list", "--data", theirs); code != exitNotAllowed || !strings.Contains(out, "with mode 0700, and we are uid 65533") || !strings.Contains(out, "hint: run tollhouse as that user") {
		t.Errorf("another user's command: exit %d, %s; want %d and the cure", code, out, exitNotAllowed)
	}
	if out, code := as(65533, "health", "--data", theirs); code != exitNotAllowed {
		t.Errorf("another user's health: exit %d, %s; want %d", code, out, exitNotAllowed)
	}
}

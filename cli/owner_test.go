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

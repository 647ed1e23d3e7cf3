//go:build unix

package cli

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/store/storetest/must"
)

// volume is what a container finds at its mount point, and the user that it runs as.
type volume struct {
	path       string
	binary     string
	credential *syscall.Credential
}

const volumeGroup = 2000 // fsGroup

// newVolume is an empty volume of root with a mode, and gid volumeGroup. Only root can make one
// for another user.
func newVolume(t *testing.T, mode os.FileMode, credential syscall.Credential) volume {
	t.Helper()
	must.Have(t, os.Geteuid() == 0, "only root can become another user")
	top := must.Get(os.MkdirTemp("/tmp", "tollhouse-volume-"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	v := volume{filepath.Join(top, "mount"), copyForOthers(t, top), &credential}
	must.Do(t, errors.Join(os.Chmod(top, 0o755), os.Mkdir(v.path, 0o700), os.Chown(v.path, 0, volumeGroup), os.Chmod(v.path, mode)))
	return v
}

// command is tollhouse as the container's user, or as root.
func (v volume) command(args ...string) *exec.Cmd {
	cmd := exec.Command(v.binary, args...)
	cmd.Dir, cmd.SysProcAttr = filepath.Dir(v.path), &syscall.SysProcAttr{Credential: v.credential}
	return cmd
}

// remount does what kubelet does at each mount of a volume with fsGroup: everything is of the
// group, which may write to it.
func (v volume) remount(t *testing.T) {
	t.Helper()
	must.Do(t, filepath.WalkDir(v.path, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm() | 0o660
		if e.IsDir() {
			mode |= 0o110 | fs.ModeSetgid
		}
		return errors.Join(os.Chown(path, -1, volumeGroup), os.Chmod(path, mode))
	}))
}

// TestVolumes: a server keeps its data on the volumes that Kubernetes gives to it, over
// mounts that open its files, and commands find it by the mount point.
//
// Promise (Attacks on operations): volumes of Kubernetes (fsGroup, emptyDir, an arbitrary uid):
// opened modes are closed, another's mount gets a directory of ours; the page's files parse
func TestVolumes(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	nobody := syscall.Credential{Uid: 65534, Gid: 65534}
	inGroup := syscall.Credential{Uid: 65534, Gid: 65534, Groups: []uint32{volumeGroup}}
	for name, c := range map[string]struct {
		mode       os.FileMode
		credential syscall.Credential
	}{
		"fsGroup":               {0o770 | fs.ModeSetgid, inGroup},
		"fsGroup_readable":      {0o775 | fs.ModeSetgid, inGroup},
		"an_emptyDir":           {0o777, nobody},
		"an_emptyDir_and_group": {0o777 | fs.ModeSetgid, inGroup},
		"an_arbitrary_uid":      {0o770 | fs.ModeSetgid, syscall.Credential{Uid: 1_000_680_000, Gid: 0, Groups: []uint32{volumeGroup}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVolume(t, c.mode, c.credential)
			data := filepath.Join(v.path, datadir.OwnName)
			for round := range 3 {
				s := must.Get(startCommand(v.command("serve", "--data", v.path, "--listen", "127.0.0.1:0", "--backup-every", "24h")))(t)
				if round == 0 {
					if out, err := v.command("account", "create", "acct_a", "--data", v.path).CombinedOutput(); err != nil {
						t.Fatalf("account create: %v, %s", err, out)
					}
				}
				if code := s.end(); code != term.ExitOK {
					t.Fatalf("serve: exit %d, %s", code, s.stderr.String())
				}
				log := s.stderr.String()
				if !strings.Contains(log, `"data":"`+data+`"`) || strings.Contains(log, "access is now removed") != (round > 0) {
					t.Errorf("start %d: %s; want the directory named, and a warning after a mount", round, log)
				}
				if open, _ := modesBelow(t, data); len(open) > 0 {
					t.Errorf("start %d leaves open to others: %v", round, open)
				}
				list := v.command("account", "list", "--data", v.path, "--json")
				if round == 1 { // root finds it too, and works as its owner
					list.SysProcAttr = nil
				}
				if out, err := list.CombinedOutput(); err != nil || !strings.Contains(string(out), "acct_a") {
					t.Errorf("account list: %v, %s", err, out)
				}
				v.remount(t)
			}
			if left := must.Get(os.ReadDir(v.path))(t); len(left) != 1 {
				t.Errorf("the volume holds %v, want only %s", left, datadir.OwnName)
			}
		})
	}
	t.Run("a_subPath_that_is_ours", func(t *testing.T) {
		t.Parallel()
		v := newVolume(t, 0o700, inGroup)
		must.Do(t, os.Chown(v.path, 65534, volumeGroup))
		for range 2 {
			if out, err := v.command("account", "create", "acct_a", "--data", v.path).CombinedOutput(); err != nil && !strings.Contains(string(out), "exists") {
				t.Fatalf("account create: %v, %s", err, out)
			}
			v.remount(t)
		}
		s := must.Get(startCommand(v.command("serve", "--data", v.path, "--listen", "127.0.0.1:0")))(t)
		if code := s.end(); code != term.ExitOK || !strings.Contains(s.stderr.String(), "access is now removed") {
			t.Errorf("serve: exit %d, %s", code, s.stderr.String())
		}
		if open, all := modesBelow(t, v.path); len(open) > 0 || all < 8 {
			t.Errorf("of %d files these are open to others: %v", all, open)
		}
	})
	t.Run("a_file_that_another_user_has_put_there_is_refused", func(t *testing.T) {
		t.Parallel()
		v := newVolume(t, 0o770|fs.ModeSetgid, inGroup)
		if out, err := v.command("account", "create", "acct_a", "--data", v.path).CombinedOutput(); err != nil {
			t.Fatalf("account create: %v, %s", err, out)
		}
		v.remount(t)
		planted := filepath.Join(v.path, datadir.OwnName, datadir.CurrentName)
		must.Do(t, os.Chown(planted, 65533, volumeGroup))
		cmd := v.command("account", "list", "--data", v.path)
		if out, err := cmd.CombinedOutput(); err == nil || cmd.ProcessState.ExitCode() != term.ExitConfig || !strings.Contains(string(out), planted+" belongs to uid 65533") {
			t.Errorf("account list: %v, %s; want exit %d that names the file", err, out, term.ExitConfig)
		}
	})
	t.Run("what_only_reads_makes_no_directory", func(t *testing.T) {
		t.Parallel()
		v := newVolume(t, 0o777, nobody)
		cmd := v.command("account", "list", "--data", v.path)
		if out, err := cmd.CombinedOutput(); err == nil || cmd.ProcessState.ExitCode() != term.ExitNotFound {
			t.Errorf("account list: %v, %s; want exit %d", err, out, term.ExitNotFound)
		}
		if left := must.Get(os.ReadDir(v.path))(t); len(left) > 0 {
			t.Errorf("it has made %v", left)
		}
	})
	t.Run("a_directory_where_only_its_owner_may_write_is_not_searched", func(t *testing.T) {
		t.Parallel()
		v := newVolume(t, 0o777, nobody)
		if out, err := v.command("account", "create", "acct_a", "--data", v.path).CombinedOutput(); err != nil {
			t.Fatalf("account create: %v, %s", err, out)
		}
		must.Do(t, os.Chmod(v.path, 0o755)) // as /var/lib is, with /var/lib/tollhouse
		cmd := v.command("account", "list", "--data", v.path)
		if out, err := cmd.CombinedOutput(); err == nil || cmd.ProcessState.ExitCode() != term.ExitConfig {
			t.Errorf("account list: %v, %s; want exit %d", err, out, term.ExitConfig)
		}
	})
}

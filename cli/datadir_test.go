//go:build unix

package cli

import (
	"errors"
	"log/slog"
	"net"
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

// TestDataDirectory: one data directory has one owner, and is closed to others.
//
// Promise (Attacks on operations): the admin socket; a data directory open to others
// Promise (One data directory, one owner): directory, files and backups are private under any
// umask; the admin socket is 0600, for our user and root
// Promise (One data directory, one owner): the admin API is not on TCP; a command without the lock
// asks the socket for 5 s; a stale socket is removed only under the lock; serve starts in an empty
// directory
// Promise (Backup): a backup is checked before it gets its name; it is 0600 and overwrites only on
// request
func TestDataDirectory(t *testing.T) {
	t.Parallel()
	t.Run("no_file_is_open_to_others_whatever_the_umask", closedUnderAnyUmask)
	t.Run("an_empty_directory_of_ours_is_closed", closeEmptyDirectory)
	t.Run("one_that_is_open_is_closed_with_all_its_files_and_a_warning", closeOpenDirectory)
	t.Run("a_link_in_the_sockets_place_stops_the_start", refuseLinkedSocket)
	t.Run("a_second_server_is_told_of_the_first_and_leaves_its_socket", refuseSecondServer)
	t.Run("a_stale_socket_stays_while_another_holds_the_lock", keepStaleSocket)
	t.Run("a_command_waits_for_the_one_that_holds_the_lock", waitForHolder)
	t.Run("a_holder_that_answers_nobody_is_named_after_5_seconds", nameSilentHolder)
	t.Run("a_holder_that_is_stopped_is_named_too", nameStoppedHolder)
	t.Run("a_directory_in_the_arguments_is_not_the_server_of_a_variable", meanTheDirectory)
	t.Run("permission_denied_never_opens_the_store", refuseDeniedSocket)
}

// modesBelow returns the paths in dir that others may use, and how many there are.
func modesBelow(t *testing.T, dir string) (open []string, all int) {
	t.Helper()
	must.Do(t, filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if all++; info.Mode().Perm()&0o077 != 0 {
			open = append(open, info.Mode().String()+" "+path)
		}
		return nil
	}))
	return open, all
}

func closedUnderAnyUmask(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dir := filepath.Join(root, "data")
	s := must.Get(startUnder(t, "umask 000; exec tollhouse serve --data "+dir+" --listen 127.0.0.1:0"))(t)
	if _, stderr, code := run(t, "account", "create", "a", "--data", dir); code != term.ExitOK {
		t.Fatalf("account create: exit %d, %s", code, stderr)
	}
	if open, all := modesBelow(t, dir); len(open) > 0 || all < 10 {
		t.Errorf("beside a server under umask 000, of %d files these are open to others: %v", all, open)
	}
	for _, kind := range []string{"*.mem", "*.vlog"} { // which the engine itself makes for all to read
		if logs, err := filepath.Glob(filepath.Join(dir, datadir.GenerationOne, kind)); err != nil || len(logs) == 0 {
			t.Errorf("there is no %s, %v; so this test proves nothing of them", kind, err)
		}
	}
	s.end()
	command := "umask 000; cd " + root + " && tollhouse account create b --data " + dir + " && tollhouse backup file --data " + dir + " && tollhouse restore file --data " + dir
	if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
		t.Fatalf("%v, %s", err, out)
	}
	if open, all := modesBelow(t, dir); len(open) > 0 || all < 10 {
		t.Errorf("after commands under umask 000, of %d files these are open to others: %v", all, open)
	}
	if info, err := os.Stat(filepath.Join(root, "file")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup has mode %v, %v; want 0600", info.Mode(), err)
	}
}

// startUnder starts a server by a line of the shell.
func startUnder(t *testing.T, line string) (*process, error) {
	t.Helper()
	s, err := startCommand(exec.Command("sh", "-c", line))
	if err == nil {
		t.Cleanup(func() {
			if s.cmd.ProcessState == nil {
				s.end()
			}
		})
	}
	return s, err
}

func closeEmptyDirectory(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"serve": {"serve", "--listen", "127.0.0.1:0"}, "account create": {"account", "create", "a"}} {
		dir := must.ClosedDir(t, "volume")
		must.Do(t, errors.Join(os.Mkdir(filepath.Join(dir, "lost+found"), 0o700), os.Chmod(dir, 0o755)))
		args = append(args, "--data", dir)
		if args[0] == "serve" {
			start(t, args...)
		} else if _, stderr, code := run(t, args...); code != term.ExitOK {
			t.Errorf("%s: exit %d, %s", name, code, stderr)
		}
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: the empty directory has mode %v, %v; want 0700", name, info.Mode(), err)
		}
	}
}

func closeOpenDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	file := filepath.Join(t.TempDir(), "file")
	for _, args := range [][]string{{"account", "create", "a"}, {"backup", file}} {
		if _, stderr, code := run(t, append(args, "--data", dir)...); code != term.ExitOK {
			t.Fatal(stderr)
		}
	}
	for i, args := range [][]string{{"account", "list"}, {"account", "create", "b"}, {"backup", file + "2"}, {"restore", file, "--yes"}, {"serve", "--listen", "127.0.0.1:0"}} {
		must.Do(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
			return errors.Join(err, os.Chmod(path, []os.FileMode{0o755, 0o750, 0o770}[i%3]))
		}))
		args = append(args, "--data", dir)
		stderr := ""
		if args[0] == "serve" {
			s := start(t, args...)
			s.end()
			stderr = s.stderr.String()
		} else {
			var code int
			if _, stderr, code = run(t, args...); code != term.ExitOK {
				t.Errorf("%v: exit %d, %s", args, code, stderr)
			}
		}
		if !strings.Contains(stderr, "access is now removed") {
			t.Errorf("%v: %s; want the warning", args, stderr)
		}
		if open, _ := modesBelow(t, dir); len(open) > 0 {
			t.Errorf("%v: open to others afterwards: %v", args, open)
		}
	}
	if _, stderr, code := run(t, "account", "list", "--data", dir); code != term.ExitOK || stderr != "" {
		t.Errorf("once all is closed: exit %d, %s; want no warning", code, stderr)
	}
}

// directoryWithData returns a data directory that a command has created.
func directoryWithData(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	if _, stderr, code := run(t, "account", "create", "a", "--data", dir); code != term.ExitOK {
		t.Fatal(stderr)
	}
	return dir
}

func refuseLinkedSocket(t *testing.T) {
	t.Parallel()
	dir := directoryWithData(t)
	elsewhere := filepath.Join(t.TempDir(), "theirs")
	path := filepath.Join(dir, datadir.SocketName)
	must.Do(t, os.Symlink(elsewhere, path))
	_, stderr, code := run(t, "serve", "--data", dir, "--listen", "127.0.0.1:0")
	if code != term.ExitConfig || !strings.Contains(stderr, "the admin socket "+path+" is a symbolic link") {
		t.Errorf("serve over a link: exit %d, %s; want 78", code, stderr)
	}
	if _, err := os.Lstat(elsewhere); err == nil {
		t.Error("a socket was made where the link leads")
	}
	must.Do(t, os.Remove(path))
	path = filepath.Join(must.ClosedDir(t), "s")
	l := must.Get(net.Listen("unix", path))(t)
	defer l.Close()
	must.Do(t, os.Chmod(path, 0o660))
	if _, stderr, code := run(t, "serve", "--data", dir, "--listen", "127.0.0.1:0", "--admin-socket", path); code != term.ExitConfig || !strings.Contains(stderr, "is writable by other users (mode 0660)") {
		t.Errorf("serve over a socket that the group may write to: exit %d, %s; want 78", code, stderr)
	}
}

func refuseSecondServer(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	first := start(t, "serve", "--data", dir, "--listen", "127.0.0.1:0")
	for range 2 {
		_, stderr, code := run(t, "serve", "--data", dir, "--listen", "127.0.0.1:0")
		if code != term.ExitBusy || !strings.Contains(stderr, "is held by process ") || !strings.Contains(stderr, "listening on "+strings.TrimPrefix(first.text("url"), "http://")) || !strings.Contains(stderr, "hint: stop it first (kill ") {
			t.Errorf("a second serve: exit %d, %s; want 75 that tells of the first", code, stderr)
		}
	}
	if out, stderr, code := run(t, "health", "--data", dir); code != term.ExitOK {
		t.Errorf("health of the first afterwards: exit %d, %s, %s", code, out, stderr)
	}
}

func meanTheDirectory(t *testing.T) {
	t.Parallel()
	named, meant := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "data")
	start(t, "serve", "--data", named, "--listen", "127.0.0.1:0")
	start(t, "serve", "--data", meant, "--listen", "127.0.0.1:0")
	environ := []string{"TOLLHOUSE_ADMIN_SOCKET=" + filepath.Join(named, datadir.SocketName)}
	if stderr, code := runWith(t, environ, "account", "create", "larkspur", "--data", meant); code != term.ExitOK {
		t.Fatal(stderr)
	}
	for dir, want := range map[string]bool{named: false, meant: true} {
		if out, stderr, code := run(t, "account", "list", "--data", dir, "--json"); code != term.ExitOK || strings.Contains(out, "larkspur") != want {
			t.Errorf("accounts: exit %d, %s%s; want the new one there: %t", code, out, stderr, want)
		}
	}
}

// staleSocket leaves a socket at path that nobody listens on.
func staleSocket(t *testing.T, path string) {
	t.Helper()
	stale := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: path}))(t)
	stale.SetUnlinkOnClose(false)
	must.Do(t, errors.Join(os.Chmod(path, 0o600), stale.Close()))
}

func keepStaleSocket(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	dir := directoryWithData(t)
	path := filepath.Join(dir, datadir.SocketName)
	staleSocket(t, path)
	lock := must.Get(datadir.TryLock(dir, "serve"))(t)
	if _, stderr, code := run(t, "serve", "--data", dir, "--listen", "127.0.0.1:0"); code != term.ExitBusy {
		t.Errorf("serve beside a holder: exit %d, %s; want 75", code, stderr)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the socket was taken away from the holder of the lock: %v", err)
	}
	must.Do(t, lock.Release())
	s := start(t, "serve", "--data", dir, "--listen", "127.0.0.1:0")
	if _, stderr, code := run(t, "health", "--data", dir); code != term.ExitOK {
		t.Errorf("health over the stale socket: exit %d, %s", code, stderr)
	}
	s.end()
}

func waitForHolder(t *testing.T) {
	t.Parallel()
	dir := directoryWithData(t)
	lock := must.Get(datadir.TryLock(dir, "event import"))(t)
	cmd := exec.Command("tollhouse", "account", "create", "b", "--data", dir)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	must.Do(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		t.Fatalf("the command ended while another held the lock: %v, %s", err, &stderr)
	case <-time.After(500 * time.Millisecond):
	}
	must.Do(t, lock.Release())
	if err := <-ended; err != nil {
		t.Errorf("the command that waited: %v, %s", err, &stderr)
	}
	if out, _, code := run(t, "account", "list", "--data", dir, "--json"); code != term.ExitOK || strings.Count(out, "\n") != 2 {
		t.Errorf("account list: exit %d, %s", code, out)
	}
}

func nameSilentHolder(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	dir := directoryWithData(t)
	lock := must.Get(datadir.TryLock(dir, "event import"))(t)
	before, began := contentOf(t, dir), time.Now()
	_, stderr, code := run(t, "account", "list", "--data", dir)
	if took := time.Since(began); code != term.ExitBusy || took < datadir.LockTries || !strings.Contains(stderr, "is held by process ") || !strings.Contains(stderr, "(tollhouse event import) since 20") {
		t.Errorf("account list: exit %d after %v, %s; want 75 after %v that names the holder", code, took, stderr, datadir.LockTries)
	}
	if changed := must.Unlike(before, contentOf(t, dir)); len(changed) > 0 {
		t.Errorf("it has changed %v", changed)
	}
	must.Do(t, lock.Release())
}

// nameStoppedHolder: the system accepts connections for a server that is stopped, and it
// never answers.
func nameStoppedHolder(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	dir := directoryWithData(t)
	lock := must.Get(datadir.TryLock(dir, "serve"))(t)
	socket := must.Get(datadir.ListenAdmin(filepath.Join(dir, datadir.SocketName), slog.New(slog.DiscardHandler)))(t)
	for _, args := range [][]string{{"account", "list"}, {"serve", "--listen", "127.0.0.1:0"}} {
		_, stderr, code := run(t, append(args, "--data", dir)...)
		complaint{term.ExitBusy, "is held by process", "stop it first"}.judge(t, args[0], stderr, code)
	}
	must.Do(t, errors.Join(socket.Close(), lock.Release()))
}

// asOthers returns a directory for a user whom modes stop, and how that user runs
// a command: root, whom none stops, becomes nobody.
func asOthers(t *testing.T) (top string, command func(args ...string) *exec.Cmd) {
	t.Helper()
	top = must.Get(os.MkdirTemp("/tmp", "tollhouse-others-"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	us, credential := os.Geteuid(), (*syscall.Credential)(nil)
	if us == 0 {
		us, credential = 65534, &syscall.Credential{Uid: 65534, Gid: 65534}
	}
	binary := copyForOthers(t, top)
	must.Do(t, errors.Join(os.Chmod(top, 0o700), os.Chown(top, us, -1)))
	return top, func(args ...string) *exec.Cmd {
		cmd := exec.Command(binary, args...)
		cmd.Dir, cmd.SysProcAttr = top, &syscall.SysProcAttr{Credential: credential}
		return cmd
	}
}

// TestUnreadable: a file that is named and may not be read is told with its owner,
// its mode and the cure, and nothing is begun without it.
//
// Promise (Testers, bad input): unreadable or misspelt configuration; another program's data
// directory; a clock 10 years off
func TestUnreadable(t *testing.T) {
	t.Parallel()
	t.Run("bad_input_an_unreadable_file", func(t *testing.T) {
		t.Parallel()
		top, command := asOthers(t)
		dir, file := filepath.Join(top, "data"), filepath.Join(top, "closed")
		if out, err := command("account", "create", "acct_a", "--data", dir).CombinedOutput(); err != nil {
			t.Fatalf("%v, %s", err, out)
		}
		must.Do(t, os.WriteFile(file, []byte("correct horse battery staple"), 0))
		if err := os.Chown(file, 65534, -1); err != nil && os.Geteuid() == 0 {
			t.Fatal(err)
		}
		before := contentOf(t, dir)
		for _, c := range []struct {
			args       []string
			code       int
			says, hint string
		}{
			{[]string{"serve", "--listen", "127.0.0.1:0", "--key-file", file}, term.ExitNotAllowed, "no permission to use " + file + ": " + file + " belongs to ", "chmod u+rw " + file},
			{[]string{"user", "create", "odile", "--password-file", file}, term.ExitUsage, "--password-file " + file + ": permission denied", "name a file that holds the password"},
			{[]string{"restore", file, "--yes"}, term.ExitNotAllowed, "permission denied", ""},
			{[]string{"event", "import", file, "--account", "acct_a"}, term.ExitNotAllowed, "no permission to use " + file, "chmod u+rw " + file},
		} {
			cmd := command(append(c.args, "--data", dir)...)
			out, err := cmd.CombinedOutput()
			if err == nil || cmd.ProcessState.ExitCode() != c.code || !strings.Contains(string(out), c.says) || !strings.Contains(string(out), "tollhouse: hint: ") || !strings.Contains(string(out), c.hint) {
				t.Errorf("%v: %v, %s; want exit %d, %q and %q", c.args, err, out, c.code, c.says, c.hint)
			}
		}
		if changed := must.Unlike(before, contentOf(t, dir)); len(changed) > 0 {
			t.Errorf("what was refused has changed %v", changed)
		}
	})
}

// refuseDeniedSocket: who may not speak to the server is told so, and does not go
// round it by opening the store.
func refuseDeniedSocket(t *testing.T) {
	t.Parallel()
	top, command := asOthers(t)
	dir := filepath.Join(top, "data")
	s := must.Get(startCommand(command("serve", "--data", dir, "--listen", "127.0.0.1:0")))(t)
	defer s.end()
	must.Do(t, os.Chmod(filepath.Join(dir, datadir.SocketName), 0))
	cmd := command("account", "list", "--data", dir)
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != term.ExitNotAllowed || !strings.Contains(string(out), "no permission to talk to the server on ") || !strings.Contains(string(out), "permission denied") {
		t.Errorf("account list: %v, %s; want exit 5", err, out)
	}
	must.Do(t, os.Chmod(filepath.Join(dir, datadir.SocketName), 0o600))
}

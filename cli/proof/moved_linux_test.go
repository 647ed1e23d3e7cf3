package proof

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tollhouse/store/storetest/must"
)

// movedWithin is how soon a server ends whose data directory was moved.
const movedWithin = 10 * time.Second

// TestServerEndsWhenItsDataDirectoryIsMoved moves or replaces the data directory of a server
// that records, or rests, or is just being stopped. The server ends with 74 and leaves what
// is in its place as it is; what it acknowledged is in the directory that was moved.
//
// Promise (One data directory, one owner): moved or replaced while in use, it ends its user (74)
// and stays as it is; 32-bit builds refuse it
func TestServerEndsWhenItsDataDirectoryIsMoved(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	rename := func(from, to string) func(*testing.T, movable) {
		return func(t *testing.T, m movable) {
			must.Do(t, os.Rename(filepath.Join(m.root, from), filepath.Join(m.root, to)))
		}
	}
	inPlace := func(t *testing.T, m movable) {
		rename("up/data", "up/old")(t, m)
		rename("copy", "up/data")(t, m)
	}
	for _, c := range []struct {
		name   string
		move   func(*testing.T, movable)
		now    string // where the data is after it, or "" if it is gone
		other  string // what is in its place, or ""
		signal bool   // stop it in the same moment
	}{
		{name: "moved_aside", move: rename("up/data", "up/old"), now: "up/old"},
		{name: "moved_aside_while_it_stops", move: rename("up/data", "up/old"), now: "up/old", signal: true},
		{name: "replaced_by_a_copy", move: inPlace, now: "up/old", other: "up/data"},
		{name: "replaced_by_a_copy_while_it_stops", move: inPlace, now: "up/old", other: "up/data", signal: true},
		{name: "parent_renamed", move: rename("up", "away"), now: "away/data"},
		{name: "removed", move: func(t *testing.T, m movable) { must.Do(t, removeAll(filepath.Join(m.root, "up", "data"))) }},
		{name: "lock_file_replaced", now: "up/data", move: func(t *testing.T, m movable) {
			must.Do(t, os.Remove(filepath.Join(m.root, "up", "data", "LOCK")))
			must.Do(t, os.WriteFile(filepath.Join(m.root, "up", "data", "LOCK"), nil, 0o600))
		}},
		{name: "lock_file_removed", now: "up/data", move: func(t *testing.T, m movable) {
			must.Do(t, os.Remove(filepath.Join(m.root, "up", "data", "LOCK")))
		}},
		{name: "generation_moved_away", move: rename("up/data/db-0001", "up/db-0001"), now: "up/data"},
		{name: "another_mounted_over_it", now: "up/data", other: "copy", move: func(t *testing.T, m movable) {
			must.Have(t, os.Geteuid() == 0, "root, who may mount")
			at := filepath.Join(m.root, "up", "data")
			must.Do(t, syscall.Mount(filepath.Join(m.root, "copy"), at, "", syscall.MS_BIND, ""))
			t.Cleanup(func() { _ = syscall.Unmount(at, syscall.MNT_DETACH) })
		}},
		{name: "link_leads_elsewhere", now: "up/data", other: "copy", move: func(t *testing.T, m movable) {
			must.Do(t, os.Remove(filepath.Join(m.root, "link")))
			must.Do(t, os.Symlink("copy", filepath.Join(m.root, "link")))
		}},
	} {
		for _, busy := range []bool{true, false} {
			name := c.name + "_while_it_rests"
			if busy {
				name = c.name + "_while_it_records"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				m := movable{root: t.TempDir()}
				data := filepath.Join(m.root, "up", "data")
				must.Do(t, os.Mkdir(filepath.Join(m.root, "up"), 0o700))
				command(t, "", "account", "create", "acct_before", "--data", data)
				must.Do(t, os.CopyFS(filepath.Join(m.root, "copy"), os.DirFS(data)))
				must.Do(t, os.Chmod(filepath.Join(m.root, "copy"), 0o700))
				must.Do(t, os.Symlink("up/data", filepath.Join(m.root, "link")))
				named := data
				if c.name == "link_leads_elsewhere" {
					named = filepath.Join(m.root, "link")
				}
				s := startServe(t, named, "--admin-socket", filepath.Join(m.root, "socket"), "--backup-every", "1m")
				acknowledged := []string{"acct_before"}
				recording := make(chan []string, 1)
				if busy {
					go func() { recording <- s.recordAccounts() }()
					time.Sleep(200 * time.Millisecond)
				}
				var before map[string]must.File
				if c.other != "" {
					before = must.Files(t, filepath.Join(m.root, "copy"))
				}
				c.move(t, m)
				if c.signal {
					must.Do(t, s.process.Signal(syscall.SIGTERM))
				}
				m.wantEnd(t, s)
				if busy {
					acknowledged = append(acknowledged, <-recording...)
					t.Logf("%d acknowledged", len(acknowledged))
				}
				if c.other != "" {
					if changed := must.Unlike(before, must.Files(t, filepath.Join(m.root, c.other))); len(changed) > 0 {
						t.Errorf("what is in its place has changed %v", changed)
					}
				}
				if c.now == "" {
					return
				}
				now := filepath.Join(m.root, c.now)
				if c.name == "generation_moved_away" {
					must.Do(t, os.Rename(filepath.Join(m.root, "up", "db-0001"), filepath.Join(now, "db-0001")))
				}
				if c.name == "another_mounted_over_it" {
					must.Do(t, syscall.Unmount(now, 0))
				}
				listed := string(command(t, "", "account", "list", "--data", now))
				for _, account := range acknowledged {
					if !strings.Contains(listed, account+" ") {
						t.Errorf("%s was acknowledged and is not in %s", account, now)
					}
				}
			})
		}
	}
}

// TestRestoreIntoThePlaceOfAMovedDirectory is what an operator types: mv d d.old, restore.
func TestRestoreIntoThePlaceOfAMovedDirectory(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	m := movable{root: t.TempDir()}
	data, file := filepath.Join(m.root, "data"), filepath.Join(m.root, "a.backup")
	command(t, "", "account", "create", "acct_before", "--data", data)
	command(t, "", "backup", file, "--data", data)
	s := startServe(t, data)
	s.run("account", "create", "acct_after")
	must.Do(t, os.Rename(data, data+".old"))
	command(t, "", "restore", file, "--data", data)
	m.wantEnd(t, s)
	for at, has := range map[string]bool{data: false, data + ".old": true} {
		listed := string(command(t, "", "account", "list", "--data", at))
		if !strings.Contains(listed, "acct_before ") || strings.Contains(listed, "acct_after ") != has {
			t.Errorf("%s has %s, want acct_before, and acct_after: %t", at, listed, has)
		}
	}
}

// TestACommandEndsWhenItsDataDirectoryIsMoved: a command has the store open for itself.
//
// Promise (One data directory, one owner): moved or replaced while in use, it ends its user (74)
// and stays as it is; 32-bit builds refuse it
func TestACommandEndsWhenItsDataDirectoryIsMoved(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	data := filepath.Join(t.TempDir(), "data")
	command(t, "", "account", "create", "acct_first", "--data", data)
	cmd := exec.Command(program(t), "event", "import", "--account", "acct_first", "--data", data, "-")
	cmd.Env = environ()
	in := must.Get(cmd.StdinPipe())(t)
	var log transcript
	cmd.Stdout, cmd.Stderr = &log, &log
	must.Do(t, cmd.Start())
	ended, written := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(written)
		defer in.Close()
		for i := range 200_000 {
			line := fmt.Sprintf(`{"id":"po_%d","type":"customer.created","resource":"cus_%d","createdAt":1767225600,"eventData":{"object":{"n":%d}}}`+"\n", i, i, i)
			if _, err := io.WriteString(in, line); err != nil {
				return
			}
		}
	}()
	must.Do(t, untilHeld(data))
	must.Do(t, os.Rename(data, data+".old"))
	go func() { <-written; _ = cmd.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(movedWithin):
		_ = cmd.Process.Kill()
		t.Fatal("the command did not end")
	}
	if code := cmd.ProcessState.ExitCode(); code != 74 || !strings.Contains(log.all(), "was moved or removed while it was in use") {
		t.Errorf("exit %d, want 74 and the reason:\n%s", code, log.all())
	}
	if _, err := os.Lstat(data); err == nil {
		t.Errorf("%s was made again", data)
	}
}

// untilHeld waits until a process holds the store of a data directory.
func untilHeld(data string) error {
	for range 1000 {
		if files, _ := filepath.Glob(filepath.Join(data, "db-*", "LOCK")); len(files) > 0 {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return errors.New("nothing holds " + data)
}

// movable is where a test moves data directories.
type movable struct{ root string }

// wantEnd waits for the end of a server whose directory was moved.
func (m movable) wantEnd(t *testing.T, s *server) {
	t.Helper()
	select {
	case <-s.ended:
	case <-time.After(movedWithin):
		t.Errorf("the server still runs %s after its directory was moved", movedWithin)
		s.kill()
		return
	}
	exit, _ := s.err.(*exec.ExitError)
	if exit == nil || exit.ExitCode() != 74 || !strings.Contains(s.log.all(), "while it was in use") {
		t.Errorf("the server ended with %v, want 74 and the reason:\n%s", s.err, s.log.tail())
	}
}

// recordAccounts creates accounts until the server ends, and returns those that it
// acknowledged.
func (s *server) recordAccounts() (acknowledged []string) {
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", s.ready.AdminSocket)
	}}}
	defer client.CloseIdleConnections()
	for i := 0; ; i++ {
		name := fmt.Sprintf("acct_%06d", i)
		put, err := http.NewRequest(http.MethodPut, "http://tollhouse/api/platform/accounts/"+name, nil)
		if err != nil {
			return acknowledged
		}
		answer, err := client.Do(put)
		if err != nil {
			return acknowledged
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		if answer.Body.Close(); answer.StatusCode == http.StatusCreated {
			acknowledged = append(acknowledged, name)
		}
	}
}

// removeAll is os.RemoveAll of a directory in which a server goes on for a moment.
func removeAll(dir string) (err error) {
	for range 100 {
		if err = os.RemoveAll(dir); err == nil {
			return nil
		}
	}
	return err
}

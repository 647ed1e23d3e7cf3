package proof

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"tollhouse/store/storetest/must"
)

// TestTooManyOpenFilesAreNoDamage takes the last open files away from a server that checks
// its tables.
//
// Promise (Monitoring): too many open files are no damage; a clean check clears it; too few refuse
// a start
func TestTooManyOpenFilesAreNoDamage(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	command(t, "", "account", "create", "acct_first", "--data", dir)
	s := startServe(t, dir)
	admin := s.admin(t)
	admin.wantDoctor(t, "blocks", "ok")
	admin.wantDoctor(t, "open files", "ok")

	limit := unix.Rlimit{}
	must.Do(t, unix.Prlimit(s.process.Pid, unix.RLIMIT_NOFILE, nil, &limit))
	var free uint64 // the lowest that is not open: the system gives that to the next file
	for err := error(nil); err == nil; free++ {
		_, err = os.Lstat(fmt.Sprintf("/proc/%d/fd/%d", s.process.Pid, free+1))
	}
	must.Do(t, unix.Prlimit(s.process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: free, Max: limit.Max}, nil))
	admin.wantDoctor(t, "blocks", "warning")
	admin.wantReady(t, http.StatusOK)
	must.Do(t, unix.Prlimit(s.process.Pid, unix.RLIMIT_NOFILE, &limit, nil))
	admin.wantDoctor(t, "blocks", "ok")
	if log := s.log.all(); strings.Contains(log, "damage found") {
		t.Errorf("damage was reported:\n%s", s.log.tail())
	}
}

// TestDamageThatIsGoneIsNoLongerReported flips a byte of a table below a server, and back.
//
// Promise (Monitoring): too many open files are no damage; a clean check clears it; too few refuse
// a start
func TestDamageThatIsGoneIsNoLongerReported(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	command(t, "", "account", "create", "acct_first", "--data", dir)
	s := startServe(t, dir)
	admin := s.admin(t)
	table := must.Get(filepath.Glob(filepath.Join(dir, "db-0001", "*.sst")))(t)[0]
	flip := func() {
		f := must.Get(os.OpenFile(table, os.O_RDWR, 0))(t)
		defer f.Close()
		var b [1]byte
		must.Get(f.ReadAt(b[:], 20))(t)
		b[0] ^= 0x40
		must.Get(f.WriteAt(b[:], 20))(t)
	}
	flip()
	admin.wantDoctor(t, "blocks", "problem")
	admin.wantReady(t, http.StatusServiceUnavailable)
	flip()
	admin.wantDoctor(t, "blocks", "ok")
	admin.wantReady(t, http.StatusOK)
}

// TestTooFewFilesRefuseTheStart gives a server and a command fewer files than a store needs.
//
// Promise (Monitoring): too many open files are no damage; a clean check clears it; too few refuse
// a start
func TestTooFewFilesRefuseTheStart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	command(t, "", "account", "create", "acct_first", "--data", dir)
	for _, args := range [][]string{{"serve", "--listen", "127.0.0.1:0"}, {"account", "list"}} {
		cmd := exec.Command("sh", append([]string{"-c", `ulimit -n 60; exec "$0" "$@"`, program(t)}, append(args, "--data", dir)...)...)
		cmd.Env = environ()
		out, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != 78 || !strings.Contains(string(out), "may open 60 files, but the store needs 6") || !strings.Contains(string(out), "LimitNOFILE=") {
			t.Errorf("%s: exit %d (%v), want 78 and both numbers:\n%s", args[0], code, err, out)
		}
	}
}

// adminConn asks a server over one connection to its admin socket.
type adminConn struct{ *http.Client }

func (s *server) admin(t *testing.T) adminConn {
	t.Helper()
	conn := must.Get(net.Dial("unix", s.ready.AdminSocket))(t)
	c := adminConn{&http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}}}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func (c adminConn) ask(t *testing.T, path string) (status int, text string) {
	t.Helper()
	answer := must.Get(c.Get("http://tollhouse" + path))(t)
	defer answer.Body.Close()
	return answer.StatusCode, string(must.Get(io.ReadAll(answer.Body))(t))
}

// wantDoctor wants a state of one check of doctor --deep.
func (c adminConn) wantDoctor(t *testing.T, check, state string) {
	t.Helper()
	if _, text := c.ask(t, "/admin/doctor?deep=true"); !strings.Contains(text, `{"check":"`+check+`","state":"`+state+`"`) {
		t.Errorf("doctor does not report %s as %s:\n%s", check, state, text)
	}
}

func (c adminConn) wantReady(t *testing.T, want int) {
	t.Helper()
	if status, text := c.ask(t, "/readyz"); status != want {
		t.Errorf("/readyz is %d, want %d: %s", status, want, text)
	}
}

package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"tollhouse/cli/server/certtest"
	"tollhouse/cli/term"
	"tollhouse/store/kv/pgkv/pgtest"
	"tollhouse/store/secret"
	"tollhouse/store/storetest/must"
)

// TestMain lets this test binary be tollhouse when it is called so: scripts and
// tests then run real processes without another build.
func TestMain(m *testing.M) {
	must.ManyAtATime(2)
	testscript.Main(inMemory{m}, map[string]func(){
		"tollhouse": func() {
			completionWait = startMax // a busy machine proposes late, but the same
			os.Exit(Main(os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
		},
	})
}

// inMemory runs the tests, for which there are flags: a tollhouse has none of them.
type inMemory struct{ *testing.M }

func (m inMemory) Run() int {
	must.FilesInMemory()
	return m.M.Run()
}

// TestScript runs the transcripts that say what a command prints, where, and
// with which exit code. Each begins with the reason for it.
//
// Promise (RFC 9700): plain http off loopback is refused without a proxy or consent
// Promise (Attacks on operations): volumes of Kubernetes (fsGroup, emptyDir, an arbitrary uid):
// opened modes are closed, another's mount gets a directory of ours; the page's files parse
// Promise (Commands and settings): a flag overrides its variable, a variable the default; an
// unknown flag or command is refused with the nearest name; an unknown variable only warns
// Promise (Commands and settings): passwords and keys come from a file, standard input or a
// terminal without echo; health is 0 when ready, 69 without a server
// Promise (Commands and settings): audit lists actions and refusals with names; a busy port
// suggests a free one; a held directory names its holder; off loopback no secret goes over plain
// http by default
// Promise (Commands and settings): config shows each value of the running server, or of the next,
// and its origin, secrets masked; docs/settings.md agrees; the binary prints its unit, Dockerfile
// and more
// Promise (Commands and settings): each error has the exit code in the help; after what time can
// cure the unit starts again
// Promise (Commands and settings): a history in an account ends now, a printed one never changes; a
// key file for a group makes no warning; move takes a store file; a password prompt asks again
// Promise (Commands and settings): doctor finds present and coming problems with the next step, and
// exits 1 for any; one setting scales memory
// Promise (One data directory, one owner): LOCK describes its holder and decides nothing; CURRENT
// names a generation, a mounted volume is never renamed
// Promise (One data directory, one owner): a lost server key is recreated; another, or one open to
// others, is refused; a socket's path may be long
// Promise (Backup): restore to a new generation, in place, elsewhere, while serving, from a pipe
// Promise (Backup): scheduled backups survive restarts; the oldest goes when the newest is
// complete; status, metrics and audit show the last
// Promise (Testers, bad input): dev runs in memory, on a free loopback port, ready by one line of
// JSON that has the desk, with a seed file; serve has none of the options of dev
func TestScript(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{Dir: "testdata/script", Cmds: scriptCommands, Setup: closedWork})
}

// TestManage runs every transcript of a command that manages four times: beside a
// server and without one, in a data directory and on a database. They must not be able to
// tell.
//
// Promise (§3.3): the command compares sent and seen, and exits 65 for a refused line; export,
// import and export is byte-identical
// Promise (§3.4, §3.5): the same arguments give the same bytes; --account imports; a repeat changes
// nothing
// Promise (Commands and settings): audit lists actions and refusals with names; a busy port
// suggests a free one; a held directory names its holder; off loopback no secret goes over plain
// http by default
// Promise (Commands and settings): management commands do the same with the server up and down;
// session and token list and end live access without secrets
// Promise (Commands and settings): a history in an account ends now, a printed one never changes; a
// key file for a group makes no warning; move takes a store file; a password prompt asks again
func TestManage(t *testing.T) {
	t.Parallel()
	inDirectory := func(env *testscript.Env) (serve []string, err error) {
		dir := filepath.Join(env.WorkDir, "data")
		env.Setenv("TOLLHOUSE_DATA", dir)
		return []string{"--data", dir}, nil
	}
	scripts := must.Get(filepath.Glob("testdata/manage/*.txt"))(t)
	if !must.Short() { // a server would start for each that skips itself
		scripts = append(scripts, must.Get(filepath.Glob("testdata/manage/long/*.txt"))(t)...)
	}
	manage := func(t *testing.T, up bool, place func(*testscript.Env) (serve []string, err error)) {
		t.Parallel()
		testscript.Run(t, testscript.Params{Files: scripts, Cmds: scriptCommands, Setup: func(env *testscript.Env) error {
			args, err := place(env)
			var s *process
			if err == nil {
				s, err = startProcess("", nil, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
			}
			switch {
			case err != nil:
			case up:
				env.Defer(func() { s.end() })
			default:
				s.end() // it has made the store
			}
			return errors.Join(err, closedWork(env))
		}})
	}
	t.Run("server_down", func(t *testing.T) {
		must.SkipInShort(t)
		manage(t, false, inDirectory)
	})
	t.Run("server_up", func(t *testing.T) { manage(t, true, inDirectory) })
	t.Run("database", func(t *testing.T) {
		t.Parallel()
		must.SkipInShort(t)
		postgres := pgtest.New(t)
		onDatabase := func(env *testscript.Env) (serve []string, err error) {
			store := postgres.Database(t)
			key, err := newKeyFile(env.WorkDir)
			env.Setenv("TOLLHOUSE_STORE", store)
			env.Setenv("TOLLHOUSE_KEY_FILE", key)
			return []string{"--store", store, "--key-file", key}, err
		}
		t.Run("server_down", func(t *testing.T) { manage(t, false, onDatabase) })
		t.Run("server_up", func(t *testing.T) { manage(t, true, onDatabase) })
	})
}

// newKeyFile writes a server key into dir.
func newKeyFile(dir string) (string, error) {
	file := filepath.Join(dir, "key-of-the-server")
	return file, os.WriteFile(file, secret.NewKey(nil).Text(), 0o600)
}

// closedWork closes the script's directory to others, as a home is: it is made
// under the test's umask.
func closedWork(env *testscript.Env) error {
	env.Values[servers] = map[string]*process{}
	return os.Chmod(env.WorkDir, 0o700)
}

// servers is the name, in a script, of those that start has started, by their PID.
const servers = "servers"

// process is a running tollhouse that has said that it is ready.
type process struct {
	cmd    *exec.Cmd
	ready  map[string]any
	stderr *strings.Builder
	ended  chan error
}

const startMax = time.Minute // a server is ready in hundredths of a second

// startProcess starts a server and reads its ready line.
func startProcess(dir string, environ []string, args ...string) (*process, error) {
	cmd := exec.Command("tollhouse", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), environ...)
	return startCommand(cmd)
}

// startCommand is startProcess for a command that was made otherwise.
func startCommand(cmd *exec.Cmd) (*process, error) {
	s := &process{cmd: cmd, stderr: &strings.Builder{}, ended: make(chan error, 1)}
	s.cmd.Stderr = s.stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	lines := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(out).ReadString('\n')
		lines <- line
		s.ended <- s.cmd.Wait()
	}()
	select {
	case line := <-lines:
		if err := json.Unmarshal([]byte(line), &s.ready); err != nil {
			err = errors.Join(err, <-s.ended)
			return nil, fmt.Errorf("ready line %q: %w; standard error: %s", line, err, s.stderr)
		}
		return s, nil
	case <-time.After(startMax):
		_ = s.cmd.Process.Kill()
		return nil, fmt.Errorf("not ready in %s", startMax)
	}
}

// end stops the process as an operator does and returns its exit code.
func (s *process) end() int {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	<-s.ended
	return s.cmd.ProcessState.ExitCode()
}

func (s *process) text(member string) string {
	text, _ := s.ready[member].(string)
	return text
}

// start starts a server for a test, and ends it with the test.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	s := must.Get(startProcess("", nil, args...))(t)
	t.Cleanup(func() {
		if s.cmd.ProcessState == nil {
			s.end()
		}
	})
	return s
}

// runMax is how long a command may take that comes to its end by itself: a server
// that should have been refused, and serves, does not.
const runMax = time.Minute

// run runs a command to its end.
func run(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), runMax)
	defer cancel()
	var out, errs strings.Builder
	cmd := exec.CommandContext(ctx, "tollhouse", args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// scriptCommands are the words that transcripts have beyond testscript's own.
var scriptCommands = map[string]func(*testscript.TestScript, bool, []string){
	"exits":   scriptExits,
	"follow":  scriptFollow,
	"take":    scriptTake,
	"start":   scriptStart,
	"end":     scriptEnd,
	"fetch":   scriptFetch,
	"mode":    scriptMode,
	"certify": scriptCertify,
	"grant":   scriptGrant,
	"push":    scriptPush,
	"signin":  scriptSignIn,
}

// scriptExits is "exits CODE tollhouse …": the exact exit code.
func scriptExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARGS]")
	}
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		code = exit.ExitCode()
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// scriptFollow is "follow LINES tollhouse …": a command that goes on until it is
// interrupted, which it is once it has printed so many lines.
func scriptFollow(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: follow LINES COMMAND [ARGS]")
	}
	lines, err := strconv.Atoi(args[0])
	ts.Check(err)
	cmd := exec.Command(args[1], args[2:]...)
	cmd.Dir, cmd.Stderr = ts.MkAbs("."), ts.Stderr()
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	stuck := time.AfterFunc(startMax, func() { _ = cmd.Process.Kill() })
	defer stuck.Stop()
	for read := bufio.NewScanner(out); read.Scan(); {
		fmt.Fprintln(ts.Stdout(), read.Text())
		if lines--; lines == 0 {
			_ = cmd.Process.Signal(os.Interrupt)
		}
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); lines != 0 || code != term.ExitInterrupted {
		ts.Fatalf("exit code %d with %d lines to come, want %d with none", code, lines, term.ExitInterrupted)
	}
}

// scriptTake is "take MEMBER VARIABLE": a member of the JSON on standard output.
func scriptTake(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: take MEMBER VARIABLE")
	}
	var object map[string]any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &object))
	value, ok := object[args[0]].(string)
	if !ok {
		ts.Fatalf("standard output has no text %s", args[0])
	}
	ts.Setenv(args[1], value)
}

// scriptStart is "start dev|serve …": a server that ends with the script. It
// sets URL, SOCKET and PID, and writes the ready line to the file ready.
func scriptStart(ts *testscript.TestScript, neg bool, args []string) {
	s, err := startProcess(ts.MkAbs("."), []string{"TMPDIR=" + ts.Getenv("TMPDIR"), "TOLLHOUSE_DATA=" + ts.Getenv("TOLLHOUSE_DATA")}, args...)
	ts.Check(err)
	pid := strconv.Itoa(s.cmd.Process.Pid)
	all := ts.Value(servers).(map[string]*process)
	all[pid] = s
	ts.Defer(func() {
		if all[pid] != nil {
			s.end()
		}
	})
	line, err := json.Marshal(s.ready)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs("ready"), line, 0o600))
	ts.Setenv("URL", s.text("url"))
	ts.Setenv("SOCKET", s.text("admin_socket"))
	ts.Setenv("ADDRESS", strings.TrimPrefix(s.text("url"), "http://"))
	ts.Setenv("PID", pid)
}

// scriptEnd is "end PID": it stops a server that start has started, and returns when the server
// has left its directory.
func scriptEnd(ts *testscript.TestScript, neg bool, args []string) {
	all := ts.Value(servers).(map[string]*process)
	if neg || len(args) != 1 || all[args[0]] == nil {
		ts.Fatalf("usage: end PID")
	}
	if code := all[args[0]].end(); code != term.ExitOK {
		ts.Fatalf("the server ended with exit code %d", code)
	}
	delete(all, args[0])
}

// scriptFetch is "fetch STATUS URL": the status of an address.
func scriptFetch(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: fetch STATUS URL")
	}
	answer, err := http.Get(args[1])
	ts.Check(err)
	ts.Check(answer.Body.Close())
	if strconv.Itoa(answer.StatusCode) != args[0] {
		ts.Fatalf("status %d, want %s", answer.StatusCode, args[0])
	}
}

// scriptMode is "mode 0600 FILE": a file's permissions.
func scriptMode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: mode MODE FILE")
	}
	info, err := os.Lstat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := fmt.Sprintf("%04o", info.Mode().Perm()); got != args[0] {
		ts.Fatalf("%s has mode %s, want %s", args[1], got, args[0])
	}
}

// scriptCertify is "certify FILE VALID [NAME ...]": FILE.crt and FILE.key, valid
// from an hour ago for so long from now.
func scriptCertify(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: certify FILE VALID [NAME ...]")
	}
	valid, err := time.ParseDuration(args[1])
	ts.Check(err)
	cert, key, err := certtest.Make(time.Now().Add(-time.Hour), time.Now().Add(valid), args[2:]...)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".crt"), cert, 0o644))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".key"), key, 0o600))
}

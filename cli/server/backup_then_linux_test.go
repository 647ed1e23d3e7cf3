package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/store/secret"
	"tollhouse/store/storetest/must"
)

// thenTest is a program that runs after backups, and what came of it.
type thenTest struct {
	*backupThen
	t   *testing.T
	log safeBuffer

	mu       sync.Mutex
	outcomes []error
}

// safeBuffer is a buffer for several goroutines.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// newThen makes a program of a shell script.
func newThen(t *testing.T, script string) *thenTest {
	t.Helper()
	x := &thenTest{t: t}
	root := must.ClosedDir(t)
	x.backupThen = &backupThen{
		program: filepath.Join(root, "a program.sh"), timeout: time.Minute, dir: t.TempDir(), environ: os.Environ(), log: slog.New(slog.NewJSONHandler(&x.log, nil)),
		grace: 200 * time.Millisecond, drain: 200 * time.Millisecond, come: make(chan struct{}, 1),
		ended: func(_ context.Context, err error) { x.mu.Lock(); x.outcomes = append(x.outcomes, err); x.mu.Unlock() },
	}
	x.write(script)
	return x
}

func (x *thenTest) write(script string) {
	x.t.Helper()
	must.Do(x.t, os.WriteFile(x.program, []byte("#!/bin/sh\n"+script+"\n"), 0o700))
}

// backup writes a file that is due.
func (x *thenTest) backup(name string) string {
	x.t.Helper()
	path := filepath.Join(x.dir, name)
	must.Do(x.t, os.WriteFile(path, []byte("a backup"), 0o600))
	must.Do(x.t, datadir.NoteThen(path, datadir.ThenDue))
	return path
}

func (x *thenTest) due(path string) bool { return datadir.ReadNote(path).Then == datadir.ThenDue }

// until waits for a condition.
func (x *thenTest) until(what string, is func() bool) {
	x.t.Helper()
	for begun := time.Now(); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > 30*time.Second {
			x.t.Fatalf("%s: not after 30s; log: %s", what, &x.log)
		}
	}
}

func exists(path string) bool { _, err := os.Lstat(path); return err == nil }

// Promise (Guard §11): the program gets the path of the backup without a shell, the server's environment without
// our variables and with the backup's, no input, no file of ours, its own group, umask 077 and the backups' folder
func TestBackupThenSurroundings(t *testing.T) {
	x := newThen(t, `printf '%s\n' "$#" "$1" "$(pwd)" "$(umask)" "$(cat | wc -c)" > out; env > env; ls /proc/self/fd | wc -l > fds; cut -d" " -f5 /proc/self/stat > group; echo $$ > pid`)
	defer syscall.Umask(syscall.Umask(0o077)) // as a server
	inherited := must.Get(syscall.Dup(0))(t)  // a file without close-on-exec
	defer syscall.Close(inherited)
	x.environ = append(os.Environ(), "TOLLHOUSE_ALARM=ntfy://canary", "NOTIFY_SOCKET=/canary", "WATCHDOG_USEC=canary", "LISTEN_FDS=canary", "KEPT=yes")
	path := filepath.Join(x.dir, "$(touch shell) `id`; x.backup.age")
	must.Do(t, os.WriteFile(path, nil, 0o600))
	must.Do(t, os.WriteFile(path+datadir.CheckedSuffix, []byte(`{"encrypted":true,"sha256":"abc","bytes":12,"instance":"3f","created":"2026-01-02T03:04:05Z","records":3,"then":"due"}`), 0o600))
	x.runWith(t.Context(), path)
	read := func(name string) string {
		return strings.TrimSpace(string(must.Get(os.ReadFile(filepath.Join(x.dir, name)))(t)))
	}
	if got, want := strings.Split(read("out"), "\n"), []string{"1", path, x.dir, "0077", "0"}; !slices.Equal(got, want) {
		t.Errorf("arguments, folder, umask and input = %q, want %q", got, want)
	}
	if exists(filepath.Join(x.dir, "shell")) {
		t.Error("a shell has read the path")
	}
	env := strings.Split(read("env"), "\n")
	for _, want := range []string{"KEPT=yes", "TOLLHOUSE_BACKUP_FILE=" + path, "TOLLHOUSE_BACKUP_BYTES=12", "TOLLHOUSE_BACKUP_SHA256=abc", "TOLLHOUSE_BACKUP_CREATED=1767323045", "TOLLHOUSE_BACKUP_ENCRYPTED=true", "TOLLHOUSE_INSTANCE=3f"} {
		if !slices.Contains(env, want) {
			t.Errorf("the environment lacks %s: %q", want, env)
		}
	}
	if strings.Contains(read("env"), "canary") {
		t.Errorf("the environment has variables of the server: %s", read("env"))
	}
	if read("fds") != "4" { // 0, 1, 2 and the directory that ls reads
		t.Errorf("%s open files, want 4", read("fds"))
	}
	if read("group") != read("pid") {
		t.Errorf("group %s of process %s, want its own", read("group"), read("pid"))
	}
	if x.due(path) || len(x.outcomes) != 1 || x.outcomes[0] != nil {
		t.Errorf("outcomes %v, due %t", x.outcomes, x.due(path))
	}
}

// Promise (Guard §11): exit codes, signals, the time limit and a program that cannot start are failures, which the
// next success ends; the backup stays good and is not tried again
func TestBackupThenFailures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		change func(x *thenTest)
		want   string
	}{
		"exit code":      {"exit 3", nil, "exit status 3"},
		"signal":         {"kill -9 $$", nil, "signal: killed"},
		"time":           {"sleep 600", func(x *thenTest) { x.timeout = 50 * time.Millisecond }, "it ran longer than 50ms"},
		"ignores it":     {"trap '' TERM; while :; do sleep 600; done", func(x *thenTest) { x.timeout = 50 * time.Millisecond }, "it ran longer than 50ms"},
		"absent":         {"", func(x *thenTest) { must.Do(x.t, os.Remove(x.program)) }, "cannot be run: no such file"},
		"no permission":  {"", func(x *thenTest) { must.Do(x.t, os.Chmod(x.program, 0o600)) }, "cannot be run: it is not executable"},
		"no program":     {"", func(x *thenTest) { must.Do(x.t, os.WriteFile(x.program, []byte("\x7fELF"), 0o700)) }, "cannot be run"},
		"written since":  {"", func(x *thenTest) { must.Do(x.t, os.Chmod(x.program, 0o777)) }, "other users can write to"},
		"with arguments": {"", func(x *thenTest) { x.program += " copy" }, "cannot be run: no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newThen(t, c.script)
			if c.change != nil {
				c.change(x)
			}
			path := x.backup("x.backup")
			x.runWith(t.Context(), path)
			if len(x.outcomes) != 1 || x.outcomes[0] == nil || !strings.Contains(x.outcomes[0].Error(), c.want) || x.due(path) || !exists(path) {
				t.Errorf("outcomes %v, due %t; want %q", x.outcomes, x.due(path), c.want)
			}
			if !strings.Contains(x.log.String(), `"level":"WARN","msg":"backup program failed"`) {
				t.Errorf("log = %s", &x.log)
			}
		})
	}
}

// Promise (Guard §12): a program that hangs, forks and stays, ignores SIGTERM or keeps the output open is bounded;
// its group is gone
func TestBackupThenGroupIsGone(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"forks and stays":   "(trap '' TERM HUP; echo $$; while :; do sleep 600; done) & echo $! > child; exit 0",
		"hangs with one":    "sleep 600 & echo $! > child; sleep 600",
		"ignores with one":  "trap '' TERM; (trap '' TERM; while :; do sleep 600; done) & echo $! > child; while :; do sleep 600; done",
		"leaves its group":  "setsid sh -c 'sleep 5' & echo 1 > child; exit 0",
		"ends while it has": "sleep 600 & echo $! > child; kill -9 $$",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newThen(t, script)
			x.timeout = 500 * time.Millisecond
			begun := time.Now()
			x.runWith(t.Context(), x.backup("x.backup"))
			if took := time.Since(begun); took > 20*time.Second {
				t.Errorf("it took %s", took)
			}
			child := must.Get(strconv.Atoi(strings.TrimSpace(string(must.Get(os.ReadFile(filepath.Join(x.dir, "child")))(t)))))(t)
			x.until("the child is gone", func() bool { return child == 1 || !runs(child) })
		})
	}
}

// runs reports whether a process exists and is no zombie.
func runs(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(text), ") ")
	return err == nil && !strings.HasPrefix(state, "Z")
}

// Promise (Guard §11): the program runs after each backup that the schedule or the desk made and checked, never
// after a failed one or one by the command
func TestBackupThenIsOfferedGoodBackups(t *testing.T) {
	t.Parallel()
	x := newThen(t, "")
	for _, encrypted := range []bool{false, true} {
		s, _ := newEncrypted(t, x.dir, time.Hour, 9)
		if !encrypted {
			s.to = nil
		}
		s.then, x.waiting = x.backupThen, ""
		must.Do(t, s.make(t.Context(), s.now()))
		first := x.waiting
		if !x.due(first) || !strings.HasPrefix(filepath.Base(first), s.prefix()) {
			t.Fatalf("%q is not due", first)
		}
		note := datadir.ReadNote(first)
		info := must.Get(os.Stat(first))(t)
		if note.Encrypted != encrypted || note.Bytes != info.Size() || len(note.SHA256) != 64 || note.Instance != s.instance || note.Created.IsZero() {
			t.Errorf("the note of %s is %+v", first, note)
		}
		s.space.Store(0)
		if err := s.make(t.Context(), s.now()); err == nil || x.waiting != first {
			t.Errorf("after a failed one: %v, %q waits", err, x.waiting)
		}
		s.space.Store(1 << 40)
		if !s.Make() {
			t.Fatal("the desk makes none")
		}
		s.rest(t.Context(), time.Minute)
		if x.waiting == first || !x.due(x.waiting) || x.due(first) {
			t.Errorf("after one of the desk %q waits, want another than %q, which is passed over", x.waiting, first)
		}
	}
}

// Promise (Guard §11): one run at a time; of files that wait the newest is run and the others are passed over
func TestBackupThenOneAtATime(t *testing.T) {
	t.Parallel()
	x := newThen(t, `echo "$1" >> runs; while [ ! -e "$1.go" ]; do sleep 0.01; done`)
	first, second, third := x.backup("1.backup"), x.backup("2.backup"), x.backup("3.backup")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); x.run(ctx, nil) }()
	ran := func() string { text, _ := os.ReadFile(filepath.Join(x.dir, "runs")); return string(text) }
	x.offer(first)
	x.until("the first runs", func() bool { return ran() == first+"\n" && x.isRunning(first) })
	x.offer(second)
	x.offer(third)
	if !x.due(first) || x.due(second) || !x.due(third) || !strings.Contains(x.log.String(), "passed over a backup\",\"file\":\""+second) {
		t.Errorf("due: %t %t %t, want the second passed over: %s", x.due(first), x.due(second), x.due(third), &x.log)
	}
	must.Do(t, os.WriteFile(first+".go", nil, 0o600))
	must.Do(t, os.WriteFile(third+".go", nil, 0o600))
	x.until("the third has run", func() bool { return ran() == first+"\n"+third+"\n" && !x.due(third) })
	must.Do(t, os.Remove(second))
	x.offer(second) // which was removed in the meantime
	x.until("it is passed over", func() bool { return strings.Count(x.log.String(), "passed over") == 2 })
	stop()
	<-done
	if exists(second + datadir.CheckedSuffix) {
		t.Error("the note of a backup that is gone is left")
	}
}

// Promise (Guard §11): a stop ends the program within the drain; what did not end is run again after the next start
func TestBackupThenStopAndStartAgain(t *testing.T) {
	t.Parallel()
	x := newThen(t, `trap 'echo asked >> asked' TERM; echo $$ >> runs; n=0; while [ ! -e go ]; do sleep 0.05; done`)
	path, older := x.backup("2.backup"), x.backup("1.backup")
	begin := func() (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		before := x.ran()
		go func() { defer close(done); x.run(ctx, []ownBackup{{path: older}, {path: path}}) }()
		x.until("it runs", func() bool { return x.ran() == before+1 || exists(filepath.Join(x.dir, "go")) })
		return func() { cancel(); <-done }
	}
	stop := begin()
	begun := time.Now()
	stop()
	if took := time.Since(begun); took < x.drain || took > 10*time.Second || !exists(filepath.Join(x.dir, "asked")) || !x.due(path) || len(x.outcomes) != 0 {
		t.Errorf("the stop took %s; due %t, outcomes %v", took, x.due(path), x.outcomes)
	}
	if x.due(older) {
		t.Error("the older one that waited is not passed over")
	}
	must.Do(t, os.WriteFile(filepath.Join(x.dir, "go"), nil, 0o600))
	stop = begin()
	x.until("it has ended", func() bool { return !x.due(path) })
	stop()
	if x.ran() != 2 || len(x.outcomes) != 1 || x.outcomes[0] != nil {
		t.Errorf("%d runs, outcomes %v", x.ran(), x.outcomes)
	}
}

func (x *thenTest) ran() int {
	text, _ := os.ReadFile(filepath.Join(x.dir, "runs"))
	return bytes.Count(text, []byte("\n"))
}

// Promise (Guard §12): a program that replaces itself or deletes the backup changes nothing else
func TestBackupThenChangesWhatItHas(t *testing.T) {
	t.Parallel()
	x := newThen(t, `rm -f "$1" "$1.checked"; printf '#!/bin/sh\nexit 0\n' > "$0.new"; chmod 700 "$0.new"; mv "$0.new" "$0"; exit 1`)
	first, second := x.backup("1.backup"), x.backup("2.backup")
	x.runWith(t.Context(), first)
	x.runWith(t.Context(), second)
	if len(x.outcomes) != 2 || x.outcomes[0] == nil || x.outcomes[1] != nil || exists(first) || exists(first+datadir.CheckedSuffix) || !exists(second) {
		t.Errorf("outcomes %v", x.outcomes)
	}
}

// Promise (Guard §11): what the program prints is logged in 200 lines of 1 KiB, escaped; values of secret variables
// and our own tokens are masked, and the rest is counted
func TestBackupThenOutput(t *testing.T) {
	t.Parallel()
	x := newThen(t, `printf 'esc \033[31m red\r\n\377 bad\n'
echo "one $RESTIC_PASSWORD two $AWS_SECRET_ACCESS_KEY three $my_token four $PLAIN five $SHORT_KEY"
echo "$MULTI_KEY"
echo `+"\"$OURS\""+` AGE-SECRET-KEY-1QQQQQQQQ
head -c 3000 /dev/zero | tr '\0' x; echo
head -c 900 /dev/zero | tr '\0' y; echo "$RESTIC_PASSWORD$RESTIC_PASSWORD$RESTIC_PASSWORD"
i=0; while [ $i -lt 300 ]; do echo "line $i"; i=$((i+1)); done
head -c 100000 /dev/zero >&2`)
	canaries := map[string]string{"RESTIC_PASSWORD": "canary-one-" + strings.Repeat("z", 60), "AWS_SECRET_ACCESS_KEY": "canary-two", "my_token": "canary-three", "MULTI_KEY": "canary-four\ncanary-five", "OURS": secret.New(nil, secret.AccessToken).Reveal()}
	x.environ = append(os.Environ(), "PLAIN=seen", "SHORT_KEY=abc")
	for name, value := range canaries {
		x.environ = append(x.environ, name+"="+value)
	}
	x.runWith(t.Context(), x.backup("x.backup"))
	log := x.log.String()
	lines := regexp.MustCompile(`"backup program","line":"([^\n]*)"}`).FindAllStringSubmatch(log, -1)
	if len(lines) != outputLinesMax {
		t.Errorf("%d lines, want %d", len(lines), outputLinesMax)
	}
	for _, line := range lines {
		if len(line[1]) > outputLineMax+16 { // JSON escapes a little
			t.Errorf("a line of %d bytes", len(line[1]))
		}
	}
	for _, want := range []string{`esc \\u001b[31m red`, `\\xff bad`, "one [masked] two [masked] three [masked] four seen five abc", strings.Repeat("x", outputLineMax) + `"`, `"more_lines":109,`} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %.80q: %.3000s", want, log)
		}
	}
	if strings.Contains(log, "canary") || strings.Contains(log, "tollat_") || strings.Contains(log, "SECRET-KEY-1QQ") || strings.ContainsRune(log, 0x1b) {
		t.Errorf("the log has a secret: %s", log)
	}
}

// TestBackupThenALineOfSecrets: one that the end of the buffer cuts is not shown, wherever it
// is cut.
func TestBackupThenALineOfSecrets(t *testing.T) {
	t.Parallel()
	for _, size := range []int{6, 61, 1000, 4093, 20_011} {
		value := strings.Repeat("canary", size/6+1)[:size]
		var shown []string
		newProgramOutput([]string{"A_TOKEN=" + value}, func(line string) { shown = append(shown, line) }, func(int, int) {}).read(strings.NewReader(strings.Repeat(value+" ", 2*outputReadMax/size) + "\n"))
		if len(shown) != 1 || strings.Contains(shown[0], "can") || !strings.HasPrefix(shown[0], "[masked] ") && size < outputReadMax/2 {
			t.Errorf("a secret of %d bytes: %.200q", size, shown)
		}
	}
}

// TestBackupThenMuchOutput: 300 MB in one line take no memory, and the program does not wait.
func TestBackupThenMuchOutput(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	x := newThen(t, `head -c 300000000 /dev/zero`)
	x.runWith(t.Context(), x.backup("x.backup"))
	if len(x.outcomes) != 1 || x.outcomes[0] != nil || x.log.b.Len() > 8<<10 || !strings.Contains(x.log.String(), `"more_bytes":`) {
		t.Errorf("outcomes %v, %d bytes of log", x.outcomes, x.log.b.Len())
	}
}

// Promise (Guard §11): --backup-then takes an absolute path (2) that only root and the server's user may write (78),
// and --backup-every; an absent program is a finding
func TestBackupThenFlags(t *testing.T) {
	t.Parallel()
	good := newThen(t, "").program
	open := newThen(t, "").program
	must.Do(t, os.Chmod(open, 0o722))
	openDir := newThen(t, "").program
	must.Do(t, os.Chmod(filepath.Dir(openDir), 0o777))
	linked := filepath.Join(must.ClosedDir(t), "link")
	must.Do(t, os.Symlink(openDir, linked))
	openLinks := filepath.Join(must.ClosedDir(t), "links")
	must.Do(t, os.Mkdir(openLinks, 0o755))
	must.Do(t, os.Chmod(openLinks, 0o777))
	must.Do(t, os.Symlink(good, filepath.Join(openLinks, "link")))
	overOpen := filepath.Join(must.ClosedDir(t), "link")
	must.Do(t, os.Symlink(filepath.Join(openLinks, "link"), overOpen))
	upwards := filepath.Join(must.ClosedDir(t), "dir")
	must.Do(t, os.Symlink(filepath.Join(filepath.Dir(openLinks), "sub"), upwards))
	must.Do(t, os.Mkdir(filepath.Join(filepath.Dir(openLinks), "sub"), 0o755))
	must.Do(t, os.Symlink("../links/link", filepath.Join(upwards, "link")))
	loop := filepath.Join(must.ClosedDir(t), "loop")
	must.Do(t, os.Symlink("loop", loop))
	for name, c := range map[string]struct {
		args []string
		code int
	}{
		"good":                 {[]string{"--backup-every", "24h", "--backup-then", good}, 0},
		"absent":               {[]string{"--backup-every", "24h", "--backup-then", "/absent/program"}, 0},
		"one name":             {[]string{"--backup-every", "24h", "--backup-then", "rclone copy"}, term.ExitUsage},
		"relative":             {[]string{"--backup-every", "24h", "--backup-then", "bin/rclone"}, term.ExitUsage},
		"without a schedule":   {[]string{"--backup-then", good}, term.ExitUsage},
		"the schedule is off":  {[]string{"--backup-every", "0", "--backup-then", good}, term.ExitUsage},
		"open program":         {[]string{"--backup-every", "24h", "--backup-then", open}, term.ExitConfig},
		"open folder":          {[]string{"--backup-every", "24h", "--backup-then", openDir}, term.ExitConfig},
		"link to an open one":  {[]string{"--backup-every", "24h", "--backup-then", linked}, term.ExitConfig},
		"link in an open one":  {[]string{"--backup-every", "24h", "--backup-then", overOpen}, term.ExitConfig},
		"up from a folder":     {[]string{"--backup-every", "24h", "--backup-then", filepath.Join(upwards, "link")}, term.ExitConfig},
		"links in a circle":    {[]string{"--backup-every", "24h", "--backup-then", loop}, 0},
		"too short":            {[]string{"--backup-every", "24h", "--backup-then", good, "--backup-then-timeout", "999ms"}, term.ExitUsage},
		"too long":             {[]string{"--backup-every", "24h", "--backup-then", good, "--backup-then-timeout", "25h"}, term.ExitUsage},
		"timeout alone":        {[]string{"--backup-every", "24h", "--backup-then-timeout", "1h"}, term.ExitUsage},
		"a time in its bounds": {[]string{"--backup-every", "24h", "--backup-then", good, "--backup-then-timeout", "24h"}, 0},
	} {
		var f backupFlags
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.add(flags)
		must.Do(t, flags.Parse(c.args))
		code := 0
		if err := f.check(flags); err != nil {
			code = term.FailureOf(err).Code
		}
		if code != c.code {
			t.Errorf("%s: exit %d, want %d", name, code, c.code)
		}
	}
	r := onDisk(t)
	begin := func(program string) *backupThen {
		f := thenFlags{program: program, timeout: term.Duration(time.Hour)}
		return f.begin(t.Context(), r, t.TempDir(), nil)
	}
	check := backupThenFailed.check
	if then := begin("/absent/program"); then == nil {
		t.Error("an absent program is none")
	}
	if failed, err := r.failureOf(t.Context(), check); err != nil || failed == nil || !strings.Contains(failed.Text, "cannot be run") {
		t.Errorf("failureOf() = %+v, %v, want the absent program", failed, err)
	}
	then := begin(good)
	if failed, _ := r.failureOf(t.Context(), check); failed == nil {
		t.Error("the finding ended without a run")
	}
	then.ended(t.Context(), nil)
	if failed, _ := r.failureOf(t.Context(), check); failed != nil {
		t.Errorf("after a success: %+v", failed)
	}
	then.ended(t.Context(), errors.New("exit status 1"))
	if then := begin(""); then != nil {
		t.Error("no program is one")
	}
	if failed, _ := r.failureOf(t.Context(), check); failed != nil {
		t.Errorf("without a program: %+v, want no finding", failed)
	}
}

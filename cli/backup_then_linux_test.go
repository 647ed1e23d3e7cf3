package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tollhouse/cli/term"
	"tollhouse/store/storetest/must"
)

// TestBackupThenBesideAServer kills a server in the middle of a run, starts it again, and stops it in
// the middle of the next. Its program prints all that it should not.
//
// Promise (Guard §11): a run that kill -9 or SIGTERM of the server cut short begins again at the next start, with the
// same file; a stop takes no longer than the drain
// Promise (Guard §12): secrets of the server and of the program are in no log, argument, note, finding or answer
func TestBackupThenBesideAServer(t *testing.T) {
	t.Parallel()
	s := newSealing(t)
	bin := must.ClosedDir(t)
	script, work, backups := filepath.Join(bin, "then"), t.TempDir(), must.ClosedDir(t)
	must.Do(t, os.WriteFile(script, []byte(`#!/bin/sh
W=`+work+`
echo "$1" >> $W/runs
tr '\0' '\n' < /proc/$$/environ > $W/environ
tr '\0' '\n' < /proc/$$/cmdline > $W/argv
env
echo "failing with $RESTIC_PASSWORD and ${AWS_SECRET_ACCESS_KEY}" >&2
[ -e $W/fail ] && exit 7
while [ ! -e $W/go ]; do sleep 0.02; done
`), 0o700))
	environ := []string{"RESTIC_PASSWORD=canary-restic-password", "AWS_SECRET_ACCESS_KEY=canary-aws", "TOLLHOUSE_BACKUP_RECIPIENT=" + s.public, "TOLLHOUSE_KEPT_BACK=canary-server", "NOTIFY_SOCKET="}
	var logs strings.Builder
	begin := func() *process {
		return must.Get(startProcess("", environ, "serve", "--data", s.dir, "--listen", "127.0.0.1:0", "--backup-every", "24h", "--backup-dir", backups, "--backup-then", script))(t)
	}
	read := func(name string) string {
		text, _ := os.ReadFile(filepath.Join(work, name))
		return string(text)
	}
	until := func(what string, is func() bool) {
		t.Helper()
		for begun := time.Now(); !is(); time.Sleep(10 * time.Millisecond) {
			if time.Since(begun) > startMax {
				t.Fatalf("%s: not within %s", what, startMax)
			}
		}
	}
	runs := func() int { return strings.Count(read("runs"), "\n") }
	note := func() string {
		files := must.Get(filepath.Glob(filepath.Join(backups, "*.backup.age.checked")))(t)
		if len(files) == 0 {
			return ""
		}
		return string(must.Get(os.ReadFile(files[0]))(t))
	}
	server := begin()
	until("the first run", func() bool { return runs() == 1 && strings.Contains(read("argv"), script) })
	must.Do(t, server.cmd.Process.Kill())
	<-server.ended
	logs.WriteString(server.stderr.String())
	if !strings.Contains(note(), `"then":"due"`) {
		t.Errorf("after kill -9 the note is %s", note())
	}
	server = begin()
	until("the second run", func() bool { return runs() == 2 })
	begun := time.Now()
	if code := server.end(); code != term.ExitOK || time.Since(begun) > 20*time.Second {
		t.Errorf("the server ended with %d after %s", code, time.Since(begun))
	}
	logs.WriteString(server.stderr.String())
	if !strings.Contains(server.stderr.String(), "runs again after the next start") || !strings.Contains(note(), `"then":"due"`) {
		t.Errorf("after SIGTERM the note is %s; log: %s", note(), server.stderr)
	}
	must.Do(t, os.WriteFile(filepath.Join(work, "fail"), nil, 0o600))
	server = begin()
	until("the third run failed", func() bool { return runs() == 3 && !strings.Contains(note(), "then") })
	doctor, _, _ := run(t, "doctor", "--data", s.dir)
	until("the finding", func() bool {
		doctor, _, _ = run(t, "doctor", "--data", s.dir)
		return strings.Contains(doctor, "backup-then") && strings.Contains(doctor, "exit status 7")
	})
	if page := metricsOf(t, server); gauge(page, "tollhouse_backup_then_failures_total") != 1 || gauge(page, "tollhouse_backup_failures_total") != 0 {
		t.Errorf("a run that failed is not counted as one: %s", page)
	}
	s.tollhouse(term.ExitOK, "backup", filepath.Join(s.root, "by-hand"), "--data", s.dir) // runs nothing
	status, _ := s.tollhouse(term.ExitOK, "status", "--data", s.dir, "--json")
	config, _ := s.tollhouse(term.ExitOK, "config", "serve", "--data", s.dir)
	if code := server.end(); code != term.ExitOK {
		t.Errorf("the server ended with %d", code)
	}
	logs.WriteString(server.stderr.String())
	must.Do(t, os.Remove(filepath.Join(work, "fail")))
	must.Do(t, os.WriteFile(filepath.Join(work, "go"), nil, 0o600))
	server = begin()
	if code := server.end(); code != term.ExitOK || runs() != 3 {
		t.Errorf("%d runs, want no more with a file for which it failed", runs())
	}
	if lines := strings.Fields(read("runs")); len(lines) != 3 || lines[0] != lines[1] || lines[1] != lines[2] {
		t.Errorf("runs with %q, want one file", lines)
	}
	if !strings.Contains(logs.String(), "failing with [masked] and [masked]") || !strings.Contains(read("environ"), "RESTIC_PASSWORD=canary-restic-password") {
		t.Errorf("log: %s", &logs)
	}
	for what, text := range map[string]string{
		"the server's log": logs.String(), "doctor": doctor, "status": status, "config": config, "the program's arguments": read("argv"), "the note": note(),
	} {
		if strings.Contains(text, "canary") || strings.Contains(text, s.secret) {
			t.Errorf("%s has a secret: %s", what, text)
		}
	}
	if environ := read("environ"); strings.Contains(environ, "canary-server") || strings.Contains(environ, "TOLLHOUSE_BACKUP_RECIPIENT") {
		t.Errorf("the program's environment has the server's variables: %s", environ)
	}
}

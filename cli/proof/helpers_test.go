package proof

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"tollhouse/store/storetest/must"
)

// helper is a printed test helper in a project of its own.
type helper struct {
	name   string // as print helper knows it
	file   string // where its comment says to put it
	checks [][]string
	runner []string
	whole  []string // a runner that is one process, to be killed; none is runner
	env    []string
}

// TestPrintedHelpers runs each printed helper in a fresh project by its own runner.
// Two files of tests run beside each other.
//
// Promise (Testers, bad input): the guide has every member of seed lines and tokens; answers of the
// controls end with a newline; helpers without a binary name TOLLHOUSE_BIN
func TestPrintedHelpers(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	t.Run("go", func(t *testing.T) {
		t.Parallel()
		helper{
			name: "go", file: "internal/tollhousetest/tollhousetest.go",
			checks: [][]string{{"gofmt", "-l", "-e", "."}, {"go", "vet", "./..."}, {"go", "test", "-c", "-o", "till.test", "./till"}},
			runner: []string{"go", "test", "-count=1", "./..."},
			whole:  []string{"./till.test", "-test.run", "TestHanging"},
			env:    []string{"GOFLAGS=-buildvcs=false", "GOWORK=off"},
		}.run(t)
	})
	t.Run("pytest", func(t *testing.T) {
		t.Parallel()
		const python = "/usr/bin/python3" // Debian's, which has its packages
		must.Have(t, exec.Command(python, "-c", "import pytest, xdist").Run() == nil, "pytest and pytest-xdist, of Debian's packages python3-pytest and python3-pytest-xdist, are missing")
		pytest := []string{python, "-m", "pytest", "-q", "-p", "no:cacheprovider"}
		helper{
			name: "pytest", file: "conftest.py",
			runner: append(pytest, "-n", "2"),
			whole:  append(pytest, "-k", "hanging"),
			env:    []string{"PYTHONDONTWRITEBYTECODE=1"},
		}.run(t)
	})
	t.Run("vitest", func(t *testing.T) {
		t.Parallel()
		node := needTool(t, "node")
		modules := nodeModules(t)
		vitest := []string{node, filepath.Join(modules, "vitest", "vitest.mjs"), "run"}
		helper{
			name: "vitest", file: "tollhouse.ts",
			checks: [][]string{{"ln", "-s", modules, "node_modules"}, {node, filepath.Join(modules, "typescript", "bin", "tsc"), "-p", "."}},
			runner: vitest,
			whole:  append(vitest, "-t", "hangs"),
		}.run(t)
	})
}

func (h helper) run(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "helpers", h.name))))
	text := command(t, "", "print", "helper", h.name)
	if lines := strings.Count(string(text), "\n"); lines > 120 {
		t.Errorf("the helper has %d lines, want 120 at most", lines)
	}
	file := filepath.Join(dir, h.file)
	must.Do(t, os.MkdirAll(filepath.Dir(file), 0o755))
	must.Do(t, os.WriteFile(file, text, 0o644))
	// Every instance notes its process id before it begins.
	started := filepath.Join(t.TempDir(), "started")
	binary := filepath.Join(t.TempDir(), "tollhouse")
	script := "#!/bin/sh\necho $$ >> '" + started + "'\nexec '" + program(t) + "' \"$@\"\n"
	must.Do(t, os.WriteFile(binary, []byte(script), 0o755))
	h.env = append(append(environ(), h.env...), "TOLLHOUSE_BIN="+binary)

	for _, check := range h.checks {
		if out, err := h.command(t, dir, check).CombinedOutput(); err != nil || check[0] == "gofmt" && len(out) > 0 {
			t.Fatalf("%s: %v\n%s", strings.Join(check, " "), err, out)
		}
	}
	if out, err := h.command(t, dir, h.runner).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(h.runner, " "), err, out)
	}
	ended := processes(t, started)
	if len(ended) < 2 {
		t.Errorf("%d instances were started, want one for each file of tests", len(ended))
	}
	wantGone(t, "after the tests", ended)

	h.killed(t, dir, started, len(ended))

	// Nothing is found: no variable, and no tollhouse in the PATH.
	cmd := h.command(t, dir, h.runner)
	cmd.Env = append(cmd.Env, "TOLLHOUSE_BIN=")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "set TOLLHOUSE_BIN to its path") {
		t.Errorf("without a binary: %v\n%s\nwant a failure that names TOLLHOUSE_BIN", err, out)
	}
}

// killed kills the runner while a test hangs, whose instance is ready: one that lost its parent
// before its first instruction cannot tell an adopter of the same session from a parent.
func (h helper) killed(t *testing.T, dir, started string, before int) {
	cmd := h.command(t, dir, h.whole)
	hangs := filepath.Join(t.TempDir(), "hangs")
	cmd.Env = append(cmd.Env, "HANG="+hangs)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must.Do(t, cmd.Start())
	defer syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // workers of the runner's own may go on
	eventually(t, func() bool { _, err := os.Stat(hangs); return err == nil }, "the hanging test gets no instance")
	pids := processes(t, started)[before:]
	must.Do(t, cmd.Process.Kill())
	_ = cmd.Wait()
	wantGone(t, "after the runner was killed", pids)
}

func (h helper) command(t *testing.T, dir string, words []string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
	cmd.Dir, cmd.Env = dir, h.env
	return cmd
}

// processes reads the process ids of the instances.
func processes(t *testing.T, started string) (pids []int) {
	t.Helper()
	text, err := os.ReadFile(started)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, word := range strings.Fields(string(text)) {
		pid := must.Get(strconv.Atoi(word))(t)
		pids = append(pids, pid)
	}
	return pids
}

func wantGone(t *testing.T, when string, pids []int) {
	t.Helper()
	for _, pid := range pids {
		eventually(t, func() bool { return gone(pid) }, "%s, process %d still runs", when, pid)
	}
}

// gone reports whether a process has ended, its parent's notice aside.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) == syscall.ESRCH {
		return true
	}
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return err == nil && strings.Contains(string(stat), ") Z ")
}

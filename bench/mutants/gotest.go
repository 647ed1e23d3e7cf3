package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	testWait       = 3 * time.Minute // of one package: a mutant may well hang
	endWait        = 10 * time.Second
	outputShownMax = 2000 // bytes of what go says when it cannot compile
)

// overlayVariable tells a test that reads the sources, rather than runs them,
// where the overlay is that they are compiled with.
const overlayVariable = "TOLLHOUSE_OVERLAY"

// moduleRoot is the top of the server's module, the directory above bench.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	root := filepath.Join(filepath.Dir(strings.TrimSpace(string(out))), "..")
	if _, err := os.Stat(filepath.Join(root, "store", "secret")); err != nil {
		return "", errors.New("run it in bench")
	}
	return root, nil
}

// overlayOf is the overlay that puts one file in the place of another.
func overlayOf(place, file string) []byte {
	b, err := json.Marshal(map[string]map[string]string{"Replace": {place: file}})
	if err != nil {
		panic("mutants: overlay cannot be encoded: " + err.Error())
	}
	return b
}

// goCommand is the go command at the top of the module. It is interrupted, not
// killed, when ctx is done, so that it ends the tests that it has begun.
func (l *lab) goCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.WaitDelay = l.root, endWait
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	return cmd
}

// build compiles a package with the overlay on it.
func (l *lab) build(ctx context.Context, overlay, pkg string) error {
	cmd := l.goCommand(ctx, "build", "-overlay", overlay, pkg)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("it does not compile: %w: %s", err, shorten(string(out)))
	}
	return nil
}

// verdict is what the tests say of a tree.
type verdict struct {
	by string // the first test that failed, with its package; "" when all passed
}

func (v verdict) killed() bool { return v.by != "" }

func (v verdict) String() string {
	if v.killed() {
		return v.by
	}
	return "SURVIVED"
}

// test runs the tests that the pattern names, or all, of the tree with the
// overlay on it, if any.
func (l *lab) test(ctx context.Context, overlay, pattern string, packages ...string) (verdict, error) {
	args := []string{"test", "-json", "-count=1", "-vet=off", "-failfast", "-timeout", testWait.String()}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	if pattern != "" {
		args = append(args, "-run", pattern)
	}
	cmd := l.goCommand(ctx, append(args, packages...)...)
	// The short form of every test is the one that everybody runs.
	cmd.Env = append(os.Environ(), overlayVariable+"="+overlay, "TOLLHOUSE_LONG=")
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, failed := cmd.Output()
	if ctx.Err() != nil {
		return verdict{}, ctx.Err()
	}
	v, err := judge(bytes.NewReader(out))
	if err == nil && failed != nil && !v.killed() {
		err = fmt.Errorf("go test failed, and no test did: %w: %s", failed, shorten(complaint.String()))
	}
	return v, err
}

// testEvent is a line of go test -json.
type testEvent struct {
	Action, Package, Test, Output string
}

// judge reads what go test -json prints. Only a test that failed is a kill: a
// tree that does not compile is an error, and so is a run without any test.
func judge(lines io.Reader) (verdict, error) {
	var v verdict
	var build strings.Builder
	ran := 0
	for d := json.NewDecoder(lines); ; {
		var e testEvent
		err := d.Decode(&e)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return verdict{}, fmt.Errorf("go test -json: %w", err)
		}
		switch {
		case e.Action == "build-output":
			build.WriteString(e.Output)
		case e.Action == "build-fail":
			return verdict{}, fmt.Errorf("it does not compile: %s", shorten(build.String()))
		case e.Test == "":
		case e.Action == "run":
			ran++
		case e.Action == "fail" && v.by == "": // of a subtest, it comes before its parent's
			v.by = strings.TrimPrefix(e.Package, "tollhouse/") + " " + e.Test
		}
	}
	if ran == 0 {
		return verdict{}, errors.New("no test ran")
	}
	return v, nil
}

func shorten(text string) string {
	text = strings.TrimSpace(text)
	if len(text) <= outputShownMax {
		return text
	}
	return text[:outputShownMax] + "…"
}

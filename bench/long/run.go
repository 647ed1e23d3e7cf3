package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// run is what one slice of a part has measured.
type run struct {
	Part    string             `json:"part"`
	Date    time.Time          `json:"date"`
	Commit  string             `json:"commit"` // with a plus sign when files differ from it
	Machine string             `json:"machine"`
	Command string             `json:"command"`
	Seconds int                `json:"seconds"`
	Figures map[string]float64 `json:"figures,omitempty"`
	Failed  string             `json:"failed,omitempty"`   // the end of what it printed
	Fault   string             `json:"fault,omitempty"`    // what a failed run found to be wrong, "test" or "server", written by hand
	Because string             `json:"because,omitempty"`  // what was wrong and what changed, written by hand
	Skipped string             `json:"skipped,omitempty"`  // why this machine cannot run it
	LeftOut string             `json:"left_out,omitempty"` // why its times and sizes are left out: what was fixed since, or what else the machine did; written by hand
}

// explained reports whether it is known why the run failed.
func (r run) explained() bool { return r.Fault == "test" || r.Fault == "server" }

const (
	graceTime   = 20 * time.Minute // for the last round of a slice, and to build
	failureEnds = 1500             // bytes that are kept of what a failed run printed
)

// run runs one slice of the part.
func (p part) run(ctx context.Context, slice time.Duration) (run, error) {
	began := time.Now()
	done := run{Part: p.name, Date: began.UTC().Truncate(time.Second), Commit: commit(), Machine: machine(), Command: p.shown(), Figures: map[string]float64{}}
	commands, err := p.commands(slice)
	if err != nil {
		return done, err
	}
	passed := map[string]bool{} // tests
	for _, args := range commands {
		var out bytes.Buffer
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Dir = p.dir
		cmd.Env = slices.Concat(os.Environ(), p.env, []string{"CI=", "TOLLHOUSE_LONG=" + slice.String()})
		both := io.MultiWriter(&out, progress{})
		cmd.Stdout, cmd.Stderr = both, both
		err := cmd.Run()
		if ctx.Err() != nil {
			return done, errors.New("interrupted; what this slice measured is lost, and the slices before it are kept")
		}
		p.read(out.String(), done.Figures)
		for _, found := range testPassed.FindAllStringSubmatch(out.String(), -1) {
			passed[found[1]] = true
		}
		if err != nil && !(p.fuzz && outOfTime(out.String())) {
			done.Failed = fmt.Sprintf("%s: %v\n%s", strings.Join(args, " "), err, ending(out.String()))
			break
		}
		if skip := skipped.FindStringSubmatch(out.String()); skip != nil && len(done.Figures) == 0 {
			done.Skipped = strings.TrimSpace(skip[1])
		}
	}
	if p.section != "" && done.Failed == "" {
		promises, err := promisesOf(p.section)
		if err != nil {
			return done, err
		}
		for _, one := range promises {
			if one.holds(passed) {
				done.Figures["attacks"] += float64(one.says)
			}
		}
	}
	if name := p.lacks(done.Figures); name != "" && done.Failed == "" && done.Skipped == "" {
		done.Failed = fmt.Sprintf("no test printed the figure %s", name)
	}
	done.Seconds = int(math.Round(time.Since(began).Seconds()))
	return done, nil
}

// commands returns what a slice runs, one after the other.
func (p part) commands(slice time.Duration) ([][]string, error) {
	if p.argv != nil {
		return [][]string{p.argv}, nil
	}
	if p.fuzz {
		return fuzzCommands(slice)
	}
	if p.section != "" {
		return conformanceCommands(p.section)
	}
	return [][]string{append([]string{"go", "test", "-count=1", "-v", "-timeout", (slice + graceTime).String()}, p.test...)}, nil
}

// shown is the command by which a reader repeats a part without this one.
func (p part) shown() string {
	switch {
	case p.argv != nil && p.dir != "":
		return "cd " + p.dir + " && " + quoted(p.argv)
	case p.argv != nil:
		return quoted(p.argv)
	case p.fuzz:
		return "go test -run '^$' -fuzz NAME -fuzztime TIME PACKAGE"
	case p.section != "":
		return "go test -count=1 -v -run NAMES PACKAGE, for what the section " + p.section + " of docs/internals/conformance.md names"
	}
	return quoted(slices.Concat(p.env, strings.Fields("TOLLHOUSE_LONG=1 go test -count=1 -v -timeout 24h"), p.test))
}

// quoted joins arguments as a shell reads them.
func quoted(args []string) string {
	args = slices.Clone(args)
	for i, arg := range args {
		if strings.ContainsAny(arg, "|$^()") {
			args[i] = "'" + arg + "'"
		}
	}
	return strings.Join(args, " ")
}

var fuzzTarget = regexp.MustCompile(`(?m)^func (Fuzz\w+)`)

// fuzzCommands gives each fuzz target an equal part of the slice.
func fuzzCommands(slice time.Duration) ([][]string, error) {
	var commands [][]string
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, found := range fuzzTarget.FindAllSubmatch(source, -1) {
			commands = append(commands, []string{"go", "test", "-run", "^$", "-fuzz", "^" + string(found[1]) + "$", "", "./" + filepath.ToSlash(filepath.Dir(path))})
		}
		return err
	})
	for _, args := range commands {
		args[6] = "-fuzztime=" + max(slice/time.Duration(len(commands)), 5*time.Second).Round(time.Second).String()
	}
	return commands, err
}

var conformanceTests = regexp.MustCompile(`([a-z/]+) (Test\w+(?:, Test\w+)*)`)

// promise is one line of a section of docs/internals/conformance.md.
type promise struct {
	says  int                 // how many things, with semicolons between them
	tests map[string][]string // by package
}

// holds reports whether its tests all passed: one that was skipped did not.
func (p promise) holds(passed map[string]bool) bool {
	for _, tests := range p.tests {
		if slices.ContainsFunc(tests, func(name string) bool { return !passed[name] }) {
			return false
		}
	}
	return true
}

func promisesOf(section string) (all []promise, err error) {
	page, err := os.ReadFile("docs/internals/conformance.md")
	_, text, _ := strings.Cut(string(page), "\n## "+section+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	for line := range strings.Lines(text) {
		said, tests, _ := strings.Cut(strings.TrimPrefix(line, "|"), " | ")
		p := promise{strings.Count(said, ";") + 1, map[string][]string{}}
		for _, found := range conformanceTests.FindAllStringSubmatch(tests, -1) {
			p.tests[found[1]] = append(p.tests[found[1]], strings.Split(found[2], ", ")...)
		}
		if len(p.tests) > 0 {
			all = append(all, p)
		}
	}
	return all, err
}

// conformanceCommands runs the tests that a section of docs/internals/conformance.md names, by package.
func conformanceCommands(section string) (commands [][]string, err error) {
	promises, err := promisesOf(section)
	names := map[string][]string{} // by package
	for _, p := range promises {
		for name, tests := range p.tests {
			names[name] = append(names[name], tests...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		slices.Sort(names[name])
		pattern := "^(" + strings.Join(slices.Compact(names[name]), "|") + ")$"
		commands = append(commands, []string{"go", "test", "-count=1", "-v", "-timeout", graceTime.String(), "-run", pattern, "./" + name})
	}
	return commands, err
}

var (
	figureLine = regexp.MustCompile(`(?m)figure (\w+) (-?[0-9.]+)\s*$`)
	execsLine  = regexp.MustCompile(`execs: (\d+)`)
	testPassed = regexp.MustCompile(`(?m)^--- PASS: (\w+)`) // not a subtest
	skipped    = regexp.MustCompile(`(?s)--- SKIP.*?\.go:\d+: ([^\n]+)`)
)

// read adds the figures of what a command printed.
func (p part) read(out string, figures map[string]float64) {
	add := func(name string, value float64) {
		before, has := figures[name]
		figures[name] = p.figure(name).join(before, value, has)
	}
	for _, found := range figureLine.FindAllStringSubmatch(out, -1) {
		value, err := strconv.ParseFloat(found[2], 64)
		if err == nil {
			add(found[1], value)
		}
	}
	if execs := execsLine.FindAllStringSubmatch(out, -1); p.fuzz && execs != nil {
		value, err := strconv.ParseFloat(execs[len(execs)-1][1], 64)
		if err == nil {
			add("executions", value)
			figures["targets"]++
		}
	}
	if n := strings.Count(out, "--- PASS"); n > 0 && p.figure("passed").label != "" {
		figures["passed"] += float64(n)
	}
	if n := len(testPassed.FindAllString(out, -1)); n > 0 && p.figure("tests").label != "" {
		figures["tests"] += float64(n)
	}
	if p.argv != nil && len(figures) == 0 {
		add("runs", 1)
	}
}

// progress shows the lines that say what became of a test.
type progress struct{}

func (progress) Write(out []byte) (int, error) {
	for line := range bytes.Lines(out) {
		if at := bytes.TrimSpace(line); bytes.HasPrefix(at, []byte("---")) || bytes.HasPrefix(at, []byte("fuzz: elapsed")) {
			fmt.Printf("  %s\n", at)
		}
	}
	return len(out), nil
}

func (r run) summary() string {
	var text strings.Builder
	names := make([]string, 0, len(r.Figures))
	for name := range r.Figures {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&text, "  %s %s\n", name, number(r.Figures[name]))
	}
	if r.Failed != "" {
		fmt.Fprintf(&text, "  FAILED: %s\n", r.Failed)
	}
	if r.Skipped != "" {
		fmt.Fprintf(&text, "  skipped: %s\n", r.Skipped)
	}
	return text.String()
}

func readRuns(path string) ([]run, error) {
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("%w; start it in bench", err)
	}
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var runs []run
	for line := range bytes.Lines(content) {
		var r run
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, len(runs)+1, err)
		}
		runs = append(runs, r)
	}
	return runs, nil
}

func appendRun(path string, r run) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	return errors.Join(err, file.Close())
}

func ofPart(runs []run, name string) []run {
	return slices.DeleteFunc(slices.Clone(runs), func(r run) bool { return r.Part != name })
}

// outOfTime reports whether a fuzz target only ran out of its time, which the coordinator of
// Go 1.26 now and then calls a failure (golang.org/issue/75804).
func outOfTime(out string) bool {
	return strings.Contains(out, "context deadline exceeded") && !strings.Contains(out, "Failing input")
}

var testMessage = regexp.MustCompile(`(?m)^ +\w+_test\.go:\d+: .*$`)

// crashed is where a Go program begins to say why it ends.
var crashed = regexp.MustCompile(`(?m)^ *(fatal error|panic|unexpected fault address|SIGBUS)`)

// ending is what the tests said, figures apart, the beginning of a crash, and the last of
// what was printed, from the first failure on if that fits.
func ending(out string) string {
	said := testMessage.FindAllString(out, -1)
	said = slices.DeleteFunc(said, figureLine.MatchString)
	crash := ""
	if at := crashed.FindStringIndex(out); at != nil {
		crash = out[at[0]:min(at[0]+failureEnds, len(out))] + "\n"
	}
	if at := strings.Index(out, "--- FAIL"); at > 0 {
		out = out[at:]
	}
	return shortened(strings.Join(said, "\n")) + "\n" + crash + shortened(out)
}

// shortened keeps the beginning and the end.
func shortened(out string) string {
	if len(out) <= failureEnds {
		return out
	}
	return out[:failureEnds/2] + "\n…\n" + out[len(out)-failureEnds/2:]
}

// commit is what was run.
func commit() string {
	out, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	name := strings.TrimSpace(string(out))
	// The results and the page are what this command itself writes.
	if err := exec.Command("git", "diff", "--quiet", "HEAD", "--", ".", ":!"+runsFile, ":!"+pageFile).Run(); err != nil {
		name += "+"
	}
	return name
}

var memTotal = regexp.MustCompile(`MemTotal:\s+(\d+) kB`)

// machine says what the run had at hand.
func machine() string {
	text := fmt.Sprintf("%s/%s, %d cores", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	if info, err := os.ReadFile("/proc/meminfo"); err == nil {
		if found := memTotal.FindSubmatch(info); found != nil {
			kib, _ := strconv.Atoi(string(found[1])) // digits
			text += fmt.Sprintf(", %d GiB", kib>>20)
		}
	}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		version, _, _ := strings.Cut(strings.TrimSpace(string(release)), "-")
		text += ", Linux " + version
	}
	return text + ", " + runtime.Version()
}

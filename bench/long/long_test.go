package main

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestThePageShowsTheRuns: docs/internals/reliability.md is what the kept runs give.
func TestThePageShowsTheRuns(t *testing.T) {
	t.Parallel()
	runs := get(readRuns("runs.jsonl"))(t)
	got := string(get(os.ReadFile("../../docs/internals/reliability.md"))(t))
	if want := page(rows, runs); got != want {
		t.Error("docs/internals/reliability.md differs from what runs.jsonl and rows.go give: write it with go run ./long --list")
	}
}

// TestEveryPartNamesATest: a part whose test was renamed would pass without a run.
func TestEveryPartNamesATest(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, r := range rows {
		for _, p := range r.parts {
			if names[p.name] {
				t.Errorf("two parts are named %q", p.name)
			}
			names[p.name] = true
			if chosen, err := choose(p.name); err != nil || len(chosen) != 1 || len(chosen[0].parts) != 1 {
				t.Errorf("--only %q: %d rows, %v, want its part", p.name, len(chosen), err)
			}
			if len(p.figures) == 0 {
				t.Errorf("%s has no figure", p.name)
			}
			for _, f := range p.figures {
				f.goal.met(0) // panics when it has no number
			}
			if p.test != nil {
				wantTest(t, p)
			}
		}
	}
}

func wantTest(t *testing.T, p part) {
	t.Helper()
	pattern := ""
	var paths []string
	for i, arg := range p.test {
		switch {
		case strings.HasPrefix(arg, "./"):
			paths = append(paths, testFiles(t, arg)...)
		case arg == "-run":
			pattern, _, _ = strings.Cut(p.test[i+1], "/")
		}
	}
	for name := range strings.SplitSeq(pattern, "|") {
		name = strings.TrimSuffix(name, "$")
		found := false
		for _, path := range paths {
			found = found || regexp.MustCompile(`(?m)^func `+name).Match(get(os.ReadFile(path))(t))
		}
		if !found {
			t.Errorf("%s: there is no test %q", p.name, name)
		}
	}
}

// testFiles are the test files of a package, or of all below it.
func testFiles(t *testing.T, pkg string) (paths []string) {
	t.Helper()
	dir, below := strings.CutSuffix(pkg, "/...")
	do(t, filepath.WalkDir(filepath.Join("../..", dir), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") && (below || filepath.Dir(path) == filepath.Join("../..", dir)) {
			paths = append(paths, path)
		}
		return err
	}))
	return paths
}

func TestFiguresAddUp(t *testing.T) {
	t.Parallel()
	p := part{name: "kills", figures: []figure{
		{"kills", "kills", sum, "≥ 30"}, {"slowest_ms", "slowest", most, "≤ 9"}, {"clients", "clients", least, "≥ 4"}, {"size", "size", latest, ""},
	}}
	runs := []run{
		{Part: "kills", Figures: map[string]float64{"kills": 10, "slowest_ms": 7, "clients": 4, "size": 3}},
		{Part: "other", Figures: map[string]float64{"kills": 1000}},
		{Part: "kills", Figures: map[string]float64{"kills": 1000, "slowest_ms": 12}, Failed: "it failed"},
		{Part: "kills", Figures: map[string]float64{"kills": 20, "slowest_ms": 5, "clients": 5, "size": 2}},
	}
	want := map[string]float64{"kills": 30, "slowest_ms": 7, "clients": 4, "size": 2}
	if got := p.total(runs); !maps.Equal(got, want) {
		t.Errorf("total = %v, want %v", got, want)
	}
	if p.wants(runs) || !p.wants(runs[:3]) || !p.wants(nil) {
		t.Errorf("wants = %t, %t, %t, want another run until all are there", p.wants(runs), p.wants(runs[:3]), p.wants(nil))
	}
	if slow := slices.Concat(runs, []run{{Part: "kills", Figures: map[string]float64{"slowest_ms": 70}}}); p.wants(slow) {
		t.Error("another run is wanted for a time that stays the slowest")
	}
	if failed := slices.Concat(runs, []run{{Part: "kills", Failed: "it failed"}}); !p.wants(failed) {
		t.Error("no other run is wanted after one that failed")
	}
	p.figures[3].goal = "≤ 1"
	if !p.wants(runs) {
		t.Error("no other run is wanted for a goal that the next may meet")
	}
	p.figures[3].goal = ""
	text := page([]row{{id: "R1", promise: "nothing is lost", parts: []part{p}}}, runs)
	for _, line := range []string{"| kills | 30 | ≥ 30 | met |", "**1 failed**", "| slowest | 7; in failed runs 12 | ≤ 9 | met |", "| size (last run) | 2 |", "Nothing was found yet", "## Missed goals\n\nNone.\n"} {
		if !strings.Contains(text, line) {
			t.Errorf("the page lacks %q:\n%s", line, text)
		}
	}
	p.figures[1].goal, p.why, runs[2].Fault = "≤ 6", map[string]string{"slowest_ms": "The disk is slow."}, "test"
	text = page([]row{{id: "R1", parts: []part{p}}}, runs)
	for _, line := range []string{"| R1 | kills: slowest | 7 | ≤ 6 | The disk is slow. |", "## Not explained\n\nNothing.\n"} {
		if !strings.Contains(text, line) {
			t.Errorf("the page lacks %q:\n%s", line, text)
		}
	}
	if text := page([]row{{parts: []part{p}}}, runs[:1]); !strings.Contains(text, "| kills | 10 | ≥ 30 | not yet |") {
		t.Errorf("a figure that came part of the way:\n%s", text)
	}
}

// TestTimesThatDoNotCount stay on the page, and only the sums of their runs count.
func TestTimesThatDoNotCount(t *testing.T) {
	t.Parallel()
	p := part{name: "load", figures: []figure{{"kills", "kills", sum, ""}, {"slowest_ms", "slowest", most, "≤ 9"}}}
	runs := []run{
		{Part: "load", Figures: map[string]float64{"kills": 10, "slowest_ms": 70}, LeftOut: "The queue is shorter."},
		{Part: "load", Figures: map[string]float64{"kills": 20, "slowest_ms": 5}},
	}
	text := page([]row{{id: "R1", promise: "it is quick", parts: []part{p}}}, runs)
	for _, line := range []string{"| kills | 30 |", "| slowest | 5 | ≤ 9 | met |", "| load | The queue is shorter. | slowest 70 |"} {
		if !strings.Contains(text, line) {
			t.Errorf("the page lacks %q:\n%s", line, text)
		}
	}
}

func TestFiguresAreReadFromOutput(t *testing.T) {
	t.Parallel()
	const out = "=== RUN   TestX\n    x_test.go:12: figure kills 12\n    x_test.go:13: figure slowest_ms 1.5\n    x_test.go:13: figure slowest_ms 1.25\n    x_test.go:14: no figure kills 9 here\nok\n"
	p := part{test: []string{"./x"}, figures: []figure{{"slowest_ms", "", most, ""}}}
	got := map[string]float64{}
	p.read(out, got)
	if want := map[string]float64{"kills": 12, "slowest_ms": 1.5}; !maps.Equal(got, want) {
		t.Errorf("read = %v, want %v", got, want)
	}
	fuzz, got := part{fuzz: true, figures: []figure{{"targets", "targets", latest, ""}}}, map[string]float64{}
	for range 2 {
		fuzz.read("fuzz: elapsed: 3s, execs: 70 (23/sec)\nfuzz: elapsed: 6s, execs: 150 (26/sec)\nPASS\n", got)
	}
	if want := map[string]float64{"executions": 300, "targets": 2}; !maps.Equal(got, want) {
		t.Errorf("read of two fuzz targets = %v, want %v", got, want)
	}
	counted, got := part{figures: []figure{{"passed", "tests", latest, ""}}}, map[string]float64{}
	counted.read("--- PASS: TestY (0.00s)\nPASS\n", got)
	counted.read("=== RUN   TestX\n--- PASS: TestX (0.00s)\n    --- PASS: TestX/a (0.00s)\nPASS\n", got)
	none := map[string]float64{}
	if counted.read("--- SKIP: TestX (0.00s)\n", none); len(none) != 0 {
		t.Errorf("read of a test that was skipped = %v", none)
	}
	if got["passed"] != 3 {
		t.Errorf("read of three tests that passed = %v", got)
	}
}

func TestSectionsOfTheConformancePage(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	commands, err := conformanceCommands("Attacks, each tried")
	if err != nil || len(commands) < 5 {
		t.Fatalf("%d commands, %v; want one for each package", len(commands), err)
	}
	attacks := 0
	for _, p := range get(promisesOf("Attacks, each tried"))(t) {
		attacks += p.says
	}
	if attacks < 97 {
		t.Errorf("%d attacks are listed, want the 97 of the catalogue at least", attacks)
	}
	last := commands[len(commands)-1]
	if want := []string{"^(TestHostileWords)$", "./views"}; !slices.Equal(last[len(last)-2:], want) {
		t.Errorf("the last command is %q, want %q at its end", last, want)
	}
}

// TestAFailedRunIsKept: its figures do not count, and the end of what it printed stays.
func TestAFailedRunIsKept(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	good := get(part{name: "good", argv: []string{"go", "version"}}.run(ctx, time.Second))(t)
	if good.Failed != "" || good.Figures["runs"] != 1 || good.Machine == "" || good.Command != "go version" {
		t.Errorf("run of go version = %+v", good)
	}
	bad := get(part{name: "bad", argv: []string{"go", "nosuchcommand"}}.run(ctx, time.Second))(t)
	if !strings.Contains(bad.Failed, "unknown command") {
		t.Errorf("run of an unknown command = %+v, want what it printed", bad)
	}
	silent := get(part{name: "silent", argv: []string{"go", "version"}, figures: []figure{{"kills", "kills", sum, ""}}}.run(ctx, time.Second))(t)
	if !strings.Contains(silent.Failed, "figure kills") {
		t.Errorf("run without its figure = %+v, want it failed", silent)
	}
	path := filepath.Join(t.TempDir(), "runs.jsonl")
	if kept, err := readRuns(path); err != nil || len(kept) != 0 {
		t.Errorf("before the first run: %+v, %v", kept, err)
	}
	if _, err := readRuns("nowhere/runs.jsonl"); err == nil || !strings.Contains(err.Error(), "start it in bench") {
		t.Errorf("elsewhere: %v", err)
	}
	do(t, appendRun(path, good))
	do(t, appendRun(path, bad))
	kept := get(readRuns(path))(t)
	if len(kept) != 2 || kept[1].Failed != bad.Failed || !kept[0].Date.Equal(good.Date) {
		t.Errorf("kept %+v", kept)
	}
}

func TestRowsAndPartsAreChosenByName(t *testing.T) {
	const name = "power cuts on xfs"
	chosen := get(choose("r1, " + name))(t)
	if len(chosen) != 2 || chosen[0].id != "R1" || len(chosen[0].parts) < 2 || len(chosen[1].parts) != 1 || chosen[1].parts[0].name != name {
		t.Errorf("chosen %+v, want all of R1 and one part", chosen)
	}
	if _, err := choose("R1,R99"); err == nil {
		t.Error("a row that does not exist is chosen")
	}
}

// TestACrashIsKept: a failed run keeps the beginning of a crash, which says why.
func TestACrashIsKept(t *testing.T) {
	long := strings.Repeat("        goroutine 7 [running]\n", 1000)
	if kept := ending("        fatal error: fault\n        [signal SIGBUS]\n" + long + "--- FAIL: TestFullDisk\n"); !strings.Contains(kept, "signal SIGBUS") || !strings.Contains(kept, "--- FAIL") {
		t.Errorf("kept %.300q", kept)
	}
}

func TestCommandsCanBePasted(t *testing.T) {
	t.Parallel()
	shown := part{test: []string{"-run", "TestA$|TestB$", "./a"}}.shown()
	if want := "-run 'TestA$|TestB$' ./a"; !strings.HasSuffix(shown, want) {
		t.Errorf("shown = %q, want %q at its end", shown, want)
	}
}

func TestNumbersAreWrittenForPeople(t *testing.T) {
	t.Parallel()
	for value, want := range map[float64]string{0: "0", 1: "1", 0.25: "0.25", 12.3456: "12.346", 999: "999", 1234.5: "1,234", 5000000: "5,000,000", -1.5: "-1.5", -1234: "-1,234"} {
		if got := number(value); got != want {
			t.Errorf("number(%v) = %q, want %q", value, got, want)
		}
	}
}

// TestAnAttackCountsOnlyIfItsTestsRan: a test that was skipped is none that passed.
func TestAnAttackCountsOnlyIfItsTestsRan(t *testing.T) {
	t.Parallel()
	p := promise{1, map[string][]string{"handlers": {"TestToken"}, "cli/proof": {"TestPages", "TestSite"}}}
	if passed := map[string]bool{"TestToken": true, "TestPages": true}; p.holds(passed) {
		t.Error("an attack counts although one of its tests did not pass")
	}
	if passed := map[string]bool{"TestToken": true, "TestPages": true, "TestSite": true}; !p.holds(passed) {
		t.Error("an attack does not count although its tests passed")
	}
}

// get ends the test at a step that is not under test and has failed.
func get[V any](v V, err error) func(*testing.T) V {
	return func(t *testing.T) V {
		do(t, err)
		return v
	}
}

func do(t *testing.T, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

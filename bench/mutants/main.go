// Mutants checks that the tests notice a broken rule.
//
// A test of a rule may pass whatever the code does. This program removes the rules one
// at a time: the client check of a refresh token, the revocation on a replay, the owner
// in a key. For each it compiles the tests with the weakened file as an overlay (go test
// -overlay, which leaves the work tree alone) and expects a test to fail. It ends with a
// table of the mutants and the test that killed each. A survivor is a rule without a
// test, and fails the program.
//
// The table has the rules that guard secrets, tokens, money and order. It is no part of
// the server's module, since it repeats pieces of the sources: an edit of one must not
// fail the server's go test ./... . In bench:
//
//	go run ./mutants                 every mutant; each is a compile and its tests
//	go run ./mutants -only throttle  those whose name matches
//	go run ./mutants -part 2/8       each eighth, from the second on
//	go run ./mutants -part any/8     a random eighth
//	go run ./mutants -whole          against all tests but those of the built binary
//	go test ./mutants                whether the table still matches the sources
//
// A mutant finds its file by the text that it replaces, and its tests by their names, so
// that files may move. It names the tests that must notice: a run is short, and the kill
// is by the test of that rule, not by luck. The sound tree must pass these tests first.
// A mutant that does not compile is not a kill but a mistake in the table. So is one whose
// text is not in the sources exactly once: the code has changed, and the table must follow.
//
// The exit code is 0 when all were killed, 1 when one survived, 2 when
// the mutants could not be tried.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"text/tabwriter"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	var lived survivors
	switch {
	case err == nil:
	case errors.As(err, &lived):
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	default:
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("mutants", flag.ExitOnError)
	only := flags.String("only", "", "run the mutants whose name matches this regular expression")
	var o options
	part := flags.String("part", "1/1", "run one of several equal `parts`, such as 2/8")
	flags.BoolVar(&o.whole, "whole", false, "run all tests of the packages against each mutant, not only those of its rule")
	flags.IntVar(&o.jobs, "jobs", 2, "number of mutants to try at the same time")
	_ = flags.Parse(args) // exits by itself
	if o.jobs < 1 {
		return errors.New("-jobs must be 1 or more")
	}
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	var chosen []mutant
	for _, m := range table() {
		if wanted.MatchString(m.name) {
			chosen = append(chosen, m)
		}
	}
	if chosen, err = partOf(chosen, *part); err != nil {
		return err
	}
	if len(chosen) == 0 {
		return fmt.Errorf("no mutant has a name that matches %q", *only)
	}
	l, err := openLab(ctx)
	if err != nil {
		return err
	}
	defer l.close()
	return l.experiment(ctx, chosen, o)
}

// partOf returns each of-th mutant, from the nth on, for a part written n/of. With "any"
// for n the part is random.
func partOf(mutants []mutant, part string) (chosen []mutant, err error) {
	var n, of int
	if size, found := strings.CutPrefix(part, "any/"); found {
		if of, err = strconv.Atoi(size); err != nil || of < 1 {
			return nil, fmt.Errorf("-part %q does not look like any/8", part)
		}
		part = fmt.Sprintf("%d/%d", rand.N(of)+1, of)
	}
	if _, err := fmt.Sscanf(part, "%d/%d", &n, &of); err != nil || n < 1 || n > of {
		return nil, fmt.Errorf("-part %q does not look like 2/8", part)
	}
	for i := n - 1; i < len(mutants); i += of {
		chosen = append(chosen, mutants[i])
	}
	return chosen, nil
}

// options say how the mutants are tried.
type options struct {
	whole bool // by all tests
	jobs  int  // that run at the same time
}

// lab is where mutants are made and tried.
type lab struct {
	root string // of the module
	dir  string // for what is laid over it
}

func openLab(ctx context.Context) (*lab, error) {
	root, err := moduleRoot(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "tollhouse-mutants-")
	if err != nil {
		return nil, err
	}
	return &lab{root: root, dir: dir}, nil
}

func (l *lab) close() { _ = os.RemoveAll(l.dir) } // at worst a temporary directory is left

// experiment tries the mutants, jobs of them at the same time.
func (l *lab) experiment(ctx context.Context, chosen []mutant, o options) error {
	for _, m := range chosen { // all of them, before any test runs
		if _, _, err := m.weaken(l.root); err != nil {
			return err
		}
	}
	began := time.Now()
	if err := l.checkSound(ctx, chosen, o.whole); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "the sound tree passes (%.0fs)\n", time.Since(began).Seconds())
	verdicts, err := l.tryAll(ctx, chosen, o)
	if err != nil {
		return err
	}
	if err := writeTable(os.Stdout, chosen, verdicts); err != nil {
		return err
	}
	var lived survivors
	for i, v := range verdicts {
		if !v.killed() {
			lived = append(lived, chosen[i].name)
		}
	}
	fmt.Printf("\n%d mutants, %d killed, %d survived, in %.0f s\n", len(chosen), len(chosen)-len(lived), len(lived), time.Since(began).Seconds())
	// bench/long reads these.
	fmt.Printf("figure mutants %d\nfigure killed %d\nfigure survived %d\n", len(chosen), len(chosen)-len(lived), len(lived))
	if len(lived) > 0 {
		return lived
	}
	return nil
}

// tryAll returns the verdict on each mutant, or the error of the first that
// could not be tried.
func (l *lab) tryAll(ctx context.Context, chosen []mutant, o options) ([]verdict, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	verdicts := make([]verdict, len(chosen))
	var next, done atomic.Int64
	var jobs sync.WaitGroup
	for range o.jobs {
		jobs.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(chosen) {
					return
				}
				tried := time.Now()
				v, err := l.try(ctx, chosen[i], o.whole)
				if err != nil {
					stop(fmt.Errorf("%s: %w", chosen[i].name, err))
					return
				}
				verdicts[i] = v
				fmt.Fprintf(os.Stderr, "%3d/%d %s: %s (%.0fs)\n", done.Add(1), len(chosen), chosen[i].name, v, time.Since(tried).Seconds())
			}
		})
	}
	jobs.Wait()
	return verdicts, context.Cause(ctx)
}

// survivors are the mutants that no test noticed.
type survivors []string

func (s survivors) Error() string {
	return "no test noticed " + strings.Join(s, ", ") + "; write the one that does"
}

// try runs the tests of a mutant's rule, or all, with the mutant laid over its
// file.
func (l *lab) try(ctx context.Context, m mutant, whole bool) (verdict, error) {
	overlay, dir, err := l.lay(m)
	if err != nil {
		return verdict{}, err
	}
	packages, err := m.packages(l.root)
	if err != nil {
		return verdict{}, err
	}
	if !slices.Contains(packages, dir) { // go test may have no reason to compile it
		if err := l.build(ctx, overlay, dir); err != nil {
			return verdict{}, err
		}
	}
	pattern := m.pattern()
	if whole {
		packages, pattern = wholePackages, ""
	}
	return l.test(ctx, overlay, pattern, packages...)
}

// wholePackages are those that -whole runs: all but the tests of the built
// binary, which are compiled without the mutant.
var wholePackages = []string{"./store/...", "./handlers/...", "./views", "./static", "./cli", "./cli/datadir", "./cli/server", "./cli/webhooks"}

// checkSound requires that the tests of the mutants pass on the tree as it is: a test
// that fails without a mutant kills nothing.
func (l *lab) checkSound(ctx context.Context, chosen []mutant, whole bool) error {
	if whole {
		return l.wantPass(ctx, "", wholePackages...)
	}
	tests := map[string][]string{}
	for _, m := range chosen {
		packages, err := m.packages(l.root)
		if err != nil {
			return err
		}
		for _, pkg := range packages {
			tests[pkg] = append(tests[pkg], m.tests...)
		}
	}
	for pkg, names := range tests {
		if err := l.wantPass(ctx, patternOf(names), pkg); err != nil {
			return err
		}
	}
	return nil
}

func (l *lab) wantPass(ctx context.Context, pattern string, packages ...string) error {
	v, err := l.test(ctx, "", pattern, packages...)
	if err != nil {
		return fmt.Errorf("the tree as it is: %w", err)
	}
	if v.killed() {
		return fmt.Errorf("the tree as it is fails %s; fix that first", v.by)
	}
	return nil
}

func writeTable(w io.Writer, mutants []mutant, verdicts []verdict) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "mutant\tit breaks\tkilled by")
	for i, m := range mutants {
		fmt.Fprintf(t, "%s\t%s\t%s\n", m.name, m.breaks, verdicts[i])
	}
	return t.Flush()
}

// lay writes the weakened file and the overlay that puts it in its place, and
// returns the overlay's path and the package of the file.
func (l *lab) lay(m mutant) (overlay, dir string, err error) {
	place, weakened, err := m.weaken(l.root)
	if err != nil {
		return "", "", err
	}
	file := filepath.Join(l.dir, m.name+".go")
	if err := os.WriteFile(file, weakened, 0o600); err != nil {
		return "", "", err
	}
	overlay = filepath.Join(l.dir, m.name+".json")
	return overlay, "./" + path.Dir(place), os.WriteFile(overlay, overlayOf(filepath.Join(l.root, place), file), 0o600)
}

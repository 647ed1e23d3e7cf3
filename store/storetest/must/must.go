// Package must ends a test at a step that is not under test and has to succeed, such as
// creating the user of a scenario, or before the first step on a machine that cannot run
// it. It imports nothing of this module, so the tests of every package can use it.
package must

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"
)

// T is the part of a test that ends it: of package testing and of package rapid.
type T interface {
	Helper()
	Fatal(args ...any)
}

// Do ends the test if err is not nil.
func Do(t T, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// Get returns a function that returns v, or ends the test if err is not nil:
//
//	user := must.Get(s.FindUser(ctx, id))(t)
func Get[V any](v V, err error) func(T) V {
	return func(t T) V {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
		return v
	}
}

// Have skips a test whose machine lacks what the test needs. In CI, which has it all, it
// fails the test.
func Have(t testing.TB, has bool, need string) {
	t.Helper()
	switch {
	case has:
	case InCI():
		t.Fatalf("needed in CI: %s", need)
	default:
		t.Skipf("skipped: %s", need)
	}
}

// SkipInShort skips a test that takes seconds of processor time under -short, but never
// in CI.
func SkipInShort(t testing.TB) {
	t.Helper()
	if Short() {
		t.Skip("skipped under -short")
	}
}

// Short reports whether [SkipInShort] skips.
func Short() bool { return testing.Short() && !InCI() }

// OnlyLong skips, in CI too, a test that takes minutes or needs the machine to itself.
// bench/long runs it.
func OnlyLong(t testing.TB, why string) {
	t.Helper()
	if !Long() {
		t.Skipf("%s; set %s=1", why, EnvLong)
	}
}

// OnlyInCI skips a test that takes too long at home, unless the long form is enabled.
func OnlyInCI(t testing.TB, why string) {
	t.Helper()
	if !InCI() {
		OnlyLong(t, why)
	}
}

// SkipUnderRace skips a test of one goroutine, in which there is no race to find, under
// the race detector, which makes it ten times slower. CI runs it without the detector.
func SkipUnderRace(t testing.TB) {
	t.Helper()
	if raced {
		t.Skip("one goroutine, and slow under the race detector")
	}
}

// ManyAtATime lets factor times as many tests run in parallel as there are processors,
// unless -parallel says otherwise. TestMain calls it in packages whose tests mostly wait: for
// other processes (2), or for a second to end (4).
func ManyAtATime(factor int) {
	if err := flag.Set("test.parallel", strconv.Itoa(factor*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
}

// InCI reports whether a tool that is missing fails a test.
func InCI() bool { return os.Getenv("CI") != "" }

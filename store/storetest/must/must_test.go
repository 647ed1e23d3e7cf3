package must_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"tollhouse/store/storetest/must"
)

// ended is a test that records how it ends.
type ended struct{ with []any }

func (e *ended) Helper()           {}
func (e *ended) Fatal(with ...any) { e.with = with }

func TestMust(t *testing.T) {
	t.Parallel()
	t.Run("returns_the_value_of_a_call_that_succeeds", func(t *testing.T) {
		t.Parallel()
		e := &ended{}
		if n := must.Get(strconv.Atoi("7"))(e); n != 7 || e.with != nil {
			t.Errorf("Get() = %d and the test ended with %v, want 7 and no end", n, e.with)
		}
	})
	t.Run("ends_the_test_with_the_error", func(t *testing.T) {
		t.Parallel()
		e, err := &ended{}, errors.New("broken")
		must.Get(0, err)(e)
		if len(e.with) != 1 || e.with[0] != err {
			t.Errorf("the test ended with %v, want %v", e.with, err)
		}
	})
}

// skipped is a test that records whether it is skipped or fails.
type skipped struct {
	testing.TB
	how string
}

func (s *skipped) Helper()                       {}
func (s *skipped) Fatalf(how string, why ...any) { s.how = "failed" }
func (s *skipped) Skipf(how string, why ...any)  { s.how = "skipped" }

func TestHave(t *testing.T) {
	for _, c := range []struct {
		name, ci string
		has      bool
		want     string
	}{
		{"goes_on_where_nothing_is_missing", "1", true, ""},
		{"skips_at_home", "", false, "skipped"},
		{"fails_in_CI", "1", false, "failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("CI", c.ci)
			s := &skipped{}
			must.Have(s, c.has, "a tool")
			if s.how != c.want {
				t.Errorf("Have(%t) with CI=%q: %q, want %q", c.has, c.ci, s.how, c.want)
			}
		})
	}
}

func TestFreeAddressIsGivenOnce(t *testing.T) {
	t.Parallel()
	given := map[string]bool{}
	for range 100 {
		address := must.FreeAddress(t)
		if given[address] {
			t.Errorf("%s is given twice", address)
		}
		given[address] = true
		must.Do(t, must.Get(net.Listen("tcp", address))(t).Close())
	}
}

func TestListenWaitsForWhoLeaves(t *testing.T) {
	t.Parallel()
	before := must.Listen(t, must.FreeAddress(t))
	time.AfterFunc(50*time.Millisecond, func() { _ = before.Close() })
	must.Do(t, must.Listen(t, before.Addr().String()).Close())
}

// TestUnlikeFiles: content, mode and time each make a difference, and so does a file that
// comes or goes.
func TestUnlikeFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) { must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)) }
	for _, name := range []string{"changed", "chmod", "gone", "same", "touched"} {
		write(name, "a")
	}
	long := time.Unix(1_773_066_600, 0)
	for _, name := range []string{"changed", "same"} {
		must.Do(t, os.Chtimes(filepath.Join(dir, name), long, long))
	}
	before := must.Files(t, dir)
	write("changed", "b")
	must.Do(t, os.Chtimes(filepath.Join(dir, "changed"), long, long))
	must.Do(t, os.Chmod(filepath.Join(dir, "chmod"), 0o644))
	must.Do(t, os.Remove(filepath.Join(dir, "gone")))
	must.Do(t, os.Chtimes(filepath.Join(dir, "touched"), long, long))
	write("new", "a")
	got := must.Unlike(before, must.Files(t, dir))
	got = slices.DeleteFunc(got, func(path string) bool { return path == "" }) // the directory's own time
	if want := []string{"/changed", "/chmod", "/gone", "/new", "/touched"}; !slices.Equal(got, want) {
		t.Errorf("Unlike = %q, want %q", got, want)
	}
}

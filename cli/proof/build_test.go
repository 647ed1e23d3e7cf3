package proof

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"tollhouse/store/storetest/must"
)

// The build that print dockerfile describes, and that a release is made by.
var releaseFlags = []string{"-trimpath", "-ldflags", "-s -w -buildid="}

const (
	// releaseSizeMax bounds the stripped binary, in bytes, with a second factor, alarms and encryption in it.
	releaseSizeMax = 28 << 20
	// containerUser owns nothing but its data: the user of print dockerfile.
	containerUser = 65532
)

// TestRelease builds the program as it is given away. That compiles all that it
// is made of twice, so it is done in CI, and at home when it is asked for.
//
// Promise (Monitoring): the unit verifies and is closed in; the image is FROM scratch,
// unprivileged; two directories build one binary
func TestRelease(t *testing.T) {
	t.Parallel()
	must.OnlyInCI(t, "compiles everything anew")
	root := must.Get(filepath.Abs(filepath.Join("..", "..")))(t)
	binary := releaseBuild(t, root, "")
	t.Run("print_dockerfile_builds_it_so", func(t *testing.T) {
		t.Parallel()
		flags := strings.Replace(strings.Join(releaseFlags, " "), "-s -w -buildid=", `"-s -w -buildid=`, 1)
		if text := command(t, "", "print", "dockerfile"); !bytes.Contains(text, []byte("CGO_ENABLED=0 go build "+flags)) {
			t.Errorf("the Dockerfile does not build with %s:\n%s", flags, text)
		}
	})
	t.Run("stripped_binary_is_small", func(t *testing.T) {
		t.Parallel()
		info := must.Get(os.Stat(binary))(t)
		t.Logf("stripped binary: %d bytes, %.1f MiB", info.Size(), float64(info.Size())/(1<<20))
		if info.Size() > releaseSizeMax {
			t.Errorf("the stripped binary has %d bytes, want at most %d", info.Size(), releaseSizeMax)
		}
	})
	clone := filepath.Join(t.TempDir(), "clone")
	runGit(t, root, "clone", "--quiet", root, clone)
	cloned := releaseBuild(t, clone, "")
	t.Run("two_clones_and_caches_give_one_binary", func(t *testing.T) {
		t.Parallel()
		elsewhere := filepath.Join(t.TempDir(), "a", "tollhouse-elsewhere")
		runGit(t, root, "clone", "--quiet", clone, elsewhere) // the same commit, if another follows meanwhile
		again := releaseBuild(t, elsewhere, t.TempDir())
		first, second := sumOf(t, cloned), sumOf(t, again)
		t.Logf("SHA-256 %s", first)
		differing := 0
		if first != second {
			differing = 1
			t.Errorf("built in %s it has SHA-256 %s, in %s %s", clone, first, elsewhere, second)
		}
		must.Figure(t, "differing_builds", differing)
	})
	t.Run("version_tells_commit_and_date_of_a_clone", func(t *testing.T) {
		t.Parallel()
		var told struct{ Version, Revision, Date string }
		out, err := exec.Command(cloned, "version", "--json").Output()
		must.Do(t, errors.Join(err, json.Unmarshal(out, &told)))
		commit, seconds, _ := strings.Cut(runGit(t, clone, "log", "-1", "--format=%H %ct"), " ")
		at, err := time.Parse(time.RFC3339, told.Date)
		if told.Version == "" || told.Version == "devel" {
			t.Errorf("the version of a clone is %q, want its tag or revision", told.Version)
		}
		if err != nil || told.Revision != commit || fmt.Sprint(at.Unix()) != seconds {
			t.Errorf("version --json is %s, %v; want commit %s of second %s", out, err, commit, seconds)
		}
	})
	t.Run("sources_without_a_repository_build_too", func(t *testing.T) {
		t.Parallel()
		sources := filepath.Join(t.TempDir(), "sources")
		copySources(t, root, sources)
		releaseBuild(t, sources, "")
	})
	t.Run("serves_from_an_empty_root_as_a_user_who_owns_nothing", func(t *testing.T) {
		t.Parallel()
		serveFromScratch(t, binary)
	})
}

// releaseBuild builds the sources of dir, with a cache of its own if one is
// named, and returns the path of the binary.
func releaseBuild(t *testing.T, dir, cache string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "tollhouse")
	cmd := exec.Command("go", append(append([]string{"build"}, releaseFlags...), "-o", binary, ".")...)
	cmd.Dir = dir
	cmd.Env = append(environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=auto") // the default, whatever this machine has set
	if cache != "" {
		cmd.Env = append(cmd.Env, "GOCACHE="+cache)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build in %s: %v\n%s", dir, err, out)
	}
	return binary
}

// runGit returns what git says in dir.
func runGit(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command(needTool(t, "git"), args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %v: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}

// copySources copies what the program is built from: no tests, no history, and
// no other modules.
func copySources(t *testing.T, from, to string) {
	t.Helper()
	skipped := regexp.MustCompile(`^(bench|docs|(.*/)?(\..*|testdata))$`)
	must.Do(t, filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && skipped.MatchString(name):
			return fs.SkipDir
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o700)
		case strings.HasSuffix(name, "_test.go") || !entry.Type().IsRegular():
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), content, 0o600)
	}))
}

func sumOf(t *testing.T, path string) string {
	t.Helper()
	f := must.Get(os.Open(path))(t)
	defer f.Close()
	h := sha256.New()
	must.Get(io.Copy(h, f))(t)
	return fmt.Sprintf("%x", h.Sum(nil))
}

// install copies a binary to where it is run. A process of its own does it: a file
// that this one writes is open for writing in whatever it starts at that moment,
// and can then not be run.
func install(t *testing.T, binary, path string) {
	t.Helper()
	if out, err := exec.Command("install", "-m", "755", binary, path).CombinedOutput(); err != nil {
		t.Fatalf("install: %v, %s", err, out)
	}
}

// serveFromScratch runs the binary as its image does: there is nothing in the
// root but the binary and the data, the user may write to the data alone, and
// health is asked as HEALTHCHECK asks it.
func serveFromScratch(t *testing.T, binary string) {
	must.Have(t, os.Geteuid() == 0, "only root can change the root directory")
	root := t.TempDir()
	install(t, binary, filepath.Join(root, "tollhouse"))
	data := filepath.Join(root, "data")
	err := errors.Join(os.Mkdir(data, 0o700), os.Chown(data, containerUser, containerUser), os.Chmod(root, 0o755))
	must.Do(t, err)
	inside := func(args ...string) *exec.Cmd {
		cmd := exec.Command("/tollhouse", args...)
		cmd.Dir = "/"
		cmd.Env = []string{"TOLLHOUSE_DATA=/data", "TOLLHOUSE_LISTEN=127.0.0.1:0"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: containerUser, Gid: containerUser}}
		return cmd
	}
	serve := inside("serve")
	log := &transcript{}
	serve.Stderr = log
	out := must.Get(serve.StdoutPipe())(t)
	must.Do(t, serve.Start())
	var ready readyLine
	line, _ := bufio.NewReader(out).ReadBytes('\n') // an end without a line is no JSON
	if err := json.Unmarshal(line, &ready); err != nil || ready.Ready != 1 {
		t.Errorf("ready line %q: %v; stderr:\n%s", line, err, log.tail())
	}
	for _, args := range [][]string{{"health"}, {"status"}, {"account", "create", "larkspur"}} {
		if out, err := inside(args...).CombinedOutput(); err != nil {
			t.Errorf("tollhouse %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	if err := errors.Join(serve.Process.Signal(syscall.SIGTERM), serve.Wait()); err != nil {
		t.Errorf("stop: %v; stderr:\n%s", err, log.tail())
	}
	if entries, err := os.ReadDir(root); err != nil || len(entries) != 2 {
		t.Errorf("the root holds %v, %v; want the binary and the data only", entries, err)
	}
}

package proof

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tollhouse/store/storetest/must"
)

// npmDir has what the tests take from npm: package.json and its lock, which
// pins every package by its hash, and the drivers.
var npmDir = filepath.Join("testdata", "npm")

// npmWait is for one installation: seconds with a network, and the retries of
// one that is not there.
const npmWait = 5 * time.Minute

// modules is the node_modules that all tests share.
var modules struct {
	once   sync.Once
	path   string
	absent string // why there is none, when that is the surroundings' doing
	err    error  // why there is none, when it is ours
}

// nodeModules returns the directory of the packages that the lock names, and
// installs them first where no run has done so.
func nodeModules(t testing.TB) string {
	t.Helper()
	needTool(t, "node")
	npm := needTool(t, "npm")
	modules.once.Do(func() { modules.path, modules.absent, modules.err = installModules(npm) })
	if modules.err != nil {
		t.Fatal(modules.err)
	}
	must.Have(t, modules.absent == "", modules.absent)
	return modules.path
}

// installModules puts the packages into the user's cache, under the hash of the
// lock, so that no other run has to fetch them again.
func installModules(npm string) (path, absent string, err error) {
	lock, err := os.ReadFile(filepath.Join(npmDir, "package-lock.json"))
	if err != nil {
		return "", "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	home := filepath.Join(cache, "tollhouse-proof", fmt.Sprintf("npm-%.8x", sha256.Sum256(lock)))
	path = filepath.Join(home, "node_modules")
	if _, err := os.Stat(path); err == nil {
		return path, "", nil
	}
	if err := os.MkdirAll(filepath.Dir(home), 0o755); err != nil {
		return "", "", err
	}
	fresh, err := os.MkdirTemp(filepath.Dir(home), "npm-new-")
	if err != nil {
		return "", "", err
	}
	defer os.RemoveAll(fresh)
	if absent, err := npmInstall(npm, fresh); absent != "" || err != nil {
		return "", absent, err
	}
	// Whole or not at all; and another run may have been faster.
	if err := os.Rename(fresh, home); err != nil {
		if _, gone := os.Stat(path); gone != nil {
			return "", "", err
		}
	}
	return path, "", nil
}

// nodeProgram is a program of npmDir, beside the packages that it wants: node
// looks for a module in the program's own directory.
func nodeProgram(t testing.TB, name string) *exec.Cmd {
	t.Helper()
	return nodeIn(t, nodeDir(t), name)
}

// nodeDir returns a directory with what npmDir has and the packages.
func nodeDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	must.Do(t, os.CopyFS(dir, os.DirFS(npmDir)))
	must.Do(t, os.Symlink(nodeModules(t), filepath.Join(dir, "node_modules")))
	return dir
}

func nodeIn(t testing.TB, dir, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), needTool(t, "node"), append([]string{name}, args...)...)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, environ(), os.Stderr
	return cmd
}

// npmInstall installs what the lock names, checked by the hashes there, and runs nothing
// of it. npm ci would refuse a lock without addresses of packages for other systems.
func npmInstall(npm, dir string) (absent string, err error) {
	for _, name := range []string{"package.json", "package-lock.json"} {
		text, err := os.ReadFile(filepath.Join(npmDir, name))
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return "", err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), npmWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--prefer-offline",
		"--fetch-retries=2", "--fetch-retry-mintimeout=2000")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err == nil {
		return "", nil
	}
	// A lock that does not fit its packages is no matter of the network.
	for _, ours := range []string{"EINTEGRITY", "EUSAGE", "ETARGET", "E404"} {
		if strings.Contains(string(out), ours) {
			return "", fmt.Errorf("npm install: %w\n%s", err, out)
		}
	}
	return fmt.Sprintf("npm cannot install the packages (%v): %s", err, firstLines(string(out))), nil
}

// firstLines keeps a reason readable.
func firstLines(text string) string {
	const linesMax = 5
	lines := strings.SplitN(text, "\n", linesMax+1)
	return strings.Join(lines[:min(len(lines), linesMax)], "\n")
}

// TestNPM holds the list of packages to what makes it repeatable.
func TestNPM(t *testing.T) {
	t.Parallel()
	t.Run("the_lock_pins_every_package_and_names_no_place_to_get_it", func(t *testing.T) {
		var lock struct {
			Packages map[string]struct {
				Version, Integrity, Resolved string
			}
		}
		text := must.Get(os.ReadFile(filepath.Join(npmDir, "package-lock.json")))(t)
		decode(t, text, &lock)
		if len(lock.Packages) < 2 {
			t.Errorf("the lock names %d packages", len(lock.Packages))
		}
		for name, p := range lock.Packages {
			if name != "" && (p.Version == "" || !strings.HasPrefix(p.Integrity, "sha512-") || p.Resolved != "") {
				t.Errorf("%s is %+v, want a version and a hash, and no address: it would hold for one mirror alone", name, p)
			}
		}
	})
	t.Run("package_json_pins_exact_versions", func(t *testing.T) {
		var manifest struct{ Dependencies map[string]string }
		text := must.Get(os.ReadFile(filepath.Join(npmDir, "package.json")))(t)
		decode(t, text, &manifest)
		for name, version := range manifest.Dependencies {
			if strings.Trim(version, "0123456789.") != "" {
				t.Errorf("%s is %q, want one version", name, version)
			}
		}
	})
	t.Run("nothing_installed_stands_in_the_tree", func(t *testing.T) {
		if _, err := os.Stat(filepath.Join(npmDir, "node_modules")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s/node_modules is there (%v)", npmDir, err)
		}
	})
}

package proof

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"tollhouse/store/kv/pgkv/pgtest"
	"tollhouse/store/storetest/must"
)

// Test32BitBuildKeepsNoDataDirectory runs a build for 32-bit machines, where Badger loses
// what it has acknowledged. It must not even read a store: to open one changes it.
//
// Promise (One data directory, one owner): moved or replaced while in use, it ends its user (74)
// and stays as it is; 32-bit builds refuse it
func Test32BitBuildKeepsNoDataDirectory(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	must.Have(t, runtime.GOARCH == "amd64", "amd64, which runs 32-bit builds too")
	binary := build32(t)
	refused := func(t *testing.T, args ...string) {
		t.Helper()
		cmd := exec.Command(binary, args...)
		cmd.Env, cmd.Dir = environ(), t.TempDir()
		out, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != 78 || !strings.Contains(string(out), "32-bit") {
			t.Errorf("tollhouse %s: exit %d (%v), want 78 and the reason:\n%s", strings.Join(args, " "), code, err, out)
		}
	}
	t.Run("a_store_of_a_64_bit_build_is_refused_and_left_as_it_is", func(t *testing.T) {
		t.Parallel()
		dir, file := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "a.backup")
		command(t, "", "account", "create", "acct_first", "--data", dir)
		command(t, "", "backup", file, "--data", dir)
		before := must.Files(t, dir)
		for _, args := range [][]string{
			{"serve", "--listen", "127.0.0.1:0"}, {"client", "list"}, {"account", "create", "acct_more"}, {"user", "list"}, {"event", "list", "--account", "acct_first"},
			{"event", "purge", "--account", "acct_first", "--yes"}, {"audit"}, {"stats"}, {"webhook", "list"}, {"token", "list"}, {"session", "list"},
			{"backup", filepath.Join(t.TempDir(), "b.backup")}, {"restore", file, "--yes"}, {"move", "postgres://nobody@127.0.0.1:1/none"},
		} {
			refused(t, append(args, "--data", dir)...)
		}
		out, _ := exec.Command(binary, "doctor", "--data", dir).Output()
		if !strings.Contains(string(out), "problem  store      this is a 32-bit build") {
			t.Errorf("doctor does not say that the store cannot be used:\n%s", out)
		}
		if changed := must.Unlike(before, must.Files(t, dir)); len(changed) > 0 {
			t.Errorf("the data directory has changed %v", changed)
		}
	})
	t.Run("no_data_directory_is_made", func(t *testing.T) {
		t.Parallel()
		dir, file := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "a.backup")
		other := filepath.Join(t.TempDir(), "other")
		command(t, "", "account", "create", "acct_first", "--data", other)
		command(t, "", "backup", file, "--data", other)
		for _, args := range [][]string{{"serve", "--listen", "127.0.0.1:0"}, {"account", "create", "acct_first"}, {"restore", file}} {
			refused(t, append(args, "--data", dir)...)
		}
		if _, err := os.Lstat(dir); err == nil {
			t.Errorf("%s was made", dir)
		}
	})
	t.Run("dev_works", func(t *testing.T) {
		t.Parallel()
		s := startCommand(t, exec.Command(binary, "dev"), "dev")
		answer := must.Get(http.Get(s.base + "/readyz"))(t)
		if answer.Body.Close(); answer.StatusCode != http.StatusOK {
			t.Errorf("dev answers /readyz with %d, want 200", answer.StatusCode)
		}
	})
	t.Run("a_database_keeps_what_it_acknowledged", func(t *testing.T) {
		t.Parallel()
		dsn, key := pgtest.Start(t), filepath.Join(t.TempDir(), "key")
		must.Do(t, os.WriteFile(key, []byte(strings.Repeat("1f", 32)+"\n"), 0o600))
		s := startCommand(t, exec.Command(binary, "serve", "--store", dsn, "--key-file", key, "--listen", "127.0.0.1:0"), "serve")
		create := exec.Command(binary, "account", "create", "acct_first", "--store", dsn)
		create.Env = environ()
		if out, err := create.CombinedOutput(); err != nil {
			t.Fatalf("account create: %v\n%s", err, out)
		}
		s.kill()
		if out := command(t, "", "account", "list", "--store", dsn); !strings.Contains(string(out), "acct_first") {
			t.Errorf("a 64-bit build lists %q, want acct_first", out)
		}
	})
}

// build32 builds the program for 32-bit machines.
func build32(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "tollhouse32")
	cmd := exec.Command("go", "build", "-o", binary, ".")
	cmd.Dir, cmd.Env = filepath.Join("..", ".."), append(os.Environ(), "GOARCH=386", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return binary
}

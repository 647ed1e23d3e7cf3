package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"tollhouse/cli/term"
	"tollhouse/store/storetest/must"
)

// printedFiles are the files that print writes, by their names.
var printedFiles = []string{"systemd", "dockerfile", "compose", "helper go", "helper pytest", "helper vitest", "helper compose",
	"migration fosoauthserverbundle", "migration doorkeeper", "migration django-oauth-toolkit", "migration hydra", "migration keycloak"}

// Promise (Commands and settings): config shows each value of the running server, or of the next,
// and its origin, secrets masked; docs/settings.md agrees; the binary prints its unit, Dockerfile
// and more
func TestPrinted(t *testing.T) {
	t.Parallel()
	for _, name := range printedFiles {
		t.Run(name+"_is_printed_as_in_the_sources", func(t *testing.T) {
			t.Parallel()
			stdout, stderr, code := run(t, append([]string{"print"}, strings.Fields(name)...)...)
			want := withImage(printed(t, name))
			if name == "dockerfile" {
				want = dockerfileOf(version())
			}
			if stdout != want || stderr != "" || code != term.ExitOK {
				t.Errorf("exit code %d, standard error %q, and on standard output:\n%s\nwant:\n%s", code, stderr, stdout, want)
			}
		})
		t.Run(name+"_names_known_commands_and_settings", func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(name, " ") { // the others are prose and run for real
				checkCommands(t, printed(t, name))
			}
			checkVariables(t, printed(t, name))
		})
	}
	t.Run("an_unknown_helper_is_refused_with_the_nearest_name", func(t *testing.T) {
		t.Parallel()
		stdout, stderr, code := run(t, "print", "helper", "vittest")
		if stdout != "" || code != term.ExitUsage || !strings.Contains(stderr, "did you mean vitest?") {
			t.Errorf("exit code %d, standard output %q, standard error %q", code, stdout, stderr)
		}
	})
	t.Run("systemd_starts_the_binary_that_is_named", func(t *testing.T) {
		t.Parallel()
		stdout, _, _ := run(t, "print", "systemd", "--binary", "/opt/toll/tollhouse-2.1")
		if !strings.Contains(stdout, "\nExecStart=/opt/toll/tollhouse-2.1 serve --data /var/lib/tollhouse\n") {
			t.Errorf("the unit does not start it:\n%s", stdout)
		}
	})
	t.Run("systemd_refuses_a_path_that_means_something_else_there", func(t *testing.T) {
		t.Parallel()
		for _, path := range []string{"", "tollhouse", "/opt/my tollhouse", "/opt/%h", "/opt/$HOME/t", "/opt/t\nUser=root"} {
			if stdout, _, code := run(t, "print", "systemd", "--binary", path); code != term.ExitUsage || stdout != "" {
				t.Errorf("--binary %q: exit code %d, want %d", path, code, term.ExitUsage)
			}
		}
	})
	t.Run("dockerfile_passes_the_version_on", func(t *testing.T) {
		t.Parallel()
		if want := `go build -trimpath -ldflags "-s -w -buildid= -X tollhouse/cli.built=1.2.3" -o `; !strings.Contains(dockerfileOf("1.2.3"), want) {
			t.Errorf("the Dockerfile does not have %s:\n%s", want, dockerfileOf("1.2.3"))
		}
		if text := dockerfileOf(develVersion); text != printed(t, "dockerfile") {
			t.Errorf("a binary without a version prints one:\n%s", text)
		}
	})
	t.Run("the_image_has_the_number_of_the_binary", func(t *testing.T) {
		t.Parallel()
		for version, want := range map[string]string{
			"1.2.3": "tollhouse:1.2.3", "1.0.0-rc.1": "tollhouse:1.0.0-rc.1", develVersion: imageDefault,
			"0.0.0-20260101000000-0123456789ab+dirty": "tollhouse:0.0.0-20260101000000-0123456789ab-dirty",
		} {
			if got := imageOf(version); got != want {
				t.Errorf("imageOf(%q) = %q, want %q", version, got, want)
			}
		}
		for _, name := range []string{"compose", "helper compose", "dockerfile"} {
			stdout, _, _ := run(t, append([]string{"print"}, strings.Fields(name)...)...)
			if !strings.Contains(stdout, imageOf(version())) || !strings.Contains(printed(t, name), imageDefault) {
				t.Errorf("print %s does not name the image %s", name, imageOf(version()))
			}
		}
	})
	t.Run("dockerfile_builds_with_the_toolchain_of_the_module", func(t *testing.T) {
		t.Parallel()
		module := must.Get(os.ReadFile(filepath.Join("..", "go.mod")))(t)
		toolchain := regexp.MustCompile(`(?m)^toolchain go(.*)$`).FindSubmatch(module)
		if toolchain == nil || !strings.Contains(printed(t, "dockerfile"), "\nFROM golang:"+string(toolchain[1])+" AS build\n") {
			t.Errorf("go.mod names toolchain %q, the Dockerfile another", toolchain)
		}
	})
}

// TestTheUnitStartsAServerAgainAfterWhatTimeCures: the exit codes that end it are those of
// faults that only a person can correct, and it waits for the clock.
//
// Promise (Commands and settings): each error has the exit code in the help; after what time can
// cure the unit starts again
func TestTheUnitStartsAServerAgainAfterWhatTimeCures(t *testing.T) {
	t.Parallel()
	unit, final := printed(t, "systemd"), fmt.Sprint("RestartPreventExitStatus=", term.ExitUsage, " ", term.ExitNotAllowed, " ", term.ExitBadData, " ", term.ExitCannotCreate, " ", term.ExitConfig)
	for _, line := range []string{"Restart=on-failure", final, "After=network-online.target time-sync.target", "ExecReload=kill -HUP $MAINPID"} {
		if !strings.Contains(unit, "\n"+line+"\n") {
			t.Errorf("the unit lacks the line %s", line)
		}
	}
}

func printed(t *testing.T, name string) string {
	t.Helper()
	file := strings.ReplaceAll(strings.Replace(name, "migration ", "migration/", 1), " ", "-")
	text := must.Get(os.ReadFile(filepath.Join("printed", filepath.FromSlash(file))))(t)
	return string(text)
}

// Promise (Platform §14): print migration NAME prints a script of at most 60 lines, whose first
// comment has the command that runs it, and whose table of scopes is empty
func TestPrintedMigrations(t *testing.T) {
	t.Parallel()
	emptyTable := regexp.MustCompile(`(?mi)^ *(const )?scopes = (\{\}|\[\])`)
	for _, name := range migrationNames {
		lines := strings.Split(strings.TrimSuffix(printed(t, "migration "+name), "\n"), "\n")
		if len(lines) > 60 {
			t.Errorf("%s has %d lines, want 60 at most", name, len(lines))
		}
		if !regexp.MustCompile(`^(#|//) run: \S`).MatchString(lines[1]) {
			t.Errorf("%s has no command in its first comment: %q", name, lines[1])
		}
		if top := strings.Join(lines[:12], "\n"); !emptyTable.MatchString(top) {
			t.Errorf("%s has no empty table of scopes at its top:\n%s", name, top)
		}
	}
}

// commandForm finds "tollhouse" with the words behind it, where lists in JSON
// were made words before.
var commandForm = regexp.MustCompile(`tollhouse((?: [a-z]+)(?: [A-Za-z/_-]+)*)`)

// checkCommands takes each command that a text tells to run through the tree of
// commands.
func checkCommands(t *testing.T, text string) {
	t.Helper()
	text = strings.NewReplacer("ENTRYPOINT [\"/tollhouse\"]\nCMD", "/tollhouse", "command:", "/tollhouse", `["`, "", `", "`, " ", `"]`, "").Replace(text)
	found := commandForm.FindAllStringSubmatch(text, -1)
	if len(found) < 2 {
		t.Errorf("found no more than the commands %q", found)
	}
	for _, words := range found {
		c, rest, err := newRoot().Find(strings.Fields(words[1]))
		if err != nil || !c.HasParent() {
			t.Errorf("unknown command %q", words[0])
			continue
		}
		if err := c.ParseFlags(rest); err != nil {
			t.Errorf("%q: %v", words[0], err)
		}
	}
}

// checkVariables finds a flag for each variable that a text sets.
func checkVariables(t *testing.T, text string) {
	t.Helper()
	known := map[string]bool{}
	everyFlag(newRoot(), func(f *pflag.Flag) { known[variableOf(f)] = true })
	for _, name := range helperVariables {
		known[variablePrefix+name] = true
	}
	for _, name := range regexp.MustCompile(variablePrefix+`[A-Z_]+`).FindAllString(text, -1) {
		if !known[name] {
			t.Errorf("there is no setting for %s", name)
		}
	}
}

// exposureMax is ten times the figure up to which systemd calls a service
// reasonably closed for us; one that is not closed in scores 96.
const exposureMax = "15"

// TestSystemdUnit asks systemd itself about the unit.
//
// Promise (Monitoring): the unit verifies and is closed in; the image is FROM scratch,
// unprivileged; two directories build one binary
func TestSystemdUnit(t *testing.T) {
	t.Parallel()
	t.Run("directory", func(t *testing.T) { checkUnit(t) })
	t.Run("database", func(t *testing.T) { checkUnit(t, onDatabase...) })
}

func checkUnit(t *testing.T, flags ...string) {
	t.Parallel()
	_, err := exec.LookPath("systemd-analyze")
	must.Have(t, err == nil, "systemd-analyze, of Debian's package systemd")
	binary := must.Get(exec.LookPath("tollhouse"))(t)
	text, _, _ := run(t, append([]string{"print", "systemd", "--binary", binary}, flags...)...)
	unit := filepath.Join(t.TempDir(), "tollhouse.service")
	must.Do(t, os.WriteFile(unit, []byte(text), 0o600))
	t.Run("verifies_without_a_word", func(t *testing.T) {
		if out, err := exec.Command("systemd-analyze", "verify", unit).CombinedOutput(); err != nil || len(out) != 0 {
			t.Errorf("systemd-analyze verify: %v\n%s", err, out)
		}
	})
	t.Run("is_closed_in", func(t *testing.T) {
		out, err := exec.Command("systemd-analyze", "security", "--no-pager", "--offline=true", "--threshold="+exposureMax, unit).CombinedOutput()
		if err != nil {
			t.Errorf("systemd-analyze security: %v\n%s", err, out)
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		t.Log(lines[len(lines)-1])
	})
}

// onDatabase asks for the installation files of a server on a database.
var onDatabase = []string{"--store-file", "/etc/tollhouse/store", "--key-file", "/etc/tollhouse/server.key"}

// Promise (Postgres §3, §9): print systemd, dockerfile and compose have forms for a database, asked
// for by --store-file and --key-file, which name no data directory.
func TestPrintedForADatabase(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		"systemd":    {"\nExecStart=/usr/local/bin/tollhouse serve --store-file /etc/tollhouse/store --store-schema second --insecure-store --key-file /etc/tollhouse/server.key\n", "WatchdogSec=30s", "After=network-online.target time-sync.target postgresql.service\n", "#   chgrp tollhouse /etc/tollhouse/store /etc/tollhouse/server.key"},
		"dockerfile": {"\nENV TOLLHOUSE_STORE_FILE=/etc/tollhouse/store TOLLHOUSE_KEY_FILE=/etc/tollhouse/server.key TOLLHOUSE_STORE_SCHEMA=second TOLLHOUSE_INSECURE_STORE=true TOLLHOUSE_LISTEN=0.0.0.0:8080\n", `"--url", "http://127.0.0.1:8080"`},
		"compose":    {"TOLLHOUSE_STORE_SCHEMA: \"second\"", "TOLLHOUSE_INSECURE_STORE: \"true\"", "file: /etc/tollhouse/server.key"},
	} {
		stdout, stderr, code := run(t, append([]string{"print", name, "--store-schema", "second", "--insecure-store"}, onDatabase...)...)
		if code != term.ExitOK || stderr != "" {
			t.Fatalf("print %s = exit %d: %s", name, code, stderr)
		}
		for _, line := range want {
			if !strings.Contains(stdout, line) {
				t.Errorf("print %s lacks %q:\n%s", name, line, stdout)
			}
		}
		for _, directory := range []string{"/var/lib", "StateDirectory", "--data", "/data", "TOLLHOUSE_DATA=", "--memory", "backups"} {
			if strings.Contains(stdout, directory) {
				t.Errorf("print %s has %s:\n%s", name, directory, stdout)
			}
		}
		checkCommands(t, stdout)
		checkVariables(t, stdout)
		for _, wrong := range [][]string{{"--store-file", "/etc/tollhouse/store"}, {"--store", "postgres://db/toll", "--key-file", "/k"}, {"--store-file", "/etc/my store", "--key-file", "/k"}, {"--store-file", "/s", "--key-file", "/k", "--store-schema", "x y"}} {
			if stdout, _, code := run(t, append([]string{"print", name}, wrong...)...); code != term.ExitUsage || stdout != "" {
				t.Errorf("print %s %q: exit code %d, want %d", name, wrong, code, term.ExitUsage)
			}
		}
	}
}

// TestComposeForADatabase: the container has the settings of a server on a database, and both
// files where they say.
func TestComposeForADatabase(t *testing.T) {
	t.Parallel()
	stdout, _, _ := run(t, "print", "compose", "--store-file", "store", "--key-file", "server.key")
	var file struct {
		Services map[string]struct {
			Command     []string
			Environment map[string]string
			Secrets     []string
			Volumes     []string
			Healthcheck struct{ Test []string }
		}
		Secrets map[string]struct{ File string }
		Volumes map[string]any
	}
	d := yaml.NewDecoder(strings.NewReader(stdout))
	must.Do(t, d.Decode(&file))
	s := file.Services["tollhouse"]
	if !slices.Equal(s.Secrets, []string{"store", "key"}) || len(s.Volumes)+len(file.Volumes) != 0 || file.Secrets["store"].File != "./store" || file.Secrets["key"].File != "./server.key" {
		t.Errorf("the files are given as %q of %+v, and the volumes %q:\n%s", s.Secrets, file.Secrets, s.Volumes, stdout)
	}
	if s.Environment["TOLLHOUSE_STORE_FILE"] != "/run/secrets/store" || s.Environment["TOLLHOUSE_KEY_FILE"] != "/run/secrets/key" {
		t.Errorf("the settings are %q", s.Environment)
	}
	if value, has := s.Environment["TOLLHOUSE_DATA"]; value != "" || !has {
		t.Errorf("the data directory of the image is not taken away: %q", s.Environment)
	}
	if len(s.Healthcheck.Test) == 0 || !slices.Contains(s.Healthcheck.Test, "--url") {
		t.Errorf("the health check is %q, and there is no admin socket", s.Healthcheck.Test)
	}
}

package cli

import (
	"context"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"tollhouse/cli/server/certtest"
	"tollhouse/cli/term"
	"tollhouse/store/secret"
	"tollhouse/store/storetest/must"
)

// pathFlags are the names of all flags that take a path.
func pathFlags() []string {
	names := map[string]bool{}
	everyFlag((&program{}).rootCommand(), func(f *pflag.Flag) {
		if isPath(f) {
			names[f.Name] = true
		}
	})
	return slices.Sorted(maps.Keys(names))
}

func TestEveryFlagThatTakesAPathIsKnownAsOne(t *testing.T) {
	t.Parallel()
	named := regexp.MustCompile(`(^|-)(data|dir|file|cert|key|ca|logo|out|socket|binary|identity)$`)
	var byName []string
	everyFlag((&program{}).rootCommand(), func(f *pflag.Flag) {
		if named.MatchString(f.Name) && strings.HasPrefix(f.Value.Type(), "string") && !slices.Contains(byName, f.Name) {
			byName = append(byName, f.Name)
		}
	})
	slices.Sort(byName)
	if got := pathFlags(); !slices.Equal(got, byName) {
		t.Errorf("flags whose help names a file, directory or path: %q\nflags with such a name: %q", got, byName)
	}
}

// commandsWithPath give each flag that takes a path a command that has it.
var commandsWithPath = map[string][]string{
	"acme-ca": {"serve"}, "alarm-file": {"serve"}, "admin-socket": {"serve"}, "backup-dir": {"serve", "--backup-every", "1h"}, "backup-recipient-file": {"serve"}, "identity": {"backup", "verify", "FILE"}, "binary": {"print", "systemd"},
	"data": {"serve"}, "key-file": {"serve"}, "logo": {"dev"}, "out": {"user", "code", "--all-without-password"}, "password-file": {"user", "create", "alice"}, "secret-file": {"webhook", "create", "--url", "https://hooks.example/"},
	"seed-file": {"dev"}, "store-file": {"serve"}, "tls-cert": {"serve"}, "tls-key": {"serve"}, "token-file": {"token", "inspect"},
	"webhook-ca": {"serve"}, "webhook-proxy-file": {"serve"},
}

// Promise (Commands and settings): an unusable path names owner, mode, our user and the fix;
// quotes, `~`, `$` and white space around it are refused; a byte order mark is skipped
func TestAPathThatAShellWasMeantToChangeIsRefused(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	for _, flag := range pathFlags() {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			command := commandsWithPath[flag]
			must.Have(t, command != nil, "a command with --"+flag)
			for value, reason := range map[string]string{"~/x": "only a shell expands ~", `"/srv/x"`: "the quote would be part of the path", "'/srv/x'": "the quote would be part", "$HOME/x": "only a shell expands variables"} {
				dir := t.TempDir()
				stderr, code := runIn(t, dir, nil, append(slices.Clone(command), "--"+flag+"="+value)...)
				complaint{term.ExitUsage, "--" + flag + " " + value + ": " + reason, "write the whole path"}.judge(t, "flag "+value, stderr, code)
				f, _, err := (&program{}).rootCommand().Find(command)
				must.Do(t, err)
				if name := variableOf(f.Flag(flag)); name != "" {
					stderr, code = runIn(t, dir, []string{name + "=" + value}, command...)
					complaint{term.ExitConfig, name + "=" + value + ": " + reason, "write the whole path"}.judge(t, "variable "+value, stderr, code)
				}
				if made := must.Get(os.ReadDir(dir))(t); len(made) > 0 {
					t.Errorf("%s made %s", value, made[0].Name())
				}
			}
		})
	}
}

// TestAPathWithWhiteSpaceAroundItIsRefused: environment files keep a blank behind a value, and
// the CR of a file from Windows. A server on a directory of that name would look empty.
//
// Promise (Commands and settings): an unusable path names owner, mode, our user and the fix;
// quotes, `~`, `$` and white space around it are refused; a byte order mark is skipped
func TestAPathWithWhiteSpaceAroundItIsRefused(t *testing.T) {
	t.Parallel()
	for _, flag := range pathFlags() {
		command := commandsWithPath[flag]
		f, _, err := (&program{}).rootCommand().Find(command)
		must.Do(t, err)
		name := variableOf(f.Flag(flag))
		if name == "" {
			continue
		}
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			values := map[string]string{"srv ": `="srv "`, "srv\r": `="srv\`, "\tsrv": `="\`}
			if testing.Short() {
				values = map[string]string{"srv\r": `="srv\`} // the slip of a file with CRLF
			}
			for value, shown := range values {
				dir := t.TempDir()
				stderr, code := runIn(t, dir, []string{name + "=" + value}, command...)
				complaint{term.ExitConfig, name + shown, "can be given with --" + flag}.judge(t, "variable", stderr, code)
				if made := must.Get(os.ReadDir(dir))(t); len(made) > 0 {
					t.Errorf("%q made %s", value, made[0].Name())
				}
			}
		})
	}
}

// runIn runs a command in a directory to its end, in an environment with more in it.
func runIn(t *testing.T, dir string, environ []string, args ...string) (stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), runMax)
	defer cancel()
	var errs strings.Builder
	cmd := exec.CommandContext(ctx, "tollhouse", args...)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, append(os.Environ(), environ...), &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return errs.String(), cmd.ProcessState.ExitCode()
}

func TestAVariableBehindAByteOrderMarkIsRefused(t *testing.T) {
	t.Parallel()
	stderr, code := runWith(t, []string{"\ufeffTOLLHOUSE_DATA=" + t.TempDir()}, "user", "list")
	complaint{term.ExitConfig, "the name of the variable TOLLHOUSE_DATA begins with a byte order mark", "save the environment file"}.judge(t, "variable", stderr, code)
}

// inUTF16 is ASCII text as editors on Windows save it.
func inUTF16(text string) string {
	var b strings.Builder
	b.WriteString("\xff\xfe")
	for i := range len(text) {
		b.WriteByte(text[i])
		b.WriteByte(0)
	}
	return b.String()
}

// TestAByteOrderMarkChangesNothing gives every text file that a flag or an operand takes
// once as it is, once with a byte order mark, and once in UTF-16.
//
// Promise (Commands and settings): an unusable path names owner, mode, our user and the fix;
// quotes, `~`, `$` and white space around it are refused; a byte order mark is skipped
func TestAByteOrderMarkChangesNothing(t *testing.T) {
	t.Parallel()
	taken := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = taken.Close() })
	busy := []string{"--listen", taken.Addr().String()} // what is read before is known to be right
	cert, key, err := certtest.Make(time.Now().Add(-time.Hour), time.Now().Add(time.Hour), "127.0.0.1")
	must.Do(t, err)
	certFile, keyFile := filepath.Join(t.TempDir(), "cert"), filepath.Join(t.TempDir(), "key")
	must.Do(t, os.WriteFile(certFile, cert, 0o600))
	must.Do(t, os.WriteFile(keyFile, key, 0o600))
	overTLS := append([]string{"serve", "--public-url", "https://127.0.0.1"}, busy...)
	for name, c := range map[string]struct {
		text string
		args []string // FILE is the file
		want int
		says string
	}{
		"password-file":      {"11character", []string{"user", "create", "alice", "--password-file", "FILE"}, term.ExitUsage, "this one has 11"},
		"token-file":         {secret.New(nil, secret.AccessToken).Reveal(), []string{"token", "inspect", "--token-file", "FILE"}, term.ExitNotFound, ""},
		"secret-file":        {secret.NewWebhookSecret(nil).Reveal(), []string{"webhook", "create", "--url", "https://hooks.example/", "--account", "acct_none", "--secret-file", "FILE"}, term.ExitNotFound, ""},
		"seed-file":          {`{"account":{"account":"a"}}`, append([]string{"dev", "--seed-file", "FILE"}, busy...), term.ExitBusy, "in use"},
		"store-file":         {"postgres://u@127.0.0.1:1/x", []string{"account", "list", "--store-file", "FILE"}, term.ExitUnreachable, "127.0.0.1:1"},
		"webhook-proxy-file": {"http://127.0.0.1:1", append([]string{"serve", "--webhook-proxy-file", "FILE"}, busy...), term.ExitBusy, "in use"},
		"webhook-ca":         {string(cert), append([]string{"serve", "--webhook-ca", "FILE"}, busy...), term.ExitBusy, "in use"},
		"acme-ca":            {string(cert), append([]string{"serve", "--public-url", "https://pay.example", "--tls", "auto"}, append(slices.Clone(busy), "--acme-ca", "FILE")...), term.ExitBusy, "in use"},
		"tls-cert":           {string(cert), append(slices.Clip(overTLS), "--tls", "files", "--tls-key", keyFile, "--tls-cert", "FILE"), term.ExitBusy, "in use"},
		"tls-key":            {string(key), append(slices.Clip(overTLS), "--tls", "files", "--tls-cert", certFile, "--tls-key", "FILE"), term.ExitBusy, "in use"},
		"key-file":           {string(secret.NewKey(nil).Text()), []string{"doctor", "--key-file", "FILE"}, term.ExitFailed, " has the fingerprint "},
		"identity":           {"AGE-SECRET-KEY-1" + strings.Repeat("q", 58), []string{"backup", "verify", "cli.go", "--identity", "FILE"}, term.ExitUsage, "line 1 of"},
		"recipients":         {"age1" + strings.Repeat("q", 58), append([]string{"serve", "--backup-recipient-file", "FILE"}, busy...), term.ExitUsage, "line 1 of"},
		"import":             {`{"type":"invoice.paid"}` + "\n", []string{"event", "import", "FILE", "--account", "acct_1", "--dry-run"}, term.ExitBadData, "resource is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name != "password-file" && name != "tls-cert" && name != "import" {
				must.SkipInShort(t)
			}
			dir := filepath.Join(t.TempDir(), "data")
			if c.args[0] != "serve" && c.args[0] != "dev" && name != "store-file" {
				_, stderr, code := run(t, "account", "create", "acct_1", "--data", dir)
				must.Have(t, code == term.ExitOK, "data: "+stderr)
			}
			file := filepath.Join(t.TempDir(), "file")
			try := func(text string) (string, int) {
				must.Do(t, os.WriteFile(file, []byte(text), 0o600))
				args := slices.Clone(c.args)
				args[slices.Index(args, "FILE")] = file
				if name != "store-file" && args[0] != "dev" {
					args = append(args, "--data", dir)
				}
				out, stderr, code := run(t, args...)
				return out + stderr, code
			}
			plain, code := try(c.text)
			if code != c.want || !strings.Contains(plain, c.says) {
				t.Errorf("as it is: exit %d, %s; want %d and %q", code, plain, c.want, c.says)
			}
			if marked, again := try(term.ByteOrderMark + c.text); again != code || stripTimes(marked) != stripTimes(plain) {
				t.Errorf("with a byte order mark: exit %d, %s\nwithout: exit %d, %s", again, marked, code, plain)
			}
			if wide, code := try(inUTF16(c.text)); code == term.ExitOK || !strings.Contains(wide, "UTF-16") {
				t.Errorf("in UTF-16: exit %d, %s; want a refusal that names UTF-16", code, wide)
			}
		})
	}
}

var changing = regexp.MustCompile(`[0-9T:.-]+Z?|time=\S+`)

func stripTimes(text string) string { return changing.ReplaceAllString(text, "") }

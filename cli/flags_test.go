package cli

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tollhouse/cli/term"
)

var (
	neededFlag = regexp.MustCompile(` --[a-z-]+ [A-Z]+`)
	operand    = regexp.MustCompile(` [A-Z_]{2,}`)
)

// eachFlag calls visit for each flag of each command that does something, with a command line
// that has its operands.
func eachFlag(visit func(c *cobra.Command, f *pflag.Flag, line []string)) {
	root := newRoot()
	eachCommand(root, func(c *cobra.Command) {
		if c.HasSubCommands() && c.Name() != "backup" || c.Name() == "help" {
			return
		}
		line := strings.Fields(strings.TrimPrefix(c.CommandPath(), "tollhouse "))
		for range operand.FindAllString(neededFlag.ReplaceAllString(strings.Split(c.Use, "[")[0], ""), -1) {
			line = append(line, "x")
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) { visit(c, f, line) })
		if c.Name() == "status" { // which stands for all with the global ones
			root.PersistentFlags().VisitAll(func(f *pflag.Flag) { visit(c, f, line) })
		}
	})
}

// refused runs a command line that starts no server, in this process.
func refused(environ []string, line ...string) (printed string, code int) {
	var out strings.Builder
	code = Main(line, environ, strings.NewReader(""), &out, &out)
	return out.String(), code
}

// An unset variable in a script must not change what a command does.
//
// Promise (Commands and settings): an empty value of a flag is refused by name, for every flag of
// every command, except where it clears a setting; an empty variable counts as unset
func TestAnEmptyValueOfAnyFlagIsRefused(t *testing.T) {
	t.Parallel()
	clears := []string{"client update --account", "client update --scope", "config set --public-url", "webhook update --description", "webhook update --type"}
	var cleared []string
	seen := 0
	eachFlag(func(c *cobra.Command, f *pflag.Flag, line []string) {
		name := strings.TrimPrefix(c.CommandPath(), "tollhouse ") + " --" + f.Name
		if _, may := f.Annotations[emptyKey]; may {
			cleared = append(cleared, name)
			return
		}
		seen++
		for _, value := range []string{"", " "} {
			printed, code := refused(nil, append(slices.Clone(line), "--"+f.Name+"="+value)...)
			if code != term.ExitUsage || !strings.Contains(printed, "--"+f.Name) || !strings.Contains(printed, "hint: ") {
				t.Errorf("%s=%q: exit %d, %s; want 2 and the flag's name", name, value, code, printed)
			}
		}
	})
	if slices.Sort(cleared); !slices.Equal(cleared, clears) {
		t.Errorf("these may be empty: %q, want %q", cleared, clears)
	}
	if seen < 100 {
		t.Errorf("%d flags were tried, want all", seen)
	}
}

// An error does not repeat what may be a password, however the URL is misspelt.
//
// Promise (RFC 9110, RFC 9112): no error and no list of settings repeats the password of a URL,
// also of one without a scheme
func TestNoErrorRepeatsThePasswordOfAURL(t *testing.T) {
	t.Parallel()
	const password = "hunter22"
	seen := 0
	eachFlag(func(c *cobra.Command, f *pflag.Flag, line []string) {
		if !takesURL(f) {
			return
		}
		seen++
		for _, url := range []string{"user:" + password + "@host.example", "ftp://user:" + password + "@host.example/x", "https://user:a/" + password + "@host.example", "//user:" + password + "@host"} {
			printed, code := refused(nil, append(slices.Clone(line), "--"+f.Name+"="+url)...)
			if strings.Contains(printed, password) || code != term.ExitUsage && line[0] != "config" {
				t.Errorf("%q --%s=%s: exit %d, %s", line, f.Name, url, code, printed)
			}
		}
	})
	if seen < 12 {
		t.Errorf("%d flags were tried, want all", seen)
	}
	for _, line := range [][]string{
		{"TOLLHOUSE_WEBHOOK_TO", "dev"}, {"TOLLHOUSE_PUBLIC_URL", "dev"}, {"TOLLHOUSE_WEBHOOK_PROXY", "dev"}, {"TOLLHOUSE_URL", "health"}, {"TOLLHOUSE_STORE", "status"},
		{"TOLLHOUSE_FORWARD_TO", "webhook", "listen"}, {"TOLLHOUSE_CLIENT_REDIRECT_URI", "client", "create", "--name", "x", "--data", filepath.Join(t.TempDir(), "data")},
		{"TOLLHOUSE_WEBHOOK_TO", "config", "dev"}, {"TOLLHOUSE_ACME_DIRECTORY", "serve", "--tls", "auto", "--public-url", "https://pay.example", "--data", filepath.Join(t.TempDir(), "data")},
	} {
		printed, code := refused([]string{line[0] + "=user:" + password + "@host.example"}, line[1:]...)
		if strings.Contains(printed, password) || code == 0 && line[1] != "config" {
			t.Errorf("%q: exit %d, %s", line, code, printed)
		}
	}
}

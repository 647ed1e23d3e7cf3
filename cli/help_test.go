package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tollhouse/cli/term"
)

// TestHelpExplainsOurWords: the help of a group says what a word of ours means.
//
// Promise (Browsers): the desk and the help explain family, default, parked and dead
func TestHelpExplainsOurWords(t *testing.T) {
	t.Parallel()
	for group, words := range map[string][]string{
		"token": {"form a family"}, "client": {"the default grants: password"}, "account": {"belong to the account default"}, "webhook": {"is parked: it is", "is dead: it stays"},
	} {
		text := strings.Join(strings.Fields(childOf(newRoot(), group).Long), " ")
		for _, word := range words {
			if !strings.Contains(text, word) {
				t.Errorf("the help of %s does not say %q: %s", group, word, text)
			}
		}
	}
}

// TestHelpShowsFlagsThatMeanSomething: a flag that a command ignores is only in the way of those
// that it needs. It is taken nevertheless, so that scripts can give the same to each.
//
// Promise (Commands and settings): the help and the completions of a command have the global flags
// that mean something for it, in groups; the commands stand in groups
func TestHelpShowsFlagsThatMeanSomething(t *testing.T) {
	t.Parallel()
	all := []string{"data", "store", "store-file", "store-schema", "insecure-store", "key-file", "admin-socket", "json", "quiet", "yes"}
	data, output := all[:7], []string{"json", "quiet"}
	for line, want := range map[string][]string{
		"": all, "client": all, "client delete": all, "event purge": all, "backup": all, "restore": all, "webhook delete": all,
		"serve": append(slices.Clone(data), output...), "client list": append(slices.Clone(data), output...), "session": append(slices.Clone(data), output...),
		"dev": {"admin-socket", "json", "quiet"}, "backup verify": output, "version": {"json"},
		"completion": nil, "completion bash": nil, "print": {"store-file", "store-schema", "insecure-store", "key-file"}, "print openapi": nil, "print systemd": {"store-file", "store-schema", "insecure-store", "key-file"}, "help": nil,
	} {
		help, code := refused(nil, append(strings.Fields(line), "--help")...)
		completed, _ := refused(nil, slices.Concat([]string{cobra.ShellCompRequestCmd}, strings.Fields(line), []string{"--"})...)
		for _, flag := range all {
			shown := strings.Contains(help, " --"+flag+" ")
			if shown != slices.Contains(want, flag) || code != term.ExitOK {
				t.Errorf("the help of %q shows --%s: %t, want %t", line, flag, shown, !shown)
			}
			if proposed := strings.Contains(completed, "--"+flag+"\t"); proposed != shown {
				t.Errorf("%q proposes --%s: %t, want %t", line, flag, proposed, shown)
			}
		}
		if has := strings.Contains(help, "Global Flags") || strings.Contains(help, "Available Commands"); has {
			t.Errorf("the help of %q is cobra's own: %s", line, help)
		}
	}
	newRoot().PersistentFlags().VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(all, f.Name) {
			t.Errorf("--%s is in no group", f.Name)
		}
	})
	for _, c := range newRoot().Commands() {
		if c.GroupID == "" {
			t.Errorf("%s is in no group", c.CommandPath())
		}
	}
	help, _ := refused(nil, "help")
	for _, want := range []string{"Run a server:\n", "Watch a server:\n", "Other:\n", "Data flags:\n", "Output flags:\n", fmt.Sprintf("  %-11s %s\n", "dev", "run a throwaway server in memory, with demo data")} {
		if !strings.Contains(help, want) {
			t.Errorf("tollhouse help lacks %q: %s", want, help)
		}
	}
}

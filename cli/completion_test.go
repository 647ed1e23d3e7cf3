package cli

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tollhouse/cli/term"
	"tollhouse/store/storetest/must"
)

// TestCompletionInBash completes a line as a shell does, with the script that
// the binary writes. What it takes from the shell and from the package
// bash-completion is given to it: ours has no words with = or : to join.
//
// Promise (Commands and settings): config shows each value of the running server, or of the next,
// and its origin, secrets masked; docs/settings.md agrees; the binary prints its unit, Dockerfile
// and more
func TestCompletionInBash(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	must.Have(t, err == nil, "bash; there is a transcript of what it would be told")
	const harness = `
_get_comp_words_by_ref() { words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD; cur=${words[cword]}; prev=${words[cword-1]}; }
compopt() { :; } # only lives within a real completion
source <(tollhouse completion bash)
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}; COMP_TYPE=9
__start_tollhouse
printf '%s\n' "${COMPREPLY[@]}"`
	s := start(t, "serve", "--data", filepath.Join(t.TempDir(), "data"), "--listen", "127.0.0.1:0")
	socket := s.text("admin_socket")
	if _, stderr, code := run(t, "account", "create", "larkspur", "--admin-socket", socket); code != term.ExitOK {
		t.Fatal(stderr)
	}
	for _, c := range []struct {
		name string
		line []string
		want string
	}{
		{"a_command", []string{"tollhouse", "clie"}, "client"},
		{"a_flag", []string{"tollhouse", "serve", "--public-u"}, "--public-url"},
		{"an_account_that_the_server_knows", []string{"tollhouse", "--admin-socket", socket, "account", "show", "lark"}, "larkspur"},
		{"the_value_of_a_flag", []string{"tollhouse", "serve", "--card-guard", "w"}, "warn"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			out, err := exec.Command(bash, append([]string{"--norc", "-c", harness, "bash"}, c.line...)...).CombinedOutput()
			if got := strings.TrimSpace(string(out)); err != nil || got != c.want {
				t.Errorf("%q is completed as %q, %v; want %q", c.line, got, err, c.want)
			}
		})
	}
}

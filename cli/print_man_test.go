package cli

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Promise (Releases): the man page has the help of every command
func TestManPage(t *testing.T) {
	t.Parallel()
	page := manPage(newRoot(), build{Version: "1.2.3", Date: "2026-06-01T12:00:00Z"})
	if want := `.TH "TOLLHOUSE" "1" "2026\-06\-01" "tollhouse 1.2.3" "tollhouse"` + "\n"; !strings.HasPrefix(page, want) {
		t.Errorf("the page begins with %.80q, want %q", page, want)
	}
	macros := []string{".TH", ".SH", ".SS", ".PP", ".TP", ".nf", ".fi", ".B", ".I"}
	for _, found := range regexp.MustCompile(`(?m)^[.'][^ \n]*`).FindAllString(page, -1) {
		if !slices.Contains(macros, found) {
			t.Errorf("a line begins with %q, which roff reads as a command", found)
		}
	}
	eachCommand(newRoot(), func(c *cobra.Command) {
		if heading := `.SS "` + escapeRoff(c.CommandPath()); c.Name() != "help" && !strings.Contains(page, heading) {
			t.Errorf("the page lacks %s", c.CommandPath())
		}
	})
	for _, flag := range []string{`\fB\-\-public\-url\fR URL`, `\fB\-\-data\fR directory`, `\fB\-\-rand\-seed\fR`} {
		if !strings.Contains(page, flag) {
			t.Errorf("the page lacks %s", flag)
		}
	}
}

func TestEscapeRoff(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		".so /etc/passwd": `\&.so /etc/passwd`, "'x": `\&'x`, `a\nb`: `a\enb`, "--data": `\-\-data`, "a. b": "a. b",
	} {
		if got := escapeRoff(text); got != want {
			t.Errorf("escapeRoff(%q) = %q, want %q", text, got, want)
		}
	}
}

package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (p *program) printManCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man",
		Short: "print a man page",
		Long: `Print a man page with the help of every command. The packages of a release install it.

  tollhouse print man > /usr/local/share/man/man1/tollhouse.1`,
		Args: operands(),
		RunE: p.doing(func(context.Context, []string) error { return p.printText(manPage(p.rootCommand(), readBuild())) }),
	}
}

// manPage returns the help of all commands in the man macros of roff.
func manPage(root *cobra.Command, b build) string {
	day, _, _ := strings.Cut(b.Date, "T")
	m := &manual{}
	m.macro("TH", "TOLLHOUSE", "1", day, "tollhouse "+b.Version, "tollhouse")
	m.macro("SH", "NAME")
	m.line("tollhouse \\- " + escapeRoff(root.Short))
	m.macro("SH", "SYNOPSIS")
	m.line(".B tollhouse", ".I COMMAND", "[flags]")
	m.macro("SH", "DESCRIPTION")
	m.text(root.Long)
	for _, group := range root.Groups() {
		m.macro("SH", strings.ToUpper(strings.TrimSuffix(group.Title, ":")))
		eachCommand(root, func(c *cobra.Command) {
			if topOf(c).GroupID == group.ID && !c.Hidden && c.Name() != "help" {
				m.command(c)
			}
		})
	}
	for _, group := range globalFlags {
		m.macro("SH", strings.ToUpper(strings.TrimSuffix(group.title, ":")))
		m.flags(globalFlagsOf(root, group.names))
	}
	m.macro("SH", "SEE ALSO")
	m.line("tollhouse help", "prints the same. The pages of the project explain the rest: operations.md, settings.md, api.md.")
	return m.String()
}

// topOf returns the command below the root that c belongs to.
func topOf(c *cobra.Command) *cobra.Command {
	for c.Parent().HasParent() {
		c = c.Parent()
	}
	return c
}

// manual writes roff.
type manual struct{ strings.Builder }

func (m *manual) line(lines ...string) { m.WriteString(strings.Join(lines, "\n") + "\n") }

func (m *manual) macro(name string, args ...string) {
	m.WriteString("." + name)
	for _, arg := range args {
		m.WriteString(` "` + strings.ReplaceAll(escapeRoff(arg), `"`, `\(dq`) + `"`)
	}
	m.WriteString("\n")
}

func (m *manual) command(c *cobra.Command) {
	m.macro("SS", c.UseLine())
	m.text(c.Long)
	if c.Long == "" {
		m.text(c.Short)
	}
	if c.HasExample() {
		m.text(c.Example)
	}
	if topOf(c).Name() == "config" {
		return // its flags are those of serve and dev
	}
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if c.Root().PersistentFlags().Lookup(f.Name) == nil && f.Name != "help" {
			own.AddFlag(f)
		}
	})
	m.flags(own)
}

// text writes paragraphs. Lines that begin with a space are shown as they are.
func (m *manual) text(text string) {
	shown := false
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		if is := strings.HasPrefix(line, " "); is != shown {
			m.macro(map[bool]string{true: "nf", false: "fi"}[is])
			shown = is
		}
		if line == "" {
			m.macro("PP")
			continue
		}
		m.line(escapeRoff(line))
	}
	if shown {
		m.macro("fi")
	}
}

func (m *manual) flags(flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		value, usage := pflag.UnquoteUsage(f)
		m.macro("TP")
		m.line(strings.TrimSpace(fmt.Sprintf(`\fB\-\-%s\fR %s`, escapeRoff(f.Name), escapeRoff(value))))
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" && !strings.Contains(usage, "(default") {
			usage += " (default " + f.DefValue + ")"
		}
		m.line(escapeRoff(usage))
	})
}

// escapeRoff keeps a text from being read as roff.
func escapeRoff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", `\[u2026]`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}

package cli

import (
	"cmp"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tollhouse/cli/server"
	"tollhouse/handlers"
	"tollhouse/store/kv/pgkv"
)

// config shows the settings a server would start with. It reads the flags of the
// server's own command: help, variables, config and docs/settings.md all come from
// the flags.

func (p *program) configCommand() *cobra.Command {
	c := p.configOf(p.serveCommand(), "config")
	c.Short = "show the settings of a server and where each comes from"
	c.Long = `Show the settings that serve would start with in this directory and environment, and
where each comes from: a flag, a variable or its default. It takes the flags of serve,
or of dev with config dev, and starts nothing. Passwords in URLs are masked.

  tollhouse config
  tollhouse config serve --public-url https://pay.example
  tollhouse config dev --json`
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return noCommand(c, args[0])
		}
		return nil
	}
	c.AddCommand(p.configOf(p.serveCommand(), "serve"), p.configOf(p.devCommand(), "dev"))
	return c
}

// configOf makes of a command that serves one that shows its settings.
func (p *program) configOf(c *cobra.Command, name string) *cobra.Command {
	c.Use, c.Short, c.Long = name, "show the settings of "+name, ""
	c.RunE = func(c *cobra.Command, _ []string) error {
		server.DeriveDefaults(c.Flags())
		return p.showSettings(c.Flags())
	}
	return c
}

func (p *program) showSettings(flags *pflag.FlagSet) error {
	t := p.NewTable("NAME", "VALUE", "FROM")
	t.Breaks = 2
	for _, s := range p.settings(flags) {
		if p.JSON {
			if err := p.PrintJSON(s); err != nil {
				return err
			}
			continue
		}
		from := s.From
		if from == fromVariable {
			from += " " + s.Variable
		}
		t.Add(s.Name, cmp.Or(s.Value, "-"), from)
	}
	return t.Flush()
}

// settings are those of a server's flags.
func (p *program) settings(flags *pflag.FlagSet) (list []handlers.Setting) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" {
			list = append(list, p.setting(f))
		}
	})
	return list
}

const (
	fromFlag     = "flag"
	fromVariable = "variable"
	fromDefault  = "default"
)

func (p *program) setting(f *pflag.Flag) handlers.Setting {
	s := handlers.Setting{Name: f.Name, Value: settingText(f), From: fromDefault, Variable: variableOf(f)}
	switch {
	case p.fromVariable[f]:
		s.From = fromVariable
	case f.Changed:
		s.From = fromFlag
	}
	return s
}

// settingText formats a flag's value as its variable would, with passwords masked.
func settingText(f *pflag.Flag) string {
	if f.Name == "store" && f.Value.String() != "" {
		return pgkv.Mask(f.Value.String())
	}
	list, ok := f.Value.(pflag.SliceValue)
	if !ok {
		return masked(f.Value.String())
	}
	var shown []string
	for _, text := range list.GetSlice() {
		shown = append(shown, masked(text))
	}
	return strings.Join(shown, " ")
}

// masked hides a password in a URL. Other secrets come from files only.
func masked(text string) string {
	if u, err := url.Parse(text); err == nil && u.User != nil {
		if _, has := u.User.Password(); has {
			return u.Redacted()
		}
	}
	return text
}

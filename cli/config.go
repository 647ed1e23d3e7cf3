package cli

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tollhouse/cli/alarms"
	"tollhouse/cli/server"
	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
	"tollhouse/store/kv/pgkv"
)

// config shows the settings of the server that runs, or those that one would start with.
// It reads the flags of the server's own command: help, variables, config and
// docs/settings.md all come from the flags.

func (p *program) configCommand() *cobra.Command {
	c := p.configOf(p.serveCommand(), "config")
	c.Short = "show a server's settings and where they come from"
	c.Long = `Show the settings of the running server and where they come from: a flag, an environment
variable or the default. If no server is running on the data directory, or with config
serve, config dev or any of their flags, show the settings that a server would start with
in this directory and environment. No server is started. Passwords in URLs are masked.

With --store, the settings that the servers of the database share are those in the
database. config set changes them while the servers run.

  tollhouse config --data /var/lib/tollhouse
  tollhouse config serve --public-url https://pay.example
  tollhouse config dev --json`
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return noCommand(c, args[0])
		}
		return nil
	}
	c.RunE = p.doing(func(ctx context.Context, _ []string) error {
		list, err := p.settingsOfServer(ctx, c)
		if err != nil {
			return err
		}
		if list == nil {
			server.DeriveDefaults(c.Flags())
			list = p.settings(c.Flags())
			if err := p.overlayAgreed(ctx, c, list); err != nil {
				return err
			}
		}
		return p.showSettings(list)
	})
	c.AddCommand(p.configOf(p.serveCommand(), "serve"), p.configOf(p.devCommand(), "dev"), p.configSetCommand())
	return c
}

// settingsOfServer returns the settings of the running server, or nil if there is none or
// the flags of c ask for others.
func (p *program) settingsOfServer(ctx context.Context, c *cobra.Command) (list []admin.Setting, err error) {
	if p.asksForOthers(c) || p.store.Given() && p.adminSocket == "" {
		return nil, nil
	}
	a, err := p.connectRunning(ctx)
	if f := (*term.Failure)(nil); p.adminSocket == "" && errors.As(err, &f) && f.Code == term.ExitUnreachable {
		p.Note("no server is running on %s: these are the settings that serve would start with", p.data)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p.Note("these are the settings of the server at %s", a.info.URL)
	err = a.call(ctx, "GET", "/admin/settings", nil, &list)
	return list, errors.Join(err, a.close())
}

// asksForOthers reports whether the flags of c ask for the settings of a server to be started.
func (p *program) asksForOthers(c *cobra.Command) (asks bool) {
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) { asks = asks || f.Changed && !p.fromVariable[f] })
	return asks
}

// configOf turns a command that serves into one that shows its settings.
func (p *program) configOf(c *cobra.Command, name string) *cobra.Command {
	c.Use, c.Short, c.Long = name, "show the settings of "+name, ""
	c.RunE = func(c *cobra.Command, _ []string) error {
		server.DeriveDefaults(c.Flags())
		return p.showSettings(p.settings(c.Flags()))
	}
	return c
}

func (p *program) showSettings(list []admin.Setting) error {
	t := p.NewTable("NAME", "VALUE", "FROM")
	t.Breaks = 2
	for _, s := range list {
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

// settings are those of a server's flags. How a command prints is none.
func (p *program) settings(flags *pflag.FlagSet) (list []admin.Setting) {
	flags.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains([]string{"help", "json", "quiet", "yes"}, f.Name) {
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

func (p *program) setting(f *pflag.Flag) admin.Setting {
	s := admin.Setting{Name: f.Name, Value: settingText(f), From: fromDefault, Variable: variableOf(f)}
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
		return masked(f, f.Value.String())
	}
	var shown []string
	for _, text := range list.GetSlice() {
		if f.Name == server.AlarmFlag {
			shown = append(shown, alarms.Shown(text))
			continue
		}
		shown = append(shown, masked(f, text))
	}
	return strings.Join(shown, " ")
}

// masked hides a password in a URL. Other secrets come from files only.
func masked(f *pflag.Flag, text string) string {
	if u, err := url.Parse(text); err == nil && u.User != nil {
		if _, has := u.User.Password(); has {
			return u.Redacted()
		}
		return text
	}
	if takesURL(f) {
		return term.MaskedURL(text)
	}
	return text
}

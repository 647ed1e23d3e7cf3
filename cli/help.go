package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpCommand is --help as a command. Like --help it ignores variables: a wrong one
// must not keep a user from reading the help.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "help [COMMAND]",
		Short:             "help for a command",
		PersistentPreRunE: func(*cobra.Command, []string) error { return nil },
		RunE:              func(c *cobra.Command, args []string) error { return showHelp(c.Root(), args) },
	}
}

// showHelp shows the help of the command that names select below c.
func showHelp(c *cobra.Command, names []string) error {
	for _, name := range names {
		next := childOf(c, name)
		if next == nil {
			return noCommand(c, name)
		}
		c = next
	}
	c.InitDefaultHelpFlag() // else only a command that runs has it
	return c.Help()
}

func childOf(c *cobra.Command, name string) *cobra.Command {
	for _, sub := range c.Commands() {
		if sub.Name() == name {
			return sub
		}
	}
	return nil
}

// globalFlags are the flags of every command, in groups.
var globalFlags = []struct {
	title string
	names []string
}{
	{"Data flags:", []string{"data", "store", "store-file", "store-schema", "insecure-store", "key-file", "admin-socket"}},
	{"Output flags:", []string{"json", "quiet", "yes"}},
}

// asks are the commands that ask before they delete or replace. All that are named delete do.
var asks = []string{"tollhouse backup", "tollhouse restore", "tollhouse event purge"}

// installations are the commands whose output depends on where the data is.
var installations = []string{"tollhouse print systemd", "tollhouse print dockerfile", "tollhouse print compose"}

// matters reports whether a global flag means something for a command. All commands take all of
// them, so that scripts can give the same to each; help and completions show those that matter;
// for a group, those of its commands.
func matters(c *cobra.Command, flag string) bool {
	if slices.ContainsFunc(c.Commands(), func(sub *cobra.Command) bool { return matters(sub, flag) }) {
		return true
	}
	if flag == "yes" {
		return slices.Contains(asks, c.CommandPath()) || c.Name() == "delete"
	}
	isOutput := slices.Contains(globalFlags[1].names, flag)
	words := append(strings.Fields(c.CommandPath()), "", "")
	switch {
	case slices.Contains(installations, c.CommandPath()):
		return slices.Contains([]string{"store-file", "store-schema", "insecure-store", "key-file"}, flag)
	case words[1] == "completion" || words[1] == "print" || words[1] == "help":
		return false // they print a text and read no data
	case words[1] == "version":
		return flag == "json"
	case words[1] == "dev":
		return isOutput || flag == "admin-socket"
	case words[1] == "backup" && words[2] == "verify":
		return isOutput
	}
	return true
}

// globalFlagsOf returns the flags of a group that matter to a command.
func globalFlagsOf(c *cobra.Command, names []string) *pflag.FlagSet {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, name := range names {
		if matters(c, name) {
			flags.AddFlag(c.Root().PersistentFlags().Lookup(name))
		}
	}
	return flags
}

// usage prints how a command is used. Unlike cobra's own it groups the global flags and leaves
// out those that mean nothing for the command.
func usage(c *cobra.Command) error {
	b := &strings.Builder{}
	fmt.Fprintf(b, "Usage:\n  %s\n", c.UseLine())
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(b, "  %s [command]\n", c.CommandPath())
	}
	if c.HasExample() {
		fmt.Fprintf(b, "\nExamples:\n%s\n", c.Example)
	}
	groups := c.Groups()
	if len(groups) == 0 && c.HasAvailableSubCommands() {
		groups = []*cobra.Group{{Title: "Commands:"}}
	}
	for _, group := range groups {
		fmt.Fprintf(b, "\n%s\n", group.Title)
		for _, sub := range c.Commands() {
			if sub.GroupID == group.ID && (sub.IsAvailableCommand() || sub.Name() == "help") {
				fmt.Fprintf(b, "  %-*s %s\n", sub.NamePadding(), sub.Name(), sub.Short)
			}
		}
	}
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if c.Root().PersistentFlags().Lookup(f.Name) == nil {
			own.AddFlag(f)
		}
	})
	printFlags(b, "Flags:", own)
	for _, group := range globalFlags {
		printFlags(b, group.title, globalFlagsOf(c, group.names))
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(b, "\nUse \"%s [command] --help\" for more information about a command.\n", c.CommandPath())
	}
	_, err := fmt.Fprint(c.OutOrStderr(), b.String())
	return err
}

func printFlags(b *strings.Builder, title string, flags *pflag.FlagSet) {
	flags.SortFlags = title == "Flags:"
	if flags.HasAvailableFlags() {
		fmt.Fprintf(b, "\n%s\n%s", title, flags.FlagUsages())
	}
}

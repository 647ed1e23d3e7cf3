package cli

import "github.com/spf13/cobra"

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

package cli

import "github.com/spf13/cobra"

// helpCommand is --help for those who type it as a word. Like that it heeds no
// variables: a wrong one must not keep its cure from being read.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "help [COMMAND]",
		Short:             "tell about a command, as --help does",
		PersistentPreRunE: func(*cobra.Command, []string) error { return nil },
		RunE:              func(c *cobra.Command, args []string) error { return tellAbout(c.Root(), args) },
	}
}

// tellAbout shows the help of the command that names lead to from c.
func tellAbout(c *cobra.Command, names []string) error {
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

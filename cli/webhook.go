package cli

import "github.com/spf13/cobra"

func (p *program) webhookCommand() *cobra.Command {
	c := asGroup(&cobra.Command{Use: "webhook", Short: "deliver events to the URLs of other programs"})
	c.AddCommand(p.webhookListen())
	return c
}

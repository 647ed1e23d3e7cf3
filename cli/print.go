package cli

import (
	"context"

	"github.com/spf13/cobra"

	"tollhouse/handlers"
)

// printCommand groups the documents that tollhouse can write about itself. They
// go to standard output, whatever --json says: a document has one form.
func (p *program) printCommand() *cobra.Command {
	c := &cobra.Command{Use: "print", Short: "write a document about tollhouse itself"}
	c.AddCommand(p.printSystemdCommand(), p.printDockerfileCommand(), p.printComposeCommand(), p.printOpenAPICommand())
	return asGroup(c)
}

func (p *program) printOpenAPICommand() *cobra.Command {
	var publicURL string
	c := &cobra.Command{
		Use:   "openapi",
		Short: "write the description of the interface (OpenAPI 3.1)",
		Long: `Write the description of the whole public interface, as a server of this version
serves it at /openapi.json.`,
		Args: operands(),
		RunE: p.doing(func(context.Context, []string) error {
			issuer := ""
			if publicURL != "" {
				u, err := parsePublicURL(publicURL)
				if err != nil {
					return err
				}
				issuer = u.String()
			}
			_, err := p.stdout.Write(handlers.OpenAPI(issuer, version()))
			return err
		}),
	}
	c.Flags().StringVar(&publicURL, "public-url", "", "`URL` of the server to name in it (default: none, so that it is the one the document is read from)")
	return c
}

package cli

import (
	"context"
	"embed"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tollhouse/cli/server"
	"tollhouse/cli/term"
	"tollhouse/handlers/api"
	"tollhouse/store/spelling"
)

// printCommand groups the documents that tollhouse can write about itself. They
// go to standard output, whatever --json says: a document has one form.
func (p *program) printCommand() *cobra.Command {
	c := &cobra.Command{Use: "print", Short: "print installation files, a man page, test helpers, migration scripts, a dashboard or the API description"}
	c.AddCommand(p.printSystemdCommand(), p.printDockerfileCommand(), p.printComposeCommand(), p.printHelperCommand(), p.printMigrationCommand(), p.printManCommand(), p.printGrafanaCommand(), p.printOpenAPICommand())
	return asGroup(c)
}

// printingOneOf prints the file of a name, which stands behind prefix. what says what the names are.
func (p *program) printingOneOf(what string, names []string, files embed.FS, prefix string) func(*cobra.Command, []string) error {
	return p.doing(func(_ context.Context, args []string) error {
		name := args[0]
		if !slices.Contains(names, name) {
			hint := "give one of " + strings.Join(names, ", ")
			if near, ok := spelling.Nearest(name, slices.Values(names)); ok {
				hint = "did you mean " + near + "?"
			}
			return term.Usage(hint, "unknown %s %q", what, name)
		}
		text, err := files.ReadFile(prefix + name)
		if err != nil {
			return err
		}
		return p.printText(withImage(string(text)))
	})
}

func (p *program) printOpenAPICommand() *cobra.Command {
	var publicURL string
	c := &cobra.Command{
		Use:   "openapi",
		Short: "print the API description (OpenAPI 3.1)",
		Long: `Print the description of the whole public API, as a server of this version serves it
at /openapi.json.`,
		Args: operands(),
		RunE: p.doing(func(context.Context, []string) error {
			issuer := ""
			if publicURL != "" {
				u, err := server.ParsePublicURL(publicURL)
				if err != nil {
					return err
				}
				issuer = u.String()
			}
			_, err := p.Out.Write(api.OpenAPI(issuer, version()))
			return err
		}),
	}
	c.Flags().StringVar(&publicURL, "public-url", "", "`URL` of the server to name in it (default: none; readers then use the URL that they fetched it from)")
	return c
}

//go:embed printed/grafana.json
var grafanaDashboard string

func (p *program) printGrafanaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "grafana",
		Short: "print a Grafana dashboard",
		Long: `Print a dashboard of the metrics that Prometheus reads from a server. Import it in
Grafana or provision it; it asks for the data source.`,
		Args: operands(),
		RunE: p.doing(func(context.Context, []string) error { return p.printText(grafanaDashboard) }),
	}
}

package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
)

// deletion is a command that removes one thing for good.
type deletion struct {
	what     string // client, user or account
	path     func(ctx context.Context, a *adminClient, name string) (string, error)
	operand  string // in the usage line
	needs    string // in the message when it is missing
	member   string // that names the thing in the JSON answer
	short    string
	question string // with %s for the name
}

// pathIn returns the path of the thing with that id in a list of the calls of management.
func pathIn(list string) func(context.Context, *adminClient, string) (string, error) {
	return func(_ context.Context, _ *adminClient, id string) (string, error) { return pathOf(list, id), nil }
}

func (p *program) deleteCommand(d deletion) *cobra.Command {
	return &cobra.Command{
		Use:   "delete " + d.operand,
		Short: d.short,
		Long: strings.ToUpper(d.short[:1]) + d.short[1:] + `.

On a terminal it asks for confirmation, unless --yes is given. Without a terminal it
does not ask.`,
		Args: operands(d.needs),
		RunE: p.doing(func(ctx context.Context, args []string) error {
			if err := p.Confirm(ctx, d.question, args[0]); err != nil {
				return err
			}
			err := p.manage(ctx, d.what+" delete", needsData, func(a *adminClient) error {
				path, err := d.path(ctx, a, args[0])
				if err != nil {
					return err
				}
				return p.Wait("deleting", func() error { return a.call(ctx, "DELETE", path, nil, nil) })
			})
			if err != nil {
				return err
			}
			return p.Done(map[string]any{d.member: args[0], "deleted": true}, "deleted the %s %s", d.what, args[0])
		}),
	}
}

package cli

import (
	"cmp"
	"context"
	"strings"

	"github.com/spf13/cobra"
)

// deletion is a command that removes one thing for good.
type deletion struct {
	what     string // client, user or account
	path     string // of the list in the admin API; what and an s if empty
	operand  string // in the usage line
	needs    string // in the message when it is missing
	member   string // that names the thing in the JSON answer
	short    string
	question string // with %s for the name
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
				return p.Wait("deleting", func() error { return a.call(ctx, "DELETE", pathOf(cmp.Or(d.path, d.what+"s"), args[0]), nil, nil) })
			})
			if err != nil {
				return err
			}
			return p.Done(map[string]any{d.member: args[0], "deleted": true}, "deleted the %s %s", d.what, args[0])
		}),
	}
}

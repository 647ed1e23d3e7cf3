package cli

import (
	"context"

	"github.com/spf13/cobra"
)

func (p *program) healthCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "health",
		Short: "ask the server whether it is ready; exit 0 when it is",
		Args:  operands(),
		RunE: p.doing(func(ctx context.Context, _ []string) error {
			a, err := p.connectRunning(ctx)
			if err != nil {
				return err
			}
			defer a.close()
			var state struct {
				Status string `json:"status"`
			}
			if err := a.call(ctx, "GET", "/readyz", nil, &state); err != nil {
				return notReady(err)
			}
			return p.done(map[string]string{"status": state.Status, "url": a.info.URL, "version": a.info.Version},
				"ready: tollhouse %s at %s", a.info.Version, a.info.URL)
		}),
	}
}

// notReady is the fault when a server answers that it should get no requests.
func notReady(err error) error {
	f := asFault(err)
	if f.code != exitBusy {
		return err
	}
	return fail(exitFailed, "docs/operations.md says under Monitoring what each reason asks for", "%w", f.err)
}

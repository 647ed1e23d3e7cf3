package cli

import (
	"context"

	"github.com/spf13/cobra"

	"tollhouse/cli/term"
)

func (p *program) healthCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "health",
		Short: "check whether the server is ready; exit 0 if it is",
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
			return p.Done(map[string]string{"status": state.Status, "url": a.info.URL, "version": a.info.Version},
				"ready: tollhouse %s at %s", a.info.Version, a.info.URL)
		}),
	}
}

// notReady is the failure when a server answers that it is not ready.
func notReady(err error) error {
	f := term.FailureOf(err)
	if f.Code != term.ExitBusy {
		return err
	}
	return term.Fail(term.ExitFailed, "see Monitoring in docs/operations.md for what to do", "%w", f.Err)
}

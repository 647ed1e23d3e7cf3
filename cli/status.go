package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"tollhouse/cli/server"
	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
)

func (p *program) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "show the state of the server and its store",
		Long: `Show the state of the server and its store: whether it is ready and why not, what the
disk holds, and what the last search for damage found. Requires a running server; exit 0
if it is ready, 1 if it is not, 69 if none is running. With --store it shows the database
and lists all servers on it; exit 0 if there is one.

  tollhouse status --data /var/lib/tollhouse
  tollhouse status --json`,
		Args: operands(),
		RunE: p.doing(func(ctx context.Context, _ []string) error {
			if p.store.Given() && p.adminSocket == "" {
				return p.databaseStatus(ctx)
			}
			a, err := p.connectRunning(ctx)
			if err != nil {
				return err
			}
			defer a.close()
			var s admin.ServerStatus
			if err := a.call(ctx, "GET", "/admin/status", nil, &s); err != nil {
				return err
			}
			if p.JSON {
				err = p.PrintJSON(s)
			} else {
				err = p.PrintRows(server.StatusRows(s, time.Now())...)
			}
			if err == nil && s.Status != admin.StateReady {
				return term.Fail(term.ExitFailed, "its log says more", "the server is not ready: %s", s.Reason)
			}
			return err
		}),
	}
}

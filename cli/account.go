package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

// accountShown is an account as the admin API gives it.
type accountShown struct {
	Account   string `json:"account"`
	Name      string `json:"name"`
	CreatedAt int64  `json:"created_at"` // Unix seconds
}

func (p *program) accountCommand() *cobra.Command {
	c := asGroup(&cobra.Command{Use: "account", Short: "manage the accounts that own resources and events"})
	c.AddCommand(p.accountCreate(), p.accountList(), p.accountShow(), p.accountDelete())
	return c
}

func (p *program) accountCreate() *cobra.Command {
	var name string
	c := &cobra.Command{
		Use:   "create ACCOUNT",
		Short: "make an account; user create and event import make theirs by themselves",
		Args:  operands("an account id"),
		RunE: p.doing(func(ctx context.Context, args []string) error {
			return p.withAccount(ctx, "account create", makesData, "POST", "/admin/accounts", map[string]string{"account": args[0], "name": name})
		}),
	}
	c.Flags().StringVar(&name, "name", "", "a `name` for people")
	nameVariables(c.Flags(), "ACCOUNT_")
	return c
}

func (p *program) accountList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "list the accounts",
		Args:  operands(),
		RunE: p.doing(func(ctx context.Context, _ []string) error {
			t := p.newTable("ACCOUNT", "NAME", "CREATED")
			err := list(ctx, p, "account list", "/admin/accounts", func(a accountShown) string { return a.Account }, func(a accountShown) {
				t.add(a.Account, orDash(a.Name), showTime(a.CreatedAt))
			})
			if err != nil {
				return err
			}
			return t.flush()
		}),
	}
}

func (p *program) accountShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show ACCOUNT",
		Short: "show an account",
		Args:  operands("an account id"),
		RunE: p.doing(func(ctx context.Context, args []string) error {
			return p.withAccount(ctx, "account show", needsData, "GET", pathOf("accounts", args[0]), nil)
		}),
	}
}

// withAccount makes one call about an account and shows it.
func (p *program) withAccount(ctx context.Context, role string, n need, method, path string, in any) error {
	var shown accountShown
	err := p.manage(ctx, role, n, func(a *admin) error { return a.call(ctx, method, path, in, &shown) })
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(shown)
	}
	return p.printRows(row{"account", shown.Account}, row{"name", orDash(shown.Name)}, row{"created", showTime(shown.CreatedAt)})
}

func showTime(seconds int64) string { return time.Unix(seconds, 0).UTC().Format(time.RFC3339) }

func (p *program) accountDelete() *cobra.Command {
	return p.deleteCommand(deletion{
		what: "account", operand: "ACCOUNT", needs: "an account id", member: "account",
		short:    "erase an account with all its resources and events",
		question: "Erase the account %s with all its resources and events? This cannot be undone.",
	})
}

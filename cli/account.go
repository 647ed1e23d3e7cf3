package cli

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
)

func (p *program) accountCommand() *cobra.Command {
	c := asGroup(&cobra.Command{
		Use:   "account",
		Short: "manage the accounts that own resources and events",
		Long: `Manage the accounts that own resources and events.

A user belongs to one account, and the user's tokens give access to what that account owns.
Users and events that name no account belong to the account default (in dev: acct_demo).`,
	})
	c.AddCommand(p.accountCreate(), p.accountList(), p.accountShow(),
		p.accountAbility("disable", "disable an account: its users cannot sign in, and its tokens and webhooks stop"),
		p.accountAbility("enable", "enable an account again; old sign-ins and tokens stay revoked"),
		p.accountAbility("revoke", "revoke all sign-ins and tokens of an account"), p.accountDelete())
	return c
}

func (p *program) accountCreate() *cobra.Command {
	var name string
	c := &cobra.Command{
		Use:   "create ACCOUNT",
		Short: "create an account; user create and event import create theirs as needed",
		Args:  operands("an account id"),
		RunE: p.doing(func(ctx context.Context, args []string) error {
			return p.withAccount(ctx, "account create", makesData, "PUT", pathOf("accounts", args[0]), map[string]string{"name": name})
		}),
	}
	c.Flags().StringVar(&name, "name", "", "a display `name`")
	nameVariables(c.Flags(), "ACCOUNT_")
	return c
}

func (p *program) accountList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "list the accounts",
		Args:  operands(),
		RunE: p.doing(func(ctx context.Context, _ []string) error {
			t := p.NewTable("ACCOUNT", "NAME", "DISABLED", "CREATED")
			err := list(ctx, p, "account list", pathOf("accounts"), func(a admin.AdminAccount) {
				t.Add(a.Account, cmp.Or(a.Name, "-"), term.YesNo(a.Disabled), term.ShowTime(a.CreatedAt))
			})
			if err != nil {
				return err
			}
			return t.Flush()
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
	var shown admin.AdminAccount
	err := p.manage(ctx, role, n, func(a *adminClient) error { return a.call(ctx, method, path, in, &shown) })
	if err != nil {
		return err
	}
	if p.JSON {
		return p.PrintJSON(shown)
	}
	return p.PrintRows(term.Row{"account", shown.Account}, term.Row{"name", cmp.Or(shown.Name, "-")}, term.Row{"disabled", term.YesNo(shown.Disabled)}, term.Row{"created", term.ShowTime(shown.CreatedAt)})
}

// accountAbility is disable, enable or revoke.
func (p *program) accountAbility(verb, short string) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " ACCOUNT",
		Short: short,
		Args:  operands("an account id"),
		RunE: p.doing(func(ctx context.Context, args []string) error {
			var a admin.AdminAccount
			err := p.manage(ctx, "account "+verb, needsData, func(c *adminClient) error {
				return c.call(ctx, "POST", pathOf("accounts", args[0], verb), nil, &a)
			})
			if err != nil {
				return err
			}
			did := pastOf(verb)
			if verb == "revoke" {
				did += " all tokens of"
			}
			return p.Done(a, "%s the account %s", did, a.Account)
		}),
	}
}

func (p *program) accountDelete() *cobra.Command {
	return p.deleteCommand(deletion{
		what: "account", path: pathIn("accounts"), operand: "ACCOUNT", needs: "an account id", member: "account",
		short:    "delete an account with all its resources and events",
		question: "Delete the account %s with all its resources and events? This cannot be undone.",
	})
}

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"tollhouse/store"
)

// userShown is a user as the admin API gives it.
type userShown struct {
	UserID   string `json:"user_id"`
	Username string `json:"username"`
	Account  string `json:"account"`
	Disabled bool   `json:"disabled"`
}

func (p *program) userCommand() *cobra.Command {
	c := asGroup(&cobra.Command{Use: "user", Short: "manage the people who sign in"})
	c.AddCommand(p.userCreate(), p.userList(), p.userShow(), p.userPasswd(),
		p.userAbility("disable", "refuse a user and end what they are signed in to"),
		p.userAbility("enable", "let a user sign in again; old sessions and tokens stay dead"), p.userDelete())
	return c
}

func (p *program) userCreate() *cobra.Command {
	var account, passwordFile string
	c := &cobra.Command{
		Use:   "create NAME",
		Short: "make a user; the password comes from a terminal or a file",
		Args:  operands("a name"),
		RunE: p.doing(func(ctx context.Context, args []string) error {
			password, err := p.readPassword(ctx, passwordFile)
			if err != nil {
				return err
			}
			asked := map[string]string{"username": args[0], "account": account, "password": password}
			var made struct {
				UserID   string `json:"user_id"`
				Username string `json:"username"`
				Account  string `json:"account"`
			}
			err = p.manage(ctx, "user create", makesData, func(a *admin) error {
				return a.call(ctx, "POST", "/admin/users", asked, &made)
			})
			if err != nil {
				return err
			}
			if p.json {
				return p.printJSON(made)
			}
			return p.printRows(row{"user id", made.UserID}, row{"username", made.Username}, row{"account", made.Account})
		}),
	}
	c.Flags().StringVar(&account, "account", store.DefaultAccount, "the `account` that the user acts for; made when there is none of that id")
	addPasswordFlag(c, &passwordFile)
	return c
}

func (p *program) userList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "list the users",
		Args:  operands(),
		RunE: p.doing(func(ctx context.Context, _ []string) error {
			t := p.newTable("USERNAME", "ACCOUNT", "USER ID", "DISABLED")
			err := list(ctx, p, "user list", "/admin/users", func(u userShown) string { return u.Username }, func(u userShown) {
				t.add(u.Username, u.Account, u.UserID, yesNo(u.Disabled))
			})
			if err != nil {
				return err
			}
			return t.flush()
		}),
	}
}

func (p *program) userShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "show a user",
		Args:  operands("a name"),
		RunE: p.doing(func(ctx context.Context, args []string) error {
			var u userShown
			err := p.manage(ctx, "user show", needsData, func(a *admin) error {
				return a.call(ctx, "GET", pathOf("users", args[0]), nil, &u)
			})
			if err != nil {
				return err
			}
			if p.json {
				return p.printJSON(u)
			}
			return p.printRows(row{"user id", u.UserID}, row{"username", u.Username}, row{"account", u.Account}, row{"disabled", yesNo(u.Disabled)})
		}),
	}
}

func (p *program) userPasswd() *cobra.Command {
	var passwordFile string
	c := &cobra.Command{
		Use:   "passwd NAME",
		Short: "set a user's password and end what they are signed in to",
		Args:  operands("a name"),
		RunE: p.doing(func(ctx context.Context, args []string) error {
			password, err := p.readPassword(ctx, passwordFile)
			if err != nil {
				return err
			}
			return p.changeUser(ctx, "user passwd", "new password for", map[string]string{"password": password}, args[0], "password")
		}),
	}
	addPasswordFlag(c, &passwordFile)
	return c
}

// userAbility is disable or enable.
func (p *program) userAbility(verb, short string) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " NAME",
		Short: short,
		Args:  operands("a name"),
		RunE: p.doing(func(ctx context.Context, args []string) error {
			return p.changeUser(ctx, "user "+verb, verb+"d the user", nil, args[0], verb)
		}),
	}
}

// changeUser makes one call about a user and says what was done.
func (p *program) changeUser(ctx context.Context, role, did string, in any, name, verb string) error {
	var u userShown
	err := p.manage(ctx, role, needsData, func(a *admin) error {
		return a.call(ctx, "POST", pathOf("users", name, verb), in, &u)
	})
	if err != nil {
		return err
	}
	return p.done(u, "%s %s", did, u.Username)
}

func (p *program) userDelete() *cobra.Command {
	return p.deleteCommand(deletion{
		what: "user", operand: "NAME", needs: "a name", member: "username",
		short:    "remove a user and end what they are signed in to",
		question: "Delete the user %s? Sessions and tokens end at once.",
	})
}

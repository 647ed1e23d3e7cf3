package cli

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
	"tollhouse/store"
	"tollhouse/store/secret"
)

func (p *program) userCommand() *cobra.Command {
	c := asGroup(&cobra.Command{Use: "user", Short: "manage the users who sign in"})
	c.AddCommand(p.userCreate(), p.userList(), p.userShow(), p.userRename(), p.userPasswd(), p.userCode(),
		p.userAbility("disable", "disable a user and revoke their sessions and tokens"),
		p.userAbility("enable", "enable a user again; old sessions and tokens stay revoked"),
		p.userAbility("promote", "make a user an operator, who may use the desk"),
		p.userAbility("demote", "make an operator an ordinary user"), p.userResetSecondFactor(), p.userDelete())
	return c
}

func (p *program) userCreate() *cobra.Command {
	var account, passwordFile string
	var operator, byCode bool
	expires := term.Duration(store.UserCodeLifetime)
	c := &cobra.Command{
		Use:   "create NAME",
		Short: "create a user, with a password from a terminal or a file",
		Args:  operands("a name"),
		RunE: p.doing(func(ctx context.Context, args []string) error {
			asked := map[string]any{"username": args[0], "account": account, "operator": operator}
			if byCode && passwordFile != "" {
				return term.Usage("leave out one of them", "--code and --password-file cannot be combined")
			}
			if byCode {
				if err := checkCodeExpires(expires); err != nil {
					return err
				}
				asked["code"], asked["code_expires_in"] = true, int64(time.Duration(expires)/time.Second)
			} else {
				password, err := p.readPassword(ctx, passwordFile)
				if err != nil {
					return err
				}
				asked["password"] = password
			}
			var made admin.NewAdminUser
			var address string
			err := p.manage(ctx, "user create", makesData, func(a *adminClient) error {
				address = codeAddress(a)
				return a.withoutURL(a.call(ctx, "POST", pathOf("users"), asked, &made), &made.URL)
			})
			if err != nil {
				return err
			}
			if p.JSON {
				return p.PrintJSON(made)
			}
			rows := []term.Row{{"user id", made.UserID}, {"username", made.Username}, {"account", made.Account}, {"operator", term.YesNo(made.Operator)}}
			if byCode {
				return p.printCode(made.Username, address, made.ExpiresAt, append(rows, term.Row{"code", made.Code})...)
			}
			return p.PrintRows(rows...)
		}),
	}
	c.Flags().BoolVar(&operator, "operator", false, "make the user an operator, who may use the desk")
	c.Flags().BoolVar(&byCode, "code", false, "print a code with which the user sets a password, instead of asking for one")
	addCodeExpires(c, &expires)
	nameVariables(c.Flags(), "") // a role is given on the command line, never by the environment
	c.Flags().StringVar(&account, "account", store.DefaultAccount, "the `account` that the user acts for; created if it does not exist")
	addPasswordFlag(c, &passwordFile)
	return c
}

func (p *program) userList() *cobra.Command {
	var account string
	c := &cobra.Command{
		Use:   "list",
		Short: "list the users",
		Args:  operands(),
		RunE: p.doing(func(ctx context.Context, _ []string) error {
			found := map[string]admin.AdminUser{} // by name; the server lists them by id
			err := p.manage(ctx, "user list", needsData, func(a *adminClient) error {
				return each(ctx, a, only(pathOf("users"), map[string]string{"account": account}), func(u admin.AdminUser) error {
					name, err := store.CanonicalUsername(u.Username)
					found[name] = u
					return err
				})
			})
			if err != nil {
				return err
			}
			t := p.NewTable("USERNAME", "ACCOUNT", "USER ID", "DISABLED", "OPERATOR")
			for _, name := range slices.Sorted(maps.Keys(found)) {
				u := found[name]
				if p.JSON {
					if err := p.PrintJSON(u); err != nil {
						return err
					}
					continue
				}
				t.Add(u.Username, u.Account, u.UserID, term.YesNo(u.Disabled), term.YesNo(u.Operator))
			}
			return t.Flush()
		}),
	}
	c.Flags().StringVar(&account, "account", "", "list only the users of this `account`")
	nameVariables(c.Flags(), "")
	return c
}

func (p *program) userRename() *cobra.Command {
	return &cobra.Command{
		Use:   "rename NAME NEW",
		Short: "give a user another name; id, sign-ins and tokens stay",
		Args:  operands("a name", "the new name"),
		RunE: p.doing(func(ctx context.Context, args []string) error {
			var u admin.AdminUser
			err := p.manage(ctx, "user rename", needsData, func(a *adminClient) error {
				return a.ofUser(ctx, args[0], "PATCH", "", map[string]string{"username": args[1]}, &u)
			})
			if err != nil {
				return err
			}
			return p.Done(u, "renamed the user %s to %s", args[0], u.Username)
		}),
	}
}

func (p *program) userShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "show a user",
		Args:  operands("a name"),
		RunE: p.doing(func(ctx context.Context, args []string) error {
			var u admin.AdminUser
			err := p.manage(ctx, "user show", needsData, func(a *adminClient) error {
				return a.ofUser(ctx, args[0], "GET", "", nil, &u)
			})
			if err != nil {
				return err
			}
			if p.JSON {
				return p.PrintJSON(u)
			}
			return p.PrintRows(term.Row{"user id", u.UserID}, term.Row{"username", u.Username}, term.Row{"account", u.Account}, term.Row{"disabled", term.YesNo(u.Disabled)}, term.Row{"operator", term.YesNo(u.Operator)}, term.Row{"password", passwordState(u)}, term.Row{"second factor", factorState(u)}, term.Row{"last sign-in", term.ShowTimeOrNever(u.LastSignIn)})
		}),
	}
}

func (p *program) userPasswd() *cobra.Command {
	var passwordFile string
	c := &cobra.Command{
		Use:   "passwd NAME",
		Short: "set a user's password and revoke their sessions and tokens",
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

// userAbility is disable, enable, promote or demote.
func (p *program) userAbility(verb, short string) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " NAME",
		Short: short,
		Args:  operands("a name"),
		RunE: p.doing(func(ctx context.Context, args []string) error {
			return p.changeUser(ctx, "user "+verb, pastOf(verb)+" the user", nil, args[0], verb)
		}),
	}
}

func (p *program) userResetSecondFactor() *cobra.Command {
	return &cobra.Command{
		Use:   "reset-second-factor NAME",
		Short: "take away a user's app, passkeys and recovery codes, and end their sign-ins",
		Long: `Take away a user's authenticator app, passkeys and recovery codes, and end their
sign-ins. The password and the tokens of clients stay. The user then signs in with the
password alone, or sets up a new second factor while signing in if the server requires one.

On a terminal it asks for confirmation, unless --yes is given. Without a terminal it
does not ask.`,
		Args: operands("a name"),
		RunE: p.doing(func(ctx context.Context, args []string) error {
			if err := p.Confirm(ctx, "Reset the second factor of the user %s? The password alone will then be enough to sign in.", args[0]); err != nil {
				return err
			}
			return p.changeUser(ctx, "user reset-second-factor", "reset the second factor of", nil, args[0], "reset-second-factor")
		}),
	}
}

// factorState is the second factor of a user in words.
func factorState(u admin.AdminUser) string {
	if len(u.SecondFactor) == 0 {
		return "none"
	}
	return strings.Join(u.SecondFactor, ", ") + "; " + term.Count(int64(u.RecoveryCodes), "recovery code", "recovery codes") + " left"
}

func pastOf(verb string) string { return strings.TrimSuffix(verb, "e") + "ed" }

// changeUser makes one call about a user and says what was done.
func (p *program) changeUser(ctx context.Context, role, did string, in any, name, verb string) error {
	var u admin.AdminUser
	err := p.manage(ctx, role, needsData, func(a *adminClient) error {
		return a.ofUser(ctx, name, "POST", "/"+verb, in, &u)
	})
	if err != nil {
		return err
	}
	return p.Done(u, "%s %s", did, u.Username)
}

func (p *program) userDelete() *cobra.Command {
	return p.deleteCommand(deletion{
		what: "user", path: userPath, operand: "NAME", needs: "a name", member: "username",
		short:    "delete a user and revoke their sessions and tokens",
		question: "Delete the user %s? Their sessions and tokens are revoked immediately.",
	})
}

func addPasswordFlag(c *cobra.Command, file *string) {
	c.Flags().StringVar(file, "password-file", "", "`file` with the password, or - for standard input (default: ask on the terminal)")
}

// readPassword reads a password from a file, standard input or a terminal.
func (p *program) readPassword(ctx context.Context, file string) (string, error) {
	if file == "" {
		return p.AskPassword(ctx, secret.PasswordSizeMin, func(password string) bool { return len(secret.PreparePassword(password)) < secret.PasswordSizeMin })
	}
	return p.ReadSecret("password", "--password-file", file, secret.PasswordSizeMax)
}

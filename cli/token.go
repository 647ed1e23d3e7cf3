package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
)

func (p *program) tokenCommand() *cobra.Command {
	c := asGroup(&cobra.Command{
		Use:   "token",
		Short: "list, inspect and revoke tokens",
		Long: `List, inspect and revoke tokens.

All tokens that descend from one authorization form a family. The family id identifies it
here, in the log and in the audit record, but gives no access.`,
	})
	c.AddCommand(p.tokenList(), p.tokenInspect(), p.tokenRevoke())
	return c
}

func (p *program) tokenList() *cobra.Command {
	var user, client string
	c := &cobra.Command{
		Use:   "list",
		Short: "list the active token families",
		Long: `List the active token families, sorted by user and then newest first. A family is
active until it is revoked, its client or user is disabled, or it expires. It stays
active when its last access token expires.`,
		Args: operands(),
	}
	flags := c.Flags()
	flags.StringVar(&client, "client", "", "only families of the client with this `id`")
	addUserFlag(flags, &user, "only families of the user with this `name`")
	c.RunE = p.doing(func(ctx context.Context, _ []string) error {
		var found []admin.AdminFamily // a table is sorted, and so read whole
		err := p.manage(ctx, "token list", needsData, func(a *adminClient) error {
			if err := a.mustKnow(ctx, user, client); err != nil {
				return err
			}
			path := only(pathOf("authorizations"), map[string]string{"user": user, "client": client})
			return each(ctx, a, path, func(f admin.AdminFamily) error {
				if p.JSON {
					return p.PrintJSON(f)
				}
				found = append(found, f)
				return nil
			})
		})
		if err != nil {
			return err
		}
		slices.SortFunc(found, func(a, b admin.AdminFamily) int {
			return cmp.Or(strings.Compare(a.Username, b.Username), cmp.Compare(b.CreatedAt, a.CreatedAt), strings.Compare(a.FamilyID, b.FamilyID))
		})
		t := p.NewTable("USER", "CLIENT", "ACCOUNT", "SCOPES", "SINCE", "LAST USED", "EXPIRES", "FAMILY ID")
		for _, f := range found {
			t.Add(cmp.Or(f.Username, "-"), f.ClientName, cmp.Or(f.Account, "-"), term.Listed(f.Scopes, "-"), term.ShowTime(f.CreatedAt), term.ShowTimeOrNever(f.UsedAt), term.ShowTime(f.ExpiresAt), f.FamilyID)
		}
		return t.Flush()
	})
	return c
}

// mustKnow refuses filters that name nobody, for which a call gives an empty list.
func (a *adminClient) mustKnow(ctx context.Context, user, client string) error {
	if user != "" {
		if _, err := userPath(ctx, a, user); err != nil {
			return err
		}
	}
	if client == "" {
		return nil
	}
	return a.call(ctx, "GET", pathOf("clients", client), nil, nil)
}

const (
	tokenFileFlag = "--token-file"
	tokenSizeMax  = 1 << 10 // bytes read of what should be a token, which has 56
)

// readToken reads a token from a file, standard input or a terminal.
func (p *program) readToken(ctx context.Context, file string) (string, error) {
	text, err := "", error(nil)
	switch {
	case file != "":
		text, err = p.ReadSecret("token", tokenFileFlag, file, tokenSizeMax)
	case !term.IsTerminal(p.In):
		err = term.Usage("give "+tokenFileFlag+" FILE, or "+tokenFileFlag+" - to read standard input", "cannot ask for a token without a terminal")
	default:
		text, err = p.AskHidden(ctx, "token", "Token: ")
	}
	if err == nil && strings.TrimSpace(text) == "" {
		err = term.Fail(term.ExitBadData, "", "the input contains no token")
	}
	return strings.TrimSpace(text), err
}

func (p *program) tokenInspect() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "inspect",
		Short: "show what a token is, and whether it is active or why not",
		Long: `Show what a token is, which user it acts for, and whether it is active or why not. It
may be an access or refresh token, an authorization code, or a browser's session cookie,
valid or not. Inspecting a token does not count as a use. The token comes from a file,
from standard input or, without echo, from a terminal, because other users can read a
command line.

Exit 0 if the token is known, active or not, and 3 if it is unknown.`,
		Args: noSecretOperand(),
		RunE: p.doing(func(ctx context.Context, _ []string) error {
			token, err := p.readToken(ctx, file)
			if err != nil {
				return err
			}
			var i admin.TokenInspection
			err = p.manage(ctx, "token inspect", needsData, func(a *adminClient) error {
				return a.call(ctx, "POST", "/admin/token-inspect", map[string]string{"token": token}, &i)
			})
			if err != nil {
				return err
			}
			if p.JSON {
				return p.PrintJSON(i)
			}
			return p.PrintRows(inspectionRows(i)...)
		}),
	}
	addTokenFlag(c, &file, "`file` with the token, or - for standard input (default: ask on the terminal)")
	return c
}

func addTokenFlag(c *cobra.Command, file *string, about string) {
	c.Flags().StringVar(file, strings.TrimPrefix(tokenFileFlag, "--"), "", about)
	nameVariables(c.Flags(), "") // the token is named on the command line
}

// noSecretOperand refuses operands without repeating them: one may be the token.
func noSecretOperand() cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return term.Usage("give "+tokenFileFlag+" FILE, or - for standard input: other users can read a command line", "%s takes no operand", c.CommandPath())
		}
		return nil
	}
}

// endings explain why a token is not active.
var endings = map[string]string{
	"expired":              "it has expired",
	"spent":                "it was exchanged for a new one",
	"retired":              "it was replaced because the response with it was lost",
	"used":                 "it was exchanged for tokens",
	"client_deleted":       "its client was deleted",
	"client_disabled":      "its client is disabled",
	"client_tokens_ended":  "the tokens of its client have been revoked since",
	"user_deleted":         "the user was deleted",
	"account_deleted":      "the account was deleted",
	"account_disabled":     "the account is disabled",
	"account_tokens_ended": "the account was disabled since, or all its tokens were revoked",
	"user_disabled":        "the user is disabled",
	"user_tokens_ended":    "the user has been disabled or given a new password since",
	"code_replayed":        "revoked: its authorization code was used twice",
	"refresh_reused":       "revoked: a refresh token of its family was used twice",
	"retired_refresh_used": "revoked: a replaced refresh token of its family was used",
	"revoked_by_client":    "revoked by its client",
	"revoked_by_user":      "revoked by the user",
	"revoked_by_operator":  "revoked by the operator",
}

func inspectionRows(i admin.TokenInspection) []term.Row {
	rows := []term.Row{{"kind", strings.ReplaceAll(i.Kind, "_", " ")}}
	if i.Active {
		rows = append(rows, term.Row{"active", "yes"})
	} else {
		rows = append(rows, term.Row{"active", "no: " + cmp.Or(endings[i.Reason], i.Reason)})
	}
	if i.Kind == "session" {
		rows = append(rows, term.Row{"session id", i.SessionID})
	} else {
		rows = append(rows, term.Row{"family id", cmp.Or(i.FamilyID, "-")}, term.Row{"client id", i.ClientID}, term.Row{"client", cmp.Or(i.ClientName, "-")})
	}
	rows = append(rows, term.Row{"user id", cmp.Or(i.UserID, "-")}, term.Row{"user", cmp.Or(i.Username, "-")}, term.Row{"account", cmp.Or(i.Account, "-")})
	if len(i.Scopes) > 0 {
		rows = append(rows, term.Row{"scopes", term.Listed(i.Scopes, "-")})
	}
	if i.IssuedAt != 0 {
		rows = append(rows, term.Row{"issued", term.ShowTime(i.IssuedAt)})
	}
	if i.FamilyID != "" {
		rows = append(rows, term.Row{"family used", term.ShowTimeOrNever(i.UsedAt)})
	}
	return append(rows, term.Row{"expires", term.ShowTime(i.ExpiresAt)})
}

func (p *program) tokenRevoke() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "revoke [FAMILY_ID]",
		Short: "revoke a token family",
		Long: `Revoke a token family, by the id that token list shows or by any of its tokens. All its
tokens are refused from the next request on. A leaked token identifies its family even
after it has expired. Authorization codes that its client has not redeemed for its user
are revoked too, and webhook endpoints that the family created are disabled, even if the
family had already ended. The client can ask the user for a new authorization.`,
	}
	addTokenFlag(c, &file, "`file` with a token of the family, or - for standard input")
	c.Args = func(c *cobra.Command, args []string) error {
		if file == "" {
			return idOperand(familyIDs)(c, args)
		}
		return noSecretOperand()(c, args)
	}
	c.RunE = p.doing(func(ctx context.Context, args []string) error {
		path, in := "/admin/token-revoke", any(nil)
		if file == "" {
			path = pathOf("authorizations", args[0], "revoke")
		} else {
			token, err := p.readToken(ctx, file)
			if err != nil {
				return err
			}
			in = map[string]string{"token": token}
		}
		var ended admin.AdminRevocation
		err := p.manage(ctx, "token revoke", needsData, func(a *adminClient) error { return a.call(ctx, "POST", path, in, &ended) })
		if err != nil {
			return err
		}
		endpoints := term.Count(int64(ended.WebhooksDisabled), "webhook endpoint", "webhook endpoints")
		if ended.HadEnded {
			return p.Done(ended, "family %s had already ended; disabled %s that it created", ended.FamilyID, endpoints)
		}
		did := fmt.Sprintf("revoked family %s: %s can no longer act for %s", ended.FamilyID, ended.ClientName, cmp.Or(ended.Username, ended.Account, "any account"))
		if ended.WebhooksDisabled > 0 {
			did += "; disabled " + endpoints + " that it created"
		}
		return p.Done(ended, "%s", did)
	})
	return c
}

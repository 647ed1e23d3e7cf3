package cli

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// familyShown is what a client may do for a user, as the admin API gives it.
type familyShown struct {
	FamilyID   string   `json:"family_id"`
	ClientID   string   `json:"client_id"`
	ClientName string   `json:"client_name"`
	UserID     string   `json:"user_id"`
	Username   string   `json:"username"`
	Account    string   `json:"account"`
	Scopes     []string `json:"scopes"`
	CreatedAt  int64    `json:"created_at"` // all in Unix seconds
	UsedAt     int64    `json:"used_at,omitempty"`
	ExpiresAt  int64    `json:"expires_at"`
}

func (p *program) tokenCommand() *cobra.Command {
	c := asGroup(&cobra.Command{
		Use:   "token",
		Short: "see which client may act for whom, and end it",
		Long: `See which client may act for whom, and end it.

All tokens that descend from one authorization are a family. It has an id, which
names it here, in the log and in the audit record, and opens nothing.`,
	})
	c.AddCommand(p.tokenList(), p.tokenInspect(), p.tokenRevoke())
	return c
}

func (p *program) tokenList() *cobra.Command {
	var user, client string
	c := &cobra.Command{
		Use:   "list",
		Short: "list the live families of tokens",
		Long: `List the live families of tokens: by user, and of each the newest first. A family is
live until it is revoked, its client or user is disabled, or its time is up; that its
last access token has expired does not end it.`,
		Args: operands(),
	}
	flags := c.Flags()
	flags.StringVar(&client, "client", "", "only those of the client of this `id`")
	addUserFlag(flags, &user, "only those for the user of this `name`")
	c.RunE = p.doing(func(ctx context.Context, _ []string) error {
		var found []familyShown // a table is sorted, and so read whole
		path := only("/admin/families", map[string]string{"user": user, "client": client})
		err := list(ctx, p, "token list", path, func(f familyShown) string { return f.FamilyID }, func(f familyShown) {
			found = append(found, f)
		})
		if err != nil {
			return err
		}
		slices.SortFunc(found, func(a, b familyShown) int {
			return cmp.Or(strings.Compare(a.Username, b.Username), cmp.Compare(b.CreatedAt, a.CreatedAt), strings.Compare(a.FamilyID, b.FamilyID))
		})
		t := p.newTable("USER", "CLIENT", "ACCOUNT", "SCOPES", "SINCE", "LAST USED", "EXPIRES", "FAMILY ID")
		for _, f := range found {
			t.add(f.Username, f.ClientName, f.Account, listed(f.Scopes, "-"), showTime(f.CreatedAt), showTimeOrNever(f.UsedAt), showTime(f.ExpiresAt), f.FamilyID)
		}
		return t.flush()
	})
	return c
}

func showTimeOrNever(seconds int64) string {
	if seconds == 0 {
		return "never"
	}
	return showTime(seconds)
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
		text, err = p.readSecret("token", tokenFileFlag, file, tokenSizeMax)
	case !isTerminal(p.stdin):
		err = usage("give "+tokenFileFlag+" FILE, or "+tokenFileFlag+" - to read standard input", "there is no terminal to ask for a token")
	default:
		text, err = p.askHidden(ctx, "token", "Token: ")
	}
	if err == nil && strings.TrimSpace(text) == "" {
		err = fail(exitBadData, "", "there is no token in it")
	}
	return strings.TrimSpace(text), err
}

// inspection is what the admin API tells of a token.
type inspection struct {
	Kind       string   `json:"kind"`
	Active     bool     `json:"active"`
	Reason     string   `json:"reason,omitempty"`
	FamilyID   string   `json:"family_id,omitempty"`
	SessionID  string   `json:"session_id,omitempty"`
	ClientID   string   `json:"client_id,omitempty"`
	ClientName string   `json:"client_name,omitempty"`
	UserID     string   `json:"user_id"`
	Username   string   `json:"username,omitempty"`
	Account    string   `json:"account,omitempty"`
	Scopes     []string `json:"scopes,omitempty"`
	IssuedAt   int64    `json:"issued_at,omitempty"`
	UsedAt     int64    `json:"used_at,omitempty"`
	ExpiresAt  int64    `json:"expires_at"`
}

func (p *program) tokenInspect() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "inspect",
		Short: "tell what a token is, and whether it lives or why not",
		Long: `Tell what a token is, whom it speaks for, and whether it lives or why not. It may be
an access or refresh token, an authorization code, or a browser's session cookie, dead
or alive; to ask is no use of it. It comes from a file, from standard input or, unseen,
from a terminal: a command line can be read by others.

Exit 0 when it is known, dead or alive, and 3 when it is not.`,
		Args: noSecretOperand(),
		RunE: p.doing(func(ctx context.Context, _ []string) error {
			token, err := p.readToken(ctx, file)
			if err != nil {
				return err
			}
			var i inspection
			err = p.manage(ctx, "token inspect", needsData, func(a *admin) error {
				return a.call(ctx, "POST", "/admin/token-inspect", map[string]string{"token": token}, &i)
			})
			if err != nil {
				return err
			}
			if p.json {
				return p.printJSON(i)
			}
			return p.printRows(i.rows()...)
		}),
	}
	addTokenFlag(c, &file, "a `file` with the token, or - for standard input; without it a terminal is asked")
	return c
}

func addTokenFlag(c *cobra.Command, file *string, about string) {
	c.Flags().StringVar(file, strings.TrimPrefix(tokenFileFlag, "--"), "", about)
	nameVariables(c.Flags(), "") // which token is meant is said on the command line
}

// noSecretOperand refuses operands without repeating them: one may be the token.
func noSecretOperand() cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usage("give "+tokenFileFlag+" FILE, or - for standard input: a command line can be read by others", "%s takes no operand", c.CommandPath())
		}
		return nil
	}
}

// endings say in words why a token is dead.
var endings = map[string]string{
	"expired":              "it has expired",
	"spent":                "it was exchanged for a new one",
	"retired":              "it was replaced: the answer that held it was lost",
	"used":                 "it was exchanged for tokens",
	"client_deleted":       "its client was deleted",
	"client_disabled":      "its client is disabled",
	"client_tokens_ended":  "the tokens of its client were ended since",
	"user_deleted":         "the user was deleted",
	"user_disabled":        "the user is disabled",
	"user_tokens_ended":    "the user was disabled or given another password since",
	"code_replayed":        "revoked: its authorization code was used twice",
	"refresh_reused":       "revoked: a refresh token of its family was used twice",
	"retired_refresh_used": "revoked: a replaced refresh token of its family was used",
	"revoked_by_client":    "revoked by its client",
	"revoked_by_user":      "revoked by the user",
	"revoked_by_operator":  "revoked by the operator",
}

func (i inspection) rows() []row {
	rows := []row{{"kind", strings.ReplaceAll(i.Kind, "_", " ")}}
	if i.Active {
		rows = append(rows, row{"lives", "yes"})
	} else {
		rows = append(rows, row{"lives", "no: " + cmp.Or(endings[i.Reason], i.Reason)})
	}
	if i.Kind == "session" {
		rows = append(rows, row{"session id", i.SessionID})
	} else {
		rows = append(rows, row{"family id", orDash(i.FamilyID)}, row{"client id", i.ClientID}, row{"client", orDash(i.ClientName)})
	}
	rows = append(rows, row{"user id", i.UserID}, row{"user", orDash(i.Username)}, row{"account", orDash(i.Account)})
	if len(i.Scopes) > 0 {
		rows = append(rows, row{"scopes", listed(i.Scopes, "-")})
	}
	if i.IssuedAt != 0 {
		rows = append(rows, row{"issued", showTime(i.IssuedAt)})
	}
	if i.FamilyID != "" {
		rows = append(rows, row{"family used", showTimeOrNever(i.UsedAt)})
	}
	return append(rows, row{"expires", showTime(i.ExpiresAt)})
}

func (p *program) tokenRevoke() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "revoke [FAMILY_ID]",
		Short: "end a family of tokens, at the very next request",
		Long: `End a family of tokens, by the id that list shows or by any of its tokens: all tokens
of that authorization are dead from the next request on. A token that leaked tells its
family even if it is dead itself. The client can ask its user anew.`,
	}
	addTokenFlag(c, &file, "a `file` with a token of the family, or - for standard input")
	c.Args = func(c *cobra.Command, args []string) error {
		if file == "" {
			return idOperand(familyIDs)(c, args)
		}
		return noSecretOperand()(c, args)
	}
	c.RunE = p.doing(func(ctx context.Context, args []string) error {
		path, in := "/admin/token-revoke", any(nil)
		if file == "" {
			path = pathOf("families", args[0], "revoke")
		} else {
			token, err := p.readToken(ctx, file)
			if err != nil {
				return err
			}
			in = map[string]string{"token": token}
		}
		var ended familyShown
		err := p.manage(ctx, "token revoke", needsData, func(a *admin) error { return a.call(ctx, "POST", path, in, &ended) })
		if err != nil {
			return err
		}
		return p.done(ended, "revoked the family %s: %s can no longer act for %s", ended.FamilyID, ended.ClientName, ended.Username)
	})
	return c
}

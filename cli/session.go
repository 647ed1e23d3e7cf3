package cli

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
)

func (p *program) sessionCommand() *cobra.Command {
	c := asGroup(&cobra.Command{Use: "session", Short: "list and revoke browser sign-ins"})
	c.AddCommand(p.sessionList(), p.sessionRevoke())
	return c
}

// addUserFlag adds --user. It has no variable: what is revoked is named on the
// command line.
func addUserFlag(flags *pflag.FlagSet, user *string, about string) {
	flags.StringVar(user, "user", "", about)
	nameVariables(flags, "")
}

func (p *program) sessionList() *cobra.Command {
	var user string
	c := &cobra.Command{
		Use:   "list",
		Short: "list the active sign-ins",
		Long: `List the active browser sign-ins, sorted by user and then newest first. A session id
identifies a sign-in but gives no access.

A sign-in expires when it is not used for the server's --session-idle. If no server is
running, the default of that flag applies.`,
		Args: operands(),
	}
	addUserFlag(c.Flags(), &user, "only sign-ins of the user with this `name`")
	c.RunE = p.doing(func(ctx context.Context, _ []string) error {
		var found []admin.AdminSession // a table is sorted, and so read whole
		path := only("/admin/sessions", map[string]string{"user": user})
		err := list(ctx, p, "session list", path, func(s admin.AdminSession) {
			found = append(found, s)
		})
		if err != nil {
			return err
		}
		slices.SortFunc(found, func(a, b admin.AdminSession) int {
			return cmp.Or(strings.Compare(a.Username, b.Username), cmp.Compare(b.CreatedAt, a.CreatedAt), strings.Compare(a.SessionID, b.SessionID))
		})
		t := p.NewTable("USER", "ACCOUNT", "SINCE", "LAST SEEN", "EXPIRES", "SESSION ID")
		for _, s := range found {
			t.Add(s.Username, s.Account, term.ShowTime(s.CreatedAt), term.ShowTime(s.SeenAt), term.ShowTime(s.ExpiresAt), s.SessionID)
		}
		return t.Flush()
	})
	return c
}

func (p *program) sessionRevoke() *cobra.Command {
	var user string
	c := &cobra.Command{
		Use:   "revoke [SESSION_ID]",
		Short: "sign out one browser, or all browsers of a user",
		Long: `Sign out one browser, by the id that session list shows, or all browsers of a user.
Tokens of clients stay valid: revoke them with tollhouse token revoke, or sign-ins and
tokens together with tollhouse user disable. --user also revokes the user's authorization
codes that have not been redeemed.`,
	}
	addUserFlag(c.Flags(), &user, "all sign-ins of the user with this `name`")
	c.Args = func(c *cobra.Command, args []string) error {
		if user == "" {
			return idOperand(sessionIDs)(c, args)
		}
		return operands()(c, args)
	}
	c.RunE = p.doing(func(ctx context.Context, args []string) error {
		if user != "" {
			return p.revokeSessionsOf(ctx, user)
		}
		var ended admin.AdminSession
		err := p.manage(ctx, "session revoke", needsData, func(a *adminClient) error {
			return a.call(ctx, "POST", adminPathOf("sessions", args[0], "revoke"), nil, &ended)
		})
		if err != nil {
			return err
		}
		return p.Done(ended, "revoked a session of %s: %s", ended.Username, ended.SessionID)
	})
	return c
}

func (p *program) revokeSessionsOf(ctx context.Context, user string) error {
	var ended struct {
		UserID   string `json:"user_id"`
		Username string `json:"username"`
		Sessions int64  `json:"sessions"`
	}
	err := p.manage(ctx, "session revoke", needsData, func(a *adminClient) error {
		return a.call(ctx, "POST", "/admin/session-revoke", map[string]string{"user": user}, &ended)
	})
	if err != nil {
		return err
	}
	return p.Done(ended, "revoked %s of %s", term.Count(ended.Sessions, "session", "sessions"), ended.Username)
}

// idKind is a kind of id that the server made.
type idKind struct{ prefix, needs, hint string }

var (
	sessionIDs = idKind{"ses_", "a session id, or --user", "tollhouse session list shows the ids"}
	familyIDs  = idKind{"fam_", "a family id, or --token-file", "tollhouse token list shows the ids; --token-file FILE takes a token"}
)

// idOperand takes one id. Anything else may be a pasted secret, so it is neither
// sent nor printed.
func idOperand(kind idKind) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		for _, arg := range args {
			if !strings.HasPrefix(arg, kind.prefix) {
				return term.Usage(kind.hint, "the operand of %s is not an id: ids begin with %s", c.CommandPath(), kind.prefix)
			}
		}
		return operands(kind.needs)(c, args)
	}
}

package cli

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// sessionShown is a browser sign-in as the admin API gives it.
type sessionShown struct {
	SessionID string `json:"session_id"`
	UserID    string `json:"user_id"`
	Username  string `json:"username"`
	Account   string `json:"account"`
	CreatedAt int64  `json:"created_at"` // all in Unix seconds
	SeenAt    int64  `json:"seen_at"`
	ExpiresAt int64  `json:"expires_at"`
}

func (p *program) sessionCommand() *cobra.Command {
	c := asGroup(&cobra.Command{Use: "session", Short: "see who is signed in with a browser, and sign them out"})
	c.AddCommand(p.sessionList(), p.sessionRevoke())
	return c
}

// addUserFlag takes the name of a user whom a list or a change is about. No
// variable sets it: what ends is named on the command line.
func addUserFlag(flags *pflag.FlagSet, user *string, about string) {
	flags.StringVar(user, "user", "", about)
	nameVariables(flags, "")
}

func (p *program) sessionList() *cobra.Command {
	var user string
	c := &cobra.Command{
		Use:   "list",
		Short: "list the live sign-ins",
		Long: `List the live sign-ins of browsers: by user, and of each the newest first. Their ids
name them and open nothing.

A sign-in ends when it is not used for as long as --session-idle of the server says.
Without a server that is taken to be its default.`,
		Args: operands(),
	}
	addUserFlag(c.Flags(), &user, "only those of the user of this `name`")
	c.RunE = p.doing(func(ctx context.Context, _ []string) error {
		var found []sessionShown // a table is sorted, and so read whole
		path := only("/admin/sessions", map[string]string{"user": user})
		err := list(ctx, p, "session list", path, func(s sessionShown) string { return s.SessionID }, func(s sessionShown) {
			found = append(found, s)
		})
		if err != nil {
			return err
		}
		slices.SortFunc(found, func(a, b sessionShown) int {
			return cmp.Or(strings.Compare(a.Username, b.Username), cmp.Compare(b.CreatedAt, a.CreatedAt), strings.Compare(a.SessionID, b.SessionID))
		})
		t := p.newTable("USER", "ACCOUNT", "SINCE", "LAST SEEN", "EXPIRES", "SESSION ID")
		for _, s := range found {
			t.add(s.Username, s.Account, showTime(s.CreatedAt), showTime(s.SeenAt), showTime(s.ExpiresAt), s.SessionID)
		}
		return t.flush()
	})
	return c
}

func (p *program) sessionRevoke() *cobra.Command {
	var user string
	c := &cobra.Command{
		Use:   "revoke [SESSION_ID]",
		Short: "sign a browser out, or all browsers of a user",
		Long: `Sign a browser out, by the id that list shows, or all browsers of a user. The tokens
of clients live on: tollhouse token revoke ends those, and tollhouse user disable
ends everything.`,
	}
	addUserFlag(c.Flags(), &user, "all sign-ins of the user of this `name`")
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
		var ended sessionShown
		err := p.manage(ctx, "session revoke", needsData, func(a *admin) error {
			return a.call(ctx, "POST", pathOf("sessions", args[0], "revoke"), nil, &ended)
		})
		if err != nil {
			return err
		}
		return p.done(ended, "signed %s out of the session %s", ended.Username, ended.SessionID)
	})
	return c
}

func (p *program) revokeSessionsOf(ctx context.Context, user string) error {
	var ended struct {
		UserID   string `json:"user_id"`
		Username string `json:"username"`
		Sessions int64  `json:"sessions"`
	}
	err := p.manage(ctx, "session revoke", needsData, func(a *admin) error {
		return a.call(ctx, "POST", pathOf("users", user, "revoke-sessions"), nil, &ended)
	})
	if err != nil {
		return err
	}
	return p.done(ended, "signed %s out of %s", ended.Username, count(ended.Sessions, "session", "sessions"))
}

// idKind is a kind of id that the server made.
type idKind struct{ prefix, needs, hint string }

var (
	sessionIDs = idKind{"ses_", "a session id, or --user", "tollhouse session list shows the ids"}
	familyIDs  = idKind{"fam_", "a family id, or --token-file", "tollhouse token list shows the ids; --token-file FILE takes a token"}
)

// idOperand takes one id. What does not look like one may be a secret that was
// pasted: it is neither sent nor repeated.
func idOperand(kind idKind) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		for _, arg := range args {
			if !strings.HasPrefix(arg, kind.prefix) {
				return usage(kind.hint, "what %s is given is no id: those begin with %s", c.CommandPath(), kind.prefix)
			}
		}
		return operands(kind.needs)(c, args)
	}
}

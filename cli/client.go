package cli

import (
	"cmp"
	"context"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
)

func (p *program) clientCommand() *cobra.Command {
	c := asGroup(&cobra.Command{
		Use:   "client",
		Short: "manage the clients that may request tokens",
		Long: `Manage the clients that may request tokens.

Without --grant a client has the default grants: password, authorization_code and
refresh_token. A public client has the last two. Without --scope it may have every data
scope: events:read, resources:read, resources:write, webhooks:read and webhooks:write.

A platform client manages accounts and acts for all of them, without a user. It has the
scopes that it names: the data scopes, and accounts:read, users:read, clients:read,
tokens:read, accounts:write, accounts:act, accounts:erase, users:write, users:recover,
clients:write, tokens:revoke and audit:read.`,
	})
	c.AddCommand(p.clientCreate(), p.clientList(), p.clientShow(), p.clientUpdate(), p.clientRotateSecret(),
		p.clientAbility("disable", "disable a client and revoke its tokens"),
		p.clientAbility("enable", "enable a client again; its old tokens stay revoked"), p.clientDelete())
	return c
}

func (p *program) clientCreate() *cobra.Command {
	var asked struct {
		Name         string   `json:"name"`
		RedirectURIs []string `json:"redirect_uris"`
		Grants       []string `json:"grants"`
		Scopes       []string `json:"scopes"`
		Public       bool     `json:"public"`
		Introspect   bool     `json:"introspect"`
		Consent      string   `json:"consent"`
		Account      string   `json:"account"`
		Platform     bool     `json:"platform"`
	}
	c := &cobra.Command{
		Use:   "create --name NAME --redirect-uri URI",
		Short: "register an application; its secret is shown once",
		Args:  operands(),
		RunE: p.doing(func(ctx context.Context, _ []string) error {
			if asked.Name == "" {
				return term.Usage("give --name; users see it on the consent screen", "client create needs a name")
			}
			asked.Grants, asked.Scopes = term.SplitLists(asked.Grants), term.SplitLists(asked.Scopes)
			var made admin.AdminClient
			err := p.manage(ctx, "client create", makesData, func(a *adminClient) error {
				return a.call(ctx, "POST", pathOf("clients"), asked, &made)
			})
			if err != nil {
				return err
			}
			if made.ClientSecret != "" && !p.JSON {
				p.Note("this is the only time the secret is shown: store it now")
			}
			return p.showClient(made)
		}),
	}
	flags := c.Flags()
	flags.StringVar(&asked.Name, "name", "", "the `name` shown to users on the consent screen")
	flags.StringArrayVar(&asked.RedirectURIs, "redirect-uri", nil, "a redirect `URI`; may be given several times")
	addGrantFlags(flags, &asked.Grants, &asked.Scopes)
	flags.BoolVar(&asked.Public, "public", false, "a client that cannot keep a secret: it gets none and must use PKCE")
	flags.BoolVar(&asked.Introspect, "introspect", false, "allow it to introspect the tokens of every client")
	addConsentFlag(flags, &asked.Consent, "ask")
	addActsFlag(flags, &asked.Account)
	flags.BoolVar(&asked.Platform, "platform", false, "a platform client, for your own backend: give it the scopes it needs with --scope")
	nameVariables(flags, "CLIENT_")
	return c
}

func addGrantFlags(flags *pflag.FlagSet, grants, scopes *[]string) {
	flags.StringArrayVar(grants, "grant", nil, "a `grant` type that the client may use: password, authorization_code, refresh_token or client_credentials (default: the first three)")
	flags.StringArrayVar(scopes, "scope", nil, "a `scope` that the client is limited to: events:read, resources:read, resources:write, webhooks:read or webhooks:write; or one that a platform client has")
}

func addConsentFlag(flags *pflag.FlagSet, consent *string, otherwise string) {
	flags.StringVar(consent, "consent", otherwise, "`mode` for users who allowed the client before: ask (each time) or remember (ask for more scopes, and after a year; not for public clients)")
}

func addActsFlag(flags *pflag.FlagSet, account *string) {
	flags.StringVar(account, "account", "", "the `account` used for client_credentials; created if needed")
}

func (p *program) clientList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "list the clients",
		Args:  operands(),
		RunE: p.doing(func(ctx context.Context, _ []string) error {
			t := p.NewTable("CLIENT ID", "NAME", "GRANTS", "SCOPES", "KIND", "ACCOUNT", "DISABLED")
			err := list(ctx, p, "client list", pathOf("clients"), func(c admin.AdminClient) {
				t.Add(c.ClientID, c.Name, term.Listed(c.Grants, "-"), term.Listed(c.Scopes, "all"), clientKind(c), cmp.Or(c.Account, "-"), term.YesNo(c.Disabled))
			})
			if err != nil {
				return err
			}
			return t.Flush()
		}),
	}
}

func clientKind(c admin.AdminClient) string {
	switch {
	case c.Platform:
		return "platform"
	case c.Public:
		return "public"
	}
	return "confidential"
}

func (p *program) clientShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show CLIENT_ID",
		Short: "show a client",
		Args:  operands("a client id"),
		RunE: p.doing(func(ctx context.Context, args []string) error {
			return p.changeClient(ctx, "client show", "GET", nil, args[0])
		}),
	}
}

// changeClient makes one call about a client and shows the result.
func (p *program) changeClient(ctx context.Context, role, method string, in any, path ...string) error {
	var c admin.AdminClient
	err := p.manage(ctx, role, needsData, func(a *adminClient) error {
		return a.call(ctx, method, pathOf(slices.Concat([]string{"clients"}, path)...), in, &c)
	})
	if err != nil {
		return err
	}
	return p.showClient(c)
}

func (p *program) showClient(c admin.AdminClient) error {
	if p.JSON {
		return p.PrintJSON(c)
	}
	rows := []term.Row{{"client id", c.ClientID}}
	if c.ClientSecret != "" {
		rows = append(rows, term.Row{"client secret", c.ClientSecret})
	}
	return p.PrintRows(append(rows, term.Row{"name", c.Name}, term.Row{"redirect URIs", term.Listed(c.RedirectURIs, "-")}, term.Row{"grants", term.Listed(c.Grants, "-")},
		term.Row{"scopes", term.Listed(c.Scopes, "all")}, term.Row{"kind", clientKind(c)}, term.Row{"introspect", term.YesNo(c.Introspect)}, term.Row{"consent", c.Consent}, term.Row{"account", cmp.Or(c.Account, "-")}, term.Row{"disabled", term.YesNo(c.Disabled)})...)
}

func (p *program) clientUpdate() *cobra.Command {
	var name string
	var uris, added, removed, grants, scopes []string
	var introspect bool
	var consent, account string
	c := &cobra.Command{
		Use:   "update CLIENT_ID",
		Short: "change the settings of a client",
		Args:  operands("a client id"),
	}
	flags := c.Flags()
	flags.StringVar(&name, "name", "", "a new `name`")
	flags.StringArrayVar(&uris, "redirect-uri", nil, "a redirect `URI`; those given replace all others")
	flags.StringArrayVar(&added, "add-redirect-uri", nil, "a `URI` to add")
	flags.StringArrayVar(&removed, "remove-redirect-uri", nil, "a `URI` to remove")
	addGrantFlags(flags, &grants, &scopes)
	flags.BoolVar(&introspect, "introspect", false, "allow it to introspect the tokens of every client; --introspect=false withdraws this")
	addConsentFlag(flags, &consent, "")
	addActsFlag(flags, &account)
	nameVariables(flags, "")
	mayBeEmpty(flags, "scope", "account")
	c.RunE = p.doing(func(ctx context.Context, args []string) error {
		change := map[string]any{}
		for flag, member := range map[string]struct {
			name  string
			value any
		}{
			"name": {"name", name}, "redirect-uri": {"redirect_uris", uris}, "add-redirect-uri": {"add_redirect_uris", added},
			"remove-redirect-uri": {"remove_redirect_uris", removed}, "grant": {"grants", term.SplitLists(grants)},
			"scope": {"scopes", append([]string{}, term.SplitLists(scopes)...)}, "introspect": {"introspect", introspect},
			"consent": {"consent", consent}, "account": {"account", account},
		} {
			if flags.Changed(flag) {
				change[member.name] = member.value
			}
		}
		if len(change) == 0 {
			return term.Usage(c.CommandPath()+" --help lists the flags", "client update needs at least one change")
		}
		return p.changeClient(ctx, "client update", "PATCH", change, args[0])
	})
	return c
}

func (p *program) clientRotateSecret() *cobra.Command {
	var asked struct {
		RevokeTokens bool `json:"revoke_tokens"`
	}
	c := &cobra.Command{
		Use:   "rotate-secret CLIENT_ID",
		Short: "create a new secret for a client; the previous one keeps working",
		Args:  operands("a client id"),
		RunE: p.doing(func(ctx context.Context, args []string) error {
			var made admin.ClientSecret
			err := p.manage(ctx, "client rotate-secret", needsData, func(a *adminClient) error {
				return a.call(ctx, "POST", pathOf("clients", args[0], "rotate-secret"), asked, &made)
			})
			if err != nil {
				return err
			}
			if p.JSON {
				return p.PrintJSON(made)
			}
			p.Note("this is the only time the secret is shown: store it now")
			return p.PrintRows(term.Row{"client id", made.ClientID}, term.Row{"client secret", made.ClientSecret})
		}),
	}
	c.Flags().BoolVar(&asked.RevokeTokens, "revoke-tokens", false, "after a leak: immediately revoke the old secret and all tokens of the client, and disable the webhook endpoints created with them")
	nameVariables(c.Flags(), "")
	return c
}

// clientAbility is disable or enable.
func (p *program) clientAbility(verb, short string) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " CLIENT_ID",
		Short: short,
		Args:  operands("a client id"),
		RunE: p.doing(func(ctx context.Context, args []string) error {
			return p.changeClient(ctx, "client "+verb, "POST", nil, args[0], verb)
		}),
	}
}

func (p *program) clientDelete() *cobra.Command {
	return p.deleteCommand(deletion{
		what: "client", path: pathIn("clients"), operand: "CLIENT_ID", needs: "a client id", member: "client_id",
		short:    "delete a client and revoke its tokens",
		question: "Delete the client %s? Its tokens are revoked immediately.",
	})
}

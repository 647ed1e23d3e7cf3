package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// clientShown is a client as the admin API gives it.
type clientShown struct {
	ClientID     string   `json:"client_id"`
	ClientSecret string   `json:"client_secret,omitempty"`
	Name         string   `json:"name"`
	RedirectURIs []string `json:"redirect_uris"`
	Grants       []string `json:"grants"`
	Scopes       []string `json:"scopes"`
	Public       bool     `json:"public"`
	Introspect   bool     `json:"introspect"`
	Disabled     bool     `json:"disabled"`
}

func (p *program) clientCommand() *cobra.Command {
	c := asGroup(&cobra.Command{Use: "client", Short: "manage the programs that may ask for tokens"})
	c.AddCommand(p.clientCreate(), p.clientList(), p.clientShow(), p.clientUpdate(), p.clientRotateSecret(),
		p.clientAbility("disable", "refuse a client and end its tokens"),
		p.clientAbility("enable", "accept a client again; its old tokens stay dead"), p.clientDelete())
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
	}
	c := &cobra.Command{
		Use:   "create --name NAME --redirect-uri URI",
		Short: "make a client; its secret is shown once",
		Args:  operands(),
		RunE: p.doing(func(ctx context.Context, _ []string) error {
			if asked.Name == "" {
				return usage("give --name, which people see when they are asked to allow the client", "client create needs a name")
			}
			asked.Grants, asked.Scopes = splitLists(asked.Grants), splitLists(asked.Scopes)
			var made clientShown
			err := p.manage(ctx, "client create", makesData, func(a *admin) error {
				return a.call(ctx, "POST", "/admin/clients", asked, &made)
			})
			if err != nil {
				return err
			}
			if made.ClientSecret != "" && !p.json {
				p.note("the secret is shown this once: keep it now")
			}
			return p.showClient(made)
		}),
	}
	flags := c.Flags()
	flags.StringVar(&asked.Name, "name", "", "the `name` that people see when they are asked to allow the client")
	flags.StringArrayVar(&asked.RedirectURIs, "redirect-uri", nil, "a `URI` to which users may be sent back; may be given several times")
	addGrantFlags(flags, &asked.Grants, &asked.Scopes)
	flags.BoolVar(&asked.Public, "public", false, "a client that cannot keep a secret: it gets none, and must use PKCE")
	flags.BoolVar(&asked.Introspect, "introspect", false, "may introspect the tokens of every client")
	nameVariables(flags, "CLIENT_")
	return c
}

func addGrantFlags(flags *pflag.FlagSet, grants, scopes *[]string) {
	flags.StringArrayVar(grants, "grant", nil, "a `grant` that the client may use: password, authorization_code or refresh_token (default: all)")
	flags.StringArrayVar(scopes, "scope", nil, "a `scope` to which the client is narrowed: events:read, resources:read or resources:write")
}

func (p *program) clientList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "list the clients",
		Args:  operands(),
		RunE: p.doing(func(ctx context.Context, _ []string) error {
			t := p.newTable("CLIENT ID", "NAME", "GRANTS", "SCOPES", "KIND", "DISABLED")
			err := list(ctx, p, "client list", "/admin/clients", func(c clientShown) string { return c.ClientID }, func(c clientShown) {
				t.add(c.ClientID, c.Name, listed(c.Grants, "-"), listed(c.Scopes, "all"), c.kind(), yesNo(c.Disabled))
			})
			if err != nil {
				return err
			}
			return t.flush()
		}),
	}
}

func (c clientShown) kind() string {
	if c.Public {
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

// changeClient makes one call about a client and shows what it is then.
func (p *program) changeClient(ctx context.Context, role, method string, in any, path ...string) error {
	var c clientShown
	err := p.manage(ctx, role, needsData, func(a *admin) error {
		return a.call(ctx, method, pathOf(slices.Concat([]string{"clients"}, path)...), in, &c)
	})
	if err != nil {
		return err
	}
	return p.showClient(c)
}

func (p *program) showClient(c clientShown) error {
	if p.json {
		return p.printJSON(c)
	}
	rows := []row{{"client id", c.ClientID}}
	if c.ClientSecret != "" {
		rows = append(rows, row{"client secret", c.ClientSecret})
	}
	return p.printRows(append(rows, row{"name", c.Name}, row{"redirect URIs", listed(c.RedirectURIs, "-")}, row{"grants", listed(c.Grants, "-")},
		row{"scopes", listed(c.Scopes, "all")}, row{"kind", c.kind()}, row{"introspect", yesNo(c.Introspect)}, row{"disabled", yesNo(c.Disabled)})...)
}

func (p *program) clientUpdate() *cobra.Command {
	var name string
	var uris, added, removed, grants, scopes []string
	var introspect bool
	c := &cobra.Command{
		Use:   "update CLIENT_ID",
		Short: "change what is said of a client",
		Args:  operands("a client id"),
	}
	flags := c.Flags()
	flags.StringVar(&name, "name", "", "a new `name`")
	flags.StringArrayVar(&uris, "redirect-uri", nil, "a `URI` of the list that replaces the redirect URIs")
	flags.StringArrayVar(&added, "add-redirect-uri", nil, "a `URI` to add")
	flags.StringArrayVar(&removed, "remove-redirect-uri", nil, "a `URI` to remove")
	addGrantFlags(flags, &grants, &scopes)
	flags.BoolVar(&introspect, "introspect", false, "may introspect the tokens of every client; --introspect=false takes it away")
	nameVariables(flags, "")
	c.RunE = p.doing(func(ctx context.Context, args []string) error {
		change := map[string]any{}
		for flag, member := range map[string]struct {
			name  string
			value any
		}{
			"name": {"name", name}, "redirect-uri": {"redirect_uris", uris}, "add-redirect-uri": {"add_redirect_uris", added},
			"remove-redirect-uri": {"remove_redirect_uris", removed}, "grant": {"grants", splitLists(grants)},
			"scope": {"scopes", append([]string{}, splitLists(scopes)...)}, "introspect": {"introspect", introspect},
		} {
			if flags.Changed(flag) {
				change[member.name] = member.value
			}
		}
		if len(change) == 0 {
			return usage(c.CommandPath()+" --help lists the flags", "client update is not told what to change")
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
		Short: "give a client a new secret; the one before goes on working beside it",
		Args:  operands("a client id"),
		RunE: p.doing(func(ctx context.Context, args []string) error {
			var made struct {
				ClientID     string `json:"client_id"`
				ClientSecret string `json:"client_secret"`
			}
			err := p.manage(ctx, "client rotate-secret", needsData, func(a *admin) error {
				return a.call(ctx, "POST", pathOf("clients", args[0], "rotate-secret"), asked, &made)
			})
			if err != nil {
				return err
			}
			if p.json {
				return p.printJSON(made)
			}
			p.note("the secret is shown this once: keep it now")
			return p.printRows(row{"client id", made.ClientID}, row{"client secret", made.ClientSecret})
		}),
	}
	c.Flags().BoolVar(&asked.RevokeTokens, "revoke-tokens", false, "the secret leaked: end the old one and all tokens of the client at once")
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
		what: "client", operand: "CLIENT_ID", needs: "a client id", member: "client_id",
		short:    "remove a client and end its tokens",
		question: "Delete the client %s? Its tokens end at once.",
	})
}

package cli

import (
	"cmp"
	"context"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tollhouse/handlers/api"
	"tollhouse/store"
	"tollhouse/store/moving"
	"tollhouse/store/secret"
)

// The shell asks this binary for completions: commands, flags and their values, and
// the names that a running server knows. If the server is missing, slow or another
// user's, nothing is proposed or printed, because the user is typing a line.

const completionMax = 500 // names proposed: the largest page of the admin API

var completionWait = 500 * time.Millisecond // for the server; longer feels stuck

func (p *program) completionCommand() *cobra.Command {
	c := asGroup(&cobra.Command{
		Use:   "completion",
		Short: "print the completion script for a shell",
		Long: `Print a script that lets a shell complete commands, flags, and the ids of clients,
users, accounts, sessions and token families. The ids come from the server that runs
on the data directory.

  source <(tollhouse completion bash)
  tollhouse completion bash > /etc/bash_completion.d/tollhouse
  tollhouse completion zsh > "${fpath[1]}/_tollhouse"
  tollhouse completion fish > ~/.config/fish/completions/tollhouse.fish`,
	})
	for shell, write := range map[string]func(*cobra.Command, io.Writer) error{
		"bash": func(root *cobra.Command, to io.Writer) error { return root.GenBashCompletionV2(to, true) },
		"zsh":  (*cobra.Command).GenZshCompletion,
		"fish": func(root *cobra.Command, to io.Writer) error { return root.GenFishCompletion(to, true) },
	} {
		c.AddCommand(&cobra.Command{
			Use:   shell,
			Short: "print the script for " + shell,
			Args:  operands(),
			RunE:  func(c *cobra.Command, _ []string) error { return write(c.Root(), p.Out) },
		})
	}
	return c
}

// namedThings describes a list of the server whose ids can be completed.
type namedThings struct {
	list, id, about string
	prefix          string // of ids that are only known to be whole, or ""
	unsorted        bool   // the list is in another order, and so read from its start
}

var thingsOf = map[string]namedThings{
	"client":  {list: pathOf("clients"), id: "client_id", about: "name"},
	"user":    {list: pathOf("users"), id: "username", about: "account", unsorted: true},
	"account": {list: pathOf("accounts"), id: "account", about: "name"},
	"session": {list: "/admin/sessions", id: "session_id", about: "username", prefix: "ses_"},
	"webhook": {list: "/admin/webhook-endpoints", id: "id", about: "url", prefix: "wep_"},
	"token":   {list: pathOf("authorizations"), id: "family_id", about: "username", prefix: "fam_"},
}

// behind returns the list position just before all names with this prefix.
func (n namedThings) behind(begun string) string {
	if n.unsorted {
		return ""
	}
	if n.prefix == "" {
		return begun
	}
	digits, ok := strings.CutPrefix(begun, n.prefix)
	if !ok || digits == "" {
		return ""
	}
	return begun + strings.Repeat("0", max(secret.CrockfordSize-len(digits), 0))
}

// valuesOf lists the values of flags that take one of a few.
var valuesOf = map[string][]string{
	"card-guard":    {"refuse", "warn", "off"},
	"engine":        {"memory", "badger"},
	"log-format":    {"auto", "text", "json"},
	"tls":           {"off", "auto", "files"},
	"webhooks":      {"on", "off"},
	"second-factor": {"off", "offered", "operators", "all"},
	"only":          moving.Nouns(),
	"order":         {"strict", "none"},
	"grant":         {"password", "authorization_code", "refresh_token", "client_credentials"},
	"scope":         append(store.ScopeNames(), store.PlatformScopeNames()...),
}

// addCompletion registers completions on every command, but only when a shell asks
// for them, because registering takes time.
func (p *program) addCompletion(root *cobra.Command, args []string) {
	if len(args) == 0 || !strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		return
	}
	if c, _, err := root.Find(args[1:]); err == nil {
		root.PersistentFlags().VisitAll(func(f *pflag.Flag) { f.Hidden = !matters(c, f.Name) })
	}
	eachCommand(root, func(c *cobra.Command) {
		things, named := thingsOf[c.Parent().Name()]
		switch operand := strings.TrimPrefix(c.Use, c.Name()); {
		case strings.Contains(operand, "FILE"):
		case named && operand != "" && c.Name() != "create":
			c.ValidArgsFunction = onlyFirst(p.namesOf(things))
		default:
			c.ValidArgsFunction = cobra.NoFileCompletions
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) { p.teachFlag(c, f) })
	})
	_ = root.MarkPersistentFlagDirname("data")
}

// teachFlag ignores errors: each flag exists and is registered once.
func (p *program) teachFlag(c *cobra.Command, f *pflag.Flag) {
	switch values, fixed := valuesOf[f.Name]; {
	case fixed:
		_ = c.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	case f.Name == "account" || f.Name == "client" || f.Name == "user":
		_ = c.RegisterFlagCompletionFunc(f.Name, p.namesOf(thingsOf[f.Name]))
	case !strings.HasSuffix(f.Name, "file") && f.Name != "data" && f.Name != "admin-socket":
		_ = c.RegisterFlagCompletionFunc(f.Name, cobra.NoFileCompletions)
	}
}

func eachCommand(c *cobra.Command, visit func(*cobra.Command)) {
	for _, sub := range c.Commands() {
		visit(sub)
		eachCommand(sub, visit)
	}
}

// onlyFirst completes the first operand only.
func onlyFirst(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(c, args, begun)
	}
}

// namesOf asks the server for the names that begin with the typed word.
func (p *program) namesOf(things namedThings) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, begun string) (names []string, _ cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmp.Or(c.Context(), context.Background()), completionWait)
		defer cancel()
		a, err := p.connectRunning(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer a.close()
		query := url.Values{"limit": {strconv.Itoa(completionMax)}}
		if behind := things.behind(begun); behind != "" {
			query.Set("after", behind)
		}
		for len(names) < completionMax {
			var page api.Page[map[string]any]
			if err := a.call(ctx, "GET", things.list+"?"+query.Encode(), nil, &page); err != nil {
				break
			}
			for _, thing := range page.Data {
				name, _ := thing[things.id].(string)
				about, _ := thing[things.about].(string)
				if strings.HasPrefix(name, begun) {
					names = append(names, cobra.CompletionWithDesc(name, about))
				}
			}
			if !things.unsorted || !page.HasMore {
				break
			}
			query.Set("after", page.Next)
		}
		slices.Sort(names)
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

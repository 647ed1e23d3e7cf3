package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"tollhouse/cli/term"
)

// purged is the admin API's answer to a purge.
type purged struct {
	Account   string `json:"account"`
	Kind      string `json:"kind,omitempty"`
	Resource  string `json:"resource,omitempty"`
	Events    int64  `json:"events"`
	Resources int64  `json:"resources"`
}

func (p *program) eventPurge() *cobra.Command {
	var account, kind, resource string
	c := &cobra.Command{
		Use:   "purge --account ACCOUNT",
		Short: "permanently remove the events of an account or of one resource",
		Long: `Permanently remove all events of an account, or those of one of its resources, and the
resources themselves. The purge is recorded in the audit record. If it is interrupted,
run it again to finish it. Existing backups, and copies that clients have read, still
contain the events.

On a terminal it asks for confirmation, unless --yes is given. Without a terminal it
does not ask.`,
		Args: operands(),
	}
	flags := c.Flags()
	flags.StringVar(&account, "account", "", "the `account` that owns the events")
	flags.StringVar(&kind, "kind", "", "remove only one resource: its `kind`, such as customer")
	flags.StringVar(&resource, "resource", "", "remove only one resource: its `id`")
	nameVariables(flags, "") // what is removed for good is named on the command line
	c.RunE = p.doing(func(ctx context.Context, _ []string) error {
		whose, err := purgeOf(account, kind, resource)
		if err != nil {
			return err
		}
		if err := p.Confirm(ctx, "Permanently remove all events of %s? This cannot be undone.", whose); err != nil {
			return err
		}
		asked := map[string]string{"account": account, "kind": kind, "resource": resource}
		var removed purged
		err = p.manage(ctx, "event purge", needsData, func(a *adminClient) error {
			return p.Wait("removing events", func() error { return a.call(ctx, "POST", "/admin/event-purge", asked, &removed) })
		})
		if err != nil {
			return err
		}
		return p.Done(removed, "removed %s and %s of %s", term.Count(removed.Events, "event", "events"), term.Count(removed.Resources, "resource", "resources"), whose)
	})
	return c
}

// purgeOf describes what a purge removes.
func purgeOf(account, kind, resource string) (string, error) {
	switch {
	case account == "":
		return "", term.Usage("give --account; tollhouse account list shows the accounts", "event purge needs an account")
	case kind == "" && resource == "":
		return "the account " + account, nil
	case resource == "":
		return "", term.Usage("give --resource too, or leave --kind out to purge the whole account", "--kind %s alone does not name a resource", kind)
	case kind == "":
		return "", term.Usage("give --kind too, such as --kind customer", "resources of several kinds may have the id %s", resource)
	}
	return fmt.Sprintf("the %s %s of the account %s", kind, resource, account), nil
}

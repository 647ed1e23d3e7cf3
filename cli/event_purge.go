package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

// purged is what a purge removed, as the admin API tells it.
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
		Short: "remove events for good, of an account or of one resource",
		Long: `Remove the events of an account for good, or those of one of its resources, and
the resources themselves. What is removed is not found any more, and a line in the
audit record says that there was a purge. One that is cut short is finished by
running it again. Backups, and what others have read, keep what they have.

On a terminal it asks first, unless --yes is given. Where there is nobody to ask it
does as it is told.`,
		Args: operands(),
		RunE: p.doing(func(ctx context.Context, _ []string) error {
			whose, err := purgeOf(account, kind, resource)
			if err != nil {
				return err
			}
			if err := p.confirm("Remove all events of %s for good? This cannot be undone.", whose); err != nil {
				return err
			}
			asked := map[string]string{"account": account, "kind": kind, "resource": resource}
			var removed purged
			err = p.manage(ctx, "event purge", needsData, func(a *admin) error {
				return p.waiting("removing events", func() error { return a.call(ctx, "POST", "/admin/event-purge", asked, &removed) })
			})
			if err != nil {
				return err
			}
			return p.done(removed, "removed %s and %s of %s", count(removed.Events, "event", "events"), count(removed.Resources, "resource", "resources"), whose)
		}),
	}
	flags := c.Flags()
	flags.StringVar(&account, "account", "", "the `account` that owns the events")
	flags.StringVar(&kind, "kind", "", "only of one resource: its `kind`, such as customer")
	flags.StringVar(&resource, "resource", "", "only of one resource: its `id`")
	nameVariables(flags, "") // what is removed for good is named on the command line
	return c
}

// purgeOf names what a purge is about.
func purgeOf(account, kind, resource string) (string, error) {
	switch {
	case account == "":
		return "", usage("give --account; tollhouse account list shows those that there are", "event purge needs an account")
	case kind == "" && resource == "":
		return "the account " + account, nil
	case resource == "":
		return "", usage("give --resource too, or leave --kind out to purge the whole account", "--kind %s alone names no resource", kind)
	case kind == "":
		return "", usage("give --kind too, such as --kind customer", "resources of several kinds may have the id %s", resource)
	}
	return fmt.Sprintf("the %s %s of the account %s", kind, resource, account), nil
}

package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tollhouse/cli/term"
)

func (p *program) eventCommand() *cobra.Command {
	c := asGroup(&cobra.Command{Use: "event", Short: "import, export, read and purge events"})
	c.AddCommand(p.eventImport(), p.eventExport(), p.eventGenerate(), p.eventList(), p.eventTail(), p.eventGet(), p.eventPurge())
	return c
}

// addAccountFlag adds the account of a command on events. By default the server
// chooses it.
func addAccountFlag(c *cobra.Command, account *string) {
	c.Flags().StringVar(account, "account", "", "the `account` that owns the events (default: default; in dev: acct_demo)")
}

func addTypeFlag(c *cobra.Command, types *[]string) {
	c.Flags().StringArrayVar(types, "type", nil, "only events of this `type`, such as customer.updated, 'customer.*', '*.deleted' or '*'; may be given several times")
}

func addFilterFlags(c *cobra.Command, types, resources *[]string) {
	addTypeFlag(c, types)
	c.Flags().StringArrayVar(resources, "resource", nil, "only events about the resource with this `id`; may be given several times")
}

// filterQuery returns the filters of a query for events.
func filterQuery(account string, types, resources []string) url.Values {
	query := accountQuery(account)
	for name, values := range map[string][]string{"type[]": types, "resource[]": resources} {
		for _, value := range values {
			parts := term.SplitLists([]string{value})
			if len(parts) == 0 {
				parts = []string{value} // an empty filter, which the server refuses
			}
			query[name] = append(query[name], parts...)
		}
	}
	return query
}

func accountQuery(account string) url.Values {
	query := url.Values{}
	if account != "" {
		query.Set("account", account)
	}
	return query
}

func (p *program) eventExport() *cobra.Command {
	var account string
	c := &cobra.Command{
		Use:   "export",
		Short: "print all events of an account as JSON lines, oldest first",
		Args:  operands(),
		RunE: p.doing(func(ctx context.Context, _ []string) error {
			return p.manage(ctx, "event export", needsData, func(a *adminClient) error {
				answer, err := a.send(ctx, "GET", "/admin/event-export?"+accountQuery(account).Encode(), "", nil)
				if err != nil {
					return err
				}
				defer answer.Body.Close()
				_, err = p.receiveLines(p.Out, answer, "Tollhouse-Events")
				return err
			})
		}),
	}
	addAccountFlag(c, &account)
	return c
}

// eventShown is what a table of events shows of one.
type eventShown struct {
	ID        string `json:"id"`
	Owner     string `json:"owner"`
	Resource  string `json:"resource"`
	Source    string `json:"source"`
	Type      string `json:"type"`
	CreatedAt int64  `json:"createdAt"`
}

func (p *program) eventList() *cobra.Command {
	var account, order, after, before string
	var types, resources []string
	var since, until term.Ago
	var limit int
	c := &cobra.Command{
		Use:   "list",
		Short: "list events, newest first",
		Args:  operands(),
	}
	flags := c.Flags()
	addAccountFlag(c, &account)
	addFilterFlags(c, &types, &resources)
	flags.Var(&since, "since", "only events at or after this `time`: 2026-03-09, RFC 3339, Unix seconds, or an age such as 2h")
	flags.Var(&until, "until", "only events at or before this `time`; a day includes all of it")
	flags.IntVar(&limit, "limit", 50, "how many events to list, at most 1000")
	flags.StringVar(&order, "order", "desc", "desc (newest first) or asc")
	flags.StringVar(&after, "after", "", "start after the event with this `id`")
	flags.StringVar(&before, "before", "", "stop before the event with this `id`")
	c.RunE = p.doing(func(ctx context.Context, _ []string) error {
		if after != "" && before != "" {
			return term.Usage("leave one of them out", "--after and --before cannot be combined")
		}
		if !since.IsZero() && !until.IsZero() && since.After(until.Last()) {
			return term.Usage("swap them, or leave one out", "--since %s is later than --until %s", &since, &until)
		}
		query := filterQuery(account, types, resources)
		query.Set("limit", strconv.Itoa(limit))
		query.Set("order", order)
		for name, value := range map[string]string{"after": after, "before": before} {
			if value != "" {
				query.Set(name, value)
			}
		}
		if !since.IsZero() {
			query.Set("createdAt[gte]", strconv.FormatInt(since.Unix(), 10))
		}
		if !until.IsZero() {
			query.Set("createdAt[lte]", strconv.FormatInt(until.Last().Unix(), 10))
		}
		return inFlags(listFlags, p.manage(ctx, "event list", needsData, func(a *adminClient) error { return p.listEvents(ctx, a, query) }))
	})
	return c
}

// flagName is the flag for a parameter of the API, and the hint for when its value is
// refused; "" for the server's own hint.
type flagName struct{ flag, hint string }

// listFlags maps the parameters of a list of events to flags.
var listFlags = map[string]flagName{
	"type[]":     {"--type", "use a type that event list shows, for example --type customer.updated"},
	"resource[]": {"--resource", "use a resource that event list shows, for example --resource cus_4tn8k2w1"},
	"limit":      {"--limit", "for more, use --after with the last id of the previous page"},
	"order":      {"--order", "leave it out for the newest first"},
	"after":      {"--after", "event list shows the ids"},
	"before":     {"--before", "event list shows the ids"},
}

// inFlags rewrites the server's refusal of a parameter to name the flag instead.
// The server's message starts with the parameter and has advice after a semicolon.
func inFlags(flags map[string]flagName, err error) error {
	var f *term.Failure
	if !errors.As(err, &f) {
		return err
	}
	named, ok := flags[f.Param]
	reason, begins := strings.CutPrefix(f.Error(), f.Param+" ")
	if !ok || !begins {
		return err
	}
	reason, advice, _ := strings.Cut(reason, "; ")
	if advice == "" || strings.Contains(advice, f.Param) {
		advice = cmp.Or(named.hint, f.Hint)
	}
	return term.Fail(f.Code, advice, "%s %s", named.flag, reason)
}

func (p *program) listEvents(ctx context.Context, a *adminClient, query url.Values) error {
	var page struct {
		Data       []json.RawMessage `json:"data"`
		HasMore    bool              `json:"hasMore"`
		NextCursor string            `json:"nextCursor"`
	}
	answer, err := a.send(ctx, "GET", "/admin/events?"+query.Encode(), "", nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&page); err != nil {
		return brokenAnswer(err)
	}
	p.noteAll(answer.Header.Values("Tollhouse-Notice"))
	t := p.NewTable("CREATED", "TYPE", "RESOURCE", "SOURCE", "ID")
	for _, raw := range page.Data {
		if p.JSON {
			fmt.Fprintf(p.Out, "%s\n", raw)
			continue
		}
		var e eventShown
		if err := json.Unmarshal(raw, &e); err != nil {
			return fmt.Errorf("read an event: %w", err)
		}
		t.Add(term.ShowTime(e.CreatedAt), e.Type, e.Resource, e.Source, e.ID)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if page.HasMore && !p.JSON {
		p.Note("more events follow: --after %s", page.NextCursor)
	}
	return nil
}

func (p *program) eventGet() *cobra.Command {
	var account string
	c := &cobra.Command{
		Use:   "get EVENT_ID",
		Short: "print one event as JSON",
		Args:  operands("an event id"),
		RunE: p.doing(func(ctx context.Context, args []string) error {
			var raw json.RawMessage
			err := p.manage(ctx, "event get", needsData, func(a *adminClient) error {
				return a.call(ctx, "GET", adminPathOf("events", args[0])+"?"+accountQuery(account).Encode(), nil, &raw)
			})
			if err != nil {
				return err
			}
			if p.JSON {
				_, err = fmt.Fprintf(p.Out, "%s\n", bytes.TrimSpace(raw))
				return err
			}
			var indented bytes.Buffer
			if err := json.Indent(&indented, raw, "", "  "); err != nil {
				return err
			}
			_, err = fmt.Fprintf(p.Out, "%s\n", bytes.TrimSpace(indented.Bytes()))
			return err
		}),
	}
	addAccountFlag(c, &account)
	return c
}

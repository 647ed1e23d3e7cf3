package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

func (p *program) eventCommand() *cobra.Command {
	c := asGroup(&cobra.Command{Use: "event", Short: "move and read events"})
	c.AddCommand(p.eventImport(), p.eventExport(), p.eventGenerate(), p.eventList(), p.eventTail(), p.eventGet(), p.eventPurge())
	return c
}

// addAccountFlag takes the account of a command on events. When none is named
// the server chooses: its own of dev, else default.
func addAccountFlag(c *cobra.Command, account *string) {
	c.Flags().StringVar(account, "account", "", "the `account` that owns the events (default: default, in dev acct_demo)")
}

// addFilterFlags takes which events are wanted.
func addFilterFlags(c *cobra.Command, types, resources *[]string) {
	c.Flags().StringArrayVar(types, "type", nil, "a `type` of event, such as customer.updated; 'customer.*', '*.deleted' and '*' are all that match; may be given several times")
	c.Flags().StringArrayVar(resources, "resource", nil, "only events about the resource with this `id`; may be given several times")
}

// filterQuery is the part of a query that says which events are wanted.
func filterQuery(account string, types, resources []string) url.Values {
	query := accountQuery(account)
	for name, values := range map[string][]string{"type[]": types, "resource[]": resources} {
		for _, value := range values {
			parts := splitLists([]string{value})
			if len(parts) == 0 {
				parts = []string{value} // for the server to refuse: it is no filter, but was meant as one
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
		Short: "write all events of an account as JSON lines, oldest first",
		Args:  operands(),
		RunE: p.doing(func(ctx context.Context, _ []string) error {
			return p.manage(ctx, "event export", needsData, func(a *admin) error {
				answer, err := a.send(ctx, "GET", "/admin/event-export?"+accountQuery(account).Encode(), "", nil)
				if err != nil {
					return err
				}
				defer answer.Body.Close()
				shown := p.toOutput("exporting", answer.Body)
				defer shown.clear()
				lines := &lineCounter{r: shown}
				if _, err := io.Copy(p.stdout, lines); err != nil {
					return fail(exitIO, "what was written is not all: run it again", "the export broke off: %w", err)
				}
				if told := answer.Trailer.Get("Tollhouse-Events"); told != "" && told != strconv.FormatInt(lines.lines(), 10) {
					return fail(exitIO, "what was written is not all: run it again", "the server sent %s events and %d arrived", told, lines.lines())
				}
				return nil
			})
		}),
	}
	addAccountFlag(c, &account)
	return c
}

// eventShown is what a table of events shows of one.
type eventShown struct {
	ID        string `json:"id"`
	Resource  string `json:"resource"`
	Source    string `json:"source"`
	Type      string `json:"type"`
	CreatedAt int64  `json:"createdAt"`
}

func (p *program) eventList() *cobra.Command {
	var account, order, after, before string
	var types, resources []string
	var since, until lookback
	var limit int
	c := &cobra.Command{
		Use:   "list",
		Short: "list events, newest first",
		Args:  operands(),
	}
	flags := c.Flags()
	addAccountFlag(c, &account)
	addFilterFlags(c, &types, &resources)
	flags.Var(&since, "since", "only events from this `time` on: RFC 3339, Unix seconds, or how long ago, such as 2h")
	flags.Var(&until, "until", "only events up to this `time`")
	flags.IntVar(&limit, "limit", 50, "how many, at most 1000")
	flags.StringVar(&order, "order", "desc", "desc (newest first) or asc")
	flags.StringVar(&after, "after", "", "begin after the event with this `id`")
	flags.StringVar(&before, "before", "", "end before the event with this `id`")
	c.RunE = p.doing(func(ctx context.Context, _ []string) error {
		if after != "" && before != "" {
			return usage("leave one of them out", "--after and --before are both given, but a page lies on one side of one event")
		}
		if !since.IsZero() && !until.IsZero() && since.After(until.Time) {
			return usage("swap them, or leave one out", "--since %s is later than --until %s", &since, &until)
		}
		query := filterQuery(account, types, resources)
		query.Set("limit", strconv.Itoa(limit))
		query.Set("order", order)
		for name, value := range map[string]string{"after": after, "before": before} {
			if value != "" {
				query.Set(name, value)
			}
		}
		for name, m := range map[string]lookback{"createdAt[gte]": since, "createdAt[lte]": until} {
			if !m.IsZero() {
				query.Set(name, strconv.FormatInt(m.Unix(), 10))
			}
		}
		return inFlags(p.manage(ctx, "event list", needsData, func(a *admin) error { return p.listEvents(ctx, a, query) }))
	})
	return c
}

// listFlags are the flags behind the parameters of a list of events, each with
// the next step when it is refused.
var listFlags = map[string]struct{ flag, hint string }{
	"type[]":     {"--type", "name types as event list shows them, for example --type customer.updated"},
	"resource[]": {"--resource", "name resources as event list shows them, for example --resource cus_4tn8k2w1"},
	"limit":      {"--limit", "to see more, go on with --after and the last id of the page before"},
	"order":      {"--order", "leave it out for the newest first"},
	"after":      {"--after", "give an id as event list shows it"},
	"before":     {"--before", "give an id as event list shows it"},
}

// inFlags tells a refusal of a list by the flag that was given, not by the
// parameter that it became. The server begins with the parameter's name, and
// puts advice behind a semicolon.
func inFlags(err error) error {
	var f *fault
	if !errors.As(err, &f) {
		return err
	}
	named, ok := listFlags[f.param]
	reason, begins := strings.CutPrefix(f.Error(), f.param+" ")
	if !ok || !begins {
		return err
	}
	reason, advice, _ := strings.Cut(reason, "; ")
	if advice == "" || strings.Contains(advice, f.param) {
		advice = named.hint
	}
	return fail(f.code, advice, "%s %s", named.flag, reason)
}

func (p *program) listEvents(ctx context.Context, a *admin, query url.Values) error {
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
	for _, notice := range answer.Header.Values("Tollhouse-Notice") {
		p.note("%s", printable(notice))
	}
	t := p.newTable("CREATED", "TYPE", "RESOURCE", "SOURCE", "ID")
	for _, raw := range page.Data {
		if p.json {
			fmt.Fprintf(p.stdout, "%s\n", raw)
			continue
		}
		var e eventShown
		if err := json.Unmarshal(raw, &e); err != nil {
			return fmt.Errorf("read an event: %w", err)
		}
		t.add(showTime(e.CreatedAt), e.Type, e.Resource, printable(e.Source), e.ID)
	}
	if err := t.flush(); err != nil {
		return err
	}
	if page.HasMore && !p.json {
		p.note("there are more: --after %s", page.NextCursor)
	}
	return nil
}

// printable keeps what a caller recorded from steering the terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if strconv.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
}

func (p *program) eventGet() *cobra.Command {
	var account string
	c := &cobra.Command{
		Use:   "get EVENT_ID",
		Short: "print one event as JSON",
		Args:  operands("an event id"),
		RunE: p.doing(func(ctx context.Context, args []string) error {
			var raw json.RawMessage
			err := p.manage(ctx, "event get", needsData, func(a *admin) error {
				return a.call(ctx, "GET", pathOf("events", args[0])+"?"+accountQuery(account).Encode(), nil, &raw)
			})
			if err != nil {
				return err
			}
			if p.json {
				_, err = fmt.Fprintf(p.stdout, "%s\n", bytes.TrimSpace(raw))
				return err
			}
			var indented bytes.Buffer
			if err := json.Indent(&indented, raw, "", "  "); err != nil {
				return err
			}
			_, err = fmt.Fprintf(p.stdout, "%s\n", bytes.TrimSpace(indented.Bytes()))
			return err
		}),
	}
	addAccountFlag(c, &account)
	return c
}

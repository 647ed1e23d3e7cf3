package cli

import (
	"context"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"tollhouse/cli/term"
	"tollhouse/handlers/api"
	"tollhouse/store/eventlog"
	"tollhouse/store/webhook"
)

const webhooksAdmin = "/admin/webhook-endpoints"

func (p *program) webhookCommand() *cobra.Command {
	c := asGroup(&cobra.Command{
		Use:   "webhook",
		Short: "deliver events to the URLs of other programs",
		Long: `Deliver events to the URLs of other programs.

An event that the receiver keeps refusing while it accepts the next one is parked: it is
retried alongside the others for about three days. After that, or when it is skipped, it
is dead: it stays listed and is sent again only by webhook retry.`,
	})
	c.AddCommand(p.webhookCreate(), p.webhookList(), p.webhookShow(), p.webhookUpdate(), p.webhookDelete(),
		p.webhookEnable(), p.webhookCall("disable", "stop deliveries to an endpoint; it keeps its position in the log"),
		p.webhookCall("skip", "skip the blocking event and mark it dead"),
		p.webhookRotateSecret(), p.webhookDeliveries(), p.webhookRetry(), p.webhookSendTest(),
		p.webhookHold("hold", "hold all deliveries until webhook resume"),
		p.webhookHold("resume", "resume all deliveries, for example after a restore"), p.webhookListen())
	return c
}

func (p *program) webhookCreate() *cobra.Command {
	var account, secretFile string
	var all bool
	var asked struct {
		URL         string   `json:"url"`
		Types       []string `json:"types,omitempty"`
		Description string   `json:"description,omitempty"`
		Order       string   `json:"order,omitempty"`
		From        string   `json:"from,omitempty"`
		Secret      string   `json:"secret,omitempty"`
	}
	c := &cobra.Command{
		Use:   "create --url URL",
		Short: "deliver an account's events to a URL; the secret is shown once",
		Long: `Deliver the events of an account to a URL. The secret, with which receivers check the
requests, is shown once.

With --all-accounts, deliver the events of all accounts in the order in which they were
recorded; the server needs --feed. Positions are then those of the feed, and the default
order is none, so that an event of one account does not stop those of the others.`,
		Args: operands(),
	}
	flags := c.Flags()
	flags.StringVar(&asked.URL, "url", "", "the `URL` that events are posted to")
	addAccountFlag(c, &account)
	addAllAccountsFlag(c, &all)
	addTypeFlag(c, &asked.Types)
	flags.StringVar(&asked.Description, "description", "", "a `text` for people")
	flags.StringVar(&asked.Order, "order", "", "the delivery `order`: strict is that of the log, none is as fast as possible (default strict)")
	flags.StringVar(&asked.From, "from", "", "begin at a `position` in the log: now, start, after the event with this id, or at a time such as 2h or 2026-03-09 (default now)")
	flags.StringVar(&secretFile, "secret-file", "", "`file` with a secret of your own, - for standard input; without it the endpoint gets a new one")
	nameVariables(flags, "")
	p.addAllowFlag(c)
	c.RunE = p.doing(func(ctx context.Context, _ []string) error {
		if asked.URL == "" {
			return term.Usage("give it as https://books.example/hook", "webhook create needs --url")
		}
		err := checkText("--url", asked.URL)
		if err != nil {
			return err
		}
		if asked.Secret, err = p.ownWebhookSecret(secretFile); err != nil {
			return err
		}
		if asked.From, err = logPosition("--from", asked.From); err != nil {
			return err
		}
		asked.Types = term.SplitLists(asked.Types)
		if all && account != "" {
			return errBothAccounts()
		}
		if all {
			account = eventlog.AllAccounts
		}
		return p.showWebhook(ctx, "webhook create", true, "POST", only(webhooksAdmin, map[string]string{"account": account}), asked)
	})
	return c
}

// webhookFlags maps the members of a call about webhook endpoints to flags.
var webhookFlags = map[string]flagName{
	"types":       {"--type", ""},
	"description": {"--description", ""},
	"order":       {"--order", ""},
	"from":        {"--from", ""},
	"to":          {"--to", ""},
	"state":       {"--state", ""},
	"overlap":     {"--overlap", "give 0s to 168h"},
}

// logPosition returns a position in the log as the API takes it, with a time in seconds. A
// day means its first second, or with --to its last.
func logPosition(flag, text string) (string, error) {
	var at term.Ago
	switch {
	case at.Set(text) == nil && flag == "--to":
		return strconv.FormatInt(at.Last().Unix(), 10), nil
	case at.Set(text) == nil:
		return strconv.FormatInt(at.Unix(), 10), nil
	case text == "", eventlog.IsID(text): // now and start are spelt like ids
		return text, nil
	}
	return "", term.Usage("use now, start, the id of an event, or a time such as 2h, 2026-03-09 or 2026-03-09T15:30:00Z", "%s %q is not a position in the log", flag, text)
}

// checkText refuses what JSON would change silently.
func checkText(flag, text string) error {
	if utf8.ValidString(text) {
		return nil
	}
	return term.Usage("percent-encode it", "%s is not valid UTF-8", flag)
}

// addAllowFlag is for checking a URL without a server, which has its own rules.
func (p *program) addAllowFlag(c *cobra.Command) {
	c.Flags().StringArrayVar(&p.webhookAllow, "webhook-allow", nil, "without a server: allow this private `host`, address or network, as for serve; may be given several times")
}

// ownWebhookSecret reads a secret of the caller's own; "" if no file is named.
func (p *program) ownWebhookSecret(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	sec, err := p.readWebhookSecret(file)
	if err != nil {
		return "", err
	}
	return sec.Reveal(), nil
}

// showWebhook makes one call about an endpoint and shows the endpoint. A call that seals or
// opens a secret needs the server key.
func (p *program) showWebhook(ctx context.Context, role string, seals bool, method, path string, in any) error {
	var e api.WebhookEndpoint
	err := p.manage(ctx, role, needsData, func(a *adminClient) error {
		if seals {
			if err := a.requireKey(); err != nil {
				return err
			}
		}
		return a.call(ctx, method, path, in, &e)
	})
	if err != nil {
		return inFlags(webhookFlags, err)
	}
	p.noteAll(e.Notices)
	if p.JSON {
		return p.PrintJSON(e)
	}
	rows := []term.Row{{"id", e.ID}}
	if e.Secret != "" {
		p.Note("this is the only time the secret is shown: store it now")
		rows = append(rows, term.Row{"secret", e.Secret})
	}
	if err := p.PrintRows(append(rows, webhookRows(e.Object)...)...); err != nil {
		return err
	}
	if w := e.Waiting; w != nil && w.Events > 0 {
		count := term.Count(int64(w.Events), "event", "events")
		if w.More {
			count = "more than " + count
		}
		p.Note("%s pending since %s; to skip them: tollhouse webhook enable %s --from now", count, term.ShowTime(*w.Oldest), e.ID)
	}
	return nil
}

// noteAll prints notices of the server.
func (p *program) noteAll(notices []string) {
	for _, text := range notices {
		p.Note("%s", term.Visible(text))
	}
}

func webhookRows(e webhook.Object) []term.Row {
	rows := []term.Row{{"account", e.Account}, {"url", e.URL}, {"description", orDash(e.Description)}, {"types", strings.Join(e.Types, ", ")}, {"order", string(e.Order)},
		{"state", webhookState(e)}, {"health", string(e.Status.Health)}, {"cursor", e.Cursor}, {"created", term.ShowTime(e.CreatedAt)}}
	if e.CreatedBy.Client != nil {
		rows = append(rows, term.Row{"created by client", *e.CreatedBy.Client})
	}
	if e.CreatedBy.User != nil {
		rows = append(rows, term.Row{"created by user", *e.CreatedBy.User})
	}
	for _, s := range e.Secrets {
		ends := "does not expire"
		if s.ExpiresAt != nil {
			ends = "expires " + term.ShowTime(*s.ExpiresAt)
		}
		rows = append(rows, term.Row{"secret created", term.ShowTime(s.CreatedAt) + ", " + ends})
	}
	if of := e.Status.BlockedOn; of != nil {
		rows = append(rows, term.Row{"blocked on", *of + ", " + term.Count(int64(e.Status.Attempts), "attempt", "attempts")})
	}
	if at := e.Status.NextAttemptAt; at != nil {
		rows = append(rows, term.Row{"next attempt", term.ShowTime(*at)})
	}
	if at := e.Status.FailingSince; at != nil {
		rows = append(rows, term.Row{"failing since", term.ShowTime(*at)})
	}
	if at := e.Status.LastAttemptAt; at != nil {
		rows = append(rows, term.Row{"last attempt", term.ShowTime(*at) + ", " + webhookOutcome(e.Status.LastStatus, e.Status.LastError)})
	}
	rows = append(rows, term.Row{"parked", strconv.Itoa(e.Status.Parked)}, term.Row{"dead", strconv.Itoa(e.Status.Dead)})
	if g := e.Status.Gap; g != nil {
		rows = append(rows, term.Row{"gap", "after " + g.After + ", the oldest event left is " + g.OldestAvailable})
	}
	return rows
}

func webhookState(e webhook.Object) string {
	if e.Disabled == nil {
		return e.State
	}
	return e.State + " by " + string(e.Disabled.By) + " (" + string(e.Disabled.Reason) + ") at " + term.ShowTime(e.Disabled.At)
}

// webhookOutcome is how an attempt ended.
func webhookOutcome(status *int, failed *string) string {
	switch {
	case status != nil:
		return strconv.Itoa(*status)
	case failed != nil:
		return *failed
	}
	return "-"
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func (p *program) webhookList() *cobra.Command {
	var account, state string
	c := &cobra.Command{
		Use:   "list",
		Short: "list the webhook endpoints",
		Args:  operands(),
	}
	c.Flags().StringVar(&account, "account", "", "only those of the `account`")
	c.Flags().StringVar(&state, "state", "", "only those in this `state`: enabled, disabled or failing")
	nameVariables(c.Flags(), "")
	c.RunE = p.doing(func(ctx context.Context, _ []string) error {
		switch state {
		case "", "enabled", "disabled", "failing":
		default:
			return term.Usage("use enabled, disabled or failing", "--state %q is not a state of an endpoint", state)
		}
		t := p.NewTable("ID", "ACCOUNT", "STATE", "HEALTH", "PARKED", "DEAD", "URL")
		err := p.manage(ctx, "webhook list", needsData, func(a *adminClient) error {
			return each(ctx, a, only(webhooksAdmin, map[string]string{"account": account}), func(e webhook.Object) error {
				switch {
				case state != "" && state != e.State && (state != "failing" || e.Status.Health != webhook.HealthFailing):
				case p.JSON:
					return p.PrintJSON(e)
				default:
					t.Add(e.ID, e.Account, e.State, string(e.Status.Health), strconv.Itoa(e.Status.Parked), strconv.Itoa(e.Status.Dead), e.URL)
				}
				return nil
			})
		})
		if err != nil || p.JSON {
			return err
		}
		return t.Flush()
	})
	return c
}

func (p *program) webhookShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show ENDPOINT_ID",
		Short: "show a webhook endpoint and its state",
		Args:  operands("the id of an endpoint"),
		RunE: p.doing(func(ctx context.Context, args []string) error {
			return p.showWebhook(ctx, "webhook show", false, "GET", adminPathOf("webhook-endpoints", args[0]), nil)
		}),
	}
}

func (p *program) webhookUpdate() *cobra.Command {
	var url, description, order string
	var types []string
	c := &cobra.Command{
		Use:   "update ENDPOINT_ID",
		Short: "change the URL, types, description or order of an endpoint",
		Args:  operands("the id of an endpoint"),
	}
	flags := c.Flags()
	flags.StringVar(&url, "url", "", "a new `URL`")
	addTypeFlag(c, &types)
	flags.StringVar(&description, "description", "", "a new `text` for people")
	flags.StringVar(&order, "order", "", "a new `order`: strict or none")
	nameVariables(flags, "")
	mayBeEmpty(flags, "type", "description")
	p.addAllowFlag(c)
	c.RunE = p.doing(func(ctx context.Context, args []string) error {
		change := map[string]any{}
		for flag, member := range map[string]struct {
			name  string
			value any
		}{"url": {"url", url}, "type": {"types", term.SplitLists(types)}, "description": {"description", description}, "order": {"order", order}} {
			if flags.Changed(flag) {
				change[member.name] = member.value
			}
		}
		if err := checkText("--url", url); err != nil {
			return err
		}
		if len(change) == 0 {
			return term.Usage(c.CommandPath()+" --help lists the flags", "webhook update needs at least one change")
		}
		return p.showWebhook(ctx, "webhook update", false, "PATCH", adminPathOf("webhook-endpoints", args[0]), change)
	})
	return c
}

func webhookPath(_ context.Context, _ *adminClient, id string) (string, error) {
	return adminPathOf("webhook-endpoints", id), nil
}

func (p *program) webhookDelete() *cobra.Command {
	return p.deleteCommand(deletion{
		what: "webhook", path: webhookPath, operand: "ENDPOINT_ID", needs: "the id of an endpoint", member: "id",
		short:    "delete a webhook endpoint with its secrets and deliveries",
		question: "Delete the webhook endpoint %s? Its pending events are not delivered.",
	})
}

func (p *program) webhookEnable() *cobra.Command {
	var from string
	c := &cobra.Command{
		Use:   "enable ENDPOINT_ID",
		Short: "resume deliveries to an endpoint, or move it to another position in the log",
		Long: `Resume deliveries to an endpoint at its cursor, so events recorded in the meantime are
delivered too. --from moves the cursor, even of an enabled endpoint, and clears the parked
events after the new position, because they are sent again.

The endpoint then belongs to no client and no user: revoking tokens does not disable it.`,
		Args: operands("the id of an endpoint"),
	}
	c.Flags().StringVar(&from, "from", "", "continue at a `position` in the log: now, start, after the event with this id, or at a time such as 2h or 2026-03-09")
	nameVariables(c.Flags(), "")
	c.RunE = p.doing(func(ctx context.Context, args []string) error {
		at, err := logPosition("--from", from)
		if err != nil {
			return err
		}
		in := map[string]string{}
		if at != "" {
			in["from"] = at
		}
		return p.showWebhook(ctx, "webhook enable", true, "POST", adminPathOf("webhook-endpoints", args[0], "enable"), in)
	})
	return c
}

// webhookCall is disable or skip.
func (p *program) webhookCall(verb, short string) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " ENDPOINT_ID",
		Short: short,
		Args:  operands("the id of an endpoint"),
		RunE: p.doing(func(ctx context.Context, args []string) error {
			return p.showWebhook(ctx, "webhook "+verb, false, "POST", adminPathOf("webhook-endpoints", args[0], verb), struct{}{})
		}),
	}
}

// webhookHold is hold or resume, of the whole instance.
func (p *program) webhookHold(verb, short string) *cobra.Command {
	return &cobra.Command{
		Use:   verb,
		Short: short,
		Args:  operands(),
		RunE: p.doing(func(ctx context.Context, _ []string) error {
			var h api.WebhookHold
			err := p.manage(ctx, "webhook "+verb, needsData, func(a *adminClient) error {
				err := a.call(ctx, "POST", "/admin/webhook-"+verb, struct{}{}, &h)
				if err == nil && !h.Held && a.database != nil {
					err = a.database.KeepPlace(ctx)
				}
				return err
			})
			if err != nil {
				return err
			}
			if h.Held {
				return p.Done(h, "deliveries are held (%s); to resume: %s", heldBecause(h.Reason), p.Complete("tollhouse webhook resume"))
			}
			return p.Done(h, "deliveries are not held")
		}),
	}
}

// heldBecause says why deliveries are held.
func heldBecause(reason string) string {
	switch reason {
	case webhook.HeldRestored:
		return "after a restore"
	case webhook.HeldCopied:
		return "after the database was restored from a dump, copied or upgraded"
	}
	return "by an operator"
}

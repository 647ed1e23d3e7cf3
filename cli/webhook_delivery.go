package cli

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"tollhouse/cli/term"
	"tollhouse/handlers/api"
	"tollhouse/store/webhook"
)

func (p *program) webhookRotateSecret() *cobra.Command {
	var secretFile string
	var overlap time.Duration
	c := &cobra.Command{
		Use:   "rotate-secret ENDPOINT_ID",
		Short: "create a new secret for an endpoint; older ones stay valid for a while",
		Args:  operands("the id of an endpoint"),
	}
	c.Flags().DurationVar(&overlap, "overlap", 24*time.Hour, "`duration` for which the older secrets stay valid: at most 168h, 0s after a leak")
	c.Flags().StringVar(&secretFile, "secret-file", "", "`file` with a secret of your own, - for standard input; without it the endpoint gets a new one")
	nameVariables(c.Flags(), "")
	c.RunE = p.doing(func(ctx context.Context, args []string) error {
		if overlap%time.Second != 0 {
			return term.Usage("give whole seconds, such as 1h or 30s", "--overlap %s is not a whole number of seconds", overlap)
		}
		in := map[string]any{"overlap": int64(overlap / time.Second)}
		own, err := p.ownWebhookSecret(secretFile)
		if err != nil {
			return err
		}
		if own != "" {
			in["secret"] = own
		}
		var made api.WebhookRotated
		err = p.manage(ctx, "webhook rotate-secret", needsData, func(a *adminClient) error {
			if err := a.requireKey(); err != nil {
				return err
			}
			return a.call(ctx, "POST", adminPathOf("webhook-endpoints", args[0], "rotate-secret"), in, &made)
		})
		if err != nil {
			return inFlags(webhookFlags, err)
		}
		if p.JSON {
			return p.PrintJSON(made)
		}
		p.Note("this is the only time the secret is shown: store it now")
		return p.PrintRows(term.Row{"id", made.ID}, term.Row{"secret", made.Secret}, term.Row{"valid secrets", strconv.Itoa(len(made.Secrets))})
	})
	return c
}

func (p *program) webhookDeliveries() *cobra.Command {
	var state, event string
	var limit int
	c := &cobra.Command{
		Use:   "deliveries ENDPOINT_ID",
		Short: "list an endpoint's deliveries, newest first",
		Args:  operands("the id of an endpoint"),
	}
	c.Flags().StringVar(&state, "state", "", "only those in this `state`: delivered, retrying, parked, dead or skipped")
	c.Flags().StringVar(&event, "event", "", "only those of the event with this `id`")
	c.Flags().IntVar(&limit, "limit", 0, "at most this `number` of deliveries (default all that are kept)")
	nameVariables(c.Flags(), "")
	c.RunE = p.doing(func(ctx context.Context, args []string) error {
		t, left := p.NewTable("EVENT", "TYPE", "STATE", "ATTEMPTS", "LAST", "MS", "LAST ATTEMPT", "NEXT ATTEMPT"), limit
		path := only(adminPathOf("webhook-endpoints", args[0], "deliveries"), map[string]string{"state": state, "event": event})
		err := p.manage(ctx, "webhook deliveries", needsData, func(a *adminClient) error {
			return each(ctx, a, path, func(d webhook.ObjectDelivery) error {
				if left--; limit > 0 && left < 0 {
					return nil
				}
				if p.JSON {
					return p.PrintJSON(d)
				}
				t.Add(d.Event, d.Type, string(d.State), strconv.Itoa(d.Attempts), webhookOutcome(d.LastStatus, d.LastError), strconv.FormatInt(d.MS, 10), timeOrDash(d.LastAttemptAt), timeOrDash(d.NextAttemptAt))
				return nil
			})
		})
		if err != nil || p.JSON {
			return inFlags(webhookFlags, err)
		}
		return t.Flush()
	})
	return c
}

func timeOrDash(at *int64) string {
	if at == nil {
		return "-"
	}
	return term.ShowTime(*at)
}

func (p *program) webhookRetry() *cobra.Command {
	var state, from, to string
	var types []string
	c := &cobra.Command{
		Use:   "retry ENDPOINT_ID [EVENT_ID…]",
		Short: "deliver events again, alongside new ones",
		Long: `Deliver events again, in order, alongside new ones: those named, all that are parked
or dead (--state), or a range of the log (--from and --to).`,
		Args: cobra.ArbitraryArgs,
	}
	c.Flags().StringVar(&state, "state", "", "all in this `state`: parked or dead")
	c.Flags().StringVar(&from, "from", "", "first `position` of a range of the log: the id of an event, or a time such as 2h or 2026-03-09")
	c.Flags().StringVar(&to, "to", "", "last `position` of a range of the log: the id of an event, or a time; a day includes all of it")
	addTypeFlag(c, &types)
	nameVariables(c.Flags(), "")
	c.RunE = p.doing(func(ctx context.Context, args []string) error {
		if len(args) == 0 {
			return term.Usage(c.CommandPath()+" --help shows how", "%s needs the id of an endpoint", c.CommandPath())
		}
		ways := 0
		for _, given := range []bool{len(args) > 1, state != "", from != "" || to != ""} {
			if given {
				ways++
			}
		}
		switch {
		case ways == 0:
			return term.Usage("name events, or give --state, or --from and --to", "webhook retry needs to know which events")
		case ways > 1:
			return term.Usage("leave the others out", "webhook retry takes only one of event ids, --state, and --from with --to")
		case (from == "") != (to == ""):
			return term.Usage("give both, for example --from 2h --to 1h", "--from and --to go together")
		case len(types) > 0 && from == "":
			return term.Usage("leave it out, or give --from and --to", "--type selects events between --from and --to only")
		}
		in := map[string]any{}
		for name, value := range map[string]string{"from": from, "to": to} {
			at, err := logPosition("--"+name, value)
			if err != nil {
				return err
			}
			if at != "" {
				in[name] = at
			}
		}
		if state != "" {
			in["state"] = state
		}
		if len(args) > 1 {
			in["events"] = args[1:]
		}
		if len(types) > 0 {
			in["types"] = term.SplitLists(types)
		}
		var made api.WebhookRetried
		err := p.manage(ctx, "webhook retry", needsData, func(a *adminClient) error {
			return a.call(ctx, "POST", adminPathOf("webhook-endpoints", args[0], "retry"), in, &made)
		})
		if err != nil {
			return inFlags(webhookFlags, err)
		}
		p.noteAll(made.Notices)
		return p.Done(made, "queued %s", term.Count(int64(made.Queued), "event", "events"))
	})
	return c
}

func (p *program) webhookSendTest() *cobra.Command {
	return &cobra.Command{
		Use:   "send-test ENDPOINT_ID",
		Short: "send a test event to an endpoint now, and show its answer",
		Long: `Send an event of the type system.test, which is in no log, to an endpoint now, whatever
its state. This needs a running server. It exits with 1 if the test was not accepted.`,
		Args: operands("the id of an endpoint"),
		RunE: p.doing(func(ctx context.Context, args []string) error {
			a, err := p.connectRunning(ctx)
			if err != nil {
				return err
			}
			defer a.close()
			var tested api.WebhookTest
			if err := a.call(ctx, "POST", "/admin/webhook-endpoints/"+url.PathEscape(args[0])+"/test", struct{}{}, &tested); err != nil {
				return err
			}
			if tested.Delivered {
				return p.Done(tested, "delivered in %d ms: %s", tested.MS, webhookOutcome(tested.Status, nil))
			}
			if p.JSON {
				if err := p.PrintJSON(tested); err != nil {
					return err
				}
			}
			return term.Fail(term.ExitFailed, "see what the receiver logs", "the test was not accepted: %s", webhookOutcome(tested.Status, tested.Error))
		}),
	}
}

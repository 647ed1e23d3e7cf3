package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"tollhouse/cli/term"
	"tollhouse/handlers"
	"tollhouse/store/record"
)

const (
	auditPageSize  = 500
	auditPollEvery = time.Second
)

func (p *program) auditCommand() *cobra.Command {
	var follow bool
	var after string
	c := &cobra.Command{
		Use:   "audit",
		Short: "show sign-ins, refusals, grants, revocations and changes by operators",
		Long: `Print the audit record, oldest first: successful and refused sign-ins, grants, refused
clients, replayed codes and refresh tokens, revocations, throttling, and changes by
operators. Each line has the real reason and the request id, which the caller's answer
and the log also show. The record holds no secrets.`,
		Args: operands(),
	}
	c.Flags().BoolVar(&follow, "follow", false, "print new lines as they arrive, until interrupted; needs a running server")
	c.Flags().StringVar(&after, "after", "", "start after the line with this `id`")
	c.RunE = p.doing(func(ctx context.Context, _ []string) error {
		if after != "" {
			if _, ok := record.ParsePosition(after); !ok {
				return term.Usage("tollhouse audit --json shows the ids", "--after %q is not the id of a line", after)
			}
		}
		if follow { // without a server no lines are added
			return p.followAudit(ctx, after)
		}
		return p.manage(ctx, "audit", needsData, func(a *admin) error { return p.readAudit(ctx, a, after, false) })
	})
	return c
}

func (p *program) followAudit(ctx context.Context, after string) error {
	a, err := p.connectRunning(ctx)
	if err != nil {
		return err
	}
	return errors.Join(p.readAudit(ctx, a, after, true), a.close())
}

// readAudit prints page after page. With follow it polls every second, which is
// fast enough for people.
func (p *program) readAudit(ctx context.Context, a *admin, after string, follow bool) error {
	t := p.NewTable("AT", "WHAT", "REASON", "CLIENT", "USER", "ACCOUNT", "SOURCE", "REQUEST")
	for {
		var page struct {
			Data    []json.RawMessage `json:"data"`
			HasMore bool              `json:"hasMore"`
		}
		query := url.Values{"limit": {strconv.Itoa(auditPageSize)}}
		if after != "" {
			query.Set("after", after)
		}
		if err := a.call(ctx, "GET", "/admin/audit?"+query.Encode(), nil, &page); err != nil {
			return err
		}
		for _, raw := range page.Data {
			var l handlers.AdminAuditLine
			if err := json.Unmarshal(raw, &l); err != nil {
				return fmt.Errorf("read an audit line: %w", err)
			}
			after = l.ID
			if p.JSON {
				fmt.Fprintf(p.Out, "%s\n", raw)
				continue
			}
			t.Add(l.At, l.What, cmp.Or(l.Reason, "-"), cmp.Or(l.ClientID, "-"), cmp.Or(l.UserID, "-"), cmp.Or(l.Account, "-"), cmp.Or(l.Source, "-"), cmp.Or(l.RequestID, "-"))
		}
		if err := t.Flush(); err != nil {
			return err
		}
		if page.HasMore {
			continue
		}
		if !follow {
			return nil
		}
		if err := term.Sleep(ctx, auditPollEvery); err != nil {
			return err
		}
	}
}

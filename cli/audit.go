package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"tollhouse/store"
)

const (
	auditPageSize  = 500
	auditPollEvery = time.Second
)

// auditLine is what a table of the audit record shows of a line.
type auditLine struct {
	ID       string `json:"id"`
	At       string `json:"at"`
	What     string `json:"what"`
	Reason   string `json:"reason"`
	ClientID string `json:"client_id"`
	UserID   string `json:"user_id"`
	Account  string `json:"account"`
	Source   string `json:"source"`
	Request  string `json:"request_id"`
}

func (p *program) auditCommand() *cobra.Command {
	var follow bool
	var after string
	c := &cobra.Command{
		Use:   "audit",
		Short: "who signed in, was refused, granted, revoked, changed what",
		Long: `Print the audit record, oldest first: sign-ins and refused ones, grants, refused
clients, replayed codes and refresh tokens, revocations, throttling, and what
operators changed, each with the real reason and the id of the request, which the
caller has and the log. It holds no secrets.`,
		Args: operands(),
	}
	c.Flags().BoolVar(&follow, "follow", false, "go on with new lines as they come, until interrupted; needs a server that runs")
	c.Flags().StringVar(&after, "after", "", "begin after the line with this `id`")
	c.RunE = p.doing(func(ctx context.Context, _ []string) error {
		if after != "" {
			if _, ok := store.ParsePosition(after); !ok {
				return usage("give an id as tollhouse audit --json shows it", "--after %q is the id of no line", after)
			}
		}
		if follow { // without a server nothing new comes, and none could start
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

// readAudit prints page after page. A follower asks again each second: the
// record is for people, who do not read faster.
func (p *program) readAudit(ctx context.Context, a *admin, after string, follow bool) error {
	t := p.newTable("AT", "WHAT", "REASON", "CLIENT", "USER", "ACCOUNT", "SOURCE", "REQUEST")
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
			var l auditLine
			if err := json.Unmarshal(raw, &l); err != nil {
				return fmt.Errorf("read an audit line: %w", err)
			}
			after = l.ID
			if p.json {
				fmt.Fprintf(p.stdout, "%s\n", raw)
				continue
			}
			t.add(l.At, l.What, orDash(l.Reason), orDash(l.ClientID), orDash(l.UserID), orDash(l.Account), orDash(l.Source), orDash(l.Request))
		}
		if err := t.flush(); err != nil {
			return err
		}
		if page.HasMore {
			continue
		}
		if !follow {
			return nil
		}
		if err := sleep(ctx, auditPollEvery); err != nil {
			return err
		}
	}
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

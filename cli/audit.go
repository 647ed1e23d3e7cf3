package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
	"tollhouse/store/record"
)

const (
	auditPageSize  = 500
	auditPollEvery = time.Second
)

func (p *program) auditCommand() *cobra.Command {
	var follow bool
	var after string
	filters := map[string]*string{}
	c := &cobra.Command{
		Use:   "audit",
		Short: "show sign-ins, refusals, grants, revocations and changes",
		Long: `Print the audit record, oldest first: successful and refused sign-ins, grants, refused
clients, replayed codes and refresh tokens, revocations, throttling, and changes
by operators and platform clients. Each line has the real reason and the request id, which is also in the
caller's response and in the log. Clients, users and operators are shown by name, or by
id once deleted; --json shows both. BY is who did it: the platform client, the operator at
the desk, or - for a command. The record contains no secrets.

Many refusals within a minute become one line with their number. It appears within a
minute and has the source, client and user if they are the same for all of them.`,
		Args: operands(),
	}
	c.Flags().BoolVar(&follow, "follow", false, "print new lines as they arrive, until interrupted; needs a running server")
	c.Flags().StringVar(&after, "after", "", "start after the line with this `id`")
	for _, f := range []struct{ name, usage string }{
		{"what", "show lines of this `kind` only, such as login_refused"},
		{"user", "show lines about this user only, by `name` or id"},
		{"client", "show lines about or by this client only, by `name` or id"},
		{"operator", "show changes by this operator at the desk only, by `name` or id"},
		{"source", "show lines from this `address` or network only"},
		{"since", "show lines from this `time` on: 2026-03-09, 2026-03-09 14:30, 2h, RFC 3339 or Unix seconds; UTC"},
		{"until", "show lines up to this `time`; a day includes all of it"},
	} {
		filters[f.name] = c.Flags().String(f.name, "", f.usage)
	}
	c.RunE = p.doing(func(ctx context.Context, _ []string) error {
		wanted := url.Values{}
		for name, value := range filters {
			if *value != "" {
				wanted.Set(name, *value)
			}
		}
		if after != "" {
			if _, ok := record.ParsePosition(after); !ok {
				return term.Usage("tollhouse audit --json shows the ids", "--after %q is not the id of a line", after)
			}
		}
		if follow { // without a server no lines are added
			return p.followAudit(ctx, wanted, after)
		}
		return p.manage(ctx, "audit", needsData, func(a *adminClient) error { return p.readAudit(ctx, a, wanted, after, false) })
	})
	return c
}

func (p *program) followAudit(ctx context.Context, wanted url.Values, after string) error {
	a, err := p.connectRunning(ctx)
	if err != nil {
		return err
	}
	return errors.Join(p.readAudit(ctx, a, wanted, after, true), a.close())
}

// readAudit prints page after page. With follow it polls every second, which is
// fast enough for people.
func (p *program) readAudit(ctx context.Context, a *adminClient, wanted url.Values, after string, follow bool) error {
	t := p.NewTable("AT", "WHAT", "REASON", "CLIENT", "USER", "ACCOUNT", "BY", "SOURCE", "REQUEST")
	for {
		var page struct {
			Data       []json.RawMessage `json:"data"`
			HasMore    bool              `json:"hasMore"`
			NextCursor string            `json:"nextCursor"`
		}
		query := maps.Clone(wanted)
		query.Set("limit", strconv.Itoa(auditPageSize))
		if after != "" {
			query.Set("after", after)
		}
		if err := a.call(ctx, "GET", pathOf("audit")+"?"+query.Encode(), nil, &page); err != nil {
			return namingFlag(err, wanted)
		}
		for _, raw := range page.Data {
			var l admin.AdminAuditLine
			if err := json.Unmarshal(raw, &l); err != nil {
				return fmt.Errorf("read an audit line: %w", err)
			}
			if p.JSON {
				fmt.Fprintf(p.Out, "%s\n", raw)
				continue
			}
			t.Add(l.At, l.What, cmp.Or(l.Why(), "-"), cmp.Or(l.ClientName, l.ClientID, "-"), cmp.Or(l.Username, l.UserID, "-"), cmp.Or(l.Account, "-"), cmp.Or(l.ActorClient, l.ActorClientID, l.Operator, l.OperatorID, "-"), cmp.Or(l.Source, "-"), cmp.Or(l.RequestID, "-"))
		}
		if err := t.Flush(); err != nil {
			return err
		}
		if after = page.NextCursor; page.HasMore {
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

// namingFlag rewrites the server's refusal of a filter to name the flag and its value. What
// to give follows a colon.
func namingFlag(err error, wanted url.Values) error {
	var f *term.Failure
	if !errors.As(err, &f) || f.Param == "" {
		return err
	}
	reason, begins := strings.CutPrefix(f.Error(), f.Param+" ")
	if !begins {
		return err
	}
	reason, advice, _ := strings.Cut(reason, ": ")
	return term.Fail(f.Code, cmp.Or(advice, f.Hint), "--%s %q %s", f.Param, wanted.Get(f.Param), reason)
}

package cli

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
)

func (p *program) alarmCommand() *cobra.Command {
	c := asGroup(&cobra.Command{
		Use:   "alarm",
		Short: "test and list alarms",
		Long: `Test and list what the server tells people: serve --alarm URL sends a message when
something is wrong, and another when it has ended.`,
	})
	c.AddCommand(p.alarmTest(), p.alarmList())
	return c
}

func (p *program) alarmTest() *cobra.Command {
	c := &cobra.Command{
		Use:   "test",
		Short: "send a test message to each URL now",
		Long: `Have the running server send a test message to each of its URLs now, and show which of
them accepted it. A URL is shown by its scheme and host.

Exit 1 if one did not accept it, 3 if the server has none.`,
		Args: operands(),
	}
	c.RunE = p.doing(func(ctx context.Context, _ []string) error {
		var tried []admin.AlarmTried
		if err := p.askAboutAlarms(ctx, "POST", "/admin/alarm-test", struct{}{}, &tried); err != nil {
			return err
		}
		if len(tried) == 0 {
			return term.Fail(term.ExitNotFound, "start the server with --alarm URL", "the server has no URL for alarms")
		}
		failed := 0
		t := p.NewTable("ALARM", "DELIVERED", "STATUS", "MS", "ERROR")
		for _, a := range tried {
			if !a.Delivered {
				failed++
			}
			if p.JSON {
				if err := p.PrintJSON(a); err != nil {
					return err
				}
				continue
			}
			status, reason := "-", "-"
			if a.Status != nil {
				status = strconv.Itoa(*a.Status)
			}
			if a.Error != nil {
				reason = *a.Error
			}
			t.Add(a.Alarm, map[bool]string{true: "yes", false: "no"}[a.Delivered], status, strconv.FormatInt(a.MS, 10), reason)
		}
		if err := t.Flush(); err != nil {
			return err
		}
		if failed > 0 {
			return term.Fail(term.ExitFailed, "correct the URL, or see the receiver's log", "%d of %d receivers did not accept the message", failed, len(tried))
		}
		return nil
	})
	return c
}

func (p *program) alarmList() *cobra.Command {
	c := &cobra.Command{
		Use:   "list",
		Short: "list active alarms and pending messages",
		Args:  operands(),
	}
	c.RunE = p.doing(func(ctx context.Context, _ []string) error {
		var found []admin.Alarm
		if err := p.askAboutAlarms(ctx, "GET", "/admin/alarms", nil, &found); err != nil {
			return err
		}
		if found == nil {
			return term.Fail(term.ExitNotFound, "start the server with --alarm URL", "the server has no URL for alarms")
		}
		t := p.NewTable("ALARM", "SUBJECT", "STATE", "SEVERITY", "BEGAN", "TOLD", "WAITING")
		for _, a := range found {
			if p.JSON {
				if err := p.PrintJSON(a); err != nil {
					return err
				}
				continue
			}
			subject, told := "-", "-"
			if a.Subject != nil {
				subject = *a.Subject
			}
			if a.ToldAt != nil {
				told = term.ShowTime(*a.ToldAt)
			}
			t.Add(a.Alarm, subject, a.State, a.Severity, term.ShowTime(a.BegunAt), told, strconv.Itoa(a.Waiting))
		}
		return t.Flush()
	})
	return c
}

// askAboutAlarms asks the running server: a command of its own process sends nothing.
func (p *program) askAboutAlarms(ctx context.Context, method, path string, in, out any) error {
	if p.store.Given() && p.adminSocket == "" {
		return term.Fail(term.ExitUnreachable, "name the socket of a server with --admin-socket", "alarms are sent by a running server")
	}
	a, err := p.connectRunning(ctx)
	if err != nil {
		return err
	}
	err = a.call(ctx, method, path, in, out)
	if closing := a.close(); err == nil {
		err = closing
	}
	return err
}

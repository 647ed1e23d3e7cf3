package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tollhouse/cli/term"
	"tollhouse/handlers"
)

// status answers GET /admin/status.
func (r *running) status(ctx context.Context) handlers.ServerStatus {
	s := handlers.ServerStatus{Status: handlers.StateReady, Started: r.started.Unix(), URL: r.server.Issuer(), Listen: addressesOf(r.listeners), Version: version(), PID: os.Getpid()}
	err := r.ready()
	if err == nil {
		err = r.keep.Store.Check(ctx)
	}
	if err != nil {
		s.Status, s.Reason = handlers.StateNotReady, err.Error()
	}
	if space, ok, err := r.keep.DB.Space(); ok && err == nil {
		s.Store = &handlers.StoreStatus{Used: space.Used, Free: space.Free, FreeMin: space.FreeMin}
	}
	if c := r.checked.Load(); c != nil {
		s.Check = &handlers.CheckStatus{Ended: c.ended.Unix(), Took: c.took.Seconds()}
		if damage := r.damage.Load(); damage != nil {
			s.Check.Damage = (*damage).Error()
		}
	}
	if made, err := r.keep.Store.LastBackup(ctx); err == nil {
		s.Backup = &handlers.BackupStatus{Created: made.Created.Unix(), File: made.File, Bytes: made.Bytes, Records: made.Records, Scheduled: made.Scheduled}
	}
	if b := r.backups; b != nil {
		s.Backups = &handlers.ScheduleStatus{Every: int64(b.every.Seconds()), Keep: b.keep, Dir: b.dir}
	}
	if r.certificates != nil {
		c := r.certificates.status()
		s.Certificate = &c
	}
	return s
}

func (p *program) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "show at a glance how the server and its store are",
		Long: `Show at a glance how the server and its store are: whether it is ready and why not,
what the disk holds, and what the last search for damage found. It asks the server
that runs on the data directory; exit 0 when that is ready, 1 when it is not, 69 when
there is none.

  tollhouse status --data /var/lib/tollhouse
  tollhouse status --json`,
		Args: operands(),
		RunE: p.doing(func(ctx context.Context, _ []string) error {
			a, err := p.connectRunning(ctx)
			if err != nil {
				return err
			}
			defer a.close()
			var s handlers.ServerStatus
			if err := a.call(ctx, "GET", "/admin/status", nil, &s); err != nil {
				return err
			}
			if p.JSON {
				err = p.PrintJSON(s)
			} else {
				err = p.PrintRows(statusRows(s, time.Now())...)
			}
			if err == nil && s.Status != handlers.StateReady {
				return term.Fail(term.ExitFailed, "its log says more", "the server is not ready: %s", s.Reason)
			}
			return err
		}),
	}
}

func statusRows(s handlers.ServerStatus, now time.Time) []term.Row {
	started := time.Unix(s.Started, 0)
	rows := []term.Row{
		{"server", s.Status}, {"url", s.URL}, {"listens on", strings.Join(s.Listen, " ")}, {"version", s.Version},
		{"process", fmt.Sprintf("%d, since %s (%s)", s.PID, term.ShowTime(s.Started), now.Sub(started).Round(time.Second))},
	}
	if s.Certificate != nil {
		rows = append(rows, term.Row{"certificate", describeCertificate(*s.Certificate, now)})
	}
	if s.Store == nil {
		return append(rows, term.Row{"store", "in memory"})
	}
	disk := fmt.Sprintf("%s, %s free", term.ShowBytes(s.Store.Used), term.ShowBytes(s.Store.Free))
	if s.Store.Free < s.Store.FreeMin {
		disk += fmt.Sprintf(": writes are refused under %s", term.ShowBytes(s.Store.FreeMin))
	}
	check := "not ended yet"
	if c := s.Check; c != nil {
		check = term.ShowTime(c.Ended) + ", no damage"
		if c.Damage != "" {
			check = term.ShowTime(c.Ended) + ", damage: " + c.Damage
		}
	}
	rows = append(rows, term.Row{"store", disk}, term.Row{"last check", check}, term.Row{"last backup", showBackupMade(s.Backup)})
	if b := s.Backups; b != nil {
		every := term.Duration(time.Duration(b.Every) * time.Second)
		rows = append(rows, term.Row{"backups", fmt.Sprintf("every %s into %s, of which %d are kept", &every, b.Dir, b.Keep)})
	}
	return rows
}

// showBackupMade describes the last backup, if any.
func showBackupMade(b *handlers.BackupStatus) string {
	if b == nil {
		return "none was made"
	}
	where := b.File
	if where == "-" {
		where = "sent on through standard output"
	}
	return fmt.Sprintf("%s, %s, %s", term.ShowTime(b.Created), term.ShowBytes(b.Bytes), where)
}

package server

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"tollhouse/cli/database"
	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
)

// status answers GET /admin/status.
func (r *running) status(ctx context.Context) admin.ServerStatus {
	s := admin.ServerStatus{Status: admin.StateReady, Started: r.started.Unix(), URL: r.server().Site.PublicURL(), Listen: addressesOf(r.listeners), Version: r.version, PID: os.Getpid()}
	err := r.ready()
	if err == nil {
		err = r.data().Store.Check(ctx)
	}
	if err != nil {
		s.Status, s.Reason = admin.StateNotReady, err.Error()
	}
	if space, ok, err := datadir.SpaceOf(r.data().DB); ok && err == nil {
		s.Store = &admin.StoreStatus{Used: space.Used, Free: space.Free, FreeMin: space.FreeMin, FreeEnd: space.FreeEnd}
	}
	if db, ok := r.data().DB.(*database.Engine); ok {
		if found, err := DatabaseStatus(ctx, db.Address); err == nil {
			s.Database = found
		}
	}
	if c := r.checked.Load(); c != nil {
		s.Check = &admin.CheckStatus{Ended: c.ended.Unix(), Took: c.took.Seconds()}
		if damage := r.damaged(); damage != nil {
			s.Check.Damage = damage.Error()
		}
	}
	if made, err := r.data().Store.LastBackup(ctx); err == nil {
		s.Backup = &admin.BackupStatus{Created: made.Created.Unix(), File: made.File, Bytes: made.Bytes, Records: made.Records, Scheduled: made.Scheduled, Encrypted: made.Encrypted}
	}
	if b := r.backups; b != nil {
		s.Backups = &admin.ScheduleStatus{Every: int64(b.every.Seconds()), Keep: b.keep, Dir: b.dir}
	}
	if r.certificates != nil {
		c := r.certificates.status()
		s.Certificate = &c
	}
	if c, err := countWebhooks(ctx, r.data().Store, &r.current.Load().waits); err == nil {
		s.Webhooks = &c.WebhooksStatus
	}
	if found, err := importedStatus(ctx, r.data().Store); err == nil {
		s.Imported = found
	}
	return s
}

// StatusRows returns the table that the status command prints for s at the time now.
func StatusRows(s admin.ServerStatus, now time.Time) []term.Row {
	started := time.Unix(s.Started, 0)
	rows := []term.Row{
		{"server", s.Status}, {"url", s.URL}, {"listens on", strings.Join(s.Listen, " ")}, {"version", s.Version},
		{"process", fmt.Sprintf("%d, since %s (%s)", s.PID, term.ShowTime(s.Started), term.ShowAge(now.Sub(started)))},
	}
	if s.Certificate != nil {
		rows = append(rows, term.Row{"certificate", describeCertificate(*s.Certificate, now)})
	}
	if s.Webhooks != nil && s.Webhooks.Endpoints > 0 {
		rows = append(rows, webhooksRow(*s.Webhooks))
	}
	if s.Imported != nil {
		rows = append(rows, importedRow(*s.Imported, now))
	}
	if s.Database != nil {
		return append(rows, DatabaseRows(*s.Database, now)...)
	}
	if s.Store == nil {
		return append(rows, term.Row{"store", "in memory"})
	}
	disk := fmt.Sprintf("%s, %s free", term.ShowBytes(s.Store.Used), term.ShowBytes(s.Store.Free))
	if s.Store.Free < s.Store.FreeMin {
		disk += fmt.Sprintf(": changes are refused below %s, all writes below %s", term.ShowBytes(s.Store.FreeMin), term.ShowBytes(s.Store.FreeEnd))
	}
	check := "not finished yet"
	if c := s.Check; c != nil {
		check = term.ShowTime(c.Ended) + ", no damage"
		if c.Damage != "" {
			check = term.ShowTime(c.Ended) + ", damage: " + c.Damage
		}
	}
	rows = append(rows, term.Row{"store", disk}, term.Row{"last check", check}, term.Row{"last backup", showBackup(s.Backup)})
	if b := s.Backups; b != nil {
		every := term.Duration(time.Duration(b.Every) * time.Second)
		rows = append(rows, term.Row{"backups", fmt.Sprintf("every %s in %s, the last %d are kept", &every, b.Dir, b.Keep)})
	}
	return rows
}

// showBackup describes the last backup, if any.
func showBackup(b *admin.BackupStatus) string {
	if b == nil {
		return "none yet"
	}
	where := b.File
	if where == "-" {
		where = "written to standard output"
	}
	return fmt.Sprintf("%s, %s, %s", term.ShowTime(b.Created), term.ShowBytes(b.Bytes), where)
}

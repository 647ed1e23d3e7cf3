package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"tollhouse/cli/database"
	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
	"tollhouse/store/kv/pgkv"
	"tollhouse/store/record"
)

// DatabaseStatus asks the database for its state and the servers on it.
func DatabaseStatus(ctx context.Context, a *pgkv.Address) (*admin.DatabaseStatus, error) {
	found, err := database.Look(ctx, a)
	if err != nil {
		return nil, err
	}
	s := &admin.DatabaseStatus{Version: found.Version, Size: found.Size, Standbys: []admin.StandbyStatus{}, Servers: []admin.PeerStatus{}}
	for _, standby := range found.Standbys {
		s.Standbys = append(s.Standbys, admin.StandbyStatus(standby))
	}
	for _, server := range found.Servers {
		jobs := make([]string, len(server.Jobs))
		for i, job := range server.Jobs {
			jobs[i] = string(job)
		}
		s.Servers = append(s.Servers, admin.PeerStatus{Host: server.Host, PID: server.PID, Version: server.Version, Listen: server.Listen, Started: server.Started.Unix(), Jobs: jobs})
	}
	return s, nil
}

// DatabaseRows returns the table that the status command prints for a database.
func DatabaseRows(d admin.DatabaseStatus, now time.Time) []term.Row {
	rows := []term.Row{{"database", fmt.Sprintf("PostgreSQL %s, %s", d.Version, term.ShowBytes(uint64(d.Size)))}, {"standbys", describeStandbys(d.Standbys)}}
	for _, s := range d.Servers {
		text := fmt.Sprintf("%s process %d, %s, on %s, since %s (%s)", s.Host, s.PID, s.Version, strings.Join(s.Listen, " "), term.ShowTime(s.Started), term.ShowAge(now.Sub(time.Unix(s.Started, 0))))
		if len(s.Jobs) > 0 {
			text += ", jobs: " + strings.Join(s.Jobs, " ")
		}
		rows = append(rows, term.Row{"server", text})
	}
	return rows
}

func describeStandbys(standbys []admin.StandbyStatus) string {
	if len(standbys) == 0 {
		return "none"
	}
	var each []string
	for _, s := range standbys {
		if s.State == "" {
			each = append(each, "one whose state the user may not see (grant pg_monitor)")
			continue
		}
		each = append(each, fmt.Sprintf("%s (%s, %s)", s.Name, s.State, s.Sync))
	}
	return strings.Join(each, ", ")
}

const (
	connectionsPerHost = 30 // that a server may open
	deadShareMax       = 0.3
	deadRowsMin        = 10_000 // fewer are cleared by the next autovacuum
)

// database reports what concerns a database and the servers on it.
func (u checkup) database(ctx context.Context, a *pgkv.Address) {
	found, err := database.Look(ctx, a)
	if err != nil {
		u.report(problemFrom("database", "check that it runs", err))
		return
	}
	u.report(databaseFinding(found.Facts))
	u.report(accessFinding(found.Facts))
	u.report(locksFinding(found.Strangers))
	u.report(writesFinding(database.TryWrite(ctx, a)))
	u.report(snapshotsFinding(found.Held, found.Now))
	u.report(u.databaseClock(ctx, found.Clock))
	u.report(serversFinding(found.Servers, found.Facts.Copied))
}

// CheckEmptyDatabase reports on a database that has no tables yet. It returns nothing for another one.
func CheckEmptyDatabase(ctx context.Context, a *pgkv.Address) []admin.Finding {
	found, err := database.Look(ctx, a)
	if !errors.Is(err, database.ErrEmpty) {
		return nil
	}
	return []admin.Finding{databaseFinding(found.Facts), accessFinding(found.Facts), allRight("servers", "no server has run on the database yet")}
}

func databaseFinding(f pgkv.Facts) admin.Finding {
	const check = "database"
	text := fmt.Sprintf("%s %s, %s, standbys: %d", f.Product, f.Version, term.ShowBytes(uint64(f.Size)), len(f.Standbys))
	dead := float64(f.Dead) / float64(max(f.Live+f.Dead, 1))
	switch {
	case f.Fsync != "on":
		return problemOf(check, "set fsync = on in postgresql.conf", "%s: fsync is %s, so a crash of its machine loses or damages data", text, f.Fsync)
	case f.Synchronous == "off":
		return problemOf(check, "remove synchronous_commit = off from postgresql.conf and from the user's settings", "%s: synchronous_commit is off, so a crash loses acknowledged writes", text)
	case f.Seqscan != "off":
		return problemOf(check, "connect to PostgreSQL itself or through a pooler in session mode", "%s: the connection settings have no effect", text)
	case f.Synchronous == "local" && f.SyncStandbys != "":
		return problemOf(check, "remove synchronous_commit = local from postgresql.conf and from the user's settings", "%s: synchronous_commit is local, so a fail-over loses acknowledged writes although there are synchronous standbys", text)
	case f.Left < connectionsPerHost:
		return warningOf(check, "raise max_connections, and the connection limits of the user and the database, to 30 for each server and what else connects",
			"%s: %d more connections can be opened; %d of %d are in use", text, max(f.Left, 0), f.Connections, f.Max)
	case dead > deadShareMax && f.Dead > deadRowsMin:
		return warningOf(check, "check that autovacuum runs: select * from pg_stat_user_tables where schemaname = 'tollhouse'", "%s: %.0f %% of the rows are dead", text, 100*dead)
	}
	return allRight(check, "%s", text)
}

// accessFinding reports whether any role of the cluster may connect: it could hold locks
// that servers wait for, and fill the queue of notifications.
func accessFinding(f pgkv.Facts) admin.Finding {
	const check = "access"
	if f.PublicConnects {
		return warningOf(check, fmt.Sprintf("run as the owner of the database: grant connect on database %[1]s to %[2]s; revoke connect on database %[1]s from public", f.Database, f.User),
			"every role of the cluster may connect to the database and can block starts and jobs")
	}
	return allRight(check, "only roles with an explicit grant can connect to the database")
}

// locksFinding names the sessions that hold what servers wait for.
func locksFinding(strangers []pgkv.Stranger) admin.Finding {
	const check = "locks"
	switch {
	case len(strangers) == 0:
		return allRight(check, "only servers hold the servers' locks")
	case strangers[0].OurRole:
		return warningOf(check, "if it is not a command such as restore or move, end it: "+endSession(strangers), "%s", pgkv.Describe(strangers))
	}
	return problemOf(check, "end it: "+endSession(strangers)+"; and revoke its role's right to connect", "%s", pgkv.Describe(strangers))
}

// writesFinding reports the outcome of a test write.
func writesFinding(refused error) admin.Finding {
	const check, next = "writes", "see the database's log; a commit that does not end waits for the standbys in synchronous_standby_names"
	if refused != nil {
		return problemFrom(check, next, refused)
	}
	return allRight(check, "the database accepted a test write")
}

// snapshotsFinding names what keeps old rows and files of the log. A backup of our own ends by itself.
func snapshotsFinding(held []pgkv.Holder, now time.Time) admin.Finding {
	const check = "snapshots"
	var others, ours []string
	next := ""
	for _, h := range held {
		text := fmt.Sprintf("%s, for %s", h, term.ShowAge(h.Age(now)))
		if h.Kind == pgkv.HeldByBackup {
			ours = append(ours, text)
			continue
		}
		others = append(others, text)
		next = cmp.Or(next, endHolder(h))
	}
	switch {
	case len(others) > 0:
		return snapshotOld.finding(next, "old rows or log cannot be removed, which slows writes and fills the disk: %s", nameFiles(others))
	case len(ours) > 0:
		return allRight(check, "none but %s", nameFiles(ours))
	}
	return allRight(check, "no other snapshot, prepared transaction or replication slot is older than a minute")
}

func endHolder(h pgkv.Holder) string {
	quoted := "'" + strings.ReplaceAll(h.Name, "'", "''") + "'"
	switch h.Kind {
	case pgkv.HeldByPrepared:
		return "finish it, connected to this database: rollback prepared " + quoted
	case pgkv.HeldBySlot:
		return fmt.Sprintf("check its reader; if it has none: select pg_drop_replication_slot(%s)", quoted)
	}
	return fmt.Sprintf("wait for it, or end it: select pg_terminate_backend(%d)", h.PID)
}

func endSession(strangers []pgkv.Stranger) string {
	return fmt.Sprintf("select pg_terminate_backend(%d)", strangers[0].PID)
}

// databaseClock compares the clocks, and the store's clock with the last event.
func (u checkup) databaseClock(ctx context.Context, c pgkv.Clock) admin.Finding {
	err := database.CheckOffset(c)
	if err == nil {
		err = u.data.Store.Events.CheckClock(ctx)
	}
	if err != nil {
		return problemFrom(clockWrong.check, clockWrong.next, err)
	}
	return allRight("clock", "%s, %s off the database's clock", u.data.Store.Now().Format(time.RFC3339), c.Offset.Abs().Round(time.Millisecond))
}

func serversFinding(servers []pgkv.Server, copied string) admin.Finding {
	const check = "servers"
	if copied != "" {
		return problemOf(check, "stop the servers on the copy: tokens of each are valid at the other, but revocations are not shared", "a server runs on another database of this PostgreSQL with a copy of this store: %s", copied)
	}
	if len(servers) == 0 {
		return allRight(check, "none is running")
	}
	var each []string
	swept := false
	for _, s := range servers {
		each = append(each, fmt.Sprintf("%s process %d (%s)", s.Host, s.PID, s.Version))
		for _, job := range s.Jobs {
			swept = swept || job == pgkv.JobSweep
		}
	}
	text := term.Count(int64(len(servers)), "server", "servers") + ": " + strings.Join(each, ", ")
	if !swept {
		return warningOf(check, "check again in a minute; if it persists, see the servers' logs", "%s; none of them is removing expired records", text)
	}
	return allRight(check, "%s", text)
}

// databaseBackup reports the last backup that tollhouse made. It does not know those of
// the database.
func (u checkup) databaseBackup(ctx context.Context) admin.Finding {
	const check = "backup"
	made, err := u.data.Store.LastBackup(ctx)
	switch {
	case errors.Is(err, record.ErrNotFound):
		return allRight(check, "none made by tollhouse; it does not see backups of the database itself")
	case err != nil:
		return problemReading(check, err)
	}
	return allRight(check, "by tollhouse: %s", showBackup(&admin.BackupStatus{Created: made.Created.Unix(), File: made.File, Bytes: made.Bytes}))
}

package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tollhouse/cli/database"
	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/handlers"
	"tollhouse/store/record"
)

// checkup checks an open store, and the server that runs on it, if any.
type checkup struct {
	data   *datadir.Opened
	server *running // or nil
	report func(handlers.Finding)
}

// StoreCheck returns the check of an open store that no server uses.
func StoreCheck(o *datadir.Opened) func(ctx context.Context, deep bool, report func(handlers.Finding)) {
	return checkup{data: o}.run
}

func (u checkup) run(ctx context.Context, deep bool, report func(handlers.Finding)) {
	u.report = report
	if u.server != nil {
		u.report(u.proxies())
		if c := u.server.config; c.desk != nil && c.desk.From == nil && slices.ContainsFunc(c.listen, func(addr string) bool { return !isLoopbackAddress(addr) }) {
			u.report(allRight("desk", "operators can open the desk from everywhere; --desk-from NETWORKS narrows it"))
		}
		if u.server.certificates != nil {
			u.report(certificateFinding(u.server.certificates.status(), time.Now()))
		}
	}
	u.report(u.store(ctx))
	if db, ok := u.data.DB.(*database.Engine); ok {
		u.database(ctx, db.Address)
	} else {
		u.report(u.disk())
		u.report(u.clock(ctx))
	}
	u.report(u.backup(ctx))
	u.report(u.webhooks(ctx))
	if deep {
		u.deep(ctx)
	}
}

func (u checkup) store(ctx context.Context) handlers.Finding {
	err := u.data.Store.Check(ctx)
	if err == nil && u.server != nil {
		if damage := u.server.damaged(); damage != nil {
			return problemOf("store", nextDamage, "%v", damage)
		}
		err = u.server.ready()
	}
	if err != nil {
		return problemFrom("store", "see Monitoring in docs/operations.md", err)
	}
	if u.server == nil {
		return allRight("store", "opened and readable")
	}
	return allRight("store", "the server is ready")
}

func (u checkup) disk() handlers.Finding {
	const check = "disk"
	space, onDisk, err := datadir.SpaceOf(u.data.DB)
	switch {
	case err != nil:
		return problemFrom(check, "check the disk and the system log", err)
	case !onDisk:
		return allRight(check, "the store is in memory")
	}
	text := fmt.Sprintf("%s free, the store uses %s", term.ShowBytes(space.Free), term.ShowBytes(space.Used))
	const next = "free some space, or keep events for a shorter time with --retain"
	switch {
	case space.Free < space.FreeMin:
		return problemOf(check, next, "%s: below %s, writes are refused", text, term.ShowBytes(space.FreeMin))
	case space.Free < space.FreeMin+diskSpare:
		return warningOf(check, next, "%s: below %s, writes will be refused", text, term.ShowBytes(space.FreeMin))
	}
	return allRight(check, "%s", text)
}

// diskSpare is how much more than the minimum should be free, as in docs/alerts.yml.
const diskSpare = 288 << 20

// clock compares the machine's clock with the last write, and the store's clock with the
// last event.
func (u checkup) clock(ctx context.Context) handlers.Finding {
	var last time.Time
	var err error
	if disk, ok := u.data.DB.(datadir.DiskEngine); ok {
		last, err = disk.CheckClock()
	}
	if err == nil {
		err = u.data.Store.CheckClock(ctx)
	}
	now := u.data.Store.Now()
	switch {
	case err != nil:
		return problemFrom("clock", "correct the clock", err)
	case last.IsZero():
		return allRight("clock", "%s", now.Format(time.RFC3339))
	}
	return allRight("clock", "%s, %s after the last write", now.Format(time.RFC3339), now.Sub(last).Round(time.Second))
}

// backup checks the age of the last backup by the rule of docs/alerts.yml.
func (u checkup) backup(ctx context.Context) handlers.Finding {
	const check, next = "backup", "tollhouse backup FILE, or serve with --backup-every 24h"
	if _, ok := u.data.DB.(*database.Engine); ok {
		return u.databaseBackup(ctx)
	}
	if _, onDisk, err := datadir.SpaceOf(u.data.DB); err == nil && !onDisk {
		return allRight(check, "not needed: the store is in memory")
	}
	every := 24 * time.Hour
	if u.server != nil && u.server.backups != nil {
		every = max(every, u.server.backups.every)
	}
	made, err := u.data.Store.LastBackup(ctx)
	switch {
	case errors.Is(err, record.ErrNotFound):
		return warningOf(check, next, "no backup has been made")
	case err != nil:
		return problemFrom(check, nextDamage, err)
	}
	age := u.data.Store.Now().Sub(made.Created)
	text := showBackup(&handlers.BackupStatus{Created: made.Created.Unix(), File: made.File, Bytes: made.Bytes})
	if age > 2*every {
		return warningOf(check, next, "the last backup is %s old: %s", age.Round(time.Hour), text)
	}
	return allRight(check, "%s", text)
}

// proxies checks the X-Forwarded-For headers received so far. Doctor's own request to the
// public address comes first, so a proxy in front has sent at least one.
func (u checkup) proxies() handlers.Finding {
	const check = "proxy"
	trusted := len(u.server.config.proxies) > 0
	believed, ignored := u.server.server().Forwarding()
	switch {
	case ignored.IsValid():
		return warningOf(check, fmt.Sprintf("if %s is your proxy, add --trusted-proxies %s; otherwise a client is sending a forged address", ignored, ignored),
			"%s sends X-Forwarded-For but is not in --trusted-proxies: all clients behind it share its limits", ignored)
	case trusted && !believed:
		return warningOf(check, "configure the proxy to send it (nginx: proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for)",
			"--trusted-proxies have sent no X-Forwarded-For since the start: all clients behind them share one limit")
	case trusted:
		return allRight(check, "X-Forwarded-For comes from a trusted proxy")
	}
	return allRight(check, "none configured and none seen")
}

func certificateFinding(s handlers.CertificateStatus, now time.Time) handlers.Finding {
	const check, next = "tls", "see TollhouseCertificateExpiring in docs/operations.md"
	text, left := describeCertificate(s, now), time.Unix(s.Expires, 0).Sub(now)
	switch {
	case s.Expires == 0, left < 0:
		return problemOf(check, next, "%s", text)
	case isCertificateLate(s, now), s.Problem != "":
		return warningOf(check, next, "%s", text)
	}
	return allRight(check, "%s", text)
}

// deep reads every block of every table and then, if those are intact, compares the
// counts of events with the log and reads every record.
func (u checkup) deep(ctx context.Context) {
	err := u.data.DB.Check(ctx)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		if u.server != nil {
			u.server.recordCheck(ctx, err)
		}
		u.report(problemOf("blocks", nextDamage, "%v; reads of the affected records fail: %s", err, u.hidden()))
		return
	}
	u.report(allRight("blocks", "all tables read, every checksum matches"))
	switch differ, err := u.data.Store.RepairCounts(ctx); {
	case ctx.Err() != nil:
		return
	case err != nil:
		u.report(problemFrom("counts", nextDamage, err))
	case differ:
		u.report(warningOf("counts", "none needed: they were made again", "the counts of events differed from the log"))
	default:
		u.report(allRight("counts", "the counts of events agree with the log"))
	}
	records, err := u.data.Store.CheckAll(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		u.report(problemOf("records", nextDamage, "%v", err))
	default:
		u.report(allRight("records", "%s, all complete and correctly indexed", term.Count(records, "record", "records")))
	}
}

// hidden names the kinds of records that damaged tables may contain.
func (u checkup) hidden() string {
	var names []string
	seen := map[string]bool{}
	disk, ok := u.data.DB.(datadir.DiskEngine)
	if !ok {
		return ""
	}
	for _, keys := range disk.DamagedKeys() {
		for _, name := range record.NameKeys(keys[0], keys[1]) {
			if !seen[name] {
				seen[name], names = true, append(names, name)
			}
		}
	}
	return strings.Join(names, ", ")
}

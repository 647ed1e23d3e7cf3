package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tollhouse/cli/database"
	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
	"tollhouse/store/kv/badgerkv"
	"tollhouse/store/record"
)

// checkup checks an open store, and the server that runs on it, if any.
type checkup struct {
	data   *datadir.Opened
	server *running // or nil
	report func(admin.Finding)
	begun  func(check string) bool // nil, or whether it lasts already
}

// StoreCheck returns the check of an open store that no server uses.
func StoreCheck(o *datadir.Opened) func(ctx context.Context, depth admin.Depth, report func(admin.Finding)) {
	return checkup{data: o}.run
}

func (u checkup) run(ctx context.Context, depth admin.Depth, report func(admin.Finding)) {
	u.report = report
	if u.server != nil {
		u.report = func(f admin.Finding) {
			f.Next = CompleteCommands(f.Next, u.server.at)
			report(f)
		}
	}
	if u.server != nil {
		if f := u.server.program; f != nil {
			u.report(f.check(u.server.version))
		}
		u.report(u.proxies())
		if c := u.server.config; c.desk != nil && c.desk.From == nil && slices.ContainsFunc(c.listen, func(addr string) bool { return !isLoopbackAddress(addr) }) {
			u.report(allRight("desk", "operators can open the desk from any address; --desk-from NETWORKS restricts it"))
		}
		if u.server.certificates != nil {
			u.report(certificateFinding(u.server.certificates.status(), time.Now()))
		}
	}
	u.socket()
	u.report(u.store(ctx))
	if db, ok := u.data.DB.(*database.Engine); ok {
		u.database(ctx, db.Address)
	} else {
		u.report(u.disk())
		u.report(u.files())
		u.report(u.clock(ctx))
	}
	u.report(u.backup(ctx))
	u.backupThen(ctx)
	u.report(u.webhooks(ctx))
	u.size()
	u.alarms()
	u.imported(ctx)
	u.clients(ctx)
	u.factors(ctx, depth)
	if depth == admin.DepthAll {
		u.deep(ctx)
	}
}

// socket reports an admin socket that something has removed: without it commands cannot
// reach the server, and the lock keeps them out of the store.
func (u checkup) socket() {
	if u.server == nil || u.server.admin == nil {
		return
	}
	path := u.server.admin.Addr().String()
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		u.report(problemOf("socket", "restart the server and exclude the path from cleanup of temporary files, or choose another path with --admin-socket", "the admin socket %s was removed: no command can reach this server", path))
	}
}

func (u checkup) store(ctx context.Context) admin.Finding {
	err := u.data.Store.Check(ctx)
	if err == nil && u.server != nil {
		if damage := u.server.damaged(); damage != nil {
			return storeDamaged.finding(nextDamage, "%v", damage)
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

func (u checkup) disk() admin.Finding {
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
	if found := u.diskRows(space.Free, space.FreeMin); len(found) > 0 {
		f := found[0]
		text += ": below " + term.ShowBytes(space.FreeMin) + ", changes "
		if f.row == diskFull {
			return f.finding(next, "%sare refused", text)
		}
		return f.finding(next, "%swill be refused", text)
	}
	return allRight(check, "%s", text)
}

// files compares the limit of open files with what the store needs of them.
func (u checkup) files() admin.Finding {
	const check = "open files"
	files := datadir.FilesOf(u.data.DB)
	if files.Limit > math.MaxInt64 {
		return allRight(check, "no limit")
	}
	text := fmt.Sprintf("this process may open %d", files.Limit)
	if u.server != nil {
		text = fmt.Sprintf("the server may open %d, including up to %d connections", files.Limit, u.server.connectionsAllowed())
	}
	switch next := (&badgerkv.FilesError{Need: files.Need}).Hint(); {
	case files.Need == 0:
		return allRight(check, "%s", text)
	case files.Left() < connectionsLeast:
		return problemOf(check, next, "%s, and the store needs %d", text, files.Need)
	case files.Limit < 2*files.Need:
		return warningOf(check, next, "%s; the store needs %d, and more as it grows", text, files.Need)
	}
	return allRight(check, "%s; the store needs %d", text, files.Need)
}

// diskSpare is how much more than the minimum should be free, as in docs/alerts.yml.
const diskSpare = 288 << 20

func (u checkup) clock(ctx context.Context) admin.Finding {
	last, err := u.checkClock(ctx)
	now := u.data.Store.Now()
	switch {
	case err != nil:
		return problemFrom("clock", "correct the clock", err)
	case last.IsZero():
		return allRight("clock", "%s", now.Format(time.RFC3339))
	}
	return allRight("clock", "%s, %s after the last write", now.Format(time.RFC3339), term.ShowAge(now.Sub(last)))
}

// backup checks the age of the last backup by the rule of docs/alerts.yml.
func (u checkup) backup(ctx context.Context) admin.Finding {
	const check, next = "backup", "tollhouse backup FILE, or serve with --backup-every 24h"
	if _, ok := u.data.DB.(*database.Engine); ok {
		return u.databaseBackup(ctx)
	}
	if _, onDisk, err := datadir.SpaceOf(u.data.DB); err == nil && !onDisk {
		return allRight(check, "not needed: the store is in memory")
	}
	dir := ""
	if u.server != nil && u.server.backups != nil {
		dir = u.server.backups.dir
		if _, err := u.server.backups.own(); err != nil {
			return problemFrom(check, next, err)
		}
		if err := isWritable(dir); err != nil { // a disk with errors is mounted again read-only
			return problemFrom(check, next, backupDirError(dir, dir, err))
		}
	}
	if failed, err := u.failedBackup(ctx); err == nil && failed != nil {
		return backupFailed.finding(next, "the backup of %s failed: %s", term.ShowTime(failed.At.Unix()), failed.Text)
	}
	made, err := u.data.Store.LastBackup(ctx)
	switch {
	case errors.Is(err, record.ErrNotFound):
		return warningOf(check, next, "no backup has been made")
	case err != nil:
		return problemReading(check, err)
	}
	age := u.data.Store.Now().Sub(made.Created)
	text := showBackup(&admin.BackupStatus{Created: made.Created.Unix(), File: made.File, Bytes: made.Bytes})
	if _, err := os.Lstat(made.File); filepath.Dir(made.File) == dir && errors.Is(err, fs.ErrNotExist) {
		return warningOf(check, next, "the last backup was removed: %s", text)
	}
	if age > u.backupAgeMax() {
		return backupOverdue.finding(next, "the last backup is %s old: %s", term.ShowAge(age), text)
	}
	return allRight(check, "%s", text)
}

// backupThen reports how the program after the last backup ended, if it failed.
func (u checkup) backupThen(ctx context.Context) {
	failed, err := u.failure(ctx, backupThenFailed.check)
	switch {
	case err != nil:
		u.report(problemReading(backupThenFailed.check, err))
	case failed != nil:
		u.report(backupThenFailed.finding("see the server's log, and run the program by hand", "the program after the backup failed at %s: %s", term.ShowTime(failed.At.Unix()), failed.Text))
	}
}

// size compares the size of the store with --alarm-size, if that is given.
func (u checkup) size() {
	if u.server == nil || u.server.config.alarms.size == 0 {
		return
	}
	text := fmt.Sprintf("the store uses %s, and --alarm-size is %s", term.ShowBytes(u.used()), term.ShowBytes(u.server.config.alarms.size))
	if len(u.lastingSize()) > 0 {
		u.report(storeLarge.finding(storeLarge.next, "%s", text))
		return
	}
	u.report(allRight(storeLarge.check, "%s", text))
}

// alarms reports whether the receivers of alarms accept them.
func (u checkup) alarms() {
	if u.server == nil || u.server.alarms == nil {
		return
	}
	if found, _ := u.lastingAlarms(); len(found) > 0 {
		u.report(found[0].finding("tollhouse alarm test", "%s", strings.TrimSuffix(found[0].text, ".")))
		return
	}
	u.report(allRight(alarmsFailing.check, "%s", term.Count(int64(u.server.alarms.Waiting()), "message waits", "messages wait")))
}

// proxies checks the X-Forwarded-For headers received so far. Doctor's own request to the
// public address comes first, so a proxy in front has sent at least one.
func (u checkup) proxies() admin.Finding {
	const check = "proxy"
	trusted := len(u.server.config.proxies) > 0
	seen := u.server.server().Site.Forwarding()
	switch {
	case seen.Ignored.IsValid():
		return warningOf(check, fmt.Sprintf("if %s is your proxy, add --trusted-proxies %s; otherwise a client is sending a forged address", seen.Ignored, seen.Ignored),
			"%s sends X-Forwarded-For but is not in --trusted-proxies: all clients behind it share its limits", seen.Ignored)
	case seen.Unreadable != "":
		return warningOf(check, "make the proxy send the client's address in X-Forwarded-For, such as 192.0.2.9, 192.0.2.9:5678 or [2001:db8::9]:443",
			"--trusted-proxies sent an X-Forwarded-For that is not an address (%q): clients behind that proxy share its limits", seen.Unreadable)
	case trusted && !seen.Believed:
		return warningOf(check, "configure the proxy to send it (nginx: proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for)",
			"--trusted-proxies have sent no X-Forwarded-For since the start: all clients behind them share one limit")
	case u.server.server().Site.LacksPort():
		return warningOf(check, "make the proxy pass on the whole Host header (nginx: proxy_set_header Host $http_host)",
			"the Host header of the latest request lacks the port of %s", u.server.server().Site.PublicURL())
	case trusted:
		return allRight(check, "X-Forwarded-For comes from a trusted proxy")
	}
	return allRight(check, "none configured and none seen")
}

func certificateFinding(s admin.CertificateStatus, now time.Time) admin.Finding {
	const check, next = "tls", "see TollhouseCertificateExpiring in docs/operations.md"
	text := describeCertificate(s, now)
	if found := certificateRows(s, now); len(found) > 0 {
		return found[0].finding(next, "%s", text)
	}
	if s.Expires == 0 {
		return problemOf(check, next, "%s", text)
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
	if err != nil && !errors.Is(err, record.ErrCorrupt) {
		u.report(problemReading("blocks", err))
		return
	}
	if u.server != nil {
		u.server.recordCheck(ctx, err)
	}
	if err != nil {
		u.report(problemOf("blocks", nextDamage, "%v; reads of the affected records fail: %s", err, u.hidden()))
		return
	}
	u.report(allRight("blocks", "all tables read, every checksum matches"))
	switch differ, err := u.data.Store.Events.RepairCounts(ctx); {
	case ctx.Err() != nil:
		return
	case err != nil:
		u.report(problemReading("counts", err))
	case differ:
		u.report(warningOf("counts", "none needed: they were rebuilt", "the counts of events differed from the log"))
	default:
		u.report(allRight("counts", "the counts of events agree with the log"))
	}
	records, err := u.data.Store.CheckAll(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		u.report(problemReading("records", err))
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

package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tollhouse/cli/alarms"
	"tollhouse/cli/database"
	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
	"tollhouse/store"
	"tollhouse/store/kv/pgkv"
	"tollhouse/store/record"
	"tollhouse/store/webhook"
)

// row is a row of the table of findings: one thing that can be wrong with a server. doctor and
// the desk show its check and state, /metrics has a series for each check and state. The words
// name no user, client, account, path or URL, since they may leave the machine.
type row struct {
	check, state string
	title, text  string // text may have verbs for numbers, times and sizes
	next         string
}

const (
	nextDoctor   = "run tollhouse doctor on the server"
	nextResume   = "if this is the real server and not a copy: tollhouse webhook resume"
	nextEndpoint = "look at its deliveries: tollhouse webhook deliveries ENDPOINT_ID"
)

// The table of findings, in the order in which they are looked at.
var (
	diskFull = &row{"disk", admin.StateProblem, "Disk full", "%s are free. Below %s, changes are refused.", "free some space"}
	diskLow  = &row{"disk", admin.StateWarning, "Disk almost full", "%s are free. Below %s, changes will be refused.", "free some space"}

	storeDamaged = &row{"store", admin.StateProblem, "Damage found", "A check found damage in the store.", nextDoctor}
	clockWrong   = &row{"clock", admin.StateProblem, "Clock wrong", "The clock is wrong, so the server is not ready.", "correct the clock"}

	certificateMissing = &row{"tls", admin.StateProblem, "Certificate not renewed", "No certificate has been issued.", nextDoctor}
	certificateExpired = &row{"tls", admin.StateProblem, "Certificate expired", "The certificate expired at %s.", nextDoctor}
	certificateLate    = &row{"tls", admin.StateWarning, "Certificate not renewed", "The certificate should have been renewed. It expires at %s.", nextDoctor}

	backupFailed     = &row{"backup", admin.StateWarning, "Backup failed", "The backup of %s failed.", "see the server's log"}
	backupOverdue    = &row{"backup", admin.StateWarning, "Backup overdue", "The newest backup is %s old.", "see the server's log"}
	backupThenFailed = &row{"backup-then", admin.StateWarning, "Program after the backup failed", "The program that runs after each backup failed at %s. The backup itself is complete.", "see the server's log"}

	webhookDisabled = &row{"webhooks", admin.StateWarning, "Webhook endpoint disabled", "The server disabled a webhook endpoint.", nextEndpoint}
	webhookFailing  = &row{"webhooks", admin.StateWarning, "Webhook endpoint failing", "A webhook endpoint has failed for a day or longer.", nextEndpoint}
	webhooksHeld    = &row{"webhooks", admin.StateWarning, "Webhooks held", "All deliveries are held since a restore.", nextResume}
	webhooksCopied  = &row{"webhooks", admin.StateWarning, "Webhooks held", "All deliveries are held: the database is a restored dump, a copy, or newly upgraded.", nextResume}

	storeLarge = &row{"size", admin.StateWarning, "Store too large", "The store uses %s, more than the %s of --alarm-size.", "keep events for a shorter time with --retain, or raise --alarm-size"}

	alarmsFailing = &row{alarms.Undelivered, admin.StateWarning, "Alarms not delivered", "%d of %d receivers of alarms have accepted nothing for 15 minutes.", "run tollhouse alarm test on the server"}

	factorsOff       = &row{"second-factor", admin.StateWarning, "Second factor", "%s not asked for it", "start without --second-factor off"}
	factorsElsewhere = &row{"second-factor", admin.StateWarning, "Second factor", "%s only passkeys of another host than %s", "they sign in with a recovery code and add a passkey here, or: tollhouse user reset-second-factor NAME"}
	factorsSealed    = &row{"second-factor", admin.StateWarning, "Second factor", "%s an app whose codes cannot be checked: another server key sealed its secret", "put the old server key back, or let them sign in with a recovery code or passkey and set up the app again"}
	factorsMissing   = &row{"second-factor", admin.StateWarning, "Second factor", "the desk answers beyond this machine, and %s no second factor", "set one up at /account/second-factor, or start with --second-factor operators"}

	snapshotOld = &row{"snapshots", admin.StateWarning, "Old snapshot", "A session, a prepared transaction or a replication slot has kept old rows or log in the database for %s.", nextDoctor}

	databaseRefuses = &row{"database", admin.StateProblem, "Database refuses writes", "The database refuses writes, or the user has lost a privilege.", nextDoctor}

	databaseAway = &row{"database", admin.StateProblem, "Database does not answer", "The database has not answered for %s.", "check that it runs"}
)

// isSent reports whether alarms tell of a row. One about the people who sign in is nothing to be woken for.
func (r *row) isSent() bool { return r.check != factorsOff.check }

// rows is the table.
var rows = []*row{
	diskFull, diskLow, storeDamaged, clockWrong, certificateMissing, certificateExpired, certificateLate, backupFailed, backupOverdue, backupThenFailed,
	webhookDisabled, webhookFailing, webhooksHeld, webhooksCopied, storeLarge, alarmsFailing, factorsOff, factorsElsewhere, factorsSealed, factorsMissing, snapshotOld, databaseRefuses, databaseAway,
}

// checksOfRows returns the names of the checks in the table.
func checksOfRows() []string {
	var names []string
	for _, r := range rows {
		if !slices.Contains(names, r.check) {
			names = append(names, r.check)
		}
	}
	return names
}

// lasting is a row that applies now.
type lasting struct {
	*row
	subject string // an id, or ""
	text    string
}

func (r *row) now(args ...any) []lasting {
	return []lasting{{row: r, text: fmt.Sprintf(r.text, args...)}}
}

// of is now about something with an id.
func (r *row) of(subject string) lasting { return lasting{row: r, subject: subject, text: r.text} }

// finding returns what doctor shows of a row.
func (r *row) finding(next, format string, args ...any) admin.Finding {
	return admin.Finding{Check: r.check, State: r.state, Next: next, Detail: fmt.Sprintf(format, args...)}
}

// lastingChecks says which rows apply, for each check that has some. An error means that it is
// not known now.
var lastingChecks = map[string]func(u checkup, ctx context.Context) ([]lasting, error){
	"disk":          func(u checkup, _ context.Context) ([]lasting, error) { return u.lastingDisk() },
	"store":         func(u checkup, _ context.Context) ([]lasting, error) { return u.lastingDamage() },
	"clock":         checkup.lastingClock,
	"tls":           func(u checkup, _ context.Context) ([]lasting, error) { return u.lastingCertificate(), nil },
	"backup":        checkup.lastingBackup,
	"backup-then":   checkup.lastingBackupThen,
	"webhooks":      checkup.lastingWebhooks,
	"size":          func(u checkup, _ context.Context) ([]lasting, error) { return u.lastingSize(), nil },
	"alarms":        func(u checkup, _ context.Context) ([]lasting, error) { return u.lastingAlarms() },
	"second-factor": checkup.keptFactorRows,

	"snapshots": func(u checkup, _ context.Context) ([]lasting, error) { return u.lastingSnapshots(), nil },

	"database": func(u checkup, _ context.Context) ([]lasting, error) { return u.lastingDatabase(), nil },
}

// errNotYet means that what a finding depends on is not known yet.
var errNotYet = errors.New("not known yet")

// lasting returns the rows that apply, and calls unknown for each check that cannot say.
func (u checkup) lasting(ctx context.Context, unknown func(check string)) (found []lasting) {
	for _, check := range checksOfRows() {
		of, err := lastingChecks[check](u, ctx)
		if err != nil {
			unknown(check)
			continue
		}
		found = append(found, of...)
	}
	return found
}

// has reports whether this check has begun and not ended, where a bound for the end differs from
// the one for the beginning.
func (u checkup) has(check string) bool { return u.begun != nil && u.begun(check) }

// diskMargin is how far above a bound the free space has to be to end what fell below it.
const diskMargin = 10 // percent

// lastingDisk applies the bounds of docs/alerts.yml.
func (u checkup) lastingDisk() ([]lasting, error) {
	space, onDisk, err := datadir.SpaceOf(u.data.DB)
	if err != nil || !onDisk {
		return nil, err
	}
	return u.diskRows(space.Free, space.FreeMin), nil
}

func (u checkup) diskRows(free, freeMin uint64) []lasting {
	low := freeMin + diskSpare
	if u.has(diskLow.check) {
		low += low * diskMargin / 100
	}
	switch {
	case free < freeMin:
		return diskFull.now(term.ShowBytes(free), term.ShowBytes(freeMin))
	case free < low:
		return diskLow.now(term.ShowBytes(free), term.ShowBytes(freeMin))
	}
	return nil
}

func (u checkup) lastingDamage() ([]lasting, error) {
	switch {
	case u.server == nil:
		return nil, nil
	case u.server.damaged() != nil:
		return storeDamaged.now(), nil
	case u.server.presence == nil && u.server.checked.Load() == nil:
		return nil, errNotYet // damage that was found before the start may still be there
	}
	return nil, nil
}

func (u checkup) lastingClock(ctx context.Context) ([]lasting, error) {
	_, err := u.checkClock(ctx)
	switch {
	case err == nil:
		return nil, nil
	case errors.Is(err, record.ErrUnavailable), errors.Is(err, record.ErrCorrupt), ctx.Err() != nil:
		return nil, err
	}
	return clockWrong.now(), nil
}

// checkClock compares the clock with the last write, which it returns if it is known, with the
// last event, and with that of the database.
func (u checkup) checkClock(ctx context.Context) (last time.Time, err error) {
	if disk, ok := u.data.DB.(datadir.DiskEngine); ok {
		last, err = disk.CheckClock()
	}
	if u.server != nil && u.server.presence != nil {
		err = database.CheckOffset(u.server.presence.State().Clock)
	}
	if err == nil {
		err = u.data.Store.Events.CheckClock(ctx)
	}
	return last, err
}

func (u checkup) lastingCertificate() []lasting {
	if u.server == nil || u.server.certificates == nil {
		return nil
	}
	return certificateRows(u.server.certificates.status(), time.Now())
}

func certificateRows(s admin.CertificateStatus, now time.Time) []lasting {
	switch expires := term.ShowTime(s.Expires); {
	case s.Expires == 0 && s.Problem == "": // the first is being ordered
		return nil
	case s.Expires == 0:
		return certificateMissing.now()
	case s.Expires < now.Unix():
		return certificateExpired.now(expires)
	case isCertificateLate(s, now), s.Problem != "":
		return certificateLate.now(expires)
	}
	return nil
}

// lastingBackup is about backups that tollhouse makes: of a database it does not see those that
// the database makes itself.
func (u checkup) lastingBackup(ctx context.Context) ([]lasting, error) {
	if _, ok := u.data.DB.(*database.Engine); ok || u.server == nil {
		return nil, nil
	}
	failed, err := u.failedBackup(ctx)
	if err != nil || failed != nil {
		return failedRows(backupFailed, failed), err
	}
	made, err := u.data.Store.LastBackup(ctx)
	if errors.Is(err, record.ErrNotFound) {
		return nil, nil // the first one of a schedule is made at the start, or fails
	}
	if age := u.data.Store.Now().Sub(made.Created); err == nil && age > u.backupAgeMax() {
		return backupOverdue.now(term.ShowAge(age)), nil
	}
	return nil, err
}

// failedBackup returns the failure of a backup since the last good one, which a command may have
// made.
func (u checkup) failedBackup(ctx context.Context) (*store.Failure, error) {
	failed, err := u.failure(ctx, backupFailed.check)
	if err != nil || failed == nil {
		return nil, err
	}
	made, err := u.data.Store.LastBackup(ctx)
	if err == nil && made.Created.After(failed.At) {
		return nil, nil
	}
	return failed, nil
}

// backupAgeMax is how old the newest backup may be.
func (u checkup) backupAgeMax() time.Duration {
	every := 24 * time.Hour
	if u.server != nil && u.server.backups != nil {
		every = max(every, u.server.backups.every)
	}
	return 2 * every
}

func failedRows(r *row, failed *store.Failure) []lasting {
	if failed == nil {
		return nil
	}
	return r.now(term.ShowTime(failed.At.Unix()))
}

func (u checkup) lastingBackupThen(ctx context.Context) ([]lasting, error) {
	if u.server == nil {
		return nil, nil
	}
	failed, err := u.server.failureOf(ctx, backupThenFailed.check)
	return failedRows(backupThenFailed, failed), err
}

func (u checkup) lastingWebhooks(ctx context.Context) (found []lasting, err error) {
	in, err := u.data.Store.Webhooks.Instance(ctx)
	if err != nil {
		return nil, err
	}
	switch {
	case in.Held && in.Reason == webhook.HeldRestored:
		found = webhooksHeld.now()
	case in.Held && in.Reason == webhook.HeldCopied:
		found = webhooksCopied.now()
	}
	now := u.data.Store.Now()
	err = u.data.Store.Webhooks.Each(ctx, func(e webhook.Endpoint) error {
		switch {
		case isRefused(e):
			found = append(found, webhookDisabled.of(e.ID))
		case isFailingLong(e, now):
			found = append(found, webhookFailing.of(e.ID))
		}
		return nil
	})
	return found, err
}

// sizeMargin is how far below its bound the size has to be to end what exceeded it.
const sizeMargin = 10 // percent

func (u checkup) lastingSize() []lasting {
	if u.server == nil || u.server.config.alarms.size == 0 {
		return nil
	}
	most := u.server.config.alarms.size
	bound := most
	if u.has(storeLarge.check) {
		bound -= bound / 100 * sizeMargin
	}
	if used := u.used(); used > bound {
		return storeLarge.now(term.ShowBytes(used), term.ShowBytes(most))
	}
	return nil
}

// used is how much space the store takes.
func (u checkup) used() uint64 {
	if u.server != nil && u.server.presence != nil {
		return uint64(u.server.presence.State().Size)
	}
	return diskOf(u.data.DB).Used
}

func (u checkup) lastingAlarms() ([]lasting, error) {
	if u.server == nil || u.server.alarms == nil {
		return nil, nil
	}
	failing, of, known := u.server.alarms.Failing()
	switch {
	case failing > 0:
		return alarmsFailing.now(failing, of), nil
	case !known:
		return nil, errNotYet
	}
	return nil, nil
}

// awayLong is how long a database may give no answer. It is asked every 10 s.
const awayLong = 30 * time.Second

func (u checkup) lastingDatabase() []lasting {
	if u.server == nil || u.server.presence == nil {
		return nil
	}
	if away := time.Since(u.server.presence.State().Looked); away >= awayLong {
		return databaseAway.now(term.ShowAge(away))
	}
	db, _ := u.server.data().DB.(*database.Engine)
	if u.server.presence.State().Unfit != nil || db != nil && db.WriteFault() != nil {
		return databaseRefuses.now()
	}
	return nil
}

// snapshotAlarm is the age at which an old snapshot raises an alarm. A nightly pg_dump should
// wake nobody.
const snapshotAlarm = 15 * time.Minute

func (u checkup) lastingSnapshots() []lasting {
	if u.server == nil || u.server.presence == nil {
		return nil
	}
	least := pgkv.HeldLong
	if u.begun != nil { // this is for alarms
		least = snapshotAlarm
	}
	if oldest := oldestHolder(u.server.presence.State(), func(kind pgkv.HolderKind) bool { return kind != pgkv.HeldByBackup }); oldest >= least {
		return snapshotOld.now(term.ShowAge(oldest))
	}
	return nil
}

// oldestHolder returns the age of the oldest holder of the kinds, or 0.
func oldestHolder(s pgkv.State, is func(pgkv.HolderKind) bool) (oldest time.Duration) {
	for _, h := range s.Held {
		if is(h.Kind) {
			oldest = max(oldest, h.Age(s.Clock.Now))
		}
	}
	return oldest
}

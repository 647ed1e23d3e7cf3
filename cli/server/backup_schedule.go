package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/store"
	"tollhouse/store/kv/badgerkv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// A server can make backups on a schedule. Each is written under a temporary name,
// synced, read back and checked like one of tollhouse backup, then renamed and recorded
// in the store. Its name has the instance and the time:
//
//	tollhouse-3f9c2a1b-20260102T030405Z.backup
//
// So files sort by time and do not collide with those of tollhouse backup, which have no
// instance in their name, or of another server that uses the same directory. The server
// removes only files with its instance in both the name and the header.

const (
	backupKeepDefault = 7
	backupKeepMax     = 10_000
	backupEveryMin    = time.Minute // names have seconds

	// backupLook is between two looks at the clock, which may be set, or jump after the
	// machine slept.
	backupLook = time.Minute

	// The pause before a retry doubles after each failure.
	backupRetryFirst = time.Minute
	backupRetryMax   = time.Hour

	// backupSpaceShare times the free space that the store needs must stay free, because
	// the store goes on writing during a backup.
	backupSpaceShare = 2
	// backupSpaceEvery is written between two checks of the free space.
	backupSpaceEvery = 4 << 20 // bytes

	instanceInName = 8 // characters of the instance's id
	backupTime     = "20060102T150405Z"
	backupSuffix   = ".backup"
)

// backupFlags are the settings of scheduled backups.
type backupFlags struct {
	every term.Duration
	keep  int
	dir   string
}

func (f *backupFlags) add(flags *pflag.FlagSet) {
	flags.Var(&f.every, "backup-every", "make a backup at this interval, such as 24h; 0 makes none")
	flags.IntVar(&f.keep, "backup-keep", backupKeepDefault, "how many scheduled backups to keep; the oldest is removed when a new one is complete")
	flags.StringVar(&f.dir, "backup-dir", "", "`directory` for scheduled backups, preferably on another disk (default: backups in the data directory)")
}

// check refuses values out of range, and settings that have no effect.
func (f *backupFlags) check(flags *pflag.FlagSet) error {
	every := time.Duration(f.every)
	switch {
	case every != 0 && every < backupEveryMin:
		return term.Usage("give 1m or more, such as 24h", "--backup-every %s is too short", &f.every)
	case f.keep < 1 || f.keep > backupKeepMax:
		return term.Usage(fmt.Sprintf("give a number from 1 to %d", backupKeepMax), "--backup-keep %d is out of range", f.keep)
	}
	for _, name := range []string{"backup-keep", "backup-dir"} {
		if flags.Changed(name) && !flags.Changed("backup-every") {
			return term.Usage("add --backup-every 24h", "--%s needs --backup-every", name)
		}
	}
	return nil
}

// begin prepares the backup directory, which only this user may be able to write to. It
// returns nil without scheduled backups.
func (f *backupFlags) begin(dataDir string, r *running, key secret.Key) (*backupSchedule, error) {
	if f.every == 0 {
		return nil, nil
	}
	dir := f.dir
	if dir == "" {
		dir = filepath.Join(dataDir, datadir.BackupsName)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := prepareBackupDir(dir); err != nil {
		return nil, err
	}
	disk, ok := r.data().DB.(datadir.DiskEngine)
	if !ok {
		panic("server: scheduled backups need a data directory")
	}
	only, err := lockBackups(dir, r.data().Store.InstanceID())
	if err != nil {
		return nil, err
	}
	return &backupSchedule{
		only: only, desk: newDeskWork(), dir: dir, every: time.Duration(f.every), keep: f.keep, store: r.data().Store, notes: store.BackupNotes{Version: r.version, Key: key.Fingerprint()},
		instance: r.data().Store.InstanceID(), now: r.data().Store.Now, log: r.log,
		free: badgerkv.FreeSpace, freeMin: func() uint64 { return backupSpaceMin(disk) }, failed: r.metrics.backupFailures.Inc,
	}, nil
}

// lockBackups keeps another server with the same data, such as a restored copy, out of the
// directory: each would take the other's backups for its own, and remove them.
func lockBackups(dir, instance string) (*os.File, error) {
	path := filepath.Join(dir, ".tollhouse-"+instance[:instanceInName]+".lock")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, datadir.NotAllowedOr(term.ExitIO, path, err)
	}
	if err := datadir.LockFile(f); errors.Is(err, datadir.ErrLocked) {
		return nil, errors.Join(term.Fail(term.ExitBusy, "give this server a directory of its own with --backup-dir", "another server with the same data backs up to %s", dir), f.Close())
	}
	return f, nil // also where the file system has no locks
}

// release lets another server with the same data use the directory. s may be nil.
func (s *backupSchedule) release() {
	if s != nil {
		_ = s.only.Close()
	}
}

// backupSpaceMin is what must stay free beside the store's reserve.
func backupSpaceMin(disk datadir.DiskEngine) uint64 {
	need, reserved := backupSpaceShare*disk.SpaceMin(), disk.Reserved()
	return need - min(need, reserved)
}

// prepareBackupDir creates the directory, or checks that only this user can write to it.
func prepareBackupDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		above, _ := datadir.NearestThere(dir)
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
			return backupDirError(dir, above, err)
		}
		return term.Fail(term.ExitCannotCreate, "choose another directory with --backup-dir", "cannot create the backup directory %s: %w", dir, term.PathReason(err))
	}
	info, err := os.Stat(dir)
	if err != nil {
		return backupDirError(dir, dir, err)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return term.Fail(term.ExitConfig, "check its contents, then close it: chmod go-w "+term.ShellQuote(dir),
			"other users can write to the backup directory %s (mode %04o)", dir, info.Mode().Perm())
	}
	if uid, ours := datadir.OwnedByUs(info); !ours && uid != 0 {
		return term.Fail(term.ExitConfig, "choose another directory with --backup-dir, or check its contents and take ownership: chown "+strconv.Itoa(os.Geteuid())+" "+term.ShellQuote(dir),
			"the backup directory %s belongs to %s, who could replace its files; the server runs as %s", dir, datadir.UserNamed(uid), datadir.UserNamed(os.Geteuid()))
	}
	probe, err := os.CreateTemp(dir, ".tollhouse-*"+datadir.NewSuffix)
	if err != nil {
		return backupDirError(dir, dir, err)
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// backupDirError is datadir.NotAllowedOr for a path that prevents use of the directory.
// A hardened systemd unit, such as the one that we print, sees a read-only file system
// everywhere except in its own directories.
func backupDirError(dir, path string, err error) error {
	f := term.FailureOf(datadir.NotAllowedOr(term.ExitCannotCreate, path, err))
	f.Hint = strings.ReplaceAll(f.Hint, "--data", "--backup-dir")
	if errors.Is(err, syscall.EROFS) {
		f.Hint = "choose another directory with --backup-dir; under systemd, create it first and add ReadWritePaths=" + dir + " to the unit"
	}
	return f
}

// backupSchedule makes backups by the store's clock.
type backupSchedule struct {
	only     *os.File // the lock on dir
	dir      string
	every    time.Duration
	keep     int
	instance string
	now      func() time.Time
	log      *slog.Logger
	free     func(dir string) (uint64, error)
	freeMin  func() uint64 // bytes that must stay free
	failed   func()        // counts a failure
	store    *store.Store
	notes    store.BackupNotes
	desk     deskWork
}

// run makes backups until ctx ends. The first is due one interval after the newest
// existing one, or at once without one: a restart neither skips nor repeats a backup.
func (s *backupSchedule) run(ctx context.Context) {
	s.sweep()
	due, retry := s.firstDue(), backupRetryFirst
	for ctx.Err() == nil {
		now := s.now()
		if last := now.Add(s.every); due.After(last) {
			due = last // a clock that was set back must not delay backups
		}
		if now.Before(due) {
			s.rest(ctx, min(due.Sub(now), backupLook))
			continue
		}
		switch err := s.make(ctx, now); {
		case err == nil:
			due, retry = now.Add(s.every), backupRetryFirst
		case ctx.Err() != nil: // due again after the next start
		case term.FailureOf(err).Code == term.ExitBusy: // another backup is in progress
			due = s.now().Add(backupRetryFirst)
			s.log.Info("scheduled backup postponed", "reason", err.Error(), "next_try", due)
		default:
			s.failed()
			due, retry = s.now().Add(min(retry, s.every)), min(2*retry, backupRetryMax)
			s.log.Warn("scheduled backup failed", "err", err, "hint", term.FailureOf(err).Hint, "next_try", due)
		}
	}
}

// rest waits, and does what operators ask for in the meantime.
func (s *backupSchedule) rest(ctx context.Context, most time.Duration) {
	over := time.NewTimer(most)
	defer over.Stop()
	select {
	case work := <-s.desk.asked:
		work(ctx)
	case <-over.C:
	case <-ctx.Done():
	}
}

// make makes one backup and then removes those beyond --backup-keep.
func (s *backupSchedule) make(ctx context.Context, now time.Time) error {
	own, err := s.own()
	if err != nil {
		return err
	}
	path, err := s.unused(now)
	if err != nil {
		return err
	}
	if err := s.checkSpace(own); err != nil {
		return err
	}
	made, err := s.write(ctx, path)
	if err != nil {
		return err
	}
	removed, err := s.prune(own)
	s.log.Info("backup made", "file", path, "bytes", made.Bytes, "records", made.Records, "removed", removed)
	if err != nil {
		s.log.Warn("old backup not removed", "err", err)
	}
	return nil
}

// write makes a backup at path and records it in the store.
func (s *backupSchedule) write(ctx context.Context, path string) (made store.BackupMade, err error) {
	f, err := datadir.NewBackupFile(path)
	if err != nil {
		return made, err
	}
	defer f.Discard()
	err = f.Fill(func(w io.Writer) error {
		_, err := s.store.Backup(ctx, &spaceWriter{w: w, check: func() error { return s.checkSpace(nil) }}, s.notes)
		return asFailure(err)
	})
	if err != nil {
		return made, err
	}
	checked, err := datadir.ReadBackup(ctx, &datadir.PacedReader{Ctx: ctx, R: f, Rest: datadir.RestAlone}, path)
	if err != nil {
		return made, datadir.BrokenBackup(err)
	}
	size, err := f.Size()
	if err == nil {
		err = f.Publish()
	}
	if err != nil {
		return made, err
	}
	made = store.BackupMade{Created: checked.Created, File: path, Bytes: uint64(size), Records: uint64(checked.Records), Scheduled: true}
	if err := s.store.RecordBackup(ctx, made, store.By{}); err != nil {
		s.log.Warn("backup made but not recorded in the store", "file", path, "err", err)
	}
	return made, nil
}

// asFailure adds the next step to errors of the store.
func asFailure(err error) error {
	switch {
	case errors.Is(err, record.ErrUnavailable):
		return term.FailureOf(err)
	case errors.Is(err, record.ErrCorrupt):
		return term.Fail(term.ExitIO, "restore the last complete backup", "the store is damaged, and a backup would lack the damaged records: %w", err)
	}
	return err
}

// checkSpace refuses a backup if the disk has too little space beside what the store
// needs. Before a backup starts, it must have room for one of the size of the last.
func (s *backupSchedule) checkSpace(own []ownBackup) error {
	free, err := s.free(s.dir)
	if err != nil {
		return term.Fail(term.ExitIO, "check the disk", "cannot read the free space of %s: %w", s.dir, err)
	}
	need := s.freeMin()
	if len(own) > 0 {
		need += uint64(own[len(own)-1].size)
	}
	if free >= need {
		return nil
	}
	return term.Fail(term.ExitIO, "free some space, keep fewer backups with --backup-keep, or use another disk with --backup-dir",
		"only %d MiB are free in %s; a backup needs %d MiB, including what the store needs", free>>20, s.dir, need>>20)
}

// spaceWriter checks the free space regularly while it writes to w.
type spaceWriter struct {
	w     io.Writer
	check func() error
	left  int // bytes until the next check
}

func (w *spaceWriter) Write(b []byte) (int, error) {
	if w.left <= 0 {
		if err := w.check(); err != nil {
			return 0, err
		}
		w.left = backupSpaceEvery
	}
	n, err := w.w.Write(b)
	w.left -= n
	return n, err
}

// ownBackup is a backup that this instance made.
type ownBackup struct {
	path string
	made time.Time // from its name
	size int64
}

func (s *backupSchedule) prefix() string { return "tollhouse-" + s.instance[:instanceInName] + "-" }

// unused returns a path for a backup at now that does not exist.
func (s *backupSchedule) unused(now time.Time) (string, error) {
	for range backupKeepMax {
		path := filepath.Join(s.dir, s.prefix()+now.UTC().Format(backupTime)+backupSuffix)
		_, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return path, nil
		}
		if err != nil {
			return "", datadir.NotAllowedOr(term.ExitIO, path, err)
		}
		now = now.Add(time.Second)
	}
	return "", term.Fail(term.ExitIO, "check the directory", "%s has too many backups of this time", s.dir)
}

// own returns the backups of this instance, in the order of their names.
func (s *backupSchedule) own() ([]ownBackup, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, datadir.NotAllowedOr(term.ExitIO, s.dir, err)
	}
	var own []ownBackup
	for _, e := range entries { // sorted by name
		stem, isBackup := strings.CutSuffix(strings.TrimPrefix(e.Name(), s.prefix()), backupSuffix)
		made, err := time.Parse(backupTime, stem)
		info, infoErr := e.Info()
		if !isBackup || !strings.HasPrefix(e.Name(), s.prefix()) || err != nil || infoErr != nil || !info.Mode().IsRegular() {
			continue
		}
		b := ownBackup{path: filepath.Join(s.dir, e.Name()), made: made, size: info.Size()}
		if s.isOwn(b.path) {
			own = append(own, b)
		}
	}
	return own, nil
}

// isOwn reports whether the header of the file names this instance.
func (s *backupSchedule) isOwn(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	b, err := store.OpenBackup(f)
	if err != nil {
		return false
	}
	defer b.Close()
	return b.Instance == s.instance
}

// firstDue is when the first backup after a start is due.
func (s *backupSchedule) firstDue() time.Time {
	now := s.now()
	own, err := s.own()
	if err != nil {
		return now // the backup will report the error
	}
	for _, b := range slices.Backward(own) {
		if !b.made.After(now) { // else the clock was wrong when it was made
			return b.made.Add(s.every)
		}
	}
	return now
}

// prune removes the oldest backups in before, so that with the new one --backup-keep are
// left. Those named after a time in the future were made under a wrong clock and are
// removed first.
func (s *backupSchedule) prune(before []ownBackup) (removed int, err error) {
	now := s.now()
	slices.SortStableFunc(before, func(a, b ownBackup) int {
		if a.made.After(now) != b.made.After(now) {
			if a.made.After(now) {
				return -1
			}
			return 1
		}
		return a.made.Compare(b.made)
	})
	for _, b := range before[:max(0, len(before)+1-s.keep)] {
		if removeErr := os.Remove(b.path); removeErr != nil && !errors.Is(removeErr, fs.ErrNotExist) {
			err = errors.Join(err, removeErr)
			continue
		}
		_ = os.Remove(b.path + datadir.CheckedSuffix)
		removed++
	}
	return removed, errors.Join(err, datadir.SyncDir(s.dir))
}

// sweep removes incomplete backups and notes of a killed process. The lock of
// the directory ensures that no other server is writing them.
func (s *backupSchedule) sweep() {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return // the first backup will report the error
	}
	left := regexp.MustCompile(`^\.` + s.prefix() + `[0-9]{8}T[0-9]{6}Z\.backup(\.checked)?\.[0-9]+\` + datadir.NewSuffix + `$`)
	for _, e := range entries {
		if !e.Type().IsRegular() || !left.MatchString(e.Name()) {
			continue
		}
		if err := os.Remove(filepath.Join(s.dir, e.Name())); err != nil {
			s.log.Warn("incomplete backup not removed", "err", err)
			continue
		}
		s.log.Info("incomplete backup removed", "file", e.Name())
	}
}

package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/store"
	"tollhouse/store/backup/encryption"
	"tollhouse/store/kv/badgerkv"
	"tollhouse/store/secret"
)

// backupFlags are the settings of scheduled backups.
type backupFlags struct {
	every term.Duration
	keep  int
	dir   string
	to    datadir.RecipientFlags
	then  thenFlags

	recipients *encryption.Recipients // nil for plain backups
}

func (f *backupFlags) add(flags *pflag.FlagSet) {
	flags.Var(&f.every, "backup-every", "back up at this interval, such as 24h; 0 for no backups")
	flags.IntVar(&f.keep, "backup-keep", backupKeepDefault, "how many scheduled backups to keep; the oldest is removed when a new one is complete")
	flags.StringVar(&f.dir, "backup-dir", "", "`directory` for scheduled backups, preferably on another disk (default: backups in the data directory)")
	f.to.Add(flags)
	f.then.add(flags)
}

// check refuses values out of range, and settings that have no effect.
func (f *backupFlags) check(flags *pflag.FlagSet) (err error) {
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
	if err := f.then.check(flags, every); err != nil {
		return err
	}
	if f.recipients, err = f.to.Parse(); err != nil || f.dir == "" || f.every == 0 {
		return err
	}
	return prepareBackupDir(f.dir, nil) // before a store is made
}

// begin prepares the backup directory, which must be writable by this user only. It
// returns nil without scheduled backups.
func (f *backupFlags) begin(ctx context.Context, dataDir string, r *running, key secret.Key, lock *datadir.Lock, environ []string) (*backupSchedule, error) {
	if f.every == 0 {
		f.then.begin(ctx, r, "", nil)
		return nil, nil
	}
	dir, err := filepath.Abs(cmp.Or(f.dir, filepath.Join(dataDir, datadir.BackupsName)))
	if err != nil {
		return nil, err
	}
	if err := openBackupDir(dir, f.dir == "", r.log); err != nil {
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
		only: only, to: f.recipients, then: f.then.begin(ctx, r, dir, environ), below: f.dir == "", moved: lock.Moved, desk: newDeskWork(), dir: dir, every: time.Duration(f.every), keep: f.keep, store: r.data().Store, notes: store.BackupNotes{Version: r.version, Key: key.Fingerprint(), Frugal: f.recipients != nil},
		instance: r.data().Store.InstanceID(), now: r.data().Store.Now, log: r.log,
		free: badgerkv.FreeSpace, freeMin: func() uint64 { return backupSpaceMin(disk) }, ended: r.backupEnded,
	}, nil
}

// backupEnded notes the outcome of a backup.
func (r *running) backupEnded(ctx context.Context, err error) {
	if err != nil {
		r.metrics.backupFailures.Inc()
	}
	r.noteOutcome(ctx, backupFailed.check, err)
}

// lockBackups keeps another server with the same data, such as a restored copy, out of the
// directory: each would mistake the other's backups for its own, and remove them.
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

// openBackupDir is prepareBackupDir. It creates the directory below the data.
func openBackupDir(dir string, below bool, log *slog.Logger) error {
	if below {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return backupDirError(dir, dir, err)
		}
	}
	return prepareBackupDir(dir, log)
}

// prepareBackupDir checks that the directory exists and that only this user can write to it.
// One that was named is not created: it may be a disk that is not mounted. One of ours that
// holds nothing but backups is closed; without a log it is left for later.
func prepareBackupDir(dir string, log *slog.Logger) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return missingBackupDir(term.UnreadableCode(err), dir)
	case err != nil:
		return backupDirError(dir, dir, err)
	case !info.IsDir():
		return term.Fail(term.ExitConfig, "choose another directory with --backup-dir", "the backup directory %s is not a directory", dir)
	}
	uid, ours := datadir.OwnedByUs(info)
	switch isOpen := info.Mode().Perm()&0o022 != 0; {
	case isOpen && ours && holdsOnlyBackups(dir, info):
		if log == nil {
			return nil
		}
		if err := closeBackups(dir, info, log); err != nil {
			return err
		}
	case isOpen:
		return term.Fail(term.ExitConfig, ofItsOwn(dir, info, "check its contents, then close it: chmod go-w "+term.ShellQuote(dir)),
			"other users can write to the backup directory %s (mode %04o)", dir, info.Mode().Perm())
	}
	if !ours && uid != 0 {
		return term.Fail(term.ExitConfig, ofItsOwn(dir, info, "choose another directory with --backup-dir, or check its contents and take ownership: chown "+strconv.Itoa(os.Geteuid())+" "+term.ShellQuote(dir)),
			"the backup directory %s belongs to %s, who could replace its files; the server runs as %s", dir, datadir.UserNamed(uid), datadir.UserNamed(os.Geteuid()))
	}
	probe, err := os.CreateTemp(dir, ".tollhouse-*"+datadir.NewSuffix)
	if err != nil {
		return backupDirError(dir, dir, err)
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

func missingBackupDir(code int, dir string) error {
	return term.Fail(code, "mount its disk or correct --backup-dir; to create it: install -d -m 700 "+term.ShellQuote(dir), "the backup directory %s %s", dir, term.Missing(dir))
}

// enter checks the directory before a backup. It may have been removed, replaced or mounted
// again since the last one, and then another server may have it.
func (s *backupSchedule) enter() error {
	if s.only == nil || badgerkv.CheckMoved(s.only, s.only.Name()) == nil {
		return nil
	}
	if _, err := s.own(); err != nil && !s.below {
		return err
	}
	if err := openBackupDir(s.dir, s.below, s.log); err != nil {
		return err
	}
	only, err := lockBackups(s.dir, s.instance)
	if err != nil {
		return err
	}
	_ = s.only.Close()
	s.only = only
	return nil
}

// closeBackups revokes write permission of others on the directory and its files, which the
// fsGroup of Kubernetes grants at each mount.
func closeBackups(dir string, info fs.FileInfo, log *slog.Logger) error {
	mode := info.Mode().Perm()
	err := os.Chmod(dir, mode&^0o022)
	entries, listErr := os.ReadDir(dir)
	err = errors.Join(err, listErr)
	for _, e := range entries {
		file, statErr := e.Info()
		if statErr != nil || !file.Mode().IsRegular() || file.Mode().Perm()&0o022 == 0 {
			continue
		}
		if _, ours := datadir.OwnedByUs(file); ours {
			err = errors.Join(err, os.Chmod(filepath.Join(dir, e.Name()), file.Mode().Perm()&^0o022))
		}
	}
	if err != nil {
		return backupDirError(dir, dir, err)
	}
	log.Warn("other users could write to the backup directory; access is now removed: check its contents with backup verify", "dir", dir, "mode", fmt.Sprintf("%04o", mode))
	return nil
}

// ofItsOwn returns a hint that changes the modes or owner of dir if that has nothing but
// backups, else one that leaves it alone: it may be /tmp, or a user's home.
func ofItsOwn(dir string, info fs.FileInfo, hint string) string {
	if holdsOnlyBackups(dir, info) {
		return hint
	}
	below := term.ShellQuote(filepath.Join(dir, "tollhouse-backups"))
	return "use a directory of its own: install -d -m 700 " + below + ", and --backup-dir " + below
}

func holdsOnlyBackups(dir string, info fs.FileInfo) bool {
	entries, err := os.ReadDir(dir)
	only := err == nil && info.Mode()&fs.ModeSticky == 0
	for _, e := range entries {
		name := strings.TrimPrefix(e.Name(), ".")
		only = only && (name == "lost+found" || strings.HasPrefix(name, "tollhouse-"))
	}
	return only
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

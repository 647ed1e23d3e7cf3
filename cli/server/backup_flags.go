package server

import (
	"errors"
	"fmt"
	"io/fs"
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
	"tollhouse/store/kv/badgerkv"
	"tollhouse/store/secret"
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

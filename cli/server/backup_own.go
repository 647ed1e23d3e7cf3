package server

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/store"
	"tollhouse/store/backup/encryption"
)

// ownBackup is a backup that this instance made.
type ownBackup struct {
	path string
	made time.Time // from its name
	size int64

	encrypted bool
}

func (s *backupSchedule) prefix() string { return "tollhouse-" + s.instance[:instanceInName] + "-" }

// unused returns a path that does not exist for a backup made at now.
func (s *backupSchedule) unused(now time.Time) (string, error) {
	for range backupKeepMax {
		path := filepath.Join(s.dir, s.prefix()+now.UTC().Format(backupTime)+datadir.SuffixOf(s.to))
		_, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return path, nil
		}
		if err != nil {
			return "", datadir.NotAllowedOr(term.ExitIO, path, err)
		}
		now = now.Add(time.Second)
	}
	return "", term.Fail(term.ExitIO, "check the directory", "%s already has too many backups with this time in their names", s.dir)
}

// own returns the backups of this instance, in the order of their names.
func (s *backupSchedule) own() ([]ownBackup, error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, missingBackupDir(term.ExitIO, s.dir)
	}
	if err != nil {
		return nil, datadir.NotAllowedOr(term.ExitIO, s.dir, err)
	}
	var own []ownBackup
	for _, e := range entries { // sorted by name
		made, isBackup := s.madeAt(e.Name())
		info, err := e.Info()
		if !isBackup || err != nil || !info.Mode().IsRegular() {
			continue
		}
		b := ownBackup{path: filepath.Join(s.dir, e.Name()), made: made, size: info.Size()}
		if s.isOwn(&b) {
			own = append(own, b)
		}
	}
	return own, nil
}

// madeAt returns the time in the name of a backup of this instance.
func (s *backupSchedule) madeAt(name string) (made time.Time, isBackup bool) {
	if !strings.HasPrefix(name, s.prefix()) || !datadir.ScheduledName.MatchString(name) {
		return made, false
	}
	stem, _, _ := strings.Cut(strings.TrimPrefix(name, s.prefix()), ".")
	made, err := time.Parse(backupTime, stem)
	return made, err == nil
}

// isOwn reports whether the header of the file names this instance. That of an encrypted one
// cannot be read: its note does.
func (s *backupSchedule) isOwn(b *ownBackup) bool {
	f, err := os.Open(b.path)
	if err != nil {
		return false
	}
	defer f.Close()
	form, in := encryption.Peek(f)
	if b.encrypted = form != encryption.Plain; b.encrypted {
		return datadir.ReadNote(b.path).Instance == s.instance
	}
	opened, err := store.OpenBackup(in)
	if err != nil {
		return false
	}
	defer opened.Close()
	return opened.Instance == s.instance
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
		if s.then.isRunning(b.path) {
			continue // until the next time
		}
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
	left := regexp.MustCompile(`^\.` + s.prefix() + `[0-9]{8}T[0-9]{6}Z\.backup(\.age)?(\.checked)?\.[0-9]+\` + datadir.NewSuffix + `$`)
	for _, e := range entries {
		if !e.Type().IsRegular() || !left.MatchString(e.Name()) {
			continue
		}
		if err := os.Remove(filepath.Join(s.dir, e.Name())); err != nil {
			s.log.Warn("cannot remove an incomplete backup", "err", err)
			continue
		}
		s.log.Info("incomplete backup removed", "file", e.Name())
	}
}

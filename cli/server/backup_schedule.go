package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"time"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/store"
	"tollhouse/store/backup/encryption"
	"tollhouse/store/record"
)

// A server can make backups on a schedule. Each is written under a temporary name,
// synced, read back and checked like one of tollhouse backup, then renamed and recorded
// in the store. Its name has the instance and the time:
//
//	tollhouse-3f9c2a1b-20260102T030405Z.backup
//	tollhouse-3f9c2a1b-20260102T030405Z.backup.age
//
// So files sort by time and do not collide with those of tollhouse backup, which have no
// instance in their name, or of another server that uses the same directory. The server
// removes only files with its instance in both the name and the header, or the note of an
// encrypted one, which has a header that the server cannot read.

const (
	backupKeepDefault = 7
	backupKeepMax     = 10_000
	backupEveryMin    = time.Minute // names have seconds

	// backupLook is the time between two looks at the clock, which may be set, or jump
	// after the machine slept.
	backupLook = time.Minute

	// The pause before a retry doubles after each failure.
	backupRetryFirst = time.Minute
	backupRetryMax   = time.Hour

	// backupSpaceShare times the free space that the store needs must stay free, because
	// the store keeps writing during a backup.
	backupSpaceShare = 2
	// backupSpaceEvery is how much is written between two checks of the free space.
	backupSpaceEvery = 4 << 20 // bytes

	instanceInName = 8 // characters of the instance's id
	backupTime     = "20060102T150405Z"
)

// release lets another server with the same data use the directory. s may be nil.
func (s *backupSchedule) release() {
	if s != nil {
		_ = s.only.Close()
	}
}

// backupSpaceMin is what must stay free in addition to the store's reserve.
func backupSpaceMin(disk datadir.DiskEngine) uint64 {
	need, reserved := backupSpaceShare*disk.SpaceMin(), disk.Reserved()
	return need - min(need, reserved)
}

// backupSchedule makes backups by the store's clock.
type backupSchedule struct {
	only     *os.File // the lock on dir
	to       *encryption.Recipients
	then     *backupThen  // nil without a program
	below    bool         // dir is below the data, and may be created
	moved    func() error // fails if the data directory is no longer the one that was opened
	dir      string
	every    time.Duration
	keep     int
	instance string
	now      func() time.Time
	log      *slog.Logger
	free     func(dir string) (uint64, error)
	freeMin  func() uint64                        // bytes that must stay free
	ended    func(ctx context.Context, err error) // notes an outcome, and counts a failure
	store    *store.Store
	notes    store.BackupNotes
	desk     deskWork
}

// run makes backups until ctx is done. The first is due one interval after the newest
// existing one, or immediately without one: a restart neither skips nor repeats a backup.
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
			s.ended(ctx, nil)
			due, retry = now.Add(s.every), backupRetryFirst
		case ctx.Err() != nil: // due again after the next start
		case term.FailureOf(err).Code == term.ExitBusy: // another backup is in progress
			due = s.now().Add(backupRetryFirst)
			s.log.Info("scheduled backup postponed", "reason", err.Error(), "next_try", due)
		default:
			s.ended(ctx, err)
			due, retry = s.now().Add(min(retry, s.every)), min(2*retry, backupRetryMax)
			s.log.Warn("scheduled backup failed", "err", err, "hint", term.FailureOf(err).Hint, "next_try", due)
		}
	}
}

// rest waits, and while waiting does what operators ask for.
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
	if err := s.moved(); err != nil {
		return err
	}
	if err := s.enter(); err != nil {
		return err
	}
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
	if err := s.moved(); err != nil {
		return err
	}
	removed, err := s.prune(own)
	s.log.Info("backup made", "file", path, "bytes", made.Bytes, "records", made.Records, "encrypted", made.Encrypted, "removed", removed)
	if err != nil {
		s.log.Warn("cannot remove an old backup", "err", err)
	}
	if s.then != nil {
		s.then.offer(path)
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
	f.ThenDue = s.then != nil
	err = f.Take(ctx, s.to, func(w io.Writer) error {
		_, err := s.store.Backup(ctx, &spaceWriter{w: w, check: func() error { return s.checkSpace(nil) }}, s.notes)
		return asFailure(err)
	})
	if err != nil {
		return made, err
	}
	checked, err := f.Check(ctx, &datadir.PacedReader{Ctx: ctx, R: f, Rest: datadir.RestAlone})
	if err != nil {
		return made, datadir.BrokenBackup(err)
	}
	size, err := f.Size()
	if err == nil {
		err = s.moved()
	}
	if err == nil {
		err = f.Publish()
	}
	if err != nil {
		return made, err
	}
	made = store.BackupMade{Created: checked.Created, File: path, Bytes: uint64(size), Records: uint64(checked.Records), Scheduled: true, Encrypted: checked.Encrypted}
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

// checkSpace refuses a backup if the disk has too little space besides what the store
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

package server

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tollhouse/cli/datadir"
	"tollhouse/store"
	"tollhouse/store/kv/badgerkv"
	"tollhouse/store/record"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// scheduled is a schedule over a store in memory, by the fake clock of synctest.
type scheduled struct {
	*backupSchedule
	store    *storetest.Fixture
	log      bytes.Buffer
	failures atomic.Int64
	space    atomic.Uint64 // free on the disk
}

func newSchedule(t *testing.T, dir string, every time.Duration, keep int) *scheduled {
	t.Helper()
	f := storetest.New(t, func(o *store.Options) { o.Now = time.Now })
	s := &scheduled{store: f}
	s.space.Store(1 << 40)
	s.backupSchedule = &backupSchedule{
		moved: func() error { return nil },
		dir:   dir, every: every, keep: keep, instance: f.InstanceID(), now: f.Now, log: slog.New(slog.NewTextHandler(&s.log, nil)),
		free: func(string) (uint64, error) { return s.space.Load(), nil }, freeMin: func() uint64 { return 1 << 20 }, ended: func(_ context.Context, err error) {
			if err != nil {
				s.failures.Add(1)
			}
		},
		store: f.Store, notes: store.BackupNotes{Version: "test", Key: f.Key.Fingerprint()},
	}
	return s
}

// during runs the schedule for the duration d.
func (s *scheduled) during(t *testing.T, d time.Duration) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), d)
	defer stop()
	s.run(ctx)
}

// files returns the names in the directory, including hidden ones.
func (s *scheduled) files(t *testing.T) (names []string) {
	t.Helper()
	entries := must.Get(os.ReadDir(s.dir))(t)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func (s *scheduled) named(at time.Time) string {
	return "tollhouse-" + s.instance[:8] + "-" + at.UTC().Format("20060102T150405Z") + ".backup"
}

func sameNames(t *testing.T, got []string, want ...string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("files = %q, want %q", got, want)
	}
}

// Promise (Backup): scheduled backups survive restarts; the oldest goes when the newest is
// complete; status, metrics and audit show the last
func TestBackupSchedule(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	// in runs a case in a synctest bubble with its own directory.
	in := func(name string, run func(t *testing.T, dir string)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) { run(t, dir) })
		})
	}
	in("backup_every_and_keep", func(t *testing.T, dir string) {
		s, begun := newSchedule(t, dir, day, 3), time.Now()
		s.during(t, 5*day+time.Hour)
		sameNames(t, s.files(t), s.named(begun.Add(3*day)), s.named(begun.Add(4*day)), s.named(begun.Add(5*day)))
		if s.failures.Load() != 0 || strings.Count(s.log.String(), "backup made") != 6 || !strings.Contains(s.log.String(), "removed=1") {
			t.Errorf("%d failures, log: %s; want 6 backups", s.failures.Load(), &s.log)
		}
		for _, name := range s.files(t) {
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v, %v, want mode 0600", name, info.Mode(), err)
			}
			file := must.Get(os.Open(filepath.Join(dir, name)))(t)
			if _, err := datadir.ReadBackup(t.Context(), file, name, nil); err != nil {
				t.Errorf("%s is not whole: %v", name, err)
			}
			_ = file.Close()
		}
		last, err := s.store.LastBackup(t.Context())
		if err != nil || last.File != filepath.Join(dir, s.named(begun.Add(5*day))) || !last.Scheduled || !last.Created.Equal(begun.Add(5*day).Truncate(time.Second)) || last.Bytes == 0 {
			t.Errorf("LastBackup() = %+v, %v, want the last one", last, err)
		}
		lines, err := s.store.ListAudit(t.Context(), record.Position{}, 100)
		if n := len(lines); err != nil || n != 6 || lines[n-1].Reason != "backup made on schedule" {
			t.Errorf("audit record = %+v, %v, want a line for each", lines, err)
		}
	})
	in("a_restart_neither_skips_nor_repeats", func(t *testing.T, dir string) {
		s, begun := newSchedule(t, dir, day, 9), time.Now()
		for range 10 { // starts, each 7 hours after the one before
			s.during(t, 7*time.Hour)
		}
		sameNames(t, s.files(t), s.named(begun), s.named(begun.Add(day)), s.named(begun.Add(2*day)))
		time.Sleep(3 * day) // no server runs
		s.during(t, time.Hour)
		if names := s.files(t); len(names) != 4 || names[3] != s.named(begun.Add(70*time.Hour+3*day)) {
			t.Errorf("files = %q, want one more, at once after the start", names)
		}
	})
	in("a_directory_that_vanished_is_used_when_it_is_back", func(t *testing.T, dir string) {
		s := newSchedule(t, dir, time.Hour, 9)
		s.only = must.Get(lockBackups(dir, s.instance))(t)
		defer s.release()
		s.during(t, time.Minute)
		must.Do(t, os.Rename(dir, dir+".away"))
		s.during(t, 2*time.Hour)
		if !strings.Contains(s.log.String(), "the backup directory "+dir+" does not exist") || s.failures.Load() == 0 {
			t.Errorf("%d failures, log %s; want the missing directory", s.failures.Load(), s.log.String())
		}
		must.Do(t, os.Mkdir(dir, 0o700))
		s.during(t, 2*time.Hour)
		if made := must.Get(s.own())(t); len(made) == 0 {
			t.Errorf("no backup in the new directory: %s", s.log.String())
		}
		if err := badgerkv.CheckMoved(s.only, s.only.Name()); err != nil {
			t.Errorf("the new directory has no lock: %v", err)
		}
	})
	in("it_removes_no_file_that_it_did_not_make", func(t *testing.T, dir string) {
		s, begun := newSchedule(t, dir, day, 1), time.Now()
		other := newSchedule(t, dir, day, 1)
		other.during(t, time.Second)
		theirs := must.Get(os.ReadFile(filepath.Join(dir, other.files(t)[0])))(t)
		planted := map[string][]byte{
			"tollhouse-20000101T000000Z.backup":          theirs, // of tollhouse backup
			s.named(begun.Add(-9 * day)):                 []byte("no backup"),
			s.named(begun.Add(-8 * day)):                 theirs, // of another instance, under our name
			"tollhouse-" + s.instance[:8] + "-my.backup": theirs,
			"notes.txt":       []byte("mine"),
			other.files(t)[0]: theirs,
		}
		for name, text := range planted {
			must.Do(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
		}
		s.during(t, 3*day-time.Hour)
		if names := s.files(t); len(names) != len(planted)+1 || !strings.Contains(fmt.Sprint(names), s.named(begun.Add(2*day+time.Second))) {
			t.Errorf("files = %q, want the %d planted ones and the last backup", names, len(planted))
		}
		for name, text := range planted {
			if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(got, text) {
				t.Errorf("%s is changed or gone: %v", name, err)
			}
		}
	})
	in("a_full_disk_costs_a_warning_and_no_old_backup", func(t *testing.T, dir string) {
		s, begun := newSchedule(t, dir, day, 1), time.Now()
		s.during(t, time.Minute)
		s.space.Store(s.freeMin()) // enough for the store, but not for another backup
		s.during(t, day+8*time.Hour)
		sameNames(t, s.files(t), s.named(begun))
		// Tried at once, then after 1, 2, 4, 8, 16, 32 minutes and every hour.
		if n := s.failures.Load(); n != 13 {
			t.Errorf("%d failures, want 13", n)
		}
		for _, want := range []string{"scheduled backup failed", "only 1 MiB are free in " + dir, "use another disk with --backup-dir"} {
			if !strings.Contains(s.log.String(), want) {
				t.Errorf("the log lacks %q: %s", want, &s.log)
			}
		}
		s.space.Store(1 << 40)
		s.during(t, time.Hour)
		if names := s.files(t); len(names) != 1 || names[0] == s.named(begun) {
			t.Errorf("files = %q, want the one made when there was room again", names)
		}
	})
	in("a_disk_that_fills_meanwhile_ends_it_before_the_store_stands_still", func(t *testing.T, dir string) {
		s := newSchedule(t, dir, day, 1)
		asked := 0
		s.free = func(string) (uint64, error) {
			if asked++; asked > 1 {
				return s.freeMin() - 1, nil
			}
			return 1 << 40, nil
		}
		s.during(t, time.Second)
		if sameNames(t, s.files(t)); s.failures.Load() != 1 || asked != 2 {
			t.Errorf("%d failures, asked %d times, want one that was noticed while it was written", s.failures.Load(), asked)
		}
	})
	in("a_stop_during_a_backup_leaves_nothing_behind", func(t *testing.T, dir string) {
		s := newSchedule(t, dir, day, 1)
		ctx, stop := context.WithCancel(t.Context())
		asked := 0
		s.free = func(string) (uint64, error) {
			if asked++; asked > 1 {
				<-ctx.Done() // while it is written
			}
			return 1 << 40, nil
		}
		ended := make(chan struct{})
		go func() { defer close(ended); s.run(ctx) }()
		synctest.Wait()
		if names := s.files(t); len(names) != 1 || !strings.HasSuffix(names[0], datadir.NewSuffix) {
			t.Fatalf("files = %q, want one that is being written", names)
		}
		stop()
		<-ended
		if sameNames(t, s.files(t)); s.failures.Load() != 0 {
			t.Errorf("a stop counts as %d failures", s.failures.Load())
		}
	})
	in("what_a_killed_process_left_is_swept_at_the_start", func(t *testing.T, dir string) {
		s := newSchedule(t, dir, day, 1)
		begun := time.Now()
		left, others := "."+s.named(begun.Add(-day))+".12345"+datadir.NewSuffix, ".tollhouse-20260102T030405Z.backup.123.new"
		for _, name := range []string{left, others} {
			must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte("half"), 0o600))
		}
		s.during(t, time.Second)
		sameNames(t, s.files(t), others, s.named(begun))
	})
	in("another_backup_at_work_is_waited_for_and_no_failure", func(t *testing.T, dir string) {
		s, begun := newSchedule(t, dir, day, 1), time.Now()
		written, free := make(chan struct{}), make(chan struct{})
		go func() {
			_, err := s.store.Backup(t.Context(), writerFunc(func(b []byte) (int, error) {
				select {
				case <-written:
				default:
					close(written)
				}
				<-free
				return len(b), nil
			}), store.BackupNotes{})
			if err != nil {
				t.Error(err)
			}
		}()
		<-written
		s.during(t, 90*time.Second)
		sameNames(t, s.files(t))
		close(free)
		synctest.Wait()
		s.during(t, time.Minute)
		if sameNames(t, s.files(t), s.named(begun.Add(90*time.Second))); s.failures.Load() != 0 {
			t.Errorf("%d failures, want none: %s", s.failures.Load(), &s.log)
		}
	})
	in("a_clock_that_was_wrong_neither_stops_backups_nor_keeps_their_files", func(t *testing.T, dir string) {
		s, begun := newSchedule(t, dir, day, 2), time.Now()
		var ahead atomic.Int64
		s.now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		ahead.Store(int64(365 * day))
		s.during(t, time.Minute)
		ahead.Store(0)
		s.during(t, day+time.Hour)
		names := s.files(t)
		sameNames(t, names, s.named(begun.Add(time.Minute)), s.named(begun.Add(day+time.Minute)))
		// While it runs, a clock that is set back by years puts nothing off for long.
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); s.run(ctx) }()
		time.Sleep(time.Minute)
		ahead.Store(-int64(365 * day))
		time.Sleep(day + 2*time.Minute)
		stop()
		<-ended
		if got := s.files(t); fmt.Sprint(got) == fmt.Sprint(names) {
			t.Errorf("files = %q, want another", got)
		}
	})
	in("two_in_the_same_second_have_two_names", func(t *testing.T, dir string) {
		s := newSchedule(t, dir, time.Minute, 9)
		now := s.now()
		for range 3 {
			must.Do(t, s.make(t.Context(), now))
		}
		sameNames(t, s.files(t), s.named(now), s.named(now.Add(time.Second)), s.named(now.Add(2*time.Second)))
	})
}

type reservingDisk struct {
	datadir.DiskEngine
	need, reserved uint64
}

func (d reservingDisk) SpaceMin() uint64 { return d.need }
func (d reservingDisk) Reserved() uint64 { return d.reserved }

// TestBackupNeedsNoSpaceTwice: what the store already holds on the disk need not be free
// beside it.
func TestBackupNeedsNoSpaceTwice(t *testing.T) {
	t.Parallel()
	if got, want := backupSpaceMin(reservingDisk{need: 500, reserved: 300}), uint64(backupSpaceShare*500-300); got != want {
		t.Errorf("backupSpaceMin() = %d, want %d", got, want)
	}
}

package server

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"filippo.io/age"

	"tollhouse/cli/datadir"
	"tollhouse/store/backup/encryption"
	"tollhouse/store/storetest/must"
)

// newEncrypted is newSchedule with a recipient. with decrypts its backups.
func newEncrypted(t *testing.T, dir string, every time.Duration, keep int) (s *scheduled, with encryption.Identities) {
	t.Helper()
	key := must.Get(age.GenerateX25519Identity())(t)
	s = newSchedule(t, dir, every, keep)
	s.to, s.desk = must.Get(encryption.ParseRecipients([]string{key.Recipient().String()}))(t), newDeskWork()
	return s, must.Get(encryption.ParseIdentities(key.String()))(t)
}

func (s *scheduled) encryptedAt(at time.Time) string { return s.named(at) + ".age" }

// Promise (Guard §10): scheduled backups are encrypted; keeping, due times, the desk and status know them by
// name and note; one without its note is never removed
func TestEncryptedBackupSchedule(t *testing.T) {
	t.Parallel()
	const day, note = 24 * time.Hour, datadir.CheckedSuffix
	in := func(name string, run func(t *testing.T, dir string)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) { run(t, dir) })
		})
	}
	in("kept_and_due_across_restarts", func(t *testing.T, dir string) {
		s, with := newEncrypted(t, dir, day, 2)
		begun := time.Now()
		for range 10 { // starts
			s.during(t, 7*time.Hour)
		}
		last := s.encryptedAt(begun.Add(2 * day))
		sameNames(t, s.files(t), s.encryptedAt(begun.Add(day)), s.encryptedAt(begun.Add(day))+note, last, last+note)
		for _, name := range s.files(t) {
			info := must.Get(os.Stat(filepath.Join(dir, name)))(t)
			if strings.HasSuffix(name, note) {
				continue
			}
			file := must.Get(os.Open(filepath.Join(dir, name)))(t)
			if checked, err := datadir.ReadBackup(t.Context(), file, name, with); err != nil || !checked.Encrypted || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %+v, %v, mode %v", name, checked, err, info.Mode())
			}
			_ = file.Close()
		}
		if made, err := s.store.LastBackup(t.Context()); err != nil || !made.Encrypted || filepath.Base(made.File) != last {
			t.Errorf("LastBackup() = %+v, %v, want the encrypted one", made, err)
		}
		if n := strings.Count(s.log.String(), "encrypted=true"); n != 3 || s.failures.Load() != 0 {
			t.Errorf("%d lines, %d failures, want 3 and 0: %s", n, s.failures.Load(), &s.log)
		}
	})
	in("both_kinds_count_together", func(t *testing.T, dir string) {
		s, _ := newEncrypted(t, dir, day, 2)
		begun, to := time.Now(), s.to
		s.to = nil
		s.during(t, day+time.Hour)
		s.to = to
		s.during(t, day)
		sameNames(t, s.files(t), s.named(begun.Add(day)), s.encryptedAt(begun.Add(2*day)), s.encryptedAt(begun.Add(2*day))+note)
		s.to = nil
		s.during(t, 2*day)
		sameNames(t, s.files(t), s.named(begun.Add(3*day)), s.named(begun.Add(4*day)))
	})
	in("without_its_note_or_with_anothers_it_is_nobodys", func(t *testing.T, dir string) {
		s, _ := newEncrypted(t, dir, day, 1)
		begun := time.Now()
		s.during(t, time.Minute)
		first := filepath.Join(dir, s.encryptedAt(begun))
		theirs := filepath.Join(dir, s.encryptedAt(begun.Add(-time.Hour)))
		foreign := must.Get(os.ReadFile(first + note))(t)
		must.Do(t, os.WriteFile(theirs, must.Get(os.ReadFile(first))(t), 0o600))
		must.Do(t, os.WriteFile(theirs+note, bytes.Replace(foreign, []byte(s.instance), []byte(strings.Repeat("0", 32)), 1), 0o644))
		must.Do(t, os.Remove(first+note))
		s.during(t, 3*day)
		if names := s.files(t); len(names) != 5 || names[0] != filepath.Base(theirs) || names[2] != filepath.Base(first) {
			t.Errorf("files = %q, want the two that are nobody's, a note, and the last with its note", names)
		}
	})
	in("told_by_content_not_by_name", func(t *testing.T, dir string) {
		s, _ := newEncrypted(t, dir, day, 9)
		begun, to := time.Now(), s.to
		s.during(t, time.Minute)
		sealed := filepath.Join(dir, s.encryptedAt(begun))
		renamed := filepath.Join(dir, s.named(begun))
		must.Do(t, os.Rename(sealed, renamed))
		must.Do(t, os.Rename(sealed+note, renamed+note))
		s.to = nil
		s.during(t, day+time.Minute)
		plain := filepath.Join(dir, s.named(begun.Add(day)))
		must.Do(t, os.Rename(plain, plain+".age"))
		s.to = to
		own := must.Get(s.own())(t)
		if len(own) != 2 || own[0].path != renamed || !own[0].encrypted || own[1].path != plain+".age" || own[1].encrypted {
			t.Errorf("own() = %+v, want the encrypted one and the plain one, by content", own)
		}
		s.keep = 1
		s.during(t, 2*day) // removes both
		if names := s.files(t); len(names) != 2 {
			t.Errorf("files = %q, want one with its note", names)
		}
	})
	in("the_desk_checks_it_sealed", func(t *testing.T, dir string) {
		s, _ := newEncrypted(t, dir, day, 2)
		begun := time.Now()
		s.during(t, time.Minute)
		name := s.encryptedAt(begun)
		check := func() (checked bool, problem string) {
			if begins, err := s.Verify(name); err != nil || !begins {
				t.Fatalf("Verify() = %t, %v", begins, err)
			}
			s.during(t, time.Minute)
			f := must.Get(s.List())(t)[0]
			if f.Name != name || !f.Encrypted || s.State().Failed != "" {
				t.Errorf("listed: %+v, %+v", f, s.State())
			}
			return !f.Checked.IsZero(), f.Problem
		}
		before := datadir.ReadNote(filepath.Join(dir, name))
		if checked, problem := check(); !checked || problem != "" {
			t.Errorf("whole: checked %t, problem %q", checked, problem)
		}
		after := datadir.ReadNote(filepath.Join(dir, name))
		after.At = time.Time{}
		if before != after {
			t.Errorf("the check made the note %+v, want %+v and a time", after, before)
		}
		f := must.Get(os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0))(t)
		must.Get(f.WriteAt([]byte("x"), 300))(t)
		must.Do(t, f.Close())
		if checked, problem := check(); !checked || !strings.Contains(problem, "damaged") {
			t.Errorf("changed: checked %t, problem %q", checked, problem)
		}
		if own := must.Get(s.own())(t); len(own) != 1 {
			t.Errorf("the damaged one is no longer known: %v", own)
		}
	})
	in("the_note_is_there_with_the_file", func(t *testing.T, dir string) {
		s, _ := newEncrypted(t, dir, day, 2)
		begun := time.Now()
		s.during(t, time.Second)
		var note map[string]any
		must.Do(t, json.Unmarshal(must.Get(os.ReadFile(filepath.Join(dir, s.encryptedAt(begun)+datadir.CheckedSuffix)))(t), &note))
		info := must.Get(os.Stat(filepath.Join(dir, s.encryptedAt(begun))))(t)
		if len(note) != 6 || note["encrypted"] != true || len(note["sha256"].(string)) != 64 || note["bytes"] != float64(info.Size()) || note["instance"] != s.instance || note["created"] != begun.UTC().Format(time.RFC3339) || note["records"].(float64) < 1 {
			t.Errorf("note = %v", note)
		}
	})
	in("no_plain_byte_is_on_the_disk_while_it_is_written", func(t *testing.T, dir string) {
		s, _ := newEncrypted(t, dir, day, 2)
		looked := 0
		s.free = func(string) (uint64, error) {
			for _, name := range s.files(t) {
				looked++
				if text := must.Get(os.ReadFile(filepath.Join(dir, name)))(t); bytes.Contains(text, []byte("tollbak")) {
					t.Errorf("%s has plain bytes", name)
				}
			}
			return 1 << 40, nil
		}
		s.during(t, day+time.Minute)
		if looked == 0 || s.failures.Load() != 0 {
			t.Errorf("looked at %d files, %d failures", looked, s.failures.Load())
		}
	})
	in("what_a_killed_process_left_is_swept", func(t *testing.T, dir string) {
		s, _ := newEncrypted(t, dir, day, 2)
		begun := time.Now()
		for _, left := range []string{"." + s.encryptedAt(begun) + ".12345.new", "." + s.encryptedAt(begun) + note + ".12345.new"} {
			must.Do(t, os.WriteFile(filepath.Join(dir, left), []byte("half"), 0o600))
		}
		s.during(t, time.Second)
		sameNames(t, s.files(t), s.encryptedAt(begun), s.encryptedAt(begun)+note)
	})
}

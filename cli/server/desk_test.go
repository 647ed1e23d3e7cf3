package server

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/handlers/desk"
	"tollhouse/store/storetest/must"
)

func TestDeskFlags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		flags    deskFlags
		networks int
		off, bad bool
	}{
		{"default", deskFlags{on: "on"}, 0, false, false},
		{"off", deskFlags{on: "off"}, 0, true, false},
		{"neither_on_nor_off", deskFlags{on: "yes"}, 0, false, true},
		{"networks", deskFlags{on: "on", from: []string{"10.0.0.0/8,192.0.2.7", "2001:db8::/32"}}, 3, false, false},
		{"loopback", deskFlags{on: "on", from: []string{"loopback"}}, 2, false, false},
		{"no_network", deskFlags{on: "on", from: []string{"office"}}, 0, false, true},
		{"an_empty_list", deskFlags{on: "on", from: []string{""}}, 0, false, true},
		{"a_bad_network_while_off", deskFlags{on: "off", from: []string{"office"}}, 0, false, true},
		{"too_short", deskFlags{on: "on", confirm: term.Duration(59 * time.Second)}, 0, false, true},
		{"too_long", deskFlags{on: "on", confirm: term.Duration(13 * time.Hour)}, 0, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.flags.confirm == 0 {
				c.flags.confirm = term.Duration(deskConfirmDefault)
			}
			d, err := c.flags.parse(deskConfirmMin)
			if (err != nil) != c.bad || err == nil && (d == nil) != c.off {
				t.Fatalf("parse = %v, %v", d, err)
			}
			if d != nil && len(d.From) != c.networks {
				t.Errorf("networks = %v, want %d", d.From, c.networks)
			}
			if err != nil && term.FailureOf(err).Code != term.ExitUsage {
				t.Errorf("exit code %d, want %d", term.FailureOf(err).Code, term.ExitUsage)
			}
		})
	}
}

// TestDeskWork: one thing is done at a time, and the next look says what came of it.
func TestDeskWork(t *testing.T) {
	t.Parallel()
	s := backupSchedule{desk: newDeskWork()}
	done := 0
	work := func(context.Context) error { done++; return context.DeadlineExceeded }
	if !s.desk.begin(desk.BackupState{Making: true}, work) || s.desk.begin(desk.BackupState{Checking: "another"}, work) {
		t.Fatal("two things were begun, want the first alone")
	}
	if got := s.State(); !got.Making || got.Checking != "" {
		t.Errorf("state = %+v", got)
	}
	s.rest(t.Context(), time.Hour)
	if got := s.State(); got.IsBusy() || got.Failed == "" || done != 1 {
		t.Errorf("state = %+v after %d times, want what failed", got, done)
	}
	if !s.desk.begin(desk.BackupState{Checking: "another"}, work) {
		t.Error("nothing can be begun after the end")
	}
}

// TestDeskRemembersChecks: when a backup was checked, and what was found, survives a
// restart and goes with the backup.
func TestDeskRemembersChecks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * time.Hour
		begun := time.Now().Truncate(time.Second)
		s := newSchedule(t, dir, day, 2)
		s.desk = newDeskWork()
		s.during(t, day+time.Hour) // makes two
		older, newer := s.named(begun), s.named(begun.Add(day))
		list := func() map[string]desk.BackupFile {
			t.Helper()
			again := newSchedule(t, dir, day, 2) // as after a restart
			again.instance = s.instance
			files := map[string]desk.BackupFile{}
			for _, f := range must.Get(again.List())(t) {
				files[f.Name] = f
			}
			return files
		}
		verify := func(name string) {
			t.Helper()
			if ok, err := s.Verify(name); !ok || err != nil {
				t.Fatalf("Verify(%s) = %t, %v", name, ok, err)
			}
			s.rest(t.Context(), time.Minute)
			if state := s.State(); state.Failed != "" {
				t.Fatalf("the check failed: %s", state.Failed)
			}
		}
		if f := list()[older]; !f.Checked.IsZero() || f.Problem != "" {
			t.Errorf("before a check: %+v", f)
		}
		at := time.Now()
		verify(older)
		if f := list()[older]; f.Checked.Sub(at).Abs() > time.Minute || f.Problem != "" {
			t.Errorf("after the check: %+v, want %v", f, at)
		}
		text := must.Get(os.ReadFile(filepath.Join(dir, older)))(t)
		must.Do(t, os.WriteFile(filepath.Join(dir, older), text[:len(text)-9], 0o600))
		verify(older)
		if f := list()[older]; f.Problem == "" {
			t.Errorf("the damage is not remembered: %+v", f)
		}
		must.Do(t, datadir.NoteCheck(filepath.Join(dir, newer), at, nil)) // as backup verify does
		if f := list()[newer]; !f.Checked.Equal(at.Truncate(time.Second)) {
			t.Errorf("a check by the command is not listed: %+v", f)
		}
		must.Do(t, os.WriteFile(filepath.Join(dir, newer+datadir.CheckedSuffix), []byte("{"), 0o600))
		if f := list()[newer]; !f.Checked.IsZero() {
			t.Errorf("a broken note counts: %+v", f)
		}
		s.during(t, 2*day) // removes both
		for _, name := range s.files(t) {
			if strings.HasSuffix(name, datadir.CheckedSuffix) {
				t.Errorf("%s is left behind", name)
			}
		}
	})
}

// TestNotedChecks: only a scheduled backup and what says something about it leave a note.
func TestNotedChecks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const scheduled = "tollhouse-3f9c2a1b-20260102T030405Z.backup"
	damage := term.Fail(term.ExitBadData, "", "damaged")
	for _, c := range []struct {
		name  string
		found error
		want  bool
	}{
		{scheduled, nil, true}, {scheduled, damage, true}, {scheduled, context.Canceled, false}, {scheduled, term.Fail(term.ExitIO, "", "cannot read"), false},
		{"tollhouse-20260102T030405Z.backup", nil, false}, {"mine.backup", damage, false}, {"-", nil, false},
	} {
		path := filepath.Join(dir, c.name)
		_ = os.Remove(path + datadir.CheckedSuffix)
		must.Do(t, datadir.NoteCheck(path, time.Unix(1, 0), c.found))
		check := datadir.ReadNote(path)
		if !check.At.IsZero() != c.want || (check.Problem != "") != (c.want && c.found != nil) {
			t.Errorf("%s, %v: noted %+v, want a note: %t", c.name, c.found, check, c.want)
		}
	}
}

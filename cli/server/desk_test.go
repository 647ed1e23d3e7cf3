package server

import (
	"context"
	"testing"
	"time"

	"tollhouse/cli/term"
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
	if !s.desk.begin("A backup is being made.", work) || s.desk.begin("Another.", work) {
		t.Fatal("two things were begun, want the first alone")
	}
	if got := s.State().Doing; got != "A backup is being made." {
		t.Errorf("state = %q", got)
	}
	s.rest(t.Context(), time.Hour)
	if got := s.State(); got.Doing != "" || got.Failed == "" || done != 1 {
		t.Errorf("state = %+v after %d times, want what failed", got, done)
	}
	if !s.desk.begin("Another.", work) {
		t.Error("nothing can be begun after the end")
	}
}

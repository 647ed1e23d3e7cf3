package store_test

import (
	"fmt"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// recorded returns the lines, and how many refusals they are about.
func recorded(t *testing.T, s *store.Store) (lines []store.AuditLine, about int) {
	t.Helper()
	lines = must.Get(s.ListAudit(t.Context(), record.Position{}, 20_000))(t)
	for _, l := range lines {
		about += max(l.Count, 1)
	}
	return lines, about
}

func unknownClient() store.AuditLine {
	return store.AuditLine{What: store.AuditRefused, Reason: "unknown"}
}

func refusedSignIn(user int) store.AuditLine {
	return store.AuditLine{What: store.AuditLoginRefused, Reason: "wrong_password", UserID: fmt.Sprint("usr_", user)}
}

// TestStrangersCauseFewAuditLines: whatever strangers send, some 200 lines a minute are
// about all of it, and every refusal is in one of them.
//
// Promise (Credentials, memory, connections): filling the audit record from all addresses of an
// IPv6 /48, or with the names of 10,000 users; every refusal is in a line or a number, and every
// accepted sign-in is recorded
func TestStrangersCauseFewAuditLines(t *testing.T) {
	t.Parallel()
	const refusals, linesMax = 10_000, 230 // a minute
	minutes := 5
	if testing.Short() {
		minutes = 2 // a second one shows what the first left behind
	}
	for name, line := range map[string]func(i int) store.AuditLine{
		"unknown_clients": func(int) store.AuditLine { return unknownClient() },
		"unknown_users": func(int) store.AuditLine {
			return store.AuditLine{What: store.AuditLoginRefused, Reason: "unknown_user"}
		},
		"codes_of_many_clients": func(i int) store.AuditLine {
			return store.AuditLine{What: store.AuditRefused, Reason: fmt.Sprint(i % 9), ClientID: fmt.Sprint(i)}
		},
		"one_known_user":    func(int) store.AuditLine { return refusedSignIn(1) },
		"10000_known_users": refusedSignIn,
		"10000_known_users_slowed_down": func(i int) store.AuditLine {
			return store.AuditLine{What: store.AuditThrottle, Reason: "too_many_failures", UserID: fmt.Sprint(i)}
		},
		"all_of_these": func(i int) store.AuditLine {
			switch i % 5 {
			case 0:
				return unknownClient()
			case 1:
				return refusedSignIn(i)
			case 2:
				return store.AuditLine{What: store.AuditThrottle, Reason: "too_many_failures", UserID: fmt.Sprint(i)}
			case 3:
				return store.AuditLine{What: store.AuditDenied, Reason: "denied_by_user", UserID: fmt.Sprint(i), ClientID: fmt.Sprint(i)}
			}
			return store.AuditLine{What: store.AuditRefused, Reason: "unknown", ClientID: fmt.Sprint(i)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := storetest.New(t)
			before := 0
			for range minutes {
				for i := range refusals {
					f.AuditRefusal(line(i))
				}
				lines, _ := recorded(t, f.Store)
				if n := len(lines) - before; n == 0 || n > linesMax {
					t.Errorf("a minute leaves %d lines, want some and at most %d", n, linesMax)
				}
				before = len(lines)
				f.Clock.Advance(time.Minute)
			}
			if _, about := recorded(t, f.Store); about != refusals*minutes {
				t.Errorf("the lines are about %d refusals, want %d", about, refusals*minutes)
			}
		})
	}
}

// TestAuditNumbers: what is counted is written once a minute, with what all of it have in
// common.
//
// Promise (Credentials, memory, connections): refused sign-ins of a user beyond 200 a minute are a
// number, which the API, the desk and the filters show; numbers appear at a stop, in a backup, and
// under a clock that stands still
func TestAuditNumbers(t *testing.T) {
	t.Parallel()
	from := func(source string, l store.AuditLine) store.AuditLine {
		l.Source, l.RequestID = source, "req_"+source
		return l
	}
	t.Run("the_first_refusal_of_a_kind_names_its_request", func(t *testing.T) {
		t.Parallel()
		f := storetest.New(t)
		for _, source := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.2"} {
			f.AuditRefusal(from(source, unknownClient()))
		}
		if lines, _ := recorded(t, f.Store); len(lines) != 1 || lines[0].RequestID != "req_192.0.2.1" || lines[0].Count != 0 {
			t.Errorf("at once the record has %+v, want the first refusal", lines)
		}
		f.Clock.Advance(time.Minute)
		if lines, _ := recorded(t, f.Store); len(lines) != 2 || lines[1].Count != 2 || lines[1].Source != "192.0.2.2" || lines[1].RequestID != "" {
			t.Errorf("a minute later the record has %+v, want a number with the source of all", lines)
		}
	})
	t.Run("different_sources_and_reasons_leave_none", func(t *testing.T) {
		t.Parallel()
		f := storetest.New(t)
		for i := range 210 {
			l := from(fmt.Sprint("192.0.2.", i), refusedSignIn(1))
			l.Reason = fmt.Sprint(i)
			f.AuditRefusal(l)
		}
		f.Clock.Advance(time.Minute)
		if lines, _ := recorded(t, f.Store); len(lines) != 201 || lines[200].Source != "" || lines[200].Reason != "several reasons" || lines[200].Count != 10 || lines[200].UserID != "usr_1" {
			t.Errorf("%d lines, the last %+v; want 200 and a number of the user", len(lines), lines[len(lines)-1])
		}
	})
	t.Run("each_of_several_users_has_a_line", func(t *testing.T) {
		t.Parallel()
		f := storetest.New(t)
		for i := range 1000 {
			f.AuditRefusal(refusedSignIn(i % 50))
		}
		f.Clock.Advance(time.Minute)
		lines, _ := recorded(t, f.Store)
		numbers := map[string]int{}
		for _, l := range lines[200:] {
			numbers[l.UserID] += l.Count
		}
		if len(lines) != 250 || len(numbers) != 50 || numbers["usr_7"] != 16 {
			t.Errorf("%d lines with the numbers %v, want 200 and one of each user", len(lines), numbers)
		}
	})
	t.Run("a_stop_writes_the_numbers", func(t *testing.T) {
		t.Parallel()
		f := storetest.New(t)
		for range 10 {
			f.AuditRefusal(unknownClient())
		}
		f.Rest()
		if lines, about := recorded(t, f.Reopened(t)); len(lines) != 2 || about != 10 {
			t.Errorf("after a stop the record has %+v, want a line and a number", lines)
		}
	})
	t.Run("a_backup_has_the_numbers", func(t *testing.T) {
		t.Parallel()
		f := storetest.New(t)
		for range 10 {
			f.AuditRefusal(unknownClient())
		}
		f.Flush(t.Context())
		if _, about := recorded(t, f.Reopened(t)); about != 10 {
			t.Errorf("the record is about %d refusals, want 10", about)
		}
	})
	t.Run("a_clock_that_is_set_back_does_not_stop_them", func(t *testing.T) {
		t.Parallel()
		f := storetest.New(t)
		for range 300 {
			f.AuditRefusal(refusedSignIn(1))
		}
		f.Clock.Advance(-time.Hour)
		for range 300 {
			f.AuditRefusal(refusedSignIn(1))
		}
		f.Clock.Advance(2 * time.Hour)
		if _, about := recorded(t, f.Store); about != 600 {
			t.Errorf("the record is about %d refusals, want 600", about)
		}
	})
}

// TestRefusalsDisplaceNoLine: while the store is away, refusals take up a part of the
// queue, and nothing is lost.
//
// Promise (Credentials, memory, connections): a crash loses no accepted sign-in and no operator's
// change from the audit record; a store that is away loses no line, and refusals displace none
func TestRefusalsDisplaceNoLine(t *testing.T) {
	t.Parallel()
	const minutes, refusals, waiting = 60, 1000, 1 << 10 // lines about refusals
	f := storetest.New(t)
	f.Rest()
	f.Faults.Break(record.ErrAway)
	for range minutes {
		for i := range refusals {
			f.AuditRefusal(refusedSignIn(i))
			f.AuditRefusal(unknownClient())
		}
		f.Clock.Advance(time.Minute)
		f.AuditNow(t.Context(), store.AuditLine{What: store.AuditAdmin, Reason: "user disabled"})
	}
	f.Faults.Repair()
	f.Flush(t.Context())
	lines, about := recorded(t, f.Reopened(t))
	admin := 0
	for _, l := range lines {
		if l.What == store.AuditAdmin {
			admin++
		}
	}
	if lost := f.Counts().AuditLost; admin != minutes || lost != 0 || about != minutes*(2*refusals+1) {
		t.Errorf("%d changes, %d refusals and %d lost, want %d, %d and none", admin, about-admin, lost, minutes, 2*minutes*refusals)
	}
	if n := len(lines) - admin; n > waiting+100 { // with the numbers of the last minute
		t.Errorf("%d lines about refusals waited, want %d at most", n, waiting)
	}
}

// TestRefusalsOfACallerHaveLines: a client that the platform API's rules refuse is seen, and
// cannot fill the record or hide another.
//
// Promise (Platform §4, §5): refusals by the platform API's rules are lines with the caller and the
// code, 60 a minute for each client, and then numbers
func TestRefusalsOfACallerHaveLines(t *testing.T) {
	t.Parallel()
	const refusals, most, minutes = 100, 60, 2
	callers := []store.Actor{{ClientID: "a", ClientName: "A"}, {ClientID: "b", ClientName: "B"}}
	f := storetest.New(t)
	for range minutes {
		for range refusals {
			for _, caller := range callers {
				f.AuditRefusal(store.AuditLine{What: store.AuditRefused, Reason: "protected", By: store.By{RequestID: "req_1", Actor: caller}})
			}
		}
		f.Clock.Advance(time.Minute)
	}
	lines, about := recorded(t, f.Store)
	if about != len(callers)*refusals*minutes {
		t.Errorf("the lines are about %d refusals, want %d", about, len(callers)*refusals*minutes)
	}
	for _, caller := range callers {
		single, counted := 0, 0
		for _, l := range lines {
			switch {
			case l.Actor != caller || l.What != store.AuditRefused || l.Reason != "protected":
			case l.Count == 0:
				single++
			default:
				counted++
			}
		}
		if single != most*minutes || counted != minutes {
			t.Errorf("%s has %d lines and %d numbers, want %d and %d", caller.ClientName, single, counted, most*minutes, minutes)
		}
	}
	filter := store.AuditFilter{ClientIDs: []string{"a"}}
	if !filter.Matches(lines[0]) || filter.Matches(lines[1]) {
		t.Error("the filter for a client does not find what was done by it")
	}
}

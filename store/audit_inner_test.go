package store

import (
	"testing"
	"time"
)

// TestAuditNumbersUnderAStandingClock: with dev's clock standing still, the machine's
// clock ends the minute.
//
// Promise (Credentials, memory, connections): refused sign-ins of a user beyond 200 a minute are a
// number, which the API, the desk and the filters show; numbers appear at a stop, in a backup, and
// under a clock that stands still
func TestAuditNumbersUnderAStandingClock(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1773070200123).UTC()
	s := &Store{now: func() time.Time { return now }}
	s.lastUsed.init()
	for range 3 {
		s.AuditRefusal(AuditLine{What: AuditRefused, Reason: "unknown"})
	}
	for range auditMinuteTicks - 1 {
		s.audits.tick(now)
	}
	if n := len(s.audits.lines); n != 1 {
		t.Fatalf("within a minute %d lines wait, want the first refusal", n)
	}
	if !s.audits.tick(now) || len(s.audits.lines) != 2 || s.audits.lines[1].line.Count != 2 {
		t.Errorf("after a minute %+v wait, want the number", s.audits.lines)
	}
	s.AuditRefusal(AuditLine{What: AuditRefused, Reason: "unknown"})
	if n := len(s.audits.lines); n != 3 {
		t.Errorf("in the next minute %d lines wait, want the first refusal too", n)
	}
}

// TestChangesOfATenantAreCountedOnce: the closure of a transaction may run again.
//
// Promise (Credentials, memory, connections): filling the audit record by changes of webhook
// endpoints, also at once and by a receiver
func TestChangesOfATenantAreCountedOnce(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1773070200123).UTC()
	var c auditCounts
	line := AuditLine{What: AuditWebhook, AccountID: "acct_a"}
	for range 3 { // runs
		for i := range byte(100) {
			if got, want := c.admitsChange(line, reasonChanges, [8]byte{1, i}, now), i < auditChangesMax; got != want {
				t.Fatalf("change %d has a line: %t, want %t", i, got, want)
			}
		}
	}
	other := AuditLine{What: AuditWebhook, AccountID: "acct_b"}
	if !c.admitsChange(other, reasonChanges, [8]byte{2}, now) {
		t.Error("another account's change has no line")
	}
	lines := c.take(now)
	if len(lines) != 1 || lines[0].Count != 100-auditChangesMax || lines[0].AccountID != "acct_a" || lines[0].Reason != reasonChanges {
		t.Errorf("the numbers are %+v, want that of the account", lines)
	}
}

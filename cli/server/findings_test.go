package server

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"tollhouse/handlers/admin"
	"tollhouse/store"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook"
)

// shown says what doctor and /metrics show of a check.
func shown(t *testing.T, r *running, check string) (doctor admin.Finding, metrics string) {
	t.Helper()
	doctor.State = admin.StateOK
	checkup{data: r.data(), server: r}.run(t.Context(), admin.DepthUsual, func(f admin.Finding) {
		if f.Check == check {
			doctor = f
		}
	})
	metrics = admin.StateOK
	page := samples(scrape(t, r))
	for _, of := range checksOfRows() {
		for _, state := range []string{admin.StateWarning, admin.StateProblem} {
			series := `tollhouse_finding{check="` + of + `",state="` + state + `"}`
			switch value, found := page[series]; {
			case !found:
				t.Errorf("/metrics has no %s", series)
			case value == "1" && of == check:
				metrics = state
			case value == "1":
				t.Errorf("%s = 1 because of %s", series, check)
			}
		}
	}
	return doctor, metrics
}

// TestFindings makes each finding begin and end.
//
// Promise (Guard §7, §8, §9): doctor and /metrics show each finding from one table, with a series for every
// check and state
func TestFindings(t *testing.T) {
	t.Parallel()
	r := onDisk(t)
	r.certificates = openTestFiles(t, certify(t, time.Hour, "pay.example"), "pay.example")
	ctx, s := t.Context(), r.data().Store
	is := func(when, check, doctor, metrics string) {
		t.Helper()
		f, of := shown(t, r, check)
		if f.State != doctor || of != metrics || (f.State == admin.StateOK) != (f.Next == "") {
			t.Errorf("%s: doctor shows %+v and /metrics %s, want %s and %s", when, f, of, doctor, metrics)
		}
	}
	is("valid", "tls", admin.StateOK, admin.StateOK)
	is("at the start", "backup", admin.StateWarning, admin.StateOK) // no backup was ever made
	good := func(at time.Time) {
		t.Helper()
		must.Do(t, s.RecordBackup(ctx, store.BackupMade{Created: at, File: "-"}, store.By{}))
	}
	good(time.Now().Add(-49 * time.Hour))
	is("two days after the last one", "backup", admin.StateWarning, admin.StateWarning)
	good(time.Now())
	is("after the next", "backup", admin.StateOK, admin.StateOK)
	r.backupEnded(ctx, errors.New("no space"))
	is("after one that failed", "backup", admin.StateWarning, admin.StateWarning)
	good(time.Now().Add(time.Second)) // by a command
	is("after one by a command", "backup", admin.StateOK, admin.StateOK)
	r.backupEnded(ctx, errors.New("no space"))
	r.backupEnded(ctx, nil)
	is("after the next on schedule", "backup", admin.StateOK, admin.StateOK)

	r.noteOutcome(ctx, backupThenFailed.check, errors.New("exit status 1"))
	is("the program failed", "backup-then", admin.StateWarning, admin.StateWarning)
	r.outcomes.known = nil // as after a restart
	is("and the server was restarted", "backup-then", admin.StateWarning, admin.StateWarning)
	r.noteOutcome(ctx, backupThenFailed.check, nil)
	is("the program succeeded", "backup-then", admin.StateOK, admin.StateOK)

	r.recordCheck(ctx, errors.New("a bit flipped"))
	is("damage was found", "store", admin.StateProblem, admin.StateProblem)
	r.recordCheck(ctx, nil)
	is("a whole check found none", "store", admin.StateOK, admin.StateOK)

	must.Get(s.CreateAccount(ctx, "acct_a", ""))(t)
	e, _, err := s.Webhooks.Create(ctx, webhook.System, "acct_a", webhook.Settings{URL: "https://a.example/"})
	must.Do(t, err)
	must.Do(t, s.Webhooks.Start(ctx))
	must.Get(s.Webhooks.Disable(ctx, webhook.System, e.ID))(t)
	is("an operator disabled it", "webhooks", admin.StateOK, admin.StateOK)
	enable := func() {
		t.Helper()
		e, _, err = s.Webhooks.Enable(ctx, webhook.System, e.ID, webhook.FromNow())
		must.Do(t, err)
	}
	enable()
	e = must.Get(s.Webhooks.Settle(ctx, &e, webhook.Progress{Disable: webhook.Gone}))(t)
	is("its receiver disabled it", "webhooks", admin.StateWarning, admin.StateWarning)
	enable()
	is("it is enabled", "webhooks", admin.StateOK, admin.StateOK)
	must.Get(s.Webhooks.Hold(ctx, webhook.System))(t)
	is("an operator holds all", "webhooks", admin.StateWarning, admin.StateOK)
	must.Get(s.Webhooks.Resume(ctx, webhook.System))(t)
	must.Get(webhook.HoldUnasked(ctx, r.data().DB, webhook.HeldRestored, time.Now()))(t)
	is("held since a restore", "webhooks", admin.StateWarning, admin.StateWarning)
	must.Get(s.Webhooks.Resume(ctx, webhook.System))(t)
}

// TestFindingsOfTheDisk: what fell below a bound has to rise clearly above it again.
//
// Promise (Guard §7, §8, §9): a disk or a store at a bound does not begin and end in turns
func TestFindingsOfTheDisk(t *testing.T) {
	t.Parallel()
	begun := false
	u := checkup{begun: func(check string) bool { return check == "disk" && begun }}
	const freeMin, mib = uint64(100 << 20), uint64(1 << 20)
	for _, c := range []struct {
		free  uint64
		begun bool
		want  *row
	}{
		{freeMin + diskSpare, false, nil},
		{freeMin + diskSpare - 1, false, diskLow},
		{freeMin, true, diskLow},
		{freeMin - 1, true, diskFull},
		{freeMin + diskSpare, true, diskLow},
		{(100+288)*mib*11/10 - mib, true, diskLow},
		{(100+288)*mib*11/10 + mib, true, nil},
	} {
		begun = c.begun
		var got *row
		if found := u.diskRows(c.free, freeMin); len(found) > 0 {
			got = found[0].row
		}
		if got != c.want {
			t.Errorf("with %d free, begun %t: %v, want %v", c.free, c.begun, got, c.want)
		}
	}
}

// TestTheTableOfFindings: what is sent is a sentence that may leave the machine, and each check has a rule of
// Prometheus.
func TestTheTableOfFindings(t *testing.T) {
	t.Parallel()
	for _, r := range rows {
		if r.check == "" || r.title == "" || strings.HasSuffix(r.text, ".") != r.isSent() || r.next == "" || strings.HasSuffix(r.next, ".") || r.state != admin.StateWarning && r.state != admin.StateProblem {
			t.Errorf("%+v is incomplete", r)
		}
		if lastingChecks[r.check] == nil {
			t.Errorf("nothing looks at %s", r.check)
		}
	}
	rules := string(must.Get(os.ReadFile(filepath.Join("..", "..", "docs", "alerts.yml")))(t))
	covered := strings.Split(regexp.MustCompile(`tollhouse_finding\{check=~"([a-z|-]+)"\}`).FindStringSubmatch(rules)[1], "|")
	own := map[string]string{"disk": "TollhouseDiskFull", "store": "TollhouseDamage", "tls": "TollhouseCertificateExpiring", "webhooks": "TollhouseWebhookDisabled", "database": "TollhouseDatabaseAway", "snapshots": "TollhouseOldSnapshot"}
	for _, check := range checksOfRows() {
		if slices.Contains(covered, check) == (own[check] != "" && strings.Contains(rules, "alert: "+own[check])) {
			t.Errorf("docs/alerts.yml has no rule for %s, or two", check)
		}
	}
	for _, check := range covered {
		if lastingChecks[check] == nil {
			t.Errorf("docs/alerts.yml has a rule for %s, which is no finding", check)
		}
	}
}

package cli

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
	"tollhouse/store/storetest/must"
)

// TestDoctorNamesWhoHoldsADatabase makes what doctor and /readyz look at begin and end.
//
// Promise (Postgres §9): doctor says that no server has run on an empty database; it names readable files
// with passwords and, after 60 seconds, who holds a snapshot, prepared transaction or slot
func TestDoctorNamesWhoHoldsADatabase(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	h := newDatabaseHouse(t, "max_prepared_transactions = 2")
	dir := t.TempDir()
	file, pass := filepath.Join(dir, "store"), filepath.Join(dir, "pass")
	must.Do(t, os.WriteFile(file, []byte(h.store+"&passfile="+pass), 0o600))
	must.Do(t, os.Chmod(file, 0o644))
	must.Do(t, os.WriteFile(pass, []byte("*:*:*:*:x\n"), 0o600))
	doctor := func() (found map[string]admin.Finding, code int) {
		t.Helper()
		return findings(t, "--store-file", file, "--key-file", h.key)
	}

	found, code := doctor()
	if f := found["files"]; f.State != admin.StateProblem || !strings.Contains(f.Detail, file+" has mode 0644") || strings.Contains(f.Detail, pass) || !strings.Contains(f.Next, "chmod 640") {
		t.Errorf("files: %+v, want the store file alone", f)
	}
	if f := found["servers"]; code != term.ExitFailed || f.State != admin.StateOK || f.Detail != "no server has run on the database yet" || !strings.Contains(found["database"].Detail, "PostgreSQL 1") {
		t.Errorf("an empty database: exit %d, %+v", code, found)
	}
	must.Do(t, os.Chmod(file, 0o640))
	must.Do(t, os.Chmod(pass, 0o604))
	found, _ = doctor()
	if f := found["files"]; f.State != admin.StateProblem || !strings.Contains(f.Detail, pass+" has mode 0604") || strings.Contains(f.Detail, file) {
		t.Errorf("files: %+v, want the pass file alone", f)
	}
	must.Do(t, os.Chmod(pass, 0o600))
	if found, code = doctor(); code != term.ExitOK || found["files"].State != admin.StateOK {
		t.Errorf("an empty database with good files: exit %d, %+v", code, found)
	}

	s := start(t, h.args("--metrics-listen", "127.0.0.1:0")...)
	if found, code = doctor(); code != term.ExitOK || found["snapshots"].State != admin.StateOK || found["writes"].State != admin.StateOK {
		t.Errorf("a server alone: exit %d, %+v", code, found)
	}
	dump := h.postgres.Stranger(t, h.store, "dumper", "pg_dump")
	dump.Exec(t, "begin isolation level repeatable read")
	dump.Exec(t, "select 1")
	h.postgres.Exec(t, h.store, "create table public.pending (a int)")
	h.postgres.Exec(t, h.store, "begin; insert into public.pending values (1); prepare transaction 'pending'")
	h.postgres.Exec(t, h.store, "select pg_create_physical_replication_slot('lost', true)")
	eventually(t, func() (bool, string) {
		found, code = doctor()
		f := found["snapshots"]
		ok := f.State == admin.StateWarning && code == term.ExitOK
		for _, name := range []string{`role "dumper" (application_name "pg_dump"), for `, `prepared transaction "pending" of role "postgres"`, `replication slot "lost"`} {
			ok = ok && strings.Contains(f.Detail, name)
		}
		return ok, f.Detail
	})
	_, _, page := get(t, s.text("metrics"), "")
	for _, want := range []string{`tollhouse_finding{check="snapshots",state="warning"} 1`, `tollhouse_store_snapshot_age_seconds{holder="backup"} 0`} {
		if !strings.Contains(page, "\n"+want+"\n") {
			t.Errorf("metrics lack %s", want)
		}
	}
	for _, holder := range []string{"session", "prepared", "slot"} {
		if strings.Contains(page, `tollhouse_store_snapshot_age_seconds{holder="`+holder+`"} 0`+"\n") {
			t.Errorf("metrics have no age of the %s", holder)
		}
	}
	if status, _, body := get(t, s.text("url")+"/readyz", ""); status != http.StatusOK {
		t.Errorf("readyz = %d %s because of snapshots, want 200", status, body)
	}
	dump.Exec(t, "rollback")
	h.postgres.Exec(t, h.store, "rollback prepared 'pending'")
	h.postgres.Exec(t, h.store, "select pg_drop_replication_slot('lost')")
	if found, _ = doctor(); found["snapshots"].State != admin.StateOK {
		t.Errorf("snapshots after they ended: %+v", found["snapshots"])
	}
}

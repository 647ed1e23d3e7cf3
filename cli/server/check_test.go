package server

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tollhouse/cli/datadir"
	"tollhouse/handlers/admin"
	"tollhouse/store"
	"tollhouse/store/kv"
	"tollhouse/store/storetest/must"
)

// TestDoctorFindings covers findings that a test cannot produce with a real server.
//
// Promise (Commands and settings): doctor finds present and coming problems with the next step, and
// exits 1 for any; one setting scales memory
//
// Promise (Releases): doctor says when the program on disk is newer than the one that runs
func TestDoctorFindings(t *testing.T) {
	t.Parallel()
	t.Run("a_record_that_cannot_be_read_is_named_by_its_kind", func(t *testing.T) {
		t.Parallel()
		r := onDisk(t)
		err := r.data().DB.Update(t.Context(), func(tx kv.Txn) error {
			return tx.Set([]byte("uone-user-of-many"), []byte("written by nobody"), time.Time{})
		})
		if err != nil {
			t.Fatal(err)
		}
		var found []admin.Finding
		checkup{data: r.data(), server: r}.run(t.Context(), admin.DepthAll, func(f admin.Finding) { found = append(found, f) })
		last := found[len(found)-1]
		if last.Check != "records" || last.State != admin.StateProblem || !strings.Contains(last.Detail, "(users)") {
			t.Errorf("last finding = %+v, want a problem with users", last)
		}
	})
	t.Run("counts_of_events_that_differ_are_made_again_once", func(t *testing.T) {
		t.Parallel()
		r := onDisk(t)
		ctx := t.Context()
		must.Do(t, r.data().DB.Update(ctx, func(tx kv.Txn) error {
			return tx.Set([]byte("q\x00h\x00\x00\x00\x01"), []byte("\x01\x01\x04plan\x07"), time.Time{})
		}))
		for _, want := range []string{admin.StateWarning, admin.StateOK} {
			found := map[string]admin.Finding{}
			checkup{data: r.data(), server: r}.run(ctx, admin.DepthAll, func(f admin.Finding) { found[f.Check] = f })
			if f := found["counts"]; f.State != want || found["records"].State != admin.StateOK {
				t.Errorf("finding = %+v, want %s, and whole records: %+v", f, want, found["records"])
			}
		}
	})
	t.Run("the_last_backup_is_too_old", func(t *testing.T) {
		t.Parallel()
		r := onDisk(t)
		made := store.BackupMade{Created: r.data().Store.Now().Add(-50 * time.Hour), File: "/b", Bytes: 2048}
		must.Do(t, r.data().Store.RecordBackup(t.Context(), made, store.By{}))
		u := checkup{data: r.data(), server: r}
		if f := u.backup(t.Context()); f.State != admin.StateWarning || !strings.Contains(f.Detail, "the last backup is 2d2h old") {
			t.Errorf("finding = %+v, want a warning", f)
		}
		r.backups = &backupSchedule{every: 7 * 24 * time.Hour, dir: t.TempDir(), instance: "3f9c2a1b"}
		if f := u.backup(t.Context()); f.State != admin.StateOK {
			t.Errorf("finding = %+v, want ok for one a week", f)
		}
	})
	t.Run("a_program_that_was_replaced_since_the_start", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "tollhouse")
		put := func(name string, written time.Time) {
			must.Do(t, os.WriteFile(name, []byte(name), 0o700))
			must.Do(t, os.Chtimes(name, written, written))
		}
		start := time.Now().Add(-time.Hour)
		put(path, start)
		program := &programFile{path, must.Get(os.Stat(path))(t)}
		for _, c := range []struct{ change, state, says string }{
			{"", admin.StateOK, "1.0.0, as on disk"},
			{"newer", admin.StateWarning, "1.0.0 is running, and " + path + " on disk is newer: it is of "},
			{"older", admin.StateWarning, "1.0.0 is running, and " + path + " on disk is another one, of "},
			{"gone", admin.StateWarning, "1.0.0 is running, and its file cannot be found: "},
		} {
			switch c.change {
			case "newer", "older": // as a package manager does it
				put(path+".new", start.Add(map[string]time.Duration{"newer": time.Minute, "older": -time.Minute}[c.change]))
				must.Do(t, os.Rename(path+".new", path))
			case "gone":
				must.Do(t, os.Remove(path))
			}
			if f := program.check("1.0.0"); f.Check != "program" || f.State != c.state || !strings.HasPrefix(f.Detail, c.says) || (f.Next == "") != (c.state == admin.StateOK) {
				t.Errorf("%q: finding = %+v, want %s and %q", c.change, f, c.state, c.says)
			}
		}
	})
	t.Run("an_admin_socket_that_was_removed", func(t *testing.T) {
		t.Parallel()
		r := onDisk(t)
		r.admin = must.Get(datadir.ListenAdmin(filepath.Join(must.ClosedDir(t), datadir.SocketName), quiet))(t)
		t.Cleanup(func() { _ = r.admin.Close() })
		must.Do(t, os.Remove(r.admin.Addr().String()))
		found := false
		checkup{data: r.data(), server: r}.run(t.Context(), admin.DepthUsual, func(f admin.Finding) {
			found = found || f.Check == "socket" && f.State == admin.StateProblem
		})
		if !found {
			t.Error("no finding for the socket")
		}
	})
	t.Run("the_certificate", func(t *testing.T) {
		t.Parallel()
		now := time.Unix(1_773_070_200, 0)
		const day, late = 24 * time.Hour, "it should have been renewed"
		for _, c := range []struct {
			lives, left   time.Duration
			problem, says string
			want          string
		}{
			{90 * day, 60 * day, "", "", admin.StateOK},
			{90 * day, 60 * day, "the new one does not fit its key", "the new one does not fit its key", admin.StateWarning},
			{90 * day, 14 * day, "", "", admin.StateOK},
			{90 * day, 14*day - time.Second, "", late, admin.StateWarning},
			{365 * day, 14 * day, "", "", admin.StateOK},
			{365 * day, 14*day - time.Second, "", late, admin.StateWarning},
			{47 * day, 13 * day, "", "", admin.StateOK},
			{47 * day, 11 * day, "", late, admin.StateWarning},
			{6 * day, 6 * day, "", "", admin.StateOK},
			{6 * day, 36 * time.Hour, "", "", admin.StateOK},
			{6 * day, 36*time.Hour - time.Second, "", late, admin.StateWarning},
			{90 * day, -time.Second, "", "expired", admin.StateProblem},
		} {
			s := admin.CertificateStatus{Source: tlsFiles, Names: []string{"pay.example"}, NotBefore: now.Add(c.left - c.lives).Unix(), Expires: now.Add(c.left).Unix(), Problem: c.problem}
			f := certificateFinding(s, now)
			if found := certificateRows(s, now); (len(found) == 0) != (c.want == admin.StateOK) || len(found) == 1 && found[0].state != c.want {
				t.Errorf("of %s with %s left, %q: the table has %+v, want %s", c.lives, c.left, c.problem, found, c.want)
			}
			if f.State != c.want || !strings.Contains(f.Detail, "pay.example") || !strings.Contains(f.Detail, c.says) || c.says != late && strings.Contains(f.Detail, late) && c.left > 0 {
				t.Errorf("of %s with %s left, %q: %+v, want %s that says %q", c.lives, c.left, c.problem, f, c.want, c.says)
			}
		}
		rules, err := os.ReadFile(filepath.Join("..", "..", "docs", "alerts.yml"))
		if want := fmt.Sprintf(") / %d, %d * 86400)", certificateSoonPart, certificateSoonMost/day); err != nil || !strings.Contains(string(rules), want) {
			t.Errorf("docs/alerts.yml has another rule than doctor (%q), %v", want, err)
		}
		if f := certificateFinding(admin.CertificateStatus{Source: sourceACME, Names: []string{"pay.example"}}, now); f.State != admin.StateProblem {
			t.Errorf("without one: %+v, want a problem", f)
		}
	})
	t.Run("the_public_address", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			name   string
			answer http.HandlerFunc
			want   admin.Finding
		}{
			{"another_server", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"issuer":"https://other.example"}`) }, admin.Finding{State: admin.StateProblem, Detail: `is another server: its issuer is "https://other.example"`}},
			{"something_else", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "It works!") }, admin.Finding{State: admin.StateProblem, Detail: `is another server: its issuer is ""`}},
			{"host_not_passed_on", func(w http.ResponseWriter, q *http.Request) {
				if q.URL.Path != "/healthz" {
					w.WriteHeader(http.StatusMisdirectedRequest)
				}
			}, admin.Finding{State: admin.StateProblem, Detail: "status 421", Next: "pass on the Host header"}},
			{"redirected", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "https://www.pay.example/")
				w.WriteHeader(http.StatusMovedPermanently)
			}, admin.Finding{State: admin.StateProblem, Detail: "redirects to https://www.pay.example/"}},
			{"bad_gateway", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, admin.Finding{State: admin.StateProblem, Detail: "status 502", Next: "the proxy's configuration"}},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				s := httptest.NewServer(c.answer)
				defer s.Close()
				got := CheckAddress(t.Context(), s.URL)
				if got.State != c.want.State || !strings.Contains(got.Detail, c.want.Detail) || !strings.Contains(got.Next, c.want.Next) {
					t.Errorf("finding = %+v, want %+v", got, c.want)
				}
			})
		}
		t.Run("an_untrusted_certificate", func(t *testing.T) {
			t.Parallel()
			s := httptest.NewUnstartedServer(http.NotFoundHandler())
			s.Config.ErrorLog = nil
			s.StartTLS()
			defer s.Close()
			if got := CheckAddress(t.Context(), s.URL); got.State != admin.StateWarning || !strings.Contains(got.Detail, "does not trust it") {
				t.Errorf("finding = %+v, want a warning of the certificate", got)
			}
		})
		t.Run("plain_http_at_an_https_address", func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(http.NotFoundHandler())
			defer s.Close()
			if got := CheckAddress(t.Context(), "https"+strings.TrimPrefix(s.URL, "http")); got.State != admin.StateProblem && got.State != admin.StateWarning || !strings.Contains(got.Detail, "HTTP response to HTTPS client") {
				t.Errorf("finding = %+v, want that it is plain http", got)
			}
		})
	})
	t.Run("owners_and_many_files", func(t *testing.T) {
		t.Parallel()
		dir := must.ClosedDir(t)
		for i := range 5 {
			must.Do(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600))
			must.Do(t, os.Chmod(filepath.Join(dir, fmt.Sprint(i)), 0o640))
		}
		if f := CheckFiles(dir); f.State != admin.StateProblem || !strings.HasSuffix(f.Detail, "2 has mode 0640, and 2 more") {
			t.Errorf("finding = %+v, want three names and that there are more", f)
		}
		must.Have(t, os.Geteuid() == 0, "only root can give a file to another user")
		must.Do(t, os.Chown(filepath.Join(dir, "4"), 12345, 12345))
		if f := CheckFiles(dir); f.State != admin.StateProblem || !strings.Contains(f.Detail, "4 belongs to uid 12345") || !strings.HasPrefix(f.Next, "chown -R 0 ") {
			t.Errorf("finding = %+v, want the owner", f)
		}
	})
	t.Run("every_state_is_one_of_three", func(t *testing.T) {
		t.Parallel()
		r := onDisk(t)
		var names []string
		checkup{data: r.data(), server: r}.run(t.Context(), admin.DepthAll, func(f admin.Finding) {
			names = append(names, f.Check)
			if !slices.Contains([]string{admin.StateOK, admin.StateWarning, admin.StateProblem}, f.State) {
				t.Errorf("finding = %+v", f)
			}
		})
		if got, want := strings.Join(names, " "), "proxy store disk open files clock backup webhooks blocks counts records"; got != want {
			t.Errorf("checks = %s, want %s", got, want)
		}
	})
}

func TestDiskOfStore(t *testing.T) {
	t.Parallel()
	if d := diskOf(onDisk(t).data().DB); d.Used == 0 || d.Free == 0 {
		t.Errorf("a store on disk takes %+v", d)
	}
	inMemory := must.Get(datadir.Open(t.Context(), datadir.Options{Log: slog.New(slog.DiscardHandler)}))(t)
	t.Cleanup(func() { _ = inMemory.Close() })
	if d := diskOf(inMemory.DB); d.Used == 0 || d.Free != 0 {
		t.Errorf("a store in memory takes %+v", d)
	}
}

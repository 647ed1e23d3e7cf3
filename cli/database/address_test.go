package database

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tollhouse/cli/term"
	"tollhouse/store/kv"
	"tollhouse/store/kv/pgkv"
	"tollhouse/store/kv/pgkv/pgtest"
	"tollhouse/store/storetest/must"
)

func TestAddressOfADatabase(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	for _, variable := range []string{"PGHOST", "PGPORT", "PGUSER", "PGPASSWORD", "PGSSLMODE", "PGSSLROOTCERT", "PGTARGETSESSIONATTRS", "PGSERVICE", "PGCONNECT_TIMEOUT"} {
		t.Setenv(variable, "")
		os.Unsetenv(variable)
	}
	for _, c := range []struct {
		name     string
		url      string
		inFlag   bool
		insecure bool
		wantCode int
		want     string // in the error, or all hosts
	}{
		{name: "hosts_are_tried_in_order", url: "postgres://toll@127.0.0.1,127.0.0.2:5433,localhost/db", want: "127.0.0.1:5432 127.0.0.2:5433 localhost:5432"},
		{name: "a_socket_needs_no_certificate", url: "postgres:///db?host=/var/run/postgresql", want: "/var/run/postgresql:5432"},
		{name: "the_password_may_be_in_a_variable", url: "postgres://toll:hunter2@127.0.0.1/db", want: "127.0.0.1:5432"},
		{name: "a_password_in_the_flag_is_refused", url: "postgres://toll:hunter2@127.0.0.1/db", inFlag: true, wantCode: term.ExitUsage, want: "--store contains a password"},
		{name: "and_one_among_its_parameters", url: "postgres://toll@127.0.0.1/db?pass%77ord=hunter2", inFlag: true, wantCode: term.ExitUsage, want: "--store contains a password"},
		{name: "and_that_of_a_client_certificate", url: "postgres://toll@127.0.0.1/db?sslpassword=hunter2", inFlag: true, wantCode: term.ExitUsage, want: "--store contains a password"},
		{name: "and_one_with_a_slash", url: "postgres://toll:hunter2/x@127.0.0.1/db", inFlag: true, wantCode: term.ExitUsage, want: "--store contains a password"},
		{name: "read_write_may_be_given", url: "postgres://toll@127.0.0.1/db?target_session_attrs=read-write", want: "127.0.0.1:5432"},
		{name: "a_standby_is_refused", url: "postgres://toll@127.0.0.1/db?target_session_attrs=prefer-standby", wantCode: term.ExitUsage, want: "target_session_attrs"},
		{name: "any_session_is_refused", url: "postgres://toll@127.0.0.1/db?target_session_attrs=any", wantCode: term.ExitUsage, want: "target_session_attrs"},
		{name: "another_scheme_is_refused", url: "mysql://toll:hunter2@127.0.0.1/db", wantCode: term.ExitUsage, want: "does not begin with postgres://"},
		{name: "an_invalid_port_is_refused", url: "postgres://toll:hunter2@127.0.0.1:x/db", wantCode: term.ExitUsage, want: "invalid port"},
		{name: "a_password_that_looks_like_a_port_is_not_repeated", url: "postgres://toll:hunter2%te/x@127.0.0.1/db", wantCode: term.ExitUsage, want: "failed to parse as URL"},
		{name: "plain_text_over_the_network_is_refused", url: "postgres://toll@db.example/db?sslmode=disable", wantCode: term.ExitConfig, want: "db.example"},
		{name: "the_default_mode_does_not_verify", url: "postgres://toll@db.example/db", wantCode: term.ExitConfig, want: "db.example"},
		{name: "require_does_not_verify", url: "postgres://toll@127.0.0.1,db.example/db?sslmode=require", wantCode: term.ExitConfig, want: "db.example"},
		{name: "verify_ca_without_a_root_trusts_every_issuer", url: "postgres://toll@db.example/db?sslmode=verify-ca", wantCode: term.ExitConfig, want: "db.example"},
		{name: "verify_full_is_enough", url: "postgres://toll@db.example/db?sslmode=verify-full", want: "db.example:5432"},
		{name: "the_operator_may_allow_it", url: "postgres://toll@db.example/db", insecure: true, want: "db.example:5432"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Settings{URL: c.url, InFlag: c.inFlag, Insecure: c.insecure}
			a, err := s.Address()
			if c.wantCode == 0 {
				if err != nil {
					t.Fatalf("Address() = %v, want nil", err)
				}
				if got := strings.Join(a.Hosts(), " "); got != c.want {
					t.Errorf("Hosts() = %q, want %q", got, c.want)
				}
				if !strings.Contains(a.URL(), "target_session_attrs=read-write") || !strings.Contains(a.URL(), "connect_timeout=2") {
					t.Errorf("URL() = %q, want the session attributes and the timeout in it", a.URL())
				}
				if strings.Contains(a.String(), "hunter2") {
					t.Errorf("String() = %q shows the password", a)
				}
				return
			}
			if err == nil {
				t.Fatalf("Address() = %v, want an error", a)
			}
			f := term.FailureOf(err)
			if f.Code != c.wantCode || !strings.Contains(f.Error(), c.want) {
				t.Errorf("Address() = %d %v, want %d and %q", f.Code, f, c.wantCode, c.want)
			}
			if strings.Contains(f.Error()+f.Hint, "hunter2") {
				t.Errorf("Address() = %v shows the password", f)
			}
		})
	}
}

func TestURLComesFromAFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "store")
	s := Settings{File: file}
	if _, err := s.Address(); err == nil || term.FailureOf(err).Code != term.ExitBusy {
		t.Errorf("Address() = %v without the file, want exit code %d", err, term.ExitBusy)
	}
	if err := os.WriteFile(file, []byte("postgres://toll:hunter2@127.0.0.1/db\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := s.Address()
	if err != nil || !strings.HasPrefix(a.URL(), "postgres://toll:hunter2@127.0.0.1/db?") {
		t.Errorf("Address() = %v, %v, want the URL in the file", a, err)
	}
	s.URL = "postgres://127.0.0.1/db"
	if _, err := s.Address(); err == nil || term.FailureOf(err).Code != term.ExitUsage {
		t.Errorf("Address() = %v with a URL and a file, want exit code %d", err, term.ExitUsage)
	}
}

// Promise (Postgres §3, §9): --store-file is read for each connection, by the rules of a start.
func TestStoreFileIsReadForEachConnection(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "store")
	says := func(url string) { must.Do(t, os.WriteFile(file, []byte(url+"\n"), 0o600)) }
	dial := func(a *pgkv.Address) error {
		s, err := pgkv.Dial(t.Context(), a)
		if err == nil {
			s.Close()
		}
		return err
	}
	for name, c := range map[string]struct{ url, want string }{
		"not_a_url":    {"mysql://db", "does not begin with postgres://"},
		"no_file":      {"", "does not exist"},
		"unprotected":  {"postgres://toll@db.example/db", "over the network"},
		"no_authority": {"postgres://toll@127.0.0.1/db?sslmode=verify-full&sslrootcert=" + file + ".none", "no such file"},
	} {
		dsn := pgtest.Start(t)
		says(dsn)
		s := Settings{File: file}
		a := must.Get(s.Address())(t)
		must.Do(t, dial(a))
		if says(c.url); c.url == "" {
			must.Do(t, os.Remove(file))
		}
		if err := dial(a); !errors.Is(err, kv.ErrAway) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: Dial() = %v, want ErrAway with %q", name, err, c.want)
		}
		says(dsn)
		for begun := time.Now(); dial(a) != nil; time.Sleep(50 * time.Millisecond) {
			if time.Since(begun) > time.Minute {
				t.Fatalf("%s: the right file is not read within a minute: %v", name, dial(a))
			}
		}
	}
}

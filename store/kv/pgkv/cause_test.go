package pgkv_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"tollhouse/store/kv"
	"tollhouse/store/kv/pgkv"
	"tollhouse/store/kv/pgkv/pgtest"
	"tollhouse/store/storetest/must"
)

// awayReason connects as a program does at first, and returns why it may not.
func awayReason(t *testing.T, url string) *pgkv.AwayError {
	t.Helper()
	_, err := pgkv.DialFirst(t.Context(), must.Get(pgkv.ParseAddress(url))(t))
	away, is := errors.AsType[*pgkv.AwayError](err)
	if !is {
		t.Fatalf("DialFirst(%s) = %v, want an AwayError", pgkv.Mask(url), err)
	}
	return away
}

// Promise (Postgres §3, §9): why a database cannot be used is said in a sentence: passwords, users,
// privileges, parameters, certificates, replicas, limits; and whether waiting can end it.
func TestWhatIsWrongWithADatabase(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	ours, other := pgtest.NewAuthority(t), pgtest.NewAuthority(t)
	s := pgtest.NewTLS(t, ours)
	s.Exec(t, s.DSN("postgres"), `create role app login password 'right'; create role late login password 'right' valid until '2020-01-01'; create role asleep password 'right'; create role barred login password 'right'; create role stranger login password 'right';
		create role full login password 'right' connection limit 0`)
	for _, sql := range []string{"create database closed with allow_connections false", "create database theirs owner app", "revoke connect on database theirs from public", "create database fixed owner app", "alter database fixed set default_transaction_read_only = on"} {
		s.Exec(t, s.DSN("postgres"), sql)
	}
	s.Access(t, "host all barred 127.0.0.1/32 reject", "host all all 127.0.0.1/32 scram-sha-256")
	dir, here := t.TempDir(), s.Address()
	must.Do(t, os.WriteFile(filepath.Join(dir, "ours"), ours.PEM, 0o600))
	must.Do(t, os.WriteFile(filepath.Join(dir, "other"), other.PEM, 0o600))
	local := strings.Replace(here, "127.0.0.1", "localhost", 1)
	nobody := must.FreeAddress(t)
	for _, c := range []struct {
		url, want string
		lasts     bool
	}{
		{"app:wrong@" + here + "/theirs", "the password is wrong, or the user is unknown (28P01)", true},
		{"late:right@" + here + "/theirs", "the password is wrong, or the user is unknown (28P01)", true},
		{"nobody:right@" + here + "/theirs", "the password is wrong, or the user is unknown (28P01)", true},
		{"app@" + here + "/theirs", "it asks for a password, and none was given", true},
		{"asleep:right@" + here + "/theirs", "may not log in (28000)", true},
		{"barred:right@" + here + "/theirs", "pg_hba.conf does not allow", true},
		{"app:right@" + here + "/gone", "the database does not exist (3D000)", true},
		{"stranger:right@" + here + "/theirs", "the user may not connect to this database (42501)", true},
		{"app:right@" + here + "/theirs?pool_max_conns=4", "unknown parameter: pool_max_conns (42704)", true},
		{"app:right@" + here + "/theirs?options=-cfoo%3Dbar", "unknown parameter: options (42704)", true},
		{"app:right@" + here + "/theirs?timezone=Nowhere", "does not accept the parameter timezone of the URL (22023)", true},
		{"app:right@" + here + "/theirs?log_statement=all", "does not accept the parameter log_statement of the URL (42501)", true},
		{"app:right@" + here + "/theirs?ssl_library=x", "does not accept the parameter ssl_library of the URL (55P02)", true},
		{"app:right@" + here + "/theirs?sslmode=verify-full&sslrootcert=" + dir + "/other", "is not from an authority that is trusted here", true},
		{"app:right@" + local + "/theirs?sslmode=verify-full&sslrootcert=" + dir + "/ours", "has another name: 127.0.0.1 and not localhost", true},
		{"full:right@" + here + "/postgres", "it has too many connections (53300)", false},
		{"app:right@" + here + "/closed", "does not accept connections (55000)", false},
		{"app:right@" + here + "/fixed", "it is read-only: default_transaction_read_only is on", false},
		{"app:right@" + nobody + "/theirs", "connection refused", false},
		{"app:right@db.invalid/theirs", "its name does not resolve", false},
		// A replica may not know a new password yet, so all hosts have to say so.
		{"app:wrong@" + nobody + "," + here + "/theirs", nobody + ": connect: connection refused; " + here + ": the password is wrong", false},
		{"app:wrong@" + here + "," + local + "/theirs", here + ": the password is wrong, or the user is unknown (28P01); " + local + ": the password is wrong", true},
	} {
		away := awayReason(t, "postgres://"+c.url)
		if !strings.Contains(away.Reason, c.want) || away.Lasts != c.lasts {
			t.Errorf("%s: %q, lasts: %t, want %q and %t", c.url, away.Reason, away.Lasts, c.want, c.lasts)
		}
		if c.lasts && away.Remedy == "" {
			t.Errorf("%s: %q has no next step", c.url, away.Reason)
		}
		if strings.Contains(away.Reason+away.Remedy, "right") || strings.Contains(away.Reason+away.Remedy, "stranger") {
			t.Errorf("%s: %q, %q shows a name or a password", c.url, away.Reason, away.Remedy)
		}
	}
	if away := awayReason(t, "postgres://app@"+startingServer(t)+"/theirs"); away.Reason != "it is starting or stopping (57P03)" || away.Lasts {
		t.Errorf("a server that starts: %q, lasts: %t", away.Reason, away.Lasts)
	}
	s.Demote(t)
	if away := awayReason(t, "postgres://app:right@"+here+"/theirs"); away.Reason != "it is only a replica" || away.Lasts {
		t.Errorf("a replica: %q, lasts: %t", away.Reason, away.Lasts)
	}
	if away := awayReason(t, "postgres://app:right@"+here+","+nobody+"/theirs"); !strings.Contains(away.Reason, here+": it is only a replica; "+nobody+": connect: connection refused") {
		t.Errorf("a replica and a host that is down: %q", away.Reason)
	}
}

// startingServer returns the address of a PostgreSQL that has not recovered yet.
func startingServer(t *testing.T) string {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			client := pgproto3.NewBackend(conn, conn)
			for asked, err := client.ReceiveStartupMessage(); err == nil; asked, err = client.ReceiveStartupMessage() {
				if _, isTLS := asked.(*pgproto3.SSLRequest); isTLS {
					_, _ = conn.Write([]byte("N"))
					continue
				}
				client.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "57P03", Message: "the database system is starting up"})
				_ = client.Flush()
				break
			}
			_ = conn.Close()
		}
	}()
	return l.Addr().String()
}

// Promise (Postgres §3, §9): a role or database with other formats (DateStyle, TimeZone, bytea_output,
// client_encoding, isolation) makes no difference.
func TestFormatsOfARole(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t)
	conn := must.Get(pgx.Connect(t.Context(), url))(t)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	run(t, conn, `do $$ begin execute format('alter database %I set datestyle = ''SQL, DMY''', current_database());
		execute format('alter database %I set timezone = ''Asia/Kolkata''', current_database());
		execute format('alter database %I set intervalstyle = ''sql_standard''', current_database());
		execute format('alter database %I set bytea_output = ''escape''', current_database());
		execute format('alter database %I set client_encoding = ''LATIN1''', current_database());
		execute format('alter database %I set standard_conforming_strings = off', current_database());
		execute format('alter database %I set default_transaction_isolation = ''serializable''', current_database());
		execute format('alter database %I set default_transaction_deferrable = on', current_database()); end $$`)
	a := madeIn(t, url)
	db := open(t, url)
	must.Do(t, db.Update(t.Context(), setting("key", "grüße \\ ' \x00\xff")))
	_, end := running(t, quiet(a, "größer"))
	defer end()
	s := must.Get(pgkv.DialFirst(t.Context(), a))(t)
	defer s.Close()
	if hosts := hostsOf(t, s); len(hosts) != 1 || hosts[0] != "größer" {
		t.Errorf("Servers() = %q, want the one that runs", hosts)
	}
	must.Get(s.Facts(t.Context()))(t)
	if c := must.Get(s.Clock(t.Context()))(t); c.Offset.Abs() > patience {
		t.Errorf("Clock() = %+v, want about no distance", c)
	}
	must.Do(t, db.View(t.Context(), func(r kv.Reader) error {
		got, err := r.Get([]byte("key"))
		if string(got) != "grüße \\ ' \x00\xff" {
			t.Errorf("the value is %q", got)
		}
		return err
	}))
}

// Promise (Postgres §3, §9): parameters of libpq that change nothing here are accepted; those that ask
// for what tollhouse does not do are refused by name.
func TestParametersOfLibpq(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t)
	for _, param := range []string{"keepalives=1", "keepalives_idle=5", "keepalives_interval=2", "keepalives_count=3", "tcp_user_timeout=1000", "gssencmode=disable", "gssencmode=prefer", "gsslib=gssapi", "gssdelegation=0", "krbsrvname=postgres",
		"sslcompression=1", "requiressl=0", "ssl_min_protocol_version=TLSv1.2", "ssl_max_protocol_version=TLSv1.3", "sslsni=1", "sslcertmode=allow", "sslnegotiation=postgres", "channel_binding=prefer", "load_balance_hosts=random", "fallback_application_name=ours",
		"client_encoding=auto", "options=-cgeqo%3Doff", "passfile=/x", "min_protocol_version=3.0", "replication=off", "work_mem=4MB", "application_name=ours"} {
		url += "&" + param
	}
	s, err := pgkv.DialFirst(t.Context(), must.Get(pgkv.ParseAddress(url))(t))
	if err != nil {
		t.Fatalf("DialFirst() = %v with harmless parameters", err)
	}
	s.Close()
	for _, param := range []string{"gssencmode=require", "requiressl=1", "ssl_min_protocol_version=TLSv1.3", "ssl_max_protocol_version=TLSv1.2", "hostaddr=127.0.0.1", "oauth_client_id=x", "oauth_client_secret=x", "oauth_issuer=x", "oauth_scope=x",
		"replication=database", "requirepeer=postgres", "scram_client_key=x", "scram_server_key=x", "sslcrl=x", "sslcrldir=x", "sslkeylogfile=x"} {
		name, _, _ := strings.Cut(param, "=")
		_, err := pgkv.ParseAddress("postgres://app@127.0.0.1/db?" + param)
		if wrong, is := errors.AsType[*pgkv.AddressError](err); !is || wrong.Param != name || wrong.Reason == "" {
			t.Errorf("ParseAddress() with %s = %v, want it refused by name", param, err)
		}
	}
	for _, param := range []string{"oauth_client_secret", "scram_client_key", "scram_server_key"} {
		if url := "postgres://app@127.0.0.1/db?" + param + "=hunter2"; !pgkv.HasPassword(url) || strings.Contains(pgkv.Mask(url), "hunter2") {
			t.Errorf("%s is no secret: %s", param, pgkv.Mask(url))
		}
	}
}

// Promise (Postgres §3, §9): a privilege that the user lacks is named at the start, with the statement
// that grants it.
func TestMissingPrivilegesAreNamed(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	s := pgtest.New(t, "fsync = off")
	owner := s.Database(t)
	conn := must.Get(pgx.Connect(t.Context(), owner))(t)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	run(t, conn, `create role app login; create role "the Owner"`)
	url := strings.Replace(owner, "user=postgres", "user=app", 1)
	a := must.Get(pgkv.ParseAddress(url))(t)
	lacks := func(want string) {
		t.Helper()
		_, err := pgkv.DialFirst(t.Context(), a)
		refused, is := errors.AsType[*pgkv.RefusedError](err)
		if !is || !strings.Contains(refused.Reason, want) {
			t.Fatalf("DialFirst() = %v, want it refused with %q", err, want)
		}
		grants, has := strings.CutPrefix(refused.Remedy, "as the owner: ")
		if !has {
			t.Fatalf("the next step is %q", refused.Remedy)
		}
		run(t, conn, grants)
	}
	lacks("create on database ")
	must.Get(pgkv.DialFirst(t.Context(), a))(t).Close()
	run(t, conn, "create schema tollhouse")
	lacks("usage on schema tollhouse; create on schema tollhouse")
	must.Do(t, must.Get(pgkv.Open(t.Context(), pgkv.Options{URL: url}.Patient(20)))(t).Close())
	run(t, conn, `do $$ declare t text; begin for t in select tablename from pg_tables where schemaname = 'tollhouse' loop execute format('alter table tollhouse.%I owner to "the Owner"', t); end loop; end $$;
		grant select on all tables in schema tollhouse to app; grant insert, update, delete on tollhouse.kv_0001 to app`)
	lacks("insert, update, delete on tollhouse.mark, tollhouse.server, tollhouse.site, tollhouse.turn")
	must.Do(t, must.Get(pgkv.Open(t.Context(), pgkv.Options{URL: url}.Patient(20)))(t).Close())
	run(t, conn, "revoke update on tollhouse.turn from app")
	var refused *pgkv.RefusedError
	if _, err := pgkv.Open(t.Context(), pgkv.Options{URL: url}); !errors.As(err, &refused) || !strings.Contains(refused.Reason, "update on tollhouse.turn") {
		t.Errorf("Open() = %v without a privilege, want it refused", err)
	}
}

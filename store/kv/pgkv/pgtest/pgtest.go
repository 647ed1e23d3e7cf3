// Package pgtest runs PostgreSQL servers for tests. A server of a test's own syncs to disk
// as in production; the one that tests share does not, since nothing cuts its power.
//
// A server runs under a shell that waits for the test process: it stops and removes its
// files however the tests end. Its programs are those of the first postgres in PATH, or
// Debian's; .ci/run has each version in PATH in turn.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tollhouse/store/storetest/must"

	"github.com/jackc/pgx/v5"
)

// versionMin is the oldest version that is supported.
const versionMin = 15

// EnvDSN is the environment variable with the URL of a server to use.
const EnvDSN = "TOLLHOUSE_TEST_DSN"

// Start returns the URL of a fresh, empty database on a server that all tests of the
// process share. With [EnvDSN] it is on that server. Without PostgreSQL the
// test is skipped, and fails if CI is set.
func Start(t testing.TB) (dsn string) {
	t.Helper()
	dsn, drop := create(t, common(t))
	t.Cleanup(drop)
	return dsn
}

// Emptied is Start for tests that keep nothing but a store of the usual schema in the database.
// Another test of the process may have had it before: emptying a database takes a tenth of the time
// of dropping it and creating another.
func Emptied(t testing.TB) (dsn string) {
	t.Helper()
	var d database
	select {
	case d = <-emptied:
	default:
		d.dsn, d.drop = create(t, common(t))
	}
	t.Cleanup(func() {
		if run(d.dsn, empty) != nil {
			d.drop()
			return
		}
		select {
		case emptied <- d:
		default:
			d.drop()
		}
	})
	return d.dsn
}

type database struct {
	dsn  string
	drop func()
}

// emptied has the databases that tests have left. They go with the server that the tests share.
var emptied = make(chan database, 64)

const empty = `select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid();
	drop schema if exists tollhouse cascade`

// common returns the URL of the server that tests share.
func common(t testing.TB) string {
	t.Helper()
	if dsn := os.Getenv(EnvDSN); dsn != "" {
		return dsn
	}
	shared.Do(func() { sharedServer, sharedErr = launch(portDefault, "fsync = off") })
	if sharedErr != nil {
		missing(t, sharedErr)
	}
	return sharedServer.DSN("postgres")
}

var (
	shared       sync.Once
	sharedServer *Server
	sharedErr    error
	databases    atomic.Int64
	processBegan = time.Now().UnixNano() // one of the same number may have left databases behind
)

// create makes a database on the server of dsn.
func create(t testing.TB, dsn string) (of string, drop func()) {
	t.Helper()
	name := fmt.Sprintf("t%d_%d_%d", os.Getpid(), processBegan, databases.Add(1))
	run := func(sql string) error { return run(dsn, sql) }
	if err := run("create database " + name); err != nil {
		t.Fatalf("create a database: %v", err)
	}
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String(), func() { _ = run("drop database if exists " + name + " with (force)") }
}

func run(dsn, sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	return err
}

// EndLocks ends the sessions of a database that have an advisory lock.
func EndLocks(dsn string) error {
	return run(dsn, "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())")
}

func missing(t testing.TB, err error) {
	t.Helper()
	must.Have(t, false, fmt.Sprintf("PostgreSQL: %v", err))
}

// Server is a PostgreSQL server of a test's own.
type Server struct {
	bin, dir string
	port     string
	asUser   *syscall.Credential // PostgreSQL refuses root
	keeper   *exec.Cmd
	life     *os.File // the server stops when this is closed
}

// New starts a server, which stops with the test. Its settings are lines of
// postgresql.conf.
func New(t testing.TB, settings ...string) *Server {
	t.Helper()
	return start(t, portDefault, settings...)
}

func start(t testing.TB, port string, settings ...string) *Server {
	t.Helper()
	s, err := launch(port, settings...)
	if err != nil {
		missing(t, err)
	}
	t.Cleanup(s.close)
	return s
}

const portDefault = "5432" // names the socket

// DSN returns the URL of a database of this server. A busy machine may take long to
// connect.
func (s *Server) DSN(database string) string {
	return "postgres:///" + database + "?user=postgres&host=" + s.dir + "&port=" + s.port + "&connect_timeout=60"
}

// Database makes a database that is dropped after the test, and returns its URL.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	dsn, drop := create(t, s.DSN("postgres"))
	t.Cleanup(drop)
	return dsn
}

// Socket returns the path of the server's Unix socket.
func (s *Server) Socket() string { return filepath.Join(s.dir, ".s.PGSQL."+s.port) }

// Log returns what the server has logged.
func (s *Server) Log(t testing.TB) string {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	return string(log)
}

func launch(port string, settings ...string) (*Server, error) {
	bin, err := find()
	if err != nil {
		return nil, err
	}
	initialized, err := initialize()
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, port: port}
	if err := s.makeDir(); err != nil {
		return nil, err
	}
	if err := s.command("cp", "-a", initialized.data(), s.data()); err != nil {
		os.RemoveAll(s.dir)
		return nil, err
	}
	lines := append([]string{
		"listen_addresses = ''",
		"port = " + port,
		"unix_socket_directories = '" + s.dir + "'",
		"max_connections = 1000",
		"shared_buffers = '64MB'",
		"fsync = on",
		"synchronous_commit = on",
	}, settings...)
	file, err := os.OpenFile(filepath.Join(s.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = file.WriteString(strings.Join(lines, "\n") + "\n")
		err = errors.Join(err, file.Close())
	}
	if err == nil {
		err = s.run()
	}
	if err != nil {
		os.RemoveAll(s.dir)
		return nil, err
	}
	return s, nil
}

// initialize returns a server that never starts, whose data directory the others of the
// process copy: initdb takes a second of processor time. The directory goes with the process.
var initialize = sync.OnceValues(func() (*Server, error) {
	bin, err := find()
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin}
	if err := s.makeDir(); err != nil {
		return nil, err
	}
	if err := s.keepBy(`cat >/dev/null; rm -rf "$2"`); err != nil {
		os.RemoveAll(s.dir)
		return nil, err
	}
	return s, s.command(filepath.Join(bin, "initdb"), "-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
})

// makeDir makes the directory of a server. The path of a socket must be short, and that of
// t.TempDir is not.
func (s *Server) makeDir() (err error) {
	if s.dir, err = os.MkdirTemp("", "pgtest"); err != nil {
		return err
	}
	return s.chown()
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// command runs a program as the server's user.
func (s *Server) command(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	s.become(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(name), err, out)
	}
	return nil
}

// chown gives the directory to a user who may run PostgreSQL.
func (s *Server) chown() error {
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return err
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	s.asUser = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return os.Chown(s.dir, uid, gid)
}

func (s *Server) become(c *exec.Cmd) {
	c.Dir = s.dir
	c.SysProcAttr = &syscall.SysProcAttr{Credential: s.asUser, Setpgid: true}
}

// keep starts the server and waits until nobody holds the other end of its input.
const keep = `"$1/postgres" -D "$2/data" >"$2/log" 2>&1 </dev/null &
pid=$!
cat >/dev/null
kill -QUIT $pid
wait $pid
rm -rf "$2"`

// run starts the server with a keeper, and waits until it answers.
func (s *Server) run() error {
	if err := s.keepBy(keep); err != nil {
		return err
	}
	return s.Wait()
}

// keepBy starts a shell that reads its input, which ends with this process.
func (s *Server) keepBy(script string) error {
	in, life, err := os.Pipe()
	if err != nil {
		return err
	}
	defer in.Close()
	s.keeper = exec.Command("sh", "-c", script, "sh", s.bin, s.dir)
	s.become(s.keeper)
	s.keeper.Stdin = in
	if err := s.keeper.Start(); err != nil {
		return err
	}
	s.life = life
	return nil
}

// Wait waits until the server answers.
func (s *Server) Wait() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, s.DSN("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		if ctx.Err() != nil {
			log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			return fmt.Errorf("the server does not answer: %w: %s", err, log)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Kill kills the postmaster, as kill -9 does. Its children exit by themselves.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	s.signal(t, syscall.SIGKILL)
}

// Stop shuts the server down and disconnects everyone.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	s.signal(t, syscall.SIGINT)
}

func (s *Server) signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	pid, err := s.pid()
	if err == nil {
		err = syscall.Kill(pid, signal)
	}
	if err != nil {
		t.Fatalf("%v the postmaster: %v", signal, err)
	}
	for syscall.Kill(pid, 0) == nil {
		time.Sleep(5 * time.Millisecond)
	}
}

func (s *Server) pid() (int, error) {
	text, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	return strconv.Atoi(first)
}

// Restart starts the server after Kill or Stop, and waits until it answers.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	start := exec.Command(filepath.Join(s.bin, "pg_ctl"), "-D", s.data(), "-l", filepath.Join(s.dir, "log"), "-W", "start")
	s.become(start)
	// Children of the killed one may still hold its shared memory.
	until := time.Now().Add(time.Minute)
	for {
		again := *start
		out, err := again.CombinedOutput()
		if err == nil && s.isUp() {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("start the server: %v: %s", err, out)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (s *Server) isUp() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		conn, err := pgx.Connect(ctx, s.DSN("postgres"))
		if err == nil {
			return conn.Close(ctx) == nil
		}
		if _, err := s.pid(); err != nil {
			return false // it gave up
		}
		time.Sleep(20 * time.Millisecond)
	}
	return false
}

// close stops the server, even one that was restarted.
func (s *Server) close() {
	if pid, err := s.pid(); err == nil {
		_ = syscall.Kill(pid, syscall.SIGQUIT)
	}
	_ = s.life.Close()
	_ = s.keeper.Wait()
	_ = os.RemoveAll(s.dir)
}

// find returns the directory of PostgreSQL's programs.
func find() (string, error) {
	var dirs []string
	if path, err := exec.LookPath("postgres"); err == nil {
		dirs = append(dirs, filepath.Dir(path))
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // Debian
	dirs = append(dirs, found...)
	for _, dir := range dirs {
		out, err := exec.Command(filepath.Join(dir, "postgres"), "--version").Output()
		fields := strings.Fields(string(out)) // postgres (PostgreSQL) 15.18
		if err != nil || len(fields) < 3 {
			continue
		}
		major, _, _ := strings.Cut(fields[2], ".")
		if n, err := strconv.Atoi(major); err == nil && n >= versionMin {
			return dir, nil
		}
	}
	return "", fmt.Errorf("version %d or newer is not installed", versionMin)
}

// Exec runs SQL on a database.
func (s *Server) Exec(t testing.TB, dsn, sql string) {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), dsn)
	if err == nil {
		_, err = conn.Exec(context.Background(), sql)
		err = errors.Join(err, conn.Close(context.Background()))
	}
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// Transactions returns how many transactions the server has counted in a database, once no
// session is open there that might report more.
func (s *Server) Transactions(t testing.TB, dsn string) (n int) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	name, _, _ := strings.Cut(strings.TrimPrefix(dsn, "postgres:///"), "?")
	for open := 1; open > 0 && err == nil; time.Sleep(10 * time.Millisecond) {
		err = conn.QueryRow(ctx, "select count(*) from pg_stat_activity where datname = $1", name).Scan(&open)
	}
	if err == nil {
		err = conn.QueryRow(ctx, "select xact_commit + xact_rollback from pg_stat_database where datname = $1", name).Scan(&n)
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

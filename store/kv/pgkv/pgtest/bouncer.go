package pgtest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"tollhouse/store/storetest/must"
)

// Bouncer starts PgBouncer before the server until the test ends, and returns its address.
// Roles sign in with the passwords, the server trusts it. Its settings are lines of the
// section [pgbouncer].
func (s *Server) Bouncer(t testing.TB, mode string, passwords map[string]string, settings ...string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer" // Debian's place, which is not in everybody's PATH
		_, err = os.Stat(program)
	}
	must.Have(t, err == nil, "pgbouncer")
	address := must.FreeAddress(t)
	host, port, _ := net.SplitHostPort(address)
	dir := must.Get(os.MkdirTemp(s.dir, "bouncer"))(t)
	users := ""
	for role, password := range passwords {
		users += fmt.Sprintf("%q %q\n", role, password)
	}
	ini := fmt.Sprintf(`[databases]
* = host=%s port=%s
[pgbouncer]
listen_addr = %s
listen_port = %s
unix_socket_dir =
auth_type = scram-sha-256
auth_file = %s/users
logfile = %s/log
pool_mode = %s
max_client_conn = 1000
`, s.dir, s.port, host, port, dir, dir, mode)
	for _, line := range settings {
		ini += line + "\n"
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "users"), []byte(users), 0o600))
	must.Do(t, os.WriteFile(filepath.Join(dir, "ini"), []byte(ini), 0o600))
	if s.asUser != nil {
		for _, path := range []string{dir, filepath.Join(dir, "users"), filepath.Join(dir, "ini")} {
			must.Do(t, os.Chown(path, int(s.asUser.Uid), int(s.asUser.Gid)))
		}
	}
	// The shell ends it with the test, or with this process.
	keeper := exec.Command("sh", "-c", `"$1" -q "$2/ini" & cat >/dev/null; kill $!; wait $!`, "sh", program, dir)
	s.become(keeper)
	life := must.Get(keeper.StdinPipe())(t)
	must.Do(t, keeper.Start())
	t.Cleanup(func() {
		_ = life.Close()
		_ = keeper.Wait()
	})
	for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if c, err := net.Dial("tcp", address); err == nil {
			_ = c.Close()
			return address
		}
		if time.Since(begun) > time.Minute {
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Fatalf("PgBouncer does not answer: %s", log)
		}
	}
}

// Demote makes the server a standby that follows nobody.
func (s *Server) Demote(t testing.TB) {
	t.Helper()
	s.Stop(t)
	s.write(t, "standby.signal", nil)
	s.Restart(t)
}

package pgtest

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/template"
	"time"

	"tollhouse/store/storetest/must"
)

// PatroniTTL is how long a lost leader keeps its lock, as docs/operations.md advises.
const PatroniTTL = 20 * time.Second

// Patroni is a cluster of three PostgreSQL servers with a synchronous standby, each led
// by an agent, and the etcd that coordinates the agents.
type Patroni struct {
	nodes [3]patroniNode
	home  Server // where the programs and the files are
	etcd  string // address
}

type patroniNode struct {
	name  string
	rest  string // address of the agent
	addr  string // address of the server
	data  string
	agent *agent
}

// StartPatroni starts a cluster and waits until it has a leader, a synchronous standby
// and another standby. It stops with the test.
func StartPatroni(t testing.TB) *Patroni {
	t.Helper()
	p := &Patroni{etcd: must.FreeAddress(t)}
	if err := p.prepare(); err != nil {
		missing(t, err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(p.home.dir) })
	p.startEtcd(t)
	for i := range p.nodes {
		name := "node" + strconv.Itoa(i)
		p.nodes[i] = patroniNode{name: name, rest: must.FreeAddress(t), addr: must.FreeAddress(t), data: filepath.Join(p.home.dir, name)}
		p.startAgent(t, &p.nodes[i])
	}
	p.await(t, func(members []member) bool {
		return count(members, "leader", "running") == 1 && count(members, "sync_standby", "running", "streaming") == 1 &&
			count(members, "replica", "running", "streaming") == 1
	})
	return p
}

// prepare finds the programs and makes a directory for the files.
func (p *Patroni) prepare() (err error) {
	for _, program := range []string{"patroni", "etcd"} {
		if _, err := exec.LookPath(program); err != nil {
			return err
		}
	}
	if p.home.bin, err = find(); err != nil {
		return err
	}
	// Where there is a link to the server, links to its other programs may be missing.
	server, err := filepath.EvalSymlinks(filepath.Join(p.home.bin, "postgres"))
	if err != nil {
		return err
	}
	p.home.bin = filepath.Dir(server)
	if p.home.dir, err = os.MkdirTemp("", "patroni"); err != nil {
		return err
	}
	return p.home.chown()
}

// DSN names all servers.
func (p *Patroni) DSN() string {
	var hosts []string
	for _, n := range p.nodes {
		hosts = append(hosts, n.addr)
	}
	return "postgres://postgres@" + strings.Join(hosts, ",") + "/postgres?sslmode=disable"
}

// KillLeader kills the leader's agent and its server without warning, and returns its
// name.
func (p *Patroni) KillLeader(t testing.TB) string {
	t.Helper()
	for _, m := range p.members() {
		if m.Role != "leader" {
			continue
		}
		for _, n := range p.nodes {
			if n.name == m.Name {
				n.agent.kill()
				signalServer(n.data, syscall.SIGKILL)
				return n.name
			}
		}
	}
	t.Fatal("the cluster has no leader")
	return ""
}

// AwaitLeader waits for a leader other than the one named.
func (p *Patroni) AwaitLeader(t testing.TB, before string) {
	t.Helper()
	p.await(t, func(members []member) bool {
		for _, m := range members {
			if m.Role == "leader" && m.Name != before && m.State == "running" {
				return true
			}
		}
		return false
	})
}

func (p *Patroni) startEtcd(t testing.TB) {
	t.Helper()
	client, peer := "http://"+p.etcd, "http://"+must.FreeAddress(t)
	p.start(t, "etcd", "etcd", "--name", "e", "--data-dir", filepath.Join(p.home.dir, "etcd"),
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "e="+peer)
}

func (p *Patroni) startAgent(t testing.TB, n *patroniNode) {
	t.Helper()
	var config strings.Builder
	err := patroniConfig.Execute(&config, map[string]any{
		"Name": n.name, "REST": n.rest, "Addr": n.addr, "Data": n.data, "Dir": p.home.dir, "Etcd": p.etcd, "Bin": p.home.bin,
		"TTL": int(PatroniTTL.Seconds()),
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(p.home.dir, n.name+".yml")
	if err := os.WriteFile(file, []byte(config.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	data := n.data
	t.Cleanup(func() { signalServer(data, syscall.SIGQUIT) })
	n.agent = p.start(t, n.name, "patroni", file)
}

// keepAgent runs a program until nobody holds the other end of its input.
const keepAgent = `log=$1; shift
"$@" >"$log" 2>&1 </dev/null &
pid=$!
cat >/dev/null
kill -9 $pid
wait $pid`

// start runs a program until the test ends.
func (p *Patroni) start(t testing.TB, name, program string, args ...string) *agent {
	t.Helper()
	in, life, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(p.home.dir, name+".log")
	cmd := exec.Command("sh", append([]string{"-c", keepAgent, "sh", log, program}, args...)...)
	p.home.become(cmd)
	cmd.Stdin = in
	err = cmd.Start()
	_ = in.Close()
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{keeper: cmd, life: life}
	t.Cleanup(func() {
		a.kill()
		if t.Failed() {
			said, _ := os.ReadFile(log)
			t.Logf("%s said:\n%s", name, said[max(0, len(said)-4000):])
		}
	})
	return a
}

// agent is a running program.
type agent struct {
	keeper *exec.Cmd
	life   *os.File
	once   sync.Once
}

func (a *agent) kill() {
	a.once.Do(func() {
		_ = a.life.Close()
		_ = a.keeper.Wait()
	})
}

type member struct{ Name, Role, State string }

// members asks each agent for what it sees, and believes the first that answers.
func (p *Patroni) members() []member {
	for _, n := range p.nodes {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.rest+"/cluster", nil)
		if err != nil {
			panic(err)
		}
		var found struct{ Members []member }
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			err = json.NewDecoder(resp.Body).Decode(&found)
			_ = resp.Body.Close()
		}
		cancel()
		if err == nil && len(found.Members) > 0 {
			return found.Members
		}
	}
	return nil
}

func (p *Patroni) await(t testing.TB, good func([]member) bool) {
	t.Helper()
	var members []member
	for begun := time.Now(); time.Since(begun) < 3*time.Minute; time.Sleep(100 * time.Millisecond) {
		if members = p.members(); good(members) {
			return
		}
	}
	t.Fatalf("the cluster is not as awaited: %v", members)
}

func count(members []member, role string, states ...string) (n int) {
	for _, m := range members {
		for _, state := range states {
			if m.Role == role && m.State == state {
				n++
			}
		}
	}
	return n
}

// signalServer signals the server of a data directory, if one runs there.
func signalServer(data string, signal syscall.Signal) {
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return
	}
	first, _, _ := strings.Cut(string(text), "\n")
	if pid, err := strconv.Atoi(first); err == nil && pid > 1 {
		_ = syscall.Kill(pid, signal)
	}
}

var patroniConfig = template.Must(template.New("").Parse(`
scope: tollhouse
name: {{.Name}}
restapi: {listen: "{{.REST}}", connect_address: "{{.REST}}"}
etcd3: {host: "{{.Etcd}}"}
bootstrap:
  dcs:
    ttl: {{.TTL}}
    loop_wait: 5
    retry_timeout: 5
    synchronous_mode: true
    postgresql:
      use_pg_rewind: true
      parameters: {max_connections: 100, shared_buffers: 32MB}
  initdb: [{encoding: UTF8}, {locale: C}, data-checksums]
postgresql:
  listen: {{.Addr}}
  connect_address: {{.Addr}}
  data_dir: {{.Data}}
  bin_dir: {{.Bin}}
  pgpass: {{.Data}}.pgpass
  authentication:
    superuser: {username: postgres, password: postgres}
    replication: {username: replicator, password: replicator}
  pg_hba: ["host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust", "local all all trust"]
  parameters: {unix_socket_directories: "{{.Dir}}"}
`))

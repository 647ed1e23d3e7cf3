package proof

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tollhouse/store/storetest/must"
)

// envCloud is set in the process that runs in a network of its own.
const envCloud = "TOLLHOUSE_TEST_CLOUD"

// acceptWait is for a server that refuses its flags. One that accepts them serves.
const acceptWait = 20 * time.Second

// clouds are the addresses that docs/webhooks.md lists, and other ways to write them.
var clouds = []string{
	"169.254.169.254", "169.254.170.2", "169.254.42.42", "100.100.100.200", "168.63.129.16", "192.0.0.192",
	"fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fd00:c1::a9fe:a9fe", "fd00:42::42", "fd00:a9fe:a9fe::1",
	"::ffff:169.254.169.254", "::ffff:192.0.0.192", "::ffff:100.100.100.200",
	"::169.254.169.254", "::ffff:0:169.254.169.254", "64:ff9b::169.254.169.254", "64:ff9b::192.0.0.192",
	"64:ff9b:1::169.254.169.254", "64:ff9b:1:a9fe:a9:fe00::", "64:ff9b:1:a9:fe:a9fe::", "64:ff9b:1:0:a9:fea9:fe00:0",
	"2002:a9fe:a9fe::1", "2002:c000:c0::1", "2001:0:808:808::5601:5601", "fd99::5efe:169.254.169.254", "fd99::200:5efe:168.63.129.16",
}

// others are what the operator allowed.
var others = []string{"10.9.9.9", "169.253.1.1", "192.0.0.193", "fd00:ec2::253", "fd20:ce::253", "64:ff9b::10.9.9.9", "64:ff9b:1::10.9.9.9", "2002:a09:909::1"}

// TestNoWebhookReachesMetadata runs a server in a network without a way out, in which
// every address answers, and allows it everything.
//
// Promise (Webhooks): the known metadata addresses of clouds are refused whatever is allowed
func TestNoWebhookReachesMetadata(t *testing.T) {
	must.SkipInShort(t)
	if os.Getenv(envCloud) != "" {
		inCloud(t)
		return
	}
	t.Parallel()
	needTool(t, "ip")
	needTool(t, "mount")
	space := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(name, args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS}
		if os.Geteuid() != 0 {
			cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		}
		return cmd
	}
	err := space("ip", "link", "set", "lo", "up").Run()
	must.Have(t, err == nil, fmt.Sprintf("a network namespace: %v", err))
	cmd := space(must.Get(os.Executable())(t), "-test.run=^TestNoWebhookReachesMetadata$", "-test.v")
	cmd.Env = append(os.Environ(), envCloud+"=1", "TOLLHOUSE_BINARY="+must.Get(filepath.Abs(program(t)))(t))
	if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: TestNoWebhookReachesMetadata")) {
		t.Errorf("in a network of its own: %v\n%s", err, out)
	}
}

func inCloud(t *testing.T) {
	hosts := filepath.Join(t.TempDir(), "hosts")
	var names bytes.Buffer
	for i, address := range append(clouds, others...) {
		fmt.Fprintf(&names, "%s n%d.test\n", address, i)
	}
	must.Do(t, os.WriteFile(hosts, names.Bytes(), 0o644))
	for _, args := range [][]string{
		{"ip", "link", "set", "lo", "up"},
		{"ip", "route", "add", "local", "default", "dev", "lo"},
		{"ip", "-6", "route", "add", "local", "default", "dev", "lo"},
		{"mount", "--make-rprivate", "/"},
		{"mount", "--bind", hosts, "/etc/hosts"},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
	}
	reached := answerEverywhere(t)
	s := startDev(t, "--webhook-allow", "0.0.0.0/0", "--webhook-allow", "::/0", "--webhook-allow", namesUpTo(len(clouds)+len(others)))
	port := reached.port

	test := func(url string) (created bool, said string) {
		t.Helper()
		var e struct{ ID string }
		on := func(args ...string) ([]byte, error) {
			cmd := exec.Command(program(t), append(args, "--admin-socket", s.ready.AdminSocket, "--json")...)
			cmd.Env = environ()
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			return append(out, stderr.Bytes()...), err
		}
		out, err := on("webhook", "create", "--account", s.ready.Account, "--url", url)
		if err != nil {
			return false, string(out)
		}
		decode(t, out, &e)
		out, _ = on("webhook", "send-test", e.ID)
		s.run("webhook", "delete", e.ID, "--yes")
		return true, string(out)
	}
	for i, address := range clouds {
		a := netip.MustParseAddr(address)
		if created, said := test("http://" + netip.AddrPortFrom(a, port).String() + "/"); created || !strings.Contains(said, "never allowed") {
			t.Errorf("%s as the host of a URL: %s, want a refusal", address, said)
		}
		if created, said := test(fmt.Sprintf("http://n%d.test:%d/", i, port)); !created || !strings.Contains(said, "address_not_allowed") {
			t.Errorf("a name of %s: %s, want address_not_allowed", address, said)
		}
		ctx, cancel := context.WithTimeout(t.Context(), acceptWait)
		cmd := exec.CommandContext(ctx, program(t), "dev", "--exit-with-parent", "--webhook-allow", address)
		cmd.Env = environ()
		out, err := cmd.CombinedOutput()
		cancel()
		if exitCode(err) != 2 {
			t.Errorf("--webhook-allow %s: %v, %s; want exit code 2", address, err, out)
		}
		if n := reached.connections.Swap(0); n != 0 {
			t.Errorf("%s was reached %d times", address, n)
		}
	}
	for i, address := range others {
		a := netip.MustParseAddr(address)
		for _, url := range []string{"http://" + netip.AddrPortFrom(a, port).String() + "/", fmt.Sprintf("http://n%d.test:%d/", len(clouds)+i, port)} {
			if _, said := test(url); reached.connections.Swap(0) == 0 {
				t.Errorf("%s was not reached by %s, which is allowed: %s", address, url, said)
			}
		}
	}
}

func namesUpTo(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("n%d.test", i)
	}
	return strings.Join(names, ",")
}

// everywhere accepts connections at every address of the network.
type everywhere struct {
	port        uint16
	connections atomic.Int32
}

func answerEverywhere(t *testing.T) *everywhere {
	t.Helper()
	l := must.Get(net.Listen("tcp", "[::]:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	e := &everywhere{port: l.Addr().(*net.TCPAddr).AddrPort().Port()}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			e.connections.Add(1)
			_ = conn.Close()
		}
	}()
	return e
}

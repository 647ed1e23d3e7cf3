package proof

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tollhouse/store/storetest/must"
)

// devEndMax is well above the 2 seconds in which dev ends, and well below the 15 that
// a request may take to send its body and the 20 that serve waits for it.
const devEndMax = 10 * time.Second

// asFirst makes a command the first process of a process namespace, as that of a
// container is.
func asFirst(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
	}
	return cmd
}

// TestDevAsFirstProcess: in a container dev is process 1. It ends at once when it is
// told to, whatever is under way.
func TestDevAsFirstProcess(t *testing.T) {
	t.Parallel()
	err := asFirst(exec.Command("/bin/true")).Run()
	must.Have(t, err == nil, fmt.Sprintf("a process namespace: %v", err))
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			cmd := asFirst(exec.Command(program(t), "dev", "--exit-with-parent"))
			cmd.Env = environ()
			s := startCommand(t, cmd, "dev")
			if s.ready.PID != 1 {
				t.Errorf("pid %d, want 1", s.ready.PID)
			}
			s.keepBusy()
			begun := time.Now()
			must.Do(t, s.process.Signal(signal))
			select {
			case <-s.ended:
				t.Logf("ended %v after %s", time.Since(begun).Round(time.Millisecond), signal)
			case <-time.After(devEndMax):
				t.Errorf("still running %v after %s", devEndMax, signal)
				s.kill()
			}
			if s.err != nil {
				t.Errorf("after %s: %v, want exit code 0; stderr:\n%s", signal, s.err, s.log.tail())
			}
		})
	}
}

// keepBusy leaves a stream, a long poll, a request whose body is still to come and a
// connection without a request.
func (s *server) keepBusy() {
	s.t.Helper()
	c := &client{base: s.base, credentials: credentials{s.ready.ClientID, s.ready.ClientSecret}, http: &http.Client{Timeout: requestWait}}
	pair, a, err := c.grant(s.t.Context(), "password", "username", s.ready.Username, "password", s.ready.Password)
	if err != nil || pair.Access == "" {
		s.t.Fatalf("token: %v, %v", a, err)
	}
	send := func(text string) net.Conn {
		conn, err := net.Dial("tcp", s.ready.Listen[0])
		if err != nil {
			s.t.Fatal(err)
		}
		s.t.Cleanup(func() { _ = conn.Close() })
		if _, err := io.WriteString(conn, text); err != nil {
			s.t.Fatal(err)
		}
		return conn
	}
	head := "Host: localhost\r\nAuthorization: Bearer " + pair.Access + "\r\n"
	stream := send("GET /api/events HTTP/1.1\r\nAccept: text/event-stream\r\n" + head + "\r\n")
	if _, err := io.ReadFull(stream, make([]byte, len("HTTP/1.1 200"))); err != nil {
		s.t.Fatal(err)
	}
	send("GET /api/events?wait=30&type=never.happens HTTP/1.1\r\n" + head + "\r\n")
	// 100 Continue says that the handler is waiting for the body.
	body := send("PUT /api/resources/customer/cus_1 HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 100\r\nExpect: 100-continue\r\n" + head + "\r\n")
	if _, err := io.ReadFull(body, make([]byte, len("HTTP/1.1 100"))); err != nil {
		s.t.Fatal(err)
	}
	send("")
}

// scratchRoot is the root of a container of print dockerfile's image: nothing in it can
// be written, and nothing read but the binary.
type scratchRoot string

func newScratchRoot(t *testing.T) scratchRoot {
	t.Helper()
	must.OnlyInCI(t, "compiles everything anew")
	must.Have(t, os.Geteuid() == 0, "only root can change the root directory")
	root := t.TempDir()
	install(t, releaseBuild(t, filepath.Join("..", ".."), ""), filepath.Join(root, "tollhouse"))
	// What print dockerfile leaves to its user alone.
	data := filepath.Join(root, "data")
	must.Do(t, errors.Join(os.Mkdir(data, 0o700), os.Chown(data, containerUser, containerUser)))
	return scratchRoot(root)
}

// command runs the binary as a user inside the root, with the image's environment and
// more variables, of which the last counts.
func (r scratchRoot) command(user uint32, variables []string, args ...string) *exec.Cmd {
	cmd := exec.Command("/tollhouse", args...)
	cmd.Dir = "/"
	cmd.Env = append([]string{"TOLLHOUSE_DATA=/data"}, variables...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: string(r), Cloneflags: syscall.CLONE_NEWPID, Credential: &syscall.Credential{Uid: user, Gid: user}}
	return cmd
}

// TestDevFromScratch runs dev as its image does, and as a user that the image does not
// know.
func TestDevFromScratch(t *testing.T) {
	t.Parallel()
	root := newScratchRoot(t)
	must.Do(t, os.Chmod(string(root), 0o555))
	inside := func(listen string, args ...string) *exec.Cmd {
		return root.command(containerUser+1, []string{"TOLLHOUSE_LISTEN=" + listen}, args...)
	}
	s := startCommand(t, inside("127.0.0.1:0", "dev"), "dev")
	_, port, _ := net.SplitHostPort(s.ready.Listen[0])
	if out, err := inside("0.0.0.0:"+port, "health").CombinedOutput(); err != nil {
		t.Errorf("health: %v\n%s", err, out)
	}
	s.keepBusy()
	s.stop()
	if s.ready.AdminSocket != "" || strings.Count(s.log.all(), "no admin socket") != 1 {
		t.Errorf("admin_socket %q, want none and one warning; stderr:\n%s", s.ready.AdminSocket, s.log.tail())
	}
	if out, err := inside("0.0.0.0:"+port, "health").CombinedOutput(); exitCode(err) == 0 {
		t.Errorf("health after the end: exit code 0, %s", out)
	}
}

var (
	composeVariable = regexp.MustCompile(`(?m)^ +(?:# )?(TOLLHOUSE_\w+): "(.*)"$`)
	composeCommand  = regexp.MustCompile(`(?m)^ +command: (\[.*\])$`)
	composeUser     = regexp.MustCompile(`(?m)^ +user: "(\d+):\d+"$`)
)

// TestComposeHelperStarts runs the command of print helper compose with its environment,
// its user and its seed file, and asks it under the name that browsers and containers
// use. Only the port is another, which may be in use here.
func TestComposeHelperStarts(t *testing.T) {
	t.Parallel()
	root := newScratchRoot(t)
	text := string(command(t, "", "print", "helper", "compose"))
	var args []string
	var variables []string
	values := map[string]string{}
	for _, v := range composeVariable.FindAllStringSubmatch(text, -1) {
		values[v[1]] = v[2]
		variables = append(variables, v[1]+"="+v[2])
	}
	run, user := composeCommand.FindStringSubmatch(text), composeUser.FindStringSubmatch(text)
	if len(run) == 0 || len(user) == 0 || len(values) != 3 {
		t.Fatalf("command %q, user %q, variables %q, want a command, a user and 3 variables in\n%s", run, user, values, text)
	}
	must.Do(t, json.Unmarshal([]byte(run[1]), &args))
	uid := must.Get(strconv.ParseUint(user[1], 10, 32))(t)
	seed := filepath.Join(string(root), values["TOLLHOUSE_SEED_FILE"])
	must.Do(t, os.Mkdir(filepath.Dir(seed), 0o755))
	must.Do(t, os.WriteFile(seed, []byte(`{"client":{"client_id":"till","client_secret":"s3cret","redirect_uris":["http://app/callback"]}}
{"user":{"username":"odile","password":"pw","account":"acct_shop"}}
`), 0o644))
	must.Do(t, os.Chmod(string(root), 0o555))

	host, _, err := net.SplitHostPort(values["TOLLHOUSE_LISTEN"])
	must.Do(t, err)
	s := startCommand(t, root.command(uint32(uid), append(variables, "TOLLHOUSE_LISTEN="+host+":0"), args...), "dev")
	if s.ready.ClientID != "till" || s.ready.Username != "odile" || s.ready.URL != values["TOLLHOUSE_PUBLIC_URL"] {
		t.Errorf("ready line %+v, want the client and the user of the seed file at %s", s.ready, values["TOLLHOUSE_PUBLIC_URL"])
	}
	_, port, _ := net.SplitHostPort(s.ready.Listen[0])
	public := must.Get(url.Parse(values["TOLLHOUSE_PUBLIC_URL"]))(t)
	req := must.Get(http.NewRequestWithContext(t.Context(), "GET", "http://127.0.0.1:"+port+"/.well-known/oauth-authorization-server", nil))(t)
	req.Host = public.Host
	res := must.Get(http.DefaultClient.Do(req))(t)
	defer res.Body.Close()
	var metadata struct{ Issuer string }
	if err := json.NewDecoder(res.Body).Decode(&metadata); err != nil || metadata.Issuer != values["TOLLHOUSE_PUBLIC_URL"] {
		t.Errorf("%s: issuer %q, %v, want the address of everybody", res.Status, metadata.Issuer, err)
	}
	for _, line := range []string{`aliases: ["` + public.Hostname() + `"]`, `"127.0.0.1:` + public.Port() + ":" + public.Port() + `"`, "- ./seed:" + filepath.Dir(values["TOLLHOUSE_SEED_FILE"]) + ":ro", "read_only: true"} {
		if !strings.Contains(text, line) {
			t.Errorf("the compose file lacks %q", line)
		}
	}
	if out, err := root.command(uint32(uid), append(variables, "TOLLHOUSE_LISTEN="+host+":"+port), "health").CombinedOutput(); err != nil {
		t.Errorf("health: %v\n%s", err, out)
	}
	s.stop()
}

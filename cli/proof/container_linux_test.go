package proof

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tollhouse/must"
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
	need(t, err == nil, fmt.Sprintf("a process namespace: %v", err))
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

// TestDevFromScratch runs dev as its image does: as any user, and with nothing in the
// root that it could write, or read, but the binary.
func TestDevFromScratch(t *testing.T) {
	t.Parallel()
	skipRelease(t)
	need(t, os.Geteuid() == 0, "only root can change the root directory")
	root := t.TempDir()
	install(t, releaseBuild(t, filepath.Join("..", ".."), ""), filepath.Join(root, "tollhouse"))
	// What print dockerfile leaves to its user alone.
	data := filepath.Join(root, "data")
	if err := errors.Join(os.Mkdir(data, 0o700), os.Chown(data, containerUser, containerUser), os.Chmod(root, 0o555)); err != nil {
		t.Fatal(err)
	}
	inside := func(listen string, args ...string) *exec.Cmd {
		cmd := exec.Command("/tollhouse", args...)
		cmd.Dir = "/"
		cmd.Env = []string{"TOLLHOUSE_DATA=/data", "TOLLHOUSE_LISTEN=" + listen}
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Chroot: root, Cloneflags: syscall.CLONE_NEWPID, Credential: &syscall.Credential{Uid: containerUser + 1, Gid: containerUser + 1},
		}
		return cmd
	}
	s := startCommand(t, inside("127.0.0.1:0", "dev"), "dev")
	if s.ready.AdminSocket != "" || strings.Count(s.log.all(), "no admin socket") != 1 {
		t.Errorf("admin_socket %q, want none and one warning; stderr:\n%s", s.ready.AdminSocket, s.log.tail())
	}
	_, port, _ := net.SplitHostPort(s.ready.Listen[0])
	if out, err := inside("0.0.0.0:"+port, "health").CombinedOutput(); err != nil {
		t.Errorf("health: %v\n%s", err, out)
	}
	s.keepBusy()
	s.stop()
	if out, err := inside("0.0.0.0:"+port, "health").CombinedOutput(); exitCode(err) == 0 {
		t.Errorf("health after the end: exit code 0, %s", out)
	}
}

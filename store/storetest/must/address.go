package must

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// The ports of FreeAddress. No system gives them to a caller who asks for any port: Linux
// gives those from 32768 on, others those from 49152 on.
const (
	portFirst = 20_000
	ports     = 12_000

	listenEach = 10 * time.Millisecond
	listenWait = 10 * time.Second
)

var portNext atomic.Uint32

func init() { portNext.Store(rand.Uint32N(ports)) }

// FreeAddress returns a loopback address at which nobody listens, for a server that starts
// later, or again. A listener that asks for any port does not take it in the meantime. It probes
// by connecting: had it listened itself, a process that another test starts just then would
// hold the port until it has become its program.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for range ports {
		port := portFirst + portNext.Add(1)%ports
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port)))
		c, err := net.Dial("tcp", address)
		if errors.Is(err, syscall.ECONNREFUSED) {
			return address
		}
		if err == nil {
			_ = c.Close()
		}
	}
	t.Fatal("no port is free")
	return ""
}

// Listen listens at an address once nobody else does, as the one who did before may take a
// moment to leave.
func Listen(t testing.TB, address string) net.Listener {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(listenEach) {
		l, err := net.Listen("tcp", address)
		if err == nil {
			return l
		}
		if !errors.Is(err, syscall.EADDRINUSE) || time.Since(begun) > listenWait {
			t.Fatal(err)
		}
	}
}

// ListenNotify listens at a socket for what a service tells its manager (sd_notify), until
// the test ends.
func ListenNotify(t testing.TB, socket string) *net.UnixConn {
	t.Helper()
	c := Get(net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: socket}))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

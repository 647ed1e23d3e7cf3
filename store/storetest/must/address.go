package must

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
)

// The ports of FreeAddress. No system gives them to a caller who asks for any port: Linux
// gives those from 32768 on, others those from 49152 on.
const (
	portFirst = 20_000
	ports     = 12_000
)

var portNext atomic.Uint32

func init() { portNext.Store(rand.Uint32N(ports)) }

// FreeAddress returns a loopback address at which nobody listens, for a server that starts
// later, or again. A listener that asks for any port does not take it meanwhile.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for range ports {
		port := portFirst + portNext.Add(1)%ports
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port)))
		if l, err := net.Listen("tcp", address); err == nil {
			_ = l.Close()
			return address
		}
	}
	t.Fatal("no port is free")
	return ""
}

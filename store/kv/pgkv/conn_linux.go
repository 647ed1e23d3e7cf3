package pgkv

import (
	"cmp"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// unacknowledgedMax is in milliseconds, about as long as the keepalives take.
const unacknowledgedMax = 11_000

// limitUnacknowledged closes a connection whose data is not acknowledged: keepalives are not
// sent while data is on its way, and the system tries for a quarter of an hour.
func limitUnacknowledged(network, _ string, c syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, unacknowledgedMax)
	})
	return cmp.Or(err, failed)
}

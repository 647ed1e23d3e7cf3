package cli

import (
	"net"

	"golang.org/x/sys/unix"
)

// shortSocketPath refuses what does not fit an address: without /proc there is
// no shorter name for it.
func shortSocketPath(path string) (short string, done func(), err error) {
	if len(path) > socketPathMax {
		return "", nil, tooLongFault(path)
	}
	return path, func() {}, nil
}

// peerUID returns the user at the other end of a connection.
func peerUID(conn *net.UnixConn) (uid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return -1, err
	}
	uid = -1
	var credErr error
	err = raw.Control(func(fd uintptr) {
		var cred *unix.Xucred
		if cred, credErr = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED); credErr == nil {
			uid = int(cred.Uid)
		}
	})
	if err == nil {
		err = credErr
	}
	return uid, err
}

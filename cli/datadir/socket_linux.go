package datadir

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// shortSocketPath returns a path to the same socket that fits an address: the
// system takes 107 bytes, and real directories can be deeper. It goes through an
// open directory, so that no symbolic link has to be created. done is
// called when the path is no longer used.
func shortSocketPath(path string) (short string, done func(), err error) {
	if len(path) <= socketPathMax {
		return path, func() {}, nil
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return "", nil, err
	}
	short = fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path))
	if len(short) > socketPathMax {
		_ = dir.Close()
		return "", nil, tooLongFault(path)
	}
	return short, func() { _ = dir.Close() }, nil
}

// userBehind returns the user at the other end of a socket.
func userBehind(fd int) (uid int, err error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return -1, err
	}
	return int(cred.Uid), nil
}

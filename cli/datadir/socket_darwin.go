package datadir

import "golang.org/x/sys/unix"

// shortSocketPath refuses what does not fit an address: without /proc there is
// no shorter name for it.
func shortSocketPath(path string) (short string, done func(), err error) {
	if len(path) > socketPathMax {
		return "", nil, tooLongFault(path)
	}
	return path, func() {}, nil
}

// userBehind returns the user at the other end of a socket.
func userBehind(fd int) (uid int, err error) {
	cred, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return -1, err
	}
	return int(cred.Uid), nil
}

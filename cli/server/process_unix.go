//go:build unix

package server

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// parentEvery is the time between two looks at the parent, each a cheap system call.
const parentEvery = 100 * time.Millisecond

// parentAtStart is read before everything else, to notice a parent that exits early.
var parentAtStart = os.Getppid()

// isOrphan reports whether the process that started this one is gone already, so that
// another one has adopted it. The adopter has a session of its own, whereas a parent shares
// the session of its child, unless the child started one. An adopter of the same session,
// such as the first process of a container, is taken for the parent.
func isOrphan(parent int) bool {
	session, err := unix.Getsid(0)
	if err != nil || session == os.Getpid() {
		return false
	}
	theirs, err := unix.Getsid(parent)
	return err != nil || theirs != session
}

// orphaned returns a channel that is closed once the process that started this
// one has exited: the kernel then gives this process another parent.
//
// Our choice: polling. Linux can send a signal (prctl PR_SET_PDEATHSIG), but when the
// parent's thread exits, which in a Go program may be long before the process; macOS has
// no such signal. Waiting for the end of standard input fails if there is none.
func orphaned() (<-chan struct{}, error) {
	if os.Getpid() == 1 { // in a container, where its parent is out of sight
		return nil, nil
	}
	gone := make(chan struct{})
	if isOrphan(parentAtStart) {
		close(gone)
		return gone, nil
	}
	go func() {
		defer close(gone)
		for os.Getppid() == parentAtStart {
			time.Sleep(parentEvery)
		}
	}()
	return gone, nil
}

// hasTerminal reports whether this process has a controlling terminal, whose loss
// sends a SIGHUP.
func hasTerminal() bool {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	_ = f.Close()
	return true
}

// dumpNoCore keeps the system from writing the memory to a file after a crash.
func dumpNoCore() {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_CORE, &limit) == nil {
		limit.Cur = 0
		_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &limit)
	}
}

// isWritable returns why this process may not create files in dir, or nil.
func isWritable(dir string) error {
	return unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
}

//go:build unix

package server

import (
	"math"
	"os"
	"syscall"
	"time"
)

// parentEvery is how soon an orphan notices. It costs one system call, which
// asks nobody to wait.
const parentEvery = 100 * time.Millisecond

// orphaned returns a channel that is closed once the process that started this
// one has ended: the system gives an orphan another parent at that moment.
//
// Our choice: the parent is asked after again and again. Linux could send a
// signal (prctl PR_SET_PDEATHSIG), but it does so when the thread ends that
// started us, which in a Go program may be long before its process; macOS has
// none. And the end of standard input means nothing to those who start us
// without one.
func orphaned() (<-chan struct{}, error) {
	if os.Getpid() == 1 { // in a container, where its parent is out of sight
		return nil, nil
	}
	parent, gone := os.Getppid(), make(chan struct{})
	go func() {
		defer close(gone)
		for os.Getppid() == parent {
			time.Sleep(parentEvery)
		}
	}()
	return gone, nil
}

// filesMax returns how many files this process may have open.
func filesMax() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxUint64
	}
	return uint64(limit.Cur)
}

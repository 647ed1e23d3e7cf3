//go:build unix

package server

import (
	"math"
	"os"
	"syscall"
	"time"
)

// parentEvery is between two looks at the parent, each a cheap system call.
const parentEvery = 100 * time.Millisecond

// orphaned returns a channel that is closed once the process that started this
// one has ended: the kernel then gives this process another parent.
//
// Our choice: polling. Linux can send a signal (prctl PR_SET_PDEATHSIG), but when the
// parent's thread ends, which in a Go program may be long before the process; macOS has
// no such signal. Waiting for the end of standard input fails if there is none.
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

// filesMax returns the limit of open files of this process.
func filesMax() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxUint64
	}
	return uint64(limit.Cur)
}

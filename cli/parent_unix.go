//go:build unix

package cli

import (
	"os"
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
	parent, gone := os.Getppid(), make(chan struct{})
	go func() {
		defer close(gone)
		for os.Getppid() == parent {
			time.Sleep(parentEvery)
		}
	}()
	return gone, nil
}

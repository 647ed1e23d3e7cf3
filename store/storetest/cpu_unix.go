//go:build unix

package storetest

import (
	"syscall"
	"time"
)

// CPU returns the processor time that the process has used.
func CPU() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

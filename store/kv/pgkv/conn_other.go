//go:build !linux

package pgkv

import "syscall"

// limitUnacknowledged does nothing: the system has no such limit.
func limitUnacknowledged(_, _ string, _ syscall.RawConn) error { return nil }

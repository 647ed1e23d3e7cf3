package cli

import (
	"net/http"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"tollhouse/store/storetest/must"
)

// TestACrashWithALogThatIsNotReadEnds: the runtime writes its report while everything else
// stands still. A server that waited for the reader there would keep its lock, take no
// signal and never be started again.
//
// Promise (Monitoring): unread output freezes nothing, not even a crash; dropped lines are counted
// and reported
func TestACrashWithALogThatIsNotReadEnds(t *testing.T) {
	t.Parallel()
	s := startUnread(t, "serve", "--data", filepath.Join(t.TempDir(), "data"), "--listen", "127.0.0.1:0")
	// The pipe takes 64 KiB, and a line has some 300 bytes.
	for range 500 {
		if got := ask(t, "GET", s.text("url")+"/api/events", ""); got != http.StatusUnauthorized {
			t.Fatalf("a request gets %d, want 401", got)
		}
	}
	must.Do(t, s.cmd.Process.Signal(syscall.SIGQUIT)) // which the runtime handles as a crash
	select {
	case <-s.ended:
	case <-time.After(20 * time.Second):
		t.Fatal("the server has not ended 20s after a crash")
	}
	if status, ok := s.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGABRT {
		t.Errorf("the crash ended with %v, want SIGABRT", s.cmd.ProcessState)
	}
}

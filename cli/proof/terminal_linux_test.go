package proof

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestDevOnATerminal pastes what dev prints for a person: the first line gives
// a token, the second lists events.
func TestDevOnATerminal(t *testing.T) {
	t.Parallel()
	bash := needTool(t, "bash")
	needTool(t, "curl")
	lines := devOnTerminal(t)
	const wanted = 2
	var pasted []string
	for deadline := time.After(readyWait); len(pasted) < wanted; {
		select {
		case line, more := <-lines:
			if !more {
				t.Fatalf("dev ended after printing %d lines to paste, want %d", len(pasted), wanted)
			}
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "curl ") {
				pasted = append(pasted, line)
			}
		case <-deadline:
			t.Fatalf("dev has printed %d lines to paste within %v, want %d", len(pasted), readyWait, wanted)
		}
	}
	for i, want := range []string{`"access_token":"tollat_`, `"object":"list"`} {
		if out := paste(t, bash, t.TempDir(), pasted[i]); !strings.Contains(out, want) {
			t.Errorf("%s\nprints %s\nwant %s in it", pasted[i], out, want)
		}
	}
}

// devOnTerminal starts dev on a terminal of its own, and returns what it prints
// there, line by line.
func devOnTerminal(t *testing.T) <-chan string {
	t.Helper()
	ours, theirs, err := openTerminal()
	if err != nil {
		t.Fatalf("terminal: %v", err)
	}
	cmd := exec.Command(program(t), "dev", "--listen", "127.0.0.1:0")
	cmd.Env = environ()
	cmd.Dir = t.TempDir()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, theirs
	if err := cmd.Start(); err != nil {
		t.Fatalf("dev: %v", err)
	}
	theirs.Close()
	lines := make(chan string, 100) // more than a screen
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(lines)
		for scanner := bufio.NewScanner(ours); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
		late := time.AfterFunc(stopWait, func() { _ = cmd.Process.Kill() })
		if err := cmd.Wait(); err != nil {
			t.Errorf("dev on a terminal, after SIGTERM: %v", err)
		}
		late.Stop()
		for range lines { // to the end, which comes when nobody has the terminal open
		}
		<-read
		ours.Close()
	})
	return lines
}

// openTerminal makes a pair of a pseudo-terminal: our end, and a program's.
func openTerminal() (ours, theirs *os.File, err error) {
	ours, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	fd := int(ours.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		ours.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// server is a process under measurement.
type server struct {
	cmd   *exec.Cmd
	ready map[string]any
	took  time.Duration // until it was ready
}

const readyWaitMax = 20 * time.Minute // a peer may first be built, and loads its events

// begin starts a process that ends with bench.
func begin(name string, args ...string) (*server, error) {
	s := &server{cmd: exec.Command(name, args...)}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	return s, s.cmd.Start()
}

// start runs a command that prints one JSON line once it answers.
func start(name string, args ...string) (*server, error) {
	cmd := exec.Command(name, args...)
	cmd.Stderr = nil
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} // it ends with bench
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &server{cmd: cmd}
	line := make(chan []byte, 1)
	go func() {
		scanner := bufio.NewScanner(out)
		scanner.Scan()
		line <- append([]byte(nil), scanner.Bytes()...)
	}()
	select {
	case text := <-line:
		if err := json.Unmarshal(text, &s.ready); err != nil {
			s.stop()
			return nil, fmt.Errorf("%s said %q instead of a JSON line: %w", name, text, err)
		}
		s.took = time.Since(begun)
		return s, nil
	case <-time.After(readyWaitMax):
		s.stop()
		return nil, fmt.Errorf("%s was not ready after %s", name, readyWaitMax)
	}
}

func (s *server) text(key string) string {
	text, _ := s.ready[key].(string)
	return text
}

func (s *server) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	done := make(chan struct{})
	go func() { _ = s.cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		_ = s.cmd.Process.Kill()
		<-done
	}
}

const clockTicksPerSecond = 100 // USER_HZ, the same on every Linux

// cpu returns the processor time that the process and its children have used.
func (s *server) cpu() (time.Duration, error) { return cpuOf(s.cmd.Process.Pid) }

// cpuOf reads proc(5), stat and children.
func cpuOf(pid int) (total time.Duration, err error) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists { // each thread has its own
		children, _ := os.ReadFile(list)
		for child := range strings.FieldsSeq(string(children)) {
			if id, err := strconv.Atoi(child); err == nil {
				used, _ := cpuOf(id) // it may have ended
				total += used
			}
		}
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	const utime, stime = 11, 12 // counted from the state on
	if len(fields) <= stime {
		return 0, fmt.Errorf("unexpected /proc stat: %q", stat)
	}
	user, err := strconv.ParseInt(fields[utime], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[stime], 10, 64)
	if err != nil {
		return 0, err
	}
	return total + time.Duration(user+system)*time.Second/clockTicksPerSecond, nil
}

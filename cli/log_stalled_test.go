package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tollhouse/cli/term"
	"tollhouse/store/storetest/must"
)

// unread is a server whose standard error is a pipe that nobody reads.
type unread struct {
	*process
	log *os.File
}

func startUnread(t *testing.T, args ...string) *unread {
	t.Helper()
	ours, theirs, err := os.Pipe()
	must.Do(t, err)
	t.Cleanup(func() { _ = ours.Close() })
	cmd := exec.Command("tollhouse", args...)
	cmd.Stderr = theirs
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	_ = theirs.Close()
	s := &process{cmd: cmd, ended: make(chan error, 1), stderr: &strings.Builder{}}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	must.Do(t, json.Unmarshal([]byte(must.Get(bufio.NewReader(out).ReadString('\n'))(t)), &s.ready))
	go func() { s.ended <- cmd.Wait() }()
	return &unread{process: s, log: ours}
}

// ask sends a request that must be answered soon.
func ask(t *testing.T, method, url, body string) int {
	t.Helper()
	client := &http.Client{Timeout: 20 * time.Second}
	request := must.Get(http.NewRequest(method, url, strings.NewReader(body)))(t)
	request.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(request)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
	return answer.StatusCode
}

// TestALogThatIsNotReadFreezesNothing: with a log that nobody reads, a server answers,
// records, says that it is ready, counts the lines that it drops, and stops at SIGTERM.
// Who reads the log later finds how many lines are missing, where they are missing.
//
// Promise (Monitoring): unread output freezes nothing, not even a crash; dropped lines are counted
// and reported
func TestALogThatIsNotReadFreezesNothing(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	dir := filepath.Join(t.TempDir(), "data")
	s := startUnread(t, "serve", "--data", dir, "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0")
	at := s.text("url")
	dropped := func() string {
		answer := must.Get(http.Get(s.text("metrics")))(t)
		defer answer.Body.Close()
		found := regexp.MustCompile(`(?m)^tollhouse_log_lines_dropped_total (\d+)$`).FindSubmatch(must.Get(io.ReadAll(answer.Body))(t))
		if found == nil {
			t.Fatal("/metrics does not count the lines that were dropped")
		}
		return string(found[1])
	}
	if got := dropped(); got != "0" {
		t.Errorf("%s lines were dropped before there were many", got)
	}
	// The pipe takes 64 KiB and the server keeps 2 MiB; a line has some 300 bytes.
	for sent := 0; dropped() == "0"; sent += 500 {
		if sent > 20_000 {
			t.Fatalf("no line is dropped after %d requests", sent)
		}
		for range 500 {
			if got := ask(t, "GET", at+"/api/events", ""); got != http.StatusUnauthorized {
				t.Fatalf("a request gets %d, want 401", got)
			}
		}
	}
	for i := range 3 {
		if _, stderr, code := run(t, "account", "create", fmt.Sprintf("acct_%d", i), "--data", dir); code != term.ExitOK {
			t.Errorf("a commit: exit %d, %s", code, stderr)
		}
	}
	if got := ask(t, "GET", at+"/readyz", ""); got != http.StatusOK {
		t.Errorf("/readyz is %d, want 200", got)
	}
	first := make([]byte, 256<<10)
	n := must.Get(io.ReadAtLeast(s.log, first, len(first)))(t)
	text := append([]byte{}, first[:n]...)
	for !bytes.Contains(text, []byte(`"log lines dropped","lines":`)) {
		n := must.Get(s.log.Read(first))(t)
		text = append(text, first[:n]...)
	}
	told := regexp.MustCompile(`"log lines dropped","lines":(\d+)`).FindSubmatch(text)
	if got := dropped(); told == nil || got != string(told[1]) {
		t.Errorf("the log says that %s lines are missing, /metrics %s", told, got)
	}
	must.Do(t, s.cmd.Process.Signal(syscall.SIGTERM))
	rest := must.Get(io.ReadAll(s.log))(t)
	if err := <-s.ended; err != nil {
		t.Errorf("the server ended with %v, want 0", err)
	}
	all := append(text, rest...)
	if bytes.Count(all, []byte("log lines dropped")) != 1 || !bytes.Contains(rest, []byte(`"stopping"`)) {
		t.Errorf("the log ends in %q, and says %d times that lines are missing", all[max(0, len(all)-500):], bytes.Count(all, []byte("log lines dropped")))
	}
	for line := range bytes.Lines(all) {
		if !json.Valid(line) {
			t.Errorf("the log has a broken line %q", line)
		}
	}
}

// TestALogThatIsReadLosesNoLine: many requests at the same time, and the last ones just
// before the exit.
func TestALogThatIsReadLosesNoLine(t *testing.T) {
	t.Parallel()
	s := startUnread(t, "serve", "--data", filepath.Join(t.TempDir(), "data"), "--listen", "127.0.0.1:0")
	read := make(chan []byte, 1)
	go func() {
		text, _ := io.ReadAll(s.log)
		read <- text
	}()
	const callers, each = 8, 250
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range each {
				answer, err := http.Get(s.text("url") + "/api/events")
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, answer.Body)
				_ = answer.Body.Close()
			}
		})
	}
	all.Wait()
	stopsSoon(t, s.process)
	text := <-read
	if got := bytes.Count(text, []byte(`"request served"`)); got != callers*each || bytes.Contains(text, []byte("log lines dropped")) {
		t.Errorf("the log has %d of %d requests", got, callers*each)
	}
}

// stopsSoon ends a server whose output nobody reads.
func stopsSoon(t *testing.T, s *process) {
	t.Helper()
	must.Do(t, s.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-s.ended:
		if err != nil {
			t.Errorf("the server ended with %v, want 0", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the server does not stop while nobody reads its output")
	}
}

// TestSIGTERMStopsAServerWhoseLogIsNotRead: it waits only briefly for its last lines.
func TestSIGTERMStopsAServerWhoseLogIsNotRead(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	s := startUnread(t, "serve", "--data", filepath.Join(t.TempDir(), "data"), "--listen", "127.0.0.1:0")
	for range 500 { // more than the pipe takes
		ask(t, "GET", s.text("url")+"/api/events", "")
	}
	stopsSoon(t, s.process)
}

// TestFaultsOfDevGoOnWhenNobodyReadsItsLog: a rule that answers 503 logs a warning each
// time.
func TestFaultsOfDevGoOnWhenNobodyReadsItsLog(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	s := startUnread(t, "dev")
	at := s.text("url")
	if got := ask(t, "POST", at+"/_dev/faults", `{"match":{"path":"/api/events"},"do":{"status":503}}`); got/100 != 2 {
		t.Fatalf("the rule gets %d", got)
	}
	for i := range 1000 {
		if got := ask(t, "GET", at+"/api/events", ""); got != http.StatusServiceUnavailable {
			t.Fatalf("request %d gets %d, want 503", i, got)
		}
	}
	if got := ask(t, "GET", at+"/_dev/requests", ""); got != http.StatusOK {
		t.Errorf("the journal is %d, want 200", got)
	}
	stopsSoon(t, s.process)
}

// TestAServerStartsAndStopsWhenNobodyReadsItsReadyLine: its standard output is full.
func TestAServerStartsAndStopsWhenNobodyReadsItsReadyLine(t *testing.T) {
	t.Parallel()
	ours, theirs, err := os.Pipe()
	must.Do(t, err)
	defer ours.Close()
	must.Do(t, theirs.SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
	for err == nil {
		_, err = theirs.Write(make([]byte, 4<<10))
	}
	at := must.FreeAddress(t)
	s := &process{cmd: exec.Command("tollhouse", "dev", "--listen", at), ended: make(chan error, 1)}
	s.cmd.Stdout = theirs
	must.Do(t, s.cmd.Start())
	t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	go func() { s.ended <- s.cmd.Wait() }()
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if conn, err := net.Dial("tcp", at); err == nil {
			_ = conn.Close()
			break
		} else if time.Since(begun) > startMax {
			t.Fatal(err)
		}
	}
	if got := ask(t, "GET", "http://"+at+"/readyz", ""); got != http.StatusOK {
		t.Errorf("/readyz is %d, want 200", got)
	}
	stopsSoon(t, s)
}

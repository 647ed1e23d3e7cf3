package proof

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// liveReader follows the log, or a part of it, and remembers what it saw.
type liveReader struct {
	name, query string
	holds       string // what each event that it asks for holds

	mu          sync.Mutex
	seen        []sighting
	connections int
}

// of returns the events of the log that the reader asks for.
func (r *liveReader) of(log []logged) []sighting {
	var wanted []sighting
	for _, e := range log {
		if e.wanted[r.holds] {
			wanted = append(wanted, e.sighting)
		}
	}
	return wanted
}

// judge counts what is not there, and what should not be.
func (r *liveReader) judge(want []sighting) (missed, repeated int) {
	at := 0
	for _, w := range want {
		next := at
		for next < len(r.seen) && r.seen[next] != w {
			next++
		}
		if next == len(r.seen) {
			missed++
			continue
		}
		repeated += next - at
		at = next + 1
	}
	return missed, repeated + len(r.seen) - at
}

func (r *liveReader) saw(id, wire string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, sightingOf(id, wire))
}

func (r *liveReader) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.seen)
}

// await returns when the reader has seen n events.
func (r *liveReader) await(t *testing.T, n int) {
	t.Helper()
	for begun := time.Now(); r.count() < n; time.Sleep(time.Millisecond) {
		if t.Failed() || time.Since(begun) > livePatience {
			t.Fatalf("%s saw %d events, want %d", r.name, r.count(), n)
		}
	}
}

// follow reads server-sent events of the public API over one connection after
// another, and leaves each when it likes.
func (r *liveReader) follow(ctx context.Context, t *testing.T, l *liveLog, random *rand.Rand) {
	caller := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	last := noSuchEvent
	for ctx.Err() == nil {
		var err error
		if last, err = r.connect(ctx, caller, l, last, 1+random.IntN(liveStayMax)); err != nil {
			t.Errorf("%s: %v", r.name, err)
			return
		}
		pause(ctx, liveRetry)
	}
}

// connect takes up to stay events from one connection and returns the last id
// that it saw. That a connection breaks is no error.
func (r *liveReader) connect(ctx context.Context, caller *http.Client, l *liveLog, last string, stay int) (string, error) {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, l.client().base+"/api/events"+r.query, nil)
	if err != nil {
		return last, err
	}
	request.Header.Set("Authorization", "Bearer "+l.token)
	request.Header.Set("Accept", "text/event-stream")
	request.Header.Set("Last-Event-ID", last)
	answer, err := caller.Do(request)
	if err != nil {
		return last, nil // there is no server just now
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(answer.Body)
		return last, fmt.Errorf("%s %s", answer.Status, text)
	}
	r.connections++
	lines := bufio.NewReader(answer.Body)
	var name, id, data string
	for stay > 0 {
		line, err := lines.ReadString('\n')
		if err != nil {
			return last, nil // what stands before a cut is no event
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch field {
		case "event":
			name = value
		case "id":
			id = value
		case "data":
			data = value
		case "":
			if name == "" && data != "" {
				r.saw(id, data)
				last = id
				stay--
			}
			if name == "gap" {
				return last, errors.New("a gap was told, and nothing was removed")
			}
			name, id, data = "", "", ""
		}
	}
	return last, nil
}

// run is the reader that is a command of ours.
func (r *liveReader) run(ctx context.Context, t *testing.T, p site, account string) {
	cmd := exec.Command(program(t), append([]string{"event", "tail", "--account", account, "--since", "0", "--json"}, p.where...)...)
	cmd.Env = environ()
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Error(err)
		return
	}
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGINT) })
	defer stop()
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			break
		}
		wire := strings.TrimSuffix(line, "\n")
		r.saw(idOf(wire), wire)
	}
	_ = cmd.Wait()
	r.connections = 1 + strings.Count(said.String(), "reconnected to the server")
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("tail ended with %d, want 130: %s", code, &said)
	}
}

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/store/storetest/must"
)

// A stream is taken apart as a browser would, and what was cut off is no frame.
//
// Promise (§4.1, §4.2): event tail follows, filters and resumes
func TestFrameReader(t *testing.T) {
	t.Parallel()
	read := func(text string) (frames []string, r *frameReader, err error) {
		r = newFrameReader(strings.NewReader(text))
		for {
			f, err := r.next()
			if err != nil {
				return frames, r, err
			}
			frames = append(frames, fmt.Sprintf("%s|%s|%s", f.name, f.id, f.data))
		}
	}
	const stream = "retry: 1500\n\nevent: ready\ndata: {\"after\":\"e0\"}\n\n: \n\nid: e0\n\nid: e1\ndata: one\n\nid:e2\r\ndata:two\r\n\r\nid: e3\ndata: a\ndata: b\nlater: x\n\n"
	whole := []string{`ready||{"after":"e0"}`, "|e0|", "|e1|one", "|e2|two", "|e3|a\nb"}
	t.Run("frames", func(t *testing.T) {
		t.Parallel()
		frames, r, err := read(stream)
		if !slices.Equal(frames, whole) || err != io.ErrUnexpectedEOF || r.retry != 1500*time.Millisecond {
			t.Errorf("frames = %q, %v, retry %v; want %q", frames, err, r.retry, whole)
		}
	})
	t.Run("half_a_frame_is_none", func(t *testing.T) {
		t.Parallel()
		for cut := range len(stream) {
			if frames, _, _ := read(stream[:cut]); !slices.Equal(frames, whole[:len(frames)]) {
				t.Errorf("cut after %q: frames = %q", stream[:cut], frames)
			}
		}
	})
	t.Run("a_frame_is_bounded", func(t *testing.T) {
		t.Parallel()
		for name, text := range map[string]string{
			"a line":     "data: " + strings.Repeat("x", frameSizeMax) + "\n\n",
			"many lines": strings.Repeat("data: "+strings.Repeat("x", 1000)+"\n", frameSizeMax/1000) + "\n",
		} {
			if frames, _, err := read(text); err != errFrameTooLong {
				t.Errorf("%s: %d frames, %v; want %v", name, len(frames), err, errFrameTooLong)
			}
		}
		if frames, _, _ := read("data: " + strings.Repeat("x", 64<<10) + "\n\n"); len(frames) != 1 {
			t.Error("the largest event is refused")
		}
	})
}

// played answers the admin socket with one stream after another, and says which
// place each was asked from. Behind the last stream it refuses.
type played struct {
	p              *program
	stdout, stderr strings.Builder
	from           []string
}

const (
	stayOpen  = "stay open"
	silentFor = 3 * time.Second // long beside what an answer takes
)

func (pl *played) run(t *testing.T, streams ...string) error {
	t.Helper()
	path := filepath.Join(must.ClosedDir(t), datadir.SocketName)
	l := must.Get(datadir.ListenAdmin(path, quiet))(t)
	server := &http.Server{ReadHeaderTimeout: startMax, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/admin/info" {
			_, _ = io.WriteString(w, `{"mode":"serve"}`)
			return
		}
		pl.from = append(pl.from, r.Header.Get("Last-Event-ID"))
		if len(pl.from) > len(streams) {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"error":"not_found","error_description":"Unknown account \"a\"."}`)
			return
		}
		text, open := strings.CutSuffix(streams[len(pl.from)-1], stayOpen)
		_, _ = io.WriteString(w, "retry: 1\n\nid: "+cmp.Or(pl.from[len(pl.from)-1], "e0")+"\nevent: ready\ndata: {\"after\":\"e0\"}\n\n"+text)
		if open {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	})}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve(l) }()
	defer func() { _ = server.Close(); <-ended }()
	pl.p = &program{adminSocket: path, Console: term.Console{JSON: true, Out: &pl.stdout, Err: &pl.stderr}}
	follower := &tail{p: pl.p, path: "/admin/events", silence: startMax, retry: time.Millisecond}
	if slices.ContainsFunc(streams, func(s string) bool { return strings.HasSuffix(s, stayOpen) }) {
		follower.silence = silentFor
	}
	follower.event = func(_ context.Context, wire []byte) error { return pl.p.printEvent(nil, wire) }
	ctx, cancel := context.WithTimeout(t.Context(), startMax)
	defer cancel()
	return follower.run(ctx)
}

func event(id string) string { return "id: " + id + "\ndata: {\"id\":\"" + id + "\"}\n\n" }

const (
	goneNote = "tollhouse: the server closed the connection; reconnecting\n"
	backNote = "tollhouse: reconnected to the server\n"
)

// Promise (§4.1, §4.2): event tail follows, filters and resumes
func TestEventTail(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		streams        []string
		from           []string
		stdout, stderr string
	}{
		"a_cut_stream_goes_on_behind_the_last_that_was_printed": {
			[]string{event("e1") + "id: e2\ndata: {\"id\":\"e2\"}\n", event("e2") + event("e3")}, []string{"", "e1", "e3"},
			`{"id":"e1"}` + "\n" + `{"id":"e2"}` + "\n" + `{"id":"e3"}` + "\n", goneNote + backNote + goneNote,
		},
		"a_stream_without_events_goes_on_where_it_began":         {[]string{""}, []string{"", "e0"}, "", goneNote},
		"a_filtered_stream_goes_on_where_its_heartbeats_came_to": {[]string{": \n\nid: e5\n\n", ": \n\nid: e6\n\n: \n\nid: e7\n"}, []string{"", "e5", "e6"}, "", goneNote + backNote + goneNote},
		"restart_is_told": {
			[]string{"event: end\ndata: {\"reason\":\"restart\"}\n\n"}, []string{"", "e0"}, "",
			"tollhouse: the server is stopping; reconnecting\n",
		},
		"another_end_is_told": {
			[]string{"event: end\ndata: {\"reason\":\"\\u001b\"}\n\n"}, []string{"", "e0"}, "",
			"tollhouse: the server ended the stream (\\u001b); reconnecting\n",
		},
		"silence_is_an_end": {
			[]string{event("e1") + stayOpen}, []string{"", "e1"}, `{"id":"e1"}` + "\n",
			"tollhouse: the server sent nothing for 3s; reconnecting\n",
		},
		"gap_is_told_once": {
			[]string{event("e1"), "event: gap\ndata: {\"oldestAvailable\":\"e7\"}\n\nid: e6\n\n"}, []string{"", "e1", "e6"}, `{"id":"e1"}` + "\n",
			goneNote + backNote + "tollhouse: some events were removed before they could be shown; the oldest remaining event is e7\n" + goneNote,
		},
		"backfill_is_told": {
			[]string{"event: backfill\ndata: {\"first\":\"e1\",\"last\":\"e2\"}\n\n"}, []string{"", "e0"}, "",
			"tollhouse: events were recorded at earlier positions than those shown, from e1 to e2; tollhouse event list shows them\n" + goneNote,
		},
		"a_frame_of_a_later_server_is_no_event": {[]string{"event: later\ndata: {\"a\":1}\n\n"}, []string{"", "e0"}, "", goneNote},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var pl played
			err := pl.run(t, tt.streams...)
			if pl.stdout.String() != tt.stdout || pl.stderr.String() != tt.stderr || !slices.Equal(pl.from, tt.from) {
				t.Errorf("from %q it printed\n%s%s, want from %q\n%s%s", pl.from, &pl.stdout, &pl.stderr, tt.from, tt.stdout, tt.stderr)
			}
			last := tt.from[len(tt.from)-1]
			if f := term.FailureOf(err); f.Code != term.ExitNotFound || !strings.HasSuffix(f.Hint, "--after "+last) {
				t.Errorf("a refusal ends it with %d, %v, hint %q; want %d and where to go on", f.Code, f, f.Hint, term.ExitNotFound)
			}
		})
	}
	t.Run("what_is_no_stream_ends_it", func(t *testing.T) {
		t.Parallel()
		for name, stream := range map[string]string{
			"too long": "data: " + strings.Repeat("x", 2*frameSizeMax) + "\n\n", "no JSON": "event: gap\ndata: x\n\n",
		} {
			var pl played
			if f := term.FailureOf(pl.run(t, stream)); f.Code != term.ExitFailed || !strings.HasPrefix(f.Error(), "cannot read the stream: ") {
				t.Errorf("%s: %d, %v", name, f.Code, f)
			}
		}
	})
	t.Run("an_event_that_cannot_be_printed_ends_it", func(t *testing.T) {
		t.Parallel()
		full := errors.New("no space left")
		p := &program{Console: term.Console{JSON: true, Out: writerFunc(func([]byte) (int, error) { return 0, full })}}
		follower := &tail{p: p, last: "e1", event: func(_ context.Context, wire []byte) error { return p.printEvent(nil, wire) }}
		err := follower.take(t.Context(), frame{id: "e2", data: []byte("{}")})
		if f := term.FailureOf(err); f.Code != term.ExitIO || !errors.Is(err, full) || follower.last != "e1" {
			t.Errorf("%d, %v, and it goes on behind %s; want %d behind e1", f.Code, err, follower.last, term.ExitIO)
		}
	})
	t.Run("lines_stay_aligned", func(t *testing.T) {
		t.Parallel()
		var out strings.Builder
		p := &program{Console: term.Console{Out: &out}}
		table := p.newTailTable(false)
		long := strings.Repeat("ä", 25)
		for _, source := range []string{"a", long, "b"} {
			if err := p.printEvent(table, fmt.Appendf(nil, `{"id":"ID","type":"a.b","resource":"r","source":%q,"createdAt":0}`, source)); err != nil {
				t.Fatal(err)
			}
		}
		start := "1970-01-01T00:00:00Z  a.b" + strings.Repeat(" ", 25) + "r" + strings.Repeat(" ", 17)
		want := start + "a" + strings.Repeat(" ", 19) + "ID\n" + start + long + "  ID\n" + start + "b" + strings.Repeat(" ", 26) + "ID\n"
		if _, lines, _ := strings.Cut(out.String(), "\n"); lines != want {
			t.Errorf("it printed\n%swant\n%s", lines, want)
		}
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// generateTen records the events of a seed, which is a day too.
func generateTen(t *testing.T, dir, seed string) {
	t.Helper()
	if _, stderr, code := run(t, "event", "generate", "--data", dir, "--account", "acct_a", "--seed", seed, "--events", "10", "--until", "2026-03-0"+seed+"T00:00:00Z", "--span", "12h"); code != term.ExitOK {
		t.Fatalf("event generate: exit %d, %s", code, stderr)
	}
}

// TestEventTailProcess follows a real server through a stop and a kill.
//
// Promise (§4.1, §4.2): event tail follows, filters and resumes
func TestEventTailProcess(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	record := func(seed string) { t.Helper(); generateTen(t, dir, seed) }
	record("1")
	server := start(t, "serve", "--data", dir, "--listen", "127.0.0.1:0")
	follower := startFollower(t, "event", "tail", "--data", dir, "--account", "acct_a", "--since", "0", "--json")
	follower.wantLines(t, 10)
	server.end()
	follower.wantNote(t, "the server is stopping; reconnecting\n")
	record("2") // without a server
	server = start(t, "serve", "--data", dir, "--listen", "127.0.0.1:0")
	follower.wantLines(t, 20)
	must.Do(t, server.cmd.Process.Kill())
	follower.wantNote(t, backNote+goneNote)
	<-server.ended
	start(t, "serve", "--data", dir, "--listen", "127.0.0.1:0")
	record("3")
	follower.wantLines(t, 30)
	_ = follower.cmd.Process.Signal(os.Interrupt)
	_ = follower.cmd.Wait()
	if code := follower.cmd.ProcessState.ExitCode(); code != term.ExitInterrupted {
		t.Errorf("exit %d, want %d", code, term.ExitInterrupted)
	}
	listed, _, _ := run(t, "event", "list", "--data", dir, "--account", "acct_a", "--order", "asc", "--limit", "1000", "--json")
	if printed := follower.text(t, "out"); printed != listed {
		t.Errorf("tail_survives_a_stop_and_a_kill: it printed\n%s\nwant\n%s", printed, listed)
	}
	t.Run("a_reader_who_leaves_ends_it_quietly", func(t *testing.T) {
		cmd := exec.Command("tollhouse", "event", "tail", "--data", dir, "--account", "acct_a", "--since", "0", "--json")
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out := must.Get(cmd.StdoutPipe())(t)
		must.Do(t, cmd.Start())
		_ = out.Close()
		_ = cmd.Wait()
		if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGPIPE || stderr.Len() > 0 {
			t.Errorf("it ended with %v, and said %q", cmd.ProcessState, &stderr)
		}
	})
}

// follower is a command that goes on, with what it says in files.
type follower struct {
	cmd *exec.Cmd
	dir string
}

func startFollower(t *testing.T, args ...string) *follower {
	t.Helper()
	f := &follower{exec.Command("tollhouse", args...), t.TempDir()}
	for name, stream := range map[string]*io.Writer{"out": &f.cmd.Stdout, "err": &f.cmd.Stderr} {
		file := must.Get(os.Create(filepath.Join(f.dir, name)))(t)
		defer file.Close()
		*stream = file
	}
	must.Do(t, f.cmd.Start())
	t.Cleanup(func() {
		if f.cmd.ProcessState == nil {
			_ = f.cmd.Process.Kill()
			_ = f.cmd.Wait()
		}
	})
	return f
}

func (f *follower) text(t *testing.T, stream string) string {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(f.dir, stream)))(t)
	return string(text)
}

// until waits for what the follower says.
func (f *follower) until(t *testing.T, stream, what string, enough func(string) bool) {
	t.Helper()
	for deadline := time.Now().Add(startMax); !enough(f.text(t, stream)); {
		if time.Now().After(deadline) {
			t.Fatalf("%s never came; it printed %s\nand %s", what, f.text(t, "out"), f.text(t, "err"))
		}
		time.Sleep(time.Millisecond)
	}
}

func (f *follower) wantLines(t *testing.T, n int) {
	t.Helper()
	f.until(t, "out", fmt.Sprintf("line %d", n), func(text string) bool { return strings.Count(text, "\n") >= n })
}

func (f *follower) wantNote(t *testing.T, note string) {
	t.Helper()
	f.until(t, "err", note, func(text string) bool { return strings.HasSuffix(text, note) })
}

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"
)

const (
	tailSilence  = 45 * time.Second // three heartbeats of the server
	tailRetry    = 2 * time.Second  // until the server says otherwise
	tailRetryMax = time.Minute
)

func (p *program) eventTail() *cobra.Command {
	var account, after string
	var types, resources []string
	var since lookback
	c := &cobra.Command{
		Use:   "tail",
		Short: "go on with new events as they come, until interrupted",
		Long: `Print the events of an account as they are recorded, one a line, until interrupted;
with --since or --after, first those that there are. It needs a server that runs.
When that goes away it waits, and goes on behind the last event that it printed:
none is missed and none comes twice.`,
		Args: operands(),
	}
	flags := c.Flags()
	addAccountFlag(c, &account)
	addFilterFlags(c, &types, &resources)
	flags.Var(&since, "since", "begin with events from this `time` on: RFC 3339, Unix seconds, or how long ago, such as 2h")
	flags.StringVar(&after, "after", "", "begin after the event with this `id`")
	c.RunE = p.doing(func(ctx context.Context, _ []string) error {
		query := filterQuery(account, types, resources)
		if !since.IsZero() {
			query.Set("createdAt[gte]", strconv.FormatInt(since.Unix(), 10))
		}
		if after != "" {
			query.Set("after", after)
		}
		t := &tail{p: p, path: "/admin/events?" + query.Encode(), since: since.moment, silence: tailSilence, retry: tailRetry, table: p.newTail()}
		return inFlags(t.run(ctx))
	})
	return c
}

// tail follows an account's log through the ends of connections and servers.
type tail struct {
	p       *program
	path    string // of the stream, with what it is to hold
	since   moment
	silence time.Duration // after which a connection is given up
	retry   time.Duration // between two connections

	begun bool   // there was a stream
	away  bool   // and there is none now, of which the reader was told
	place string // where the server began the present stream
	last  string // behind which the next stream begins
	table *table
}

// run goes from stream to stream. Only the first one must be there at once: who
// begins without a server is told so.
func (t *tail) run(ctx context.Context) error {
	for {
		err := t.follow(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if code := asFault(err).code; !t.begun || code != exitUnreachable && code != exitBusy {
			return t.resumable(err)
		}
		if !t.away {
			t.p.note("%v; waiting for it to come back", err)
			t.away = true
		}
		if err := sleep(ctx, t.retry); err != nil {
			return err
		}
	}
}

// resumable tells a reader who was given something where to go on.
func (t *tail) resumable(err error) error {
	f := *asFault(err)
	if t.begun && t.last != "" {
		f.hint = "to go on behind the last event, run it again with --after " + t.last
	}
	return &f
}

var errSilent = errors.New("silent")

// follow prints one stream to its end, which is always an error: that of the
// stream, or of the server that could not be reached.
func (t *tail) follow(ctx context.Context) error {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	watched := &watchedReader{silence: t.silence, timer: time.AfterFunc(t.silence, func() { giveUp(errSilent) })}
	defer watched.timer.Stop()
	err := func() error {
		a, err := t.p.connectRunning(ctx) // anew each time: the socket may have moved
		if err != nil {
			return err
		}
		defer a.close()
		answer, err := t.request(ctx, a)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		t.connected(answer.Header)
		watched.r = answer.Body
		return t.read(newFrameReader(watched))
	}()
	if context.Cause(ctx) == errSilent {
		return fail(exitUnreachable, "look whether the server still runs: tollhouse health", "the server was silent for %s", t.silence)
	}
	return err
}

func (t *tail) request(ctx context.Context, a *admin) (*http.Response, error) {
	// Our choice: dev may live at another time (--clock), so its future is not ours.
	if !t.begun && a.info.Mode != "dev" && t.since.After(time.Now()) {
		return nil, usage("leave it out for what comes from now on", "--since %s is still to come", &t.since)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, adminURL(t.path), nil)
	if err != nil {
		return nil, fmt.Errorf("compose the request: %w", err)
	}
	r.Header.Set("Accept", "text/event-stream")
	if t.last != "" {
		r.Header.Set("Last-Event-ID", t.last) // which the server heeds before after
	}
	return a.do(r)
}

// connected notes that there is a stream, and what the server has to say of it.
func (t *tail) connected(h http.Header) {
	if !t.begun {
		for _, notice := range h.Values("Tollhouse-Notice") {
			t.p.note("%s", printable(notice))
		}
	}
	if t.away {
		t.p.note("the server is back")
	}
	t.begun, t.away = true, false
}

// read prints the events of a stream.
func (t *tail) read(frames *frameReader) error {
	for {
		f, err := frames.next()
		if frames.retry > 0 {
			t.retry = min(frames.retry, tailRetryMax)
		}
		if errors.Is(err, errFrameTooLong) {
			return fail(exitFailed, "use the tollhouse that the server was started with", "the stream cannot be read: %w", err)
		}
		if err != nil {
			return fail(exitUnreachable, "look whether the server still runs: tollhouse health", "the server has gone")
		}
		if err := t.take(f); err != nil {
			return err
		}
	}
}

// take does what one frame is for. A name that it does not know is of a later
// server, and no event.
func (t *tail) take(f frame) error {
	var data struct{ After, OldestAvailable, First, Last, Reason string }
	if f.name != "" {
		if err := json.Unmarshal(f.data, &data); err != nil {
			return fail(exitFailed, "use the tollhouse that the server was started with", "the stream cannot be read: %w", err)
		}
	}
	switch f.name {
	case "":
		if err := t.print(f.data); err != nil {
			return err
		}
		t.last = f.id // not before: what was not printed has not been seen
	case "ready":
		t.place = data.After
		if t.last == "" {
			t.last = t.place
		}
	case "gap":
		t.p.note("events are missing here: they were removed before they could be shown; the oldest that is left is %s", printable(data.OldestAvailable))
		t.last = t.place // so that it is told once
	case "backfill":
		t.p.note("events were recorded behind those that were shown, from %s to %s; tollhouse event list shows them", printable(data.First), printable(data.Last))
	case "end":
		if data.Reason == "restart" {
			return fail(exitUnreachable, "", "the server is stopping")
		}
		return fail(exitUnreachable, "", "the server ended the stream (%s)", printable(data.Reason))
	}
	return nil
}

// newTail is a table whose lines are printed before the next is known: it begins
// with the widths that most events need.
func (p *program) newTail() *table {
	t := p.newTable("CREATED", "TYPE", "RESOURCE", "SOURCE", "ID")
	t.widths = []int{20, 26, 16, 18, 30}
	return t
}

// print writes an event as one line, at once.
func (t *tail) print(wire []byte) error {
	var err error
	if t.p.json {
		_, err = t.p.stdout.Write(append(wire, '\n'))
	} else {
		var e eventShown
		if err := json.Unmarshal(wire, &e); err != nil {
			return fmt.Errorf("read an event: %w", err)
		}
		t.table.add(showTime(e.CreatedAt), e.Type, e.Resource, printable(e.Source), e.ID)
		err = t.table.flush()
	}
	if err != nil {
		return fail(exitIO, "", "the event could not be printed: %w", err)
	}
	return nil
}

// watchedReader gives each read its time, and none to what is done in between: a
// reader of ours may be slow, the server may not.
type watchedReader struct {
	r       io.Reader
	silence time.Duration
	timer   *time.Timer
}

func (w *watchedReader) Read(b []byte) (int, error) {
	w.timer.Reset(w.silence)
	defer w.timer.Stop()
	return w.r.Read(b)
}

package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"tollhouse/cli/term"
	"tollhouse/handlers/api"
)

const (
	tailSilence  = 45 * time.Second // three heartbeats of the server
	tailRetry    = 2 * time.Second  // until the server says otherwise
	tailRetryMax = time.Minute
)

func (p *program) eventTail() *cobra.Command {
	var account, after string
	var all bool
	var types, resources []string
	var since term.Ago
	c := &cobra.Command{
		Use:   "tail",
		Short: "print new events as they are recorded, until interrupted",
		Long: `Print the events of an account as they are recorded, one per line, until interrupted.
With --since or --after, print earlier events first. This needs a running server, or a
database named with --store. If the server goes away, tail waits for it and continues
after the last event that it printed: it misses no event and prints none twice.

With --all-accounts, print the events of all accounts in the order in which they were
recorded. Positions are then those of the feed: give start or latest with --after, or
the position that tail names when it ends.`,
		Args: operands(),
	}
	flags := c.Flags()
	addAccountFlag(c, &account)
	addAllAccountsFlag(c, &all)
	addFilterFlags(c, &types, &resources)
	flags.Var(&since, "since", "start with events at or after this `time`: 2026-03-09, RFC 3339, Unix seconds, or an age such as 2h")
	flags.StringVar(&after, "after", "", "start after the event with this `id`")
	c.RunE = p.doing(func(ctx context.Context, _ []string) error {
		t, err := p.newTail(all, filterQuery(account, types, resources), since, after)
		if err != nil {
			return err
		}
		table := p.newTailTable(all)
		t.event = func(_ context.Context, wire []byte) error { return p.printEvent(table, wire) }
		err = inFlags(listFlags, t.run(ctx))
		if all && ctx.Err() != nil { // no line has its position in the feed
			return t.resumable(err)
		}
		return err
	})
	return c
}

// tail follows an account's log across lost connections and server restarts.
type tail struct {
	p       *program
	path    string // of the stream, with its filters
	since   term.Moment
	silence time.Duration // after which a connection is given up
	retry   time.Duration // between two connections

	ready func(after string) error // called when a stream that begins after this position is open, or nil
	event func(ctx context.Context, wire []byte) error

	begun bool   // a stream was opened
	away  bool   // the user was told that the server is away
	last  string // the position after which the next stream begins
}

func addAllAccountsFlag(c *cobra.Command, all *bool) {
	c.Flags().BoolVar(all, "all-accounts", false, "the events of all accounts; needs a server with --feed")
}

func errBothAccounts() error {
	return term.Usage("leave out one of them; --account may come from TOLLHOUSE_ACCOUNT", "--all-accounts and --account exclude each other")
}

// newTail returns a tail of an account's log, or of the feed.
func (p *program) newTail(all bool, query url.Values, since term.Ago, after string) (*tail, error) {
	t := &tail{p: p, since: since.Moment, silence: tailSilence, retry: tailRetry}
	if !all {
		if !since.IsZero() {
			query.Set("createdAt[gte]", strconv.FormatInt(since.Unix(), 10))
		}
		if after != "" {
			query.Set("after", after)
		}
		t.path = "/admin/events?" + query.Encode()
		return t, nil
	}
	if query.Has("account") {
		return nil, errBothAccounts()
	}
	if !since.IsZero() {
		return nil, term.Usage("use --after start, or --after with a position in the feed", "--since cannot be combined with --all-accounts: the feed is in the order of recording")
	}
	query.Set("after", cmp.Or(after, "latest"))
	t.path = api.FeedPath + "?" + query.Encode()
	return t, nil
}

// run follows one stream after another. The first must connect immediately.
func (t *tail) run(ctx context.Context) error {
	for {
		err := t.follow(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if code := term.FailureOf(err).Code; !t.begun || code != term.ExitUnreachable && code != term.ExitBusy {
			return t.resumable(err)
		}
		if !t.away {
			t.p.Note("%v; reconnecting", err)
			t.away = true
		}
		if err := term.Sleep(ctx, t.retry); err != nil {
			return err
		}
	}
}

// resumable adds a hint where to continue, if events were printed.
func (t *tail) resumable(err error) error {
	f := *term.FailureOf(err)
	if t.begun && t.last != "" {
		f.Hint = "to continue after the last event, run it again with --after " + t.last
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
		a, err := t.p.connectRunning(ctx) // again each time: the socket may have moved
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
		return t.read(ctx, newFrameReader(watched))
	}()
	if context.Cause(ctx) == errSilent {
		return term.Fail(term.ExitUnreachable, "check that the server is running: tollhouse health", "the server sent nothing for %s", t.silence)
	}
	return err
}

func (t *tail) request(ctx context.Context, a *adminClient) (*http.Response, error) {
	// Our choice: dev's clock may differ from ours (--clock), so its future is not ours.
	if !t.begun && a.info.Mode != "dev" && t.since.After(time.Now()) {
		return nil, term.Usage("leave it out to start now", "--since %s is in the future", &t.since)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, adminURL(t.path), nil)
	if err != nil {
		return nil, fmt.Errorf("compose the request: %w", err)
	}
	r.Header.Set("Accept", "text/event-stream")
	if t.last != "" {
		r.Header.Set("Last-Event-ID", t.last) // which takes precedence over after
	}
	return a.do(r)
}

// connected records that a stream is open and prints the server's notices.
func (t *tail) connected(h http.Header) {
	if !t.begun {
		t.p.noteAll(h.Values("Tollhouse-Notice"))
	}
	if t.away {
		t.p.Note("reconnected to the server")
	}
	t.begun, t.away = true, false
}

// read takes the frames of a stream.
func (t *tail) read(ctx context.Context, frames *frameReader) error {
	for {
		f, err := frames.next()
		if frames.retry > 0 {
			t.retry = min(frames.retry, tailRetryMax)
		}
		if errors.Is(err, errFrameTooLong) {
			return term.Fail(term.ExitFailed, "use the same version of tollhouse as the server", "cannot read the stream: %w", err)
		}
		if err != nil {
			return term.Fail(term.ExitUnreachable, "check that the server is running: tollhouse health", "the server closed the connection")
		}
		if err := t.take(ctx, f); err != nil {
			return err
		}
	}
}

// take handles one frame and then moves to its position: what was not printed or posted
// must be sent again.
func (t *tail) take(ctx context.Context, f frame) error {
	if len(f.data) > 0 {
		if err := t.handle(ctx, f); err != nil {
			return err
		}
	}
	if f.id != "" {
		t.last = f.id
	}
	return nil
}

// handle ignores unknown names, which a later server may send.
func (t *tail) handle(ctx context.Context, f frame) error {
	var data struct{ After, OldestAvailable, First, Last, Account, From, To, Reason string }
	if f.name != "" {
		if err := json.Unmarshal(f.data, &data); err != nil {
			return term.Fail(term.ExitFailed, "use the same version of tollhouse as the server", "cannot read the stream: %w", err)
		}
	}
	switch f.name {
	case "":
		return t.event(ctx, f.data)
	case "ready":
		if t.ready != nil {
			return t.ready(data.After)
		}
	case "gap":
		t.p.Note("some events were removed before they could be shown; the oldest remaining event is %s", term.Visible(data.OldestAvailable))
	case "backfill":
		if data.Account != "" {
			t.p.Note("events of account %[1]s were recorded at earlier positions of its log, from %[2]s to %[3]s; tollhouse event list --account %[1]s shows them", term.Visible(data.Account), term.Visible(data.From), term.Visible(data.To))
			return nil
		}
		t.p.Note("events were recorded at earlier positions than those shown, from %s to %s; tollhouse event list shows them", term.Visible(data.First), term.Visible(data.Last))
	case "end":
		if data.Reason == "restart" {
			return term.Fail(term.ExitUnreachable, "", "the server is stopping")
		}
		return term.Fail(term.ExitUnreachable, "", "the server ended the stream (%s)", term.Visible(data.Reason))
	}
	return nil
}

// newTailTable returns a table that prints each line immediately, so it starts with widths
// that fit most events. With all it has the account of each event.
func (p *program) newTailTable(all bool) *term.Table {
	columns, widths := []string{"CREATED", "TYPE", "RESOURCE", "SOURCE", "ID"}, []int{20, 26, 16, 18, 30}
	if all {
		columns, widths = slices.Insert(columns, 1, "ACCOUNT"), slices.Insert(widths, 1, 16)
	}
	t := p.NewTable(columns...)
	t.Widths = widths
	return t
}

// printEvent writes an event as one line, immediately.
func (p *program) printEvent(table *term.Table, wire []byte) error {
	var err error
	if p.JSON {
		_, err = p.Out.Write(append(wire, '\n'))
	} else {
		var e eventShown
		if err := json.Unmarshal(wire, &e); err != nil {
			return fmt.Errorf("read an event: %w", err)
		}
		row := []string{term.ShowTime(e.CreatedAt), e.Type, e.Resource, e.Source, e.ID}
		if len(table.Widths) > len(row) { // with the account
			row = slices.Insert(row, 1, e.Owner)
		}
		table.Add(row...)
		err = table.Flush()
	}
	if err != nil {
		return term.Fail(term.ExitIO, "", "cannot print the event: %w", err)
	}
	return nil
}

// watchedReader limits the time of each read, but not the time between reads: the
// consumer may be slow, the server may not.
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

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tollhouse/cli/term"
	"tollhouse/store/history"
)

// generateUntil is the default end of a printed history. Our choice: a fixed time, so that
// the same command line gives the same bytes on any day. A history recorded in an account
// ends now, so that the plots of the last hours and days show it.
var generateUntil = term.Moment{Time: time.Unix(1773066600, 0).UTC()}

// generateSettings holds the flags of event generate.
type generateSettings struct {
	seed    uint64
	events  int64
	span    term.Duration
	until   term.Moment
	account string

	untilNow bool // when recorded in an account, instead of until
	live     bool
	rate     rate
}

func (p *program) eventGenerate() *cobra.Command {
	s := generateSettings{span: term.Duration(90 * 24 * time.Hour), until: generateUntil, rate: rate{5, time.Second}}
	c := &cobra.Command{
		Use:   "generate",
		Short: "generate events of invented customers and payments, for testing",
		Long: `Generate a history of invented customers with their cards, bank accounts, payments,
invoices and schedules. Print it as JSON lines for event import or, with --account,
record it in that account, up to now. The same flags always print the same bytes. With
--until too, running it again records nothing twice.

With --live, record new events at a steady rate until interrupted or until --events of
them are recorded. One day of the history then takes a minute.

All customers are invented: names are made up, addresses end in .example, phone numbers
are 555-01xx, and cards and bank accounts have only tokens and last digits.`,
		Args: operands(),
	}
	flags := c.Flags()
	flags.Uint64Var(&s.seed, "seed", 1, "a `number` that selects the history")
	flags.Int64Var(&s.events, "events", 1000, "how many events (with --live: no limit)")
	flags.Var(&s.span, "span", "time from the first event to the last")
	flags.Var(&s.until, "until", "`time` of the last event: 2026-03-09 (its last second), RFC 3339 or Unix seconds (with --account: now)")
	flags.StringVar(&s.account, "account", "", "record them in this `account` instead of printing them")
	flags.BoolVar(&s.live, "live", false, "record new events now, at --rate; needs --account")
	flags.Var(&s.rate, "rate", "events of --live per second, minute or hour, such as 5/s")
	c.RunE = p.doing(func(ctx context.Context, _ []string) error {
		changed := flags.Changed
		switch {
		case s.live && s.account == "":
			return term.Usage("name the account to record the events in", "--live needs --account")
		case s.live && (changed("span") || changed("until")):
			return term.Usage("leave it out: a live history starts now", "--live cannot be combined with --span or --until")
		case !s.live && changed("rate"):
			return term.Usage("add --live, or leave --rate out", "--rate is only for --live")
		}
		s.untilNow = !changed("until")
		if err := s.check(); err != nil {
			return err
		}
		switch {
		case s.live:
			if !changed("events") {
				s.events = 0
			}
			return p.manage(ctx, "event generate", makesData, func(a *adminClient) error { return p.generateLive(ctx, a, s) })
		case s.account == "":
			return p.printHistory(ctx, s)
		}
		return p.importHistory(ctx, s)
	})
	return c
}

func (s *generateSettings) check() error {
	switch {
	case s.events < 1 || s.events > history.EventsMax:
		return term.Usage("give a number from 1 to "+strconv.Itoa(history.EventsMax), "--events cannot be %d", s.events)
	case time.Duration(s.span) > history.SpanMax:
		return term.Usage(fmt.Sprintf("give at most %dd", history.SpanMax/(24*time.Hour)), "--span is too long")
	case time.Duration(s.span)%time.Second != 0:
		return term.Usage("give whole seconds: the times of events are whole seconds", "--span %s is not a whole number of seconds", &s.span)
	case s.until.Unix() < int64(time.Duration(s.span)/time.Second):
		return term.Usage("give a later --until, or a shorter --span", "the first event would be before 1970")
	}
	return nil
}

func (s *generateSettings) plan() history.Plan {
	return history.Plan{Seed: s.seed, Events: int(s.events), Span: time.Duration(s.span), Until: s.until.Last()}
}

// printHistory writes a history to standard output.
func (p *program) printHistory(ctx context.Context, s generateSettings) error {
	lines := &lineCounter{r: history.New(s.plan())}
	made := p.MeterToOutput("generating events", heeding{ctx, lines})
	made.Share = func(int64) float64 { return float64(lines.lines()) / float64(s.events) }
	defer made.Clear()
	if _, err := io.Copy(p.Out, made); err != nil {
		return term.Fail(term.ExitIO, "the output is incomplete: run it again", "the history stopped early: %w", err)
	}
	return nil
}

// heeding ends a stream when its context is done.
type heeding struct {
	ctx context.Context
	r   io.Reader
}

func (h heeding) Read(b []byte) (int, error) {
	if err := h.ctx.Err(); err != nil {
		return 0, err
	}
	return h.r.Read(b)
}

// importHistory records a history as an import of its lines would.
func (p *program) importHistory(ctx context.Context, s generateSettings) error {
	query := accountQuery(s.account)
	query.Set("on-error", "stop")
	return p.manage(ctx, "event generate", makesData, func(a *adminClient) error {
		if s.untilNow { // by the clock of the server: that of dev may be another
			s.until = term.Moment{Time: time.Unix(a.info.Now, 0)}
			if err := s.check(); err != nil {
				return err
			}
		}
		share := func(summary importAnswer) float64 { return float64(summary.Lines) / float64(s.events) }
		return p.importLines(ctx, a, query, &lineCounter{r: history.New(s.plan()), share: share})
	})
}

// generateLive records events one by one, each when it is due. After an interrupt,
// its usual end, it prints the summary.
func (p *program) generateLive(ctx context.Context, a *adminClient, s generateSettings) error {
	path := "/admin/events?" + accountQuery(s.account).Encode()
	started := time.Now()
	g := history.NewLive(s.seed, started, s.rate.interval())
	var summary importAnswer
	var failed error
	recorded := p.NewProgress("recording")
	defer recorded.Clear()
	for s.events == 0 || summary.Lines < s.events {
		if failed = term.Sleep(ctx, time.Until(s.rate.due(started, summary.Lines))); failed != nil {
			break
		}
		line, _ := g.Next()
		if failed = p.recordNow(ctx, a, path, bytes.TrimSuffix(line, []byte("\n"))); failed != nil {
			break
		}
		summary.Lines++
		summary.Bytes += int64(len(line))
		if recorded.Due() {
			recorded.Show(float64(summary.Lines)/float64(max(s.events, 1)), "%s, %.1f/s", term.Count(summary.Lines, "event", "events"), recorded.Rate(float64(summary.Lines)))
		}
	}
	recorded.Clear()
	summary.Recorded = summary.Lines
	return errors.Join(failed, p.sumUpLive(summary))
}

// recordNow records one event. An interrupt waits for it, so that its outcome is
// known.
func (p *program) recordNow(ctx context.Context, a *adminClient, path string, line []byte) error {
	answer, err := a.send(context.WithoutCancel(ctx), "POST", path, "application/json", bytes.NewReader(line))
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, answer.Body) // so that the connection is used again
	return errors.Join(err, answer.Body.Close())
}

// sumUpLive prints the summary that an import of the same events would.
func (p *program) sumUpLive(summary importAnswer) error {
	sent := &lineCounter{}
	sent.whole.Store(true)
	sent.ends.Store(summary.Lines)
	sent.bytes.Store(summary.Bytes)
	return p.sumUp(summary, true, false, sent)
}

// rate is so many in a unit of time, as in 5/s.
type rate struct {
	count int64
	unit  time.Duration
}

var rateUnits = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}

func (r *rate) String() string {
	for name, unit := range rateUnits {
		if unit == r.unit {
			return strconv.FormatInt(r.count, 10) + "/" + name
		}
	}
	return ""
}

func (r *rate) Type() string { return "rate" }

func (r *rate) Set(text string) error {
	number, name, _ := strings.Cut(text, "/")
	unit, known := rateUnits[name]
	count, err := strconv.ParseInt(number, 10, 32)
	if !known || err != nil || count < 1 {
		return errors.New("give a rate such as 5/s, 30/m or 100/h")
	}
	if unit/time.Duration(count) < time.Second/history.RateMax {
		return fmt.Errorf("give at most %d/s", history.RateMax)
	}
	*r = rate{count, unit}
	return nil
}

// interval is the time between two events.
func (r *rate) interval() time.Duration { return r.unit / time.Duration(r.count) }

// due returns when the event with that many before it is due.
func (r *rate) due(started time.Time, before int64) time.Time {
	return started.Add(time.Duration(before) * r.interval())
}

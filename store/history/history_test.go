package history_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"tollhouse/store/eventlog"
	"tollhouse/store/history"
	"tollhouse/store/record"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

var update = flag.Bool("update", false, "write the golden files of testdata anew")

// until is the end of every history here, except those of the shape.
var until = time.Unix(1773066600, 0)

func planOf(seed uint64, events int) history.Plan {
	return history.Plan{Seed: seed, Events: events, Span: 90 * 24 * time.Hour, Until: until}
}

func linesOf(t *testing.T, p history.Plan) []byte {
	t.Helper()
	lines := must.Get(io.ReadAll(history.New(p)))(t)
	return lines
}

// TestSameBytes: the bytes of a history are a promise. After an intended change, rewrite
// the golden files with -update and say so in the commit: all histories change.
//
// Promise (§3.4, §3.5): the same arguments give the same bytes; --account imports; a repeat changes
// nothing
func TestSameBytes(t *testing.T) {
	t.Parallel()
	golden := func(t *testing.T, name string, got []byte) {
		t.Helper()
		path := filepath.Join("testdata", name)
		if *update {
			must.Do(t, os.WriteFile(path, got, 0o644))
		}
		want := must.Get(os.ReadFile(path))(t)
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what was made:\n%.2000s", path, got)
		}
	}
	lines := linesOf(t, planOf(42, 2000))
	t.Run("same_arguments_give_the_same_bytes_as_ever", func(t *testing.T) {
		sum := sha256.Sum256(lines)
		golden(t, "seed42_events2000.sha256", []byte(hex.EncodeToString(sum[:])+"\n"))
		golden(t, "seed42_first.ndjson", bytes.Join(bytes.SplitAfterN(lines, []byte("\n"), 13)[:12], nil))
	})
	t.Run("twice_is_byte_identical", func(t *testing.T) {
		if !bytes.Equal(lines, linesOf(t, planOf(42, 2000))) {
			t.Error("the second time it was another history")
		}
	})
	t.Run("however_it_is_read", func(t *testing.T) {
		again, err := io.ReadAll(iotest.OneByteReader(history.New(planOf(42, 2000))))
		if err != nil || !bytes.Equal(lines, again) {
			t.Errorf("byte by byte it was another history (%v)", err)
		}
	})
	t.Run("another_seed_gives_another_history", func(t *testing.T) {
		other := linesOf(t, planOf(43, 2000))
		for line := range bytes.Lines(other) {
			if id := line[:len(`{"id":"evt_01kk9g2fnp0008yce2tg57qtan"`)]; bytes.Contains(lines, id) {
				t.Fatalf("both have %s", id)
			}
		}
	})
}

// TestLength: the requested number of events, from the first second to the last.
//
// Promise (§3.4, §3.5): the same arguments give the same bytes; --account imports; a repeat changes
// nothing
func TestLength(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	for name, p := range map[string]history.Plan{
		"one":                        {Seed: 7, Events: 1, Span: 24 * time.Hour, Until: until},
		"two":                        {Seed: 7, Events: 2, Span: 24 * time.Hour, Until: until},
		"few_in_a_year":              {Seed: 7, Events: 40, Span: 365 * 24 * time.Hour, Until: until},
		"many_in_a_minute":           {Seed: 7, Events: 5000, Span: time.Minute, Until: until},
		"all_in_one_second":          {Seed: 7, Events: 3000, Until: until},
		"an_end_within_an_hour":      {Seed: 7, Events: 3000, Span: 90*24*time.Hour + 1234*time.Second, Until: until.Add(17 * time.Second)},
		"right_after_a_file":         {Seed: 7, Events: 3000, Span: 10 * 24 * time.Hour, Until: time.Unix(1773046802, 0)},
		"the_first_day_of_unix_time": {Seed: 7, Events: 500, Span: 24 * time.Hour, Until: time.Unix(86400, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			count, first, last, at := 0, int64(-1), int64(0), record.Position{}
			for line := range bytes.Lines(linesOf(t, p)) {
				e := parseEvent(t, line)
				if first < 0 {
					first = e.CreatedAt
				}
				count, last = count+1, e.CreatedAt
				position, native := record.ParsePosition(e.ID)
				if !native || position.Compare(at) <= 0 {
					t.Fatalf("event %d, %s, is not after the one before", count, e.ID)
				}
				if position.Millis()/1000 != e.CreatedAt {
					t.Fatalf("%s says another time than createdAt, %d", e.ID, e.CreatedAt)
				}
				at = position
			}
			if count != p.Events || last != p.Until.Unix() {
				t.Errorf("%d events up to %d, want %d up to %d", count, last, p.Events, p.Until.Unix())
			}
			if wantFirst := p.Until.Add(-p.Span).Unix(); count > 1 && first != wantFirst {
				t.Errorf("the first event is at %d, want %d", first, wantFirst)
			}
		})
	}
}

// event is an event as these tests read it, without our own parser.
type event struct {
	ID, Owner, Resource, Source, Location, Type string
	CreatedAt                                   int64
	EventData                                   struct {
		Object             map[string]any
		PreviousAttributes map[string]any
	}
}

func parseEvent(t *testing.T, line []byte) event {
	t.Helper()
	var e event
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	return e
}

func typeOf(line []byte) string {
	_, rest, _ := strings.Cut(string(line[:300]), `,"type":"`)
	typ, _, _ := strings.Cut(rest, `"`)
	return typ
}

// TestShares: each type of event has its share of a history, within a tenth of the share
// and three events in ten thousand.
//
// Promise (§3.4, §3.5): customers, accounts, transactions, invoices, batches and deposits have
// their shares
func TestShares(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	const events = 100_000
	counts, kinds := map[string]int{}, map[string]string{}
	g := history.New(planOf(42, events))
	for line, more := g.Next(); more; line, more = g.Next() {
		typ := typeOf(line)
		counts[typ]++
		kind, _, _ := strings.Cut(typ, ".")
		counts[kind+".*"]++
		if kind == "transaction" {
			e := string(line)
			id := e[strings.Index(e, `"resource":"`)+12:][:16]
			if typ == "transaction.created" {
				kinds[id] = "card.*"
				if strings.Contains(e, `"method":"ach"`) {
					kinds[id] = "ach.*"
				}
				counts[strings.TrimSuffix(kinds[id], "*")+"created"]++
			}
			counts[kinds[id]]++
		}
	}
	sum := func(types ...string) (n int) {
		for _, typ := range types {
			n += counts[typ]
		}
		return n
	}
	cards, debits, bills := counts["card.created"], counts["ach.created"], counts["invoice.created"]
	for name, c := range map[string]struct {
		got, of int
		want    float64 // per cent
	}{
		"customers":            {counts["customer.*"], events, 9},
		"customer.created":     {counts["customer.created"], events, 5},
		"customer.updated":     {counts["customer.updated"], events, 3.5},
		"customer.deleted":     {counts["customer.deleted"], events, 0.5},
		"payment_accounts":     {counts["account.*"], events, 9},
		"account.created":      {counts["account.created"], events, 5},
		"account.autoupdate":   {sum("account.autoupdate", "account.autoupdate_closed"), events, 1.5},
		"account.updated":      {counts["account.updated"], events, 1},
		"account.expiring":     {counts["account.expiring"], events, 1},
		"account.expired":      {counts["account.expired"], events, 0.3},
		"account.deleted":      {counts["account.deleted"], events, 0.2},
		"card_transactions":    {counts["card.*"], events, 38},
		"card_declined":        {counts["transaction.declined"], cards, 8},
		"card_voided":          {counts["transaction.voided"], cards, 1},
		"card_refunded":        {sum("transaction.refunded", "transaction.partially_refunded"), cards, 2},
		"card_disputed":        {counts["transaction.disputed"], cards, 0.1},
		"ach_transactions":     {counts["ach.*"], events, 26},
		"ach_return":           {counts["transaction.ach_return"], debits, 1.5},
		"ach_process_error":    {counts["transaction.ach_process_error"], debits, 0.4},
		"ach_notice_of_change": {counts["transaction.ach_notice_of_change"], debits, 0.5},
		"invoices_recurring":   {sum("invoice.*", "recurring.*"), events, 17},
		"invoice_voided":       {counts["invoice.voided"], bills, 1},
		"batches_deposits":     {sum("batch.*", "deposit.*"), events, 1},
	} {
		t.Run("share_of_"+name, func(t *testing.T) {
			share := 100 * float64(c.got) / float64(c.of)
			allowed := c.want/10 + 0.03
			if c.of != events { // few of a few vary by the square root
				allowed = 0.05 + 4*math.Sqrt(c.want*100/float64(c.of))
			}
			if math.Abs(share-c.want) > allowed {
				t.Errorf("%d of %d are %.2f %%, want %.2f ± %.2f", c.got, c.of, share, c.want, allowed)
			}
		})
	}
	for _, typ := range []string{"card.*", "transaction.captured", "invoice.overdue", "invoice.reminder_sent", "invoice.partially_paid", "deposit.settled", "recurring.updated"} {
		t.Run("has_"+typ, func(t *testing.T) {
			if counts[typ] == 0 {
				t.Error("no such event")
			}
		})
	}
}

// TestDayShape: business hours, firsts of the month, and seconds with several
// events, at two densities.
//
// Promise (§3.4, §3.5): lives are causally ordered; previousAttributes undo each change; names and
// numbers are fictitious; business hours, firsts of a month, several events in a second
func TestDayShape(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	byHour, byDay, bySecond := map[int64]int{}, map[string]int{}, map[int64]int{}
	g := history.New(planOf(42, 30_000))
	for line, more := g.Next(); more; line, more = g.Next() {
		at := parseEvent(t, line).CreatedAt
		date := time.Unix(at, 0).UTC()
		bySecond[at]++
		byDay[date.Format(time.DateOnly)]++
		if typ := typeOf(line); date.Weekday() != time.Saturday && date.Weekday() != time.Sunday && typ == "transaction.authorized" {
			byHour[at%86400/3600]++ // people's actions, not reports of banks
		}
	}
	t.Run("four_times_as_much_in_business_hours", func(t *testing.T) {
		business, night := 0, 0
		for h, n := range byHour {
			if h >= 9 && h < 17 {
				business += n
			} else {
				night += n
			}
		}
		if ratio := (float64(business) / 8) / (float64(night) / 16); ratio < 3 || ratio > 5 {
			t.Errorf("an hour of business has %.1f times as much as another", ratio)
		}
	})
	t.Run("a_peak_on_the_first_of_the_month", func(t *testing.T) {
		first, other := byDay["2026-01-01"], byDay["2026-01-08"] // both Thursdays
		if first < other*3/2 {
			t.Errorf("%d events on the first of January, %d a week later", first, other)
		}
	})
	t.Run("several_events_share_a_second", func(t *testing.T) {
		if most := slices.Max(values(bySecond)); most < 20 || len(bySecond) > 28_000 {
			t.Errorf("the fullest second has %d events, of %d seconds", most, len(bySecond))
		}
	})
	t.Run("several_events_share_a_second_in_a_small_set_too", func(t *testing.T) {
		seen := map[int64]int{}
		for line := range bytes.Lines(linesOf(t, planOf(1, 200))) {
			seen[parseEvent(t, line).CreatedAt]++
		}
		if len(seen) > 190 {
			t.Errorf("200 events in %d seconds", len(seen))
		}
	})
}

func values(m map[int64]int) (all []int) {
	for _, n := range m {
		all = append(all, n)
	}
	return all
}

// TestImport: import accepts a history, and export returns it.
//
// Promise (§3.4, §3.5): the same arguments give the same bytes; --account imports; a repeat changes
// nothing
func TestImport(t *testing.T) {
	t.Parallel()
	f := storetest.New(t)
	const account = "acct_history"
	lines := linesOf(t, planOf(42, 1500))
	run := func(want eventlog.ImportSummary) {
		t.Helper()
		im := must.Get(f.Events.NewImporter(account, eventlog.ImportOptions{}))(t)
		for line := range bytes.Lines(lines) {
			refused, err := im.Add(t.Context(), bytes.TrimSuffix(line, []byte("\n")), 0)
			if err != nil || len(refused) > 0 {
				t.Fatalf("%v, %v: %s", refused, err, line)
			}
		}
		if refused, err := im.Flush(t.Context()); err != nil || len(refused) > 0 {
			t.Fatalf("%v, %v", refused, err)
		}
		if got := im.Summary(); got != want {
			t.Errorf("summary %+v, want %+v", got, want)
		}
	}
	t.Run("an_import_refuses_nothing", func(t *testing.T) { run(eventlog.ImportSummary{Lines: 1500, Recorded: 1500, Settled: 1500}) })
	t.Run("a_second_import_is_all_unchanged", func(t *testing.T) { run(eventlog.ImportSummary{Lines: 1500, Unchanged: 1500, Settled: 1500}) })
	t.Run("an_export_gives_the_same_lines_with_their_owner", func(t *testing.T) {
		got := bytes.ReplaceAll(exported(t, f, account), []byte(`","owner":"`+account+`",`), []byte(`",`))
		if !bytes.Equal(got, lines) {
			t.Error("the export differs")
		}
	})
	t.Run("the_resources_are_those_of_its_events", func(t *testing.T) {
		last := map[[2]string]event{}
		for line := range bytes.Lines(lines) {
			e := parseEvent(t, line)
			kind, _, _ := strings.Cut(e.Type, ".")
			last[[2]string{kind, e.Resource}] = e
		}
		for resource, e := range last {
			r, err := f.Events.FindResource(t.Context(), account, resource[0], resource[1])
			if removed := strings.HasSuffix(e.Type, ".deleted"); removed != (err != nil) {
				t.Fatalf("%v after %s: %v", resource, e.Type, err)
			} else if removed {
				continue
			}
			if want, _ := json.Marshal(e.EventData.Object); !sameJSON(t, r.JSON, want) {
				t.Fatalf("%v is %s, want %s", resource, r.JSON, want)
			}
		}
	})
}

func exported(t *testing.T, f *storetest.Fixture, account string) (all []byte) {
	t.Helper()
	x := f.Events.NewExport(account)
	for {
		var n int
		var err error
		if all, n, err = x.Next(context.Background(), 500, all); err != nil {
			t.Fatal(err)
		} else if n == 0 {
			return all
		}
	}
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	must.Do(t, json.Unmarshal(a, &x))
	must.Do(t, json.Unmarshal(b, &y))
	left, _ := json.Marshal(x)
	right, _ := json.Marshal(y)
	return bytes.Equal(left, right)
}

// TestLive: the lines of a live history are what the server records now.
//
// Promise (§3.4, §3.5): --live records at a rate
func TestLive(t *testing.T) {
	t.Parallel()
	g := history.NewLive(1, until, 200*time.Millisecond)
	types, known := map[string]bool{}, map[string]bool{}
	refused, unbegun := "", ""
	for range 3000 {
		line, _ := g.Next()
		e := parseEvent(t, line)
		if _, err := eventlog.ParseNewEvent(bytes.TrimSuffix(line, []byte("\n")), "a"); err != nil {
			refused = err.Error()
		}
		if !known[e.Resource] && !strings.HasSuffix(e.Type, ".created") && e.Type != "batch.closed" {
			unbegun = e.Type
		}
		types[e.Type], known[e.Resource] = true, true
	}
	t.Run("live_lines_are_new_events", func(t *testing.T) {
		if refused != "" {
			t.Error(refused)
		}
	})
	t.Run("live_lives_begin", func(t *testing.T) {
		if unbegun != "" {
			t.Errorf("a life begins with %s", unbegun)
		}
	})
	t.Run("live_does_not_wait_for_days", func(t *testing.T) {
		for _, typ := range []string{"transaction.settled", "transaction.ach_settled", "invoice.paid", "deposit.settled"} {
			if !types[typ] {
				t.Errorf("%s never happens", typ)
			}
		}
	})
}

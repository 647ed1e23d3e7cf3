package eventlog_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// The size of the model test of paging.
const (
	pagedLogs       = 200
	pagedLogsLong   = 4000
	pagedTogether   = 5   // logs in one store; a large one in memory is slow
	pagedBefore     = 60  // events that a log has when the walks begin
	pagedMeanwhile  = 100 // events recorded during the walks
	pagedWriters    = 2
	pagedRoundsMax  = 10_000 // pages of one walk; none needs a tenth
	pagedLossMin    = 1000   // of each negative control, over the short form
	pagedMillisMost = 250    // between two events, so that many share a second
)

// TestPagingLosesNothing walks 200 logs in both orders while writers record many events
// a second. Cursors miss nothing and repeat nothing. Two other common ways of paging
// walk the same logs at the same time, to show that the logs are hard enough: by
// offset, newest first, and by time, for events later than the last second seen.
//
// Promise (§2.1): paging misses and repeats no event while new ones are recorded
func TestPagingLosesNothing(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	logs := pagedLogs
	if must.Long() {
		logs = pagedLogsLong
	}
	seed := uint64(time.Now().UnixNano())
	var all paging
	t.Run("logs", func(t *testing.T) {
		for first := 0; first < logs; first += pagedTogether {
			t.Run(fmt.Sprintf("from_%d", first), func(t *testing.T) {
				t.Parallel()
				open := storetest.New
				if first == 0 {
					open = storetest.OnDisk // an engine that commits in groups
				}
				f := open(t)
				for i := first; i < min(first+pagedTogether, logs) && !t.Failed(); i++ {
					l := &pagedLog{f: f, owner: fmt.Sprintf("acct_%d", i), seed: seed, number: uint64(i)}
					all.add(l.walk(t))
				}
			})
		}
	})
	t.Logf("seed %d: %d logs, %d events; by cursor %d events were seen; by offset %d came twice; by time %d were missed",
		seed, logs, all.events, all.seen, all.offset.repeated, all.stamp.missed)
	t.Run("cursors_miss_and_repeat_nothing_in_200_growing_logs", func(t *testing.T) {
		if all.cursor != (loss{}) || all.seen < logs*pagedBefore {
			t.Errorf("seed %d: of %d events %d were missed and %d came twice or out of order", seed, all.seen, all.cursor.missed, all.cursor.repeated)
		}
	})
	t.Run("negative_control_offsets_repeat_thousands", func(t *testing.T) {
		if all.offset.repeated < pagedLossMin {
			t.Errorf("seed %d: %d events came twice, want %d at least: the logs are too easy", seed, all.offset.repeated, pagedLossMin)
		}
	})
	t.Run("negative_control_timestamps_miss_thousands", func(t *testing.T) {
		if all.stamp.missed < pagedLossMin {
			t.Errorf("seed %d: %d events were missed, want %d at least: the logs are too easy", seed, all.stamp.missed, pagedLossMin)
		}
	})
}

// loss is what a way of paging got wrong.
type loss struct{ missed, repeated int }

// lossOf compares the events seen with those expected. An event out of order counts as a
// repeat.
func lossOf(seen, want []string) (l loss) {
	times := map[string]int{}
	for _, id := range seen {
		times[id]++
	}
	for _, id := range want {
		if times[id] == 0 {
			l.missed++
		}
	}
	l.repeated = len(seen) - len(times)
	if l == (loss{}) && !slices.Equal(seen, want) {
		l.repeated = 1
	}
	return l
}

// paging adds up the walks.
type paging struct {
	mu                    sync.Mutex
	events, seen          int
	cursor, offset, stamp loss
}

func (p *paging) add(q *paging) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events += q.events
	p.seen += q.seen
	for mine, other := range map[*loss]loss{&p.cursor: q.cursor, &p.offset: q.offset, &p.stamp: q.stamp} {
		mine.missed += other.missed
		mine.repeated += other.repeated
	}
}

// pagedLog is one log that is walked while it grows.
type pagedLog struct {
	f            *storetest.Fixture
	owner        string
	seed, number uint64

	mu     sync.Mutex
	model  []modelEvent
	left   int           // to be recorded
	orders chan struct{} // one event to record each
	grown  chan struct{} // closed when all of them are
}

// pagedFilters are the filters of the walks by cursor, one per log: none, an index,
// several merged, and one by resource.
var pagedFilters = []eventlog.Filter{
	{}, {Types: []string{"a.b"}}, {Types: []string{"a.b", "b.*"}}, {Resources: []string{"r"}}, {Types: []string{"*"}},
}

func (l *pagedLog) walk(t *testing.T) *paging {
	l.left, l.orders, l.grown = pagedMeanwhile, make(chan struct{}), make(chan struct{})
	before := l.random(0)
	for range pagedBefore {
		l.record(t, before)
	}
	var writers, readers sync.WaitGroup
	for i := range pagedWriters {
		own := l.random(1 + i)
		writers.Go(func() {
			for range pagedMeanwhile / pagedWriters {
				<-l.orders
				l.record(t, own)
			}
		})
	}
	filter := pagedFilters[l.number%uint64(len(pagedFilters))]
	var rising, falling, offset, stamped []string
	readers.Go(func() { rising = l.byCursor(t, filter, true, l.random(10)) })
	readers.Go(func() { falling = l.byCursor(t, filter, false, l.random(11)) })
	readers.Go(func() { offset = l.byOffset(t, l.random(12)) })
	readers.Go(func() { stamped = l.byTime(t, l.random(13)) })
	go func() { writers.Wait(); close(l.grown) }()
	readers.Wait()
	<-l.grown

	slices.SortFunc(l.model, func(a, b modelEvent) int { return a.position.Compare(b.position) })
	p := &paging{events: len(l.model), seen: len(rising) + len(falling)}
	p.cursor = lossOf(rising, l.ids(filter, ""))
	down := l.ids(filter, slices.Max(append(falling, "")))
	slices.Reverse(down)
	back := lossOf(falling, down)
	p.cursor.missed += back.missed
	p.cursor.repeated += back.repeated
	p.offset = lossOf(offset, l.ids(eventlog.Filter{}, slices.Max(offset)))
	p.stamp = lossOf(stamped, l.ids(eventlog.Filter{}, ""))
	return p
}

func (l *pagedLog) random(part int) *rand.Rand {
	return rand.New(rand.NewPCG(l.seed, l.number<<8|uint64(part)))
}

// record records one event, now.
func (l *pagedLog) record(t *testing.T, r *rand.Rand) {
	typ := []string{"a.b", "a.b", "a.c", "b.a"}[r.IntN(4)]
	of := []string{"r", "s"}[r.IntN(2)]
	l.f.Clock.Advance(time.Duration(r.IntN(pagedMillisMost)-20) * time.Millisecond) // steps back too
	wire, err := l.f.Events.RecordEvent(context.Background(), newEvent(l.owner, typ, of))
	if err != nil {
		t.Errorf("record: %v", err)
		return
	}
	p, _ := record.ParsePosition(string(wire[len(`{"id":"`):][:30]))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.model = append(l.model, modelEvent{p, typ, of, string(wire)})
}

// grow has a few events recorded while its caller goes on: a writer takes an order only
// when the previous one is done.
func (l *pagedLog) grow(r *rand.Rand) {
	l.mu.Lock()
	n := min(l.left, 1+r.IntN(4))
	l.left -= n
	l.mu.Unlock()
	if n == 0 {
		<-l.grown // rather than poll
	}
	for range n {
		l.orders <- struct{}{}
	}
}

// ids returns the matching ids of the model, oldest first, up to the named one.
func (l *pagedLog) ids(f eventlog.Filter, upTo string) (ids []string) {
	for _, e := range l.model {
		id := e.position.String()
		if len(f.Types) > 0 && !slices.ContainsFunc(f.Types, func(pattern string) bool { return matches(pattern, e.typ) }) ||
			len(f.Resources) > 0 && !slices.Contains(f.Resources, e.of) || upTo != "" && id > upTo {
			continue
		}
		ids = append(ids, id)
	}
	return ids
}

// page reads one page of 1 to 9 events.
func (l *pagedLog) page(t *testing.T, f eventlog.Filter) ([]string, eventlog.Page) {
	if f.To == 0 {
		f.To = eventlog.CreatedAtMax
	}
	page, err := l.f.Events.ListEvents(context.Background(), l.owner, f, nil)
	if err != nil {
		t.Errorf("list: %v", err)
	}
	return idsIn(page.Data), page
}

func limit(r *rand.Rand) int { return 1 + r.IntN(9) }

// isGrown reports whether nothing more will be recorded.
func (l *pagedLog) isGrown() bool {
	select {
	case <-l.grown:
		return true
	default:
		return false
	}
}

// byCursor walks with cursors: from the newest to the oldest, or from the oldest until
// nothing more comes.
func (l *pagedLog) byCursor(t *testing.T, f eventlog.Filter, ascending bool, r *rand.Rand) (seen []string) {
	f.Ascending = ascending
	for range pagedRoundsMax {
		f.Limit = limit(r)
		grown := l.isGrown()
		ids, page := l.page(t, f)
		seen = append(seen, ids...)
		f.After = eventlog.CursorAt(page.Next)
		if !page.More && (!ascending || grown) {
			return seen
		}
		l.grow(r)
	}
	t.Error("the walk did not end")
	return seen
}

// byOffset walks as with LIMIT and OFFSET, newest first.
func (l *pagedLog) byOffset(t *testing.T, r *rand.Rand) (seen []string) {
	for range pagedRoundsMax {
		n := limit(r)
		ids, _ := l.page(t, eventlog.Filter{Limit: len(seen) + n})
		ids = ids[min(len(ids), len(seen)):]
		seen = append(seen, ids...)
		if len(ids) < n {
			return seen
		}
		l.grow(r)
	}
	t.Error("the walk by offset did not end")
	return seen
}

// byTime polls for events later than the last second seen.
func (l *pagedLog) byTime(t *testing.T, r *rand.Rand) (seen []string) {
	from := int64(0)
	for range pagedRoundsMax {
		grown := l.isGrown()
		ids, page := l.page(t, eventlog.Filter{From: from, Ascending: true, Limit: limit(r)})
		seen = append(seen, ids...)
		if len(ids) > 0 {
			from = page.Next.Millis()/1000 + 1
		} else if grown {
			return seen
		}
		l.grow(r)
	}
	t.Error("the walk by time did not end")
	return seen
}

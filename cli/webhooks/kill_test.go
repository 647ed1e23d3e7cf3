package webhooks_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tollhouse/cli/webhooks"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/webhook"
)

var errKilled = errors.New("the process was killed")

// life is a process of the desk's server. After its kill it writes nothing and hears no
// answer.
type life struct {
	*desk
	dead  atomic.Bool
	early bool // writes the cursor before the answer: the negative control
}

func (l *life) Settle(ctx context.Context, ep *webhook.Endpoint, p webhook.Progress) (webhook.Endpoint, error) {
	if l.dead.Load() {
		return webhook.Endpoint{}, errKilled
	}
	return l.desk.Settle(ctx, ep, p)
}

func (l *life) Next(ctx context.Context, ep *webhook.Endpoint, after record.Position, limit int) (eventlog.Stretch, error) {
	page, err := l.desk.Next(ctx, ep, after, limit)
	if l.early && err == nil && len(page.Events) > 0 && !l.dead.Load() {
		_, _ = l.desk.Settle(ctx, ep, webhook.Progress{Cursor: page.Passed})
	}
	return page, err
}

func (l *life) send(ctx context.Context, m *webhooks.Message) (webhooks.Answer, error) {
	if l.dead.Load() {
		return webhooks.Answer{}, errKilled
	}
	a, err := l.desk.send(ctx, m)
	if l.dead.Load() {
		return webhooks.Answer{}, errKilled
	}
	return a, err
}

// throughKills records events while the sender is killed again and again, and returns what
// arrived at a strict endpoint and at one without order.
func throughKills(t *testing.T, kills int, early bool) (events int, strict, unordered []string) {
	random := rand.New(rand.NewPCG(5, 6))
	d := newDesk(atRandom(rand.NewPCG(7, 8), 10*time.Millisecond, 10))
	d.add(webhook.Strict, "wep_strict")
	d.add(webhook.None, "wep_none")
	live := func(l *life) (stop func()) {
		_, stop = d.run(t, func(o *webhooks.Options) {
			o.Store, o.Send, o.Schedule = l, l.send, []time.Duration{50 * time.Millisecond}
			for range 7 {
				o.Schedule = append(o.Schedule, 50*time.Millisecond)
			}
		})
		return stop
	}
	for range kills {
		l := &life{desk: d, early: early}
		stop := live(l)
		for range 5 {
			d.record(random.IntN(100))
			time.Sleep(time.Duration(random.IntN(400)) * time.Millisecond)
		}
		l.dead.Store(true)
		stop()
	}
	stop := live(&life{desk: d})
	time.Sleep(time.Hour)
	stop()
	take := func(id string) (list []string) {
		for _, a := range d.of(id) {
			if a.accepted {
				list = append(list, a.event)
			}
		}
		return list
	}
	return len(d.events), take("wep_strict"), take("wep_none")
}

// Promise (Webhooks): kills repeat at most 100 events and lose none
func TestKills(t *testing.T) {
	t.Parallel()
	const kills = 40
	t.Run("no_event_is_missed_and_the_repeats_begin_at_one_place", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			events, strict, unordered := throughKills(t, kills, false)
			for name, list := range map[string][]string{"strict": strict, "unordered": unordered} {
				if missed := missing(events, list); missed > 0 || events < 50*kills {
					t.Errorf("%s: %d of %d events missed, want none of many", name, missed, events)
				}
			}
			back, before := 0, 0
			for _, id := range strict {
				n, _ := strconv.Atoi(id[1:])
				if n <= before {
					if back++; before-n >= 101 {
						t.Errorf("%d events were repeated after a kill, want at most 100 and the one in flight", before-n+1)
					}
				} else if n != before+1 {
					t.Errorf("%s came after e%d", id, before)
				}
				before = n
			}
			if back > kills {
				t.Errorf("the order went back %d times in %d kills", back, kills)
			}
		})
	})
	t.Run("a_cursor_written_before_the_answer_loses", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			if events, strict, _ := throughKills(t, kills, true); missing(events, strict) == 0 {
				t.Error("nothing was missed, so this test would not notice a loss")
			}
		})
	})
}

func missing(events int, list []string) (missed int) {
	seen := map[string]bool{}
	for _, id := range list {
		seen[id] = true
	}
	for _, id := range idsTo(events) {
		if !seen[id] {
			missed++
		}
	}
	return missed
}

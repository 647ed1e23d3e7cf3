package webhooks_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tollhouse/cli/webhooks"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/webhook"
)

// desk is a store of endpoints of one account, or of two with the same events, and the
// receiver of them all. Settle fails while broken is set.
type desk struct {
	mu        sync.Mutex
	events    []eventlog.Followed
	endpoints map[string]*kept
	broken    error
	refuse    func(p webhook.Progress) error  // of Settle; may be nil
	onLoad    func(ep webhook.Endpoint) error // behind Load; may be nil
	// unreadable is the error of Load and Each.
	unreadable error
	unstarted  int // calls of Start that fail
	held       bool
	purged     map[record.Position]bool
	changed    chan struct{}
	receive    func(ctx context.Context, m *webhooks.Message) webhooks.Answer

	arrived []arrival // of each attempt that was answered
}

type kept struct {
	webhook.Endpoint
	set     map[record.Position]webhook.Delivery
	settled int  // writes
	removed int  // events that retention has removed
	ended   bool // its client has
}

type arrival struct {
	endpoint, event string
	attempt         int
	at              time.Time
	accepted        bool
	gap             string
}

func newDesk(receive func(ctx context.Context, m *webhooks.Message) webhooks.Answer) *desk {
	return &desk{endpoints: map[string]*kept{}, changed: make(chan struct{}, 1), receive: receive}
}

func (d *desk) add(order webhook.Order, ids ...string) {
	for _, id := range ids {
		d.endpoints[id] = &kept{
			Endpoint: webhook.Endpoint{ID: id, Account: "acct_a", URL: "https://example.com", Order: order},
			set:      map[record.Position]webhook.Delivery{},
		}
	}
}

// record adds events with the ids e1, e2 and so on.
func (d *desk) record(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for range n {
		i := len(d.events) + 1
		d.events = append(d.events, eventlog.Followed{Position: positionOf(i), ID: fmt.Sprintf("e%d", i), Type: "customer.updated", Wire: []byte("{}")})
	}
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

func positionOf(i int) (p record.Position) {
	binary.BigEndian.PutUint64(p[:8], uint64(i))
	return p
}

func numberOf(p record.Position) int { return int(binary.BigEndian.Uint64(p[:8])) }

func (d *desk) Watch() webhooks.Watch    { return d }
func (d *desk) Changed() <-chan struct{} { return d.changed }
func (d *desk) Take() []string           { return []string{"acct_a", "acct_b"} }
func (d *desk) Close()                   {}
func (d *desk) CountRecorded() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return uint64(len(d.events))
}

func (d *desk) Unrecorded(eventlog.NewEvent) (record.Position, []byte, error) {
	return positionOf(1), []byte("{}"), nil
}

func (d *desk) Start(context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.unstarted--; d.unstarted >= 0 {
		return errors.New("disk full")
	}
	return nil
}

func (d *desk) Open(ep *webhook.Endpoint) ([]secret.Token, bool) {
	return make([]secret.Token, len(ep.Secrets)), true
}

func (d *desk) TestAccepted(context.Context, *webhook.Endpoint) error { return nil }

func (d *desk) Instance(context.Context) (webhook.Instance, error) {
	return webhook.Instance{Held: d.held, Reason: webhook.HeldRestored}, nil
}

func (d *desk) Each(_ context.Context, visit func(webhook.Endpoint) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.unreadable != nil {
		return d.unreadable
	}
	for _, k := range d.endpoints {
		_ = visit(k.Endpoint)
	}
	return nil
}

func (d *desk) Load(_ context.Context, id string) (webhook.Endpoint, error) {
	ep, err := d.load(id)
	if err == nil && d.onLoad != nil {
		err = d.onLoad(ep)
	}
	return ep, err
}

func (d *desk) load(id string) (webhook.Endpoint, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k := d.endpoints[id]
	if k == nil {
		return webhook.Endpoint{}, record.ErrNotFound
	}
	return k.Endpoint, d.unreadable
}

// change changes an endpoint, and says so.
func (d *desk) change(s *webhooks.Sender, id string, fn func(*kept)) {
	d.mu.Lock()
	fn(d.endpoints[id])
	d.mu.Unlock()
	s.Changed(id)
}

func disabled(k *kept) { k.Disabled.At = time.Now() }
func enabled(k *kept)  { k.Disabled = webhook.Disabled{} }
func held(k *kept)     { k.Held = true }
func resumed(k *kept)  { k.Held = false }

// fill sets dead events aside until there are n.
func (k *kept) fill(n int) {
	for i := len(k.set); i < n; i++ {
		k.set[positionOf(1_000_000+i)] = webhook.Delivery{Position: positionOf(1_000_000 + i), State: webhook.Dead}
	}
	k.Parked, k.Dead = len(k.set), 0
}

// delete removes an endpoint, and says so.
func (d *desk) delete(s *webhooks.Sender, id string) {
	d.mu.Lock()
	delete(d.endpoints, id)
	d.mu.Unlock()
	s.Changed(id)
}

func (d *desk) Next(_ context.Context, ep *webhook.Endpoint, after record.Position, limit int) (p eventlog.Stretch, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if numberOf(after) < d.endpoints[ep.ID].removed {
		return p, &eventlog.CursorError{}
	}
	p.Passed = after
	for _, ev := range d.events[numberOf(after):] {
		if len(p.Events) == limit {
			p.More = true
			break
		}
		p.Events, p.Passed = append(p.Events, ev), ev.Position
	}
	return p, nil
}

func (d *desk) PassGap(_ context.Context, ep *webhook.Endpoint) (webhook.Endpoint, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k := d.endpoints[ep.ID]
	k.Gap = webhook.Gap{After: k.Cursor, Oldest: positionOf(k.removed + 1), At: time.Now(), Pending: true}
	k.Cursor = positionOf(k.removed)
	return k.Endpoint, nil
}

func (d *desk) Due(_ context.Context, ep *webhook.Endpoint, now time.Time, limit int) (due []webhook.Delivery, next time.Time, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	set := d.endpoints[ep.ID].set
	for _, p := range slices.SortedFunc(maps.Keys(set), record.Position.Compare) {
		x := set[p]
		switch {
		case x.State == webhook.Dead:
		case !x.NextAt.After(now) && len(due) < limit:
			due = append(due, x)
		case next.IsZero() || x.NextAt.Before(next):
			next = x.NextAt
		}
	}
	return due, next, nil
}

func (d *desk) EventsAt(_ context.Context, _ string, positions []record.Position) (list []eventlog.Followed, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range positions {
		if !d.purged[p] {
			list = append(list, d.events[numberOf(p)-1])
		}
	}
	return list, nil
}

func (d *desk) Settle(_ context.Context, ep *webhook.Endpoint, p webhook.Progress) (webhook.Endpoint, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k := d.endpoints[ep.ID]
	switch {
	case k == nil:
		return webhook.Endpoint{}, record.ErrNotFound
	case d.broken != nil:
		return webhook.Endpoint{}, d.broken
	case d.refuse != nil && d.refuse(p) != nil:
		return webhook.Endpoint{}, d.refuse(p)
	}
	k.settled++
	k.Cursor = record.LaterOf(k.Cursor, p.Cursor)
	for _, gone := range p.Gone {
		delete(k.set, gone)
	}
	for _, x := range p.Done {
		k.Gap.Settle(x)
		delete(k.set, x.Position)
		if x.State != webhook.Delivered {
			k.set[x.Position] = x
		}
	}
	if k.Parked = len(k.set); !k.Enabled() {
		return webhook.Endpoint{}, record.ErrConflict
	}
	k.Head, k.Trouble, k.Last = p.Head, p.Trouble, p.Last
	if k.ended {
		p.Disable = webhook.ClientEnded
	}
	if p.Disable != "" {
		k.Disabled = webhook.Disabled{Reason: p.Disable, At: time.Now()}
	}
	return k.Endpoint, nil
}

// send is the receiver.
func (d *desk) send(ctx context.Context, m *webhooks.Message) (webhooks.Answer, error) {
	a := d.receive(ctx, m)
	if ctx.Err() != nil {
		return a, ctx.Err()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.arrived = append(d.arrived, arrival{m.Endpoint, m.ID, m.Attempt, time.Now(), a.Outcome == webhooks.Accepted, m.Gap})
	return a, nil
}

// of returns the attempts that an endpoint answered.
func (d *desk) of(endpoint string) (list []arrival) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range d.arrived {
		if a.endpoint == endpoint {
			list = append(list, a)
		}
	}
	return list
}

func (d *desk) get(id string) kept {
	d.mu.Lock()
	defer d.mu.Unlock()
	k := *d.endpoints[id]
	k.set = maps.Clone(k.set)
	return k
}

var standard = []time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

// run sends until stop is called.
func (d *desk) run(t testing.TB, change ...func(*webhooks.Options)) (s *webhooks.Sender, stop func()) {
	o := webhooks.Options{
		Resume: "tollhouse webhook resume",
		Store:  d, Events: d, Client: webhooks.NewClient(webhooks.ClientOptions{Rules: rules(t)}), Log: slog.New(slog.DiscardHandler),
		Schedule: standard, ParkAfter: time.Hour, DisableAfter: 5 * 24 * time.Hour, Parallel: 64, Send: d.send,
		Grace: func() time.Duration { return 5 * time.Second },
	}
	for _, c := range change {
		c(&o)
	}
	s = webhooks.New(o)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	return s, func() { cancel(); running.Wait() }
}

var (
	accepted = webhooks.Answer{Outcome: webhooks.Accepted, Status: 204}
	silent   = webhooks.Answer{Outcome: webhooks.Timeout}
)

func status(code int) webhooks.Answer {
	return webhooks.Answer{Outcome: webhooks.Refused, Status: code}
}

// firstAccepted returns the events in the order in which they were accepted first.
func firstAccepted(list []arrival) (events []string) {
	for _, a := range list {
		if a.accepted && !slices.Contains(events, a.event) {
			events = append(events, a.event)
		}
	}
	return events
}

func idsTo(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("e%d", i+1))
	}
	return ids
}

func answerAlways(a webhooks.Answer) func(context.Context, *webhooks.Message) webhooks.Answer {
	return func(context.Context, *webhooks.Message) webhooks.Answer { return a }
}

// Promise (Webhooks): strict order, pauses, poison, parking; none; one endpoint never stops another
func TestStrictOrder(t *testing.T) {
	t.Parallel()
	t.Run("events_arrive_in_order_whatever_fails", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			all := []webhooks.Answer{accepted, accepted, accepted, silent, status(503), status(500), {Outcome: webhooks.Reset}}
			d := newDesk(func(context.Context, *webhooks.Message) webhooks.Answer { return all[random.IntN(len(all))] })
			d.add(webhook.Strict, "wep_1")
			_, stop := d.run(t)
			for range 10 {
				d.record(50)
				time.Sleep(time.Hour)
			}
			time.Sleep(48 * time.Hour)
			stop()
			if got := firstAccepted(d.of("wep_1")); !slices.Equal(got, idsTo(500)) {
				t.Errorf("accepted %d events, want 500 in the order of the log", len(got))
			}
			if k := d.get("wep_1"); k.Cursor != positionOf(500) || len(k.set) > 0 {
				t.Errorf("cursor = %x with %d set aside, want the last event and none", k.Cursor, len(k.set))
			}
		})
	})
	t.Run("a_failing_head_is_retried_by_the_schedule_up_to_five_minutes", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(answerAlways(silent))
			d.add(webhook.Strict, "wep_1")
			_, stop := d.run(t)
			d.record(5)
			time.Sleep(5 * time.Hour)
			stop()
			list := d.of("wep_1")
			if len(list) < 55 || len(list) > 77 {
				t.Errorf("%d attempts in five hours, want one in about five minutes", len(list))
			}
			for i, a := range list {
				pause := standard[min(max(i-1, 0), 1)]
				if a.event != "e1" || a.attempt != i+1 {
					t.Errorf("attempt %d is %+v, want one of the head", i+1, a)
				}
				if i == 0 {
					continue
				}
				if waited := a.at.Sub(list[i-1].at); waited < pause*8/10 || waited > min(pause*12/10, 5*time.Minute) {
					t.Errorf("pause %d = %s, want 80 to 120 %% of %s", i, waited, pause)
				}
			}
			if k := d.get("wep_1"); k.Head == nil || k.Head.Event != "e1" || k.Trouble.Attempts != len(list) || k.Disabled.Reason != "" {
				t.Errorf("endpoint = %+v, want e1 as its head", k.Endpoint)
			}
		})
	})
	t.Run("retry_after_is_waited_for", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(answerAlways(webhooks.Answer{Outcome: webhooks.Refused, Status: 429, RetryAfter: 2 * time.Hour}))
			d.add(webhook.Strict, "wep_1")
			_, stop := d.run(t)
			d.record(1)
			time.Sleep(5 * time.Hour)
			stop()
			if list := d.of("wep_1"); len(list) != 3 || list[1].at.Sub(list[0].at) != 2*time.Hour {
				t.Errorf("attempts = %+v, want one in two hours", list)
			}
		})
	})
	t.Run("a_shorter_retry_after_does_not_shorten_the_pause", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(answerAlways(webhooks.Answer{Outcome: webhooks.Refused, Status: 503, RetryAfter: time.Second}))
			d.add(webhook.Strict, "wep_strict")
			d.add(webhook.None, "wep_none")
			_, stop := d.run(t, func(o *webhooks.Options) { o.Schedule = []time.Duration{time.Minute} })
			d.record(1)
			time.Sleep(47 * time.Second)
			for _, id := range []string{"wep_strict", "wep_none"} {
				if n := len(d.of(id)); n != 1 {
					t.Errorf("%s: %d attempts in 47 seconds, want one: the pause is a minute", id, n)
				}
			}
			time.Sleep(30 * time.Second)
			stop()
			for _, id := range []string{"wep_strict", "wep_none"} {
				if n := len(d.of(id)); n != 2 {
					t.Errorf("%s: %d attempts behind the pause, want two", id, n)
				}
			}
		})
	})
	t.Run("after_a_start_a_head_is_due_within_a_pause_whatever_the_clock_says", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(answerAlways(accepted))
			d.add(webhook.Strict, "wep_1")
			d.record(1)
			d.endpoints["wep_1"].Head = &webhook.Delivery{Position: positionOf(1), Event: "e1", Attempts: 2, NextAt: time.Now().Add(1000 * time.Hour)}
			_, stop := d.run(t)
			time.Sleep(5*time.Minute + time.Second)
			stop()
			if list := d.of("wep_1"); len(list) != 1 || list[0].attempt != 3 {
				t.Errorf("attempts = %+v, want the third after five minutes", list)
			}
		})
	})
}

// Promise (Webhooks): strict order, pauses, poison, parking; none; one endpoint never stops another
func TestPoison(t *testing.T) {
	t.Parallel()
	t.Run("a_refused_event_is_parked_when_its_neighbour_is_accepted_and_dies_with_the_schedule", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(func(_ context.Context, m *webhooks.Message) webhooks.Answer {
				if m.ID == "e2" {
					return status(400)
				}
				return accepted
			})
			d.add(webhook.Strict, "wep_1")
			_, stop := d.run(t)
			defer stop()
			begun := time.Now()
			d.record(4)
			time.Sleep(55 * time.Minute)
			if got := firstAccepted(d.of("wep_1")); !slices.Equal(got, []string{"e1"}) {
				t.Fatalf("accepted %v before an hour is over, want e1", got)
			}
			time.Sleep(20 * time.Minute)
			k := d.get("wep_1")
			if got := firstAccepted(d.of("wep_1")); !slices.Equal(got, []string{"e1", "e3", "e4"}) || k.set[positionOf(2)].State != webhook.Parked || k.Head != nil {
				t.Fatalf("accepted %v with %+v set aside, want all but e2, which is parked", got, k.set)
			}
			if next := k.set[positionOf(2)].NextAt.Sub(begun); next < time.Hour+96*time.Minute || next > 75*time.Minute+144*time.Minute {
				t.Errorf("next attempt after %s, want the pause of two hours behind the hour that it blocked", next)
			}
			blocked := len(d.of("wep_1"))
			time.Sleep(100 * time.Hour)
			if x := d.get("wep_1").set[positionOf(2)]; x.State != webhook.Dead || len(d.of("wep_1"))-blocked != 6 {
				t.Errorf("e2 is %s after %d more attempts, want dead after six", x.State, len(d.of("wep_1"))-blocked)
			}
		})
	})
	t.Run("a_receiver_that_refuses_everything_loses_no_order", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var up atomic.Bool
			d := newDesk(func(context.Context, *webhooks.Message) webhooks.Answer {
				if !up.Load() {
					return status(500)
				}
				return accepted
			})
			d.add(webhook.Strict, "wep_1")
			_, stop := d.run(t)
			d.record(20)
			time.Sleep(10 * time.Hour)
			probes := 0
			for _, a := range d.of("wep_1") {
				if a.event == "e2" {
					probes++
				}
			}
			if k := d.get("wep_1"); len(k.set) > 0 || probes < 8 || probes > 10 {
				t.Errorf("%d set aside after %d offers of e2, want none after about nine in ten hours", len(k.set), probes)
			}
			up.Store(true)
			time.Sleep(10 * time.Minute)
			stop()
			if got := firstAccepted(d.of("wep_1")); !slices.Equal(got, idsTo(20)) {
				t.Errorf("accepted %v, want all in order", got)
			}
		})
	})
	// answering runs an endpoint whose first event gets what answer says, and whose others
	// are accepted.
	answering := func(t *testing.T, answer func(ran time.Duration) webhooks.Answer, change ...func(*webhooks.Options)) (d *desk, s *webhooks.Sender) {
		begun := time.Now()
		d = newDesk(func(_ context.Context, m *webhooks.Message) webhooks.Answer {
			if m.ID == "e1" {
				return answer(time.Since(begun))
			}
			return accepted
		})
		d.add(webhook.Strict, "wep_1")
		s, stop := d.run(t, change...)
		t.Cleanup(stop)
		d.record(2)
		return d, s
	}
	offered := func(d *desk) bool { return slices.Equal(firstAccepted(d.of("wep_1")), []string{"e2"}) }
	t.Run("needs_three_refusals", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d, _ := answering(t, func(time.Duration) webhooks.Answer { return status(400) }, func(o *webhooks.Options) {
				o.Schedule, o.ParkAfter = []time.Duration{4 * time.Minute, 4 * time.Minute, 24 * time.Hour}, time.Second
			})
			time.Sleep(6 * time.Minute)
			if n := len(d.of("wep_1")); n != 2 {
				t.Errorf("%d attempts after two refusals, want no offer of the event behind", n)
			}
			time.Sleep(4 * time.Minute)
			if !offered(d) || d.get("wep_1").set[positionOf(1)].State != webhook.Parked {
				t.Errorf("after three refusals %+v is set aside, want e1", d.get("wep_1").set)
			}
		})
	})
	t.Run("needs_a_refusal_as_the_last_answer", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d, _ := answering(t, func(ran time.Duration) webhooks.Answer {
				if ran < 50*time.Minute || ran > 5*time.Hour {
					return status(400)
				}
				return status(503)
			})
			time.Sleep(5 * time.Hour)
			if offered(d) {
				t.Error("the event behind was offered while the receiver was away")
			}
			time.Sleep(6 * time.Minute)
			if !offered(d) {
				t.Error("the event behind was not offered when the head was refused again")
			}
		})
	})
	t.Run("time_before_the_first_refusal_does_not_count", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d, _ := answering(t, func(ran time.Duration) webhooks.Answer {
				if ran < 2*time.Hour {
					return silent
				}
				return status(400)
			})
			time.Sleep(2*time.Hour + 55*time.Minute)
			if offered(d) {
				t.Error("the event behind was offered within an hour of refusals")
			}
			time.Sleep(20 * time.Minute)
			if !offered(d) {
				t.Error("the event behind was not offered after an hour of refusals")
			}
		})
	})
	t.Run("a_neighbour_answered_410_disables", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(func(_ context.Context, m *webhooks.Message) webhooks.Answer {
				if m.ID == "e1" {
					return status(400)
				}
				return status(410)
			})
			d.add(webhook.Strict, "wep_1")
			_, stop := d.run(t)
			defer stop()
			d.record(2)
			time.Sleep(2 * time.Hour)
			if k := d.get("wep_1"); k.Disabled.Reason != webhook.Gone || k.Cursor != positionOf(0) || len(k.set) > 0 {
				t.Errorf("disabled = %q with the cursor %x and %d set aside, want gone and nothing settled", k.Disabled.Reason, k.Cursor, len(k.set))
			}
		})
	})
	t.Run("nothing_is_parked_beyond_10000", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(func(_ context.Context, m *webhooks.Message) webhooks.Answer {
				if m.ID == "e1" {
					return status(400)
				}
				return accepted
			})
			d.add(webhook.Strict, "wep_1")
			d.endpoints["wep_1"].fill(webhook.SetMax)
			s, stop := d.run(t)
			defer stop()
			d.record(2)
			time.Sleep(3 * time.Hour)
			if k := d.get("wep_1"); offered(d) || k.Head == nil || k.Health() != webhook.HealthFailing {
				t.Errorf("the head is %v, the health %s, want e1 and failing", k.Head, k.Health())
			}
			d.change(s, "wep_1", func(k *kept) { delete(k.set, positionOf(1_000_000)); k.Parked-- })
			time.Sleep(10 * time.Minute)
			if k := d.get("wep_1"); !offered(d) || k.set[positionOf(1)].State != webhook.Parked {
				t.Error("e1 is not parked when there is a place")
			}
		})
	})
	t.Run("silence_parks_nothing", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(func(_ context.Context, m *webhooks.Message) webhooks.Answer {
				if m.ID == "e1" {
					return silent
				}
				return accepted
			})
			d.add(webhook.Strict, "wep_1")
			_, stop := d.run(t)
			d.record(2)
			time.Sleep(24 * time.Hour)
			stop()
			if k := d.get("wep_1"); len(k.set) > 0 || len(firstAccepted(d.of("wep_1"))) > 0 {
				t.Errorf("%d set aside, want none: the receiver is at fault", len(k.set))
			}
		})
	})
}

func TestDisabling(t *testing.T) {
	t.Parallel()
	t.Run("five_days_without_an_accepted_event", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(answerAlways(silent))
			d.add(webhook.Strict, "wep_1")
			_, stop := d.run(t)
			defer stop()
			time.Sleep(10 * 24 * time.Hour) // idle: nothing fails
			d.record(1)
			time.Sleep(5*24*time.Hour - 10*time.Minute)
			if k := d.get("wep_1"); k.Disabled.Reason != "" {
				t.Fatalf("disabled as %s before five days of failing", k.Disabled.Reason)
			}
			time.Sleep(20 * time.Minute)
			if k := d.get("wep_1"); k.Disabled.Reason != webhook.Failing || k.Cursor == positionOf(1) {
				t.Errorf("disabled = %q, want failing, with the event not settled", k.Disabled.Reason)
			}
		})
	})
	t.Run("gone", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			for _, order := range []webhook.Order{webhook.Strict, webhook.None} {
				d := newDesk(func(_ context.Context, m *webhooks.Message) webhooks.Answer {
					if m.ID == "e3" {
						return status(410)
					}
					return accepted
				})
				d.add(order, "wep_1")
				_, stop := d.run(t)
				d.record(9)
				time.Sleep(time.Minute)
				stop()
				if k := d.get("wep_1"); k.Disabled.Reason != webhook.Gone || k.Cursor != positionOf(2) {
					t.Errorf("%s: disabled = %q with the cursor %x, want gone behind e2", order, k.Disabled.Reason, k.Cursor)
				}
			}
		})
	})
	for name, c := range map[string]struct{ end, again func(*kept) }{"disabling": {disabled, enabled}, "a_hold": {held, resumed}} {
		t.Run(name+"_cuts_the_request_in_flight_and_lets_none_begin", func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var requests, cut atomic.Int32
				var up atomic.Bool
				d := newDesk(func(ctx context.Context, _ *webhooks.Message) webhooks.Answer {
					if requests.Add(1); !up.Load() {
						<-ctx.Done()
						cut.Add(1)
					}
					return accepted
				})
				d.add(webhook.Strict, "wep_1")
				d.add(webhook.None, "wep_2")
				s, stop := d.run(t)
				defer stop()
				d.record(1)
				synctest.Wait()
				d.change(s, "wep_1", c.end)
				d.change(s, "wep_2", c.end)
				synctest.Wait()
				if k := d.get("wep_1"); cut.Load() != 2 || k.Cursor != positionOf(0) {
					t.Errorf("%d requests were cut with the cursor %x, want two that are not settled", cut.Load(), k.Cursor)
				}
				d.record(2)
				time.Sleep(30 * time.Hour)
				if n := requests.Load(); n != 2 {
					t.Errorf("%d requests, want none after the two that were cut", n)
				}
				up.Store(true)
				d.change(s, "wep_1", c.again)
				d.change(s, "wep_2", c.again)
				time.Sleep(time.Minute)
				for _, id := range []string{"wep_1", "wep_2"} {
					if got := firstAccepted(d.of(id)); len(got) != 3 {
						t.Errorf("%s accepted %v afterwards, want all", id, got)
					}
				}
			})
		})
	}
	t.Run("a_deletion_cuts_the_request_in_flight", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var requests, cut atomic.Int32
			d := newDesk(func(ctx context.Context, _ *webhooks.Message) webhooks.Answer {
				requests.Add(1)
				<-ctx.Done()
				cut.Add(1)
				return accepted
			})
			d.add(webhook.Strict, "wep_1")
			s, stop := d.run(t)
			defer stop()
			d.record(2)
			synctest.Wait()
			d.delete(s, "wep_1")
			synctest.Wait()
			d.record(1)
			time.Sleep(time.Hour)
			if requests.Load() != 1 || cut.Load() != 1 {
				t.Errorf("%d requests, %d cut, want one", requests.Load(), cut.Load())
			}
		})
	})
	t.Run("ten_failed_attempts_at_the_least", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(answerAlways(silent))
			d.add(webhook.Strict, "wep_1")
			_, stop := d.run(t, func(o *webhooks.Options) { o.Schedule, o.DisableAfter = []time.Duration{time.Minute}, time.Second })
			defer stop()
			d.record(1)
			time.Sleep(time.Hour)
			if k := d.get("wep_1"); k.Disabled.Reason != webhook.Failing || len(d.of("wep_1")) != 10 {
				t.Errorf("disabled = %q after %d attempts, want failing after ten", k.Disabled.Reason, len(d.of("wep_1")))
			}
		})
	})
	t.Run("zero_is_never", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(answerAlways(silent))
			d.add(webhook.Strict, "wep_1")
			_, stop := d.run(t, func(o *webhooks.Options) { o.DisableAfter = 0 })
			defer stop()
			d.record(1)
			time.Sleep(6 * 24 * time.Hour)
			if k := d.get("wep_1"); !k.Enabled() {
				t.Errorf("disabled = %q", k.Disabled.Reason)
			}
		})
	})
	t.Run("an_accepted_event_begins_the_time_anew", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var up atomic.Bool
			d := newDesk(func(context.Context, *webhooks.Message) webhooks.Answer {
				if up.CompareAndSwap(true, false) {
					return accepted
				}
				return silent
			})
			d.add(webhook.Strict, "wep_1")
			_, stop := d.run(t)
			defer stop()
			d.record(3)
			time.Sleep(4 * 24 * time.Hour)
			up.Store(true)
			time.Sleep(4 * 24 * time.Hour)
			if k := d.get("wep_1"); !k.Enabled() || k.Cursor != positionOf(1) {
				t.Fatalf("disabled = %q with the cursor %x, four days after an event was accepted", k.Disabled.Reason, k.Cursor)
			}
			time.Sleep(25 * time.Hour)
			if k := d.get("wep_1"); k.Disabled.Reason != webhook.Failing {
				t.Errorf("disabled = %q after five days more", k.Disabled.Reason)
			}
		})
	})
	t.Run("time_without_a_server_does_not_count", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(answerAlways(silent))
			d.add(webhook.Strict, "wep_1")
			d.record(1)
			for range 2 {
				_, stop := d.run(t)
				time.Sleep(2 * 24 * time.Hour)
				stop()
				time.Sleep(10 * 24 * time.Hour)
			}
			if k := d.get("wep_1"); !k.Enabled() || k.Trouble.For < 4*24*time.Hour-time.Hour || k.Trouble.For > 4*24*time.Hour {
				t.Errorf("disabled = %q after it failed for %s, want four days", k.Disabled.Reason, k.Trouble.For)
			}
		})
	})
	t.Run("retries_of_what_was_set_aside_are_attempts", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(answerAlways(status(500)))
			d.add(webhook.None, "wep_1")
			_, stop := d.run(t)
			defer stop()
			for day := range 6 {
				if k := d.get("wep_1"); !k.Enabled() {
					t.Errorf("disabled = %q on day %d", k.Disabled.Reason, day)
				}
				d.record(1)
				time.Sleep(24 * time.Hour)
			}
			if k := d.get("wep_1"); k.Disabled.Reason != webhook.Failing {
				t.Errorf("disabled = %q after an event a day for five days, want failing: %+v", k.Disabled.Reason, k.Trouble)
			}
		})
	})
	t.Run("an_ended_client_stops_an_endpoint_that_works", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			for _, order := range []webhook.Order{webhook.Strict, webhook.None} {
				d := newDesk(nil)
				d.receive = func(context.Context, *webhooks.Message) webhooks.Answer {
					time.Sleep(5 * time.Millisecond)
					return accepted
				}
				d.add(order, "wep_1")
				_, stop := d.run(t)
				d.record(1000)
				time.Sleep(1200 * time.Millisecond)
				d.mu.Lock()
				d.endpoints["wep_1"].ended = true
				before := len(d.arrived)
				d.mu.Unlock()
				time.Sleep(time.Minute)
				stop()
				if k := d.get("wep_1"); k.Enabled() || len(d.of("wep_1")) > before+108 || order == webhook.Strict && k.Cursor != positionOf(len(d.of("wep_1"))) {
					t.Errorf("%s: %d events were sent, %d of them before its client ended, the cursor is %x", order, len(d.of("wep_1")), before, k.Cursor)
				}
			}
		})
	})
}

// TestWhatWasAcceptedIsNotRepeated: of an endpoint that is disabled and enabled while it
// works, only the event in flight is sent again.
func TestWhatWasAcceptedIsNotRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(func(ctx context.Context, _ *webhooks.Message) webhooks.Answer {
			select {
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
			}
			return accepted
		})
		d.add(webhook.Strict, "wep_1")
		s, stop := d.run(t)
		defer stop()
		d.record(60)
		time.Sleep(305 * time.Millisecond)
		d.change(s, "wep_1", disabled)
		time.Sleep(time.Second)
		d.change(s, "wep_1", enabled)
		time.Sleep(10 * time.Second)
		if got := d.of("wep_1"); len(got) != 60 || len(firstAccepted(got)) != 60 {
			t.Errorf("%d attempts were answered, %d events accepted, want each of 60 once", len(got), len(firstAccepted(got)))
		}
	})
}

// TestTimeOfAHoldIsNotOneOfFailing: neither is the time in which the endpoint is disabled.
func TestTimeOfAHoldIsNotOneOfFailing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(answerAlways(silent))
		d.add(webhook.Strict, "wep_1")
		s, stop := d.run(t)
		defer stop()
		d.record(1)
		time.Sleep(2 * 24 * time.Hour)
		d.change(s, "wep_1", func(k *kept) { k.Held = true })
		time.Sleep(10 * 24 * time.Hour)
		d.change(s, "wep_1", func(k *kept) { k.Held = false })
		time.Sleep(2 * 24 * time.Hour)
		k := d.get("wep_1")
		if failing := k.Trouble.For; k.Disabled.Reason != "" || failing < 4*24*time.Hour-time.Hour || failing > 4*24*time.Hour {
			t.Errorf("after two days, a hold of ten and two days more it has failed for %v, disabled %q", failing, k.Disabled.Reason)
		}
	})
}

// TestChangeThatCannotBeReadIsReadLater: a store that fails for a moment hides no endpoint.
func TestChangeThatCannotBeReadIsReadLater(t *testing.T) {
	t.Parallel()
	for name, id := range map[string]string{"of_one": "wep_1", "of_all": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(answerAlways(accepted))
				s, stop := d.run(t)
				defer stop()
				d.record(1)
				time.Sleep(time.Second)
				d.mu.Lock()
				d.add(webhook.Strict, "wep_1")
				d.unreadable = errors.New("the store is away")
				d.mu.Unlock()
				s.Changed(id)
				time.Sleep(time.Second)
				d.mu.Lock()
				d.unreadable = nil
				d.mu.Unlock()
				time.Sleep(time.Minute)
				if got := d.of("wep_1"); len(got) != 1 {
					t.Errorf("%d attempts, want one once the endpoint can be read", len(got))
				}
			})
		})
	}
}

// TestLateCutIsMadeGoodAtOnce: a look at an endpoint that was disabled for a moment cuts the
// request of later, which is sent again at once.
func TestLateCutIsMadeGoodAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(func(ctx context.Context, m *webhooks.Message) webhooks.Answer {
			if m.ID == "e2" {
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
				}
			}
			return accepted
		})
		d.onLoad = func(ep webhook.Endpoint) error {
			if !ep.Enabled() {
				time.Sleep(500 * time.Millisecond)
			}
			return nil
		}
		d.add(webhook.Strict, "wep_1")
		s, stop := d.run(t)
		defer stop()
		d.record(1)
		time.Sleep(100 * time.Millisecond)
		d.change(s, "wep_1", disabled)
		time.Sleep(600 * time.Millisecond)
		d.change(s, "wep_1", enabled)
		time.Sleep(100 * time.Millisecond)
		d.record(1)
		time.Sleep(1500 * time.Millisecond)
		if got := firstAccepted(d.of("wep_1")); !slices.Equal(got, idsTo(2)) {
			t.Errorf("accepted %v, want both events", got)
		}
	})
}

// TestSlowReceiversDoNotTakeAllSlots: those that accept late share the slots of those that
// fail.
func TestSlowReceiversDoNotTakeAllSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(func(ctx context.Context, m *webhooks.Message) webhooks.Answer {
			if m.Endpoint == "wep_fast" {
				return accepted
			}
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Second):
			}
			late := accepted
			late.Took = 5 * time.Second
			return late
		})
		for i := range 20 {
			d.add(webhook.Strict, fmt.Sprintf("wep_slow%02d", i))
		}
		d.add(webhook.Strict, "wep_fast")
		_, stop := d.run(t, func(o *webhooks.Options) { o.Parallel = 4 })
		defer stop()
		d.record(1)
		time.Sleep(time.Hour)
		for range 50 {
			d.record(1)
			begun := time.Now()
			time.Sleep(time.Second)
			list := d.of("wep_fast")
			if last := list[len(list)-1]; last.at.Sub(begun) > 0 {
				t.Errorf("%s waited for %s", last.event, last.at.Sub(begun))
			}
		}
		if got := firstAccepted(d.of("wep_fast")); !slices.Equal(got, idsTo(51)) {
			t.Errorf("accepted %v, want all", got)
		}
	})
}

// atRandom is a receiver that takes less than so long, and fails one request in failsOneIn.
func atRandom(source rand.Source, takesMax time.Duration, failsOneIn int) func(context.Context, *webhooks.Message) webhooks.Answer {
	random := rand.New(source)
	var mu sync.Mutex
	return func(context.Context, *webhooks.Message) webhooks.Answer {
		mu.Lock()
		takes, fails := time.Duration(random.Int64N(int64(takesMax/time.Millisecond)))*time.Millisecond, random.IntN(failsOneIn) == 0
		mu.Unlock()
		if time.Sleep(takes); fails {
			return status(503)
		}
		return accepted
	}
}

// Promise (Webhooks): strict order, pauses, poison, parking; none; one endpoint never stops another
func TestWithoutOrder(t *testing.T) {
	t.Parallel()
	t.Run("what_fails_is_parked_and_the_rest_goes_on", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(atRandom(rand.NewPCG(3, 4), 100*time.Millisecond, 5))
			d.add(webhook.None, "wep_1")
			_, stop := d.run(t)
			d.record(1000)
			time.Sleep(100 * time.Hour)
			stop()
			k := d.get("wep_1")
			if got := firstAccepted(d.of("wep_1")); len(got)+len(k.set) != 1000 || len(got) < 990 || k.Cursor != positionOf(1000) {
				t.Errorf("%d accepted and %d set aside, want 1000 and nearly all accepted", len(got), len(k.set))
			}
		})
	})
	t.Run("requests_in_flight_rise_and_are_halved", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			now, most, limit := 0, 0, 0
			d := newDesk(func(context.Context, *webhooks.Message) webhooks.Answer {
				mu.Lock()
				now++
				most = max(most, now)
				over := now > limit
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				defer mu.Unlock()
				now--
				if over {
					return status(429)
				}
				return accepted
			})
			d.add(webhook.None, "wep_1")
			_, stop := d.run(t)
			defer stop()
			mostOf := func(events, newLimit int, wait time.Duration) int {
				mu.Lock()
				limit, most = newLimit, 0
				mu.Unlock()
				d.record(events)
				time.Sleep(wait)
				mu.Lock()
				defer mu.Unlock()
				return most
			}
			if n := mostOf(50, 100, 51*time.Second); n != 1 {
				t.Errorf("%d in flight at first, want 1", n)
			}
			if n := mostOf(3000, 100, time.Hour); n != 8 {
				t.Errorf("%d in flight after 3,000 accepted, want 8", n)
			}
			mostOf(400, 2, 5*time.Minute)
			if n := mostOf(20, 2, time.Minute); n > 4 {
				t.Errorf("%d in flight after 429, want at most 4", n)
			}
		})
	})
}

// unordered is an endpoint without order whose requests take a second. Nothing that it sets
// aside is tried again within a day.
type unordered struct {
	*desk
	sender    *webhooks.Sender
	now, most atomic.Int32
	answer    atomic.Pointer[webhooks.Answer]
}

func runUnordered(t *testing.T) *unordered {
	u := &unordered{}
	u.desk = newDesk(func(context.Context, *webhooks.Message) webhooks.Answer {
		u.most.Store(max(u.most.Load(), u.now.Add(1)))
		time.Sleep(time.Second)
		u.now.Add(-1)
		return *u.answer.Load()
	})
	u.add(webhook.None, "wep_1")
	var stop func()
	u.sender, stop = u.run(t, func(o *webhooks.Options) { o.Schedule = []time.Duration{24 * time.Hour} })
	t.Cleanup(stop)
	return u
}

// sent records events, and returns the most that were in flight at once.
func (u *unordered) sent(events int, a webhooks.Answer) int {
	u.answer.Store(&a)
	u.most.Store(0)
	u.record(events)
	time.Sleep(time.Duration(events+2) * time.Second)
	return int(u.most.Load())
}

func TestRequestsInFlightWithoutOrder(t *testing.T) {
	t.Parallel()
	t.Run("rise_by_one_with_each_100_accepted_up_to_8", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			u := runUnordered(t)
			for i, want := range []int{1, 2, 3, 4, 5, 6, 7, 8, 8} {
				if n := u.sent(100, accepted); n != want {
					t.Errorf("%d in flight after %d were accepted, want %d", n, 100*i, want)
				}
			}
		})
	})
	t.Run("are_halved_when_the_receiver_has_too_many", func(t *testing.T) {
		t.Parallel()
		for answer, want := range map[webhooks.Answer]int{
			status(429): 2, status(502): 2, status(503): 2, status(504): 2,
			status(400): 4, status(408): 4, status(500): 4, silent: 4,
		} {
			synctest.Test(t, func(t *testing.T) {
				u := runUnordered(t)
				u.sent(300, accepted)
				u.sent(1, answer)
				if n := u.sent(20, accepted); n != want {
					t.Errorf("%d in flight after an answer %+v, want %d", n, answer, want)
				}
			})
		}
	})
	t.Run("are_never_below_one", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			u := runUnordered(t)
			u.sent(800, accepted)
			for range 5 {
				u.sent(1, status(429))
			}
			if n := u.sent(20, accepted); n != 1 || len(firstAccepted(u.of("wep_1"))) != 820 {
				t.Errorf("%d in flight after five answers 429, %d accepted", n, len(firstAccepted(u.of("wep_1"))))
			}
		})
	})
	t.Run("begin_at_one_after_enabling", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			u := runUnordered(t)
			u.sent(800, accepted)
			u.change(u.sender, "wep_1", disabled)
			time.Sleep(time.Second)
			u.change(u.sender, "wep_1", enabled)
			if n := u.sent(20, accepted); n != 1 {
				t.Errorf("%d in flight after enabling, want 1", n)
			}
		})
	})
	t.Run("none_begins_before_the_end_of_retry_after_or_enabling", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			u := runUnordered(t)
			busy := status(429)
			busy.RetryAfter = 2 * time.Hour
			u.sent(1, busy)
			time.Sleep(time.Hour)
			if n := u.sent(2, accepted); n != 0 {
				t.Errorf("%d requests within the two hours of Retry-After", n)
			}
			time.Sleep(time.Hour)
			if got := firstAccepted(u.of("wep_1")); !slices.Equal(got, []string{"e2", "e3"}) {
				t.Errorf("accepted %v after the two hours, want e2 and e3", got)
			}
			u.sent(1, busy)
			u.change(u.sender, "wep_1", disabled)
			time.Sleep(time.Second)
			u.change(u.sender, "wep_1", enabled)
			if n := u.sent(1, accepted); n != 1 {
				t.Errorf("%d requests after enabling, want one", n)
			}
		})
	})
}

func TestWhatIsSetAside(t *testing.T) {
	t.Parallel()
	t.Run("is_tried_by_the_whole_schedule_and_then_dead", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(answerAlways(status(500)))
			d.add(webhook.None, "wep_1")
			_, stop := d.run(t)
			defer stop()
			d.record(1)
			time.Sleep(100 * time.Hour)
			list := d.of("wep_1")
			if x := d.get("wep_1").set[positionOf(1)]; len(list) != 10 || x.State != webhook.Dead || x.Attempts != 10 {
				t.Fatalf("%d attempts, then it is %+v, want ten and dead", len(list), x)
			}
			for i, pause := range standard {
				if waited := list[i+1].at.Sub(list[i].at); waited < pause*8/10 || waited > pause*12/10+time.Second {
					t.Errorf("pause %d = %s, want 80 to 120 %% of %s", i+1, waited, pause)
				}
			}
		})
	})
	t.Run("is_tried_oldest_first_beside_the_live_ones", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(answerAlways(accepted))
			d.add(webhook.Strict, "wep_1")
			d.record(6)
			k := d.endpoints["wep_1"]
			for i := range 4 {
				p := positionOf(4 - i)
				k.set[p] = webhook.Delivery{Position: p, State: webhook.Parked, Attempts: 1, NextAt: time.Now().Add(time.Duration(i) * time.Second)}
			}
			k.Cursor, k.Parked, k.Held = positionOf(4), 4, true
			s, stop := d.run(t)
			defer stop()
			time.Sleep(time.Minute)
			d.change(s, "wep_1", resumed)
			time.Sleep(time.Minute)
			var aside, live []string
			for _, a := range d.of("wep_1") {
				if a.attempt == 1 {
					live = append(live, a.event)
				} else {
					aside = append(aside, a.event)
				}
			}
			if !slices.Equal(aside, idsTo(4)) || !slices.Equal(live, []string{"e5", "e6"}) {
				t.Errorf("tried %v, and %v beside them", aside, live)
			}
		})
	})
	t.Run("waits_for_the_end_of_retry_after_unless_it_is_asked_for_by_hand", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			busy := status(429)
			busy.RetryAfter = time.Hour
			d := newDesk(func(_ context.Context, m *webhooks.Message) webhooks.Answer {
				switch {
				case m.ID == "e1" && m.Attempt == 2:
					return busy
				case m.Attempt == 1 && m.ID != "e3":
					return status(500)
				}
				return accepted
			})
			d.add(webhook.None, "wep_1")
			s, stop := d.run(t, func(o *webhooks.Options) { o.Schedule = []time.Duration{time.Minute, time.Minute} })
			defer stop()
			d.record(1)
			time.Sleep(30 * time.Second)
			d.record(1)
			time.Sleep(2 * time.Minute)
			d.record(1)
			time.Sleep(30 * time.Minute)
			if list := d.of("wep_1"); len(list) != 3 {
				t.Errorf("requests = %+v, want none after e1 was answered 429", list)
			}
			d.change(s, "wep_1", func(k *kept) {
				x := k.set[positionOf(1)]
				x.State, x.NextAt = webhook.Retrying, time.Now()
				k.set[x.Position] = x
			})
			time.Sleep(time.Minute)
			if got := firstAccepted(d.of("wep_1")); !slices.Equal(got, []string{"e1"}) {
				t.Errorf("accepted %v, want e1, which was asked for by hand", got)
			}
			time.Sleep(time.Hour)
			if got := firstAccepted(d.of("wep_1")); len(got) != 3 {
				t.Errorf("accepted %v after the hour, want all", got)
			}
		})
	})
	t.Run("is_written_before_the_next_request", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(nil)
			d.receive = func(_ context.Context, m *webhooks.Message) webhooks.Answer {
				if m.ID == "e1" {
					return status(500)
				}
				if k := d.get("wep_1"); m.ID == "e2" && k.set[positionOf(1)].State != webhook.Parked {
					t.Error("e2 was sent before it was written that e1 is parked")
				}
				return accepted
			}
			d.add(webhook.None, "wep_1")
			_, stop := d.run(t)
			defer stop()
			d.record(2)
			time.Sleep(time.Second)
			if got := firstAccepted(d.of("wep_1")); !slices.Equal(got, []string{"e2"}) {
				t.Errorf("accepted %v, want e2", got)
			}
		})
	})
	t.Run("disables_the_endpoint_when_it_is_answered_410_and_stays", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(func(_ context.Context, m *webhooks.Message) webhooks.Answer {
				if m.Attempt > 1 {
					return status(410)
				}
				return status(500)
			})
			d.add(webhook.None, "wep_1")
			_, stop := d.run(t)
			defer stop()
			d.record(1)
			time.Sleep(time.Hour)
			if k := d.get("wep_1"); k.Disabled.Reason != webhook.Gone || k.set[positionOf(1)].State != webhook.Parked || len(d.of("wep_1")) != 2 {
				t.Errorf("disabled = %q with %+v set aside after %d attempts", k.Disabled.Reason, k.set, len(d.of("wep_1")))
			}
		})
	})
	t.Run("is_at_most_10000_and_then_nothing_new_is_sent", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(func(_ context.Context, m *webhooks.Message) webhooks.Answer {
				if m.ID == "e1" {
					return accepted
				}
				return status(500)
			})
			d.add(webhook.None, "wep_1")
			d.record(1)
			k := d.endpoints["wep_1"]
			k.Cursor = positionOf(1)
			k.set[positionOf(1)] = webhook.Delivery{Position: positionOf(1), State: webhook.Parked, Attempts: 1, NextAt: time.Now().Add(61 * time.Minute)}
			k.fill(webhook.SetMax - 1)
			_, stop := d.run(t, func(o *webhooks.Options) { o.Schedule = []time.Duration{24 * time.Hour} })
			defer stop()
			d.record(3)
			time.Sleep(time.Hour)
			if k := d.get("wep_1"); len(d.of("wep_1")) != 1 || k.Parked != webhook.SetMax || k.Health() != webhook.HealthFailing {
				t.Errorf("%d requests with %d set aside, the health is %s", len(d.of("wep_1")), k.Parked, k.Health())
			}
			time.Sleep(2 * time.Minute)
			if list := d.of("wep_1"); len(list) != 3 || list[1].event != "e1" || list[2].event != "e3" {
				t.Errorf("requests = %+v, want e3 as soon as e1 is accepted", list)
			}
		})
	})
}

// spoken are the messages of a log with their endpoints.
type spoken struct {
	mu    sync.Mutex
	lines []string
}

func (s *spoken) Enabled(context.Context, slog.Level) bool { return true }
func (s *spoken) WithAttrs([]slog.Attr) slog.Handler       { return s }
func (s *spoken) WithGroup(string) slog.Handler            { return s }
func (s *spoken) Handle(_ context.Context, r slog.Record) error {
	line := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		if slices.Contains([]string{"endpoint", "reason", "next"}, a.Key) {
			line += " " + a.Value.String()
		}
		return true
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, line)
	return nil
}

func TestLog(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, d *desk, change ...func(*webhooks.Options)) (s *webhooks.Sender, lines func() []string) {
		log := &spoken{}
		s, stop := d.run(t, append(change, func(o *webhooks.Options) { o.Log = slog.New(log) })...)
		t.Cleanup(stop)
		return s, func() []string {
			log.mu.Lock()
			defer log.mu.Unlock()
			return slices.Clone(log.lines)
		}
	}
	t.Run("has_a_line_when_an_endpoint_begins_to_fail_recovers_and_is_disabled", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			n := 0
			d := newDesk(func(context.Context, *webhooks.Message) webhooks.Answer {
				switch n++; {
				case n <= 5:
					return silent
				case n <= 8:
					return accepted
				}
				return status(500)
			})
			d.add(webhook.Strict, "wep_1")
			_, lines := run(t, d, func(o *webhooks.Options) { o.DisableAfter = time.Hour })
			d.record(4)
			time.Sleep(3 * time.Hour)
			want := []string{
				"WARN webhook endpoint began to fail wep_1", "INFO webhook endpoint recovered wep_1",
				"WARN webhook endpoint began to fail wep_1", "WARN webhook endpoint disabled wep_1 failing",
			}
			if got := lines(); !slices.Equal(got, want) {
				t.Errorf("after %d attempts the log has %q, want %q", n, got, want)
			}
		})
	})
	t.Run("has_a_line_when_nothing_more_can_be_set_aside", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(answerAlways(status(500)))
			d.add(webhook.None, "wep_1")
			d.endpoints["wep_1"].fill(webhook.SetMax - 1)
			_, lines := run(t, d, func(o *webhooks.Options) { o.Schedule = []time.Duration{24 * time.Hour} })
			d.record(3)
			time.Sleep(time.Hour)
			want := []string{"WARN webhook endpoint began to fail wep_1", "WARN webhook endpoint has reached the limit of parked and dead events wep_1"}
			if got := lines(); !slices.Equal(got, want) {
				t.Errorf("the log has %q, want %q", got, want)
			}
		})
	})
	t.Run("says_at_the_start_that_webhooks_are_held", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(answerAlways(accepted))
			d.held = true
			_, lines := run(t, d, func(o *webhooks.Options) { o.Shared = true })
			time.Sleep(time.Minute)
			if got, want := lines(), []string{"WARN webhooks are held restored tollhouse webhook resume"}; !slices.Equal(got, want) {
				t.Errorf("the log has %q, want %q", got, want)
			}
		})
	})
}

// Promise (Webhooks): strict order, pauses, poison, parking; none; one endpoint never stops another
func TestOneEndpointDoesNotStopAnother(t *testing.T) {
	t.Parallel()
	t.Run("in_the_only_account", func(t *testing.T) {
		t.Parallel()
		besideHanging(t, 4, func(*desk) {})
	})
	t.Run("in_one_of_two_accounts", func(t *testing.T) {
		t.Parallel()
		besideHanging(t, 8, func(d *desk) { // of which the account has four
			d.add(webhook.Strict, "wep_other")
			d.endpoints["wep_other"].Account = "acct_b"
		})
	})
}

// besideHanging runs an endpoint whose account has room for four requests beside 100 that hang.
func besideHanging(t *testing.T, parallel int, change func(d *desk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var hanging atomic.Int32
		d := newDesk(func(ctx context.Context, m *webhooks.Message) webhooks.Answer {
			if m.Endpoint == "wep_ok" || m.Endpoint == "wep_other" {
				return accepted
			}
			if n := hanging.Add(1); n > 2 {
				t.Errorf("%d requests to endpoints that fail, want at most half of four", n)
			}
			defer hanging.Add(-1)
			select {
			case <-ctx.Done():
			case <-time.After(15 * time.Second):
			}
			return silent
		})
		for i := range 100 {
			d.add(webhook.Strict, fmt.Sprintf("wep_%d", i))
		}
		d.add(webhook.Strict, "wep_ok")
		change(d)
		_, stop := d.run(t, func(o *webhooks.Options) { o.Parallel = parallel })
		d.record(1)
		time.Sleep(time.Hour)
		for range 50 {
			d.record(1)
			begun := time.Now()
			time.Sleep(time.Second)
			list := d.of("wep_ok")
			if last := list[len(list)-1]; last.at.Sub(begun) > 0 {
				t.Errorf("%s waited for %s", last.event, last.at.Sub(begun))
			}
		}
		stop()
		if got := firstAccepted(d.of("wep_ok")); !slices.Equal(got, idsTo(51)) {
			t.Errorf("accepted %v, want all", got)
		}
	})
}

// TestAccountDoesNotStopAnother: endpoints that were fast and hang all at once leave slots
// for other accounts.
//
// Promise (Webhooks): strict order, pauses, poison, parking; none; one endpoint never stops another
func TestAccountDoesNotStopAnother(t *testing.T) {
	t.Parallel()
	for _, order := range []webhook.Order{webhook.Strict, webhook.None} {
		t.Run(string(order), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var hang atomic.Bool
				d := newDesk(func(ctx context.Context, m *webhooks.Message) webhooks.Answer {
					if m.Endpoint == "wep_other" || !hang.Load() {
						return accepted
					}
					late := accepted
					late.Took = 14 * time.Second
					select {
					case <-ctx.Done():
					case <-time.After(late.Took):
					}
					return late
				})
				for i := range 10 {
					d.add(order, fmt.Sprintf("wep_%d", i))
				}
				d.add(webhook.Strict, "wep_other")
				d.endpoints["wep_other"].Account = "acct_b"
				_, stop := d.run(t, func(o *webhooks.Options) { o.Parallel = 8 })
				defer stop()
				for range 5 {
					d.record(200) // they are fast, and more requests may be in flight
					time.Sleep(time.Minute)
					hang.Store(true)
					d.record(2)
					time.Sleep(time.Second)
					d.record(1)
					begun := time.Now()
					time.Sleep(time.Second)
					list := d.of("wep_other")
					if last := list[len(list)-1]; last.event != fmt.Sprintf("e%d", d.CountRecorded()) || last.at.Sub(begun) > 0 {
						t.Errorf("%s was the last to arrive, %s after the newest was recorded, want that one at once", last.event, last.at.Sub(begun))
					}
					hang.Store(false)
					time.Sleep(time.Minute)
				}
			})
		})
	}
}

// TestParallelBoundsAllRequests: healthy endpoints share all slots, and a strict one has one
// request in flight.
func TestParallelBoundsAllRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int32
		var each [7]atomic.Int32
		d := newDesk(func(_ context.Context, m *webhooks.Message) webhooks.Answer {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			of := &each[m.Endpoint[len(m.Endpoint)-1]-'0']
			defer of.Add(-1)
			if of.Add(1) > 1 && m.Endpoint <= "wep_3" {
				t.Errorf("%s has two requests in flight", m.Endpoint)
			}
			time.Sleep(10 * time.Millisecond)
			return accepted
		})
		d.add(webhook.Strict, "wep_1", "wep_2", "wep_3")
		d.add(webhook.None, "wep_4", "wep_5", "wep_6")
		_, stop := d.run(t, func(o *webhooks.Options) { o.Parallel = 5 })
		d.record(2000)
		time.Sleep(time.Hour)
		stop()
		if most.Load() != 5 || len(d.arrived) != 6*2000 {
			t.Errorf("%d in flight at most, %d delivered, want five and all", most.Load(), len(d.arrived))
		}
	})
}

func TestStopping(t *testing.T) {
	t.Parallel()
	t.Run("writes_what_was_accepted", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			for _, order := range []webhook.Order{webhook.Strict, webhook.None} {
				d := newDesk(answerAlways(accepted))
				d.add(order, "wep_1")
				_, stop := d.run(t)
				d.record(5)
				synctest.Wait()
				if k := d.get("wep_1"); k.settled > 0 || len(d.of("wep_1")) != 5 {
					t.Errorf("%s: %d writes after %d deliveries, want none yet", order, k.settled, len(d.of("wep_1")))
				}
				stop()
				if k := d.get("wep_1"); k.Cursor != positionOf(5) {
					t.Errorf("%s: the cursor is %x, want it behind the five that were accepted", order, k.Cursor)
				}
			}
		})
	})
	t.Run("begins_no_request", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			for _, order := range []webhook.Order{webhook.Strict, webhook.None} {
				requests, third := 0, make(chan struct{})
				d := newDesk(func(context.Context, *webhooks.Message) webhooks.Answer {
					if requests++; requests == 3 {
						close(third)
					}
					time.Sleep(2 * time.Second)
					return status(400)
				})
				d.add(order, "wep_1")
				_, stop := d.run(t, func(o *webhooks.Options) { o.Schedule, o.ParkAfter = []time.Duration{time.Minute}, time.Second })
				d.record(5)
				<-third
				stop()
				if requests != 3 || len(d.of("wep_1")) != 3 {
					t.Errorf("%s: %d requests, %d of them answered, want the three that had begun", order, requests, len(d.of("wep_1")))
				}
			}
		})
	})
	for _, c := range []struct {
		name  string
		takes time.Duration
		want  int // events settled
	}{{"what_is_accepted_within_the_grace_is_settled", 3 * time.Second, 1}, {"what_takes_longer_is_cut", 7 * time.Second, 0}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(func(ctx context.Context, _ *webhooks.Message) webhooks.Answer {
					select {
					case <-ctx.Done():
					case <-time.After(c.takes):
					}
					return accepted
				})
				d.add(webhook.Strict, "wep_1")
				_, stop := d.run(t)
				d.record(5)
				synctest.Wait()
				begun := time.Now()
				stop()
				if k := d.get("wep_1"); k.Cursor != positionOf(c.want) || len(d.of("wep_1")) != c.want {
					t.Errorf("cursor = %x after %d answers, want %d", k.Cursor, len(d.of("wep_1")), c.want)
				}
				if took, want := time.Since(begun), min(c.takes, 5*time.Second); took != want {
					t.Errorf("stopping took %s, want %s", took, want)
				}
			})
		})
	}
}

func TestWritesOfTheCursor(t *testing.T) {
	t.Parallel()
	t.Run("at_the_latest_after_100_events_or_a_second", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(nil)
			d.add(webhook.Strict, "wep_1", "wep_2")
			d.endpoints["wep_2"].Order = webhook.None
			d.receive = func(_ context.Context, m *webhooks.Message) webhooks.Answer {
				time.Sleep(20 * time.Millisecond)
				k := d.get(m.Endpoint)
				written := numberOf(k.Cursor)
				if unwritten := len(d.of(m.Endpoint)) - written; unwritten > 100 {
					t.Errorf("%d accepted events of %s are not written", unwritten, m.Endpoint)
				}
				return accepted
			}
			_, stop := d.run(t)
			d.record(1000)
			time.Sleep(time.Minute)
			for _, id := range []string{"wep_1", "wep_2"} {
				if k := d.get(id); k.Cursor != positionOf(1000) || k.settled > 30 {
					t.Errorf("%s has the cursor %x after %d writes, want the last event and at most 30", id, k.Cursor, k.settled)
				}
			}
			for range 100 { // one by one
				d.record(1)
				time.Sleep(20 * time.Millisecond)
			}
			time.Sleep(2 * time.Second)
			if k := d.get("wep_1"); k.Cursor != positionOf(1100) || k.settled > 25 {
				t.Errorf("the cursor %x after %d writes, want the last event and few more", k.Cursor, k.settled)
			}
			stop()
		})
	})
	t.Run("a_store_that_refuses_writes_stops_deliveries", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			for _, order := range []webhook.Order{webhook.Strict, webhook.None} {
				d := newDesk(answerAlways(accepted))
				d.add(order, "wep_1")
				d.broken = errors.New("disk full")
				_, stop := d.run(t)
				d.record(1000)
				time.Sleep(time.Hour)
				if n := len(d.of("wep_1")); n > 100 {
					t.Errorf("%s: %d events sent that could not be settled, want at most 100", order, n)
				}
				d.mu.Lock()
				d.broken = nil
				d.mu.Unlock()
				time.Sleep(time.Minute)
				stop()
				if list := d.of("wep_1"); len(list) != 1000 || len(firstAccepted(list)) != 1000 {
					t.Errorf("%s: %d attempts, want 1000 events once", order, len(list))
				}
			}
		})
	})
	t.Run("a_store_that_refuses_the_start_is_tried_until_it_can", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(answerAlways(accepted))
			d.add(webhook.Strict, "wep_1")
			d.unstarted = 5
			_, stop := d.run(t)
			defer stop()
			d.record(3)
			time.Sleep(4 * time.Second)
			if n := len(d.of("wep_1")); n > 0 {
				t.Errorf("%d deliveries that cannot be settled", n)
			}
			time.Sleep(4 * time.Second)
			if got := firstAccepted(d.of("wep_1")); !slices.Equal(got, idsTo(3)) {
				t.Errorf("accepted %v, want all", got)
			}
		})
	})
	t.Run("the_first_delivery_behind_a_gap_says_so", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			tries := 0
			d := newDesk(func(context.Context, *webhooks.Message) webhooks.Answer {
				if tries++; tries < 3 {
					return silent
				}
				return accepted
			})
			d.add(webhook.Strict, "wep_1")
			d.endpoints["wep_1"].removed = 3
			d.record(6)
			_, stop := d.run(t)
			time.Sleep(time.Hour)
			stop()
			var got []string
			for _, a := range d.of("wep_1") {
				got = append(got, a.event+" "+a.gap)
			}
			gap := positionOf(0).String() + ".." + positionOf(4).String()
			if want := []string{"e4 " + gap, "e4 " + gap, "e4 " + gap, "e5 ", "e6 "}; !slices.Equal(got, want) {
				t.Errorf("attempts = %q, want %q", got, want)
			}
		})
	})
}

func TestManyWritesSlowDeliveriesDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(answerAlways(accepted))
		d.add(webhook.Strict, "wep_1")
		_, stop := d.run(t)
		defer stop()
		perSecond := 1_100 * runtime.GOMAXPROCS(0)
		const seconds = 3
		for range 10 * seconds {
			d.record(perSecond / 5) // twice as many as may be delivered
			time.Sleep(100 * time.Millisecond)
		}
		if n := len(d.of("wep_1")); n < perSecond*seconds/2 || n > perSecond*(seconds+1) {
			t.Errorf("%d deliveries in %d seconds of many writes, want about %d", n, seconds, perSecond*seconds)
		}
		time.Sleep(10 * time.Second)
		if n := len(d.of("wep_1")); n != len(d.events) {
			t.Errorf("%d deliveries after the writes, want %d", n, len(d.events))
		}
	})
}

func TestIdleEndpointsHaveNoGoroutine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(answerAlways(accepted))
		for i := range 500 {
			d.add(webhook.Strict, fmt.Sprintf("wep_%d", i))
		}
		before := runtime.NumGoroutine()
		_, stop := d.run(t)
		d.record(3)
		time.Sleep(10 * time.Second)
		if n := runtime.NumGoroutine() - before; n > 250 { // other tests run beside
			t.Errorf("%d goroutines for 500 idle endpoints, want none for each", n)
		}
		stop()
		if n := len(d.arrived); n != 1500 {
			t.Errorf("%d deliveries, want 1500", n)
		}
	})
}

// TestWhatCannotBeWrittenIsNotPassed: an event that cannot be set aside is neither lost nor
// passed by the cursor.
func TestWhatCannotBeWrittenIsNotPassed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(func(_ context.Context, m *webhooks.Message) webhooks.Answer {
			if m.ID == "e205" {
				return status(500)
			}
			return accepted
		})
		d.refuse = func(p webhook.Progress) error {
			for _, x := range p.Done {
				if x.State != webhook.Delivered {
					return webhook.ErrFull
				}
			}
			return nil
		}
		d.add(webhook.None, "wep_1")
		_, stop := d.run(t)
		d.record(230)
		time.Sleep(time.Hour)
		stop()
		if k := d.get("wep_1"); numberOf(k.Cursor) >= 205 {
			t.Errorf("the cursor is at %d with %d set aside, want it before the event that nobody accepted", numberOf(k.Cursor), len(k.set))
		}
	})
}

// TestEndedSecretsSignNothing: a backlog that drains for long is signed with the secrets of
// the moment.
func TestEndedSecretsSignNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Bool
		var late atomic.Int64
		d := newDesk(nil)
		d.receive = func(_ context.Context, m *webhooks.Message) webhooks.Answer {
			time.Sleep(5 * time.Millisecond)
			if ended.Load() && len(m.Secrets) > 1 {
				late.Add(1)
			}
			return accepted
		}
		d.add(webhook.Strict, "wep_1")
		d.endpoints["wep_1"].Secrets = make([]webhook.Secret, 2)
		_, stop := d.run(t)
		d.record(2000)
		time.Sleep(time.Second)
		d.mu.Lock()
		d.endpoints["wep_1"].Secrets = make([]webhook.Secret, 1)
		d.mu.Unlock()
		time.Sleep(2 * time.Second)
		ended.Store(true)
		time.Sleep(time.Minute)
		stop()
		if late.Load() > 0 || len(d.of("wep_1")) < 2000 {
			t.Errorf("%d of %d requests were signed with a secret that had ended", late.Load(), len(d.of("wep_1")))
		}
	})
}

// TestChangeHoldsAtOnce: what an endpoint that works is sent goes to the URL of the moment,
// and is signed with the secrets of the moment.
func TestChangeHoldsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var late atomic.Int64
		d := newDesk(func(_ context.Context, m *webhooks.Message) webhooks.Answer {
			if time.Since(begun) > 1250*time.Millisecond && (m.URL == "https://example.com" || len(m.Secrets) != 1) {
				late.Add(1)
			}
			time.Sleep(9 * time.Millisecond)
			return accepted
		})
		d.add(webhook.Strict, "wep_1")
		d.add(webhook.None, "wep_2")
		s, stop := d.run(t)
		d.record(1000)
		time.Sleep(950 * time.Millisecond) // the cursor was just written
		for _, id := range []string{"wep_1", "wep_2"} {
			d.change(s, id, func(k *kept) { k.URL, k.Secrets = "https://example.org", make([]webhook.Secret, 1) })
		}
		time.Sleep(time.Minute)
		stop()
		if late.Load() > 0 || len(d.arrived) != 2000 {
			t.Errorf("%d of %d requests had the URL or the secrets of before", late.Load(), len(d.arrived))
		}
	})
}

// TestWhatIsSetAsideIsReadWhenItIsSent: between its turn and its attempt an event may be
// purged, and the endpoint may have another URL.
func TestWhatIsSetAsideIsReadWhenItIsSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var changed atomic.Bool
		var old atomic.Int64
		d := newDesk(nil)
		d.receive = func(_ context.Context, m *webhooks.Message) webhooks.Answer {
			if changed.Load() && (m.URL == "https://example.com" || m.ID != "e1" && m.Attempt > 1) {
				old.Add(1)
			}
			if m.Attempt > 1 {
				time.Sleep(time.Second)
			}
			return status(500)
		}
		d.add(webhook.None, "wep_1")
		_, stop := d.run(t)
		d.record(40)
		time.Sleep(7500 * time.Millisecond) // the second attempts have begun
		d.mu.Lock()
		d.endpoints["wep_1"].URL, d.purged = "https://example.org", map[record.Position]bool{}
		for i := range 39 {
			d.purged[positionOf(i+2)] = true
		}
		d.mu.Unlock()
		time.Sleep(1100 * time.Millisecond) // the attempt that was in flight
		changed.Store(true)
		time.Sleep(time.Hour)
		stop()
		if k := d.get("wep_1"); old.Load() > 0 || len(k.set) > 1 {
			t.Errorf("%d requests with what was purged or to the URL of before; %d are left set aside", old.Load(), len(k.set))
		}
	})
}

func TestWhatIsSetAsideIsSentAfterARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(answerAlways(accepted))
		d.add(webhook.Strict, "wep_1")
		d.record(1)
		k := d.endpoints["wep_1"]
		k.Cursor, k.Parked = positionOf(1), 1
		k.set[positionOf(1)] = webhook.Delivery{Position: positionOf(1), Event: "e1", State: webhook.Parked, Attempts: 4, NextAt: time.Now().Add(time.Hour)}
		_, stop := d.run(t)
		time.Sleep(2 * time.Hour)
		stop()
		if list := d.of("wep_1"); len(list) != 1 || list[0].attempt != 5 {
			t.Errorf("attempts = %+v, want the fifth", list)
		}
	})
}

// TestHeadIsDueWhenSomebodySaysSo: a retry by hand does not wait for the pause.
func TestHeadIsDueWhenSomebodySaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(answerAlways(status(500)))
		d.add(webhook.Strict, "wep_1")
		s, stop := d.run(t, func(o *webhooks.Options) { o.Schedule = []time.Duration{time.Hour} })
		d.record(1)
		time.Sleep(time.Second)
		d.mu.Lock()
		head := *d.endpoints["wep_1"].Head
		head.NextAt = time.Now()
		d.endpoints["wep_1"].Head = &head
		d.mu.Unlock()
		s.Changed("wep_1")
		time.Sleep(time.Second)
		stop()
		if n := len(d.of("wep_1")); n != 2 {
			t.Errorf("%d attempts, want one more at once", n)
		}
	})
}

// TestATestTakesASlot: tests to receivers that hang are among the requests that
// --webhook-parallel bounds.
func TestATestTakesASlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(func(ctx context.Context, _ *webhooks.Message) webhooks.Answer {
			<-ctx.Done()
			return silent
		})
		d.add(webhook.Strict, "wep_1")
		s, stop := d.run(t, func(o *webhooks.Options) { o.Parallel, o.Grace = 1, nil })
		defer stop()
		d.record(1)
		synctest.Wait()
		ctx, end := context.WithTimeout(t.Context(), time.Minute)
		defer end()
		if _, _, err := s.Test(ctx, "wep_1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a test beside the one request that may be in flight: %v, want it to wait", err)
		}
	})
}

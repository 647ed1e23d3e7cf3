package alarms

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// notes is a store of alarms in memory.
type notes struct {
	mu      sync.Mutex
	records map[string][]byte
	refuses bool
	writes  int
}

func (n *notes) LoadAlarms(context.Context) (map[string][]byte, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.records), nil
}

func (n *notes) SaveAlarms(_ context.Context, records map[string][]byte) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.refuses {
		return errors.New("the disk is full")
	}
	if n.records == nil {
		n.records = map[string][]byte{}
	}
	n.writes++
	for name, text := range records {
		if n.records[name] = text; text == nil {
			delete(n.records, name)
		}
	}
	return nil
}

func (n *notes) AlarmName(url string) string { return url }

// arrival is a message that a receiver got.
type arrival struct {
	Message
	at time.Duration // since the start
	to string
}

// bench runs senders in a bubble, whose receivers are functions.
type bench struct {
	t     *testing.T
	store *notes
	start time.Time

	mu       sync.Mutex
	arrived  []arrival // that were accepted
	tried    []arrival
	receive  func(to string, m Message) Result // nil accepts
	observed map[string]int
	*Sender
	stop func()
}

func inBubble(t *testing.T, run func(b *bench)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, store: &notes{}, start: time.Now(), observed: map[string]int{}}
		run(b)
		if b.stop != nil {
			b.stop()
		}
	})
}

// begin starts a sender on what the store has. An earlier one is as after a kill.
func (b *bench) begin(change func(*Options), urls ...string) {
	b.t.Helper()
	if b.stop != nil {
		b.stop()
	}
	o := Options{Store: b.store, Repeat: 24 * time.Hour, Instance: "Larkspur Payments", URL: func() string { return "https://pay.example" }, Log: slog.New(slog.DiscardHandler), Now: time.Now, send: b.send,
		Observe: func(outcome string, n int) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.observed[outcome] += n
		}}
	for _, url := range urls {
		target, err := Parse(url)
		if err != nil {
			b.t.Fatal(err)
		}
		o.Targets = append(o.Targets, target)
	}
	if change != nil {
		change(&o)
	}
	b.Sender = New(o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.Run(ctx)
	}()
	b.stop = func() {
		cancel()
		<-done
		b.stop = nil
	}
	if err := b.Hold(ctx); err != nil {
		b.t.Fatal(err)
	}
	synctest.Wait()
}

func (b *bench) send(ctx context.Context, target *Target, m Message) Result {
	b.mu.Lock()
	receive := b.receive
	b.mu.Unlock()
	r := Result{Delivered: true}
	if receive != nil {
		r = receive(target.text, m)
	}
	if ctx.Err() != nil {
		return r
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	a := arrival{m, time.Since(b.start), target.text}
	b.tried = append(b.tried, a)
	if r.Delivered {
		b.arrived = append(b.arrived, a)
	}
	return r
}

// sees is one look, after which messages have time to arrive.
func (b *bench) sees(found ...Finding) {
	b.Look(found, func(string) bool { return true })
	synctest.Wait()
}

// got returns what has arrived since the last call.
func (b *bench) got() []arrival {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.arrived
	b.arrived = nil
	return all
}

func (b *bench) receives(f func(to string, m Message) Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.receive = f
}

func refuses(string, Message) Result { return Result{Status: 500, Reason: "status 500"} }

const (
	one = "ntfy://a.example/topic"
	two = "ntfy://b.example/topic"
)

func backup() Finding {
	return Finding{Alarm: "backup", Severity: Warning, Title: "Backup failed", Text: "It failed.", Next: "see the log"}
}

func endpoint(id string) Finding {
	return Finding{Alarm: "webhooks", Subject: id, Severity: Warning, Title: "Webhook endpoint disabled", Text: "Disabled.", Next: "look"}
}

// rest lets time pass, and what it makes due be done.
func rest(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

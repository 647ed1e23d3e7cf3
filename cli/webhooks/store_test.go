package webhooks_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"tollhouse/cli/webhooks"
	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook"
)

// inbox is a receiver that verifies what arrives.
type inbox struct {
	*receiver
	t      testing.TB
	verify *standardwebhooks.Webhook
	answer func(id string) int
	away   string // the Retry-After of a 503, as which each event is answered; or ""

	mu  sync.Mutex
	got []string // ids of accepted events in the order of arrival
	all map[string]string
	new chan struct{}
}

func newInbox(t testing.TB) *inbox {
	in := &inbox{t: t, all: map[string]string{}, new: make(chan struct{}, 1), answer: func(string) int { return 200 }}
	in.receiver = newReceiver(t, func(w http.ResponseWriter, r *http.Request) { in.take(w, r) })
	return in
}

func (in *inbox) take(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	in.mu.Lock()
	verify, away := in.verify, in.away
	in.mu.Unlock()
	if away != "" {
		w.Header().Set("Retry-After", away)
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if err := verify.Verify(body, r.Header); err != nil {
		in.t.Errorf("the library of Standard Webhooks refuses what arrived: %v", err)
	}
	id := r.Header.Get("Webhook-Id")
	status := in.answer(id)
	if status < 300 {
		in.mu.Lock()
		in.got, in.all[id] = append(in.got, id), string(body)
		in.mu.Unlock()
		select {
		case in.new <- struct{}{}:
		default:
		}
	}
	w.WriteHeader(status)
}

// wait returns the ids of the accepted events when there are n.
func (in *inbox) wait(n int) []string {
	in.t.Helper()
	late := time.After(longEnough)
	for {
		in.mu.Lock()
		got := slices.Clone(in.got)
		in.mu.Unlock()
		if len(got) >= n {
			return got
		}
		select {
		case <-in.new:
		case <-late:
			in.t.Fatalf("%d events arrived, want %d", len(got), n)
		}
	}
}

// endpoint makes an endpoint that sends to the inbox.
func (in *inbox) endpoint(s *storetest.Fixture, set webhook.Settings) webhook.Endpoint {
	in.t.Helper()
	set.URL = in.URL + "/hook"
	e, token, err := s.Webhooks.Create(in.t.Context(), webhook.System, "acct_a", set)
	must.Do(in.t, err)
	in.expect(token)
	return e
}

// expect has the inbox verify what arrives with another secret.
func (in *inbox) expect(token secret.Token) {
	in.t.Helper()
	verify := must.Get(standardwebhooks.NewWebhook(token.Reveal()))(in.t)
	in.mu.Lock()
	defer in.mu.Unlock()
	in.verify = verify
}

func recordMany(t testing.TB, s *storetest.Fixture, typ string, n int) (ids []string) {
	t.Helper()
	for i := range n {
		wire := must.Get(s.Events.RecordEvent(t.Context(), eventlog.NewEvent{
			Owner: "acct_a", Type: typ, Resource: fmt.Sprintf("r_%d", i), Source: "test", Location: "system", Object: snapshot.ObjectOf(),
		}))(t)
		e := must.Get(snapshot.Parse(wire, 8))(t)
		id, _ := e.Member("id")
		ids = append(ids, id.Text())
	}
	return ids
}

// awaitCursor waits until the cursor is written up to an event.
func awaitCursor(t testing.TB, s *storetest.Fixture, endpoint, event string) {
	t.Helper()
	for {
		e := must.Get(s.Webhooks.Find(t.Context(), webhook.System, endpoint))(t)
		if e.Cursor.String() >= event {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// runStored sends the events of a store until the test ends or stop is called.
func runStored(t testing.TB, s *storetest.Fixture) (sender *webhooks.Sender, stop func()) {
	return runWith(t, s, 8, longEnough)
}

// runWith is runStored with other bounds.
func runWith(t testing.TB, s *storetest.Fixture, parallel int, timeout time.Duration) (sender *webhooks.Sender, stop func()) {
	sender = newStored(t, s, parallel, timeout)
	s.Webhooks.OnChange(sender.Changed)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { sender.Run(ctx) })
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(stop)
	return sender, stop
}

// newStored returns a sender of the events of a store that does not run yet.
func newStored(t testing.TB, s *storetest.Fixture, parallel int, timeout time.Duration) *webhooks.Sender {
	_, shared := s.DB.(kv.Caller)
	return webhooks.New(webhooks.Options{
		Store: s.Webhooks, Events: webhooks.EventsOf(s.Events), Log: slog.New(slog.DiscardHandler),
		Client:   webhooks.NewClient(webhooks.ClientOptions{Rules: rules(t, "127.0.0.1"), Timeout: timeout, Version: "1.2.3"}),
		Schedule: []time.Duration{50 * time.Millisecond}, ParkAfter: time.Hour, Parallel: parallel, Grace: func() time.Duration { return timeout },
		Shared: shared,
	})
}

// The sender learns of a change later than its caller: by a signal that is under way, or by
// a look if another server made the change.
func TestAnEventRecordedAfterAChangeGoesByTheChange(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, s *storetest.Fixture, id string, in *inbox) (to *inbox, typ string){
		"types": func(t *testing.T, s *storetest.Fixture, id string, in *inbox) (*inbox, string) {
			must.Get(s.Webhooks.Update(t.Context(), webhook.System, id, webhook.Change{Types: []string{"invoice.*"}}))(t)
			return in, "invoice.paid"
		},
		"url": func(t *testing.T, s *storetest.Fixture, id string, in *inbox) (*inbox, string) {
			other := newInbox(t)
			other.verify = in.verify
			must.Get(s.Webhooks.Update(t.Context(), webhook.System, id, webhook.Change{URL: &other.URL}))(t)
			return other, "customer.updated"
		},
		"secret": func(t *testing.T, s *storetest.Fixture, id string, in *inbox) (*inbox, string) {
			_, token, err := s.Webhooks.RotateSecret(t.Context(), webhook.System, id, 0, secret.Token{})
			must.Do(t, err)
			in.expect(token)
			return in, "customer.updated"
		},
	} {
		for _, servers := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s_with_%d_servers", name, servers), func(t *testing.T) {
				t.Parallel()
				for range 5 {
					shared := storetest.NewShared()
					a, b := storetest.Two(t, shared.Open(), shared.Open())
					changes := []*storetest.Fixture{a, b}[servers-1]
					in := newInbox(t)
					e := in.endpoint(a, webhook.Settings{Types: []string{"customer.*"}})
					_, stop := runStored(t, a)
					want := recordMany(t, a, "customer.updated", 1)
					in.wait(1) // the sender waits for more now, a second at most

					to, typ := change(t, changes, e.ID, in)
					if to != in {
						want = nil
					}
					want = append(want, recordMany(t, changes, typ, 1)...)
					if got := to.wait(len(want)); !slices.Equal(got, want) || to != in && len(in.wait(1)) > 1 {
						t.Fatalf("arrived %q, and %q where the first one did, want %q", got, in.wait(1), want)
					}
					stop()
				}
			})
		}
	}
}

func TestAnEventBehindOneInFlightGoesByTheTypesGivenMeanwhile(t *testing.T) {
	t.Parallel()
	s, in := storetest.New(t), newInbox(t)
	arrived, release := make(chan struct{}), make(chan struct{})
	hold := sync.OnceFunc(func() { close(arrived); <-release })
	in.answer = func(string) int { hold(); return 200 }
	e := in.endpoint(s, webhook.Settings{Types: []string{"customer.*"}})
	want := append(recordMany(t, s, "customer.updated", 1), recordMany(t, s, "invoice.paid", 1)...)
	runStored(t, s)
	<-arrived
	must.Get(s.Webhooks.Update(t.Context(), webhook.System, e.ID, webhook.Change{Types: []string{"customer.*", "invoice.*"}}))(t)
	close(release)
	want = append(want, recordMany(t, s, "invoice.paid", 1)...)
	if got := in.wait(len(want)); !slices.Equal(got, want) {
		t.Errorf("arrived %q, want %q", got, want)
	}
}

func TestStoredEndpoints(t *testing.T) {
	t.Parallel()
	t.Run("each_event_arrives_signed_in_order_with_the_bytes_of_the_API", func(t *testing.T) {
		t.Parallel()
		s, in := storetest.New(t), newInbox(t)
		failed := map[string]bool{}
		in.answer = func(id string) int {
			if len(in.got)%10 == 9 && !failed[id] {
				failed[id] = true
				return 503
			}
			return 200
		}
		e := in.endpoint(s, webhook.Settings{Types: []string{"customer.*"}})
		ids := recordMany(t, s, "customer.updated", 120)
		_, stop := runStored(t, s)
		recordMany(t, s, "invoice.paid", 30)
		ids = append(ids, recordMany(t, s, "customer.created", 30)...)
		if got := in.wait(len(ids)); !slices.Equal(got, ids) {
			t.Errorf("arrived %q, want %q", got, ids)
		}
		for id, body := range in.all {
			if want := must.Get(s.Events.FindEvent(t.Context(), "acct_a", id, nil))(t); body != string(want) {
				t.Errorf("body of %s = %s, want %s", id, body, want)
			}
		}
		stop()
		e = must.Get(s.Webhooks.Find(t.Context(), webhook.System, e.ID))(t)
		if last := ids[len(ids)-1]; e.Cursor.String() < last || e.Behind {
			t.Errorf("cursor = %s, want it at %s or behind", e.Cursor, last)
		}
		if n := in.connections.Load(); n > 3 {
			t.Errorf("%d connections, want one that is kept", n)
		}
	})
	t.Run("what_happens_to_an_endpoint_is_heard_at_once", func(t *testing.T) {
		t.Parallel()
		s, in := storetest.New(t), newInbox(t)
		e := in.endpoint(s, webhook.Settings{})
		runStored(t, s)
		first := recordMany(t, s, "customer.updated", 1)
		in.wait(1)
		awaitCursor(t, s, e.ID, first[0])
		must.Get(s.Webhooks.Disable(t.Context(), webhook.System, e.ID))(t)
		second := recordMany(t, s, "customer.updated", 1)
		_, _, err := s.Webhooks.Enable(t.Context(), webhook.System, e.ID, webhook.From{})
		must.Do(t, err)
		got := in.wait(4) // with the events that the endpoint was disabled and enabled
		if got[0] != first[0] || got[2] != second[0] {
			t.Errorf("arrived %q, want %q and %q as the first and the third", got, first, second)
		}
		awaitCursor(t, s, e.ID, got[3]) // a hold cuts what is in flight
		must.Get(s.Webhooks.Hold(t.Context(), webhook.System))(t)
		third := recordMany(t, s, "customer.updated", 1)
		must.Get(s.Webhooks.Resume(t.Context(), webhook.System))(t)
		if got := in.wait(5); got[4] != third[0] {
			t.Errorf("arrived %q, want %q as the fifth", got, third)
		}
	})
	t.Run("a_test_is_sent_whatever_the_state", func(t *testing.T) {
		t.Parallel()
		s, in := storetest.New(t), newInbox(t)
		e := in.endpoint(s, webhook.Settings{})
		must.Get(s.Webhooks.Disable(t.Context(), webhook.System, e.ID))(t)
		sender, _ := runStored(t, s)
		id, a, err := sender.Test(t.Context(), e.ID)
		if err != nil || a.Outcome != webhooks.Accepted || !slices.Equal(in.wait(1), []string{id}) {
			t.Errorf("Test = %s, %+v, %v, want one accepted event", id, a, err)
		}
		if _, err := s.Events.FindEvent(t.Context(), "acct_a", id, nil); err == nil {
			t.Error("the test is in the log, want it in none")
		}
		if body := in.all[id]; !strings.Contains(body, `"type":"system.test"`) || !strings.Contains(body, `"resource":"`+e.ID+`"`) {
			t.Errorf("the test is %s", body)
		}
		if now := must.Get(s.Webhooks.Load(t.Context(), e.ID))(t); now.Cursor != e.Cursor || now.Enabled() || !now.Last.At.IsZero() {
			t.Errorf("the test changed the endpoint to %+v", now)
		}
	})
	t.Run("a_retried_event_arrives_beside_the_live_ones", func(t *testing.T) {
		t.Parallel()
		s, in := storetest.New(t), newInbox(t)
		e := in.endpoint(s, webhook.Settings{Order: webhook.None})
		runStored(t, s)
		ids := recordMany(t, s, "customer.updated", 3)
		in.wait(3)
		awaitCursor(t, s, e.ID, ids[2])
		must.Get(s.Webhooks.Retry(t.Context(), webhook.System, e.ID, webhook.Retry{Events: ids[:1]}))(t)
		if got := in.wait(4); got[3] != ids[0] {
			t.Errorf("arrived %q, want the first again", got)
		}
	})
}

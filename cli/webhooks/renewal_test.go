package webhooks_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"tollhouse/cli/webhooks"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook"
)

// A receiver that asks for the longest pause.
const aDay = "86400"

// renewals are the changes of an endpoint that end its pauses. Each returns the receiver
// that events arrive at behind it. s is the store of the server that makes the change.
var renewals = map[string]func(t *testing.T, s *storetest.Fixture, id string, old *inbox) (to *inbox){
	"another_url": func(t *testing.T, s *storetest.Fixture, id string, old *inbox) *inbox {
		to := newInbox(t)
		to.verify = old.verify
		must.Get(s.Webhooks.Update(t.Context(), webhook.System, id, webhook.Change{URL: &to.URL}))(t)
		return to
	},
	"another_secret": func(t *testing.T, s *storetest.Fixture, id string, old *inbox) *inbox {
		old.mu.Lock() // nothing is judged before the new secret is known
		defer old.mu.Unlock()
		_, token, err := s.Webhooks.RotateSecret(t.Context(), webhook.System, id, 0, secret.Token{})
		must.Do(t, err)
		old.away, old.verify = "", must.Get(standardwebhooks.NewWebhook(token.Reveal()))(t)
		return old
	},
	"an_accepted_test": func(t *testing.T, s *storetest.Fixture, id string, old *inbox) *inbox {
		old.recover()
		sender := newStored(t, s, 8, longEnough)
		test, a, err := sender.Test(t.Context(), id)
		if must.Do(t, err); a.Outcome != webhooks.Accepted {
			t.Fatalf("the test is %+v", a)
		}
		old.forget(test)
		return old
	},
	"enable_of_an_enabled_endpoint": func(t *testing.T, s *storetest.Fixture, id string, old *inbox) *inbox {
		old.recover()
		_, _, err := s.Webhooks.Enable(t.Context(), webhook.System, id, webhook.From{})
		must.Do(t, err)
		return old
	},
	"disable_and_enable": func(t *testing.T, s *storetest.Fixture, id string, old *inbox) *inbox {
		old.recover()
		must.Get(s.Webhooks.Disable(t.Context(), webhook.System, id))(t)
		_, _, err := s.Webhooks.Enable(t.Context(), webhook.System, id, webhook.From{})
		must.Do(t, err)
		return old
	},
}

// recover has a receiver accept from now on.
func (in *inbox) recover() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.away = ""
}

// forget drops an id from what arrived.
func (in *inbox) forget(id string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.got = slices.DeleteFunc(in.got, func(got string) bool { return got == id })
}

// waitSorted is wait, in the order of the log.
func (in *inbox) waitSorted(n int) []string { return slices.Sorted(slices.Values(in.wait(n))) }

// awaitPause waits until an endpoint has failed and waits for long.
func awaitPause(t *testing.T, s *storetest.Fixture, id string) {
	t.Helper()
	for {
		e := must.Get(s.Webhooks.Find(t.Context(), webhook.System, id))(t)
		if e.Parked > 0 || e.Head != nil && time.Until(e.Head.NextAt) > time.Hour {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// forEachServer runs a test with the sender and the change on one server, on two that share
// a database, and with a change while no server runs. It leaves out one engine.
func forEachServer(t *testing.T, without string, test func(t *testing.T, order webhook.Order, sender, changes *storetest.Fixture, restarts bool)) {
	engines := storetest.SharedEngines()
	delete(engines, without)
	engines["one_server"], engines["a_restart"] = nil, nil
	for _, order := range []webhook.Order{webhook.Strict, webhook.None} {
		for engine, open := range engines {
			t.Run(fmt.Sprintf("in_order_%s_%s", order, engine), func(t *testing.T) {
				t.Parallel()
				if open == nil {
					s := storetest.New(t)
					test(t, order, s, s, engine == "a_restart")
					return
				}
				dbA, dbB := open(t)
				a, b := storetest.Two(t, dbA, dbB)
				test(t, order, a, b, false)
			})
		}
	}
}

// TestARenewedEndpointDoesNotWaitOutAPause: the old receiver asked for a day of silence, of
// which the sender of another server knows from its memory too.
//
// Promise (Webhooks): a new URL or secret, enable, an accepted test end pauses
func TestARenewedEndpointDoesNotWaitOutAPause(t *testing.T) {
	t.Parallel()
	for name, renew := range renewals {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			without := "in_postgres" // which takes seconds to start
			if name == "another_url" || name == "an_accepted_test" {
				without = ""
			}
			forEachServer(t, without, func(t *testing.T, order webhook.Order, a, b *storetest.Fixture, restarts bool) {
				old := newInbox(t)
				old.away = aDay
				e := old.endpoint(a, webhook.Settings{Types: []string{"customer.*"}, Order: order})
				ids := recordMany(t, a, "customer.updated", 3)
				_, stop := runStored(t, a)
				awaitPause(t, a, e.ID)
				if restarts {
					stop()
				}
				to := renew(t, b, e.ID, old)
				ids = append(ids, recordMany(t, b, "customer.updated", 1)...)
				if restarts {
					runStored(t, a)
				}
				got := to.wait(len(ids))
				if order == webhook.None {
					got = to.waitSorted(len(ids))
				}
				if !slices.Equal(got, ids) {
					t.Errorf("arrived %q, want %q", got, ids)
				}
			})
		})
	}
}

// TestAFailureAtTheOldURLDoesNotBringItsPauseBack: the request was in flight when the URL was
// changed, for the first time or beside the live ones.
func TestAFailureAtTheOldURLDoesNotBringItsPauseBack(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]struct {
		status int
		parked bool // the one in flight was parked before
	}{
		"that_asks_for_a_day": {status: 503},
		"that_is_gone":        {status: http.StatusGone},
		"of_a_parked_event":   {status: 429, parked: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forEachServer(t, "in_postgres", func(t *testing.T, order webhook.Order, a, b *storetest.Fixture, restarts bool) {
				if restarts || late.parked && order == webhook.Strict {
					return // a request does not outlive its sender; a strict endpoint parks after an hour
				}
				arrived, release := make(chan struct{}), make(chan struct{})
				hold := sync.OnceFunc(func() { close(arrived); <-release })
				var first atomic.Bool
				old := newInbox(t)
				old.receiver = newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
					if late.parked && !first.Swap(true) {
						w.WriteHeader(http.StatusBadRequest)
						return
					}
					hold()
					w.Header().Set("Retry-After", aDay)
					w.WriteHeader(late.status)
				})
				e := old.endpoint(a, webhook.Settings{Types: []string{"customer.*"}, Order: order})
				ids := recordMany(t, a, "customer.updated", 1)
				_, stop := runStored(t, a)
				<-arrived
				to := renewals["another_url"](t, b, e.ID, old)
				close(release)
				ids = append(ids, recordMany(t, b, "customer.updated", 1)...)
				if got := to.waitSorted(len(ids)); !slices.Equal(got, ids) {
					t.Errorf("arrived %q, want %q", got, ids)
				}
				stop()
				if now := must.Get(a.Webhooks.Load(t.Context(), e.ID))(t); !now.Enabled() || now.Trouble.Attempts > 0 || now.Parked > 0 {
					t.Errorf("the endpoint is %+v, want one that works", now)
				}
			})
		})
	}
}

// TestAChangeOfTypesKeepsThePause, since the receiver is the same.
func TestAChangeOfTypesKeepsThePause(t *testing.T) {
	t.Parallel()
	for _, order := range []webhook.Order{webhook.Strict, webhook.None} {
		s, in := storetest.New(t), newInbox(t)
		in.away = aDay
		e := in.endpoint(s, webhook.Settings{Types: []string{"customer.*"}, Order: order})
		recordMany(t, s, "customer.updated", 1)
		_, stop := runStored(t, s)
		awaitPause(t, s, e.ID)
		sent := in.requests.Load()
		must.Get(s.Webhooks.Update(t.Context(), webhook.System, e.ID, webhook.Change{Types: []string{"customer.*", "invoice.*"}}))(t)
		control := newInbox(t)
		control.endpoint(s, webhook.Settings{Types: []string{"invoice.*"}})
		recordMany(t, s, "invoice.paid", 2)
		control.wait(2)
		stop()
		if n := in.requests.Load(); n > sent {
			t.Errorf("in order %s %d requests arrived in the pause", order, n-sent)
		}
	}
}

// TestATestOfAReceiverThatRefusesEndsNoPause: the head waits as long as the receiver asked.
func TestATestOfAReceiverThatRefusesEndsNoPause(t *testing.T) {
	t.Parallel()
	s, in := storetest.New(t), newInbox(t)
	in.away = aDay
	e := in.endpoint(s, webhook.Settings{Types: []string{"customer.*"}})
	recordMany(t, s, "customer.updated", 1)
	sender, _ := runStored(t, s)
	awaitPause(t, s, e.ID)
	before := must.Get(s.Webhooks.Load(t.Context(), e.ID))(t)
	if _, a, err := sender.Test(context.Background(), e.ID); err != nil || a.Outcome != webhooks.Refused {
		t.Fatalf("the test is %+v, %v", a, err)
	}
	if now := must.Get(s.Webhooks.Load(t.Context(), e.ID))(t); !now.Head.NextAt.Equal(before.Head.NextAt) || now.Turn() != before.Turn() {
		t.Errorf("the head is due at %s, want %s", now.Head.NextAt, before.Head.NextAt)
	}
}

// TestAnEventSetAsideThatIsAcceptedDuringAStopIsNotRepeated: like those behind the cursor.
func TestAnEventSetAsideThatIsAcceptedDuringAStopIsNotRepeated(t *testing.T) {
	t.Parallel()
	s, in := storetest.New(t), newInbox(t)
	arrived, release := make(chan struct{}), make(chan struct{})
	var tried atomic.Bool
	in.answer = func(string) int {
		if !tried.Swap(true) {
			return http.StatusBadRequest
		}
		close(arrived)
		<-release
		return 200
	}
	e := in.endpoint(s, webhook.Settings{Types: []string{"customer.*"}, Order: webhook.None})
	recordMany(t, s, "customer.updated", 1)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { newStored(t, s, 8, longEnough).Run(ctx) })
	<-arrived
	stop()
	close(release)
	running.Wait()
	if now := must.Get(s.Webhooks.Load(t.Context(), e.ID))(t); now.Parked != 0 {
		t.Error("the event is still parked, so it is sent again after the restart")
	}
}

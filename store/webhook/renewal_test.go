package webhook_test

import (
	"testing"
	"time"

	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook"
)

// failing returns an endpoint whose head has failed for an hour and waits for a day, as an
// event that was parked does.
func failing(t *testing.T) (m made, parked, head record.Position) {
	t.Helper()
	m = makeEndpoint(t, func(s *webhook.Settings) { s.Types = []string{"customer.*"} })
	parked = event(t, m.Fixture, "customer.created")
	x := outcome(parked, webhook.Parked)
	x.NextAt, x.Step = m.Now().Add(24*time.Hour), 5
	settle(t, m, webhook.Progress{Cursor: parked, Done: []webhook.Delivery{x}})
	head = event(t, m.Fixture, "customer.created")
	h := outcome(head, webhook.Retrying)
	h.Attempts, h.Refused, h.Blocked, h.Probed, h.NextAt = 7, 4, time.Hour, time.Minute, m.Now().Add(24*time.Hour)
	settle(t, m, webhook.Progress{Head: &h, Trouble: webhook.Trouble{Since: m.Now(), For: time.Hour, Attempts: 7}, Last: webhook.Attempt{At: m.Now(), Status: 503}})
	return m, parked, head
}

func renewedBy(t *testing.T, m made) map[string]func() error {
	return map[string]func() error{
		"a_new_url": func() error {
			url := hook + "&v=2"
			_, err := m.Webhooks.Update(t.Context(), webhook.System, m.id, webhook.Change{URL: &url})
			return err
		},
		"a_new_secret": func() error {
			_, _, err := m.Webhooks.RotateSecret(t.Context(), webhook.System, m.id, 0, secret.Token{})
			return err
		},
		"enable_of_an_enabled_one": func() error {
			_, _, err := m.Webhooks.Enable(t.Context(), webhook.System, m.id, webhook.From{})
			return err
		},
		"an_accepted_test": func() error {
			e := m.now(t)
			return m.Webhooks.TestAccepted(t.Context(), &e)
		},
	}
}

// TestARenewalForgetsWhatFailed: the head and what was parked are due, and nothing of the
// failures is left in the status.
func TestARenewalForgetsWhatFailed(t *testing.T) {
	t.Parallel()
	for name := range renewedBy(t, made{}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, parked, head := failing(t)
			was := m.now(t)
			must.Do(t, renewedBy(t, m)[name]())
			e := m.now(t)
			status := e.Object().Status
			if *status.BlockedOn != head.String() || status.Attempts != 0 || status.FailingSince != nil || status.NextAttemptAt != nil || status.Health != webhook.OK {
				t.Errorf("the status is %+v", status)
			}
			due, next, err := m.Webhooks.Due(t.Context(), &e, m.Now(), 10)
			if must.Do(t, err); len(due) != 1 || due[0].Position != parked || due[0].Attempts != 0 || due[0].Step != 0 || !next.IsZero() {
				t.Errorf("due are %+v, the next is at %v, want the parked one", due, next)
			}
			listed, _, err := m.Webhooks.Deliveries(t.Context(), webhook.System, m.id, webhook.Filter{State: webhook.Parked, Limit: 1})
			if must.Do(t, err); len(listed) != 1 || !listed[0].NextAt.IsZero() {
				t.Errorf("listed as %+v, want one that is due", listed)
			}
			if e.Renewal() == was.Renewal() || e.Cursor != was.Cursor {
				t.Errorf("the endpoint is %+v", e)
			}

			x := outcome(parked, webhook.Parked)
			x.NextAt = m.Now().Add(time.Hour)
			settle(t, m, webhook.Progress{Done: []webhook.Delivery{x}, Head: e.Head})
			e = m.now(t)
			due, next, err = m.Webhooks.Due(t.Context(), &e, m.Now(), 10)
			if must.Do(t, err); len(due) != 0 || !next.Equal(x.NextAt) {
				t.Errorf("after it failed again due are %+v, and the next is at %v, want %v", due, next, x.NextAt)
			}
			must.Get(m.CheckAll(t.Context()))(t)
		})
	}
}

// TestOnlyATestKeepsHowLongTheHeadWasRefused, or tests now and then would keep a poison event
// from being parked.
func TestOnlyATestKeepsHowLongTheHeadWasRefused(t *testing.T) {
	t.Parallel()
	for name := range renewedBy(t, made{}) {
		m, _, _ := failing(t)
		must.Do(t, renewedBy(t, m)[name]())
		want := webhook.Delivery{}
		if name == "an_accepted_test" {
			want = webhook.Delivery{Refused: 4, Blocked: time.Hour, Probed: time.Minute}
		}
		if h := m.now(t).Head; h.Refused != want.Refused || h.Blocked != want.Blocked || h.Probed != want.Probed {
			t.Errorf("%s leaves %+v, want %+v", name, h, want)
		}
	}
}

// TestARenewalThatChangesNothingToSeeIsNotRecorded: no event, no revision. Where nothing
// waits, nothing is written.
func TestARenewalThatChangesNothingToSeeIsNotRecorded(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"an_accepted_test", "enable_of_an_enabled_one"} {
		m, _, _ := failing(t)
		events := len(eventsAbout(t, m.Fixture))
		must.Do(t, renewedBy(t, m)[name]())
		if n := len(eventsAbout(t, m.Fixture)); n != events || m.now(t).Revision != 1 {
			t.Errorf("%s recorded %d events, and the revision is %d", name, n-events, m.now(t).Revision)
		}
		m = makeEndpoint(t)
		was := m.now(t)
		must.Do(t, renewedBy(t, m)[name]())
		if now := m.now(t); now.Turn() != was.Turn() {
			t.Errorf("%s of an endpoint that works takes its turn from %d to %d", name, was.Turn(), now.Turn())
		}
	}
}

// TestATestOfAnotherURLOrOfADisabledEndpointRenewsNothing: what it found out is not about the
// present receiver, or the endpoint is renewed when it is enabled.
func TestATestOfAnotherURLOrOfADisabledEndpointRenewsNothing(t *testing.T) {
	t.Parallel()
	m, _, _ := failing(t)
	e := m.now(t)
	e.URL += "&old"
	must.Do(t, m.Webhooks.TestAccepted(t.Context(), &e))
	if now := m.now(t); now.Renewal() != e.Renewal() {
		t.Error("a test of another URL renewed the endpoint")
	}
	e = must.Get(m.Webhooks.Disable(t.Context(), webhook.System, m.id))(t)
	must.Do(t, m.Webhooks.TestAccepted(t.Context(), &e))
	if now := m.now(t); now.Renewal() != e.Renewal() || now.Enabled() {
		t.Error("a test renewed a disabled endpoint")
	}
	must.Do(t, m.Webhooks.Delete(t.Context(), webhook.System, m.id))
	must.Do(t, m.Webhooks.TestAccepted(t.Context(), &e))
}

// TestAnEventThatDiesAtAnOldReceiverIsTriedAtTheNewOne: its last attempt was in flight when
// the URL was changed.
func TestAnEventThatDiesAtAnOldReceiverIsTriedAtTheNewOne(t *testing.T) {
	t.Parallel()
	m, parked, _ := failing(t)
	was := m.now(t)
	must.Do(t, renewedBy(t, m)["a_new_url"]())
	if _, err := m.Webhooks.Settle(t.Context(), &was, webhook.Progress{Done: []webhook.Delivery{outcome(parked, webhook.Dead)}}); err == nil {
		t.Error("a progress of the old receiver was taken whole")
	}
	e := m.now(t)
	due, _, err := m.Webhooks.Due(t.Context(), &e, m.Now(), 10)
	if must.Do(t, err); len(due) != 1 || due[0].Position != parked || e.Dead != 0 {
		t.Errorf("due are %+v, and %d are dead", due, e.Dead)
	}
	must.Get(m.CheckAll(t.Context()))(t)
}

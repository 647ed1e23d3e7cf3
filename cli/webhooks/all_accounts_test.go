package webhooks_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"tollhouse/store/eventlog"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook"
)

// Promise (Platform §6): an endpoint of all accounts is sent the events of each; one that its receiver
// refuses does not stop those of other accounts
func TestEndpointOfAllAccountsIsSentAllEvents(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	must.Do(t, s.Events.SetFeed(t.Context(), 24*time.Hour))
	record := func(account string) string {
		wire := must.Get(s.Events.RecordEvent(t.Context(), eventlog.NewEvent{
			Owner: account, Type: "plan.created", Resource: "r1", Source: "test", Location: "system", Object: snapshot.ObjectOf(),
		}))(t)
		id, _ := must.Get(snapshot.Parse(wire, 8))(t).Member("id")
		return id.Text()
	}
	in := newInbox(t)
	e, token, err := s.Webhooks.Create(t.Context(), webhook.System, eventlog.AllAccounts, webhook.Settings{URL: in.URL + "/hook"})
	must.Do(t, err)
	in.expect(token)
	poison := record("acct_0")
	in.answer = func(id string) int {
		if id == poison {
			return 422
		}
		return 200
	}
	_, stop := runStored(t, s)
	var want []string
	for i := range 6 {
		want = append(want, record(fmt.Sprint("acct_", i%3)))
	}
	got := in.wait(len(want))
	stop()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("it was sent %v, want %v", got, want)
	}
	list, _, err := s.Webhooks.Deliveries(t.Context(), webhook.System, e.ID, webhook.Filter{Event: poison, Limit: 1})
	// It is tried again as soon as its neighbour is accepted, and may be refused before the end.
	if err != nil || len(list) != 1 || list[0].State != webhook.Parked && list[0].State != webhook.Dead {
		t.Errorf("what it refused became %v, %v, want it parked or dead", list, err)
	}
}

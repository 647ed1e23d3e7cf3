package handlers_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"tollhouse/store/eventlog"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// trips is a house on a database, whose work is counted.
type trips struct {
	*house
	counted *storetest.Trips
	tokens  pair
	event   string
	pages   int
}

func newTrips(t *testing.T) *trips {
	t.Helper()
	tr := &trips{counted: storetest.NewTrips(t)}
	tr.house = houseOver(t, tr.counted.Fixture)
	wire := must.Get(tr.Events.RecordEvent(t.Context(), eventlog.NewEvent{Owner: tr.account, Type: "customer.updated", Resource: "cus_1",
		Source: "harriet.voss", Location: "dashboard", Object: snapshot.ObjectOf()}))(t)
	_, id, _ := strings.Cut(string(wire), `"evt_`)
	tr.event = "evt_" + id[:26]
	tr.tokens = wantPair(t, tr.token(t, tr.passwordForm()))
	tr.byID(t)
	tr.refresh(t)
	tr.byID(t) // the first use of a pair is recorded before it is answered
	return tr
}

func (tr *trips) get(t *testing.T, path string) {
	t.Helper()
	if a := tr.bearer(t, http.MethodGet, path, tr.tokens.AccessToken, ""); a.StatusCode != http.StatusOK {
		t.Fatalf("GET %s = %d %s, want 200", path, a.StatusCode, a.body)
	}
}

func (tr *trips) byID(t *testing.T) { tr.get(t, "/api/events/"+tr.event) }

func (tr *trips) resource(t *testing.T) { tr.get(t, "/api/resources/customer/cus_1") }

// page is never the page before, which might be kept.
func (tr *trips) page(t *testing.T) {
	tr.pages++
	tr.get(t, fmt.Sprint("/api/events?type=customer.updated&createdAt[lte]=", 1_900_000_000+tr.pages))
}

func (tr *trips) refresh(t *testing.T) {
	t.Helper()
	tr.tokens = wantPair(t, tr.token(t, tr.refreshForm(tr.tokens.RefreshToken)))
}

// Promise (Postgres §2): a request is one transaction on the database: an event by id and a resource
// with one round trip, a page and a refresh with two.
func TestARequestIsOneTransaction(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	const requests = 100
	for _, request := range []struct {
		name  string
		do    func(*trips, *testing.T)
		trips int
	}{{"by_id", (*trips).byID, 1}, {"resource", (*trips).resource, 1}, {"page", (*trips).page, 2}, {"refresh", (*trips).refresh, 2}} {
		t.Run(request.name, func(t *testing.T) {
			t.Parallel()
			before := newTrips(t).counted.Transactions(t)
			tr := newTrips(t)
			tr.counted.RoundTrips(t)
			for range requests {
				request.do(tr, t)
			}
			if got := tr.counted.RoundTrips(t); got < requests || got > requests*request.trips+requests/10 {
				t.Errorf("%d requests take %d round trips, want %d each", requests, got, request.trips)
			}
			// The store also looks every few seconds whether it is still the same database.
			if got := tr.counted.Transactions(t) - before; got < requests*8/10 || got > requests*14/10 {
				t.Errorf("%d requests take %d transactions, want one each", requests, got)
			}
		})
	}
}

// Promise (Postgres §2): a remembered client or token is never believed: what an operator has changed
// holds from the next request on.
func TestWhatIsRememberedIsNotBelieved(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	tr := newTrips(t)
	wantStatus := func(want int, a answer) {
		t.Helper()
		if a.StatusCode != want {
			t.Errorf("status = %d %s, want %d", a.StatusCode, a.body, want)
		}
	}
	refresh := func() answer { return tr.token(t, tr.refreshForm(tr.tokens.RefreshToken)) }
	byID := func() answer { return tr.bearer(t, http.MethodGet, "/api/events/"+tr.event, tr.tokens.AccessToken, "") }

	wantStatus(http.StatusUnauthorized, tr.token(t, with(tr.refreshForm(tr.tokens.RefreshToken), "client_secret", "wrong")))
	wantStatus(http.StatusBadRequest, tr.token(t, tr.refreshForm(strings.Repeat("x", 60))))
	tr.refresh(t)

	_, next, err := tr.RotateClientSecret(t.Context(), tr.client.ID, false)
	must.Do(t, err)
	tr.refresh(t) // the previous one is valid for a while
	tr.secret = next
	tr.refresh(t)

	must.Get(tr.DisableClient(t.Context(), tr.client.ID))(t)
	wantStatus(http.StatusUnauthorized, refresh())
	wantStatus(http.StatusUnauthorized, byID())
	must.Get(tr.EnableClient(t.Context(), tr.client.ID))(t)
	wantStatus(http.StatusBadRequest, refresh()) // its tokens ended

	tr.tokens = wantPair(t, tr.token(t, tr.passwordForm()))
	tr.byID(t)
	tr.refresh(t)
	must.Do(t, tr.DeleteClient(t.Context(), tr.client.ID))
	wantStatus(http.StatusUnauthorized, refresh())
	wantStatus(http.StatusUnauthorized, byID())
}

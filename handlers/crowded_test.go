package handlers_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/storetest/must"
)

// Requests that programs retry.
var refusedInCrowds = []string{"a resource", "a patch", "a deleted resource", "an endpoint", "an endpoint's new secret", "a refresh", "a replay, which revokes"}

// crowd leaves 16 refreshes and 16 changes in flight, until leave is called, and lets the engine
// tell that changes have waited too long.
func (h *house) crowd(t *testing.T) (leave func()) {
	t.Helper()
	const each = 16
	tokens := make([]pair, 2*each)
	for i := range tokens {
		tokens[i] = h.issued(t)
	}
	h.Rest()
	gate := make(chan struct{})
	var waiting atomic.Int64
	h.Faults.OnUpdate(func(run func() error) error {
		if waiting.Add(1) <= 2*each {
			<-gate
		}
		return run()
	})
	var senders sync.WaitGroup
	for i, p := range tokens {
		senders.Go(func() {
			if i < each {
				h.token(t, h.refreshForm(p.RefreshToken))
				return
			}
			h.bearer(t, http.MethodPut, fmt.Sprint("/api/resources/customer/c", i), p.AccessToken, `{}`)
		})
	}
	for begun := time.Now(); waiting.Load() < 2*each; time.Sleep(time.Millisecond) {
		if time.Since(begun) > time.Minute {
			t.Fatalf("%d changes wait, want %d", waiting.Load(), 2*each)
		}
	}
	h.Faults.Crowd()
	return func() { close(gate); senders.Wait() }
}

// Promise (RFC 6749 §5): a burst of clients waits, and none is refused; while more come than can be
// served, those who would wait too long are refused, and only for as long as that lasts
func TestWhileChangesHaveWaitedTooLong(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	for _, c := range fullCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, withDesk())
			request := c.ready(t, h)
			leave := h.crowd(t)
			defer leave()
			a := request()
			if !slices.Contains(refusedInCrowds, c.name) {
				if a.StatusCode/100 != 2 && a.StatusCode != http.StatusSeeOther {
					t.Errorf("%d %.300s, want it done: people, operators and endings are not refused", a.StatusCode, a.body)
				}
				return
			}
			if a.StatusCode != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" {
				t.Errorf("%d %.300s, want 503 with Retry-After", a.StatusCode, a.body)
			}
			h.Faults.Repair()
			if a := request(); a.StatusCode/100 != 2 {
				t.Errorf("then: %d %.300s", a.StatusCode, a.body)
			}
		})
	}
}

// A caller that sends very many changes does not crowd out the others.
func TestACrowdOfOneRefusesOne(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	other, secret := h.Client(t)
	user := h.User(t, "otto", "acct_other")
	theirs := must.Get(h.IssueForPassword(t.Context(), store.By{}, other, user, store.ScopeUnstated))(t)
	defer h.crowd(t)()
	if a := h.bearer(t, http.MethodPut, "/api/resources/customer/c1", theirs.AccessToken.Reveal(), `{}`); a.StatusCode != http.StatusCreated {
		t.Errorf("a change of another account: %d %s", a.StatusCode, a.body)
	}
	named := must.Get(h.IssueForPassword(t.Context(), store.By{}, other, h.User(t, "anna", h.client.ID), store.ScopeUnstated))(t)
	if a := h.bearer(t, http.MethodPut, "/api/resources/customer/c1", named.AccessToken.Reveal(), `{}`); a.StatusCode != http.StatusCreated {
		t.Errorf("a change of an account with the name of the client: %d %s", a.StatusCode, a.body)
	}
	h.client, h.secret = other, secret
	wantPair(t, h.token(t, h.refreshForm(theirs.RefreshToken.Reveal())))
}

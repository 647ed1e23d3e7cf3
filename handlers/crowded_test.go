package handlers_test

import (
	"net/http"
	"slices"
	"testing"
)

// What a program sends again anyway.
var refusedInCrowds = []string{"a resource", "a patch", "a deleted resource", "a refresh", "a password grant", "a replay, which revokes"}

// Promise (RFC 6749 §5): a burst of clients waits, and none is refused; while more come than can be
// served, those who would wait too long are refused, and only for as long as that lasts
func TestWhileChangesHaveWaitedTooLong(t *testing.T) {
	t.Parallel()
	for _, c := range fullCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, withDesk())
			request := c.ready(t, h)
			h.Faults.Crowd()
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

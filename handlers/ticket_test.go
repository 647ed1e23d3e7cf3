package handlers_test

import (
	"net/http"
	"strings"
	"testing"

	"tollhouse/store/storetest"
)

// TestForgedTicketsSayWhatToDo: a person with an invalid ticket reads where to start again,
// not that something broke.
//
// Promise (Browsers): a ticket expires after 30 minutes and survives a restart; no secret reaches
// the log; an audit record without secrets says what happened
func TestForgedTicketsSayWhatToDo(t *testing.T) {
	h := parallelHouse(t)
	b := h.signedIn(t, h.user)
	ticket := formOn(t, b.get(t, h.authURL())).fields.Get("ticket")
	for name, sealed := range map[string]string{
		"bent": storetest.Bent(ticket), "cut_short": ticket[:len(ticket)/2], "empty": "", "of_another_house": sealedElsewhere(t),
	} {
		t.Run(name, func(t *testing.T) {
			a := b.submit(t, b.get(t, h.authURL()), "ticket", sealed, "decision", "allow")
			if a.StatusCode != http.StatusBadRequest && a.StatusCode != http.StatusForbidden {
				t.Errorf("status = %d, want 400 or 403", a.StatusCode)
			}
			if !strings.Contains(words(t, a), "Start again from") {
				t.Errorf("the page says %q, want it to say to start again", words(t, a))
			}
		})
	}
}

// sealedElsewhere is a valid ticket of a house with another key.
func sealedElsewhere(t testing.TB) string {
	t.Helper()
	h := newHouse(t)
	return formOn(t, h.signedIn(t, h.user).get(t, h.authURL())).fields.Get("ticket")
}

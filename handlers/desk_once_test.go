package handlers_test

import (
	"net/http"
	"strings"
	"testing"

	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// TestDeskFormAtTwoServers: a form that reaches two servers of a database is done once, and
// one that was refused may be sent again to either.
//
// Promise (RFC 9110, RFC 9112): a desk form that reaches two servers of a database is done once
func TestDeskFormAtTwoServers(t *testing.T) {
	t.Parallel()
	for name, open := range storetest.SharedEngines() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbA, dbB := open(t)
			fa, fb := storetest.Two(t, dbA, dbB)
			h := houseOver(t, fa, withDesk())
			other := &house{Fixture: fb, log: &journal{}}
			other.open(fb.Store, withDesk())
			b := h.signedIn(t, h.operator(t, "olga"))
			elsewhere := *b
			elsewhere.h = other
			clients := func() int { return len(must.Get(h.ListClients(t.Context(), "", 100))(t)) }
			before := clients()

			action, fields := deskForm(t, b.get(t, "/desk/new-client"), "create-client")
			fields.Set("redirect_uris", "https://app.example/cb")
			wantStatus(t, b.post(t, action, fields), http.StatusBadRequest) // it has no name
			fields.Set("name", "Till")
			wantStatus(t, elsewhere.post(t, action, fields), http.StatusOK)
			for _, again := range []*browser{b, &elsewhere} {
				a := again.post(t, action, fields)
				if wantStatus(t, a, http.StatusConflict); strings.Contains(a.body, "data-secret") {
					t.Error("the form sent again shows a secret")
				}
			}
			if n := clients(); n != before+1 {
				t.Errorf("one form made %d clients", n-before)
			}
		})
	}
}

package handlers

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// deadlines is an answer that records whether its deadlines were lifted, and until when.
type deadlines struct {
	*httptest.ResponseRecorder
	read, write bool
	until       time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error { d.read = t.IsZero(); return nil }
func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.write, d.until = t.IsZero(), t
	return nil
}

func TestErasingIsAnsweredHoweverLongItTakes(t *testing.T) {
	a := parallelAPI(t)
	a.User(t, "bob", "acct_a")
	for _, path := range []string{"/api/platform/users/" + a.UserID(t, "bob"), "/api/platform/clients/" + a.client.ID, "/api/platform/accounts/acct_a"} {
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		a.server.Admin().ServeHTTP(w, httptest.NewRequest("DELETE", path, nil))
		if w.Code != http.StatusNoContent {
			t.Fatalf("DELETE %s = %d %s", path, w.Code, w.Body)
		}
		if !w.read || !w.write {
			t.Errorf("DELETE %s keeps the deadlines of a short request", path)
		}
	}
}

// A read deadline that passes ends a request, also while the server looks for the next lines.
func TestALongAnswerIsNotCutOffBetweenItsSteps(t *testing.T) {
	a := parallelAPI(t)
	a.User(t, "bob", "acct_a")
	a.record(t, "acct_a", "customer.created", "c1")
	for _, path := range []string{"/admin/backup", "/admin/export", "/admin/event-export?account=acct_a"} {
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		a.server.Admin().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != http.StatusOK || w.Body.Len() == 0 {
			t.Fatalf("GET %s = %d, %d bytes", path, w.Code, w.Body.Len())
		}
		if !w.read || time.Until(w.until) < time.Minute/2 {
			t.Errorf("GET %s: the deadline of reads is lifted: %t; that of writes ends at %s", path, w.read, w.until)
		}
	}
}

// Promise (Platform §3): a deletion or a search by a platform client has ten minutes, not for ever
func TestLongCallsOfPlatformClientsAreBounded(t *testing.T) {
	a := parallelAPI(t)
	a.User(t, "bob", "acct_a")
	c, _ := a.Client(t, storetest.Platform("accounts:erase", "tokens:read", "audit:read"))
	issued := must.Get(a.IssueForClient(t.Context(), store.By{}, c, "", c.Scope))(t)
	for path, method := range map[string]string{"/users/" + a.UserID(t, "bob"): "DELETE", "/clients/" + a.client.ID: "DELETE", "/authorizations": "GET", "/audit": "GET"} {
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		r := httptest.NewRequest(method, "http://127.0.0.1"+web.PlatformPath+path, nil)
		r.RemoteAddr = "127.0.0.1:4000"
		r.Header.Set("Authorization", "Bearer "+issued.AccessToken.Reveal())
		a.server.Public().ServeHTTP(w, r)
		if w.Code >= http.StatusBadRequest {
			t.Fatalf("%s %s = %d %s", method, path, w.Code, w.Body)
		}
		if left := time.Until(w.until); left < time.Minute || left > 10*time.Minute {
			t.Errorf("%s %s has %s, want more than a short request and at most ten minutes", method, path, left)
		}
	}
}

package handlers

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// deadlines is an answer that records whether its deadlines were lifted.
type deadlines struct {
	*httptest.ResponseRecorder
	read, write bool
}

func (d *deadlines) SetReadDeadline(t time.Time) error  { d.read = t.IsZero(); return nil }
func (d *deadlines) SetWriteDeadline(t time.Time) error { d.write = t.IsZero(); return nil }

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

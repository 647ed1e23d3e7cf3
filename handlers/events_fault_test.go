package handlers

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tollhouse/store"
	"tollhouse/store/record"
)

// A store that refuses work before it begins is reported as such on every route, and
// nothing changes.
func TestEventsWhileTheStoreIsUnavailable(t *testing.T) {
	a := parallelAPI(t)
	token := a.token(t, "harriet.voss", "acct_a", store.ScopeUnstated)
	a.put("/api/resources/plan/p1", token, `{"n":1}`)
	a.Faults.OnUpdate(func(func() error) error { return record.ErrUnavailable })
	for name, w := range map[string]answer{
		"put":    a.put("/api/resources/plan/p1", token, `{"n":2}`),
		"patch":  a.patch("/api/resources/plan/p1", token, `{"n":2}`),
		"delete": a.request(http.MethodDelete, "/api/resources/plan/p1", token, nil),
		"record": a.admin(http.MethodPost, "/admin/events?account=acct_a", strings.NewReader(`{"type":"plan.renewed","resource":"p1","eventData":{"object":{}}}`), "Content-Type", "application/json"),
	} {
		w.fault(t, http.StatusServiceUnavailable, "temporarily_unavailable", "")
		if w.Header().Get("Retry-After") == "" {
			t.Errorf("%s has no Retry-After", name)
		}
	}
	if last := a.importFrom(strings.NewReader(line("")), "").lastLine(t); last["error"] != "temporarily_unavailable" || last["summary"] != nil {
		t.Errorf("import ends with %v, want why it has no summary", last)
	}
	a.Faults.Repair()
	if page := a.get("/api/events", token).page(t); len(page.Data) != 1 {
		t.Errorf("%d events, want the one from before", len(page.Data))
	}
}

// Damage is a server error without detail; it is never "not found".
func TestEventsOfADamagedStore(t *testing.T) {
	a := parallelAPI(t)
	a.importLines(t, "acct_a", line(`,"id":"one"`))
	a.Faults.Break(record.ErrCorrupt)
	for _, target := range []string{"/admin/events?account=acct_a", "/admin/events/one?account=acct_a"} {
		w := a.admin(http.MethodGet, target, nil)
		w.fault(t, http.StatusInternalServerError, "server_error", "")
		if strings.Contains(w.Body.String(), "damaged") {
			t.Errorf("the answer has details: %s", w.Body)
		}
	}
}

// An interrupted export must not look like a short one.
func TestExportThatBreaksOffEndsTheConnection(t *testing.T) {
	t.Parallel()
	for target, trailer := range map[string]string{"/admin/event-export?account=acct_a": "Tollhouse-Events", "/admin/export": "Tollhouse-Lines"} {
		t.Run(target, func(t *testing.T) {
			a := parallelAPI(t)
			a.importLines(t, "acct_a", strings.Repeat(line("")+"\n", 1200))
			r := httptest.NewRequest(http.MethodGet, target, nil)
			w := &breaking{ResponseRecorder: httptest.NewRecorder(), after: func() { a.Faults.Break(record.ErrCorrupt) }}
			defer func() {
				if broken, _ := recover().(error); !errors.Is(broken, http.ErrAbortHandler) {
					t.Errorf("the handler ended with %v, want http.ErrAbortHandler", broken)
				}
				if w.Result().Trailer.Get(trailer) != "" || w.Body.Len() == 0 {
					t.Error("the export that broke off counts its lines, or had not begun")
				}
			}()
			a.server.Admin().ServeHTTP(w, r)
		})
	}
}

// breaking calls after once the first piece of a body was sent.
type breaking struct {
	*httptest.ResponseRecorder
	after func()
}

func (w *breaking) Write(b []byte) (int, error) {
	defer w.after()
	return w.ResponseRecorder.Write(b)
}

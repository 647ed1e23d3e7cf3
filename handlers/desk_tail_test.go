package handlers

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"tollhouse/handlers/api"
	"tollhouse/handlers/desk"
	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// deskLive is a server on a listener, with an operator's session.
func deskLive(t *testing.T) (l *live, cookie string) {
	t.Helper()
	f := storetest.New(t)
	client, _ := f.Client(t)
	l = listenLive(t, newAPIHouse(t, f, client, Config{Desk: &desk.Config{}}))
	f.User(t, "olga", "acct_a")
	u := must.Get(f.PromoteUser(t.Context(), "olga"))(t)
	token, _, err := f.CreateSession(t.Context(), store.By{}, u, secret.Token{}, "")
	must.Do(t, err)
	return l, "tollhouse_8080=" + token.Reveal()
}

// tail opens a live tail of the desk.
func (l *live) tail(t *testing.T, query, cookie string) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, l.url+"/desk/event-tail"+query, nil))(t)
	r.Header.Set("Cookie", cookie)
	s := &stream{must.Get(http.DefaultClient.Do(r))(t), make(chan frame, 4096), cancel}
	t.Cleanup(s.close)
	go s.read()
	return s
}

func (l *live) recordFor(t *testing.T, source string) {
	t.Helper()
	must.Get(l.Events.RecordEvent(t.Context(), eventlog.NewEvent{Owner: "acct_a", Type: "customer.created", Resource: "cus_1", Source: source, Location: "api", Object: snapshot.ObjectOf(snapshot.Member{Name: "id", Value: snapshot.Text("cus_1")})}))(t)
}

// TestDeskTail: the tail sends what the explorer shows of each new event, and ends when
// the operator is demoted. It does not keep the session alive.
func TestDeskTail(t *testing.T) {
	t.Parallel()
	l, cookie := deskLive(t)
	s := l.tail(t, "?type=customer.*&after=latest", cookie)
	if s.StatusCode != http.StatusOK || s.Header.Get("Content-Security-Policy") == "" {
		t.Fatalf("status = %d, headers %v", s.StatusCode, s.Header)
	}
	s.ready(t)
	const hostile = "<script>\u202e</script>"
	l.recordFor(t, hostile)
	f := s.next(t)
	var row map[string]any
	must.Do(t, json.Unmarshal([]byte(f.data), &row))
	if len(row) != 7 || row["changed"] != "" || row["kind"] != 3.0 || row["id"] == "" || row["type"] != "customer.created" || row["resource"] != "cus_1" || row["source"] != hostile || row["createdAt"] == nil {
		t.Errorf("the frame has %s", f.data)
	}
	if strings.Contains(f.data, "<") {
		t.Errorf("the frame holds markup: %s", f.data)
	}
	must.Get(l.DemoteUser(t.Context(), "olga"))(t)
	l.importLines(t, "acct_a", `{"type":"plan.created","resource":"q","eventData":{"object":{}},"createdAt":1000000000}`)
	l.wantEnd(t, s, api.EndTokenExpired)
}

// TestDeskTailLimit: a ninth tail is refused until one of the others ends.
func TestDeskTailLimit(t *testing.T) {
	t.Parallel()
	l, cookie := deskLive(t)
	for range desk.DeskTailsMax {
		l.tail(t, "", cookie).ready(t)
	}
	if s := l.tail(t, "", cookie); s.StatusCode != http.StatusTooManyRequests {
		t.Errorf("status = %d, want 429", s.StatusCode)
	}
}

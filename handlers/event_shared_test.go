package handlers

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"tollhouse/handlers/api"
	"tollhouse/store"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// TestFeedAtAnotherServer: a reader of the feed gets what is recorded at another server, also
// events below the head of their log, and whether or not the servers' notes arrive.
//
// Promise (Platform §6): readers of the feed at another server get each event and each backfill
// frame, also when the notes between the servers are lost
func TestFeedAtAnotherServer(t *testing.T) {
	t.Parallel()
	for name, open := range storetest.SharedEngines() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbA, dbB := open(t)
			fa, fb := storetest.Two(t, dbA, dbB)
			a, b := serveAPI(t, fa), serveAPI(t, fb)
			must.Do(t, fa.Events.SetFeed(t.Context(), feedKept))
			a.record(t, "acct_a", "plan.created", "r1")
			s := openStream(t, listenAdmin(t, b)+api.FeedPath+"?after=latest")
			s.ready(t)
			a.importLines(t, "acct_a", a.lineOf("old_1", "plan.created", "p9", time.Hour)+"\n")
			if f := s.next(t); f.event != "backfill" || !strings.HasPrefix(f.data, `{"account":"acct_a","from":"evt_`) {
				t.Errorf("after an import of history: %+v, want a backfill", f)
			}
			for _, account := range []string{"acct_b", "acct_a"} {
				a.record(t, account, "plan.created", "r2")
				if f := s.next(t); decodeObject(t, []byte(f.data))["owner"] != account {
					t.Errorf("after an event of %s: %+v", account, f)
				}
			}
		})
	}
}

// TestReadersAtAnotherServer: a reader gets what is recorded at a server that shares the
// database with its own, and a token that ended there ends here.
func TestReadersAtAnotherServer(t *testing.T) {
	t.Parallel()
	for name, open := range storetest.SharedEngines() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbA, dbB := open(t)
			fa, fb := storetest.Two(t, dbA, dbB)
			a, b := serveAPI(t, fa), listenLive(t, serveAPI(t, fb))
			token := a.token(t, "bob", "acct_a", store.ScopeUnstated)
			a.put("/api/resources/plan/p0", token, `{}`)

			s := b.open(t, "", token)
			if after, newest := s.ready(t), a.get("/api/events?limit=1", token).page(t).Next; after != newest {
				t.Fatalf("the stream begins at %s, want %s", after, newest)
			}
			last := ""
			for i := range 3 {
				a.put(fmt.Sprintf("/api/resources/plan/p%d", i+1), token, `{}`)
				types, id := s.events(t, 1)
				if types[0] != "plan.created" || id <= last {
					t.Errorf("the stream has %s %s after %s, want the next event", types[0], id, last)
				}
				last = id
			}

			answered := make(chan answer, 1)
			go func() { answered <- b.get("/api/events?order=asc&wait=55&after="+last, token) }()
			b.waitFor(t, 2)
			a.put("/api/resources/plan/p4", token, `{}`)
			if page := (<-answered).page(t); len(page.Data) != 1 {
				t.Errorf("the long poll has %d events, want the one recorded meanwhile", len(page.Data))
			}
			s.events(t, 1)

			a.importLines(t, "acct_a", a.lineOf("old_1", "plan.created", "p9", time.Hour)+"\n")
			if f := s.next(t); f.event != "backfill" {
				t.Errorf("after an import of history: %+v, want a backfill", f)
			}

			if _, err := a.DisableUser(t.Context(), "bob"); err != nil {
				t.Fatal(err)
			}
			if code := b.get("/api/events", token).Code; code != http.StatusUnauthorized {
				t.Errorf("a token of a user disabled at the other server: %d, want 401", code)
			}
		})
	}
}

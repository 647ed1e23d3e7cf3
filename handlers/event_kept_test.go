package handlers

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/storetest/must"
)

// serverBeside returns a server of the same store that has kept no pages.
func (a *apiHouse) serverBeside(t *testing.T) *apiHouse {
	t.Helper()
	return newAPIHouse(t, a.Fixture, a.client, Config{})
}

func TestAKeptPageEqualsTheOneThatTheLogHasNow(t *testing.T) {
	a := parallelAPI(t)
	a.Clock.Advance(40 * web.Day)
	mine, theirs := a.token(t, "ann", "acct_a", store.ScopeUnstated), a.token(t, "bob", "acct_b", store.ScopeUnstated)
	changes := []func(n int){
		func(n int) {
			a.put(fmt.Sprintf("/api/resources/plan/p%d", n%5), mine, fmt.Sprintf(`{"price":"%d"}`, n))
		},
		func(n int) {
			a.put(fmt.Sprintf("/api/resources/card/c%d", n%5), theirs, fmt.Sprintf(`{"digits":"%d"}`, n))
		},
		func(n int) {
			a.importLines(t, "acct_a", a.lineOf(fmt.Sprint("old-", n), "plan.updated", "p1", 10*web.Day))
		},
		func(n int) {
			a.purge(fmt.Sprintf(`{"account":"acct_a","kind":"plan","resource":"p%d"}`, n%5))
		},
		func(n int) {
			must.Do(t, a.Events.SetRetention(t.Context(), time.Duration(30-n%20)*web.Day))
			must.Get(a.TrimEvents(t.Context()))(t)
		},
		func(int) {},
	}
	questions := []string{
		"", "?type=plan.updated", "?type=plan.updated&limit=1", "?type=plan.created,card.created&order=asc", "?resource=p1",
		"?limit=2&after=latest", "?limit=1&before=" + zeroPosition, "?createdAt[lte]=99999999999", "?type=never.seen",
	}
	random := rand.New(rand.NewPCG(1, 2))
	hits := 0
	for n := range 40 {
		changes[random.IntN(len(changes))](n)
		fresh := a.serverBeside(t)
		for _, question := range questions {
			for _, token := range []string{mine, theirs} {
				for _, accept := range []string{web.AsJSON, api.AsNDJSON} {
					want := shown(fresh.get("/api/events"+question, token, "Accept", accept))
					for range 3 {
						before := len(a.server.API.Kept.Pages)
						if got := shown(a.get("/api/events"+question, token, "Accept", accept)); got != want {
							t.Fatalf("after %d changes, GET /api/events%s as %s:\n%s\nwant\n%s", n+1, question, accept, got, want)
						}
						if len(a.server.API.Kept.Pages) > before {
							hits++
						}
					}
				}
			}
		}
	}
	if hits < len(questions) {
		t.Errorf("%d pages were kept, want at least %d", hits, len(questions))
	}
}

func TestAPageIsKeptWhenItIsRequestedAgainUnchanged(t *testing.T) {
	a := parallelAPI(t)
	token := a.token(t, "ann", "acct_a", store.ScopeUnstated)
	for n, want := range []int{0, 1, 1} {
		if a.get("/api/events?type=plan.created", token); len(a.server.API.Kept.Pages) != want {
			t.Errorf("after %d requests %d pages are kept, want %d", n+1, len(a.server.API.Kept.Pages), want)
		}
	}
	for n := range 3 {
		a.put("/api/resources/plan/p1", token, fmt.Sprintf(`{"price":"%d"}`, n))
		if a.get("/api/events?type=plan.created", token); len(a.server.API.Kept.Pages) != 0 {
			t.Error("a page of a log that changes between all requests is kept")
		}
	}
}

func TestDevKeepsNoPages(t *testing.T) {
	a := parallelAPI(t)
	a.server.Site.Testers = true
	q := api.EventQuery{Filter: eventlog.Filter{Limit: 1}}
	for range 3 {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/events", nil)
		must.Do(t, a.server.API.WritePage(w, r, "acct_a", "/api/events", web.AsJSON, &q, "question"))
		if w.Code != http.StatusOK || len(a.server.API.Kept.Pages) != 0 {
			t.Errorf("dev answers %d and keeps %d pages, want 200 and none", w.Code, len(a.server.API.Kept.Pages))
		}
	}
}

func TestKeptPagesAreBounded(t *testing.T) {
	t.Parallel()
	k := api.NewKeptPages()
	page := api.KeptPage{Page: eventlog.Page{Version: eventlog.Version{Generation: 1}}, Body: make([]byte, 90<<10)}
	for n := range 200 {
		question := fmt.Sprint("question ", n)
		k.Keep(question, page)
		k.Keep(question, page)
		if k.Find(question) == nil {
			t.Fatalf("%s is not kept", question)
		}
	}
	size := 0
	for _, p := range k.Pages {
		size += cap(p.Body)
	}
	if size != k.Size || size > api.KeptSizeMax || size < api.KeptSizeMax/2 {
		t.Errorf("%d bytes are kept and %d counted, want at most %d", size, k.Size, api.KeptSizeMax)
	}
	large := page
	large.Body = make([]byte, api.KeptPageSizeMax+1)
	k.Keep("large", large)
	k.Keep("large", large)
	if k.Find("large") != nil {
		t.Error("a page beyond the bound is kept")
	}
}

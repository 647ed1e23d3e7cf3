package handlers

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/kv"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// TestHotRequestsStayNearTheirFloors compares what most requests ask for with bare handlers
// of the same process, which answer as much or commit as much. The bounds are some five times
// what is usual, so only a mistake exceeds them: an index that is not used, a password's hash,
// a row that is decoded again.
func TestHotRequestsStayNearTheirFloors(t *testing.T) {
	must.SkipInShort(t)
	a := serveAPI(t, storetest.OnDisk(t))
	access := a.benchEvents(t, 3000)
	ours := benchServer(t, a.server.Public())
	const list = "/api/events?type=customer.created&limit=100"
	page := fetch(t, ours, list, access)
	one := "/api/events/" + decodePage(t, page).Data[0].ID

	floors := http.NewServeMux()
	floors.HandleFunc("/page", func(w http.ResponseWriter, _ *http.Request) {
		web.WriteBody(w, http.StatusOK, "application/json", page)
	})
	floors.HandleFunc("/empty", func(http.ResponseWriter, *http.Request) {})
	floors.HandleFunc("/commit", func(w http.ResponseWriter, r *http.Request) {
		must.Do(t, r.ParseForm())
		must.Do(t, a.DB.Update(r.Context(), func(tx kv.Txn) error {
			return tx.Set([]byte("floor"), make([]byte, 300), time.Time{})
		}))
	})
	floor := benchServer(t, floors)

	client, sec := a.Client(t)
	issued := must.Get(a.IssueForPassword(context.Background(), store.By{}, client, a.User(t, "mara", "acct_floor"), store.ScopeUnstated))(t)
	form := url.Values{"grant_type": {"refresh_token"}, "client_id": {client.ID}, "client_secret": {sec.Reveal()}, "refresh_token": {issued.RefreshToken.Reveal()}}
	post := func(server *httptest.Server, path string) string {
		answer := must.Get(server.Client().Post(server.URL+path, "application/x-www-form-urlencoded", strings.NewReader(form.Encode())))(t)
		defer func() { _ = answer.Body.Close() }()
		body := must.Get(io.ReadAll(answer.Body))(t)
		if answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %s", path, answer.StatusCode, body)
		}
		return string(body)
	}

	before := benchFirst + 3000
	for _, c := range []struct {
		name        string
		most        float64
		ours, floor func()
	}{
		{
			"a_page_of_100", 20,
			func() { before++; fetch(t, ours, fmt.Sprint(list, "&createdAt[lte]=", before), access) }, // as a page that repeats is kept
			func() { fetch(t, floor, "/page", access) },
		},
		{"an_event_by_id", 15, func() { fetch(t, ours, one, access) }, func() { fetch(t, floor, "/empty", access) }},
		{
			"a_rotation", 10,
			func() {
				_, rest, _ := strings.Cut(post(ours, "/oauth/v2/token"), `"refresh_token":"`)
				token, _, _ := strings.Cut(rest, `"`)
				form.Set("refresh_token", token)
			},
			func() { post(floor, "/commit") },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			ten := func(do func()) storetest.Work {
				return storetest.Timed(func() {
					for range 10 {
						do()
					}
				})
			}
			c.ours() // what is kept is kept now
			var p storetest.Pairs
			for range 5 { // other packages' tests may run beside the first pairs
				for range 6 {
					p.Take(ten(c.ours), ten(c.floor))
				}
				if p.FastRatio() <= c.most {
					break
				}
			}
			t.Logf("%.2f times its floor", p.FastRatio())
			if p.FastRatio() > c.most {
				t.Errorf("it takes %.1f times as long as its floor, want at most %.0f", p.FastRatio(), c.most)
			}
		})
	}
}

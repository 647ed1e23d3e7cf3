package handlers_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest/must"
)

// TestAListOfASecondThatHasEndedWaitsForTheCommitInFlight: every form of the list, also
// one that would be answered 304 or from a kept page.
//
// Promise (§2.2): a second that was listed after its end stays as it was, also with two servers;
// the list waits at most a second
func TestAListOfASecondThatHasEndedWaitsForTheCommitInFlight(t *testing.T) {
	must.SkipInShort(t)
	h, b := deskHouse(t)
	bearer := header("Authorization", "Bearer "+h.pair(t).AccessToken)
	api := func(query string, change ...func(*http.Request)) func(at int64) answer {
		return func(at int64) answer {
			return h.get(t, fmt.Sprintf("%s?createdAt=%d%s", apiPath, at, query), append(change, bearer)...)
		}
	}
	tag := ""
	ifNewer := func(r *http.Request) { r.Header.Set("If-None-Match", tag) }
	for name, list := range map[string]func(at int64) answer{
		"page":      api(""),
		"by_type":   api("&type=plan.*"),
		"ascending": api("&order=asc"),
		"ndjson":    api("", header("Accept", "application/x-ndjson")),
		"poll":      api("", ifNewer),
		"long_poll": api("&order=asc&wait=1"),
		"range": func(at int64) answer {
			return h.get(t, fmt.Sprintf("%s?createdAt[gte]=%d&createdAt[lt]=%d", apiPath, at, at+1), bearer)
		},
		"admin": func(at int64) answer {
			return h.admin(t, http.MethodGet, fmt.Sprintf("/admin/events?account=%s&createdAt=%d", h.account, at), "")
		},
		"desk":     func(at int64) answer { return b.get(t, fmt.Sprintf("/desk/events?createdAt=%d", at)) },
		"desk_raw": func(at int64) answer { return b.get(t, fmt.Sprintf("/desk/event-list?createdAt=%d", at)) },
	} {
		t.Run(name, func(t *testing.T) {
			h.Clock.Advance(5 * time.Second)
			at := h.Clock.Now().Unix()
			for range 3 { // which keeps the page
				tag = api("")(at).Header.Get("ETag")
				list(at)
			}
			resource := "plan_" + name
			recorded, commit, committed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			go func() {
				committed <- h.DB.Update(context.Background(), func(tx kv.Txn) error {
					_, err := h.Events.AppendEvent(tx, eventlog.NewEvent{Owner: h.account, Type: "plan.created", Resource: resource, Object: snapshot.ObjectOf()}, [8]byte{})
					close(recorded)
					<-commit
					return err
				})
			}()
			<-recorded
			h.Clock.Advance(time.Second)
			go func() {
				time.Sleep(50 * time.Millisecond)
				close(commit)
			}()
			w := list(at)
			if err := <-committed; err != nil {
				t.Fatal(err)
			}
			if w.StatusCode != http.StatusOK || !strings.Contains(w.body, resource) {
				t.Errorf("the list is %d and lacks the event of its second: %.400s", w.StatusCode, w.body)
			}
		})
	}
}

package handlers

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/storetest/must"
)

// lineOf is an event of that age as a line of an import.
func (a *apiHouse) lineOf(id, typ, resource string, age time.Duration) string {
	return fmt.Sprintf(`{"id":"%s","type":"%s","resource":"%s","eventData":{"object":{}},"createdAt":%d}`+"\n", id, typ, resource, a.Now().Add(-age).Unix())
}

// idOf is a native id of that age; n distinguishes ids of one age.
func (a *apiHouse) idOf(age time.Duration, n byte) string {
	var p record.Position
	for i, millis := 5, a.Now().Add(-age).Unix()*1000; i >= 0; i, millis = i-1, millis>>8 {
		p[i] = byte(millis)
	}
	p[15] = n
	return p.String()
}

// retain sets the retention, and removes older events at once.
func (a *apiHouse) retain(t *testing.T, kept time.Duration, removed int) {
	t.Helper()
	must.Do(t, a.Events.SetRetention(context.Background(), kept))
	if n, err := a.TrimEvents(context.Background()); n != removed || err != nil {
		t.Fatalf("TrimEvents() = %d, %v, want %d removed", n, err, removed)
	}
}

func TestIDPastRetention(t *testing.T) {
	a := parallelAPI(t)
	own, invented, young := a.idOf(10*web.Day, 1), a.idOf(10*web.Day, 2), a.idOf(2*web.Day, 1)
	theirs, there := a.idOf(9*web.Day, 1), a.idOf(4*web.Day, 1)
	a.importLines(t, "acct_a", a.lineOf(own, "plan.created", "p1", 10*web.Day)+a.lineOf("old-one", "plan.created", "p2", 10*web.Day)+a.lineOf(there, "plan.updated", "p1", 4*web.Day))
	a.importLines(t, "acct_b", a.lineOf(theirs, "plan.created", "p1", 9*web.Day))
	mine, others := a.token(t, "ann", "acct_a", store.ScopeUnstated), a.token(t, "bob", "acct_b", store.ScopeUnstated)
	a.retain(t, 5*web.Day, 3)
	// The last one expires between two removals.
	a.Clock.Advance(30 * time.Minute)
	must.Do(t, a.Events.SetRetention(context.Background(), 3*web.Day))
	t.Run("an_id_past_retention_is_410_for_everyone_known_or_not", func(t *testing.T) {
		gone := a.get("/api/events/"+own, mine)
		gone.fault(t, http.StatusGone, "event_expired", "")
		for _, id := range []string{own, invented, theirs, there, "evt_00000000000000000000000000"} {
			for _, token := range []string{mine, others} {
				if w := a.get("/api/events/"+id, token); w.Code != http.StatusGone || !bytes.Equal(w.Body.Bytes(), gone.Body.Bytes()) {
					t.Errorf("GET %s = %d %s, want %s", id, w.Code, w.Body, gone.Body)
				}
				if w := a.request(http.MethodHead, "/api/events/"+id, token, nil); w.Code != http.StatusGone {
					t.Errorf("HEAD %s = %d, want 410", id, w.Code)
				}
				if w := a.get("/api/events/"+id, token, "If-None-Match", `"`+id+`"`); w.Code != http.StatusGone {
					t.Errorf("GET %s with its ETag = %d, want 410: it may have to be forgotten there too", id, w.Code)
				}
			}
		}
		a.admin(http.MethodGet, "/admin/events/"+own+"?account=acct_a", nil).fault(t, http.StatusGone, "event_expired", "")
	})
	t.Run("a_younger_unknown_id_and_a_foreign_one_are_404", func(t *testing.T) {
		for _, id := range []string{young, "old-one", "no-such"} {
			a.get("/api/events/"+id, mine).fault(t, http.StatusNotFound, "not_found", "")
		}
	})
	t.Run("a_line_below_the_horizon_is_refused", func(t *testing.T) {
		w := a.admin(http.MethodPost, "/admin/events/import?account=acct_c", strings.NewReader(a.lineOf("late", "plan.created", "p1", 3*web.Day+time.Second)), "Content-Type", "application/x-ndjson")
		first, _, _ := bytes.Cut(w.Body.Bytes(), []byte("\n"))
		if fault := decodeObject(t, first); fault["error"] != "invalid_event" || fault["param"] != "createdAt" || w.lastLine(t)["errors"] != 1.0 {
			t.Errorf("import = %s, want invalid_event on createdAt", w.Body)
		}
		a.importLines(t, "acct_c", a.lineOf("in-time", "plan.created", "p1", 3*web.Day))
	})
}

// Promise (§2.1): any id is a position; an unknown foreign one is refused; one past retention is
// 410 with oldestAvailable
func TestCursorBehindRetention(t *testing.T) {
	a := parallelAPI(t)
	token := a.token(t, "ann", "acct_a", store.ScopeUnstated)
	ids := []string{a.idOf(10*web.Day, 1), a.idOf(9*web.Day, 1), a.idOf(2*web.Day, 1), a.idOf(web.Day, 1)}
	lines := a.lineOf("foreign", "plan.created", "p9", 9*web.Day)
	for i, age := range []time.Duration{10, 9, 2, 1} {
		lines += a.lineOf(ids[i], "plan.created", fmt.Sprint("p", i), age*web.Day)
	}
	a.importLines(t, "acct_a", lines)
	if w := a.get("/api/events?order=asc&after="+ids[0], token); w.Code != http.StatusOK {
		t.Fatalf("before anything was removed: %d %s", w.Code, w.Body)
	}
	// The foreign one is before or after ids[1]; both will be removed.
	lastOld := a.get(fmt.Sprintf("/api/events?limit=1&createdAt=%d", a.Now().Add(-9*web.Day).Unix()), token).page(t).Next
	tag := a.get("/api/events", token).Header().Get("ETag")
	a.retain(t, 5*web.Day, 3)
	list := "/api/events?order=asc&after="
	t.Run("ascending_from_a_place_older_than_what_was_removed_is_410_with_oldestAvailable", func(t *testing.T) {
		for _, after := range []string{"evt_00000000000000000000000000", ids[0], a.idOf(9*web.Day+time.Hour, 1)} {
			for _, filter := range []string{"", "&type=plan.created", "&type=plan.created,plan.updated", "&limit=1"} {
				body := a.get(list+after+filter, token).fault(t, http.StatusGone, "cursor_expired", "after")
				if body["oldestAvailable"] != ids[2] {
					t.Errorf("oldestAvailable = %v, want %s", body["oldestAvailable"], ids[2])
				}
				if want := "after is too old: events that follow it have been removed because the retention period is over; the oldest event left is " + ids[2] + "."; body["error_description"] != want {
					t.Errorf("refused with %q, want %q", body["error_description"], want)
				}
			}
		}
	})
	t.Run("a_reader_who_missed_nothing_continues", func(t *testing.T) {
		for _, after := range []string{lastOld, a.idOf(3*web.Day, 1)} {
			if got := a.get(list+after, token).page(t).ids(); fmt.Sprint(got) != fmt.Sprint(ids[2:]) {
				t.Errorf("after %s: %v, want %v", after, got, ids[2:])
			}
		}
	})
	t.Run("retention_ends_what_the_ETag_of_a_list_confirmed", func(t *testing.T) {
		if w := a.get("/api/events", token, "If-None-Match", tag); tag == "" || w.Code != http.StatusOK {
			t.Errorf("a page with the ETag %q of before = %d, want 200", tag, w.Code)
		}
	})
	t.Run("descending_and_before_just_end", func(t *testing.T) {
		for _, query := range []string{"after=" + ids[0], "before=" + ids[3] + "&order=asc"} {
			a.get("/api/events?"+query, token).page(t)
		}
	})
	t.Run("the_cursor_of_a_removed_foreign_id_is_invalid", func(t *testing.T) {
		a.get(list+"foreign", token).fault(t, http.StatusBadRequest, "invalid_cursor", "after")
	})
	t.Run("no_list_has_what_retention_removed", func(t *testing.T) {
		for _, query := range []string{"", "?order=asc", "?type=plan.created", "?createdAt[lte]=" + fmt.Sprint(a.Now().Unix())} {
			got := a.get("/api/events"+query, token).page(t).ids()
			if query != "?order=asc" {
				got[0], got[1] = got[1], got[0]
			}
			if fmt.Sprint(got) != fmt.Sprint(ids[2:]) {
				t.Errorf("GET /api/events%s = %v, want %v", query, got, ids[2:])
			}
		}
	})
	t.Run("when_none_is_left_oldestAvailable_is_where_all_has_been_seen", func(t *testing.T) {
		a.retain(t, web.Day, 1)
		a.Clock.Advance(time.Minute)
		a.retain(t, web.Day, 1)
		again, err := a.IssueForPassword(context.Background(), store.By{}, a.client, a.User(t, "bob", "acct_a"), store.ScopeUnstated)
		must.Do(t, err)
		token := again.AccessToken.Reveal()
		body := a.get(list+ids[2], token).fault(t, http.StatusGone, "cursor_expired", "after")
		if page := a.get(list+body["oldestAvailable"].(string), token).page(t); len(page.Data) != 0 || page.HasMore {
			t.Errorf("after oldestAvailable: %+v, want nothing yet", page)
		}
	})
}

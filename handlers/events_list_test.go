package handlers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/storetest/must"
)

// TestListEvents: what each filter means is in TestParseEventQueryTypes and its neighbours, and
// which events it matches in eventlog.TestListEventsIsTheModels.
//
// Promise (§2.1): nextCursor is a position: the last row's, on an empty page where to continue, in
// an empty log zero; previousCursor the first row's, or nextCursor
// Promise (§2.1): any id is a position; an unknown foreign one is refused; one past retention is
// 410 with oldestAvailable
// Promise (§2.1): limit, order, after and before; latest only for after; both cursors are refused;
// a page has 50 events or 1 to 1000 on request
// Promise (§2.1): other limits are refused, never clamped; the order is total: newest first, asc on
// request; a cursor works with any filters
func TestListEvents(t *testing.T) {
	t.Parallel()
	a, token := newGoldenAPI(t)
	all := []string{goldenFourth, goldenThird, goldenSecond, goldenFirst} // newest first
	tests := []struct {
		name, query string
		want        []string
		wantMore    bool
		wantNext    string
		wantPrev    string
	}{
		{"newest_first_by_default", "", all, false, goldenFirst, goldenFourth},
		{"order_desc", "?order=desc", all, false, goldenFirst, goldenFourth},
		{"order_asc", "?order=asc", reversed(all), false, goldenFourth, goldenFirst},
		{"limit", "?limit=3", all[:3], true, goldenSecond, goldenFourth},
		{"limit_of_all", "?limit=4", all, false, goldenFirst, goldenFourth},
		{"after_desc", "?after=" + goldenThird, all[2:], false, goldenFirst, goldenSecond},
		{"after_asc", "?order=asc&after=" + goldenSecond, []string{goldenThird, goldenFourth}, false, goldenFourth, goldenThird},
		{"before_desc_has_the_rows_just_before", "?limit=1&before=" + goldenSecond, []string{goldenThird}, true, goldenThird, goldenThird},
		{"before_desc_in_the_order_asked_for", "?before=" + goldenSecond, []string{goldenFourth, goldenThird}, false, goldenThird, goldenFourth},
		{"before_asc_has_the_rows_just_before", "?order=asc&limit=2&before=" + goldenFourth, []string{goldenSecond, goldenThird}, true, goldenThird, goldenSecond},
		{"before_asc_all", "?order=asc&before=" + goldenFourth, []string{goldenFirst, goldenSecond, goldenThird}, false, goldenThird, goldenFirst},
		{"cursor_of_no_event_is_a_place", "?order=asc&after=evt_01kk9kgbjj0001000000000000", []string{goldenSecond, goldenThird, goldenFourth}, false, goldenFourth, goldenSecond},
		{"cursor_with_filters", "?type=customer.updated,customer.created&after=" + goldenThird, []string{goldenSecond, goldenFirst}, false, goldenFirst, goldenSecond},
		{"after_latest_asc", "?order=asc&after=latest", nil, false, goldenFourth, goldenFourth},
		{"after_latest_desc", "?after=latest", all[1:], false, goldenFirst, goldenThird},
		{"empty_page_asc_continues_at_the_head", "?order=asc&type=customer.created&after=" + goldenFirst, nil, false, goldenFourth, goldenFourth},
		{"empty_page_asc_never_below_the_cursor", "?order=asc&after=evt_7zzzzzzzzzzzzzzzzzzzzzzzzz", nil, false, "evt_7zzzzzzzzzzzzzzzzzzzzzzzzz", "evt_7zzzzzzzzzzzzzzzzzzzzzzzzz"},
		{"empty_page_desc_continues_at_the_cursor", "?after=" + goldenFirst, nil, false, goldenFirst, goldenFirst},
		{"empty_page_desc_without_a_cursor_continues_at_the_head", "?createdAt=5", nil, false, goldenFourth, goldenFourth},
		{"union_of_types_asc", "?order=asc&limit=2&type=account.autoupdate,customer.updated,customer.created", []string{goldenFirst, goldenSecond}, true, goldenSecond, goldenFirst},
		{"exact_second_matches_many", "?createdAt=1773070200", []string{goldenThird, goldenSecond}, false, goldenSecond, goldenThird},
		{"range_and_type", "?createdAt[lte]=1773070200&type=customer.updated,account.autoupdate", all[2:3], false, goldenSecond, goldenSecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			page := a.get("/api/events"+tt.query, token).page(t)
			if got := page.ids(); !slices.Equal(got, tt.want) {
				t.Errorf("events = %q, want %q", got, tt.want)
			}
			if page.HasMore != tt.wantMore || page.Next != tt.wantNext || page.Prev != tt.wantPrev {
				t.Errorf("hasMore, next, previous = %v, %s, %s; want %v, %s, %s", page.HasMore, page.Next, page.Prev, tt.wantMore, tt.wantNext, tt.wantPrev)
			}
		})
	}
}

func reversed(ids []string) []string {
	back := slices.Clone(ids)
	slices.Reverse(back)
	return back
}

// Promise (§2.1): nextCursor is a position: the last row's, on an empty page where to continue, in
// an empty log zero; previousCursor the first row's, or nextCursor
func TestListEventsOfAnEmptyLog(t *testing.T) {
	a := parallelAPI(t)
	token := a.token(t, "bob", "acct_a", store.ScopeUnstated)
	for _, query := range []string{"", "?order=asc", "?order=asc&after=latest", "?after=latest", "?type=customer.created"} {
		t.Run("an_empty_log_is_at_zero"+query, func(t *testing.T) {
			t.Parallel()
			page := a.get("/api/events"+query, token).page(t)
			if len(page.Data) != 0 || page.Data == nil || page.HasMore || page.Next != zeroPosition || page.Prev != zeroPosition {
				t.Errorf("page = %+v, want an empty one at %s", page, zeroPosition)
			}
		})
	}
	t.Run("after_latest_on_a_quiet_log_loses_nothing", func(t *testing.T) {
		b := parallelAPI(t)
		token := b.token(t, "bob", "acct_a", store.ScopeUnstated)
		cursor := b.get("/api/events?order=asc&after=latest", token).page(t).Next
		b.put("/api/resources/plan/p1", token, `{}`)
		if page := b.get("/api/events?order=asc&after="+cursor, token).page(t); len(page.Data) != 1 {
			t.Errorf("the page has %d events, want the one that was recorded", len(page.Data))
		}
	})
}

// Promise (§2.3): answers are private, no-cache, and vary by token and Accept headers; HEAD has the
// headers of GET
// Promise (§2.3): a path has one spelling; nothing redirects; other methods are 405 with Allow;
// lists say when to poll again
// Promise (§2.3): JSON, NDJSON and event streams by Accept; else 406
func TestListEventsHeaders(t *testing.T) {
	t.Parallel()
	a, token := newGoldenAPI(t)
	w := a.get("/api/events", token)
	want := map[string]string{
		"Content-Type": "application/json", "Cache-Control": "private, no-cache", "Vary": "Authorization, Accept, Accept-Encoding, Tollhouse-Account",
		"Tollhouse-Poll-After": "1", "X-Content-Type-Options": "nosniff", "Content-Length": strconv.Itoa(w.Body.Len()),
		"Link": "", "Tollhouse-Notice": "",
	}
	for name, value := range want {
		if got := w.Header().Get(name); got != value {
			t.Errorf("header %s = %q, want %q", name, got, value)
		}
	}
	t.Run("HEAD_has_the_headers_of_GET", func(t *testing.T) {
		t.Parallel()
		for _, target := range []string{"/api/events?limit=2", "/api/events/" + goldenFirst, "/api/resources/customer", "/api/resources/customer/cus_4tn8k2w1"} {
			get, head := a.get(target, token), a.request(http.MethodHead, target, token, nil)
			if head.Code != http.StatusOK {
				t.Errorf("HEAD %s = %d", target, head.Code)
			}
			for name := range get.Header() {
				if name != "X-Request-Id" && !slices.Equal(get.Header()[name], head.Header()[name]) {
					t.Errorf("HEAD %s: %s = %q, want %q", target, name, head.Header()[name], get.Header()[name])
				}
			}
		}
	})
	t.Run("other_methods_are_405", func(t *testing.T) {
		t.Parallel()
		for _, target := range []string{"/api/events", "/api/events/" + goldenFirst} {
			for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND"} {
				w := a.request(method, target, token, nil)
				w.fault(t, http.StatusMethodNotAllowed, "invalid_request", "")
				allow := strings.Split(w.Header().Get("Allow"), ", ")
				slices.Sort(allow)
				if !slices.Equal(allow, []string{"GET", "HEAD", "OPTIONS"}) {
					t.Errorf("%s %s: Allow = %q", method, target, allow)
				}
			}
		}
	})
	t.Run("another_spelling_of_the_path_is_404", func(t *testing.T) {
		t.Parallel()
		for _, target := range []string{"/api/events/", "/API/events", "//api/events", "/api//events"} {
			a.get(target, token).fault(t, http.StatusNotFound, "not_found", "")
		}
	})
	t.Run("accept", func(t *testing.T) {
		t.Parallel()
		for accept, want := range map[string]int{
			"": 200, "*/*": 200, "application/json": 200, "application/*": 200, "text/html, */*;q=0.8": 200, "Application/JSON; charset=utf-8": 200,
			"application/x-ndjson": 200, "text/html": 406, "text/event-stream;q=0": 406, "application/json;q=0": 406, "*/*;q=0": 406, "application/*, application/json;q=0, application/x-ndjson;q=0": 406,
		} {
			if w := a.get("/api/events", token, "Accept", accept); w.Code != want {
				t.Errorf("Accept %q = %d, want %d", accept, w.Code, want)
			}
		}
	})
	t.Run("scope_lacks_events_read", func(t *testing.T) {
		t.Parallel()
		narrow := a.token(t, "narrow", goldenAccount, store.ScopeResourcesRead)
		for _, target := range []string{"/api/events", "/api/events/" + goldenFirst} {
			w := a.get(target, narrow)
			w.fault(t, http.StatusForbidden, "insufficient_scope", "")
			if got := w.Header().Get("WWW-Authenticate"); got != `Bearer realm="tollhouse", error="insufficient_scope", scope="events:read"` {
				t.Errorf("WWW-Authenticate = %q", got)
			}
		}
	})
}

// Promise (§2.1): Link has next if there is more, prev and first if a cursor was sent
func TestListEventsLinks(t *testing.T) {
	t.Parallel()
	a, token := newGoldenAPI(t)
	tests := []struct{ name, query, want string }{
		{"the_last_page_has_none", "", ""},
		{"next_when_more_follow", "?limit=2", `</api/events?limit=2&after=` + goldenThird + `>; rel="next"`},
		{"prev_and_first_when_a_cursor_was_sent", "?after=" + goldenThird, `</api/events?before=` + goldenSecond + `>; rel="prev", </api/events>; rel="first"`},
		{"brackets_are_encoded", "?createdAt[gte]=1&limit=3&type[0]=customer.updated,customer.created,account.autoupdate&after=latest", `</api/events?createdAt%5Bgte%5D=1&limit=3&type%5B0%5D=customer.updated%2Ccustomer.created%2Caccount.autoupdate&before=` + goldenSecond + `>; rel="prev", </api/events?createdAt%5Bgte%5D=1&limit=3&type%5B0%5D=customer.updated%2Ccustomer.created%2Caccount.autoupdate>; rel="first"`},
		{"all_three_in_the_middle", "?limit=1&after=" + goldenFourth, `</api/events?limit=1&after=` + goldenThird + `>; rel="next", </api/events?limit=1&before=` + goldenThird + `>; rel="prev", </api/events?limit=1>; rel="first"`},
		{"next_leads_back_from_a_page_before", "?before=" + goldenThird, `</api/events?after=` + goldenFourth + `>; rel="next", </api/events?before=` + goldenFourth + `>; rel="prev", </api/events>; rel="first"`},
	}
	for _, tt := range tests {
		t.Run("link_"+tt.name, func(t *testing.T) {
			t.Parallel()
			if got := a.get("/api/events"+tt.query, token).Header().Get("Link"); got != tt.want {
				t.Errorf("Link = %s\nwant %s", got, tt.want)
			}
		})
	}
	t.Run("following_next_reaches_every_event_once", func(t *testing.T) {
		t.Parallel()
		var ids []string
		target := "/api/events?limit=1"
		for target != "" {
			w := a.get(target, token)
			ids = append(ids, w.page(t).ids()...)
			target = ""
			for link := range strings.SplitSeq(w.Header().Get("Link"), ", ") {
				if path, ok := strings.CutSuffix(link, `>; rel="next"`); ok {
					target = path[1:]
				}
			}
		}
		if want := []string{goldenFourth, goldenThird, goldenSecond, goldenFirst}; !slices.Equal(ids, want) {
			t.Errorf("walked %q, want %q", ids, want)
		}
	})
}

// Filters by wildcard and resource reach the log, and notices name what matches nothing.
//
// Promise (§2.2): every spelling of a list of types is one filter: a union without duplicates, at
// most 50; resource= filters by up to 20 resources
func TestListEventsByPatternAndResource(t *testing.T) {
	t.Parallel()
	a, token := newGoldenAPI(t)
	a.importLines(t, goldenAccount, `{"type":"plan.created","resource":"cus_4tn8k2w1","eventData":{"object":{}},"createdAt":1773066601}
{"type":"plan.retired","resource":"p1","source":"a \"quoted\" \\ name","eventData":{"object":{}},"createdAt":1773066601}`)
	tests := []struct {
		name, query string
		types       []string // newest first
		notice      string
	}{
		{"all_with_one_that_is_not", "?type=*,nothing.there&limit=1", []string{"account.autoupdate"}, ""},
		{"most_of_the_log", "?type=customer.*,account.*,plan.*,nothing.*", []string{"account.autoupdate", "customer.updated", "plan.retired", "plan.created", "customer.created"}, `no event has type "nothing.*"`},
		{"of_nothing", "?type=plans.*", nil, `no event has type "plans.*"; nearest: plan.*`},
		{"of_no_action", "?type=*.create", nil, `no event has type "*.create"; nearest: *.created`},
		{"resources_and_a_pattern", "?resource=cus_4tn8k2w1,p1&type=*.created,plan.retired", []string{"plan.retired", "plan.created", "customer.created"}, ""},
	}
	for _, tt := range tests {
		t.Run("choose_"+tt.name, func(t *testing.T) {
			t.Parallel()
			w := a.get("/api/events"+tt.query, token)
			var types []string
			for _, e := range w.page(t).Data {
				types = append(types, e.Type)
			}
			if !slices.Equal(types, tt.types) || w.Header().Get("Tollhouse-Notice") != tt.notice {
				t.Errorf("types = %q, %q; want %q, %q", types, w.Header().Get("Tollhouse-Notice"), tt.types, tt.notice)
			}
		})
	}
}

// Promise (§2.2): a well-formed unused type is an empty page with a notice of the nearest
func TestListEventsNotices(t *testing.T) {
	t.Parallel()
	a, token := newGoldenAPI(t)
	tests := []struct {
		name, query string
		want        []string
	}{
		{"a_type_that_no_event_has", "?type=customer.update", []string{`no event has type "customer.update"; nearest: customer.updated`}},
		{"one_that_is_like_none", "?type=deposit.settled", []string{`no event has type "deposit.settled"`}},
		{"one_like_a_type_of_the_catalogue", "?type=deposit.setled", []string{`no event has type "deposit.setled"; nearest: deposit.settled`}},
		{"one_of_several", "?type=customer.created,customer.crated", []string{`no event has type "customer.crated"; nearest: customer.created`}},
		{"a_known_type_without_a_match", "?type=customer.created&createdAt=5", nil},
		{"a_known_type", "?type=customer.created", nil},
	}
	for _, tt := range tests {
		t.Run("notice_"+tt.name, func(t *testing.T) {
			t.Parallel()
			w := a.get("/api/events"+tt.query, token)
			w.page(t)
			if got := w.Header().Values("Tollhouse-Notice"); !slices.Equal(got, tt.want) {
				t.Errorf("Tollhouse-Notice = %q, want %q", got, tt.want)
			}
		})
	}
}

// Promise (Attacks on the events API): another account's event by id; invalid ids
// Promise (§2.3): an unknown, malformed or foreign id is the same 404, byte for byte; an event's
// ETag is its id with a mark of the account, strong
func TestFindEvent(t *testing.T) {
	t.Parallel()
	a, token := newGoldenAPI(t)
	a.importLines(t, goldenAccount, `{"id":"ev-foreign_7","type":"plan.created","resource":"p1","eventData":{"object":{}},"createdAt":1773066601}`)
	stranger := a.token(t, "stranger", "acct_other", store.ScopeUnstated)
	absent := a.get("/api/events/"+zeroPosition, token)
	absent.fault(t, http.StatusNotFound, "not_found", "")
	tests := []struct{ name, id, token string }{
		{"another_owners", goldenFirst, stranger},
		{"another_owners_foreign_id", "ev-foreign_7", stranger},
		{"malformed", "nonsense!", token},
		{"in_capitals", strings.ToUpper(goldenFirst), token},
		{"unknown_foreign_id", "ev-foreign_8", token},
		{"nul", "a%00b", token},
		{"no_utf8", "%ff%fe", token},
		{"encoded_slash_in_an_encoded_percent", "a%252fb", token},
		{"of_65_KB", strings.Repeat("a", 65<<10), token},
		{"of_65_characters", strings.Repeat("a", 65), token},
		{"truncated", goldenFirst[:29], token},
	}
	for _, tt := range tests {
		t.Run(tt.name+"_is_404_with_the_same_bytes", func(t *testing.T) {
			t.Parallel()
			w := a.get("/api/events/"+tt.id, tt.token)
			if w.Code != http.StatusNotFound || w.Body.String() != absent.Body.String() {
				t.Errorf("answer = %d %s, want %d %s", w.Code, w.Body, absent.Code, absent.Body)
			}
			for name, values := range absent.Header() {
				if name != "X-Request-Id" && !slices.Equal(w.Header()[name], values) {
					t.Errorf("%s = %q, want %q", name, w.Header()[name], values)
				}
			}
		})
	}
	t.Run("encoded_slash_is_another_path", func(t *testing.T) {
		t.Parallel()
		a.get("/api/events/a%2fb", token).fault(t, http.StatusNotFound, "not_found", "")
	})
	t.Run("foreign_id_is_kept", func(t *testing.T) {
		t.Parallel()
		w := a.get("/api/events/ev-foreign_7", token)
		if e := decodeObject(t, w.Body.Bytes()); e["id"] != "ev-foreign_7" || w.Header().Get("ETag") != web.EventTag(goldenAccount, "ev-foreign_7") {
			t.Errorf("answer = %d %s %s", w.Code, w.Header().Get("ETag"), w.Body)
		}
	})
	t.Run("foreign_id_is_the_only_address", func(t *testing.T) {
		t.Parallel()
		place := a.get("/api/events?type=plan.created", token).page(t).Next
		a.get("/api/events/"+place, token).fault(t, http.StatusNotFound, "not_found", "")
	})
	t.Run("cursor_of_a_foreign_id_is_looked_up", func(t *testing.T) {
		t.Parallel()
		page := a.get("/api/events?order=asc&limit=1&after=ev-foreign_7", token).page(t)
		if !slices.Equal(page.ids(), []string{goldenSecond}) {
			t.Errorf("events = %q, want the one behind it", page.ids())
		}
		page = a.get("/api/events?order=asc&limit=2", token).page(t)
		if page.Next == "ev-foreign_7" || !strings.HasPrefix(page.Next, "evt_") {
			t.Errorf("nextCursor = %s, want a position", page.Next)
		}
		a.get("/api/events?after=ev-foreign_8", token).fault(t, http.StatusBadRequest, "invalid_cursor", "after")
		a.get("/api/events?after=ev-foreign_7", stranger).fault(t, http.StatusBadRequest, "invalid_cursor", "after")
	})
	t.Run("ETag_304", func(t *testing.T) {
		t.Parallel()
		for given, want := range map[string]int{
			web.EventTag(goldenAccount, goldenFirst): 304, web.EventTag("acct_other", goldenFirst): 200, `"` + goldenFirst + `"`: 304, `W/"` + goldenFirst + `"`: 304, `"x", "` + goldenFirst + `"`: 304, "*": 304,
			`"` + goldenSecond + `"`: 200, goldenFirst: 200, "": 200,
		} {
			w := a.get("/api/events/"+goldenFirst, token, "If-None-Match", given)
			if w.Code != want || want == 304 && w.Body.Len() > 0 || w.Header().Get("ETag") == "" {
				t.Errorf("If-None-Match %s = %d, want %d", given, w.Code, want)
			}
		}
	})
	t.Run("a_parameter_is_unknown", func(t *testing.T) {
		t.Parallel()
		a.get("/api/events/"+goldenFirst+"?expand=resource", token).fault(t, http.StatusBadRequest, "unknown_parameter", "expand")
	})
}

// A cursor of another account is a position in the caller's own log.
func TestListEventsWithAnothersCursor(t *testing.T) {
	t.Parallel()
	a, _ := newGoldenAPI(t)
	stranger := a.token(t, "stranger", "acct_other", store.ScopeUnstated)
	a.importLines(t, "acct_other", `{"type":"plan.created","resource":"p1","eventData":{"object":{}},"createdAt":1773066599}
{"type":"plan.updated","resource":"p1","eventData":{"object":{}},"createdAt":1773066601}`)
	page := a.get("/api/events?order=asc&after="+goldenFirst, stranger).page(t)
	if len(page.Data) != 1 || page.Data[0].Type != "plan.updated" || page.Data[0].Owner != "acct_other" {
		t.Errorf("page = %+v, want the caller's own event behind the place", page)
	}
}

// One account's types cannot be reached by the name of another account.
func TestListEventsKeepsKeysApart(t *testing.T) {
	a := parallelAPI(t)
	b := a.token(t, "bob", "a", store.ScopeUnstated)
	a.importLines(t, "ab", `{"type":"c.d","resource":"r","eventData":{"object":{}},"createdAt":1}`)
	a.importLines(t, "a", `{"type":"b.c","resource":"r","eventData":{"object":{}},"createdAt":1}`)
	for _, query := range []string{"", "?type=c.d", "?type=b.c", "?type=b.c,c.d"} {
		for _, e := range a.get("/api/events"+query, b).page(t).Data {
			if e.Owner != "a" {
				t.Errorf("events%s has one of %s", query, e.Owner)
			}
		}
	}
}

// Pages keep their order while events are added on either side of the cursor.
func TestListEventsWhileOthersRecord(t *testing.T) {
	a := parallelAPI(t)
	token := a.token(t, "bob", "acct_a", store.ScopeUnstated)
	record := func(i int) {
		if w := a.put(fmt.Sprintf("/api/resources/plan/p%03d", i), token, `{}`); w.Code != http.StatusCreated {
			t.Fatalf("put = %d %s", w.Code, w.Body)
		}
	}
	for i := range 20 {
		record(i)
	}
	a.Clock.Advance(time.Second)
	var walked []string
	cursor := ""
	for next := 20; ; next++ {
		page := a.get("/api/events?limit=3"+cursor, token).page(t)
		walked = append(walked, page.ids()...)
		if !page.HasMore {
			break
		}
		cursor = "&after=" + page.Next
		record(next) // at the new end, which the walk has passed
	}
	if len(walked) != 20 || !slices.IsSortedFunc(walked, func(a, b string) int { return strings.Compare(b, a) }) {
		t.Errorf("the walk has %d events in the order %q, want the first 20", len(walked), walked)
	}
}

// TestEventsOfAnErasedAccountStayErased: an account that is erased and filled again with
// the same last line has other pages, entity tags and types than before.
//
// Promise (Attacks on the events API): another account's events in a list; another account's
// cursor; erased events
func TestEventsOfAnErasedAccountStayErased(t *testing.T) {
	a := parallelAPI(t)
	ctx := context.Background()
	fill := func(first string) string {
		t.Helper()
		token := a.token(t, "ann", "acct_a", store.ScopeUnstated)
		a.importLines(t, "acct_a", first+a.lineOf("ev_last", "plan.created", "r1", time.Hour))
		return token
	}
	const page, types = "/api/events?limit=50", "/api/events?type=customer.*,coupon.*"
	token := fill(a.lineOf("ev_1", "customer.created", "r1", 3*time.Hour))
	tag := ""
	for range 3 { // a page is kept from its second request on
		tag = a.get(page, token).Header().Get("ETag")
		a.get(types, token)
	}
	must.Do(t, errors.Join(a.DeleteUser(ctx, "ann"), a.DeleteAccount(ctx, "acct_a")))
	token = fill(a.lineOf("ev_2", "coupon.created", "r1", 2*time.Hour))
	if w := a.get(page, token, "If-None-Match", tag); w.Code != http.StatusOK || strings.Contains(w.Body.String(), "ev_1") || !strings.Contains(w.Body.String(), "ev_2") {
		t.Errorf("answer = %d %s, want the new events", w.Code, w.Body)
	}
	if w := a.get(types, token); !strings.Contains(w.Body.String(), "ev_2") {
		t.Errorf("by types: %s, want the new event", w.Body)
	}
}

package proof

import (
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"tollhouse/store/storetest/must"
)

// liveOverTheWire records while others wait, stream and page.
func liveOverTheWire(t *testing.T, lee *reader) {
	record := func(t *testing.T, id string) string {
		t.Helper()
		a, err := lee.call(t.Context(), lee.access, http.MethodPut, "/api/resources/plan/"+id, `{}`)
		if err != nil || a.status != http.StatusCreated {
			t.Fatalf("PUT %s = %v %v", id, a, err)
		}
		return a.header.Get("Tollhouse-Event")
	}
	t.Run("a_long_poll_is_answered_with_the_first_match", func(t *testing.T) {
		at := lee.page(t, "/api/events?order=asc&after=latest").Next
		polled := make(chan answer, 1)
		go func() {
			a, err := lee.send(t.Context(), http.MethodGet, "/api/events?order=asc&wait=50&type=plan.created&after="+at, "", "Authorization", "Bearer "+lee.access)
			if err != nil {
				t.Errorf("poll: %v", err)
			}
			polled <- a
		}()
		want := record(t, "polled")
		var p eventPage
		decode(t, (<-polled).body, &p)
		if len(p.Data) != 1 || p.Data[0].ID != want || p.Next != want {
			t.Errorf("page = %+v, want %s", p, want)
		}
	})
	t.Run("a_stream_has_each_event_as_it_is_retrieved_and_goes_on_where_it_was_left", func(t *testing.T) {
		stream := lee.stream(t, "/api/events")
		stream.ready(t)
		last := ""
		for i := range 20 {
			id := record(t, fmt.Sprintf("streamed_%d", i))
			want := fmt.Sprintf("id: %s\ndata: %s\n", id, lee.get(t, "/api/events/"+id).body)
			if i == 10 { // the reader comes again, and something has happened meanwhile
				_ = stream.Body.Close()
				stream = lee.stream(t, "/api/events", "Last-Event-ID", last)
				stream.ready(t)
			}
			if got := stream.frame(t); got != want {
				t.Fatalf("frame = %s, want %s", got, want)
			}
			last = id
		}
	})
	t.Run("events_that_join_while_one_pages_are_behind_desc_and_at_the_end_of_asc", func(t *testing.T) {
		var down, up []string
		before := len(lee.page(t, "/api/events?limit=1000").Data)
		downwards, upwards, joined := "", "", 0
		for more := true; more; joined++ {
			p := lee.page(t, "/api/events?limit=5"+downwards)
			down, downwards, more = append(down, idsOf(p)...), "&after="+p.Next, p.HasMore
			q := lee.page(t, "/api/events?limit=5&order=asc"+upwards)
			up, upwards = append(up, idsOf(q)...), "&after="+q.Next
			record(t, fmt.Sprintf("joined_%d", joined))
		}
		for more := true; more; {
			q := lee.page(t, "/api/events?limit=5&order=asc"+upwards)
			up, upwards, more = append(up, idsOf(q)...), "&after="+q.Next, q.HasMore
		}
		all := idsOf(lee.page(t, "/api/events?limit=1000&order=asc"))
		if !slices.Equal(up, all) || len(all) != before+joined {
			t.Errorf("ascending: %d events, want the %d before and the %d that joined", len(up), before, joined)
		}
		slices.Reverse(down)
		if !slices.Equal(down, all[:before]) {
			t.Errorf("descending: %d events, want the %d from before", len(down), before)
		}
	})
	t.Run("a_new_event_makes_a_tag_stale", func(t *testing.T) {
		tag := lee.get(t, "/api/events?limit=1").header.Get("ETag")
		id := record(t, "tagged")
		if a := lee.get(t, "/api/events?limit=1", "If-None-Match", tag); a.status != http.StatusOK || !strings.Contains(string(a.body), id) {
			t.Errorf("answer = %v, want %s", a, id)
		}
	})
	t.Run("the_types_are_listed_with_what_was_recorded", func(t *testing.T) {
		var list struct{ Data []map[string]any }
		decode(t, lee.get(t, "/api/event-types").body, &list)
		at := slices.IndexFunc(list.Data, func(row map[string]any) bool { return row["name"] == "plan.created" })
		if at < 0 || list.Data[at]["count"] != float64(len(lee.page(t, "/api/events?limit=1000&type=plan.created").Data)) || list.Data[at]["schema"] == nil {
			t.Errorf("the types are %v, want plan.created with its count", list.Data)
		}
	})
}

func idsOf(p eventPage) (ids []string) {
	for _, e := range p.Data {
		ids = append(ids, e.ID)
	}
	return ids
}

// pythonOverTheWire lets Python spell the filters, where it is installed.
func pythonOverTheWire(t *testing.T, many *reader) {
	python, err := exec.LookPath("python3")
	must.Have(t, err == nil, "python3; what it writes is among the recorded spellings of the handlers' tests")
	want := idsOf(many.page(t, "/api/events?type=customer.created,invoice.paid&limit=9&createdAt[gte]=1771000000"))
	if len(want) != 9 {
		t.Fatalf("the filter chooses %d events, want 9", len(want))
	}
	spell := func(expression string) string {
		program := "from urllib.parse import urlencode, quote\nt = ['customer.created', 'invoice.paid']\nprint(" + expression + ", end='')"
		out, err := exec.CommandContext(t.Context(), python, "-c", program).Output()
		if err != nil {
			t.Fatalf("python3: %v", err)
		}
		return string(out)
	}
	for name, expression := range map[string]string{
		"doseq":    `urlencode({'type': t, 'limit': 9, 'createdAt[gte]': 1771000000}, doseq=True)`,
		"brackets": `urlencode([('type[]', t[0]), ('type[]', t[1]), ('limit', 9), ('createdAt[gte]', 1771000000)])`,
		"comma":    `urlencode({'type': ','.join(t), 'limit': 9, 'createdAt[gte]': 1771000000}, quote_via=quote)`,
	} {
		t.Run(name, func(t *testing.T) {
			if query := spell(expression); !slices.Equal(idsOf(many.page(t, "/api/events?"+query)), want) {
				t.Errorf("%s is another filter", query)
			}
		})
	}
	t.Run("slips_are_refused", func(t *testing.T) {
		many.get(t, "/api/events?"+spell(`urlencode({'type': t})`)).wantFault(t, http.StatusBadRequest, "invalid_parameter", "type")
		many.get(t, "/api/events?"+spell(`urlencode({'createdAt[gte]': 1771000000.0})`)).wantFault(t, http.StatusBadRequest, "invalid_parameter", "createdAt[gte]")
		many.get(t, "/api/events?"+spell(`urlencode({'createdAt': None})`)).wantFault(t, http.StatusBadRequest, "invalid_parameter", "createdAt")
	})
}

// retainedOverTheWire asks a server that keeps one day for what is older.
func retainedOverTheWire(t *testing.T, harriet *reader) {
	t.Run("an_id_past_retention_is_410", func(t *testing.T) {
		harriet.get(t, "/api/events/"+goldenFirst).wantFault(t, http.StatusGone, "event_expired", "")
		harriet.get(t, "/api/events/"+noSuchEvent).wantFault(t, http.StatusGone, "event_expired", "")
	})
	t.Run("a_cursor_past_retention_is_410_with_where_to_go_on", func(t *testing.T) {
		var gone answer
		for deadline := time.Now().Add(readyWait); ; time.Sleep(10 * time.Millisecond) {
			gone = harriet.get(t, "/api/events?order=asc&after="+goldenFirst)
			if gone.status == http.StatusGone || time.Now().After(deadline) {
				break // removal begins at start, beside the answers
			}
		}
		gone.wantFault(t, http.StatusGone, "cursor_expired", "after")
		var fault struct{ OldestAvailable string }
		decode(t, gone.body, &fault)
		if p := harriet.page(t, "/api/events?order=asc&after="+fault.OldestAvailable); len(p.Data) != 0 {
			t.Errorf("after oldestAvailable come %+v, want nothing yet", p.Data)
		}
	})
	t.Run("a_stream_from_there_is_told_of_the_gap", func(t *testing.T) {
		stream := harriet.stream(t, "/api/events", "Last-Event-ID", goldenFirst)
		stream.ready(t)
		if frame := stream.frame(t); !strings.HasPrefix(frame, "event: gap\ndata: {\"oldestAvailable\":\"evt_") || strings.Contains(frame, "id:") {
			t.Errorf("frame = %q, want a gap without an id", frame)
		}
	})
}

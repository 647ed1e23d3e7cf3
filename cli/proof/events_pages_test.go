package proof

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"tollhouse/store/storetest/must"
)

// protocolOverTheWire asks in the ways that HTTP has for it.
func protocolOverTheWire(t *testing.T, harriet *reader) {
	t.Run("the_envelope_and_the_event_have_their_members_and_no_others", func(t *testing.T) {
		t.Parallel()
		var page map[string]any
		decode(t, harriet.get(t, "/api/events?limit=1&after="+goldenThird).body, &page)
		wantMembers(t, page, "data", "hasMore", "nextCursor", "object", "previousCursor")
		event := page["data"].([]any)[0].(map[string]any)
		wantMembers(t, event, "createdAt", "eventData", "id", "location", "owner", "resource", "source", "type")
		wantMembers(t, event["eventData"].(map[string]any), "object", "previousAttributes")
		if page["object"] != "list" {
			t.Errorf("object = %v, want list", page["object"])
		}
	})
	t.Run("an_events_ETag_begins_with_its_id", func(t *testing.T) {
		t.Parallel()
		a := harriet.get(t, "/api/events/"+goldenFirst, "If-None-Match", `"`+goldenFirst+`"`)
		tag := a.header.Get("ETag")
		if a.status != http.StatusNotModified || len(a.body) > 0 || !strings.HasPrefix(tag, `"`+goldenFirst+`.`) {
			t.Errorf("answer = %v %v, want 304 with the account's mark behind the id", a, a.header)
		}
		if again := harriet.get(t, "/api/events/"+goldenFirst, "If-None-Match", tag); again.status != http.StatusNotModified {
			t.Errorf("answer = %v for the tag itself, want 304", again)
		}
	})
	t.Run("each_form_of_a_page_may_be_304", func(t *testing.T) {
		t.Parallel()
		tags := map[string]bool{}
		for _, query := range []string{"", "?limit=2", "?type=customer.*", "?order=asc&after=" + goldenFirst, "?resource=pa_9rd3x6"} {
			for _, accept := range []string{"application/json", "application/x-ndjson"} {
				tag := harriet.get(t, "/api/events"+query, "Accept", accept).header.Get("ETag")
				a := harriet.get(t, "/api/events"+query, "Accept", accept, "If-None-Match", tag)
				if !strings.HasPrefix(tag, `W/"`) || tags[tag] || a.status != http.StatusNotModified {
					t.Errorf("%s as %s: %s, then %d; want a weak tag of its own, then 304", query, accept, tag, a.status)
				}
				tags[tag] = true
			}
		}
	})
	t.Run("answers_are_private_and_vary", func(t *testing.T) {
		t.Parallel()
		for _, target := range []string{"/api/events", "/api/events/" + goldenFirst} {
			h := harriet.get(t, target).header
			if h.Get("Cache-Control") != "private, no-cache" || h.Get("Vary") != "Authorization, Accept, Accept-Encoding, Tollhouse-Account" {
				t.Errorf("GET %s: %v", target, h)
			}
		}
	})
	t.Run("HEAD_has_the_headers_of_GET", func(t *testing.T) {
		t.Parallel()
		for _, target := range []string{"/api/events?limit=2", "/api/events/" + goldenFirst, "/api/event-types", "/api/resources/customer", "/api/resources/customer/cus_4tn8k2w1"} {
			get, head := harriet.get(t, target), harriet.ask(t, http.MethodHead, target)
			get.body = nil
			if shownAnswer(head) != shownAnswer(get) {
				t.Errorf("HEAD %s = %s, want %s", target, shownAnswer(head), shownAnswer(get))
			}
		}
	})
	t.Run("OPTIONS_is_204_with_Allow", func(t *testing.T) {
		t.Parallel()
		for _, target := range []string{"/api/events", "/api/events/" + goldenFirst, "/api/event-types"} {
			a, err := harriet.send(t.Context(), http.MethodOptions, target, "", "Origin", "https://page.example", "Access-Control-Request-Method", "GET")
			if err != nil || a.status != http.StatusNoContent || !slices.Equal(allowed(a), []string{"GET", "HEAD", "OPTIONS"}) || a.header.Get("Access-Control-Allow-Origin") != "*" {
				t.Errorf("OPTIONS %s = %v %v %v", target, a, a.header, err)
			}
		}
	})
	t.Run("one_spelling_of_a_path", func(t *testing.T) {
		t.Parallel()
		for _, target := range []string{"/api/events/", "/API/events", "//api/events", "/api//events", "/api/events/" + goldenFirst + "/", "/api/events/a%2fb"} {
			a := harriet.get(t, target)
			a.wantFault(t, http.StatusNotFound, "not_found", "")
			if a.header.Get("Location") != "" {
				t.Errorf("GET %s leads to %s", target, a.header.Get("Location"))
			}
		}
	})
	t.Run("gzip_when_asked_for_from_1_KiB_on", func(t *testing.T) {
		t.Parallel()
		plain, small := harriet.get(t, "/api/events"), harriet.get(t, "/api/events", "Accept-Encoding", "gzip")
		unpacked, err := gzip.NewReader(bytes.NewReader(small.body))
		if err != nil || small.header.Get("Content-Encoding") != "gzip" {
			t.Fatalf("answer = %v %v", small.header, err)
		}
		if body, err := io.ReadAll(unpacked); err != nil || !bytes.Equal(body, plain.body) {
			t.Errorf("unpacked: %s %v", body, err)
		}
		if want := strings.TrimSuffix(plain.header.Get("ETag"), `"`) + `-gzip"`; small.header.Get("ETag") != want {
			t.Errorf("tag = %s, want %s", small.header.Get("ETag"), want)
		}
		if a := harriet.get(t, "/api/events/"+goldenFirst, "Accept-Encoding", "gzip"); a.header.Get("Content-Encoding") != "" {
			t.Error("an event of less than 1 KiB is compressed")
		}
	})
	t.Run("what_is_not_acceptable_is_406", func(t *testing.T) {
		t.Parallel()
		harriet.get(t, "/api/events", "Accept", "text/csv").wantFault(t, http.StatusNotAcceptable, "not_acceptable", "")
	})
	t.Run("other_methods_are_405", func(t *testing.T) {
		t.Parallel()
		for _, target := range []string{"/api/events", "/api/events/" + goldenFirst} {
			for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
				a := harriet.ask(t, method, target)
				a.wantFault(t, http.StatusMethodNotAllowed, "invalid_request", "")
				if !slices.Equal(allowed(a), []string{"GET", "HEAD", "OPTIONS"}) {
					t.Errorf("%s %s: Allow = %q", method, target, a.header.Get("Allow"))
				}
			}
		}
	})
	t.Run("lists_say_when_to_ask_again", func(t *testing.T) {
		t.Parallel()
		if got := harriet.get(t, "/api/events").header.Get("Tollhouse-Poll-After"); got != "1" {
			t.Errorf("Tollhouse-Poll-After = %q", got)
		}
	})
	t.Run("a_type_that_no_event_has_is_noted", func(t *testing.T) {
		t.Parallel()
		a := harriet.get(t, "/api/events?type=customer.update")
		if got := a.header.Get("Tollhouse-Notice"); a.status != http.StatusOK || got != `no event has type "customer.update"; nearest: customer.updated` {
			t.Errorf("answer = %v, Tollhouse-Notice = %q", a, got)
		}
	})
}

func wantMembers(t testing.TB, object map[string]any, want ...string) {
	t.Helper()
	var got []string
	for name := range object {
		got = append(got, name)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("members = %q, want %q", got, want)
	}
}

func allowed(a answer) []string {
	methods := strings.Split(a.header.Get("Allow"), ", ")
	slices.Sort(methods)
	return methods
}

// pagesOverTheWire walks a history of 1,200 events in every way that there is,
// and compares each walk with the export.
func pagesOverTheWire(t *testing.T, s *server, many *reader) {
	type entry struct {
		ID, Type, Resource string
		CreatedAt          int64
	}
	var log []entry // oldest first
	for line := range bytes.Lines(s.run("event", "export", "--account", "acct_many")) {
		var e entry
		decode(t, line, &e)
		log = append(log, e)
	}
	if len(log) != 1200 {
		t.Fatalf("the export has %d events, want 1200", len(log))
	}
	choose := func(want func(entry) bool) (ids []string) {
		for _, e := range log {
			if want(e) {
				ids = append(ids, e.ID)
			}
		}
		return ids
	}
	walks := []struct {
		name, query string
		want        func(entry) bool
	}{
		{"all", "limit=7", func(entry) bool { return true }},
		{"a_page_of_50_by_default", "", func(entry) bool { return true }},
		{"most_of_the_log", "limit=40&type=transaction.*,invoice.*,customer.*", func(e entry) bool {
			kind, _, _ := strings.Cut(e.Type, ".")
			return kind == "transaction" || kind == "invoice" || kind == "customer"
		}},
		{"a_resource", "limit=1&resource=" + log[600].Resource, func(e entry) bool { return e.Resource == log[600].Resource }},
	}
	for _, walk := range walks {
		for _, order := range []string{"asc", "desc"} {
			t.Run("following_next_reaches_each_event_once_"+walk.name+"_"+order, func(t *testing.T) {
				t.Parallel()
				want := choose(walk.want)
				if order == "desc" {
					slices.Reverse(want)
				}
				if got := many.follow(t, "/api/events?order="+order+"&"+walk.query); !slices.Equal(got, want) {
					t.Errorf("the walk has %d events, want the %d of the export in their order", len(got), len(want))
				}
			})
		}
	}
	t.Run("a_page_has_50_events_and_at_most_1000", func(t *testing.T) {
		t.Parallel()
		for query, want := range map[string]int{"": 50, "?limit=1": 1, "?limit=1000": 1000} {
			if p := many.page(t, "/api/events"+query); len(p.Data) != want || !p.HasMore {
				t.Errorf("GET %s has %d events, want %d and more", query, len(p.Data), want)
			}
		}
	})
	t.Run("NDJSON_is_the_same_page_with_its_cursor_in_a_header", func(t *testing.T) {
		t.Parallel()
		var got []string
		target := "/api/events?order=asc&limit=100"
		for pages := 0; pages < 20; pages++ {
			a := many.get(t, target, "Accept", "application/x-ndjson")
			if a.status != http.StatusOK || a.header.Get("Content-Type") != "application/x-ndjson" {
				t.Fatalf("GET %s = %v %v", target, a.status, a.header)
			}
			for line := range bytes.Lines(a.body) {
				var e entry
				decode(t, line, &e)
				got = append(got, e.ID)
			}
			target = "/api/events?order=asc&limit=100&after=" + a.header.Get("Tollhouse-Next-Cursor")
		}
		if !slices.Equal(got, choose(func(entry) bool { return true })) {
			t.Errorf("the lines have %d events, want those of the export", len(got))
		}
	})
}

// follow walks along the links to the next page.
func (r *reader) follow(t testing.TB, target string) (ids []string) {
	t.Helper()
	const pagesMax = 2000
	for range pagesMax {
		a := r.get(t, target)
		var p eventPage
		decode(t, a.body, &p)
		for _, e := range p.Data {
			ids = append(ids, e.ID)
		}
		target = ""
		for link := range strings.SplitSeq(a.header.Get("Link"), ", ") {
			if path, isNext := strings.CutSuffix(link, `>; rel="next"`); isNext {
				target = path[1:]
			}
		}
		if (target != "") != p.HasMore {
			t.Fatalf("hasMore is %v, and the next page is %q", p.HasMore, target)
		}
		if target == "" {
			return ids
		}
	}
	t.Fatalf("%d pages and no end", pagesMax)
	return nil
}

// eventStream is an open stream of server-sent events.
type eventStream struct {
	*http.Response
	lines *bufio.Reader
}

func (r *reader) stream(t testing.TB, target string, header ...string) *eventStream {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*requestWait)
	t.Cleanup(cancel)
	q := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, r.base+target, nil))(t)
	q.Header.Set("Authorization", "Bearer "+r.access)
	q.Header.Set("Accept", "text/event-stream")
	for i := 0; i < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	a := must.Get(r.http.Do(q))(t)
	t.Cleanup(func() { _ = a.Body.Close() })
	return &eventStream{a, bufio.NewReader(a.Body)}
}

// take reads so many bytes.
func (s *eventStream) take(t testing.TB, n int) string {
	t.Helper()
	text := make([]byte, n)
	if n, err := io.ReadFull(s.lines, text); err != nil {
		t.Fatalf("the stream ended after %q: %v", text[:n], err)
	}
	return string(text)
}

// frame reads to the next empty line, and past heartbeats with their positions.
func (s *eventStream) frame(t testing.TB) string {
	t.Helper()
	for frame := ""; ; {
		line, err := s.lines.ReadString('\n')
		if err != nil {
			t.Fatalf("the stream ended in %q: %v", frame+line, err)
		}
		switch {
		case strings.HasPrefix(line, ":"):
		case line == "\n" && strings.HasPrefix(frame, "id: ") && strings.Count(frame, "\n") == 1:
			frame = ""
		case line == "\n" && frame != "":
			return frame
		case line != "\n":
			frame += line
		}
	}
}

// ready reads what comes before all events.
func (s *eventStream) ready(t testing.TB) {
	t.Helper()
	if first, second := s.frame(t), s.frame(t); first != "retry: 2000\n" || !strings.HasPrefix(second, "id: evt_") || !strings.Contains(second, "\nevent: ready\ndata: {\"after\":\"evt_") {
		t.Fatalf("the stream begins with %q and %q", first, second)
	}
}

// rest reads to the end.
func (s *eventStream) rest(t testing.TB) string {
	t.Helper()
	text, err := io.ReadAll(s.lines)
	if err != nil {
		t.Errorf("the stream broke off: %v", err)
	}
	return string(text)
}

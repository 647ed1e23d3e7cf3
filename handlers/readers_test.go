package handlers

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"tollhouse/store"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest/must"
)

// What common readers cannot hold is refused wherever a body or a line is taken, and the
// answer names the member.
//
// Promise (§2.4): a number beyond binary64 and U+0000 are 400 `invalid_json` with the path of the
// member, in every body and line; all other numbers stay exact
func TestValuesThatReadersCannotHoldAreRefusedByName(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	token := a.token(t, "odile", "acct_a", store.ScopeUnstated)
	values := map[string]string{
		"overflow": `1e400`, "negative_overflow": `-1e400`, "huge_exponent": `123e999999999`, "nul": `"a\u0000b"`, "surrogate": `"\ud800"`,
	}
	doors := []struct {
		name, param string
		send        func(value string) answer
	}{
		{"put", "a.b[1]", func(v string) answer {
			return a.put("/api/resources/plan/p1", token, `{"a":{"b":[0,`+v+`]}}`)
		}},
		{"put_with_an_action", "a", func(v string) answer { return a.put("/api/resources/plan/p1?action=x", token, `{"a":`+v+`}`) }},
		{"patch", "a", func(v string) answer { return a.patch("/api/resources/plan/p1", token, `{"a":`+v+`}`) }},
		{"webhook_endpoint", "description", func(v string) answer {
			return a.request(http.MethodPost, "/api/webhook-endpoints", token, strings.NewReader(`{"url":"https://example.com/","description":`+v+`}`), "Content-Type", "application/json")
		}},
		{"recorded_by_an_operator", "eventData.object.a", func(v string) answer {
			return a.admin(http.MethodPost, "/admin/events?account=acct_a", strings.NewReader(`{"type":"plan.x","resource":"p1","eventData":{"object":{"a":`+v+`}}}`), "Content-Type", "application/json")
		}},
		{"admin", "name", func(v string) answer {
			return a.admin(http.MethodPost, "/api/platform/clients", strings.NewReader(`{"name":`+v+`}`), "Content-Type", "application/json")
		}},
	}
	a.put("/api/resources/plan/p1", token, `{}`)
	for _, door := range doors {
		for name, value := range values {
			t.Run(door.name+"/"+name, func(t *testing.T) {
				body := door.send(value).fault(t, http.StatusBadRequest, "invalid_json", door.param)
				if strings.Contains(body["error_description"].(string), "\x00") {
					t.Errorf("the answer repeats the value: %q", body)
				}
			})
		}
	}
	for name, value := range values {
		t.Run("import/"+name, func(t *testing.T) {
			w := a.importFrom(strings.NewReader(`{"type":"plan.x","resource":"p1","eventData":{"object":{},"previousAttributes":{"a":`+value+`}},"createdAt":1}`), "")
			refused := w.answerLines(t)[0]
			if refused["error"] != "invalid_json" || refused["param"] != "eventData.previousAttributes.a" {
				t.Errorf("refused = %v", refused)
			}
		})
	}
	t.Run("a_member_name_with_nul", func(t *testing.T) {
		a.put("/api/resources/plan/p1", token, `{"a":{"b\u0000":1}}`).fault(t, http.StatusBadRequest, "invalid_json", "a")
	})
	t.Run("what_every_reader_holds_stays_exact", func(t *testing.T) {
		const held = `{"id":"p2","object":"plan","a":[1e308,5e-324,-0,123456789012345678901234567890,0.10]}`
		if w := a.put("/api/resources/plan/p2", token, held); w.Code != http.StatusCreated || w.Body.String() != held {
			t.Errorf("put = %d %s", w.Code, w.Body)
		}
	})
}

// Text leaves as it came, except that what ends a line for some readers is escaped.
//
// Promise (§2.4): U+0085, U+2028 and U+2029 leave escaped, `<`, `>` and `&` as they are; export,
// import and export again are identical
func TestLineEndsLeaveEscapedAndMarkupUnescaped(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	token := a.token(t, "odile", "acct_a", store.ScopeUnstated)
	const sent, kept = "\u0085\u2028\u2029<b>&", `\u0085\u2028\u2029<b>&`
	if w := a.put("/api/resources/plan/p1", token, `{"note `+sent+`":"`+sent+`"}`); w.Code != http.StatusCreated {
		t.Fatalf("put = %d %s", w.Code, w.Body)
	}
	want := `"note ` + kept + `":"` + kept + `"`
	event := a.get("/api/events", token).page(t).ids()[0]
	export := a.admin(http.MethodGet, "/admin/event-export?account=acct_a", nil)
	for name, w := range map[string]answer{
		"resource": a.get("/api/resources/plan/p1", token), "resources": a.get("/api/resources/plan", token),
		"event": a.get("/api/events/"+event, token), "list": a.get("/api/events", token),
		"ndjson": a.get("/api/events", token, "Accept", "application/x-ndjson"), "export": export,
	} {
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) || w.Header().Get("X-Content-Type-Options") != "nosniff" && name != "export" {
			t.Errorf("%s = %d %v %s, want %s", name, w.Code, w.Header(), w.Body, want)
		}
	}
	t.Run("an_endpoint_and_its_event", func(t *testing.T) {
		w := a.request(http.MethodPost, "/api/webhook-endpoints", token, strings.NewReader(`{"url":"https://example.com/?a=1&b=2","description":"<b>&"}`), "Content-Type", "application/json")
		if w.Code != http.StatusCreated || !strings.Contains(w.Body.String(), `"<b>&"`) || !strings.Contains(w.Body.String(), "a=1&b=2") {
			t.Errorf("create = %d %s", w.Code, w.Body)
		}
		if w := a.get("/api/events?type=webhook_endpoint.created", token); !strings.Contains(w.Body.String(), `"<b>&"`) {
			t.Errorf("its event = %s", w.Body)
		}
	})
	t.Run("export_and_import_and_export_are_identical", func(t *testing.T) {
		b := newAPI(t)
		b.importLines(t, "acct_a", export.Body.String())
		if again := b.admin(http.MethodGet, "/admin/event-export?account=acct_a", nil); again.Body.String() != export.Body.String() {
			t.Errorf("export again = %s\nwant %s", again.Body, export.Body)
		}
		b.importLines(t, "acct_a", strings.NewReplacer("<", `\u003c`, "&", `\u0026`, `\u0085`, "\u0085").Replace(export.Body.String()))
	})
}

// A snapshot is as long as its sender sees it, and the error at the write names the limit.
//
// Promise (§2.4): an id is a position in the log; an imported foreign one is kept and has no dot; a
// snapshot has at most 24 KiB, as its sender sees it, and 16 levels; an event is a frame of a
// stream below 64 KiB
func TestASnapshotIsAsLongAsItsSenderSeesIt(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	token := a.token(t, "odile", "acct_a", store.ScopeUnstated)
	body := func(size int, fill string) string {
		const around = `{"id":"p1","object":"plan","a":""}`
		return `{"id":"p1","object":"plan","a":"` + strings.Repeat(fill, size-len(around)) + `"}`
	}
	for _, fill := range []string{"<", ">", "&"} { // each event but the first holds two snapshots
		if w := a.put("/api/resources/plan/p1", token, body(snapshot.SizeMax, fill)); w.Code >= 300 || w.Body.Len() != snapshot.SizeMax {
			t.Fatalf("put of %s = %d with %d bytes: %.200s", fill, w.Code, w.Body.Len(), w.Body)
		}
	}
	w := a.put("/api/resources/plan/p1", token, body(snapshot.SizeMax+1, "<"))
	w.fault(t, http.StatusRequestEntityTooLarge, "too_large", "")
	if !strings.Contains(w.Body.String(), strconv.Itoa(snapshot.SizeMax)) {
		t.Errorf("the refusal does not name the limit: %s", w.Body)
	}
}

// Readers with the buffer of Go's bufio.Scanner take every frame whole, with the longest
// name that an event line may carry.
//
// Promise (§2.4): an id is a position in the log; an imported foreign one is kept and has no dot; a
// snapshot has at most 24 KiB, as its sender sees it, and 16 levels; an event is a frame of a
// stream below 64 KiB
func TestTheLongestEventIsAFrameBelow64KiB(t *testing.T) {
	t.Parallel()
	a := newLive(t)
	token := a.token(t, "odile", "acct_a", store.ScopeUnstated)
	longest := func(pad int) answer {
		return a.importFrom(strings.NewReader(`{"type":"plan.x","resource":"p1","eventData":{"object":{},"previousAttributes":{"a":"`+strings.Repeat("<", pad)+`"}},"createdAt":1}`), "")
	}
	const pad = 65_250 // too long by less than its excess
	reason, _ := longest(pad).answerLines(t)[0]["error_description"].(string)
	var size, limit int
	if _, err := fmt.Sscanf(reason, "The event of this change would have %d bytes, more than the limit of %d.", &size, &limit); err != nil {
		t.Fatalf("the refusal %q does not name the limit: %v", reason, err)
	}
	fits := pad - (size - limit)
	if w := longest(fits + 1); w.lastLine(t)["errors"] != 1.0 {
		t.Errorf("one byte more = %s", w.Body)
	}
	if w := longest(fits); w.lastLine(t)["recorded"] != 1.0 {
		t.Fatalf("import = %s", w.Body)
	}
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, a.url+"/api/events?createdAt[gte]=0", nil))(t)
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Accept", "text/event-stream")
	w := must.Get(http.DefaultClient.Do(r))(t)
	defer w.Body.Close()
	frames := bufio.NewScanner(w.Body) // its buffer is the usual one, of 64 KiB
	frames.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		if end := bytes.Index(data, []byte("\n\n")); end >= 0 {
			return end + 2, data[:end+2], nil
		}
		return 0, nil, nil
	})
	const eventLine = len("event: \n") + 32 + 1 + 48 // the longest type
	for frames.Scan() {
		if f := frames.Text(); strings.HasPrefix(f, "id: ") && strings.Contains(f, "<<<") {
			if len(f)+eventLine >= bufio.MaxScanTokenSize || len(f) < bufio.MaxScanTokenSize-600 {
				t.Errorf("the frame has %d bytes", len(f))
			}
			return
		}
	}
	t.Errorf("the frame did not come: %v", frames.Err())
}

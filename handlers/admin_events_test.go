package handlers

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/storetest/must"
)

// line is a line of an import with the fields that tests use.
func line(members string) string {
	return `{"type":"plan.created","resource":"p1","eventData":{"object":{}},"createdAt":1773000000` + members + `}`
}

// answerLines are the lines of an import's answer.
func (w answer) answerLines(t testing.TB) []map[string]any {
	t.Helper()
	var lines []map[string]any
	for text := range bytes.Lines(w.Body.Bytes()) {
		lines = append(lines, decodeObject(t, text))
	}
	return lines
}

func (a *apiHouse) importFrom(body io.Reader, query string, headers ...string) answer {
	return a.admin(http.MethodPost, "/admin/events/import?account=acct_a"+query, body, append(headers, "Content-Type", "application/x-ndjson")...)
}

// Promise (§2.4): an id is a position in the log; an imported foreign one is kept and has no dot; a
// snapshot has at most 24 KiB, as its sender sees it, and 16 levels; an event is a frame of a
// stream below 64 KiB
// Promise (§3.3): a native id is its own position and must agree with createdAt; a foreign one
// keeps its spelling; POST /admin/events records one
func TestImportRefusesLines(t *testing.T) {
	t.Parallel()
	now := int64(1_773_070_200) // by the fixture's clock
	tests := []struct{ name, line, code, param, hint string }{
		{"no_json", `{"type":`, "invalid_json", "", "well-formed"},
		{"no_object", `[]`, "invalid_event", "", "an array"},
		{"a_byte_order_mark", "\ufeff" + line(""), "invalid_json", "", "byte order mark"},
		{"two_values", line("") + line(""), "invalid_json", "", ""},
		{"type_missing", `{"resource":"p1","eventData":{"object":{}},"createdAt":1}`, "invalid_event", "type", "missing"},
		{"resource_missing", `{"type":"a.b","eventData":{"object":{}},"createdAt":1}`, "invalid_event", "resource", "missing"},
		{"eventData_missing", `{"type":"a.b","resource":"p1","createdAt":1}`, "invalid_event", "eventData", "missing"},
		{"createdAt_missing", `{"type":"a.b","resource":"p1","eventData":{"object":{}}}`, "invalid_event", "createdAt", "missing"},
		{"type_form", `{"type":"A.b","resource":"p1","eventData":{"object":{}},"createdAt":1}`, "invalid_event", "type", "resource_kind"},
		{"type_no_string", `{"type":1,"resource":"p1","eventData":{"object":{}},"createdAt":1}`, "invalid_event", "type", "string"},
		{"type_with_nul", `{"type":"a.b\u0000","resource":"p1","eventData":{"object":{}},"createdAt":1}`, "invalid_json", "type", "U+0000"},
		{"resource_form", `{"type":"a.b","resource":"p 1","eventData":{"object":{}},"createdAt":1}`, "invalid_event", "resource", ""},
		{"resource_with_nul", `{"type":"a.b","resource":"p\u0000","eventData":{"object":{}},"createdAt":1}`, "invalid_json", "resource", "U+0000"},
		{"eventData_no_object", `{"type":"a.b","resource":"p1","eventData":[],"createdAt":1}`, "invalid_event", "eventData", ""},
		{"snapshot_missing", `{"type":"a.b","resource":"p1","eventData":{},"createdAt":1}`, "invalid_event", "eventData.object", ""},
		{"snapshot_of_another_id", `{"type":"a.b","resource":"p1","eventData":{"object":{"id":"p2"}},"createdAt":1}`, "invalid_event", "eventData.object.id", "p1"},
		{"snapshot_of_another_kind", `{"type":"a.b","resource":"p1","eventData":{"object":{"object":"b"}},"createdAt":1}`, "invalid_event", "eventData.object.object", ""},
		{"previousAttributes_no_object", `{"type":"a.b","resource":"p1","eventData":{"object":{},"previousAttributes":null},"createdAt":1}`, "invalid_event", "eventData.previousAttributes", "leave it out"},
		{"unknown_member", line(`,"createdat":1`), "unknown_field", "createdat", "did you mean createdAt?"},
		{"unknown_member_of_eventData", `{"type":"a.b","resource":"p1","eventData":{"object":{},"previous":{}},"createdAt":1}`, "unknown_field", "previous", ""},
		{"duplicate_member", line(`,"type":"a.b"`), "invalid_json", "", "two members"},
		{"owner_of_another_account", line(`,"owner":"acct_b"`), "invalid_event", "owner", "acct_a"},
		{"createdAt_float", `{"type":"a.b","resource":"p1","eventData":{"object":{}},"createdAt":1.5}`, "invalid_event", "createdAt", "whole number"},
		{"createdAt_string", `{"type":"a.b","resource":"p1","eventData":{"object":{}},"createdAt":"1"}`, "invalid_event", "createdAt", "whole number"},
		{"createdAt_negative", `{"type":"a.b","resource":"p1","eventData":{"object":{}},"createdAt":-1}`, "invalid_event", "createdAt", "whole number"},
		{"createdAt_milliseconds", `{"type":"a.b","resource":"p1","eventData":{"object":{}},"createdAt":1773000000000}`, "invalid_event", "createdAt", "in seconds it is 1773000000"},
		{"createdAt_past_all_time", `{"type":"a.b","resource":"p1","eventData":{"object":{}},"createdAt":999999999999999}`, "invalid_event", "createdAt", ""},
		{"createdAt_more_than_5_s_ahead", fmt.Sprintf(`{"type":"a.b","resource":"p1","eventData":{"object":{}},"createdAt":%d}`, now+6), "invalid_event", "createdAt", "future"},
		{"id_form", line(`,"id":"a.b"`), "invalid_event", "id", ""},
		{"id_empty", line(`,"id":""`), "invalid_event", "id", ""},
		{"id_with_nul", line(`,"id":"a\u0000"`), "invalid_json", "id", "U+0000"},
		{"id_of_65_characters", line(`,"id":"` + strings.Repeat("a", 65) + `"`), "invalid_event", "id", ""},
		{"id_that_disagrees_with_createdAt", line(`,"id":"` + goldenFirst + `"`), "invalid_event", "id", "1773066600"},
		{"source_too_long", line(`,"source":"` + strings.Repeat("a", 321) + `"`), "invalid_event", "source", ""},
		{"card_number_in_the_snapshot", `{"type":"a.b","resource":"p1","eventData":{"object":{"n":"4242424242424242"}},"createdAt":1}`, "sensitive_data", "eventData.object.n", "eventData.object.n holds"},
		{"card_number_in_previousAttributes", `{"type":"a.b","resource":"p1","eventData":{"object":{},"previousAttributes":{"cvv":"123"}},"createdAt":1}`, "sensitive_data", "eventData.previousAttributes.cvv", ""},
		{"snapshot_past_24_KiB", `{"type":"a.b","resource":"p1","eventData":{"object":{"n":"` + strings.Repeat("a", 24<<10) + `"}},"createdAt":1}`, "too_large", "", "24576"},
		{"line_past_64_KiB", line(`,"source":"` + strings.Repeat("a", 64<<10) + `"`), "too_large", "", "65536"},
		{"depth", `{"type":"a.b","resource":"p1","eventData":{"object":` + strings.Repeat(`{"a":`, 17) + "1" + strings.Repeat("}", 17) + `},"createdAt":1}`, "too_large", "", "deep"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := parallelAPI(t)
			good := line(`,"id":"good"`)
			w := a.importFrom(strings.NewReader("\n"+good+"\r\n"+tt.line+"\n"+line(`,"id":"after"`)), "")
			lines := w.answerLines(t)
			if w.Code != http.StatusOK || len(lines) != 2 {
				t.Fatalf("import = %d %s", w.Code, w.Body)
			}
			refused, summary := lines[0], lines[1]
			param, _ := refused["param"].(string)
			if refused["error"] != tt.code || param != tt.param || refused["line"] != 3.0 || refused["offset"] != float64(len(good)+3) {
				t.Errorf("refused = %v, want %s on %q at line 3", refused, tt.code, tt.param)
			}
			if description := refused["error_description"].(string); !strings.Contains(description, tt.hint) || len(description) > 300 {
				t.Errorf("error_description = %q, want %q in it", description, tt.hint)
			}
			if summary["summary"] != true || summary["lines"] != 3.0 || summary["recorded"] != 1.0 || summary["errors"] != 1.0 {
				t.Errorf("summary = %v, want what stood before recorded and the rest left out", summary)
			}
		})
	}
}

// Promise (§3.3): import by admin API and command, plain or gzip, with a server and without; a line
// is one event as specified, at most 64 KiB; owner, source, location and id are optional
// Promise (§3.3): an import stops at the first bad line, or skips bad lines if every line has an
// id; the same file again records nothing; resources match their newest event; the same id with
// other content is a conflict
// Promise (§3.3): an import reports progress, the first 100 refused lines with numbers and offsets,
// then a summary; an import without its end counts as interrupted; a dry run lists every refused
// line and records nothing
func TestImport(t *testing.T) {
	t.Parallel()
	three := line(`,"id":"one"`) + "\n" + line(`,"id":"two","source":"x","location":"y"`) + "\n" + line("") + "\n"
	t.Run("summary_and_defaults", func(t *testing.T) {
		a := parallelAPI(t)
		w := a.importFrom(strings.NewReader(three), "")
		if want := fmt.Sprintf(`{"summary":true,"lines":3,"bytes":%d,"recorded":3,"unchanged":0,"errors":0}`+"\n", len(three)); w.Body.String() != want {
			t.Errorf("import = %s, want %s", w.Body, want)
		}
		events := a.events(t)
		if e := events[0]; e.ID != "one" || e.Owner != "acct_a" || e.Source != "system" || e.Location != "import" || e.EventData.Object["id"] != "p1" || e.EventData.Object["object"] != "plan" {
			t.Errorf("first event = %+v", e)
		}
		if e := events[1]; e.Source != "x" || e.Location != "y" {
			t.Errorf("second event = %+v, want what the line gave", e)
		}
		if e := events[2]; !strings.HasPrefix(e.ID, "evt_") {
			t.Errorf("third event = %+v, want an id of ours", e)
		}
	})
	t.Run("a_rerun_is_unchanged", func(t *testing.T) {
		a := parallelAPI(t)
		a.importLines(t, "acct_a", three)
		before := a.events(t)
		if s := a.importFrom(strings.NewReader(three), "").lastLine(t); s["recorded"] != 0.0 || s["unchanged"] != 3.0 {
			t.Errorf("summary = %v", s)
		}
		if after := a.events(t); len(after) != len(before) {
			t.Errorf("%d events, want %d", len(after), len(before))
		}
	})
	t.Run("id_conflict", func(t *testing.T) {
		a := parallelAPI(t)
		a.importLines(t, "acct_a", three)
		lines := a.importFrom(strings.NewReader(line(`,"id":"one"`)+"\n"+line(`,"id":"two"`)+"\n"+line(`,"id":"three"`)), "").answerLines(t)
		if lines[0]["error"] != "id_conflict" || lines[0]["line"] != 2.0 || lines[1]["unchanged"] != 1.0 || lines[1]["recorded"] != 0.0 {
			t.Errorf("answer = %v, want line 2 to conflict and to stop", lines)
		}
	})
	t.Run("id_conflict_within_the_file", func(t *testing.T) {
		a := parallelAPI(t)
		lines := a.importFrom(strings.NewReader(line(`,"id":"one"`)+"\n"+line(`,"id":"one","source":"x"`)), "").answerLines(t)
		if lines[0]["error"] != "id_conflict" || lines[0]["line"] != 2.0 || lines[1]["recorded"] != 1.0 {
			t.Errorf("answer = %v", lines)
		}
	})
	t.Run("skip_continues", func(t *testing.T) {
		a := parallelAPI(t)
		w := a.importFrom(strings.NewReader(line(`,"id":"one"`)+"\nnonsense\n"+line("")+"\n"+line(`,"id":"two"`)), "&on-error=skip")
		lines := w.answerLines(t)
		if len(lines) != 3 || lines[0]["line"] != 2.0 || lines[1]["line"] != 3.0 || lines[1]["param"] != "id" || lines[2]["recorded"] != 2.0 || lines[2]["errors"] != 2.0 {
			t.Errorf("answer = %s, want two lines refused (one has no id) and two recorded", w.Body)
		}
	})
	t.Run("a_hundred_refused_lines_are_progressed", func(t *testing.T) {
		a := parallelAPI(t)
		w := a.importFrom(strings.NewReader(strings.Repeat("x\n", 2500)), "&on-error=skip")
		lines := w.answerLines(t)
		if last := lines[len(lines)-1]; len(lines) != 101 || last["errors"] != 2500.0 || last["lines"] != 2500.0 {
			t.Errorf("%d lines, the last %v", len(lines), last)
		}
	})
	t.Run("dry_run_records_nothing", func(t *testing.T) {
		a := parallelAPI(t)
		if s := a.importFrom(strings.NewReader(three), "&dry-run=true").lastLine(t); s["recorded"] != 3.0 {
			t.Errorf("summary = %v", s)
		}
		a.admin(http.MethodGet, "/admin/events?account=acct_a", nil).fault(t, http.StatusNotFound, "not_found", "")
	})
	t.Run("dry_run_compares_with_lines_of_earlier_batches", func(t *testing.T) {
		a := parallelAPI(t)
		var file strings.Builder
		for i := range 400 { // more than one batch
			fmt.Fprintln(&file, line(fmt.Sprintf(`,"id":"f%d"`, i)))
		}
		fmt.Fprintln(&file, line(`,"id":"f0"`))
		fmt.Fprintln(&file, strings.Replace(line(`,"id":"f0"`), `"eventData"`, `"source":"another","eventData"`, 1))
		lines := a.importFrom(strings.NewReader(file.String()), "&dry-run=true").answerLines(t)
		fault, summary := lines[len(lines)-2], lines[len(lines)-1]
		if fault["error"] != "id_conflict" || fault["line"] != 402.0 || summary["recorded"] != 400.0 || summary["unchanged"] != 1.0 {
			t.Errorf("fault = %v, summary = %v", fault, summary)
		}
	})
	t.Run("gzip", func(t *testing.T) {
		a := parallelAPI(t)
		if s := a.importFrom(bytes.NewReader(zipped(t, three)), "", "Content-Encoding", "gzip").lastLine(t); s["recorded"] != 3.0 || s["bytes"] != float64(len(three)) {
			t.Errorf("summary = %v", s)
		}
	})
	t.Run("gzip_that_breaks_off_ends_with_the_summary", func(t *testing.T) {
		a := parallelAPI(t)
		packed := zipped(t, strings.Repeat(line(`,"id":"one"`)+"\n", 50))
		lines := a.importFrom(bytes.NewReader(packed[:len(packed)-9]), "", "Content-Encoding", "gzip").answerLines(t)
		if broken, last := lines[len(lines)-2], lines[len(lines)-1]; broken["error"] != "incomplete_upload" || last["summary"] != true || last["errors"] != 1.0 {
			t.Errorf("the last lines are %v and %v", broken, last)
		}
	})
	t.Run("a_body_that_is_no_gzip", func(t *testing.T) {
		parallelAPI(t).importFrom(strings.NewReader(three), "", "Content-Encoding", "gzip").fault(t, http.StatusBadRequest, "invalid_request", "")
	})
	t.Run("an_upload_that_breaks_off_has_no_summary", func(t *testing.T) {
		a := parallelAPI(t)
		body := io.MultiReader(strings.NewReader(line(`,"id":"one"`)+"\n"+line(`,"id":"t`)), brokenReader{})
		last := a.importFrom(body, "").lastLine(t)
		if last["error"] != "incomplete_upload" {
			t.Errorf("last line = %v", last)
		}
		if events := a.events(t); len(events) != 1 || events[0].ID != "one" {
			t.Errorf("events = %+v, want the one that was whole", events)
		}
	})
	t.Run("a_file_without_its_last_line_end", func(t *testing.T) {
		if s := parallelAPI(t).importFrom(strings.NewReader(strings.TrimSpace(three)), "").lastLine(t); s["recorded"] != 3.0 || s["lines"] != 3.0 {
			t.Errorf("summary = %v", s)
		}
	})
	t.Run("an_empty_file", func(t *testing.T) {
		if s := parallelAPI(t).importFrom(strings.NewReader(""), "").lastLine(t); s["summary"] != true || s["lines"] != 0.0 {
			t.Errorf("summary = %v", s)
		}
	})
	t.Run("createdAt_of_5_s_ahead_is_taken", func(t *testing.T) {
		parallelAPI(t).importLines(t, "acct_a", `{"type":"a.b","resource":"p1","eventData":{"object":{}},"createdAt":1773070205}`)
	})
	t.Run("file_order_is_kept_within_a_second", func(t *testing.T) {
		a := parallelAPI(t)
		var file strings.Builder
		for i := range 300 {
			id := ""
			if i%3 == 0 {
				id = fmt.Sprintf(`,"id":"f%d"`, i)
			}
			fmt.Fprintln(&file, line(fmt.Sprintf(`%s,"source":"%d"`, id, i)))
		}
		a.importLines(t, "acct_a", file.String())
		for i, e := range a.events(t) {
			if e.Source != fmt.Sprint(i) {
				t.Fatalf("event %d is line %s", i, e.Source)
			}
		}
	})
	t.Run("resources_are_what_the_history_tells", func(t *testing.T) {
		a := parallelAPI(t)
		token := a.token(t, "bob", "acct_a", store.ScopeUnstated)
		a.importLines(t, "acct_a", `{"type":"plan.deleted","resource":"gone","eventData":{"object":{"n":2}},"createdAt":1773000002}
{"type":"plan.created","resource":"gone","eventData":{"object":{"n":1}},"createdAt":1773000001}
{"type":"plan.updated","resource":"kept","id":"ev9","eventData":{"object":{"n":2,"x":null}},"createdAt":1773000002}
{"type":"plan.created","resource":"kept","eventData":{"object":{"n":1}},"createdAt":1773000001}`)
		a.get("/api/resources/plan/gone", token).fault(t, http.StatusNotFound, "not_found", "")
		w := a.get("/api/resources/plan/kept", token)
		if w.Body.String() != `{"id":"kept","object":"plan","n":2}` || w.Header().Get("ETag") != web.EventTag("acct_a", "ev9") {
			t.Errorf("resource = %s %s", w.Header().Get("ETag"), w.Body)
		}
		if w := a.patch("/api/resources/plan/kept", token, `{"n":3}`, "If-Match", `"ev9"`); w.Code != http.StatusOK {
			t.Errorf("patch on the imported version = %d %s", w.Code, w.Body)
		}
	})
	t.Run("history_does_not_undo_what_is_newer", func(t *testing.T) {
		a := parallelAPI(t)
		token := a.token(t, "bob", "acct_a", store.ScopeUnstated)
		a.put("/api/resources/plan/p1", token, `{"n":9}`)
		a.importLines(t, "acct_a", line(""))
		if w := a.get("/api/resources/plan/p1", token); !strings.Contains(w.Body.String(), `"n":9`) {
			t.Errorf("resource = %s", w.Body)
		}
	})
	for name, query := range map[string]string{
		"invalid_parameter": "&on-error=maybe", "unknown_parameter": "&dryrun=true", "duplicate_parameter": "&dry-run=true&dry-run=true",
	} {
		t.Run(name, func(t *testing.T) {
			parallelAPI(t).importFrom(strings.NewReader(three), query).fault(t, http.StatusBadRequest, name, "")
		})
	}
	t.Run("an_account_that_cannot_be", func(t *testing.T) {
		parallelAPI(t).admin(http.MethodPost, "/admin/events/import?account=Acct%00", strings.NewReader(three), "Content-Type", "application/x-ndjson").
			fault(t, http.StatusBadRequest, "invalid_event", "account")
	})
	t.Run("another_type_of_body", func(t *testing.T) {
		parallelAPI(t).admin(http.MethodPost, "/admin/events/import?account=acct_a", strings.NewReader(three), "Content-Type", "application/json").
			fault(t, http.StatusUnsupportedMediaType, "unsupported_media_type", "")
	})
}

// events are all events of acct_a, oldest first.
func (a *apiHouse) events(t testing.TB) []eventJSON {
	t.Helper()
	return a.admin(http.MethodGet, "/admin/events?account=acct_a&order=asc&limit=1000", nil).page(t).Data
}

func zipped(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	must.Get(z.Write([]byte(text)))(t)
	must.Do(t, z.Close())
	return b.Bytes()
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// An answer that begins before a short upload ends does not cut it off, as net/http does
// silently without full duplex.
func TestImportReadsToTheEndWhileItAnswers(t *testing.T) {
	a := parallelAPI(t)
	server := httptest.NewUnstartedServer(nil)
	server.Config = web.NewHTTPServer(a.server.Admin(), slog.New(slog.DiscardHandler))
	server.Start()
	defer server.Close()
	var file strings.Builder
	file.WriteString(strings.Repeat("nonsense\n", 60)) // more answer than a buffer holds
	for i := range 940 {
		fmt.Fprintln(&file, line(fmt.Sprintf(`,"id":"f%d"`, i)))
	}
	response, err := http.Post(server.URL+"/admin/events/import?account=acct_a&on-error=skip", "application/x-ndjson", strings.NewReader(file.String()))
	must.Do(t, err)
	defer response.Body.Close()
	w := httptest.NewRecorder()
	must.Get(io.Copy(w, response.Body))(t)
	if s := (answer{w}).lastLine(t); s["lines"] != 1000.0 || s["recorded"] != 940.0 || s["errors"] != 60.0 {
		t.Errorf("summary = %v, want all 1000 lines", s)
	}
}

// The answer is sent during the upload.
//
// Promise (§3.3): the answer streams during the upload, which is never cut off
func TestImportAnswersWhileItReads(t *testing.T) {
	a := parallelAPI(t)
	server := httptest.NewUnstartedServer(nil)
	server.Config = web.NewHTTPServer(a.server.Admin(), slog.New(slog.DiscardHandler))
	server.Start()
	defer server.Close()
	upload, writer := io.Pipe()
	sent := make(chan error, 1)
	const lines = 20_001
	progressed := make(chan struct{})
	go func() {
		w := bufio.NewWriter(writer)
		for i := range lines {
			if i == lines-1 {
				if err := w.Flush(); err != nil {
					sent <- err
					return
				}
				<-progressed // the last line waits for the first progress
			}
			fmt.Fprintln(w, line(fmt.Sprintf(`,"id":"f%d"`, i)))
		}
		sent <- errors.Join(w.Flush(), writer.Close())
	}()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, server.URL+"/admin/events/import?account=acct_a&dry-run=true", upload)
	must.Do(t, err)
	r.Header.Set("Content-Type", "application/x-ndjson")
	answer := must.Get(server.Client().Do(r))(t)
	defer answer.Body.Close()
	var last map[string]any
	progress := sync.OnceFunc(func() { close(progressed) })
	for scanner := bufio.NewScanner(answer.Body); scanner.Scan(); {
		last = decodeObject(t, scanner.Bytes())
		if last["progress"] == true {
			progress()
		}
	}
	if err := <-sent; err != nil {
		t.Errorf("upload: %v", err)
	}
	if last["summary"] != true || last["lines"] != float64(lines) {
		t.Errorf("last line = %v, want the summary of %d lines", last, lines)
	}
}

// A client that reads only after sending everything finds the summary of an import that
// stopped at the first line.
//
// Promise (§3.3): the answer streams during the upload, which is never cut off
func TestImportThatStopsIsStillAnswered(t *testing.T) {
	a := parallelAPI(t)
	server := httptest.NewUnstartedServer(nil)
	server.Config = web.NewHTTPServer(a.server.Admin(), slog.New(slog.DiscardHandler))
	server.Start()
	defer server.Close()
	conn := must.Get(net.Dial("tcp", server.Listener.Addr().String()))(t)
	defer conn.Close()
	body := "nonsense\n" + strings.Repeat(line("")+"\n", 100_000)
	head := fmt.Sprintf("POST /admin/events/import?account=acct_a HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\nContent-Length: %d\r\n\r\n", len(body))
	if _, err := io.WriteString(conn, head+body); err != nil {
		t.Fatalf("the connection was cut during the upload: %v", err)
	}
	answer := must.Get(http.ReadResponse(bufio.NewReader(conn), nil))(t)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || !strings.Contains(string(text), `"summary":true`) {
		t.Errorf("answer = %s, %v", text, err)
	}
}

// Promise (§3.3): the command compares sent and seen, and exits 65 for a refused line; export,
// import and export is byte-identical
func TestExport(t *testing.T) {
	a := parallelAPI(t)
	token := a.token(t, "harriet.voss", "acct_a", store.ScopeUnstated)
	var file strings.Builder
	for i := range 700 {
		second := 1773000000 + i%7
		fmt.Fprintf(&file, `{"type":"plan.%s","resource":"p%d","eventData":{"object":{"n":%d.0,"t":"<&>é\n"},"previousAttributes":{"n":null}},"createdAt":%d`, []string{"created", "updated", "deleted"}[i%3], i%50, i, second)
		if i%2 == 0 {
			fmt.Fprintf(&file, `,"id":"foreign-%d"`, i)
		}
		file.WriteString("}\n")
	}
	a.importLines(t, "acct_a", file.String())
	a.put("/api/resources/customer/cus_1", token, `{"displayName":"Larkspur"}`)
	a.importLines(t, "acct_a", strings.ReplaceAll(line(`,"id":"later"`), "1773000000", "1773000003")+"\n"+line(`,"source":"late"`))
	first := a.admin(http.MethodGet, "/admin/event-export?account=acct_a", nil)
	exported, counted := first.Body.String(), first.Result().Trailer.Get("Tollhouse-Events")

	t.Run("export_has_every_event", func(t *testing.T) {
		t.Parallel()
		if n := strings.Count(exported, "\n"); n != 703 || counted != "703" {
			t.Errorf("export has %d lines, and counts %s", n, counted)
		}
	})
	t.Run("export_import_export_is_byte_identical", func(t *testing.T) {
		b := parallelAPI(t)
		b.importLines(t, "acct_a", exported)
		again := b.admin(http.MethodGet, "/admin/event-export?account=acct_a", nil)
		if again.Body.String() != exported {
			t.Error("the second export differs from the first")
		}
		if w := b.admin(http.MethodPost, "/admin/events/import?account=acct_a", strings.NewReader(exported), "Content-Type", "application/x-ndjson"); w.lastLine(t)["unchanged"] != 703.0 {
			t.Errorf("imported again: %s", w.Body)
		}
		token := b.token(t, "bob", "acct_a", store.ScopeUnstated)
		if w := b.get("/api/resources/customer/cus_1", token); w.Code != http.StatusOK {
			t.Errorf("the resource of the history = %d", w.Code)
		}
	})
	t.Run("export_of_no_account", func(t *testing.T) {
		t.Parallel()
		a.admin(http.MethodGet, "/admin/event-export?account=acct_none", nil).fault(t, http.StatusNotFound, "not_found", "")
	})
}

// TestExportedEventsOfWebhookEndpointsStayAsTheyAre: they contain nulls, and a description
// that an import would refuse is refused when it is given.
//
// Promise (§3.3): the command compares sent and seen, and exits 65 for a refused line; export,
// import and export is byte-identical
func TestExportedEventsOfWebhookEndpointsStayAsTheyAre(t *testing.T) {
	h := newHooked(t)
	h.post("", h.token, `{"url":"`+hookURL+`","description":"card 4111 1111 1111 1111"}`).fault(t, http.StatusBadRequest, "sensitive_data", "description")
	e := h.created(t, `{"url":"`+hookURL+`/4111111111111111","description":"<till> & \u2028"}`)
	h.patch(api.WebhooksPath+"/"+e.ID, h.token, `{"description":"4111 1111 1111 1111"}`).fault(t, http.StatusBadRequest, "sensitive_data", "description")
	for _, call := range []string{"/disable", "/enable", "/rotate-secret"} {
		if w := h.post("/"+e.ID+call, h.token, ""); w.Code != http.StatusOK {
			t.Fatalf("%s = %d %s", call, w.Code, w.Body)
		}
	}
	export := h.admin(http.MethodGet, "/admin/event-export?account=acct_a", nil).Body.String()
	if !strings.Contains(export, "webhook_endpoint.secret_rotated") || !strings.Contains(export, `"disabled":null`) {
		t.Fatalf("export = %s, want the events of the endpoint, with a null", export)
	}
	for name, to := range map[string]*apiHouse{"over_itself": h.apiHouse, "elsewhere": newAPI(t)} {
		to.importLines(t, "acct_a", export)
		if again := to.admin(http.MethodGet, "/admin/event-export?account=acct_a", nil); again.Body.String() != export {
			t.Errorf("imported %s, the events are\n%s\nwant\n%s", name, again.Body, export)
		}
	}
}

// Promise (§3.3): a native id is its own position and must agree with createdAt; a foreign one
// keeps its spelling; POST /admin/events records one
func TestAdminEvents(t *testing.T) {
	a := parallelAPI(t)
	a.importLines(t, "acct_a", line(`,"id":"one"`))
	t.Run("account_is_the_admin_apis", func(t *testing.T) {
		t.Parallel()
		page := a.admin(http.MethodGet, "/admin/events?account=acct_a&type=plan.created&limit=1", nil).page(t)
		if !slices.Equal(page.ids(), []string{"one"}) {
			t.Errorf("events = %q", page.ids())
		}
		if w := a.admin(http.MethodGet, "/admin/events/one?account=acct_a", nil); w.Code != http.StatusOK {
			t.Errorf("get = %d %s", w.Code, w.Body)
		}
		a.admin(http.MethodGet, "/admin/events/two?account=acct_a", nil).fault(t, http.StatusNotFound, "not_found", "")
		a.admin(http.MethodGet, "/admin/events/one?account=acct_b", nil).fault(t, http.StatusNotFound, "not_found", "")
		a.admin(http.MethodGet, "/admin/events?account=acct_a&account=acct_b", nil).fault(t, http.StatusBadRequest, "duplicate_parameter", "account")
		a.admin(http.MethodGet, "/admin/events?types=x&account=acct_a", nil).fault(t, http.StatusBadRequest, "unknown_parameter", "types")
	})
	t.Run("record_one", func(t *testing.T) {
		b := parallelAPI(t)
		record := func(body string) answer {
			return b.admin(http.MethodPost, "/admin/events?account=acct_b", strings.NewReader(body), "Content-Type", "application/json")
		}
		w := record(`{"type":"plan.renewed","resource":"p1","source":"cron","eventData":{"object":{"n":1}}}`)
		if w.Code != http.StatusCreated {
			t.Fatalf("record = %d %s", w.Code, w.Body)
		}
		e := decodeObject(t, w.Body.Bytes())
		if e["owner"] != "acct_b" || e["source"] != "cron" || e["location"] != "system" || e["createdAt"] != 1773070200.0 {
			t.Errorf("event = %v", e)
		}
		found := b.admin(http.MethodGet, "/admin/events/"+e["id"].(string)+"?account=acct_b", nil)
		if found.Body.String() != w.Body.String() {
			t.Errorf("found %s, want %s", found.Body, w.Body)
		}
		record(`{"type":"plan.renewed","resource":"p1","createdAt":1,"eventData":{"object":{}}}`).fault(t, http.StatusBadRequest, "invalid_event", "createdAt")
		record(`{"type":"plan.renewed","resource":"p1","id":"x","eventData":{"object":{}}}`).fault(t, http.StatusBadRequest, "invalid_event", "id")
		record(`{"type":"plan","resource":"p1","eventData":{"object":{}}}`).fault(t, http.StatusBadRequest, "invalid_event", "type")
		record(`{"type":"plan.renewed","resource":"p1","eventData":{"object":{"ssn":"078-05-1120"}}}`).fault(t, http.StatusBadRequest, "sensitive_data", "eventData.object.ssn")
		record(`{`).fault(t, http.StatusBadRequest, "invalid_json", "")
	})
}

// FuzzImport: an import of any bytes gives an answer that ends with a summary and accounts
// for every line, and an export that can be imported again without a change.
func FuzzImport(f *testing.F) {
	f.Add([]byte(line("")+"\n"+line(`,"id":"x"`)), false)
	f.Add([]byte(line(`,"id":"`+goldenFirst+`"`)+"\n\n{}\n[1]\r\nx"), true)
	f.Add([]byte(strings.Repeat(line("")+"\n", 3)), false)
	f.Fuzz(func(t *testing.T, file []byte, skip bool) {
		a := newAPI(t)
		query := "?account=acct_a"
		if skip {
			query += "&on-error=skip"
		}
		post := func(body []byte, query string) map[string]any {
			w := a.admin(http.MethodPost, "/admin/events/import"+query, bytes.NewReader(body), "Content-Type", "application/x-ndjson")
			summary := w.lastLine(t)
			if w.Code != http.StatusOK || summary["summary"] != true {
				t.Fatalf("import of %q = %d %s", file, w.Code, w.Body)
			}
			return summary
		}
		s := post(file, query)
		recorded, refused := s["recorded"].(float64), s["errors"].(float64)
		if sum := recorded + refused + s["unchanged"].(float64); sum > s["lines"].(float64) || !skip && refused > 1 {
			t.Fatalf("import of %q counts %v", file, s)
		}
		if recorded == 0 {
			return
		}
		exported := a.admin(http.MethodGet, "/admin/event-export?account=acct_a", nil)
		again := post(exported.Body.Bytes(), "?account=acct_a")
		if again["unchanged"] != recorded || again["errors"] != 0.0 {
			t.Fatalf("the export of %q, imported again, counts %v, want %v unchanged", file, again, recorded)
		}
	})
}

// Promise (Platform §7): a name in metadata that is refused now, and that an import brought, can be
// removed by a PATCH with null
func TestAnImportedNameInMetadataIsRemoved(t *testing.T) {
	a := parallelAPI(t)
	token := a.token(t, "bob", "acct_a", store.ScopeUnstated)
	a.importLines(t, "acct_a", `{"type":"customer.created","resource":"c1","eventData":{"object":{"metadata":{"a[b]":"x","c":"y"}}},"createdAt":1773000001}`)
	a.patch("/api/resources/customer/c1", token, `{"metadata":{"a[b]":"z"}}`).fault(t, http.StatusBadRequest, "invalid_field", "metadata")
	if w := a.patch("/api/resources/customer/c1", token, `{"metadata":{"a[b]":null}}`); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"metadata":{"c":"y"}`) {
		t.Errorf("PATCH null = %d %s", w.Code, w.Body)
	}
}

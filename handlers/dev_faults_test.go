package handlers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"tollhouse/store/storetest/must"
)

// fault makes a rule and returns its id.
func (h *devHouse) fault(t testing.TB, rule string) string {
	t.Helper()
	return object(t, h.ask(t, "POST", "/_dev/faults", rule), http.StatusCreated)["id"].(string)
}

// rule returns a rule as it is listed.
func (h *devHouse) rule(t testing.TB, id string) map[string]any {
	t.Helper()
	return object(t, h.get(t, "/_dev/faults/"+id), http.StatusOK)
}

func TestFaultIsMadeListedAndRemoved(t *testing.T) {
	t.Parallel()
	h := newDevHouse(t)
	const ask = `{"match":{"method":"POST","path":"/oauth/v2/token"},"skip":1,"count":2,"do":{"status":503,"delay":"1ms"}}`
	made := h.ask(t, "POST", "/_dev/faults", ask)
	want := `{"id":"flt_1","match":{"method":"POST","path":"/oauth/v2/token"},"skip":1,"count":2,"do":{"status":503,"delay":"1ms"},"seen":0,"hits":0}` + "\n"
	if made.StatusCode != http.StatusCreated || made.body != want {
		t.Errorf("POST = %d %s, want 201 %s", made.StatusCode, made.body, want)
	}
	if got := h.get(t, "/_dev/faults/flt_1").body; got != want {
		t.Errorf("GET = %s, want %s", got, want)
	}
	h.fault(t, `{"do":{"drop":"answer"}}`)
	var list struct {
		Object string
		Data   []map[string]any
	}
	if err := json.Unmarshal([]byte(h.get(t, "/_dev/faults").body), &list); err != nil || list.Object != "list" || len(list.Data) != 2 || list.Data[1]["id"] != "flt_2" {
		t.Errorf("list = %+v, %v", list, err)
	}
	if got := object(t, h.get(t, "/_dev/state"), http.StatusOK)["faults"]; got != 2.0 {
		t.Errorf("faults of the state = %v, want 2", got)
	}
	for _, path := range []string{"/_dev/faults/flt_1", "/_dev/faults", "/_dev/faults"} {
		if a := h.ask(t, "DELETE", path, ""); a.StatusCode != http.StatusNoContent {
			t.Errorf("DELETE %s = %d, want 204", path, a.StatusCode)
		}
	}
	for _, method := range []string{"GET", "DELETE"} {
		wantError(t, h.ask(t, method, "/_dev/faults/flt_1", ""), http.StatusNotFound, "not_found")
	}
	if got := h.fault(t, `{"do":{"status":500}}`); got != "flt_3" {
		t.Errorf("id after all were removed = %s, want flt_3", got)
	}
	for range 99 {
		h.fault(t, `{"do":{"status":500}}`)
	}
	wantError(t, h.ask(t, "POST", "/_dev/faults", `{"do":{"status":500}}`), http.StatusConflict, "conflict")
}

func TestFaultRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	h := newDevHouse(t)
	tests := []struct{ rule, param, near string }{
		{`{}`, "do", ""},
		{`{"do":{}}`, "do", ""},
		{`{"do":{"status":500,"drop":"answer"}}`, "do", ""},
		{`{"do":{"status":399}}`, "do.status", ""},
		{`{"do":{"status":600}}`, "do.status", ""},
		{`{"do":{"status":200}}`, "do.body", ""},
		{`{"do":{"status":500,"body":7}}`, "do.body", ""},
		{`{"do":{"status":500,"body":null}}`, "do.body", ""},
		{`{"do":{"drop":"answer","body":{}}}`, "do.body", ""},
		{`{"do":{"truncate":1,"headers":{}}}`, "do.headers", ""},
		{`{"do":{"delay":1,"retry_after":1}}`, "do.retry_after", ""},
		{`{"do":{"status":500,"headers":{"Content-Length":"1"}}}`, "do.headers.Content-Length", ""},
		{`{"do":{"status":500,"headers":{"X-A":"a\r\nb"}}}`, "do.headers.X-A", ""},
		{`{"do":{"drop":"both"}}`, "do.drop", ""},
		{`{"do":{"truncate":-1}}`, "do.truncate", ""},
		{`{"do":{"malformed":false}}`, "do.malformed", ""},
		{`{"do":{"delay":"61s"}}`, "do.delay", ""},
		{`{"do":{"delay":0}}`, "do.delay", ""},
		{`{"do":{"statsu":500}}`, "do.statsu", "do.status"},
		{`{"do":{"status":500},"count":0}`, "count", ""},
		{`{"do":{"status":500},"skip":-1}`, "skip", ""},
		{`{"match":{"methd":"GET"},"do":{"status":500}}`, "match.methd", "match.method"},
		{`{"match":{"path":"/oauth/v2/tokn"},"do":{"status":500}}`, "match.path", "/oauth/v2/token"},
		{`{"match":{"path":"/api/event/evt_1"},"do":{"status":500}}`, "match.path", "/api/events/evt_1"},
		{`{"match":{"path":"/_dev/clock"},"do":{"status":500}}`, "match.path", ""},
		{`{"match":{"path":"/_dev/*"},"do":{"status":500}}`, "match.path", ""},
		{`{"match":{"path":"/**/token"},"do":{"status":500}}`, "match.path", ""},
		{`{"match":{"path":"api/events"},"do":{"status":500}}`, "match.path", ""},
		{`{"match":{"path":"/api/events?limit=1"},"do":{"status":500}}`, "match.path", ""},
		{`{"match":{"path":"/oauth/v2/token","method":"GET"},"do":{"status":500}}`, "match.method", ""},
		{`{"match":{"method":"post"},"do":{"status":500}}`, "match.method", "POST"},
		{`{"match":{"client_id":""},"do":{"status":500}}`, "match.client_id", ""},
	}
	for _, tt := range tests {
		if got := wantParam(t, h.ask(t, "POST", "/_dev/faults", tt.rule), tt.param); !strings.Contains(got, tt.near) {
			t.Errorf("%s: %q, want it to name %s", tt.rule, got, tt.near)
		}
	}
	for _, rule := range []string{
		`{"match":{"path":"/api/events/evt_1"},"do":{"status":500}}`, `{"match":{"path":"/api/resources/customer/cus_1","method":"PATCH"},"do":{"status":500}}`,
		`{"match":{"path":"/readyz"},"do":{"status":503}}`, `{"match":{"path":"/static/style.css"},"do":{"status":500}}`, `{"match":{"path":"/api/**"},"do":{"status":500}}`,
		`{"match":{"method":"OPTIONS"},"do":{"status":299,"body":"ok"}}`, `{"match":{},"do":{"status":599,"body":[]}}`,
	} {
		h.fault(t, rule)
	}
}

// A rule is spent after its count, and rules see a request until one hits it.
func TestFaultSkipsAndCounts(t *testing.T) {
	t.Parallel()
	h := newDevHouse(t)
	first := h.fault(t, `{"match":{"path":"/api/events"},"skip":1,"count":2,"do":{"status":502}}`)
	second := h.fault(t, `{"match":{"path":"/api/*"},"count":2,"do":{"status":504}}`)
	var got []int
	for range 5 {
		got = append(got, h.get(t, "/api/events").StatusCode)
	}
	h.get(t, "/nowhere")
	h.get(t, "/healthz")
	if want := "[504 502 502 504 401]"; fmt.Sprint(got) != want {
		t.Errorf("answers = %v, want %s", got, want)
	}
	for id, want := range map[string]string{first: "3 2", second: "2 2"} {
		if rule := h.rule(t, id); fmt.Sprint(rule["seen"], rule["hits"]) != want {
			t.Errorf("%s has seen and hit %v %v, want %s", id, rule["seen"], rule["hits"], want)
		}
	}
	if state := object(t, h.get(t, "/_dev/state"), http.StatusOK); state["faults"] != 0.0 {
		t.Errorf("%v faults can still hit, want none", state["faults"])
	}
}

func TestFaultMatches(t *testing.T) {
	t.Parallel()
	h := newDevHouse(t, at("https://pay.example/sandbox"))
	other, otherSecret := h.Client(t)
	const base = "/sandbox"
	token := func(body, mediaType string, change ...func(*http.Request)) answer {
		change = append(change, header("Content-Type", mediaType))
		return h.do(h.request(t, "POST", base+tokenPath, strings.NewReader(body), change...))
	}
	p := wantPair(t, token(h.passwordForm().Encode(), formType))
	q := wantPair(t, token(as(h.passwordForm(), other, otherSecret).Encode(), formType))
	isHit := func(want bool, a answer) {
		t.Helper()
		if (a.Header.Get("Tollhouse-Fault") != "") != want || want != (a.StatusCode == http.StatusTeapot) {
			t.Errorf("%s %s = %d %s, want a fault: %v", a.Request.Method, a.Request.URL, a.StatusCode, a.body, want)
		}
	}
	with := func(match string, do func()) {
		t.Helper()
		h.ask(t, "DELETE", base+"/_dev/faults", "")
		object(t, h.ask(t, "POST", base+"/_dev/faults", `{"match":`+match+`,"do":{"status":418}}`), http.StatusCreated)
		do()
	}
	with(`{"client_id":"`+h.client.ID+`"}`, func() {
		isHit(true, token(h.refreshForm("x").Encode(), formType))
		isHit(true, token(`{"client_id":"`+h.client.ID+`"}`, "application/json"))
		isHit(true, token("grant_type=password", formType, basic(h.client.ID, "x")))
		isHit(true, h.get(t, base+"/oauth/v2/auth?client_id="+h.client.ID))
		isHit(true, h.get(t, base+"/api/events", header("Authorization", "Bearer "+p.AccessToken)))
		isHit(false, h.get(t, base+"/api/events", header("Authorization", "Bearer "+q.AccessToken)))
		isHit(false, h.get(t, base+"/api/events"))
		isHit(false, token(as(h.passwordForm(), other, otherSecret).Encode(), formType))
	})
	with(`{"grant_type":"refresh_token"}`, func() {
		isHit(true, token(h.refreshForm("x").Encode(), formType))
		isHit(false, token(h.passwordForm().Encode(), formType)) // read ahead, and read again
	})
	with(`{"path":"/oauth/v2/token","method":"POST"}`, func() {
		isHit(true, token("", formType))
		isHit(false, h.get(t, base+tokenPath))
	})
	with(`{}`, func() {
		isHit(true, h.get(t, base+"/nowhere"))
		isHit(true, h.get(t, base+"/"))
		isHit(false, h.get(t, base+"/healthz"))
		isHit(false, h.get(t, base+"/static/style.css"))
		isHit(false, h.get(t, base+"/_dev/clock"))
	})
	with(`{"path":"/**"}`, func() { isHit(false, h.get(t, base+"/readyz")) })
	with(`{"path":"/readyz"}`, func() { isHit(true, h.get(t, base+"/readyz")) })
}

func TestFaultStatus(t *testing.T) {
	t.Parallel()
	h := newDevHouse(t)
	p := wantPair(t, h.token(t, h.passwordForm()))
	hit := func(t *testing.T, do string, ask func() answer) answer {
		t.Helper()
		h.ask(t, "DELETE", "/_dev/faults", "")
		id := h.fault(t, `{"count":1,"do":`+do+`}`)
		a := ask()
		if got := a.Header.Get("Tollhouse-Fault"); got != id {
			t.Errorf("Tollhouse-Fault = %q, want %s", got, id)
		}
		found := h.journalOf(t, "fault="+id)
		if len(found) != 1 || found[0]["status"] != float64(a.StatusCode) {
			t.Errorf("entries of the fault = %v, want one with status %d", found, a.StatusCode)
		}
		return a
	}
	refresh := func() answer { return h.token(t, h.refreshForm(p.RefreshToken)) }
	read := func() answer { return h.api(t, p.AccessToken) }

	a := hit(t, `{"status":503}`, refresh)
	wantTokenError(t, a, 503, "temporarily_unavailable")
	if got := a.Header.Get("Retry-After"); got != "1" {
		t.Errorf("Retry-After = %q, want 1", got)
	}
	if body := h.journalOf(t, "status=503")[0]["body"]; body == nil {
		t.Error("the entry of a request that no handler read has no body")
	}
	a = hit(t, `{"status":429,"retry_after":7}`, refresh)
	wantTokenError(t, a, 429, "too_many_requests")
	if got := a.Header.Get("Retry-After"); got != "7" {
		t.Errorf("Retry-After = %q, want 7", got)
	}
	wantTokenError(t, hit(t, `{"status":500}`, refresh), 500, "server_error")
	wantTokenError(t, hit(t, `{"status":401}`, refresh), 401, "invalid_client")
	a = hit(t, `{"status":401}`, read)
	wantError(t, a, 401, "invalid_token")
	if got := a.Header.Get("WWW-Authenticate"); !strings.Contains(got, `error="invalid_token"`) {
		t.Errorf("WWW-Authenticate = %q, want the challenge", got)
	}
	wantError(t, hit(t, `{"status":418,"headers":{"X-A":"b"}}`, read), 418, "fault")
	if a.Header.Get("Retry-After") != "" {
		t.Error("a 401 has Retry-After")
	}
	a = hit(t, `{"status":201,"body":{"z":1, "a":[]},"headers":{"x-a":"b","Retry-After":"9"}}`, read)
	if a.StatusCode != 201 || a.body != `{"z":1, "a":[]}` || a.Header.Get("X-A") != "b" || a.Header.Get("Retry-After") != "9" || a.Header.Get("Content-Type") != "application/json" {
		t.Errorf("answer = %d %v %s, want the rule's body and headers", a.StatusCode, a.Header, a.body)
	}
	a = hit(t, `{"status":503,"body":"<b>down</b>"}`, read)
	if a.body != "<b>down</b>" || !strings.HasPrefix(a.Header.Get("Content-Type"), "text/plain") || a.Header.Get("Retry-After") != "1" {
		t.Errorf("answer = %v %s, want a text", a.Header, a.body)
	}
	a = hit(t, `{"status":502,"body":"<b>down</b>","headers":{"content-type":"text/html"}}`, read)
	if got := a.Header.Get("Content-Type"); got != "text/html" {
		t.Errorf("Content-Type = %q, want the rule's", got)
	}
	a = hit(t, `{"status":503}`, func() answer { return h.get(t, "/login", header("Accept", "text/html")) })
	if a.StatusCode != 503 || !strings.Contains(a.body, "The server is busy") {
		t.Errorf("a page = %d %.200s, want the page of a busy server", a.StatusCode, a.body)
	}
	wantPair(t, refresh()) // nothing was changed
}

// A browser's client can read the status of a fault and its headers, as it can a real
// answer's.
func TestFaultCarriesCORSHeaders(t *testing.T) {
	t.Parallel()
	h := newDevHouse(t)
	h.fault(t, `{"do":{"status":503}}`)
	a := h.get(t, "/api/events", header("Origin", "https://app.example"))
	if a.StatusCode != 503 || a.Header.Get("Access-Control-Allow-Origin") != "*" || !strings.Contains(a.Header.Get("Access-Control-Expose-Headers"), "Tollhouse-Fault") {
		t.Errorf("answer = %d %v, want CORS headers", a.StatusCode, a.Header)
	}
	preflight := h.do(h.request(t, "OPTIONS", "/api/events", nil, header("Origin", "https://app.example"), header("Access-Control-Request-Method", "GET")))
	if preflight.StatusCode != http.StatusNoContent {
		t.Errorf("preflight = %d, want it to pass", preflight.StatusCode)
	}
	clean := newDevHouse(t).get(t, "/api/events", header("Origin", "https://app.example"))
	if strings.Contains(clean.Header.Get("Access-Control-Expose-Headers"), "Tollhouse-Fault") {
		t.Error("an answer without a fault exposes its header")
	}
}

// Over HTTP/1.1 and HTTP/2, a client sees what a rule broke.
func TestFaultBreaksAnswers(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			h := newDevHouse(t, at("https://127.0.0.1"))
			server := httptest.NewUnstartedServer(h.public)
			server.EnableHTTP2 = protocol == "HTTP/2.0"
			server.StartTLS()
			defer server.Close()
			client := server.Client()
			client.Transport.(*http.Transport).DisableCompression = true
			send := func(body string) (*http.Response, []byte, error) {
				r, _ := http.NewRequestWithContext(t.Context(), "POST", server.URL+tokenPath, strings.NewReader(body))
				r.Header.Set("Content-Type", formType)
				res, err := client.Do(r)
				if err != nil {
					return nil, nil, err
				}
				if res.Proto != protocol {
					t.Fatalf("protocol = %s", res.Proto)
				}
				defer res.Body.Close()
				text, err := io.ReadAll(res.Body)
				return res, text, err
			}
			faulty := func(do string) string {
				h.ask(t, "DELETE", "/_dev/faults", "")
				return h.fault(t, `{"match":{"path":"/oauth/v2/token"},"count":1,"do":`+do+`}`)
			}
			issue := func() pair {
				res, text, err := send(h.passwordForm().Encode())
				if err != nil || res.StatusCode != http.StatusOK {
					t.Fatalf("token = %s, %v", text, err)
				}
				var p pair
				_ = json.Unmarshal(text, &p)
				return p
			}
			dropped := func(id string) map[string]any {
				t.Helper()
				return h.onlyEntry(t, "fault="+id)
			}

			p := issue()
			id := faulty(`{"drop":"request"}`)
			if _, _, err := send(h.refreshForm(p.RefreshToken).Encode()); err == nil {
				t.Error("a dropped request has an answer")
			}
			if got := dropped(id); got["status"] != 0.0 || got["grant_type"] != "refresh_token" {
				t.Errorf("entry = %v, want status 0", got)
			}
			if got := h.endOf(t, p.RefreshToken); got != "" {
				t.Errorf("the refresh token of a dropped request is %s, want it unused", got)
			}

			id = faulty(`{"drop":"answer"}`)
			if _, _, err := send(h.refreshForm(p.RefreshToken).Encode()); err == nil {
				t.Error("a dropped answer arrived")
			}
			if got := dropped(id); got["status"] != 0.0 {
				t.Errorf("entry = %v, want status 0", got)
			}
			if got := h.endOf(t, p.RefreshToken); got != "spent" {
				t.Errorf("the refresh token of a lost answer is %q, want it spent", got)
			}

			whole := func() int { _, text, _ := send(h.passwordForm().Encode()); return len(text) }()
			for _, cut := range []struct{ do, sent int }{{10, 10}, {0, 0}, {1 << 20, whole - 1}} {
				id = faulty(fmt.Sprintf(`{"truncate":%d}`, cut.do))
				res, text, err := send(h.passwordForm().Encode())
				if err == nil || res == nil || len(text) != cut.sent || res.ContentLength < int64(whole)/2 || res.Header.Get("Tollhouse-Fault") != id {
					t.Errorf("truncated at %d: %d bytes of %d, %v, want %d and a broken connection", cut.do, len(text), whole, err, cut.sent)
				}
			}

			id = faulty(`{"malformed":true}`)
			res, text, err := send(h.passwordForm().Encode())
			if err != nil || res.StatusCode != http.StatusOK || json.Valid(text) || len(text) < whole/2-2 || len(text) > whole/2+2 || res.ContentLength != int64(len(text)) || res.Header.Get("Tollhouse-Fault") != id {
				t.Errorf("malformed: %d bytes of %d, valid %v, %v, want the first half", len(text), whole, json.Valid(text), err)
			}
			issue() // the rest works
		})
	}
}

// endOf returns why a token has ended, "" while it is valid.
func (h *house) endOf(t testing.TB, token string) string {
	t.Helper()
	found, err := h.Inspect(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	return found.Ended
}

// A stream does not end by itself, so a rule breaks its first bytes.
func TestFaultBreaksStreams(t *testing.T) {
	t.Parallel()
	h := newDevHouse(t)
	p := wantPair(t, h.token(t, h.passwordForm()))
	server := httptest.NewServer(h.public)
	defer server.Close()
	stream := func(do string) (string, error) {
		h.ask(t, "DELETE", "/_dev/faults", "")
		h.fault(t, `{"do":`+do+`}`)
		r, _ := http.NewRequestWithContext(t.Context(), "GET", server.URL+apiPath, nil)
		r.Host = "pay.example"
		r.Header.Set("Accept", "text/event-stream")
		r.Header.Set("Authorization", "Bearer "+p.AccessToken)
		res, err := server.Client().Do(r)
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		return string(text), err
	}
	if text, err := stream(`{"drop":"answer"}`); err == nil {
		t.Errorf("a dropped stream sent %q", text)
	}
	if text, err := stream(`{"truncate":5}`); err == nil || text != "retry" {
		t.Errorf("a truncated stream sent %q, %v, want its first 5 bytes and a broken connection", text, err)
	}
	if text, err := stream(`{"malformed":true}`); err != nil || !strings.HasPrefix(text, "retry") || strings.Contains(text, "}\n\n") {
		t.Errorf("a malformed stream sent %q, %v, want half of its first frames", text, err)
	}
}

// A delay ends when the caller disconnects, with the rest of its request undone.
func TestFaultDelayEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	h := newDevHouse(t)
	server := httptest.NewServer(h.public)
	defer server.Close()
	id := h.fault(t, `{"match":{"path":"/oauth/v2/token"},"do":{"delay":"60s"}}`)
	before := h.Count(t, 't')
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		r, _ := http.NewRequestWithContext(ctx, "POST", server.URL+tokenPath, strings.NewReader(h.passwordForm().Encode()))
		r.Host = "pay.example"
		r.Header.Set("Content-Type", formType)
		res, err := server.Client().Do(r)
		if err == nil {
			res.Body.Close()
		}
		left <- err
	}()
	for h.rule(t, id)["hits"] != 1.0 { // it is in its delay
		runtime.Gosched()
	}
	leave()
	if err := <-left; err == nil {
		t.Error("the delayed request was answered at once")
	}
	for len(h.journalOf(t, "fault="+id)) == 0 {
		runtime.Gosched()
	}
	if got := h.onlyEntry(t, "fault="+id); got["status"] != 0.0 {
		t.Errorf("entry = %v, want status 0", got)
	}
	if after := h.Count(t, 't'); after != before {
		t.Errorf("%d tokens were issued to a caller that left", after-before)
	}
}

func TestFaultDelayEndsWhenTheServerStops(t *testing.T) {
	t.Parallel()
	h := newDevHouse(t)
	id := h.fault(t, `{"do":{"delay":"60s","status":503}}`)
	answered := make(chan answer)
	go func() { answered <- h.get(t, "/nowhere") }()
	for h.rule(t, id)["hits"] != 1.0 {
		runtime.Gosched()
	}
	h.server.API.Drain()
	if a := <-answered; a.StatusCode != http.StatusServiceUnavailable || a.Header.Get("Tollhouse-Fault") != id {
		t.Errorf("answer = %d, want the fault's", a.StatusCode)
	}
}

// On one connection, a broken answer ends what follows it and nothing before it.
func TestFaultBreaksPipelinedAnswers(t *testing.T) {
	t.Parallel()
	h := newDevHouse(t, at("http://127.0.0.1"))
	server := httptest.NewServer(h.public)
	defer server.Close()
	for _, tt := range []struct {
		do, method string
		answers    int
		end        string // of what came
	}{
		{`{"drop":"request"}`, "GET", 1, `{"status":"ok"}` + "\n"},
		{`{"drop":"answer"}`, "GET", 1, `{"status":"ok"}` + "\n"},
		{`{"truncate":7}`, "GET", 2, "\r\n\r\n" + `{"opena`},
		{`{"truncate":0}`, "GET", 2, "\r\n\r\n"},
		{`{"truncate":7}`, "HEAD", 3, `{"status":"ok"}` + "\n"},
		{`{"malformed":true}`, "HEAD", 3, `{"status":"ok"}` + "\n"},
		{`{"malformed":true}`, "GET", 3, `{"status":"ok"}` + "\n"},
	} {
		t.Run(tt.method+tt.do, func(t *testing.T) {
			h.fault(t, `{"match":{"path":"/openapi.json"},"count":1,"do":`+tt.do+`}`)
			conn := must.Get(net.Dial("tcp", server.Listener.Addr().String()))(t)
			defer conn.Close()
			const host = " HTTP/1.1\r\nHost: 127.0.0.1\r\n"
			must.Get(io.WriteString(conn, "GET /healthz"+host+"\r\n"+tt.method+" /openapi.json"+host+"\r\nGET /healthz"+host+"Connection: close\r\n\r\n"))(t)
			came, _ := io.ReadAll(conn) // a broken connection may be reset
			if n := strings.Count(string(came), "HTTP/1.1 200 OK\r\n"); n != tt.answers || !strings.HasSuffix(string(came), tt.end) {
				t.Errorf("%d answers that end with %q, want %d that end with %q", n, came[max(0, len(came)-40):], tt.answers, tt.end)
			}
		})
	}
}

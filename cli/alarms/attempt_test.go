package alarms

import (
	"bufio"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"tollhouse/store/storetest/must"
)

// hostile is an instance's name with everything that a header must not take as it is.
const hostile = "Lärk: \"spur\"\r\nX-Evil: 1 <!channel> & \u202eevil\U0001F4B8"

func aMessage(state, severity string) Message {
	subject, ended := "wep_1", int64(1780315260)
	m := Message{ID: "alm_1", Alarm: "webhooks", State: state, Severity: severity, Subject: &subject, Count: 1, Title: "Webhook endpoint disabled", Text: "Disabled.",
		Next: "look", BegunAt: 1780315200, SentAt: 1780315201, Instance: "Larkspur Payments", URL: "https://pay.example"}
	if state == Ended {
		m.EndedAt = &ended
	}
	return m
}

// TestTheGenericForm is to the letter.
//
// Promise (Guard §7, §8, §9): the generic form has its members in one order, a path and a URL in none of them
func TestTheGenericForm(t *testing.T) {
	t.Parallel()
	const want = `{"id":"alm_1","alarm":"webhooks","state":"begun","severity":"warning","subject":"wep_1","count":1,"title":"Webhook endpoint disabled","text":"Disabled.","next":"look","begun_at":1780315200,"ended_at":null,"sent_at":1780315201,"instance":"Larkspur Payments","url":"https://pay.example"}`
	if got := string(aMessage(Begun, Warning).json()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	m := aMessage(Ended, Problem)
	m.Subject, m.Count, m.Instance = nil, 3, hostile
	var back Message
	must.Do(t, json.Unmarshal(m.json(), &back))
	if back.Instance != hostile || *back.EndedAt != 1780315260 || back.Subject != nil || strings.ContainsAny(string(m.json()), "\r\n") {
		t.Errorf("%s parses to %+v", m.json(), back)
	}
}

// request is what a receiver got.
type request struct {
	method, uri, body string
	header            http.Header
}

// receiver records requests and answers with 200 and the text.
func receiver(t *testing.T, answers map[string]string) (host string, got func() []request) {
	t.Helper()
	all := make(chan request, 100)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		all <- request{r.Method, r.RequestURI, string(body), r.Header}
		_, _ = io.WriteString(w, answers[r.URL.Path])
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://"), func() (list []request) {
		for len(all) > 0 {
			list = append(list, <-all)
		}
		return list
	}
}

func targetOf(t *testing.T, url string) *Target {
	t.Helper()
	return must.Get(Parse(url))(t)
}

// Promise (Guard §7, §8, §9): each service gets the request that it understands, and hostile names inject no
// header and name no one
func TestServices(t *testing.T) {
	t.Parallel()
	const room = "/_matrix/client/v3/directory/room/#b:x"
	host, got := receiver(t, map[string]string{"/_matrix/client/v3/login": `{"access_token":"canary"}`, room: `{"room_id":"!b:x"}`, "/api/chat.postMessage": `{"ok":true}`})
	c := newClient("1.2.3", nil)
	for _, service := range []struct {
		url   string
		check func(m Message, all []request) (wrong string)
	}{
		{"ntfy://user:pass@" + host + "/topic?scheme=http", func(m Message, all []request) string {
			r := all[0]
			title, err := new(mime.WordDecoder).DecodeHeader(r.header.Get("Title"))
			auth := r.header.Get("Authorization")
			priority, tag := r.header.Get("Priority"), r.header.Get("Tags")
			wantPriority := map[string]string{"begunwarning": "4", "continuesproblem": "5", "endedproblem": "2", "testwarning": "3"}[m.State+m.Severity]
			wantTag := map[string]string{"begunwarning": "warning", "continuesproblem": "rotating_light", "endedproblem": "white_check_mark", "testwarning": "test_tube"}[m.State+m.Severity]
			if err != nil || title != m.heading() || !isASCII(r.header.Get("Title")) || r.uri != "/topic" || auth != "Basic dXNlcjpwYXNz" || priority != wantPriority || tag != wantTag || r.body != m.Text+"\nNext: "+m.Next {
				return fmt.Sprintf("%q, %v, %+v", title, err, r)
			}
			return ""
		}},
		{"generic+http://user:pass@" + host + "/a%2Fb?x=y&@X-Own=1", func(m Message, all []request) string {
			r := all[0]
			if r.uri != "/a%2Fb?x=y" || r.body != string(m.json()) || r.header.Get("Content-Type") != "application/json" || r.header.Get("User-Agent") != "tollhouse-alarms/1.2.3" || r.header.Get("X-Own") != "1" || r.header.Get("Authorization") == "" {
				return fmt.Sprintf("%+v", r)
			}
			return ""
		}},
		{"gotify://" + host + "/sub/Token1?disabletls=yes", func(m Message, all []request) string {
			r := all[0]
			var body struct{ Title, Message string }
			if json.Unmarshal([]byte(r.body), &body) != nil || body.Title != m.heading() || body.Message != m.body() || r.uri != "/sub/message" || r.header.Get("X-Gotify-Key") != "Token1" {
				return fmt.Sprintf("%+v", r)
			}
			return ""
		}},
		{"slack://hook:A-B-C@webhook", func(m Message, all []request) string {
			r := all[0]
			if r.uri != "/services/A/B/C" || strings.Contains(r.body, "<!channel>") || r.header.Get("Authorization") != "" {
				return fmt.Sprintf("%+v", r)
			}
			return ""
		}},
		{"slack://xoxb:1-2@C0", func(m Message, all []request) string {
			r := all[0]
			if r.uri != "/api/chat.postMessage" || r.header.Get("Authorization") != "Bearer xoxb-1-2" || !strings.Contains(r.body, `"channel":"C0"`) {
				return fmt.Sprintf("%+v", r)
			}
			return ""
		}},
		{"discord://token@123?thread_id=9", func(m Message, all []request) string {
			r := all[0]
			if r.uri != "/api/webhooks/123/token?thread_id=9" || !strings.Contains(r.body, `"allowed_mentions":{"parse":[]}`) {
				return fmt.Sprintf("%+v", r)
			}
			return ""
		}},
		{"telegram://12:token@telegram?chats=@a,-100", func(m Message, all []request) string {
			if len(all) != 2 || all[0].uri != "/bot12:token/sendMessage" || !strings.Contains(all[0].body, `"chat_id":"@a"`) || !strings.Contains(all[1].body, `"chat_id":"-100"`) || strings.Contains(all[0].body, "parse_mode") {
				return fmt.Sprintf("%+v", all)
			}
			return ""
		}},
		{"matrix://:canary@" + host + "?rooms=!a:x&disableTLS=yes", func(m Message, all []request) string {
			r := all[0]
			if len(all) != 1 || r.method != "PUT" || r.uri != "/_matrix/client/v3/rooms/%21a:x/send/m.room.message/alm_1" || r.header.Get("Authorization") != "Bearer canary" {
				return fmt.Sprintf("%+v", all)
			}
			return ""
		}},
		{"matrix://user:pass@" + host + "?rooms=!a:x,#b:x&disableTLS=yes", func(m Message, all []request) string {
			var uris []string
			for _, r := range all {
				uris = append(uris, r.method+" "+strings.TrimPrefix(r.uri, "/_matrix/client/v3"))
			}
			if got, want := strings.Join(uris, ", "), "POST /login, PUT /rooms/%21a:x/send/m.room.message/alm_1, GET /directory/room/%23b:x, PUT /rooms/%21b:x/send/m.room.message/alm_1, POST /logout"; got != want {
				return got
			}
			return ""
		}},
	} {
		target := targetOf(t, service.url)
		if strings.HasSuffix(target.base.Host, "slack.com") || strings.Contains(target.base.Host, "discord") || strings.Contains(target.base.Host, "telegram") {
			target.base.Scheme, target.base.Host = "http", host
		}
		for _, m := range []Message{aMessage(Begun, Warning), aMessage(Continues, Problem), aMessage(Ended, Problem), aMessage(Tested, Warning)} {
			m.Instance = hostile
			r := c.send(t.Context(), target, m)
			all := got()
			if !r.Delivered || r.Status != 200 || len(all) == 0 {
				t.Errorf("%s: %+v", service.url, r)
				continue
			}
			for _, q := range all {
				if q.header.Get("X-Evil") != "" {
					t.Errorf("%s: a name made a header: %v", service.url, q.header)
				}
			}
			if wrong := service.check(m, all); wrong != "" {
				t.Errorf("%s of %s, %s: %s", service.url, m.State, m.Severity, wrong)
			}
		}
	}
}

// Promise (Guard §7, §8, §9): a matrix server that refuses the sign-out has the message all the same
func TestMatrixStatusIsOfTheMessage(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/logout") {
			w.WriteHeader(http.StatusTeapot)
		}
		_, _ = io.WriteString(w, `{"access_token":"canary"}`)
	}))
	t.Cleanup(s.Close)
	target := targetOf(t, "matrix://user:pass@"+strings.TrimPrefix(s.URL, "http://")+"?rooms=!a:x&disableTLS=yes")
	if r := newClient("1.2.3", nil).send(t.Context(), target, aMessage(Begun, Warning)); !r.Delivered || r.Status != http.StatusOK {
		t.Errorf("send() = %+v, want it delivered with 200", r)
	}
}

// badServer answers every connection by the function.
func badServer(t *testing.T, answer func(conn net.Conn)) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				answer(conn)
			}()
		}
	}()
	return l.Addr().String()
}

// Promise (Guard §7, §8, §9): only 2xx is delivered; a redirect is not followed, no proxy of the environment is
// asked, and a hostile receiver costs 15 s and some memory at most
func TestHostileReceivers(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	c := newClient("1", nil)
	say := func(text string) func(net.Conn) {
		return func(conn net.Conn) {
			_, _ = http.ReadRequest(bufio.NewReader(conn))
			_, _ = io.WriteString(conn, text)
		}
	}
	endless := func(head, part string) func(net.Conn) {
		return func(conn net.Conn) {
			_, _ = http.ReadRequest(bufio.NewReader(conn))
			_, _ = io.WriteString(conn, head)
			for range 1 << 30 / len(part) {
				if _, err := io.WriteString(conn, part); err != nil {
					return
				}
			}
		}
	}
	followed := make(chan struct{}, 1)
	page := badServer(t, func(conn net.Conn) { followed <- struct{}{}; say("HTTP/1.1 200 OK\r\n\r\n")(conn) })
	kib := strings.Repeat("canary, ", 128)
	var before, after runtime.MemStats
	for _, bad := range []struct {
		name      string
		answer    func(net.Conn)
		delivered bool
		reason    string
	}{
		{"500", say("HTTP/1.1 500 canary\r\n\r\ncanary"), false, "status 500"},
		{"302", say("HTTP/1.1 302 Found\r\nLocation: http://" + page + "/login\r\n\r\n"), false, "status 302, a redirect, which is not followed"},
		{"304", say("HTTP/1.1 304 Not Modified\r\n\r\n"), false, "status 304, a redirect, which is not followed"},
		{"204", say("HTTP/1.1 204 No Content\r\n\r\n"), true, ""},
		{"an_endless_answer", endless("HTTP/1.1 200 OK\r\n\r\n", kib), true, ""},
		{"an_endless_refusal", endless("HTTP/1.1 403 No\r\n\r\n", kib), false, "status 403"},
		{"endless_headers", endless("HTTP/1.1 200 OK\r\n", "X: "+kib+"\r\n"), false, "the answer is not valid"},
		{"endless_hints", endless("", "HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n"), false, "the answer is not valid"},
		{"closed_half_way", say("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"), true, ""},
		{"closed_in_the_headers", say("HTTP/1.1 200 OK\r\nContent-Le"), false, "the answer is not valid"},
		{"closed_at_once", func(net.Conn) {}, false, "the receiver closed the connection"},
		{"that_speaks_smtp", func(conn net.Conn) {
			_, _ = io.WriteString(conn, "220 canary ESMTP\r\n")
			_, _ = io.Copy(io.Discard, conn)
		}, false, "the answer is not valid"},
	} {
		target := targetOf(t, "generic+http://user:canary@"+badServer(t, bad.answer)+"/canary")
		begun := time.Now()
		runtime.ReadMemStats(&before)
		r := c.send(t.Context(), target, aMessage(Begun, Warning))
		runtime.ReadMemStats(&after)
		if r.Delivered != bad.delivered || r.Reason != bad.reason && !(bad.name == "that_speaks_smtp" && r.Reason == "the receiver closed the connection") || strings.Contains(r.Reason, "canary") {
			t.Errorf("%s: %+v, want delivered %t, %q", bad.name, r, bad.delivered, bad.reason)
		}
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("%s took %s", bad.name, took)
		}
		if more := after.TotalAlloc - before.TotalAlloc; more > 8<<20 {
			t.Errorf("%s took %d bytes of memory", bad.name, more)
		}
	}
	if len(followed) > 0 {
		t.Error("the redirect was followed")
	}
	t.Run("that_hang", func(t *testing.T) {
		must.SkipInShort(t)
		t.Parallel()
		target := targetOf(t, "generic+http://"+badServer(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })+"/x")
		r := c.send(t.Context(), target, aMessage(Begun, Warning))
		if r.Delivered || r.Reason != "no answer in time" || r.Took < attemptMax || r.Took > attemptMax+5*time.Second {
			t.Errorf("a receiver that hangs: %+v", r)
		}
	})
	t.Run("whose_certificate_is_wrong", func(t *testing.T) {
		s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		defer s.Close()
		roots := x509.NewCertPool()
		roots.AddCert(s.Certificate())
		host := strings.TrimPrefix(s.URL, "https://")
		_, port, _ := net.SplitHostPort(host)
		for url, want := range map[string]string{"ntfy://" + host + "/t": "", "ntfy://localhost:" + port + "/t": "the certificate is for another name", "ntfy://" + host + "/t?scheme=http": "status 400"} {
			if r := newClient("1", roots).send(t.Context(), targetOf(t, url), aMessage(Begun, Warning)); r.Reason != want {
				t.Errorf("%s: %+v, want %q", url, r, want)
			}
		}
		if r := c.send(t.Context(), targetOf(t, "ntfy://"+host+"/t"), aMessage(Begun, Warning)); r.Reason != "the certificate is not trusted" {
			t.Errorf("an unknown issuer: %+v", r)
		}
	})
	t.Run("that_cannot_be_reached", func(t *testing.T) {
		if r := c.send(t.Context(), targetOf(t, "ntfy://127.0.0.1:1/t"), aMessage(Begun, Warning)); r.Reason != "connection refused" {
			t.Errorf("%+v", r)
		}
		if r := c.send(t.Context(), targetOf(t, "ntfy://canary.invalid/t"), aMessage(Begun, Warning)); r.Reason != "the host name does not resolve" {
			t.Errorf("%+v", r)
		}
		host, _ := receiver(t, nil)
		if r := c.send(t.Context(), targetOf(t, "ntfy://"+host+"/t"), aMessage(Begun, Warning)); r.Reason != "the receiver does not speak TLS" {
			t.Errorf("%+v", r)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Unix(1780315200, 0)
	for text, want := range map[string]time.Duration{
		"": 0, "120": 2 * time.Minute, "99999": time.Hour, "99999999999999999999": 0, "-1": 0, "soon": 0,
		now.Add(time.Minute).UTC().Format(http.TimeFormat): time.Minute, now.Add(-time.Minute).UTC().Format(http.TimeFormat): 0,
	} {
		if got := retryAfter(text, now); got != want {
			t.Errorf("retryAfter(%q) = %s, want %s", text, got, want)
		}
	}
}

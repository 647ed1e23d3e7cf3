package proof

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"tollhouse/store/storetest/must"
)

// TestEqualRunsGiveEqualBytes sends the same requests to two runs at the same address,
// and again after a reset.
func TestEqualRunsGiveEqualBytes(t *testing.T) {
	t.Parallel()
	address := must.FreeAddress(t)
	run := func() (first, again []string) {
		s := startDev(t, "--listen", address, "--rand-seed", "7", "--clock", "2026-06-01T12:00:00Z", "--auto-login", "demo", "--auto-consent", "--strict-types")
		defer s.stop()
		first = transcriptOf(t, s)
		sendRaw(t, s, "DELETE", "/_dev/snapshots", "", "", "")
		sendRaw(t, s, "POST", "/_dev/reset", "", "", "")
		return first, transcriptOf(t, s)
	}
	first, again := run()
	second, _ := run()
	for i := range first {
		if second[i] != first[i] {
			t.Errorf("answer %d of the second run is\n%s\nand of the first\n%s", i, second[i], first[i])
		}
		if got := again[i]; got != first[i] {
			t.Errorf("answer %d after a reset is\n%s\nand before it\n%s", i, got, first[i])
		}
	}
}

// transcriptOf walks through the product and the controls.
func transcriptOf(t *testing.T, s *server) (answers []string) {
	t.Helper()
	const form, asJSON = "application/x-www-form-urlencoded", "application/json"
	client := "client_id=" + s.ready.ClientID + "&client_secret=" + s.ready.ClientSecret
	password := "grant_type=password&" + client + "&username=" + s.ready.Username + "&password=" + url.QueryEscape(s.ready.Password)
	token, refresh := "", ""
	send := func(method, path, contentType, body string) {
		t.Helper()
		answer := sendRaw(t, s, method, path, token, contentType, body)
		if found := tokenIn.FindStringSubmatch(answer); found != nil {
			token = found[1]
		}
		if found := refreshIn.FindStringSubmatch(answer); found != nil {
			refresh = found[1]
		}
		for _, varies := range varying {
			answer = varies.ReplaceAllString(answer, "")
		}
		answers = append(answers, answer)
	}
	send("POST", "/oauth/v2/token", form, password)
	send("GET", "/api/events?limit=3", "", "")
	send("PUT", "/api/resources/customer/cus_mine", asJSON, `{"displayName":"Larkspur Tea Room","city":"Dunmere"}`)
	send("POST", "/_dev/snapshot", asJSON, `{"name":"one"}`)
	send("POST", "/_dev/clock", asJSON, `{"advance":"90m"}`)
	send("GET", "/api/events?limit=1", "", "") // expired
	send("POST", "/oauth/v2/token", form, "grant_type=refresh_token&"+client+"&refresh_token="+refresh)
	send("PATCH", "/api/resources/customer/cus_mine", "application/merge-patch+json", `{"city":"Larkspur"}`)
	send("GET", "/oauth/v2/auth?response_type=code&state=s&client_id="+s.ready.ClientID+"&redirect_uri="+url.QueryEscape(s.ready.RedirectURI), "", "")
	send("POST", "/_dev/faults", asJSON, `{"match":{"path":"/oauth/v2/token"},"count":2,"do":{"status":503,"retry_after":3}}`)
	send("POST", "/oauth/v2/token", form, password)
	send("POST", "/_dev/faults", asJSON, `{"match":{"path":"/api/events"},"count":1,"do":{"truncate":40}}`)
	send("GET", "/api/events?limit=2", "", "")
	send("DELETE", "/_dev/faults", "", "")
	send("POST", "/_dev/tokens", asJSON, `{"scope":"events:read","expires_in":600}`)
	send("POST", "/_dev/events", asJSON, `{"type":"customer.created","resource":"cus_2","eventData":{"object":{"displayName":"Dunmere"}}}`)
	send("GET", "/api/events?type=customer.created,customer.updated&limit=5", "", "")
	send("GET", "/api/event-types", "", "")
	send("GET", "/_dev/state", "", "")
	send("POST", "/_dev/restore", asJSON, `{"name":"one"}`)
	send("POST", "/oauth/v2/token", form, password)
	send("GET", "/api/events?limit=2&order=asc", "", "")
	send("GET", "/login", "", "")
	send("GET", "/nowhere", "", "")
	send("GET", "/_dev/clock", "", "")
	return answers
}

var (
	tokenIn   = regexp.MustCompile(`"access_token":"([^"]+)"`)
	refreshIn = regexp.MustCompile(`"refresh_token":"([^"]+)"`)
	// varying is what may differ: cookies, sealed fields of pages, the count of resets.
	varying = []*regexp.Regexp{
		regexp.MustCompile(`(?m)^Set-Cookie: .*\r\n`),
		regexp.MustCompile(`name="form_token" value="[^"]*"`),
		regexp.MustCompile(`"resets":\d+`),
	}
)

// sendRaw sends one request on a connection of its own and returns all bytes that come
// back.
func sendRaw(t *testing.T, s *server, method, path, token, contentType, body string) string {
	t.Helper()
	conn := must.Get(net.Dial("tcp", s.ready.Listen[0]))(t)
	defer conn.Close()
	must.Do(t, conn.SetDeadline(time.Now().Add(requestWait)))
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: %d\r\n", method, path, s.ready.Listen[0], len(body))
	if contentType != "" {
		b.WriteString("Content-Type: " + contentType + "\r\n")
	}
	if token != "" && strings.HasPrefix(path, "/api/") {
		b.WriteString("Authorization: Bearer " + token + "\r\n")
	}
	must.Get(io.WriteString(conn, b.String()+"\r\n"+body))(t)
	answer := must.Get(io.ReadAll(conn))(t)
	return string(answer)
}

// TestManyInstancesAtOnce: every worker of a test runner can have its own.
func TestManyInstancesAtOnce(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	const instances = 20
	begun := time.Now()
	lines := make([]string, instances)
	var starting sync.WaitGroup
	for n := range instances {
		cmd := exec.CommandContext(t.Context(), program(t), "dev", "--exit-with-parent")
		cmd.Env, cmd.Cancel = environ(), func() error { return cmd.Process.Signal(os.Interrupt) }
		stdout := must.Get(cmd.StdoutPipe())(t)
		must.Do(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Signal(os.Interrupt); _ = cmd.Wait() })
		starting.Go(func() { lines[n], _ = bufio.NewReader(stdout).ReadString('\n') })
	}
	starting.Wait()
	took := time.Since(begun)
	urls := map[string]bool{}
	for _, line := range lines {
		var ready readyLine
		must.Do(t, json.Unmarshal([]byte(line), &ready))
		urls[ready.URL] = true
	}
	t.Logf("%d instances were ready within %s", instances, took.Round(time.Millisecond))
	if len(urls) != instances {
		t.Errorf("%d addresses, want %d", len(urls), instances)
	}
	if took > instances*margin*readyTarget {
		t.Errorf("all were ready after %s", took)
	}
}

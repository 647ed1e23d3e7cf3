package proof

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tollhouse/store/storetest/must"
)

const (
	floodWires     = 256 // connections of a flood at most
	floodWait      = 5 * time.Second
	floodWarmsUp   = time.Second
	floodTries     = 10
	floodTriesLong = 50
	floodRest      = 200 * time.Millisecond // of an honest caller between two tries
	// floodRightMin of ten tries is the margin for a machine with other work, which is given
	// floodRounds; on one without, at least 9 succeed. Without a reserve none does.
	floodRightMin = 5
	floodRounds   = 3
)

// flood is who sends wrong passwords for ever new names, as fast as they are refused.
type flood struct {
	name    string
	sources int
	address func(i int) string // of a loopback connection
	forward func(i int) string // as a trusted proxy says it; nil for none
	honest  bool               // strangers must get in too
}

// TestSignInsUnderAFlood floods the sign-in form of one server from many sources, and tries
// right passwords during the flood: in a known browser, by the password grant of a client, and as a
// stranger from an address of its own. It logs how many of ten get in within five seconds.
//
//	TOLLHOUSE_LONG=1 go test ./cli/proof -run TestSignInsUnderAFlood -v -timeout 30m
//
// TOLLHOUSE_BINARY names another build to compare with.
//
// Promise (Credentials, memory, connections): strangers, a stolen device cookie or a leaked client
// secret in the queue for hashing
func TestSignInsUnderAFlood(t *testing.T) {
	must.SkipInShort(t)
	onLoopback := func(i int) string { return fmt.Sprintf("127.%d.%d.%d", 1+i>>16, i>>8&255, i&255) }
	proxy := func(int) string { return "127.0.0.1" }
	floods := []flood{
		{name: "48_addresses", sources: 48, address: onLoopback, honest: true},
		{name: "80_addresses", sources: 80, address: onLoopback},
		{name: "256_addresses", sources: 256, address: onLoopback},
		{name: "65536_addresses", sources: 65_536, address: onLoopback},
		{name: "an_IPv6_56", sources: 256, address: proxy, forward: func(i int) string { return fmt.Sprintf("2001:db8:1:%x::1", i) }},
		{name: "an_IPv6_48", sources: 65_536, address: proxy, forward: func(i int) string { return fmt.Sprintf("2001:db8:2:%x::1", i) }},
	}
	for _, f := range floods {
		t.Run(f.name, func(t *testing.T) {
			if f.sources > 80 && f.forward == nil {
				must.OnlyLong(t, "hundreds of sources leave a busy machine no time for the others")
			}
			s := startServe(t, filepath.Join(t.TempDir(), "data"), "--trusted-proxies", "127.0.0.1")
			callers := s.honestCallers()
			stop := s.flood(f)
			time.Sleep(floodWarmsUp)
			var all sync.WaitGroup
			tries := floodTries
			if must.Long() {
				tries = floodTriesLong
			}
			for i, c := range callers {
				all.Go(func() {
					dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 200, 0, byte(1+i))}}
					for round := 1; ; round++ {
						right := s.tryOften(dialer, c, tries)
						if !c.proved && !f.honest || right*10 >= tries*floodRightMin {
							return
						}
						if round == floodRounds {
							t.Errorf("%s: %d of %d right passwords get in", c.name, right, tries)
							return
						}
					}
				})
			}
			all.Wait()
			t.Logf("%s", stop())
		})
	}
}

// honestCaller sends a right password.
type honestCaller struct {
	name    string
	request []byte
	status  int // of success
	proved  bool
}

func (s *server) honestCallers() []honestCaller {
	s.t.Helper()
	for _, name := range []string{"known", "granted", "stranger"} {
		s.createUser(name, "acct_flood", odilePassword)
	}
	var client credentials
	decode(s.t, s.run("client", "create", "--name", "Backend", "--grant", "password", "--scope", "events:read", "--json"), &client)
	v := newVisitor(s.t)
	v.submit(v.open(s.base+"/login"), "username", "known", "password", odilePassword)
	device := ""
	for _, c := range v.http.Jar.Cookies(mustParse(s.t, s.base)) {
		if strings.Contains(c.Name, "device") {
			device = c.String()
		}
	}
	if device == "" {
		s.t.Fatal("the sign-in left no device cookie")
	}
	basic := base64.StdEncoding.EncodeToString([]byte(client.ID + ":" + client.Secret))
	grant := url.Values{"grant_type": {"password"}, "username": {"granted"}, "password": {odilePassword}}
	return []honestCaller{
		{"known browser", s.signInRequest("known", odilePassword, device)("", ""), http.StatusSeeOther, true},
		{"password grant", s.postRequest("/oauth/v2/token", grant, "Authorization: Basic "+basic+"\r\n"), http.StatusOK, true},
		{"stranger", s.signInRequest("stranger", odilePassword, "")("", ""), http.StatusSeeOther, false},
	}
}

func (s *server) postRequest(path string, form url.Values, header string) []byte {
	body := form.Encode()
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/x-www-form-urlencoded\r\n%sContent-Length: %d\r\n\r\n%s",
		path, s.ready.Listen[0], header, len(body), body)
}

// signInRequest opens the sign-in form and returns how to send it, as a proxy does for an
// address unless that is "", and with more behind the username.
func (s *server) signInRequest(username, password, cookie string) func(forwarded, more string) []byte {
	s.t.Helper()
	v := newVisitor(s.t)
	page := v.open(s.base + "/login")
	cookies := []string{cookie}
	for _, c := range v.http.Jar.Cookies(mustParse(s.t, s.base)) {
		cookies = append(cookies, c.String())
	}
	header := "Origin: " + s.ready.URL + "\r\nCookie: " + strings.Trim(strings.Join(cookies, "; "), "; ") + "\r\n"
	form := url.Values{"form_token": {page.field("form_token")}, "password": {password}}
	return func(forwarded, more string) []byte {
		one := url.Values{"username": {username + more}}
		for name, values := range form {
			one[name] = values
		}
		if forwarded != "" {
			return s.postRequest("/login", one, header+"X-Forwarded-For: "+forwarded+"\r\n")
		}
		return s.postRequest("/login", one, header)
	}
}

// tryOften returns how many of so many right passwords get in.
func (s *server) tryOften(dialer *net.Dialer, c honestCaller, tries int) (right int) {
	slowest := time.Duration(0)
	for range tries {
		if took, ok := s.tryOnce(dialer, c); ok {
			right++
			slowest = max(slowest, took)
		}
		time.Sleep(floodRest)
	}
	s.t.Logf("%s: %d of %d right passwords get in within %v, the slowest after %v", c.name, right, tries, floodWait, slowest.Round(time.Millisecond))
	return right
}

// tryOnce sends a right password over a connection of its own.
func (s *server) tryOnce(dialer *net.Dialer, c honestCaller) (took time.Duration, ok bool) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(s.t.Context(), floodWait)
	defer cancel()
	w := &wire{dialer: dialer, address: s.ready.Listen[0]}
	defer w.leave()
	status, _, err := w.ask(ctx, c.request)
	took = time.Since(began)
	return took, err == nil && status == c.status && took < floodWait
}

// flood starts f. stop ends it and returns a summary of the answers.
func (s *server) flood(f flood) (stop func() string) {
	s.t.Helper()
	request := s.signInRequest("flood", "a password that is wrong", "")
	ctx, cancel := context.WithCancel(s.t.Context())
	var all sync.WaitGroup
	var seen [600]atomic.Int64
	var next atomic.Int64
	began := time.Now()
	for n := range min(f.sources, floodWires) {
		all.Go(func() {
			var w *wire
			for ctx.Err() == nil {
				i := n // one connection for each source
				if f.sources > floodWires {
					i = int(next.Add(1)) % f.sources
				}
				if w == nil || f.forward == nil && f.sources > floodWires {
					if w != nil {
						w.leave()
					}
					w = &wire{dialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(f.address(i))}}, address: s.ready.Listen[0]}
				}
				forwarded := ""
				if f.forward != nil {
					forwarded = f.forward(i)
				}
				status, _, err := w.ask(ctx, request(forwarded, fmt.Sprint(next.Add(1)%100_000)))
				if err == nil && status < len(seen) {
					seen[status].Add(1)
				}
			}
			w.leave()
		})
	}
	return func() string {
		cancel()
		all.Wait()
		counts := map[int]int64{}
		for status := range seen {
			if n := seen[status].Load(); n > 0 {
				counts[status] = n
			}
		}
		text, _ := json.Marshal(counts)
		return fmt.Sprintf("the flood got %s in %v", text, time.Since(began).Round(time.Second))
	}
}

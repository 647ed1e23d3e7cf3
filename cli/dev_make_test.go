package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tollhouse/cli/term"
)

const fixtureLines = `{"token":{"access_token":"mine","expires_in":600}}
{"resource":{"kind":"customer","id":"cus_1","object":{"displayName":"Larkspur"},"account":"acct_shop","createdAt":1767225600}}
{"user":{"username":"bob","password":"pw","account":"acct_shop"}}
{"event":{"type":"customer.updated","resource":"cus_1","owner":"acct_shop","eventData":{"object":{"displayName":"Larkspur Tea"}},"createdAt":1767225601}}
{"client":{"client_id":"app","client_secret":"s3cret","redirect_uris":["http://app:3000/cb"],"consent":"remember"}}
`

func (c devClient) post(path, mediaType, body string) (status int, answer map[string]any) {
	c.t.Helper()
	r := c.request("POST", path, body)
	r.Header.Set("Content-Type", mediaType)
	a, text := c.do(r)
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		c.t.Fatalf("%s %s: %v", a.Status, text, err)
	}
	return a.StatusCode, answer
}

const jobLine = `{"client":{"client_id":"job","client_secret":"n1ght","grants":["client_credentials"],"account":"acct_shop"}}
`

// TestDevFixtures: what a test's fixtures say works as it stands, and goes no further
// than dev.
func TestDevFixtures(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "fixtures.ndjson")
	if err := os.WriteFile(file, []byte(fixtureLines+jobLine), 0o600); err != nil {
		t.Fatal(err)
	}
	c := devClient{t, start(t, "dev", "--seed-file", file)}
	if c.s.text("client_secret") != "s3cret" || c.s.text("password") != "pw" || c.s.text("account") != "acct_shop" {
		t.Errorf("ready line %v, want the fixtures", c.s.ready)
	}
	list := func(token string) (status int, events []any) {
		r := c.request("GET", "/api/events?order=asc", "")
		r.Header.Set("Authorization", "Bearer "+token)
		a, text := c.do(r)
		var page map[string]any
		_ = json.Unmarshal([]byte(text), &page)
		events, _ = page["data"].([]any)
		return a.StatusCode, events
	}
	if member(t, c.password(), "access_token") == "" {
		t.Error("the password grant has no token")
	}
	r := c.request("POST", "/oauth/v2/token", "grant_type=client_credentials&client_id=job&client_secret=n1ght")
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	_, text := c.do(r)
	var job struct {
		Token string `json:"access_token"`
	}
	_ = json.Unmarshal([]byte(text), &job)
	if status, events := list(job.Token); status != http.StatusOK || len(events) != 2 {
		t.Errorf("the client that acts for an account: %d, %v, %s; want its two events", status, events, text)
	}
	status, events := list("mine")
	if status != http.StatusOK || len(events) != 2 {
		t.Fatalf("%d, %v, want the two events", status, events)
	}
	created := events[0].(map[string]any)
	object := created["eventData"].(map[string]any)["object"].(map[string]any)
	if created["type"] != "customer.created" || created["createdAt"] != float64(1767225600) || object["active"] != "1" {
		t.Errorf("%v, want what a PUT would have recorded then", created)
	}

	backup := filepath.Join(dir, "dev.backup")
	if _, stderr, code := run(t, "backup", backup, "--admin-socket", c.s.text("admin_socket")); code != term.ExitOK {
		t.Fatal(stderr)
	}
	if _, stderr, code := run(t, "restore", backup, "--data", filepath.Join(dir, "data")); code != term.ExitBadData || !strings.Contains(stderr, "test fixtures") {
		t.Errorf("restore: exit %d, %s, want 65 that names the fixtures", code, stderr)
	}
	if _, err := os.Stat(filepath.Join(dir, "data")); err == nil {
		t.Error("the refused restore has made the directory")
	}
	if _, stderr, code := run(t, "client", "update", "app", "--add-redirect-uri", "http://other:3000/cb", "--admin-socket", c.s.text("admin_socket")); code == term.ExitOK {
		t.Errorf("the admin socket takes a fixture: %s", stderr)
	}
}

func TestDevSeedIsMadeAllOrNone(t *testing.T) {
	t.Parallel()
	c := devClient{t, start(t, "dev")}
	status, answer := c.post("/_dev/seed", "application/x-ndjson", strings.ReplaceAll(fixtureLines, `{"access_token"`, `{"client_id":"app","username":"bob","access_token"`))
	made, _ := answer["data"].([]any)
	if status != http.StatusCreated || len(made) != 5 {
		t.Fatalf("%d, %v, want five", status, answer)
	}
	for i, kind := range []string{"token", "resource", "user", "event", "client"} {
		of, _ := made[i].(map[string]any)[kind].(map[string]any)
		if of == nil {
			t.Errorf("line %d has made %v, want a %s", i, made[i], kind)
		}
		if kind == "client" && (of["client_secret"] != "s3cret" || of["consent"] != "remember") || kind == "token" && of["access_token"] != "mine" || kind == "event" && of["id"] == nil {
			t.Errorf("%s: %v", kind, of)
		}
	}
	before := c.state()
	for body, want := range map[string]struct {
		status int
		param  string
	}{
		`[{"account":{"account":"acct_new"}},{"user":{"username":"bob","password":"pw"}}]`:                                                   {http.StatusConflict, "1.user"},
		`[{"account":{"account":"acct_new"}},{"token":{"access_token":"mine"}}]`:                                                             {http.StatusConflict, "1.token.access_token"},
		`[{"client":{"client_id":"new","redirect_uris":["http://a/"]}},{"event":{"type":"a.b","resource":"x","createdAt":1}}]`:               {http.StatusBadRequest, "1.event.eventData"},
		`[{"user":{"username":"eve","password":"pw"}},{"resource":{"kind":"customer","id":"c","object":{"colour":"red"}}}]`:                  {http.StatusBadRequest, "1.resource.object.colour"},
		`[{"user":{"username":"eve","password":"pw"}},{"user":{"username":"eve2","pasword":"pw"}}]`:                                          {http.StatusBadRequest, "1.user.pasword"},
		`[{"account":{"account":"acct_new"}},{"client":{"client_id":"p","redirect_uris":["http://a/"],"public":true,"consent":"remember"}}]`: {http.StatusBadRequest, "1.client.consent"},
		`{"webhook":{"url":"https://hooks.example/","description":"4111 1111 1111 1111"}}`:                                                   {http.StatusBadRequest, "0.webhook.description"},
		`{"clint":{}}`: {http.StatusBadRequest, "0"},
	} {
		status, answer := c.post("/_dev/seed", "application/json", body)
		if status != want.status || answer["param"] != want.param {
			t.Errorf("%s: %d %v, want %d of %s", body, status, answer, want.status, want.param)
		}
	}
	if after := c.state(); after != before {
		t.Errorf("state %s, want %s as before", after, before)
	}
	_, answer = c.post("/_dev/seed", "application/json", `{"webhook":{"url":"https://hooks.example/typo","types":["customer.update"]}}`)
	if text := fmt.Sprint(answer); !strings.Contains(text, `notices:[no event has type "customer.update"; nearest: customer.updated]`) {
		t.Errorf("a webhook of a type that looks misspelled is answered %s, want a notice", text)
	}
	// An event that is made again is another event.
	for range 2 {
		if status, answer := c.post("/_dev/seed", "application/json", `{"event":{"type":"kiosk.opened","resource":"k_1","eventData":{"object":{}}}}`); status != http.StatusCreated {
			t.Fatalf("%d %v", status, answer)
		}
	}
	if after := c.state(); after == before {
		t.Errorf("state %s, want two events more", after)
	}
}

// state is what GET /_dev/state counts.
func (c devClient) state() string {
	c.t.Helper()
	_, text := c.do(c.request("GET", "/_dev/state", ""))
	var s struct{ Clients, Users, Accounts, Events, Resources int }
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		c.t.Fatal(err)
	}
	shown, _ := json.Marshal(s)
	return string(shown)
}

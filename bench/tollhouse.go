package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	account     = "acct_bench"
	callback    = "https://app.example/cb"
	username    = "bench"
	password    = "a long enough password"
	benchPage   = 100 // events a page
	benchType   = "customer.updated"
	firstSecond = 1_767_225_600 // 2026-01-01

	eventsASecond = 4
)

// benchTypes are the types of the events where nothing else is said, each as
// frequent as any other.
var benchTypes = []string{benchType, "customer.created", "customer.deleted", "account.autoupdate", "transaction.created",
	"transaction.settled", "transaction.declined", "invoice.created", "invoice.paid", "invoice.sent"}

// instance is tollhouse, durable, with a client, a user and events.
type instance struct {
	*server
	binary string
	where  []string // --data DIR, or --store with the address of a database
	client struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
	}
}

func startTollhouse(s settings, dir string) (*instance, error) {
	t := &instance{binary: s.binary, where: []string{"--data", filepath.Join(dir, "data")}}
	if t.binary == "" {
		t.binary = filepath.Join(dir, "tollhouse")
		build := exec.Command("go", "build", "-trimpath", "-o", t.binary, ".")
		build.Dir, build.Stderr = "..", os.Stderr
		if err := build.Run(); err != nil {
			return nil, fmt.Errorf("build tollhouse: %w", err)
		}
	}
	// What the store was made with is written when it is whole.
	kept := filepath.Join(dir, "client.json")
	text, err := os.ReadFile(kept)
	if err == nil {
		err = json.Unmarshal(text, &t.client)
	} else if err = t.seed(s.events, s.types, dir); err == nil {
		if text, err = json.Marshal(t.client); err == nil {
			err = os.WriteFile(kept, text, 0o600)
		}
	}
	if err != nil {
		return nil, err
	}
	return t, t.serve()
}

func (t *instance) serve(flags ...string) (err error) {
	t.server, err = start(t.binary, slices.Concat([]string{"serve", "--listen", "127.0.0.1:0", "--account-writes", "0"}, flags, t.where)...)
	return err
}

// startTollhouseOn starts tollhouse on a database, with the events of file.
func startTollhouseOn(binary, address, file, dir string) (*instance, error) {
	t := &instance{binary: binary, where: []string{"--store", address}}
	if err := t.seedPeople(dir); err != nil {
		return nil, err
	}
	if _, err := t.command("event", "import", file, "--account", account, "--quiet"); err != nil {
		return nil, err
	}
	return t, t.serveOn(dir)
}

// serveOn starts a server on a database, whose key is in dir.
func (t *instance) serveOn(dir string) error {
	key := filepath.Join(dir, "key")
	if err := os.WriteFile(key, []byte(strings.Repeat("5f1c", 16)+"\n"), 0o600); err != nil {
		return err
	}
	if err := t.serve("--key-file", key, "--public-url", "http://127.0.0.1"); err != nil {
		return err
	}
	address, _ := t.ready["listen"].([]any)
	t.ready["url"] = fmt.Sprintf("http://%v", address[0])
	return nil
}

// seedPeople makes a user and a client.
func (t *instance) seedPeople(dir string) error {
	passwordFile := filepath.Join(dir, "password")
	if err := os.WriteFile(passwordFile, []byte(password), 0o600); err != nil {
		return err
	}
	if _, err := t.command("user", "create", username, "--account", account, "--password-file", passwordFile); err != nil {
		return err
	}
	out, err := t.command("client", "create", "--name", "Bench", "--redirect-uri", callback, "--json")
	if err != nil {
		return err
	}
	return json.Unmarshal(out, &t.client)
}

// seed fills the store before the server starts, by the commands that an
// operator would use.
func (t *instance) seed(events int, types []string, dir string) error {
	if err := t.seedPeople(dir); err != nil {
		return err
	}
	if types == nil {
		types = benchTypes
	}
	for from := 0; from < events; from += importedTogether {
		if err := t.importEvents(account, types, eventID, from, min(importedTogether, events-from), 1); err != nil {
			return err
		}
	}
	return nil
}

// importedTogether is how many events one import records; what it took is said.
const importedTogether = 1_000_000

// importEvents sends events of an account, one of several that share the time, as they are
// made.
func (t *instance) importEvents(owner string, types []string, ids func(int) string, from, count, accounts int) error {
	begun := time.Now()
	cmd := exec.Command(t.binary, "event", "import", "-", "--account", owner, "--quiet")
	cmd.Args = append(cmd.Args, t.where...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = writeEventsTo(in, types, ids, from, count, accounts)
	_ = in.Close()
	if ended := cmd.Wait(); ended != nil {
		return fmt.Errorf("tollhouse event import: %w: %s", ended, stderr.String())
	}
	if accounts > 1 {
		return err
	}
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	fmt.Printf("imported %d events behind %d: %s each, %s of processor time\n", count, from, time.Since(begun)/time.Duration(count), used/time.Duration(count))
	return err
}

func (t *instance) command(args ...string) ([]byte, error) {
	cmd := exec.Command(t.binary, slices.Concat(args, t.where)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("tollhouse %s: %w: %s", strings.Join(args[:2], " "), err, stderr.String())
	}
	return out, nil
}

func writeEventsFrom(path string, from, count int) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := writeEventsTo(file, benchTypes, nil, from, count, 1); err != nil {
		return err
	}
	return file.Close()
}

// writeEventsTo writes events of about 790 bytes, as many of each type, several
// in every second, of all the accounts that share the time together. Without ids each gets one
// of tollhouse's.
func writeEventsTo(w io.Writer, types []string, ids func(int) string, from, count, accounts int) error {
	b := bufio.NewWriter(w)
	notes := strings.Repeat("lorem ipsum ", 42)
	for i := from; i < from+count; i++ {
		typ, resource := types[i%len(types)], i/len(types)%5000
		kind, _, _ := strings.Cut(typ, ".")
		member := ""
		if ids != nil && ids(i) != "" {
			member = fmt.Sprintf(`"id":%q,`, ids(i))
		}
		_, err := fmt.Fprintf(b, `{%s"resource":"res_%d","source":"bench","location":"import","type":%q,"eventData":{"object":{"id":"res_%d","object":%q,"notes":%q},"previousAttributes":{"notes":"before"}},"createdAt":%d}`+"\n",
			member, resource, typ, resource, kind, notes, firstSecond+i*accounts/eventsASecond)
		if err != nil {
			return err
		}
	}
	return b.Flush()
}

// Of each thousand events the last ones, as many as there are types, keep an id of tollhouse's:
// one by such an id is read without a look for the id.
const thousand, keepOwn = 1000, 50

// eventID is the id of an event as another system made it, in no order of time, or "".
func eventID(number int) string {
	if number%thousand >= thousand-keepOwn {
		return ""
	}
	return fmt.Sprintf("evt_%016x", uint64(number+1)*0x9e3779b97f4a7c15)
}

// anyEventID draws the id of one of so many events.
func anyEventID(events int) string {
	for {
		if id := eventID(rand.IntN(events)); id != "" {
			return id
		}
	}
}

func (t *instance) tokenRequest(hc *http.Client, form url.Values) (answer struct {
	AccessToken  string `json:"access_token"`
	RefreshToken string `json:"refresh_token"`
}, err error) {
	form.Set("client_id", t.client.ID)
	form.Set("client_secret", t.client.Secret)
	r, err := hc.PostForm(t.text("url")+"/oauth/v2/token", form)
	if err != nil {
		return answer, err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return answer, err
	}
	if r.StatusCode != http.StatusOK {
		return answer, fmt.Errorf("token endpoint: status %d: %s", r.StatusCode, body)
	}
	return answer, json.Unmarshal(body, &answer)
}

func (t *instance) passwordGrant(hc *http.Client) (access, refresh string, err error) {
	answer, err := t.tokenRequest(hc, url.Values{"grant_type": {"password"}, "username": {username}, "password": {password}})
	return answer.AccessToken, answer.RefreshToken, err
}

// rotate is a client that refreshes the token of a family of its own, over and
// over.
func (t *instance) rotate(hc *http.Client) (func() error, error) {
	_, refresh, err := t.passwordGrant(hc)
	if err != nil {
		return nil, err
	}
	return func() error {
		answer, err := t.tokenRequest(hc, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh}})
		refresh = answer.RefreshToken
		return err
	}, nil
}

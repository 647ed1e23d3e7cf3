package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
)

// tailScenarios returns what it takes to follow the log of a store: to ask when
// nothing is new, and to have an event that is recorded while it waits.
func (t *instance) tailScenarios(events int, empty *scenario, access string) []*pageScenario {
	nothing := t.behind("latest", "")
	live := func(hc *http.Client) (func() error, error) { return t.follow(hc, access) }
	return []*pageScenario{
		{scenario: &scenario{server: t.server, floor: empty, client: get(nothing, access, 1)}, events: events, page: "tail, nothing new", where: "newest"},
		{scenario: &scenario{server: t.server, floor: empty, clients: 1, client: live}, events: events, page: "tail, recorded and had", where: "newest"},
	}
}

// behind is the address of what lies behind a cursor.
func (t *instance) behind(cursor, wait string) string {
	query := url.Values{"order": {"asc"}, "after": {cursor}}
	if wait != "" {
		query.Set("wait", wait)
	}
	return t.text("url") + "/api/events?" + query.Encode()
}

// follow is a client that asks for the next event while it records one. There is
// but one such client, since several would have each other's.
func (t *instance) follow(hc *http.Client, access string) (func() error, error) {
	cursor := "latest"
	next := func(wait string) (string, error) {
		body, err := ask(hc, access, "GET", t.behind(cursor, wait), "")
		var page struct {
			Data       []json.RawMessage
			NextCursor string
		}
		if err == nil {
			err = json.Unmarshal(body, &page)
		}
		if err == nil && wait != "" && len(page.Data) != 1 {
			err = fmt.Errorf("%d events came, 1 expected", len(page.Data))
		}
		return page.NextCursor, err
	}
	var err error
	if cursor, err = next(""); err != nil {
		return nil, err
	}
	resource := fmt.Sprintf("%s/api/resources/note/tail_%d", t.text("url"), rand.Int64())
	turn := 0
	return func() error {
		recorded := make(chan error, 1)
		go func() {
			turn++
			_, err := ask(hc, access, "PUT", resource, fmt.Sprintf(`{"turn":%d}`, turn))
			recorded <- err
		}()
		came, err := next("25")
		if failed := <-recorded; failed != nil {
			return failed
		}
		cursor = came
		return err
	}, nil
}

func ask(hc *http.Client, access, method, address, body string) ([]byte, error) {
	r, err := http.NewRequest(method, address, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+access)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := hc.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s %s: status %d: %s", method, address, answer.StatusCode, text)
	}
	return text, err
}

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
)

// scenariosOf lists what is measured, each of ours next to its floor.
func scenariosOf(s settings, floor *server, ours *instance) ([]*scenario, error) {
	access, _, err := ours.passwordGrant(http.DefaultClient)
	if err != nil {
		return nil, err
	}
	// Another question each time, as a page that repeats is kept.
	first := func() int { return firstSecond - rand.IntN(1<<20) }
	byType := func() string {
		return ours.text("url") + fmt.Sprintf("/api/events?type=%s&createdAt[gte]=%d&limit=%d", benchType, first(), benchPage)
	}
	byTime := func() string {
		return ours.text("url") + fmt.Sprintf("/api/events?createdAt[gte]=%d&limit=%d", first(), benchPage)
	}
	id, size, err := checkPage(byType(), access)
	if err != nil {
		return nil, err
	}
	if _, _, err := checkPage(byTime(), access); err != nil {
		return nil, err
	}
	none, synced := "none", "synced before the answer"
	empty := &scenario{name: "floor: empty answer", server: floor, durability: none, client: get(floor.text("url")+"/empty", "", 0)}
	page := &scenario{name: "floor: constant 92 KB page", server: floor, durability: none, client: get(floor.text("url")+"/page", "", constantPageSize)}
	form := &scenario{name: "floor: parsed form", server: floor, durability: none, client: postForm(floor.text("url") + "/form")}
	return []*scenario{
		empty, page, form,
		{name: "events, page of 100 by type", server: ours.server, durability: "read", floor: page, client: getEach(byType, access, size)},
		{name: "events, page of 100 by time", server: ours.server, durability: "read", floor: page, client: getEach(byTime, access, size/2)},
		{name: "event by id, drawn at random", server: ours.server, durability: "read", floor: empty, client: getEach(func() string { return ours.text("url") + ourPaths.event(anyEventID(s.events)) }, access, 1)},
		{name: "the same event each time", server: ours.server, durability: "read", floor: empty, client: get(ours.text("url")+ourPaths.event(id), access, 1)},
		{name: "refresh rotation, 1 client", server: ours.server, durability: synced, floor: form, clients: 1, client: ours.rotate},
		{name: "refresh rotation, 64 clients", server: ours.server, durability: synced, floor: form, clients: 64, client: ours.rotate},
		{name: "password grant, 2 clients", server: ours.server, durability: synced, floor: form, clients: 2, client: func(hc *http.Client) (func() error, error) {
			return func() error { _, _, err := ours.passwordGrant(hc); return err }, nil
		}},
	}, nil
}

// checkPage makes sure that the page is what is meant to be measured: a full
// one, of distinct events. It returns the first event's id and the page's size.
func checkPage(address, access string) (id string, size int64, err error) {
	r, err := http.NewRequest("GET", address, nil)
	if err != nil {
		return "", 0, err
	}
	r.Header.Set("Authorization", "Bearer "+access)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", 0, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return "", 0, err
	}
	var page struct {
		Data []struct{ ID string }
	}
	if err := json.Unmarshal(body, &page); err != nil {
		return "", 0, fmt.Errorf("%s: %w: %.200s", address, err, body)
	}
	seen := map[string]bool{}
	for _, event := range page.Data {
		seen[event.ID] = true
	}
	if len(seen) != benchPage {
		return "", 0, fmt.Errorf("%s gave %d distinct events, %d expected", address, len(seen), benchPage)
	}
	return page.Data[0].ID, int64(len(body)), nil
}

// postForm posts a form of the size of a refresh request.
func postForm(address string) func(*http.Client) (func() error, error) {
	form := url.Values{"grant_type": {"refresh_token"}, "client_id": {"tollhouse_0000000000000000000000000"},
		"client_secret": {"tollcs_0000000000000000000000000000000000000000000000000"}, "refresh_token": {"tollrt_0000000000000000000000000000000000000000000000000"}}
	return func(hc *http.Client) (func() error, error) {
		return func() error {
			answer, err := hc.PostForm(address, form)
			if err != nil {
				return err
			}
			defer answer.Body.Close()
			if _, err := io.Copy(io.Discard, answer.Body); err != nil {
				return err
			}
			if answer.StatusCode != http.StatusOK {
				return fmt.Errorf("status %d", answer.StatusCode)
			}
			return nil
		}, nil
	}
}

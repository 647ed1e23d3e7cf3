package handlers_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tollhouse/handlers"
	"tollhouse/handlers/dev"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/storetest"
)

// devHouse is a house with the testers' controls, whose clock is theirs.
type devHouse struct {
	*house
	dev     *dev.Controls
	control *controller
}

var devBegins = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// newDevHouse opens a house at a standing clock.
func newDevHouse(t testing.TB, change ...func(*handlers.Config)) *devHouse {
	t.Helper()
	return devHouseAt(t, dev.ClockState{Shows: devBegins}, change...)
}

func devHouseAt(t testing.TB, clock dev.ClockState, change ...func(*handlers.Config)) *devHouse {
	t.Helper()
	return devHouseOver(t, clock, func(*store.Options) {}, change...)
}

func devHouseOver(t testing.TB, clock dev.ClockState, options func(*store.Options), change ...func(*handlers.Config)) *devHouse {
	t.Helper()
	control := &controller{snapshots: map[string]bool{}}
	dev := &dev.Controls{Clock: dev.NewClock(clock), Faults: dev.NewFaults(), Journal: dev.NewJournal(), Control: control}
	f := storetest.NewKeeping(t, func(o *store.Options) { o.Now, o.Fixtures = dev.Clock.Now, true }, options)
	h := houseOver(t, f, append([]func(*handlers.Config){func(c *handlers.Config) { c.Dev = dev }}, change...)...)
	return &devHouse{h, dev, control}
}

// controller counts what it is asked for.
type controller struct {
	mu        sync.Mutex
	resets    int
	snapshots map[string]bool
}

func (c *controller) Reset(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resets++
	return nil
}

func (c *controller) Snapshot(_ context.Context, name string) (dev.SnapshotInfo, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	replaced := c.snapshots[name]
	if !replaced && len(c.snapshots) == dev.SnapshotsMax {
		return dev.SnapshotInfo{}, false, dev.ErrTooManySnapshots
	}
	c.snapshots[name] = true
	return dev.SnapshotInfo{Clock: dev.ClockState{Shows: devBegins}, Events: 3}, replaced, nil
}

func (c *controller) Restore(_ context.Context, name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.snapshots[name] {
		return dev.ErrNoSnapshot
	}
	c.resets++
	return nil
}

func (c *controller) Drop(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.snapshots[name] {
		return dev.ErrNoSnapshot
	}
	delete(c.snapshots, name)
	return nil
}

func (c *controller) DropAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.snapshots)
}

func (c *controller) Names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := []string{}
	for name := range c.snapshots {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (c *controller) Resets() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resets
}

func (c *controller) Counts(context.Context) (dev.DevCounts, error) {
	return dev.DevCounts{Clients: 1, Users: 2, Accounts: 3, Events: 4, Resources: 5}, nil
}

// ask sends a request with a JSON body, or without one.
func (h *house) ask(t testing.TB, method, target, body string, change ...func(*http.Request)) answer {
	t.Helper()
	if body == "" {
		return h.do(h.request(t, method, target, nil, change...))
	}
	change = append([]func(*http.Request){header("Content-Type", "application/json")}, change...)
	return h.do(h.request(t, method, target, strings.NewReader(body), change...))
}

// object decodes an answer with the status.
func object(t testing.TB, a answer, status int) map[string]any {
	t.Helper()
	var body map[string]any
	if err := json.Unmarshal([]byte(a.body), &body); err != nil || a.StatusCode != status {
		t.Fatalf("answer = %d %.400s, want %d with an object", a.StatusCode, a.body, status)
	}
	return body
}

// wantParam is wantError for problems of a member or parameter.
func wantParam(t testing.TB, a answer, param string) string {
	t.Helper()
	description := wantError(t, a, http.StatusBadRequest, "invalid_request")
	if got := object(t, a, http.StatusBadRequest)["param"]; got != param && (got != nil || param != "") {
		t.Errorf("param = %v (%s), want %s", got, description, param)
	}
	return description
}

// serve's answer to a path of the controls is that to any unknown path.
func TestServeHasNoControls(t *testing.T) {
	t.Parallel()
	dev, serve := newDevHouse(t), newHouse(t)
	same := func(a answer) string {
		a.Header.Del("X-Request-Id")
		var head strings.Builder
		_ = a.Header.Write(&head)
		return a.Status + head.String() + a.body
	}
	for _, e := range dev.getList(t, "/_dev") {
		path := strings.ReplaceAll(strings.ReplaceAll(e["path"], ":name", "default"), ":id", "flt_1")
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"} {
			got, want := serve.ask(t, method, path, `{}`), serve.ask(t, method, "/nowhere", `{}`)
			if got.StatusCode != http.StatusNotFound || same(got) != same(want) {
				t.Errorf("%s %s = %s, want %s", method, path, same(got), same(want))
			}
		}
	}
}

func TestDevControlsRefusePagesOfOtherOrigins(t *testing.T) {
	t.Parallel()
	h := newDevHouse(t)
	tests := []struct {
		name, header, value string
		refused             bool
	}{
		{"a_program", "Accept", "*/*", false},
		{"an_address_that_a_person_typed", "Sec-Fetch-Site", "none", false},
		{"a_page_of_its_own", "Sec-Fetch-Site", "same-origin", false},
		{"a_page_of_another_site", "Sec-Fetch-Site", "cross-site", true},
		{"a_page_of_another_port", "Sec-Fetch-Site", "same-site", true},
		{"an_old_browser_on_another_site", "Origin", "https://attacker.example", true},
		{"an_old_browser_on_its_own_page", "Origin", publicURL, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, ask := range [][2]string{{"GET", "/_dev"}, {"GET", "/_dev/clock"}, {"POST", "/_dev/reset"}, {"GET", "/_dev/nowhere"}} {
				a := h.ask(t, ask[0], ask[1], "", header(tt.header, tt.value))
				if tt.refused {
					wantError(t, a, http.StatusForbidden, "forbidden")
				} else if a.StatusCode == http.StatusForbidden {
					t.Errorf("%s %s = 403", ask[0], ask[1])
				}
				if got := a.Header.Get("Access-Control-Allow-Origin"); got != "" {
					t.Errorf("Access-Control-Allow-Origin = %q, want none", got)
				}
			}
		})
	}
}

func TestDevControlsRefuseWhatTheyDoNotKnow(t *testing.T) {
	t.Parallel()
	h := newDevHouse(t)
	t.Run("a_misspelt_member", func(t *testing.T) {
		t.Parallel()
		if got := wantParam(t, h.ask(t, "POST", "/_dev/clock", `{"advnce":"90s"}`), "advnce"); !strings.Contains(got, "did you mean advance?") {
			t.Errorf("description = %q, want the near name", got)
		}
	})
	t.Run("a_misspelt_parameter", func(t *testing.T) {
		t.Parallel()
		wantParam(t, h.get(t, "/_dev/clock?runing=true"), "runing")
		wantParam(t, h.ask(t, "POST", "/_dev/reset?hard=true", ""), "hard")
		wantParam(t, h.ask(t, "POST", "/_dev/reset?%22%C3%A9=true", ""), "'?")
	})
	t.Run("a_repeated_member", func(t *testing.T) {
		t.Parallel()
		wantParam(t, h.ask(t, "POST", "/_dev/clock", `{"advance":"1s","advance":"2s"}`), "")
	})
	t.Run("a_wrong_kind", func(t *testing.T) {
		t.Parallel()
		wantParam(t, h.ask(t, "POST", "/_dev/clock", `{"running":"yes"}`), "running")
		wantParam(t, h.ask(t, "POST", "/_dev/clock", `null`), "")
		wantParam(t, h.ask(t, "POST", "/_dev/snapshot", `{"name":7}`), "name")
		wantParam(t, h.ask(t, "POST", "/_dev/snapshot", `["paid"]`), "")
	})
	t.Run("another_media_type", func(t *testing.T) {
		t.Parallel()
		wantError(t, h.ask(t, "POST", "/_dev/clock", `{"advance":"1s"}`, header("Content-Type", "text/plain")), http.StatusUnsupportedMediaType, "unsupported_media_type")
	})
	t.Run("a_body_above_one_mebibyte", func(t *testing.T) {
		t.Parallel()
		wantError(t, h.ask(t, "POST", "/_dev/clock", `"`+strings.Repeat("a", 1<<20)+`"`), http.StatusRequestEntityTooLarge, "too_large")
		wantParam(t, h.ask(t, "POST", "/_dev/clock", `"`+strings.Repeat("a", 1<<20-2)+`"`), "")
	})
	t.Run("another_method", func(t *testing.T) {
		t.Parallel()
		a := h.ask(t, "PUT", "/_dev/clock", "")
		wantError(t, a, http.StatusMethodNotAllowed, "invalid_request")
		wantAllow(t, a, "GET", "HEAD", "POST", "OPTIONS")
	})
	t.Run("another_path", func(t *testing.T) {
		t.Parallel()
		wantError(t, h.get(t, "/_dev/clocks"), http.StatusNotFound, "not_found")
		wantError(t, h.get(t, "/_development"), http.StatusNotFound, "not_found")
	})
}

func TestDevControlsLieBelowThePathOfThePublicURL(t *testing.T) {
	t.Parallel()
	h := newDevHouse(t, at("https://pay.example/sandbox"))
	for _, e := range h.getList(t, "/sandbox/_dev") {
		if !strings.Contains(e["curl"], "https://pay.example/sandbox/_dev") {
			t.Errorf("curl = %s, want the path of the public URL", e["curl"])
		}
	}
	wantError(t, h.get(t, "/_dev"), http.StatusNotFound, "not_found")
}

func (h *house) getList(t testing.TB, target string) []map[string]string {
	t.Helper()
	var list struct{ Endpoints []map[string]string }
	if err := json.Unmarshal([]byte(h.get(t, target).body), &list); err != nil || len(list.Endpoints) < 8 {
		t.Fatalf("GET %s: %d endpoints, %v", target, len(list.Endpoints), err)
	}
	return list.Endpoints
}

func TestDevControlsDrawRequestIDsOfTheirOwn(t *testing.T) {
	t.Parallel()
	ids := func(looks int) (ids []string) {
		drawn := map[string]byte{}
		h := newDevHouse(t, func(c *handlers.Config) {
			c.Random = func(sequence string, b []byte) { drawn[sequence]++; b[0], b[1] = sequence[0], drawn[sequence] }
		})
		for range 3 {
			ids = append(ids, h.get(t, "/nowhere").Header.Get("X-Request-Id"))
			for range looks {
				h.get(t, "/_dev/clock")
				h.get(t, "/_dev/nowhere")
				h.get(t, "/healthz")
			}
		}
		return ids
	}
	if quiet, looked := ids(0), ids(2); !slices.Equal(quiet, looked) || quiet[0] == quiet[1] {
		t.Errorf("ids of requests = %v, and %v with looks between them, want the same", quiet, looked)
	}
}

func TestDevControlsAreNotCountedAsRequests(t *testing.T) {
	t.Parallel()
	counted := 0
	h := newDevHouse(t, func(c *handlers.Config) { c.Observe = func(web.Served) { counted++ } })
	h.get(t, "/_dev/clock")
	h.get(t, "/_dev/nowhere")
	if h.get(t, "/nowhere"); counted != 1 {
		t.Errorf("%d requests counted, want the one that is not for the controls", counted)
	}
}

package handlers

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// api is the whole server over a store in memory, for tests of its API.
type apiHouse struct {
	*storetest.Fixture
	server            *Server
	public, operators http.Handler
	client            store.Client
}

func newAPI(t testing.TB, change ...func(*store.Options)) *apiHouse {
	t.Helper()
	return serveAPI(t, storetest.New(t, change...))
}

// parallelAPI is newAPI for a test that runs beside others.
func parallelAPI(t *testing.T, change ...func(*store.Options)) *apiHouse {
	t.Helper()
	t.Parallel()
	return newAPI(t, change...)
}

func serveAPI(t testing.TB, f *storetest.Fixture) *apiHouse {
	t.Helper()
	client, _ := f.Client(t)
	return newAPIHouse(t, f, client, Config{Platform: &web.Platform{}})
}

// newAPIHouse puts a server over the store, and if there are two, another over the other's.
func newAPIHouse(t testing.TB, f *storetest.Fixture, client store.Client, config Config) *apiHouse {
	t.Helper()
	config.Store, config.Key, config.Log, config.Version = f.Store, f.Key, slog.New(slog.DiscardHandler), "test"
	config.PublicURL = must.Get(url.Parse("http://127.0.0.1:8080"))(t)
	a := &apiHouse{Fixture: f, client: client, server: New(config)}
	a.public, a.operators = a.server.Public(), a.server.Admin()
	if config.Store = f.Other; f.Other != nil {
		other := New(config)
		a.public, a.operators = InTurns(f, a.public, other.Public()), InTurns(f, a.operators, other.Admin())
	}
	return a
}

// token returns an access token of a new user of the account.
func (a *apiHouse) token(t testing.TB, name, account string, scope store.Scope) string {
	t.Helper()
	issued, err := a.IssueForPassword(context.Background(), store.By{}, a.client, a.User(t, name, account), scope)
	must.Do(t, err)
	return issued.AccessToken.Reveal()
}

// answer is a response.
type answer struct {
	*httptest.ResponseRecorder
}

// request is a request to the public handler, with pairs of header and value.
func (a *apiHouse) request(method, target, token string, body io.Reader, headers ...string) answer {
	r := httptest.NewRequest(method, target, body)
	r.Host = "127.0.0.1:8080"
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	a.public.ServeHTTP(w, r)
	return answer{w}
}

func (a *apiHouse) get(target, token string, headers ...string) answer {
	return a.request(http.MethodGet, target, token, nil, headers...)
}

// put sends a snapshot.
func (a *apiHouse) put(target, token, body string, headers ...string) answer {
	return a.request(http.MethodPut, target, token, strings.NewReader(body), append(headers, "Content-Type", "application/json")...)
}

// patch sends a merge patch.
func (a *apiHouse) patch(target, token, body string, headers ...string) answer {
	return a.request(http.MethodPatch, target, token, strings.NewReader(body), append(headers, "Content-Type", "application/merge-patch+json")...)
}

// admin is a request to the admin handler.
func (a *apiHouse) admin(method, target string, body io.Reader, headers ...string) answer {
	r := httptest.NewRequest(method, target, body)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	a.operators.ServeHTTP(w, r)
	return answer{w}
}

// importLines records lines through the admin API and fails on a refused one.
func (a *apiHouse) importLines(t testing.TB, account, lines string) {
	t.Helper()
	w := a.admin(http.MethodPost, "/admin/events/import?account="+account, strings.NewReader(lines), "Content-Type", "application/x-ndjson")
	summary := w.lastLine(t)
	if w.Code != http.StatusOK || summary["summary"] != true || summary["errors"] != 0.0 {
		t.Fatalf("import = %d %s", w.Code, w.Body)
	}
}

func (w answer) lastLine(t testing.TB) map[string]any {
	t.Helper()
	lines := bytes.Split(bytes.TrimSpace(w.Body.Bytes()), []byte("\n"))
	return decodeObject(t, lines[len(lines)-1])
}

func decodeObject(t testing.TB, text []byte) map[string]any {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		t.Fatalf("%q is not an object: %v", text, err)
	}
	return object
}

// eventPage is the envelope of a list.
type eventPage struct {
	Object  string `json:"object"`
	Data    []eventJSON
	HasMore bool   `json:"hasMore"`
	Next    string `json:"nextCursor"`
	Prev    string `json:"previousCursor"`
}

type eventJSON struct {
	ID, Owner, Resource, Source, Location, Type string
	EventData                                   struct {
		Object             map[string]any
		PreviousAttributes map[string]any
	}
	CreatedAt int64
}

func (w answer) page(t testing.TB) eventPage {
	t.Helper()
	var page eventPage
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || w.Code != http.StatusOK || page.Object != "list" {
		t.Fatalf("answer = %d %s (%v), want a list", w.Code, w.Body, err)
	}
	return page
}

func (p eventPage) ids() []string {
	ids := make([]string, 0, len(p.Data))
	for _, e := range p.Data {
		ids = append(ids, e.ID)
	}
	return ids
}

// fault checks an error answer: its status, code and, when not "", its param.
func (w answer) fault(t testing.TB, status int, code, param string) map[string]any {
	t.Helper()
	body := decodeObject(t, w.Body.Bytes())
	got, _ := body["param"].(string)
	if w.Code != status || body["error"] != code || param != "" && got != param {
		t.Fatalf("answer = %d %s, want %d %s on %q", w.Code, w.Body, status, code, param)
	}
	if status == http.StatusUnauthorized && w.Header().Get("WWW-Authenticate") == "" { // RFC 9110 §15.5.2
		t.Error("a 401 has no WWW-Authenticate")
	}
	description, _ := body["error_description"].(string)
	if description == "" || !strings.HasSuffix(description, ".") && !strings.HasSuffix(description, "?") {
		t.Errorf("error_description is no sentence: %q", description)
	}
	return body
}

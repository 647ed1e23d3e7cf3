package handlers_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"tollhouse/handlers"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// house is a tollhouse under test: the real router over a store in memory with the test's
// clock, a client, a user and a captured log.
type house struct {
	*storetest.Fixture
	server     *handlers.Server
	public     http.Handler
	operators  http.Handler
	unforeseen *sync.Map // of what was counted without a series: Served to true
	issuer     string
	log        *journal
	client     store.Client
	secret     secret.Token
	user       store.User
	account    string
}

const publicURL = "https://pay.example"

// newHouse opens a house with cheap password hashes; see slowHouse.
func newHouse(t testing.TB, change ...func(*handlers.Config)) *house {
	t.Helper()
	return houseOver(t, storetest.New(t), change...)
}

// slowHouse is newHouse with the product's password hashes, for tests of their cost.
func slowHouse(t testing.TB, change ...func(*handlers.Config)) *house {
	t.Helper()
	return houseOver(t, storetest.New(t, storetest.FullHashes), change...)
}

// parallelHouse is newHouse for a test that runs beside others.
func parallelHouse(t *testing.T, change ...func(*handlers.Config)) *house {
	t.Helper()
	t.Parallel()
	return newHouse(t, change...)
}

func houseOver(t testing.TB, f *storetest.Fixture, change ...func(*handlers.Config)) *house {
	t.Helper()
	h := &house{Fixture: f, log: &journal{}, account: "acct_larkspur"}
	if _, is := t.(*testing.T); is { // it costs too much for a benchmark
		h.unforeseen = &sync.Map{}
		t.Cleanup(func() {
			h.unforeseen.Range(func(seen, _ any) bool { t.Errorf("Outcomes has no series for %+v", seen); return true })
		})
	}
	h.open(h.Store, change...)
	h.client, h.secret = h.Client(t)
	h.user = h.User(t, "mara", h.account)
	return h
}

// open puts the router over a store, and if there are two servers, another over the other's.
func (h *house) open(s *store.Store, change ...func(*handlers.Config)) {
	h.server = h.newServer(s, change)
	h.public, h.operators, h.issuer = h.server.Public(), h.server.Admin(), h.server.Site.PublicURL()
	if h.Other != nil {
		other := h.newServer(h.Other, change)
		h.public, h.operators = handlers.InTurns(h.Fixture, h.public, other.Public()), handlers.InTurns(h.Fixture, h.operators, other.Admin())
	}
}

func (h *house) newServer(s *store.Store, change []func(*handlers.Config)) (server *handlers.Server) {
	config := handlers.Config{
		Store: s, Key: h.Key, Version: "test", Platform: &web.Platform{},
		Log: slog.New(slog.NewJSONHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, f := range append([]func(*handlers.Config){at(publicURL)}, change...) {
		f(&config)
	}
	if h.unforeseen != nil {
		observe := config.Observe
		series := sync.OnceValue(func() map[web.Served]bool {
			all := map[web.Served]bool{}
			for _, outcome := range server.Site.Outcomes() {
				all[outcome] = true
			}
			return all
		})
		config.Observe = func(s web.Served) {
			h.foresee(series(), s)
			if observe != nil {
				observe(s)
			}
		}
	}
	server = handlers.New(config)
	return server
}

// foresee notes what is counted and has no series from the start: an alert would miss the
// first of it. So every test of this package checks that too.
func (h *house) foresee(series map[web.Served]bool, s web.Served) {
	grant := s.GrantType
	if s.Refusal != "" && grant == "" {
		grant = "none"
	}
	counted := []web.Served{{Route: s.Route, Method: s.Method}}
	if s.Refusal != "" {
		counted = append(counted, web.Served{GrantType: grant, Refusal: s.Refusal})
	}
	if s.GrantType != "" && s.Code == "" {
		counted = append(counted, web.Served{GrantType: grant})
	}
	if s.SignIn != "" {
		counted = append(counted, web.Served{SignIn: s.SignIn})
	}
	for _, c := range counted {
		if !series[c] {
			h.unforeseen.Store(c, true)
		}
	}
}

// restart puts a new router over the same engine and key, as a new process does.
func (h *house) restart(t testing.TB) {
	t.Helper()
	h.open(h.Reopened(t))
}

// at sets the public URL.
func at(public string) func(*handlers.Config) {
	return func(c *handlers.Config) {
		u, err := url.Parse(public)
		if err != nil {
			panic(err)
		}
		c.PublicURL = u
	}
}

// journal is a captured log.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// answer is a whole response.
type answer struct {
	*http.Response
	body string
}

// do hands a request to the router as net/http would.
func (h *house) do(r *http.Request) answer {
	w := httptest.NewRecorder()
	h.public.ServeHTTP(w, r)
	res := w.Result()
	res.Request = r
	return answer{Response: res, body: w.Body.String()}
}

// readAnswer reads a response that came over a connection.
func readAnswer(t testing.TB, res *http.Response) answer {
	t.Helper()
	body := must.Get(io.ReadAll(res.Body))(t)
	return answer{Response: res, body: string(body)}
}

// request makes a request as a server reads one off the wire. target is a path
// with its query.
func (h *house) request(t testing.TB, method, target string, body io.Reader, change ...func(*http.Request)) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, body)
	if u, err := url.Parse(h.issuer); err == nil && r.Host == "example.com" { // httptest's own
		r.Host = u.Host
	}
	for _, f := range change {
		f(r)
	}
	return r
}

func (h *house) get(t testing.TB, target string, change ...func(*http.Request)) answer {
	t.Helper()
	return h.do(h.request(t, "GET", target, nil, change...))
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

const (
	tokenPath = "/oauth/v2/token"
	authPath  = "/oauth/v2/auth"
	apiPath   = "/api/events"
	formType  = "application/x-www-form-urlencoded"
)

// token posts a form to the token endpoint.
func (h *house) token(t testing.TB, form url.Values, change ...func(*http.Request)) answer {
	t.Helper()
	return h.tokenBody(t, formType, form.Encode(), change...)
}

func (h *house) tokenBody(t testing.TB, contentType, body string, change ...func(*http.Request)) answer {
	t.Helper()
	change = append([]func(*http.Request){header("Content-Type", contentType)}, change...)
	return h.do(h.request(t, "POST", tokenPath, strings.NewReader(body), change...))
}

// The three requests of the specification, with the credentials in the body.

func (h *house) credentials() url.Values {
	return url.Values{"client_id": {h.client.ID}, "client_secret": {h.secret.Reveal()}}
}

func (h *house) passwordForm() url.Values {
	return with(h.credentials(), "grant_type", "password", "username", "mara", "password", storetest.Password)
}

func (h *house) codeForm(code string) url.Values {
	return with(h.credentials(), "grant_type", "authorization_code", "code", code, "redirect_uri", storetest.CallbackURI)
}

func (h *house) refreshForm(token string) url.Values {
	return with(h.credentials(), "grant_type", "refresh_token", "refresh_token", token)
}

// with returns a copy of the form with the given values.
func with(form url.Values, namesAndValues ...string) url.Values {
	changed := maps.Clone(form)
	for i := 0; i < len(namesAndValues); i += 2 {
		changed[namesAndValues[i]] = []string{namesAndValues[i+1]}
	}
	return changed
}

func without(form url.Values, names ...string) url.Values {
	changed := maps.Clone(form)
	for _, name := range names {
		delete(changed, name)
	}
	return changed
}

// as changes a form to another client's.
func as(form url.Values, c store.Client, sec secret.Token) url.Values {
	if c.Public {
		return without(with(form, "client_id", c.ID), "client_secret")
	}
	return with(form, "client_id", c.ID, "client_secret", sec.Reveal())
}

// pair is a token answer.
type pair struct {
	AccessToken  string  `json:"access_token"`
	ExpiresIn    int     `json:"expires_in"`
	RefreshToken string  `json:"refresh_token"`
	Scope        *string `json:"scope"`
	TokenType    string  `json:"token_type"`
}

// wantPair fails the test unless the answer is a token answer.
func wantPair(t testing.TB, a answer) pair {
	t.Helper()
	if a.StatusCode != http.StatusOK {
		t.Fatalf("status = %d %s, want 200", a.StatusCode, a.body)
	}
	var p pair
	d := json.NewDecoder(strings.NewReader(a.body))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil || p.AccessToken == "" || p.RefreshToken == "" {
		t.Fatalf("body = %s, want a token answer (%v)", a.body, err)
	}
	wantTokenHeaders(t, a)
	return p
}

// wantTokenHeaders are those of every answer of the token endpoint.
func wantTokenHeaders(t testing.TB, a answer) {
	t.Helper()
	for name, want := range map[string]string{"Content-Type": "application/json", "Cache-Control": "no-store, private", "Pragma": "no-cache"} {
		if got := a.Header.Get(name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
}

// plainSentence is the form of error_description (RFC 6749 §5.2).
var plainSentence = regexp.MustCompile(`^[\x20-\x21\x23-\x5B\x5D-\x7E]+$`)

// wantError fails the test unless the answer has the form of an error, and returns its
// description.
func wantError(t testing.TB, a answer, status int, code string) string {
	t.Helper()
	var body map[string]any
	if err := json.Unmarshal([]byte(a.body), &body); err != nil {
		t.Fatalf("status %d, body = %.200q, want %d with JSON (%v)", a.StatusCode, a.body, status, err)
	}
	description, _ := body["error_description"].(string)
	if a.StatusCode != status || body["error"] != code {
		t.Errorf("status = %d %v (%s), want %d %s", a.StatusCode, body["error"], description, status, code)
	}
	if !plainSentence.MatchString(description) { // RFC 6749 §5.2
		t.Errorf("error_description = %q, want a sentence of RFC 6749's characters", description)
	}
	if status == http.StatusUnauthorized && a.Header.Get("WWW-Authenticate") == "" { // RFC 9110 §15.5.2
		t.Error("a 401 has no WWW-Authenticate")
	}
	for name := range body {
		if !slices.Contains([]string{"error", "error_description", "param", "hint"}, name) {
			t.Errorf("the error has a field %s, want the one error shape", name)
		}
	}
	if got := a.Header.Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type = %q, want application/json", got)
	}
	return description
}

// wantTokenError is wantError with the headers of the token endpoint.
func wantTokenError(t testing.TB, a answer, status int, code string) string {
	t.Helper()
	wantTokenHeaders(t, a)
	return wantError(t, a, status, code)
}

// api calls the events API with a token.
func (h *house) api(t testing.TB, accessToken string, change ...func(*http.Request)) answer {
	t.Helper()
	change = append([]func(*http.Request){header("Authorization", "Bearer "+accessToken)}, change...)
	return h.get(t, apiPath, change...)
}

// accessLives reports whether the API takes the token.
func (h *house) accessLives(t testing.TB, p pair) bool {
	t.Helper()
	a := h.api(t, p.AccessToken)
	if a.StatusCode == http.StatusOK {
		return true
	}
	wantError(t, a, http.StatusUnauthorized, "invalid_token")
	return false
}

// familyLives fails the test unless the pair works, which it uses up.
func (h *house) familyLives(t testing.TB, p pair) pair {
	t.Helper()
	if !h.accessLives(t, p) {
		t.Error("the access token is dead, want it alive")
	}
	return wantPair(t, h.token(t, h.refreshForm(p.RefreshToken)))
}

// familyIsDead fails the test unless neither token of the pair works.
func (h *house) familyIsDead(t testing.TB, p pair) {
	t.Helper()
	if h.accessLives(t, p) {
		t.Error("the access token lives, want it dead")
	}
	wantTokenError(t, h.token(t, h.refreshForm(p.RefreshToken)), http.StatusBadRequest, "invalid_grant")
}

// kept counts the records except audit lines. These are written after the answers they
// describe, so it writes them first: none may come between two counts.
func (h *house) kept(t testing.TB) int {
	t.Helper()
	h.Flush(t.Context())
	return h.CountAll(t) - h.Count(t, 'l') - h.Count(t, 'm')
}

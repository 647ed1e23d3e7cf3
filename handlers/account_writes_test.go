package handlers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook"
)

// writing returns a house whose accounts may write so much in an hour.
func writing(t *testing.T, hourly int64) *house {
	t.Helper()
	return houseOver(t, storetest.New(t, func(o *store.Options) { o.AccountWrites = hourly }))
}

// wantTooMuch wants 429 in the one form of errors, and returns the time to wait.
func wantTooMuch(t *testing.T, what string, a answer) time.Duration {
	t.Helper()
	var body struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	err := json.Unmarshal([]byte(a.body), &body)
	seconds, retryErr := strconv.Atoi(a.Header.Get("Retry-After"))
	if a.StatusCode != http.StatusTooManyRequests || err != nil || retryErr != nil || seconds < 1 || body.Error != "too_many_requests" || !strings.Contains(body.Description, "written too much") {
		t.Fatalf("%s: %d, Retry-After %q, %s; want 429", what, a.StatusCode, a.Header.Get("Retry-After"), a.body)
	}
	return time.Duration(seconds) * time.Second
}

func wantOK(t *testing.T, what string, a answer) {
	t.Helper()
	if a.StatusCode/100 != 2 {
		t.Errorf("%s: %d %.300s", what, a.StatusCode, a.body)
	}
}

// TestAnAccountHasABudgetOfWrites: a token that writes as fast as it can gets 429 with
// Retry-After. Other accounts, reads, refreshes, endings and operators go on, and when the
// time is over, so does the token.
//
// Promise (Credentials, memory, connections): an account that writes more than its budget gets 429
// with Retry-After, before the write; other accounts, reads, refreshes, endings and operators do
// not
func TestAnAccountHasABudgetOfWrites(t *testing.T) {
	t.Parallel()
	const hourly = 8 << 20
	h := writing(t, hourly)
	other := h.User(t, "otto", "acct_other")
	p := h.pair(t)
	theirs := must.Get(h.IssueForPassword(t.Context(), store.By{}, h.client, other, store.ScopeUnstated))(t).AccessToken.Reveal()
	e, _, err := h.Webhooks.Create(context.Background(), webhook.By{Account: h.account, Owner: h.OwnerOf(t, h.client.ID, h.user)}, h.account, webhook.Settings{URL: "https://hooks.example/a"})
	must.Do(t, err)
	put := func(token string, n int) answer {
		return h.bearer(t, http.MethodPut, fmt.Sprint("/api/resources/customer/c", n), token, fmt.Sprintf(`{"notes":"%s"}`, strings.Repeat("x", 10_000)))
	}
	written, n := 0, 0
	a := put(p.AccessToken, n)
	for ; a.StatusCode/100 == 2 && written < hourly; a = put(p.AccessToken, n) {
		n++
		written += 3 * 10_000 // the event in the log and under its type, and the snapshot
	}
	wait := wantTooMuch(t, "a change", a)
	if burst := hourly / 8; written < burst*8/10 || written > burst*11/10 {
		t.Errorf("%d bytes were written before 429, want about %d", written, burst)
	}
	wantTooMuch(t, "a patch", h.bearer(t, http.MethodPatch, "/api/resources/customer/c0", p.AccessToken, `{"displayName":"Larkspur"}`))
	wantTooMuch(t, "a deleted resource", h.bearer(t, http.MethodDelete, "/api/resources/customer/c0", p.AccessToken, ""))
	wantTooMuch(t, "an endpoint", h.bearer(t, http.MethodPost, "/api/webhook-endpoints", p.AccessToken, `{"url":"https://hooks.example/b"}`))
	wantTooMuch(t, "an endpoint's new URL", h.bearer(t, http.MethodPatch, "/api/webhook-endpoints/"+e.ID, p.AccessToken, `{"url":"https://hooks.example/b"}`))

	wantOK(t, "a change of another account", put(theirs, 0))
	wantOK(t, "a page", h.bearer(t, http.MethodGet, "/api/events", p.AccessToken, ""))
	imported := httptest.NewRequest(http.MethodPost, "/admin/events/import?account="+h.account, strings.NewReader(fmt.Sprintf(`{"type":"plan.created","createdAt":%d,"resource":"p1","eventData":{"object":{"notes":"`+strings.Repeat("x", 20_000)+`"}}}`, h.Clock.Now().Unix())))
	imported.Header.Set("Content-Type", "application/x-ndjson")
	w := httptest.NewRecorder()
	h.server.Admin().ServeHTTP(w, imported)
	if !strings.Contains(w.Body.String(), `"recorded":1`) {
		t.Errorf("an import by the operator: %d %s", w.Code, w.Body)
	}
	wantOK(t, "an endpoint disabled", h.bearer(t, http.MethodPost, "/api/webhook-endpoints/"+e.ID+"/disable", p.AccessToken, `{}`))
	wantTooMuch(t, "an endpoint enabled", h.bearer(t, http.MethodPost, "/api/webhook-endpoints/"+e.ID+"/enable", p.AccessToken, `{}`))
	wantOK(t, "an endpoint deleted", h.bearer(t, http.MethodDelete, "/api/webhook-endpoints/"+e.ID, p.AccessToken, ""))
	second := wantPair(t, h.token(t, h.refreshForm(p.RefreshToken)))
	if refused := h.Counts().BudgetRefused; refused < 5 {
		t.Errorf("%d refusals are counted, want at least 5", refused)
	}
	h.Clock.Advance(wait + 10*time.Second) // the endings have used some, too
	wantOK(t, "a change when the time is over", put(second.AccessToken, n))
	h.Clock.Advance(30 * time.Minute)
	third := wantPair(t, h.token(t, h.refreshForm(second.RefreshToken)))
	for range 20 {
		n++
		wantOK(t, "a change half an hour later", put(third.AccessToken, n))
	}
}

// TestAnAccountHasABudgetOfTokens: refreshes and grants have one of their own.
//
// Promise (Credentials, memory, connections): an account that writes more than its budget gets 429
// with Retry-After, before the write; other accounts, reads, refreshes, endings and operators do
// not
func TestAnAccountHasABudgetOfTokens(t *testing.T) {
	t.Parallel()
	h := writing(t, 800_000)
	h.User(t, "otto", "acct_other")
	p := h.pair(t)
	a := h.token(t, h.refreshForm(p.RefreshToken))
	for range 1000 {
		if a.StatusCode != http.StatusOK {
			break
		}
		p = wantPair(t, a)
		a = h.token(t, h.refreshForm(p.RefreshToken))
	}
	wait := wantTooMuch(t, "a refresh", a)
	wantTooMuch(t, "a password grant", h.token(t, h.passwordForm()))
	wantOK(t, "a grant to another account", h.token(t, with(h.passwordForm(), "username", "otto")))
	wantOK(t, "a change", h.bearer(t, http.MethodPut, "/api/resources/customer/c1", p.AccessToken, `{}`))
	h.Clock.Advance(wait)
	wantPair(t, h.token(t, h.refreshForm(p.RefreshToken)))
	wantRevoked(t, h.revoke(t, p.RefreshToken))
}

package handlers_test

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// job is a client that acts for acct_job without a user.
type job struct {
	*house
	client store.Client
	form   url.Values
}

func newJob(t *testing.T, h *house) *job {
	t.Helper()
	c, sec, err := h.CreateClient(t.Context(), store.ClientSpec{Name: "Night job", Grants: []string{"client_credentials"}, Account: "acct_job"})
	must.Do(t, err)
	return &job{h, c, url.Values{"client_id": {c.ID}, "client_secret": {sec.Reveal()}, "grant_type": {"client_credentials"}}}
}

// ask returns an access token.
func (j *job) access(t testing.TB) string {
	t.Helper()
	a := j.token(t, j.form)
	var members struct {
		AccessToken string `json:"access_token"`
	}
	if err := json.Unmarshal([]byte(a.body), &members); err != nil || a.StatusCode != http.StatusOK {
		t.Fatalf("client_credentials = %d %s, %v", a.StatusCode, a.body, err)
	}
	return members.AccessToken
}

// TestClientCredentialsAnswer: an access token and no refresh_token member, not even null
// (RFC 6749 §4.4.3); otherwise the body and headers of the other grants.
//
// Promise (RFC 6749 §5): client_credentials (§4.4): no refresh token; it ends with the client and
// its account; without one, unauthorized_client
func TestClientCredentialsAnswer(t *testing.T) {
	j := newJob(t, parallelHouse(t))
	for scope, want := range map[string]any{"": nil, "events:read": "events:read"} {
		a := j.token(t, with(j.form, "scope", scope))
		wantTokenHeaders(t, a)
		var members map[string]any
		must.Do(t, json.Unmarshal([]byte(a.body), &members))
		if names := slices.Sorted(maps.Keys(members)); strings.Join(names, " ") != "access_token expires_in scope token_type" {
			t.Errorf("members = %v, want four", names)
		}
		if members["expires_in"] != 3600.0 || members["token_type"] != "bearer" || members["scope"] != want {
			t.Errorf("answer = %s, want the scope %v", a.body, want)
		}
	}
	if a := j.get(t, "/.well-known/oauth-authorization-server"); !strings.Contains(a.body, `"client_credentials"`) {
		t.Errorf("metadata = %s, want the grant", a.body)
	}
}

// TestClientCredentialsScope: unknown ones and those that the client may not have are
// refused, as with the other grants.
func TestClientCredentialsScope(t *testing.T) {
	h := parallelHouse(t)
	j := newJob(t, h)
	must.Get(h.UpdateClient(t.Context(), j.client.ID, store.ClientChange{Scopes: &[]string{"events:read"}}))(t)
	for _, scope := range []string{"unknown", "resources:write", "events:read  resources:read"} {
		wantTokenError(t, j.token(t, with(j.form, "scope", scope)), http.StatusBadRequest, "invalid_scope")
	}
	access := j.access(t)
	if a := h.api(t, access); a.StatusCode != http.StatusOK {
		t.Errorf("events = %d %s, want 200", a.StatusCode, a.body)
	}
	wantError(t, h.do(bearerRequest(t, h, "PUT", "/api/resources/customer/c1", access, `{"notes":"x"}`)), http.StatusForbidden, "insufficient_scope")
}

func bearerRequest(t testing.TB, h *house, method, path, access, body string) *http.Request {
	t.Helper()
	return h.request(t, method, path, strings.NewReader(body), header("Authorization", "Bearer "+access), header("Content-Type", "application/json"))
}

// TestClientCredentialsActsForTheAccount: the source of its events is the client's name,
// it sees its own account alone, and introspection names no user.
func TestClientCredentialsActsForTheAccount(t *testing.T) {
	h := parallelHouse(t)
	j := newJob(t, h)
	access := j.access(t)
	if a := h.do(bearerRequest(t, h, "PUT", "/api/resources/customer/c1", access, `{"notes":"x"}`)); a.StatusCode != http.StatusCreated {
		t.Fatalf("put = %d %s", a.StatusCode, a.body)
	}
	if a := h.api(t, access); strings.Count(a.body, `"source":"Night job"`) != 1 {
		t.Errorf("events = %s, want one of the client", a.body)
	}
	if a := h.api(t, h.pair(t).AccessToken); strings.Contains(a.body, "Night job") {
		t.Errorf("another account sees %s", a.body)
	}
	found := wantActive(t, h.postForm(t, introspectPath, url.Values{"client_id": j.form["client_id"], "client_secret": j.form["client_secret"], "token": {access}}))
	if _, has := found["username"]; has || found["sub"] != j.client.ID || found["client_id"] != j.client.ID {
		t.Errorf("introspection = %v, want the client as sub and no username", found)
	}
}

// TestClientCredentialsEnds: what ends such a token ends it at the next request.
//
// Promise (RFC 6749 §5): client_credentials (§4.4): no refresh token; it ends with the client and
// its account; without one, unauthorized_client
func TestClientCredentialsEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, j *job, access string) error{
		"revoked": func(t *testing.T, j *job, access string) error {
			wantStatus(t, j.postForm(t, revokePath, url.Values{"client_id": j.form["client_id"], "client_secret": j.form["client_secret"], "token": {access}}), http.StatusOK)
			return nil
		},
		"revoked_by_the_operator": func(t *testing.T, j *job, access string) error {
			_, err := j.RevokeFamilyOf(t.Context(), store.By{}, access)
			return err
		},
		"secret_leaked": func(t *testing.T, j *job, _ string) error {
			_, _, err := j.RotateClientSecret(t.Context(), j.client.ID, true)
			return err
		},
		"disabled": func(t *testing.T, j *job, _ string) error {
			_, err := j.DisableClient(t.Context(), j.client.ID)
			return err
		},
		"disabled_and_enabled": func(t *testing.T, j *job, _ string) error {
			if _, err := j.DisableClient(t.Context(), j.client.ID); err != nil {
				return err
			}
			_, err := j.EnableClient(t.Context(), j.client.ID)
			return err
		},
		"deleted": func(t *testing.T, j *job, _ string) error { return j.DeleteClient(t.Context(), j.client.ID) },
		"of_another_account": func(t *testing.T, j *job, _ string) error {
			other := "acct_other"
			_, err := j.UpdateClient(t.Context(), j.client.ID, store.ClientChange{Account: &other})
			return err
		},
		"without_the_grant": func(t *testing.T, j *job, _ string) error {
			_, err := j.UpdateClient(t.Context(), j.client.ID, store.ClientChange{Grants: &[]string{"password"}})
			return err
		},
		"account_disabled": func(t *testing.T, j *job, _ string) error {
			_, err := j.DisableAccount(t.Context(), "acct_job")
			return err
		},
		"account_disabled_and_enabled": func(t *testing.T, j *job, _ string) error {
			if _, err := j.DisableAccount(t.Context(), "acct_job"); err != nil {
				return err
			}
			_, err := j.EnableAccount(t.Context(), "acct_job")
			return err
		},
		"account_revoked": func(t *testing.T, j *job, _ string) error {
			_, err := j.RevokeAccount(t.Context(), "acct_job")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, newHouse(t))
			access := j.access(t)
			wantStatus(t, j.api(t, access), http.StatusOK)
			must.Do(t, end(t, j, access))
			wantError(t, j.api(t, access), http.StatusUnauthorized, "invalid_token")
		})
	}
}

// TestClientCredentialsRefused: public clients, and clients without an account, are
// refused when they are made and when they ask.
//
// Promise (RFC 6749 §5): client_credentials (§4.4): no refresh token; it ends with the client and
// its account; without one, unauthorized_client
func TestClientCredentialsRefused(t *testing.T) {
	h := parallelHouse(t)
	for name, spec := range map[string]store.ClientSpec{
		"public":     {Name: "x", Public: true, Grants: []string{"client_credentials"}, Account: "acct_job"},
		"no_account": {Name: "x", Grants: []string{"client_credentials"}},
		"no_grant":   {Name: "x", Grants: []string{"password"}, Account: "acct_job"},
		"bad_name":   {Name: "x", Grants: []string{"client_credentials"}, Account: "a b"},
	} {
		var bad *record.InvalidError
		if _, _, err := h.CreateClient(t.Context(), spec); !errors.As(err, &bad) {
			t.Errorf("%s: CreateClient() = %v, want an InvalidError", name, err)
		}
	}
	wantTokenError(t, h.token(t, with(h.credentials(), "grant_type", "client_credentials")), http.StatusBadRequest, "unauthorized_client")
	public, _, err := h.CreateClient(t.Context(), store.ClientSpec{Name: "x", Public: true, RedirectURIs: []string{storetest.CallbackURI}})
	must.Do(t, err)
	wantTokenError(t, h.token(t, url.Values{"client_id": {public.ID}, "grant_type": {"client_credentials"}}), http.StatusBadRequest, "unauthorized_client")
	j := newJob(t, h)
	must.Get(h.DisableAccount(t.Context(), "acct_job"))(t)
	if text := wantTokenError(t, j.token(t, j.form), http.StatusBadRequest, "unauthorized_client"); text != "The client or its account is disabled." {
		t.Errorf("a client of a disabled account is told %q", text)
	}
	if a := j.token(t, with(j.form, "client_secret", storetest.Password)); a.StatusCode != http.StatusUnauthorized {
		t.Errorf("wrong secret = %d %s, want 401 before the grant", a.StatusCode, a.body)
	}
}

// TestClientCredentialsSeen: the audit log and the plots name the grant, the desk lists
// the access, and no user's account page does.
func TestClientCredentialsSeen(t *testing.T) {
	h, desk := deskHouse(t)
	j := newJob(t, h)
	lines := h.recorded(t, func() { j.access(t) })
	if len(lines) != 1 || lines[0].What != store.AuditGrant || lines[0].Reason != "client_credentials" || lines[0].UserID != "" || lines[0].AccountID != "acct_job" {
		t.Errorf("audit = %+v, want the grant without a user", lines)
	}
	page := desk.get(t, "/desk/access").body
	if !strings.Contains(page, "Night job") || !strings.Contains(page, "acct_job (the client itself)") || strings.Contains(page, `/desk/users/"`) {
		t.Errorf("the desk's Access does not list it: %s", page)
	}
	if page := desk.get(t, "/account").body; strings.Contains(page, "Night job") {
		t.Errorf("an account page shows it: %s", page)
	}
	families := must.Get(h.ListFamilies(t.Context(), store.FamilyFilter{ClientID: j.client.ID}, "", 10))(t)
	if len(families) != 1 || families[0].UserID != "" || families[0].Username != "" {
		t.Errorf("families = %+v, want one without a user", families)
	}
	if _, err := h.CheckAll(t.Context()); err != nil {
		t.Errorf("CheckAll() = %v", err)
	}
}

package handlers_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/secret"
)

// shownTo reads an answer of the admin API as an object.
func shownTo(t testing.TB, a answer, status int) map[string]any {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal([]byte(a.body), &object); err != nil || a.StatusCode != status {
		t.Fatalf("answer %d %s, want %d and an object", a.StatusCode, a.body, status)
	}
	return object
}

// listOf returns one member of every item of a list.
func listOf(t testing.TB, a answer, member string) (values []string) {
	t.Helper()
	for _, item := range shownTo(t, a, http.StatusOK)["data"].([]any) {
		values = append(values, item.(map[string]any)[member].(string))
	}
	return values
}

func (h *house) inspected(t testing.TB, token string) map[string]any {
	t.Helper()
	return shownTo(t, h.admin(t, "POST", "/admin/token-inspect", `{"token":"`+token+`"}`), http.StatusOK)
}

// TestAdminTokens: the operator sees who may act for whom, and ends it, by ids that are
// not secret.
func TestAdminTokens(t *testing.T) {
	t.Parallel()
	t.Run("token_list_inspect_revoke", func(t *testing.T) {
		h := parallelHouse(t)
		p, other := h.pair(t), h.pair(t, "scope", "events:read")
		live := h.inspected(t, p.AccessToken)
		id, _ := live["family_id"].(string)
		if live["kind"] != "access_token" || live["active"] != true || live["username"] != "mara" || live["client_id"] != h.client.ID || live["client_name"] != h.client.Name {
			t.Errorf("inspect = %v", live)
		}
		if ids := listOf(t, h.admin(t, "GET", "/api/platform/authorizations?user=MARA&client="+h.client.ID, ""), "family_id"); len(ids) != 2 || !slices.Contains(ids, id) {
			t.Errorf("list = %v, want two with %s", ids, id)
		}
		if revoked := shownTo(t, h.admin(t, "POST", "/api/platform/authorizations/"+id+"/revoke", ""), http.StatusOK); revoked["family_id"] != id {
			t.Errorf("revoke = %v, want %s", revoked, id)
		}
		if dead := h.inspected(t, p.RefreshToken); dead["active"] != false || dead["reason"] != store.ReasonRevokedByOperator || dead["scopes"] != nil {
			t.Errorf("inspect after the revocation = %v", dead)
		}
		h.familyIsDead(t, p)
		h.familyLives(t, other)
		if ids := listOf(t, h.admin(t, "GET", "/api/platform/authorizations", ""), "family_id"); len(ids) != 1 || ids[0] == id {
			t.Errorf("list after the revocation = %v, want the other alone", ids)
		}
	})
	t.Run("a_filter_that_names_nobody_selects_nothing", func(t *testing.T) {
		h := parallelHouse(t)
		h.pair(t)
		for _, query := range []string{"user=moira", "client=moira", "user=mara&client=moira", "user=usr_00000000000000000000000000"} {
			if ids := listOf(t, h.admin(t, "GET", "/api/platform/authorizations?"+query, ""), "family_id"); len(ids) > 0 {
				t.Errorf("%s = %v, want none", query, ids)
			}
		}
		if ids := listOf(t, h.admin(t, "GET", "/api/platform/authorizations?client="+url.QueryEscape(strings.ToUpper(h.client.Name)), ""), "family_id"); len(ids) != 1 {
			t.Errorf("by the name of its client = %v, want one", ids)
		}
	})
	t.Run("to_inspect_is_no_use", func(t *testing.T) {
		h := parallelHouse(t)
		p := h.pair(t)
		for range 2 {
			if live := h.inspected(t, p.AccessToken); live["used_at"] != nil {
				t.Errorf("used_at = %v, want none: only the operator has looked", live["used_at"])
			}
			h.Rest()
		}
	})
	t.Run("revokes_the_family_of_a_token_in_the_body", func(t *testing.T) {
		h := parallelHouse(t)
		p := h.pair(t)
		q := wantPair(t, h.token(t, h.refreshForm(p.RefreshToken)))
		body := `{"token":"` + p.RefreshToken + `"}` // spent, but it still names its family
		shownTo(t, h.admin(t, "POST", "/admin/token-revoke", body), http.StatusOK)
		h.familyIsDead(t, q)
		again := h.admin(t, "POST", "/admin/token-revoke", body)
		if refused := shownTo(t, again, http.StatusNotFound); refused["error"] != "not_found" || strings.Contains(again.body, p.RefreshToken) {
			t.Errorf("a second time: %s, want not_found without the token", again.body)
		}
	})
	t.Run("refusals", func(t *testing.T) {
		h := parallelHouse(t)
		unknown := secret.New(nil, secret.AccessToken).Reveal()
		for _, c := range []struct {
			method, path, body string
			status             int
			code               string
		}{
			{"POST", "/api/platform/authorizations/fam_00000000000000000000000000/revoke", "", http.StatusNotFound, "not_found"},
			{"POST", "/api/platform/authorizations/nonsense/revoke", "", http.StatusNotFound, "not_found"},
			{"GET", "/api/platform/authorizations?after=nonsense", "", http.StatusBadRequest, "invalid_parameter"},
			{"GET", "/api/platform/authorizations?limit=0", "", http.StatusBadRequest, "invalid_parameter"},
			{"GET", "/api/platform/authorizations?user=a&user=b", "", http.StatusBadRequest, "duplicate_parameter"},
			{"GET", "/api/platform/authorizations?usr=a", "", http.StatusBadRequest, "unknown_parameter"},
			{"POST", "/admin/token-inspect", `{}`, http.StatusBadRequest, "invalid_request"},
			{"POST", "/admin/token-inspect", `{"token":"hunter2"}`, http.StatusBadRequest, "invalid_request"},
			{"POST", "/admin/token-inspect", `{"token":"` + unknown + `"}`, http.StatusNotFound, "not_found"},
			{"POST", "/admin/token-revoke", `{"token":"` + unknown + `"}`, http.StatusNotFound, "not_found"},
			{"POST", "/admin/token-revoke", `{"token":"` + h.secret.Reveal() + `"}`, http.StatusBadRequest, "invalid_request"},
			{"GET", "/admin/sessions?user=moira", "", http.StatusNotFound, "not_found"},
			{"GET", "/admin/sessions?after=fam_00000000000000000000000000", "", http.StatusBadRequest, "invalid_parameter"},
			{"POST", "/admin/sessions/ses_00000000000000000000000000/revoke", "", http.StatusNotFound, "not_found"},
			{"POST", "/admin/session-revoke", `{"user":"moira"}`, http.StatusNotFound, "not_found"},
		} {
			a := h.admin(t, c.method, c.path, c.body)
			if refused := shownTo(t, a, c.status); refused["error"] != c.code || strings.Contains(a.body, "hunter2") || strings.Contains(a.body, h.secret.Reveal()) {
				t.Errorf("%s %s = %v, want %s and nothing repeated", c.method, c.path, refused, c.code)
			}
		}
	})
}

// TestAdminSessions: the operator lists sign-ins and ends them.
func TestAdminSessions(t *testing.T) {
	h := parallelHouse(t)
	first, second := h.signedIn(t, h.user).cookie(sessionCookie), h.signedIn(t, h.user).cookie(sessionCookie)
	odile := h.User(t, "odile", "acct_aster")
	hers := h.signedIn(t, odile).cookie(sessionCookie)
	p := h.pair(t) // by a sign-in of its own
	h.Clock.Advance(time.Second)
	if ids := listOf(t, h.admin(t, "GET", "/admin/sessions?user=odile", ""), "session_id"); len(ids) != 1 || ids[0] != h.inspected(t, hers)["session_id"] {
		t.Errorf("list of odile = %v", ids)
	}
	everywhere := listOf(t, h.admin(t, "GET", "/admin/sessions", ""), "session_id")
	id := h.inspected(t, first)["session_id"].(string)
	if !slices.Contains(everywhere, id) {
		t.Errorf("list = %v, want %s in it", everywhere, id)
	}
	if ended := shownTo(t, h.admin(t, "POST", "/admin/sessions/"+id+"/revoke", ""), http.StatusOK); ended["username"] != "mara" {
		t.Errorf("revoke = %v", ended)
	}
	if h.sessionLives(t, first) || !h.sessionLives(t, second) || h.inspected(t, hers)["active"] != true {
		t.Error("want the first sign-in of mara ended, and no other")
	}
	shownTo(t, h.admin(t, "POST", "/admin/session-revoke", `{"user":"MARA"}`), http.StatusOK)
	if h.sessionLives(t, second) || h.inspected(t, hers)["active"] != true {
		t.Error("want all of mara's ended, and odile's alive")
	}
	h.familyLives(t, p)
}

func TestAuditOfTheOperatorsRevocations(t *testing.T) {
	h := parallelHouse(t)
	id, _ := h.inspected(t, h.pair(t).AccessToken)["family_id"].(string)
	leaked := h.pair(t).AccessToken
	session, _ := h.inspected(t, h.signedIn(t, h.user).cookie(sessionCookie))["session_id"].(string)
	post := func(path, body string) func(*testing.T) answer {
		return func(t *testing.T) answer { return h.admin(t, "POST", path, body) }
	}
	for _, c := range []auditCase{
		{"family", post("/api/platform/authorizations/"+id+"/revoke", ""), store.AuditRevoke, store.ReasonRevokedByOperator, true, true},
		{"family_of_a_token", post("/admin/token-revoke", `{"token":"`+leaked+`"}`), store.AuditRevoke, store.ReasonRevokedByOperator, true, true},
		{"session", post("/admin/sessions/"+session+"/revoke", ""), store.AuditRevoke, "signed out by the operator", false, true},
		{"sessions_of_a_user", post("/admin/session-revoke", `{"user":"mara"}`), store.AuditRevoke, "signed out everywhere by the operator", false, true},
	} {
		lines := h.recorded(t, func() {
			if a := c.step(t); a.StatusCode != http.StatusOK {
				t.Fatalf("%s = %d %s", c.name, a.StatusCode, a.body)
			}
		})
		if len(lines) != 1 || lines[0].What != c.what || lines[0].Reason != c.reason || lines[0].UserID != h.user.Subject() ||
			(lines[0].ClientID == h.client.ID) != c.byClient || lines[0].Source != "" {
			t.Errorf("%s leaves %+v, want one line %s %q", c.name, lines, c.what, c.reason)
		}
	}
}

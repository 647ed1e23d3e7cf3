package handlers_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/storetest/must"
)

// importPair imports tokens of another system, of the house's client and user.
func (h *house) importPair(t testing.TB, name string) pair {
	t.Helper()
	old := pair{AccessToken: "old~access+of=" + name, RefreshToken: "old/refresh.of-" + name}
	line := fmt.Sprintf(`{"token":{"client_id":%q,"username":%q,"access_token":%q,"expires_at":%d,"refresh_token":%q}}`,
		h.client.ID, h.passwordForm().Get("username"), old.AccessToken, h.Now().Add(time.Hour).Unix(), old.RefreshToken)
	im := h.NewImport(t.Context(), store.ImportOptions{})
	must.Do(t, im.Add(t.Context(), []byte(line), 0))
	must.Do(t, im.Flush(t.Context()))
	if sum := im.Summary(); sum.Created.Tokens != 1 {
		t.Fatalf("the import made %+v, want one family", sum)
	}
	return old
}

// Promise (Platform §12): its own client uses, introspects, revokes and refreshes an imported token as any
// other, with any hint
// Promise (Platform §8, §16): an access text as refresh token, or an imported token by another client, is
// refused and nothing changes; a replay after the successor was used ends the family; no text is logged
func TestImportedTokens(t *testing.T) {
	h := parallelHouse(t)
	other, otherSecret := h.Client(t)
	var texts []string
	imported := func(t *testing.T) pair {
		p := h.importPair(t, strings.ReplaceAll(t.Name(), "/", "_"))
		texts = append(texts, p.AccessToken, p.RefreshToken)
		return p
	}
	refused := func(t *testing.T, a answer) {
		t.Helper()
		wantTokenError(t, a, http.StatusBadRequest, "invalid_grant")
	}
	t.Run("are_used_and_introspected_with_any_hint", func(t *testing.T) {
		p := imported(t)
		if !h.accessLives(t, p) {
			t.Error("the access token is refused")
		}
		for _, hint := range []string{"access_token", "refresh_token", "x"} {
			for _, token := range []string{p.AccessToken, p.RefreshToken} {
				members := wantActive(t, h.postForm(t, introspectPath, with(h.credentials(), "token", token, "token_type_hint", hint)))
				if members["client_id"] != h.client.ID || members["username"] != h.passwordForm().Get("username") {
					t.Errorf("introspection says %v", members)
				}
			}
		}
	})
	t.Run("are_revoked_with_any_hint", func(t *testing.T) {
		for _, hint := range []string{"access_token", "refresh_token"} {
			p := h.importPair(t, "revoked-with-"+hint)
			wantRevoked(t, h.postForm(t, revokePath, with(h.credentials(), "token", p.AccessToken, "token_type_hint", hint)))
			if h.accessLives(t, p) {
				t.Error("the access token lives after it was revoked")
			}
			wantRevoked(t, h.postForm(t, revokePath, with(h.credentials(), "token", p.RefreshToken, "token_type_hint", hint)))
			refused(t, h.token(t, h.refreshForm(p.RefreshToken)))
		}
	})
	t.Run("are_refreshed_and_a_replay_ends_the_family", func(t *testing.T) {
		first := imported(t)
		second := wantPair(t, h.token(t, h.refreshForm(first.RefreshToken)))
		if !strings.HasPrefix(second.AccessToken, "tollat_") || !strings.HasPrefix(second.RefreshToken, "tollrt_") {
			t.Errorf("the pair is %s… and %s…, want one of ours", second.AccessToken[:7], second.RefreshToken[:7])
		}
		if again := wantPair(t, h.token(t, h.refreshForm(first.RefreshToken))); again.RefreshToken != second.RefreshToken {
			t.Error("a retry got another pair")
		}
		if !h.accessLives(t, first) {
			t.Error("the old access token ended before its time")
		}
		wantPair(t, h.token(t, h.refreshForm(second.RefreshToken)))
		refused(t, h.token(t, h.refreshForm(first.RefreshToken)))
		h.familyIsDead(t, second)
		if h.accessLives(t, first) {
			t.Error("the old access token lives on after the replay")
		}
		h.Flush(t.Context())
		if lines, _ := h.AuditReasons(t, record.Position{}, 1000); !strings.Contains(strings.Join(lines, ", "), store.ReasonRefreshReused) {
			t.Errorf("the audit record has no line of the replay: %v", lines)
		}
	})
	t.Run("are_refused_as_the_other_kind_and_by_another_client", func(t *testing.T) {
		p := imported(t)
		refused(t, h.token(t, h.refreshForm(p.AccessToken)))
		wantError(t, h.api(t, p.RefreshToken), http.StatusUnauthorized, "invalid_token")
		refused(t, h.token(t, as(h.refreshForm(p.RefreshToken), other, otherSecret)))
		for _, token := range []string{p.AccessToken, p.RefreshToken} {
			wantRevoked(t, h.postForm(t, revokePath, with(as(h.credentials(), other, otherSecret), "token", token)))
			wantInactive(t, h.postForm(t, introspectPath, with(as(h.credentials(), other, otherSecret), "token", token)))
		}
		if !h.accessLives(t, p) {
			t.Error("the access token ended")
		}
		wantPair(t, h.token(t, h.refreshForm(p.RefreshToken)))
	})
	h.Flush(t.Context())
	log := h.log.String()
	for _, text := range texts {
		if strings.Contains(log, text) {
			t.Error("the log has the text of a token")
		}
	}
}

package handlers_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tollhouse/store/storetest/must"
)

// A displayed name always has something visible.
//
// Promise (Credentials, memory, connections): names without a visible character
func TestNamesThatNobodyCanSee(t *testing.T) {
	h := parallelHouse(t)
	admin := httptest.NewServer(h.server.Admin())
	t.Cleanup(admin.Close)
	create := func(t *testing.T, method, path string, members map[string]any) answer {
		t.Helper()
		body, err := json.Marshal(members)
		must.Do(t, err)
		r := must.Get(http.NewRequestWithContext(t.Context(), method, admin.URL+path, strings.NewReader(string(body))))(t)
		r.Header.Set("Content-Type", "application/json")
		res := must.Get(admin.Client().Do(r))(t)
		defer res.Body.Close()
		return readAnswer(t, res)
	}
	client := func(t *testing.T, name string) answer {
		return create(t, http.MethodPost, "/api/platform/clients", map[string]any{"name": name, "redirect_uris": []string{"https://app.example/cb"}})
	}
	account := func(t *testing.T, name string) answer {
		return create(t, http.MethodPut, "/api/platform/accounts/acct_blank", map[string]any{"name": name})
	}
	user := func(t *testing.T, name string) answer {
		return create(t, http.MethodPost, "/api/platform/users", map[string]any{"username": name, "account": "acct_larkspur", "password": "correct horse battery"})
	}
	for what, name := range map[string]string{
		"space": " ", "no_break_space": "\u00a0", "ideographic_space": "\u3000", "spaces": " \u2003 ",
		"hangul_filler": "\u3164", "halfwidth_hangul_filler": "\uffa0", "hangul_choseong_filler": "\u115f", "hangul_jungseong_filler": "\u1160",
		"braille_blank": "\u2800", "grapheme_joiner": "\u034f", "zero_width_space": "\u200b", "variation_selector": "\ufe0f",
		"mongolian_variation_selector": "\u180b", "combining_marks": "\u0301\u0301", "object_replacement": "\ufffc", "musical_null_notehead": "\U0001d159",
		"egyptian_blank": "\U00013441", "tag": "\U000e0041", "private_use": "\ue000", "spaces_and_fillers": " \u3164 \u2800",
		"a_filler_behind_letters": "Larkspur\u3164", "a_joiner_within_letters": "Lark\u034fspur", "a_braille_blank_within_letters": "Lark\u2800spur",
	} {
		t.Run(what, func(t *testing.T) {
			for of, make := range map[string]func(*testing.T, string) answer{"name": client, "username": user} {
				if a := make(t, name); !strings.Contains(a.body, `"param":"`+of+`"`) {
					t.Errorf("%s %q: %s, want it to be at fault", of, name, a.body)
				} else {
					wantError(t, a, http.StatusBadRequest, "invalid_parameter")
				}
			}
			wantError(t, account(t, name), http.StatusBadRequest, "invalid_parameter")
		})
	}
	for what, name := range map[string]string{
		"letters_of_any_script": "Café 株式会社 한글 हिन्दी", "a_digit": "7", "a_sign": "&", "an_emoji": "❤\ufe0f", "one_letter_with_a_mark": "e\u0301", "braille": "\u2813\u280a",
	} {
		t.Run(what, func(t *testing.T) {
			if a := client(t, name); a.StatusCode != http.StatusCreated {
				t.Errorf("client %q: status = %d %s, want 201", name, a.StatusCode, a.body)
			}
		})
	}
}

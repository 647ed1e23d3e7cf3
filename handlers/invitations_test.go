package handlers_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"tollhouse/store"
)

// Promise (Platform §4, §5): a code can be used for 1 hour to 14 days, 24 hours unless the maker
// says otherwise; it is in no address, replaces the earlier one, and the user's JSON shows who has not come
func TestInvitations(t *testing.T) {
	h := parallelHouse(t)
	p := newPlatform(t, h, "users:read", "users:write")
	on, created := newTargets(t, h, 1), 0
	invite := func(more string) map[string]any {
		t.Helper()
		created++
		body := fmt.Sprintf(`{"username":"guest%d","account":%q%s}`, created, on.account, more)
		return shownTo(t, h.call(t, p.access(t), "POST", "/api/platform/users", body), http.StatusCreated)
	}
	show := func(made map[string]any) map[string]any {
		t.Helper()
		return shownTo(t, h.call(t, p.access(t), "GET", "/api/platform/users/"+made["user_id"].(string), ""), http.StatusOK)
	}
	now := func() float64 { return float64(h.Now().Unix()) }

	made := invite("")
	if made["expires_at"] != now()+86400 || made["code_expires_at"] != made["expires_at"] || made["has_password"] != false {
		t.Errorf("without a lifetime: %v", made)
	}
	if code, url := made["code"].(string), made["url"].(string); url != publicURL+"/new-password" || strings.Contains(url, code) {
		t.Errorf("the address %q, and the code %q", url, code)
	}
	for _, seconds := range []float64{3600, 1209600} {
		if made := invite(fmt.Sprintf(`,"code_expires_in":%.0f`, seconds)); made["expires_at"] != now()+seconds {
			t.Errorf("%v seconds: %v", seconds, made)
		}
	}
	fortnight := shownTo(t, h.call(t, p.access(t), "POST", "/api/platform/users/"+made["user_id"].(string)+"/code", `{"code_expires_in":1209600}`), http.StatusOK)
	if fortnight["expires_at"] != now()+1209600 || show(made)["code_expires_at"] != fortnight["expires_at"] {
		t.Errorf("the new code: %v; the user: %v", fortnight, show(made))
	}
	wantCodeRefused(t, h.browser(t).setPassword(t, "guest1", made["code"].(string)))
	h.Clock.Advance(store.UserCodeLifetimeMax - time.Second)
	if a := h.browser(t).setPassword(t, "guest1", fortnight["code"].(string)); a.StatusCode != http.StatusSeeOther {
		t.Errorf("in the last second of 14 days: %d %s", a.StatusCode, words(t, a))
	}
	if shown := show(made); shown["has_password"] != true || shown["code_expires_at"] != nil {
		t.Errorf("who has come: %v", shown)
	}
	late := invite(`,"code_expires_in":3600`)
	h.Clock.Advance(time.Hour)
	wantCodeRefused(t, h.browser(t).setPassword(t, late["username"].(string), late["code"].(string)))
	if shown := show(late); shown["has_password"] != false || shown["code_expires_at"] != late["expires_at"] {
		t.Errorf("who came late: %v", shown)
	}

	waits := invite(`,"code":false`)
	if waits["code"] != nil || waits["expires_at"] != nil || waits["url"] != nil || waits["has_password"] != false || waits["code_expires_at"] != nil {
		t.Errorf("without a code: %v", waits)
	}
	wantStatus(t, h.call(t, p.access(t), "POST", "/api/platform/users/"+waits["user_id"].(string)+"/code", ""), http.StatusOK)

	// A first password moves a user over from an old sign-in page.
	if moved := invite(`,"password":"correct horse battery"`); moved["has_password"] != true || moved["code"] != nil {
		t.Errorf("with a password: %v", moved)
	}
}

// TestInvitationsRefused: refused lifetimes and mixtures name their member, and create nobody.
func TestInvitationsRefused(t *testing.T) {
	h := parallelHouse(t)
	access := newPlatform(t, h, "users:write").access(t)
	on := newTargets(t, h, 1)
	users := map[string]string{ // by what is sent, the member that is refused
		`"code_expires_in":3599`:                                           "code_expires_in",
		`"code_expires_in":1209601`:                                        "code_expires_in",
		`"code_expires_in":0`:                                              "code_expires_in",
		`"code_expires_in":-3600`:                                          "code_expires_in",
		`"code_expires_in":3600.5`:                                         "code_expires_in",
		`"code_expires_in":"7d"`:                                           "code_expires_in",
		`"code_expires_in":1e400`:                                          "code_expires_in",
		`"code":false,"code_expires_in":3600`:                              "code_expires_in",
		`"code":"yes"`:                                                     "code",
		`"password":"correct horse battery","code":true`:                   "code",
		`"password":"correct horse battery","code_expires_in":3600`:        "code_expires_in",
		`"password":"short"`:                                               "password",
		`"password":"` + strings.Repeat("x", 1025) + `"`:                   "password",
		`"password":"correct horse battery","code":false,"code_expires":1`: "code_expires",
	}
	wantStatus(t, h.call(t, access, "POST", "/api/platform/users/"+on.invited+"/code", ""), http.StatusOK) // its first use is recorded
	before := h.kept(t)
	for sent, param := range users {
		a := h.call(t, access, "POST", "/api/platform/users", fmt.Sprintf(`{"username":"guest","account":%q,%s}`, on.account, sent))
		if a.StatusCode != http.StatusBadRequest || members(t, a)["param"] != param {
			t.Errorf("%s = %d %s, want 400 at %s", sent, a.StatusCode, a.body, param)
		}
		if !strings.HasPrefix(sent, `"code_expires_in"`) {
			continue
		}
		a = h.call(t, access, "POST", "/api/platform/users/"+on.invited+"/code", "{"+sent+"}")
		if a.StatusCode != http.StatusBadRequest || members(t, a)["param"] != param {
			t.Errorf("a new code with %s = %d %s, want 400 at %s", sent, a.StatusCode, a.body, param)
		}
	}
	if h.kept(t) != before {
		t.Error("a refused invitation changed something")
	}
}

package handlers_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"tollhouse/store/storetest/must"
)

// Promise (Platform §8, §16): the desk lists the accounts with their state, page by page, and shows
// the commands that change it
func TestDeskAccounts(t *testing.T) {
	h, b := deskHouse(t)
	for i := range 60 {
		_, _, err := h.PutAccount(t.Context(), fmt.Sprintf("acct_%02d", i), nil)
		must.Do(t, err)
	}
	must.Get(h.DisableAccount(t.Context(), "acct_07"))(t)
	states := map[string]string{}
	for target, pages := "/desk/accounts", 0; target != "" && pages < 5; pages++ {
		page := b.get(t, target)
		wantStatus(t, page, http.StatusOK)
		if ids := rows(t, page, "data-account"); len(ids) > 50 || !slices.IsSorted(ids) {
			t.Errorf("%s has the rows %q", target, ids)
		}
		for n := range parsePage(t, page).Descendants() {
			if n.Type == html.ElementNode && attribute(n, "data-account") != "" {
				states[attribute(n, "data-account")] = attribute(n, "data-state")
			}
		}
		if text := words(t, page); !strings.Contains(text, "tollhouse account disable") || !strings.Contains(text, "tollhouse account enable") {
			t.Errorf("%s lacks the commands: %s", target, text)
		}
		target = nextOf(t, page, "data-account")
	}
	for i := range 60 {
		id, want := fmt.Sprintf("acct_%02d", i), "enabled"
		if id == "acct_07" {
			want = "disabled"
		}
		if states[id] != want {
			t.Errorf("%s is %q, want %s", id, states[id], want)
		}
	}
	if href := linkOn(t, b.get(t, "/desk/users"), "Accounts"); href != "/desk/accounts" {
		t.Errorf("the page of users leads to %q", href)
	}
}

package handlers_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestDevResetAndSnapshots(t *testing.T) {
	t.Parallel()
	h := newDevHouse(t)
	empty := func(a answer) {
		t.Helper()
		if a.StatusCode != http.StatusNoContent || a.body != "" {
			t.Errorf("answer = %d %s, want 204", a.StatusCode, a.body)
		}
	}
	empty(h.ask(t, "POST", "/_dev/reset", ""))
	empty(h.ask(t, "POST", "/_dev/reset", "{}"))
	saved := object(t, h.ask(t, "POST", "/_dev/snapshot", `{"name":"paid"}`), http.StatusCreated)
	if saved["name"] != "paid" || saved["events"] != 3.0 || saved["clock"].(map[string]any)["now"] != "2026-06-01T12:00:00.000Z" {
		t.Errorf("snapshot = %v", saved)
	}
	object(t, h.ask(t, "POST", "/_dev/snapshot", `{"name":"paid"}`), http.StatusOK)
	if saved := object(t, h.ask(t, "POST", "/_dev/snapshot", ""), http.StatusCreated); saved["name"] != "default" {
		t.Errorf("a snapshot without a name is %v, want default", saved["name"])
	}
	empty(h.ask(t, "POST", "/_dev/restore", `{"name":"paid"}`))
	empty(h.ask(t, "POST", "/_dev/restore", ""))
	for _, ask := range [][3]string{{"POST", "/_dev/restore", `{"name":"payed"}`}, {"DELETE", "/_dev/snapshots/payed", ""}} {
		if got := wantError(t, h.ask(t, ask[0], ask[1], ask[2]), http.StatusNotFound, "not_found"); !strings.Contains(got, "default, paid") {
			t.Errorf("description = %q, want the names that exist", got)
		}
	}
	state := object(t, h.get(t, "/_dev/state"), http.StatusOK)
	for name, want := range map[string]string{
		"clients": "1", "users": "2", "accounts": "3", "events": "4", "resources": "5", "resets": "4",
		"snapshots": "[default paid]", "rand_seed": "<nil>", "throttle": "false", "strict_types": "false",
	} {
		if got := fmt.Sprint(state[name]); got != want {
			t.Errorf("%s = %s, want %s", name, got, want)
		}
	}
	empty(h.ask(t, "DELETE", "/_dev/snapshots/paid", ""))
	empty(h.ask(t, "DELETE", "/_dev/snapshots", ""))
	if got := h.control.Names(); len(got) > 0 {
		t.Errorf("snapshots = %v, want none", got)
	}
	for i := range 32 {
		object(t, h.ask(t, "POST", "/_dev/snapshot", fmt.Sprintf(`{"name":"s%d"}`, i)), http.StatusCreated)
	}
	wantError(t, h.ask(t, "POST", "/_dev/snapshot", `{"name":"one_more"}`), http.StatusConflict, "conflict")
	for _, name := range []string{"", "Paid", "a b", "ä", strings.Repeat("a", 65)} {
		wantParam(t, h.ask(t, "POST", "/_dev/snapshot", fmt.Sprintf(`{"name":%q}`, name)), "name")
	}
}

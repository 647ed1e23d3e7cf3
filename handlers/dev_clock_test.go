package handlers_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"tollhouse/handlers/dev"
)

// moved is the clock after a call.
func moved(t *testing.T, h *devHouse, body string) string {
	t.Helper()
	return object(t, h.ask(t, "POST", "/_dev/clock", body), http.StatusOK)["now"].(string)
}

func TestDevClockMoves(t *testing.T) {
	t.Parallel()
	h := newDevHouse(t)
	tests := []struct{ body, want string }{
		{`{"advance":"90s"}`, "2026-06-01T12:01:30.000Z"},
		{`{"advance":30}`, "2026-06-01T12:02:00.000Z"},
		{`{"advance":0.5}`, "2026-06-01T12:02:00.500Z"},
		{`{"advance":"0s"}`, "2026-06-01T12:02:00.500Z"},
		{`{"advance":"14d"}`, "2026-06-15T12:02:00.500Z"},
		{`{"set":"2026-07-01T00:00:00Z"}`, "2026-07-01T00:00:00.000Z"},
		{`{"set":"2026-07-01T00:00:00Z"}`, "2026-07-01T00:00:00.000Z"},
		{`{"set":1782950400,"running":false}`, "2026-07-02T00:00:00.000Z"},
	}
	for _, tt := range tests {
		if got := moved(t, h, tt.body); got != tt.want {
			t.Errorf("after %s the clock shows %s, want %s", tt.body, got, tt.want)
		}
		shown := object(t, h.get(t, "/_dev/clock"), http.StatusOK)
		at, _ := time.Parse(time.RFC3339, tt.want)
		if shown["now"] != tt.want || shown["unix"] != float64(at.Unix()) || shown["running"] != false || len(shown) != 3 {
			t.Errorf("GET /_dev/clock = %v, want %s, standing", shown, tt.want)
		}
	}
}

func TestDevClockRefuses(t *testing.T) {
	t.Parallel()
	h := newDevHouse(t)
	tests := []struct{ name, body, param string }{
		{"nothing", `{}`, ""},
		{"both_ways_at_once", `{"advance":"1s","set":"2027-01-01T00:00:00Z"}`, "set"},
		{"a_negative_duration", `{"advance":"-1s"}`, "advance"},
		{"a_negative_number", `{"advance":-1}`, "advance"},
		{"an_endless_number", `{"advance":1e300}`, "advance"},
		{"no_duration", `{"advance":"soon"}`, "advance"},
		{"no_time", `{"set":"tomorrow"}`, "set"},
		{"a_time_past_the_last", `{"set":"` + dev.ClockMax.Add(time.Second).Format(time.RFC3339) + `"}`, "set"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { wantParam(t, h.ask(t, "POST", "/_dev/clock", tt.body), tt.param) })
	}
	t.Run("a_time_before_now", func(t *testing.T) {
		a := h.ask(t, "POST", "/_dev/clock", `{"set":"2026-06-01T11:59:59Z"}`)
		wantError(t, a, http.StatusConflict, "conflict")
		if hint, _ := object(t, a, http.StatusConflict)["hint"].(string); !strings.Contains(hint, "/_dev/reset") {
			t.Errorf("hint = %q, want reset and restore", hint)
		}
	})
	if got := h.dev.Clock.State(); got.Shows != devBegins || got.Running {
		t.Errorf("after refusals the clock is %+v, want it as before", got)
	}
	moved(t, h, `{"set":"`+dev.ClockMax.Format(time.RFC3339)+`"}`)
	wantParam(t, h.ask(t, "POST", "/_dev/clock", `{"advance":1,"running":true}`), "advance")
}

func TestDevClockDecidesLifetimes(t *testing.T) {
	t.Parallel()
	h := newDevHouse(t)
	p := wantPair(t, h.token(t, h.passwordForm()))
	if !h.accessLives(t, p) {
		t.Fatal("a new token does not work")
	}
	moved(t, h, `{"advance":`+strconv.Itoa(p.ExpiresIn-1)+`}`)
	if !h.accessLives(t, p) {
		t.Error("the token does not work a second before its end")
	}
	moved(t, h, `{"advance":1}`)
	if h.accessLives(t, p) {
		t.Error("the token works after its end")
	}
	moved(t, h, `{"advance":"65000d"}`)
	wantTokenError(t, h.token(t, h.refreshForm(p.RefreshToken)), http.StatusBadRequest, "invalid_grant")
}
func TestDateIsThatOfTheClock(t *testing.T) {
	t.Parallel()
	h := newDevHouse(t)
	for _, path := range []string{"/_dev/clock", "/api/events", "/nowhere", "/healthz"} {
		if got := h.get(t, path).Header.Get("Date"); got != "Mon, 01 Jun 2026 12:00:00 GMT" {
			t.Errorf("Date of %s = %q, want the clock's", path, got)
		}
	}
	if got := h.ask(t, "POST", "/_dev/clock", `{"advance":"1h"}`).Header.Get("Date"); got != "Mon, 01 Jun 2026 13:00:00 GMT" {
		t.Errorf("Date after a move = %q, want the new time", got)
	}
	own := devHouseAt(t, dev.ClockState{Own: true})
	if got := own.get(t, "/nowhere").Header["Date"]; got != nil {
		t.Errorf("Date = %q beside the machine's own clock, want net/http's", got)
	}
	moved(t, own, `{"advance":"1h"}`)
	if own.get(t, "/nowhere").Header["Date"] == nil {
		t.Error("a clock that was moved has no Date")
	}
}

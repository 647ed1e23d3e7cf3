package handlers_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"tollhouse/store/record"
)

// diskFull is what an engine says on a nearly full disk.
type diskFull struct{}

func (diskFull) Error() string { return "/srv/data: only 40 MiB are free on its filesystem" }
func (diskFull) Hint() string  { return "free space there until 96 MiB are free" }
func (diskFull) Unwrap() error { return record.ErrFull }

// On a nearly full disk an operator reads how much is free and what to do. Everybody else
// reads that no change is possible, and nothing about the disk.
func TestAFullDiskIsExplainedToOperators(t *testing.T) {
	h, b := deskHouse(t)
	own := "/desk/users/" + url.PathEscape(h.user.Subject())
	h.Faults.OnUpdate(func(func() error) error { return diskFull{} })
	atDesk := b.sent(t, own, "disable")
	byCommand := h.admin(t, http.MethodPost, "/api/platform/users/"+h.UserID(t, "mara")+"/disable", "")
	byClient := h.token(t, h.passwordForm())
	person := h.browser(t)
	atLogin := person.submit(t, person.get(t, "/login"), rightPassword...)
	for name, a := range map[string]answer{"at the desk": atDesk, "by a command": byCommand, "by a client": byClient, "at the login": atLogin} {
		if a.StatusCode != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %d, Retry-After %q; want 503: %.600s", name, a.StatusCode, a.Header.Get("Retry-After"), a.body)
		}
	}
	for name, a := range map[string]answer{"at the desk": atDesk, "by a command": byCommand} {
		if !strings.Contains(a.body, "only 40 MiB are free") || !strings.Contains(a.body, "ree space there until 96 MiB are free") {
			t.Errorf("%s: %.600s, want what is free and what to do", name, a.body)
		}
	}
	for name, a := range map[string]answer{"by a client": byClient, "at the login": atLogin} {
		if strings.Contains(a.body, "MiB") || strings.Contains(a.body, "busy") || !strings.Contains(a.body, "read-only right now") {
			t.Errorf("%s: %.1500s, want that no change is possible", name, a.body)
		}
	}
}

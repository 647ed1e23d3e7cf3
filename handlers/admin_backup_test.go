package handlers

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"tollhouse/store"
)

// Promise (Backup): scheduled backups survive restarts; the oldest goes when the newest is
// complete; status, metrics and audit show the last
func TestBackedUp(t *testing.T) {
	a := parallelAPI(t)
	report := func(body string) answer {
		return a.admin(http.MethodPost, "/admin/backup", strings.NewReader(body), "Content-Type", "application/json")
	}
	for _, refused := range []string{`{}`, `{"file":"x"}`, `{"created":"2026-03-09T15:30:00Z"}`, `{"file":"` + strings.Repeat("x", 5000) + `","created":"2026-03-09T15:30:00Z"}`} {
		if w := report(refused); w.Code != http.StatusBadRequest {
			t.Errorf("POST /admin/backup %.40s = %d, want 400", refused, w.Code)
		}
	}
	if _, err := a.LastBackup(context.Background()); err == nil {
		t.Error("a refused note is remembered")
	}
	if w := report(`{"file":"/backups/a","created":"2026-03-09T15:30:00Z","bytes":12,"records":3,"scheduled":true}`); w.Code != http.StatusNoContent {
		t.Fatalf("POST /admin/backup = %d %s", w.Code, w.Body)
	}
	made, err := a.LastBackup(context.Background())
	if want := (store.BackupMade{Created: made.Created, File: "/backups/a", Bytes: 12, Records: 3, Scheduled: true}); err != nil || made != want || made.Created.Unix() != 1773070200 {
		t.Errorf("LastBackup() = %+v, %v", made, err)
	}
	if lines := a.admin(http.MethodGet, "/api/platform/audit", nil).Body.String(); !strings.Contains(lines, `"what":"admin","reason":"backup made on schedule",`) {
		t.Errorf("audit = %s", lines)
	}
}

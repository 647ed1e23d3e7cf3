package handlers

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// restored returns a server of a new store that was restored from a backup of a's.
func (a *apiHouse) restored(t *testing.T, file []byte) *apiHouse {
	t.Helper()
	db := storetest.EmptyInMemory()
	b := must.Get(store.OpenBackup(bytes.NewReader(file)))(t)
	must.Get(b.Load(t.Context(), db, a.Now()))(t)
	must.Do(t, store.RecordRestore(t.Context(), db, b.Header, a.Now()))
	return serveAPI(t, storetest.Open(t, db, a.Clock, func(o *store.Options) { o.Key = a.Key }))
}

// What follows a backup may happen again, otherwise, after it is restored: the same number
// of changes, and the same history with other content.
func TestAListFromBeforeARestoreIsNoneAfterIt(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	h.Flush(t.Context())
	var file bytes.Buffer
	must.Get(h.Backup(t.Context(), &file, store.BackupNotes{Version: "test", Key: h.Key.Fingerprint()}))(t)

	const list = "/api/events?limit=50"
	// Each is unlike the ones before, also the second restore of one backup.
	stores := []*apiHouse{h.apiHouse, h.restored(t, file.Bytes()), h.restored(t, file.Bytes())}
	var lists []string
	for i, a := range stores {
		note := fmt.Sprint("history ", i)
		a.importLines(t, "acct_a", fmt.Sprintf(`{"type":"plan.updated","resource":"p1","eventData":{"object":{"note":%q}},"createdAt":%d}`+"\n", note, a.Now().Add(-time.Hour).Unix()))
		page := a.get(list, h.token)
		if !strings.Contains(page.Body.String(), note) {
			t.Fatalf("the list is %d %s, want the event %s", page.Code, page.Body, note)
		}
		for n, tag := range lists {
			if w := a.get(list, h.token, "If-None-Match", tag); w.Code != http.StatusOK {
				t.Errorf("the list of store %d with the ETag %s of store %d = %d, want 200", i, tag, n, w.Code)
			}
		}
		lists = append(lists, page.Header().Get("ETag"))
	}
	for i, a := range stores {
		if w := a.get(list, h.token, "If-None-Match", a.get(list, h.token).Header().Get("ETag")); w.Code != http.StatusNotModified {
			t.Errorf("the list of store %d with its ETag = %d, want 304", i, w.Code)
		}
	}
	must.Get(stores[1].CheckAll(t.Context()))(t)
}

package handlers

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"tollhouse/store/record"
)

// FuzzEventID asks for any id: the answer is exactly that event, or the one 404. As a
// cursor the id is a position, or refused as a cursor.
func FuzzEventID(f *testing.F) {
	for _, seed := range []string{goldenFirst, "ev-foreign_7", zeroPosition, "", "a\x00b", "\xff\xfe", strings.ToUpper(goldenFirst), "evt_8zzzzzzzzzzzzzzzzzzzzzzzzz", "latest", "%2f", ".."} {
		f.Add(seed)
	}
	a, token := newGoldenAPI(f)
	a.importLines(f, goldenAccount, `{"id":"ev-foreign_7","type":"plan.created","resource":"p1","eventData":{"object":{}},"createdAt":1773066601}`)
	known := map[string]bool{goldenFirst: true, goldenSecond: true, goldenThird: true, goldenFourth: true, "ev-foreign_7": true}
	absent := a.get("/api/events/"+zeroPosition, token).Body.String()
	f.Fuzz(func(t *testing.T, id string) {
		if id != "" && !strings.Contains(id, "/") { // those are other paths
			w := a.get("/api/events/"+url.PathEscape(id), token)
			switch {
			case known[id]:
				if e := decodeObject(t, w.Body.Bytes()); w.Code != http.StatusOK || e["id"] != id {
					t.Errorf("GET %q = %d %s", id, w.Code, w.Body)
				}
			case w.Code != http.StatusNotFound || w.Body.String() != absent:
				t.Errorf("GET %q = %d %s, want %s", id, w.Code, w.Body, absent)
			}
		}
		w := a.get("/api/events?after="+url.QueryEscape(id), token)
		if w.Code == http.StatusOK {
			if _, native := record.ParsePosition(id); !native && !known[id] && id != "latest" {
				t.Errorf("%q was taken for a cursor", id)
			}
			return
		}
		if w.Code != http.StatusRequestURITooLong {
			w.fault(t, http.StatusBadRequest, "invalid_cursor", "after")
		}
	})
}

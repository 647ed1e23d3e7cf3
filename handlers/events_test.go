package handlers

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/storetest/must"
)

// The golden examples of the events API: an account with four events.
const (
	goldenAccount = "acct_5hq2m8"
	goldenFirst   = "evt_01kk9g2fnp0008yce2tg57qtan"
	goldenSecond  = "evt_01kk9kgbjj00023m5qehe9m3gk"
	goldenThird   = "evt_01kk9kgbjj000qfaggyf1b9p3e"
	goldenFourth  = "evt_01kkc2f6j70005qrp905tfd8yr"
	zeroPosition  = "evt_00000000000000000000000000"
)

// newGoldenAPI returns the server of the examples, and a token of the account.
func newGoldenAPI(t testing.TB) (*apiHouse, string) {
	t.Helper()
	a := newAPI(t)
	lines := must.Get(os.ReadFile(filepath.Join("testdata", "events", "history.ndjson")))(t)
	a.Clock.Advance(48 * time.Hour)
	a.importLines(t, goldenAccount, string(lines))
	return a, a.token(t, "harriet.voss", goldenAccount, store.ScopeUnstated)
}

// Promise (§6): the golden examples, byte for byte
func TestGoldenExamples(t *testing.T) {
	t.Parallel()
	a, token := newGoldenAPI(t)
	stranger := a.token(t, "stranger", "acct_other", store.ScopeUnstated)
	tests := []struct{ name, target, token string }{
		{"1_retrieve", "/api/events/" + goldenSecond, token},
		{"2_list_of_two_types_newest_first", "/api/events?type[]=customer.created&type[]=customer.updated&limit=1", token},
		{"3_next_page", "/api/events?type%5B0%5D=customer.created&type%5B1%5D=customer.updated&limit=1&after=" + goldenSecond, token},
		{"4_range_oldest_first", "/api/events?createdAt[between]=1773070200..1773153000&order=asc", token},
		{"5_account_updater", "/api/events?type=account.autoupdate&createdAt[gte]=1773100000", token},
		{"6_milliseconds_by_mistake", "/api/events?createdAt[gte]=1773070200000", token},
		{"7_reversed_range", "/api/events?createdAt[between]=1773153000..1773070200", token},
		{"8_unknown_parameter", "/api/events?types[]=customer.created", token},
		{"9_another_owners_id", "/api/events/" + goldenFirst, stranger},
	}
	for _, tt := range tests {
		t.Run("example_"+tt.name, func(t *testing.T) {
			t.Parallel()
			golden(t, "events/"+tt.name+".http", shown(a.get(tt.target, tt.token)))
		})
	}
	t.Run("example_1_has_695_bytes", func(t *testing.T) {
		t.Parallel()
		if n := a.get("/api/events/"+goldenSecond, token).Body.Len(); n != 695 {
			t.Errorf("the event has %d bytes, want 695", n)
		}
	})
}

// shown formats an answer for the golden files, without the request id, which differs each
// time.
func shown(w answer) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d\n", w.Code)
	var names []string
	for name := range w.Header() {
		if name != "X-Request-Id" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		for _, value := range w.Header()[name] {
			fmt.Fprintf(&b, "%s: %s\n", name, value)
		}
	}
	return b.String() + "\n" + w.Body.String()
}

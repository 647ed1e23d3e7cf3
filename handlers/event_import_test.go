package handlers

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"tollhouse/store"
	"tollhouse/store/record"
)

// What an interrupted import has committed stays, and the same file continues after it.
//
// Promise (§3.3): file order is kept; a line more than 5 s ahead or below the horizon is refused;
// committed lines stay; a second run resumes a broken one
func TestImportGoesOnWhereItBroke(t *testing.T) {
	a := parallelAPI(t)
	const lines = 700 // several batches
	var file strings.Builder
	for i := range lines {
		fmt.Fprintln(&file, line(fmt.Sprintf(`,"source":"%d"`, i)))
	}
	cut := file.Len() * 6 / 7
	broken := a.importFrom(io.MultiReader(strings.NewReader(file.String()[:cut]), brokenReader{}), "").lastLine(t)
	stayed := len(a.events(t))
	if broken["error"] != "incomplete_upload" || stayed < lines/2 || stayed > lines*6/7 {
		t.Fatalf("the broken run ends with %v and %d events", broken, stayed)
	}
	s := a.importFrom(strings.NewReader(file.String()), "").lastLine(t)
	if s["unchanged"] != float64(stayed) || s["recorded"] != float64(lines-stayed) {
		t.Errorf("the second run counts %v, want %d unchanged and the rest recorded", s, stayed)
	}
	for i, e := range a.events(t) {
		if e.Source != fmt.Sprint(i) {
			t.Fatalf("event %d is line %s", i, e.Source)
		}
	}
}

// An import leaves an audit line only if it recorded something.
func TestImportIsAuditedIfItRecords(t *testing.T) {
	a := parallelAPI(t)
	for _, c := range []struct {
		name, body, query string
		want              int
	}{
		{"every_line_refused", "{}\n", "&on-error=skip", 0},
		{"dry_run", line("") + "\n", "&dry-run=true", 0},
		{"recorded", "{}\n" + line(`,"id":"first"`) + "\n", "&on-error=skip", 1},
		{"known_already", line(`,"id":"first"`) + "\n", "", 1},
	} {
		a.importFrom(strings.NewReader(c.body), c.query)
		lines, err := a.ListAudit(t.Context(), record.Position{}, 10)
		if err != nil || len(lines) != c.want || c.want > 0 && lines[0].Reason != "events imported" {
			t.Errorf("%s: audit = %+v, %v, want %d lines", c.name, lines, err, c.want)
		}
	}
}

// A mirror that reads a range again receives events imported into it.
//
// Promise (§3.3): events above the head are live; those below are backfill, a range in streams and
// not sent
func TestBackfillCanBeReadAgain(t *testing.T) {
	t.Parallel()
	l := newLive(t)
	l.importLines(t, "acct_a", line(`,"id":"head"`))
	token := l.token(t, "bob", "acct_a", store.ScopeUnstated)
	s := l.open(t, "", token)
	s.ready(t)
	l.importLines(t, "acct_a", strings.ReplaceAll(line(`,"id":"old"`), "1773000000", "1000000000")+"\n"+strings.ReplaceAll(line(`,"id":"older"`), "1773000000", "999999999"))
	f := s.next(t)
	span := decodeObject(t, []byte(f.data))
	first, last := span["first"].(string), span["last"].(string)
	behind := l.get("/api/events?order=asc&limit=1&after="+first, token).page(t)
	if f.event != "backfill" || f.id != "" || behind.Next != last {
		t.Errorf("frame = %+v, want the stretch from the older to %s", f, behind.Next)
	}
	if got := l.get("/api/events?order=asc&before="+behind.Next, token).page(t).ids(); len(got) != 1 || got[0] != "older" {
		t.Errorf("the stretch begins with %q, want the older one", got)
	}
}

// An import above the head is new, and streams send it; what it fills in below is not.
//
// Promise (§3.3): events above the head are live; those below are backfill, a range in streams and
// not sent
func TestImportAboveTheHeadIsLive(t *testing.T) {
	t.Parallel()
	l := newLive(t)
	l.importLines(t, "acct_a", line(`,"id":"there"`))
	token := l.token(t, "bob", "acct_a", store.ScopeUnstated)
	s := l.open(t, "", token)
	s.ready(t)
	l.importLines(t, "acct_a", `{"type":"plan.updated","resource":"p1","id":"next","eventData":{"object":{}},"createdAt":1773000007}`)
	f := s.next(t)
	if place := l.get("/api/events?limit=1", token).page(t).Next; f.id != place || f.data != l.get("/api/events/next", token).Body.String() {
		t.Errorf("a_line_above_the_head_is_sent: frame = %+v, want the imported event at %s", f, place)
	}
}

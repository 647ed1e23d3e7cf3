package views

import (
	"strings"
	"testing"
	"time"

	"tollhouse/store/storetest/must"
)

// TestClocksAndShortTimes: what happened has a clock, what lasts a date with its hour, and a
// last use short relative words. None of them wraps, and the exact time is in the title.
func TestClocksAndShortTimes(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 9, 14, 22, 8, 0, time.UTC)
	for _, c := range []struct {
		age  time.Duration
		form momentForm
		want string
	}{
		{10 * time.Second, clock, "14:21:58"}, {14*time.Hour + 23*time.Minute, clock, "8 Mar 23:59"}, {100 * day, clock, "29 Nov 2025 14:22"},
		{12 * day, dated, "25 Feb 14:22"}, {time.Second, dated, "9 Mar 14:22"},
		{-time.Hour, relative, "just now"}, {4 * time.Second, relative, "just now"}, {40 * time.Second, relative, "40 s ago"},
		{3 * time.Minute, relative, "3 min ago"}, {71 * time.Minute, relative, "1 h ago"}, {47 * time.Hour, relative, "47 h ago"},
		{12 * day, relative, "12 d ago"}, {94 * day, relative, "3 months ago"}, {800 * day, relative, "2 years ago"},
		{-11 * time.Hour, ending, "in 11 h"}, {time.Hour, ending, "1 h ago"}, {-38 * time.Second, next, "in 38 s"}, {time.Second, next, "now"},
	} {
		m := Moment{At: now.Add(-c.age), Now: now}.as(c.form)
		if got := m.words(); got != c.want {
			t.Errorf("%v before 14:22:08 is %q in form %d, want %q", c.age, got, c.form, c.want)
		}
		var b strings.Builder
		must.Do(t, moment(m).Render(t.Context(), &b))
		if exact := strings.Contains(b.String(), `title="`+m.exact()+`"`); exact == (c.form == dated) {
			t.Errorf("%s: has the exact time as its title: %t", b.String(), exact)
		}
	}
}

// TestCurlBreaksBeforeItsFlags: a request breaks before each flag that has a value and before
// each pipe, and never within a quoted value. The flags of what is behind a pipe stay there.
func TestCurlBreaksBeforeItsFlags(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"curl -sS -i https://a.example":                                                                                          "curl -sS -i https://a.example",
		"curl -sS -X POST https://a.example -d a=b -d 'c -d d'":                                                                  "curl -sS \\\n  -X POST https://a.example \\\n  -d a=b \\\n  -d 'c -d d'",
		`curl 'https://a.example?x= -H y' -H "Authorization: Bearer $TOKEN"`:                                                     "curl 'https://a.example?x= -H y' \\\n  -H \"Authorization: Bearer $TOKEN\"",
		`curl https://a.example -d 'it'\''s -d here' -d b`:                                                                       "curl https://a.example \\\n  -d 'it'\\''s -d here' \\\n  -d b",
		"curl -G https://a.example --data-urlencode q=1":                                                                         "curl -G https://a.example \\\n  --data-urlencode q=1",
		"hidden=$(curl -sS https://a.example -c jar | grep -o 'a | b' | cut -d '\"' -f 4)\ncurl https://a.example -d 'a\n -d b'": "hidden=$(curl -sS https://a.example \\\n  -c jar \\\n  | grep -o 'a | b' \\\n  | cut -d '\"' -f 4)\ncurl https://a.example \\\n  -d 'a\n -d b'",
		"tollhouse client delete --data /var/lib/tollhouse tollhouse_dcovfc7q":                                                   "tollhouse client delete \\\n  --data /var/lib/tollhouse tollhouse_dcovfc7q",
		"tollhouse client delete --data /d -- --yes":                                                                             "tollhouse client delete \\\n  --data /d -- --yes",
		"": "",
	} {
		if got := broken(command); got != want {
			t.Errorf("broken(%q) = %q, want %q", command, got, want)
		}
	}
}

// TestStripPutsTheNewestAtTheRight: fewer deliveries than there is room for stand at the
// right, what failed begins higher, and neighbours of one state are one line.
func TestStripPutsTheNewestAtTheRight(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	must.Do(t, strip([]string{"delivered", "delivered", "dead", "delivered"}, 5, "Last deliveries").Render(t.Context(), &b))
	for _, want := range []string{`viewBox="0 0 10 24"`, `class="series-1" d="M2 22h4M8 22h2"`, `class="series-5" d="M6 12h2"`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the strip lacks %s: %s", want, b.String())
		}
	}
	if n := strings.Count(b.String(), "<path"); n != 2 {
		t.Errorf("%d paths, want one for each state that occurs", n)
	}
}

// TestFiltersOpenWhereSomethingIsSet: the further fields stand open if one of them narrows the
// list, and the way back is there if any does.
func TestFiltersOpenWhereSomethingIsSet(t *testing.T) {
	t.Parallel()
	order := deskField{As: "select", Name: "order", Options: []deskOption{{Value: "desc"}, {Value: "asc"}}}
	set := order
	set.Options = []deskOption{{Value: "desc"}, {Value: "asc", Chosen: true}}
	for _, c := range []struct {
		name        string
		f           filter
		open, clear bool
	}{
		{"nothing", filter{First: []deskField{{Name: "type"}}, More: []deskField{order}}, false, false},
		{"a hidden field is none", filter{First: []deskField{{As: "hidden", Name: "form", Value: "1"}}, More: []deskField{order}}, false, false},
		{"a first field", filter{First: []deskField{{Name: "type", Value: "x"}}, More: []deskField{order}}, false, true},
		{"a further field", filter{First: []deskField{{Name: "type"}}, More: []deskField{set}}, true, true},
	} {
		c.f.Clear = "/desk/events"
		var b strings.Builder
		must.Do(t, c.f.draw(Page{}).Render(t.Context(), &b))
		if open, clear := strings.Contains(b.String(), "<details class=\"more\" open>"), strings.Contains(b.String(), ">Clear filters<"); open != c.open || clear != c.clear {
			t.Errorf("%s set: open %t, a way back %t; want %t, %t", c.name, open, clear, c.open, c.clear)
		}
	}
}

// TestWordsOfNothingAndOfOne: a price of nothing does not count to zero, and one event that waits
// is not several.
func TestWordsOfNothingAndOfOne(t *testing.T) {
	t.Parallel()
	leaked := strings.Join(ClientSecretRotated{Name: "Larkspur", Secrets: 1, Revoked: true}.words().text, " ")
	if want := "The current secret stops working now. No authorization is live now."; leaked != want {
		t.Errorf("a leak without tokens costs %q, want %q", leaked, want)
	}
	for waiting, want := range map[Waiting]string{
		{}: "up to date", {Events: 1}: "1 waits", {Events: 2}: "2 wait", {More: true}: "an unknown number wait", {Events: 2, More: true}: "more than 2 wait",
	} {
		if got := (ListedWebhook{Waiting: waiting}).backlog(); got != want {
			t.Errorf("a backlog of %+v: %q, want %q", waiting, got, want)
		}
	}
	for events, want := range map[int]string{1: "One event blocks the endpoint.", 2: "One event blocks another.", 3: "One event blocks 2 others."} {
		p := WebhookProps{Blocked: &Blocked{}}
		p.Webhook.Waiting.Events = events
		if got := p.blocking().What; got != want {
			t.Errorf("with %d events: %q, want %q", events, got, want)
		}
	}
}

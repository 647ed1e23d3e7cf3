package eventlog

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"tollhouse/store/record"
	"tollhouse/store/storetest/must"
)

// TestAnAccountWithTooManyTypes lists types and wildcards in an account with more types
// than one page reads: the rows read for a page are bounded, and its cursors lead to
// every matching event.
func TestAnAccountWithTooManyTypes(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	const kinds = KnownTypesMax + 100
	events := 2*SearchedMax + 500
	if testing.Short() {
		events = SearchedMax + 500 // two pages in place of three
	}
	s := openTest(t)
	begin := ImportEvery(t, s, events, 1, func(i int) string {
		if i == 77 {
			return "plan.created"
		}
		return fmt.Sprintf("kind_%d.updated", i%kinds)
	})
	counted := &scansDB{DB: s.db}
	s.db = counted
	for _, c := range []struct {
		name     string
		filter   Filter
		want     int
		searched bool
		rowsMax  int // read for one page
	}{
		{"five_names", Filter{Types: strings.Split("kind_1.updated kind_2.updated kind_3.updated kind_4.updated plan.created", " ")}, 4*(events/kinds) + 4 + 1, false, KnownTypesMax + 1 + 5*11},
		{"a_kind", Filter{Types: []string{"plan.*"}}, 1, true, KnownTypesMax + 1 + SearchedMax},
		{"an_action", Filter{Types: []string{"*.created"}}, 1, true, KnownTypesMax + 1 + SearchedMax},
		{"of_nothing", Filter{Types: []string{"*.closed"}}, 0, true, KnownTypesMax + 1 + SearchedMax},
		{"a_kind_of_a_resource", Filter{Types: []string{"plan.*"}, Resources: []string{"r0", "r1", "r2"}}, 1, true, KnownTypesMax + 1 + SearchedMax + 3},
		{"a_kind_and_a_name", Filter{Types: []string{"plan.*", "kind_7.updated"}, From: begin}, events/kinds + 1 + 1, true, KnownTypesMax + 1 + SearchedMax},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, ascending := range []bool{false, true} {
				f := c.filter
				f.To, f.Limit, f.Ascending = CreatedAtMax, 10, ascending
				found := 0
				for pages := 0; ; pages++ {
					counted.rows = 0
					page, err := s.ListEvents(context.Background(), "a", f, nil)
					if err != nil || pages > 20 {
						t.Fatalf("page %d: %v", pages, err)
					}
					if counted.rows > c.rowsMax || page.Searched != c.searched {
						t.Errorf("page %d read %d rows, searched %v; want %d at most, searched %v", pages, counted.rows, page.Searched, c.rowsMax, c.searched)
					}
					found += page.Count
					f.After = CursorAt(page.Next)
					if !page.More {
						break
					}
				}
				if found != c.want {
					t.Errorf("ascending %v: %d events, want %d", ascending, found, c.want)
				}
			}
		})
	}
}

// TestSearchedBytes: a page that needs a search ends early among large events, and so does Follow,
// which may run in the committer's turn.
func TestSearchedBytes(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	const events, kinds, noteSize = 2_000, KnownTypesMax + 100, 20 << 10
	s := openTest(t)
	im := must.Get(s.NewImporter("a", ImportOptions{}))(t)
	note := strings.Repeat("x", noteSize)
	for i := range events {
		line := fmt.Sprintf(`{"type":"kind_%d.updated","resource":"r","eventData":{"object":{"note":%q}},"createdAt":%d}`, i%kinds, note, s.now().Unix()-events+int64(i))
		if refused, err := im.Add(context.Background(), []byte(line), 0); err != nil || len(refused) > 0 {
			t.Fatal(refused, err)
		}
	}
	if refused, err := im.Flush(context.Background()); err != nil || len(refused) > 0 {
		t.Fatal(refused, err)
	}
	counted := &scansDB{DB: s.db}
	s.db = counted
	for _, resources := range [][]string{nil, {"r"}} {
		f := Filter{Types: []string{"*.closed"}, Resources: resources, To: CreatedAtMax, Limit: 10}
		counted.rows = 0
		page, err := s.ListEvents(context.Background(), "a", f, nil)
		if most := KnownTypesMax + 1 + searchedBytesMax/noteSize + 2; err != nil || !page.More || counted.rows > most {
			t.Errorf("resources %v: read %d rows, more %v, %v; want %d at most and more", resources, counted.rows, page.More, err, most)
		}
	}
	counted.rows = 0
	followed, err := s.Follow(context.Background(), "a", []string{"*.closed"}, record.Position{}, 10)
	if most := searchedBytesMax/noteSize + 3; err != nil || !followed.More || counted.rows > most {
		t.Errorf("a follower: read %d rows, more %v, %v; want %d at most and more", counted.rows, followed.More, err, most)
	}
}

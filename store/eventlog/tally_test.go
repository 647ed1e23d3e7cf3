package eventlog

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestTally: with more kinds than it lists, a Tally still has the right total, and what
// was added can be taken away in any order.
func TestTally(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var tally Tally
		want := map[string]uint64{}
		total := uint64(0)
		kinds := rapid.SampledFrom([]int{5, tallyKindsMax, tallyKindsMax + 1, 3 * tallyKindsMax}).Draw(t, "kinds")
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			first, n := rapid.IntRange(0, kinds-1).Draw(t, "first"), rapid.IntRange(1, kinds).Draw(t, "number")
			taken := rapid.Bool().Draw(t, "taken")
			for i := range n {
				kind := fmt.Sprint("kind_", (first+i)%kinds)
				if !taken {
					tally, want[kind], total = tally.with(kind, 2), want[kind]+2, total+2
					continue
				}
				have := min(want[kind], 3)
				is, enough := tally.without(kind, have)
				if !enough {
					t.Fatalf("%d of %q could not be taken from %v", have, kind, tally)
				}
				tally, want[kind], total = is, want[kind]-have, total-have
			}
			stored, err := decodeTally(encodeTally(tally))
			if err != nil || !slices.Equal(stored, tally) || tally.Total() != total || len(tally) > tallyKindsMax+1 {
				t.Fatalf("%v has %d events, want %d, and comes back as %v, %v", tally, tally.Total(), total, stored, err)
			}
			for _, c := range tally {
				if c.Kind != OtherKinds && (c.Count > want[c.Kind] || tally.others() == 0 && c.Count != want[c.Kind]) {
					t.Fatalf("%d events of %s, want %d; %d are of others", c.Count, c.Kind, want[c.Kind], tally.others())
				}
			}
		}
	})
	if _, enough := (Tally{{"a", 2}}).without("a", 3); enough {
		t.Error("three of two events could be taken away")
	}
	for name, bad := range map[string]Tally{"out_of_order": {{"b", 1}, {"a", 1}}, "twice": {{"a", 1}, {"a", 1}}, "none": {{"a", 0}}} {
		if got, err := decodeTally(encodeTally(bad)); err == nil {
			t.Errorf("%s: %v was decoded", name, got)
		}
	}
}

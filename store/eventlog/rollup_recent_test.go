package eventlog

import (
	"fmt"
	"testing"
)

// TestRecentCountsAreBounded: a slot with too many accounts is unknown, not too low.
func TestRecentCountsAreBounded(t *testing.T) {
	t.Parallel()
	const slot = 1000 * slotsOfHour
	var ru rollup
	ru.init(0)
	ru.recent.begin(1000)
	ru.recent.add("acct_early", slot+1, Tally{{"plan", 2}})
	for i := range recentMax/tallyKindsMax + 1 {
		kinds := make(Tally, tallyKindsMax)
		for k := range kinds {
			kinds[k] = KindCount{fmt.Sprintf("kind_%03d", k), 1}
		}
		ru.recent.add(fmt.Sprint("acct_", i), slot, kinds)
	}
	units := ru.recentUnits(allAccounts, slot, slot+2)
	if len(units) != 2 || !units[0].Unknown || units[1].Unknown || units[1].Tally.Total() != 2 || ru.recent.size != 2 {
		t.Errorf("%d tallies, units %+v; want the crowded slot unknown, and the other one kept", ru.recent.size, units)
	}
	if ru.recent.advance(1002); len(ru.recent.slots)+len(ru.recent.lost)+ru.recent.size != 0 {
		t.Errorf("%d slots, %d lost and %d tallies are left of hours that have passed", len(ru.recent.slots), len(ru.recent.lost), ru.recent.size)
	}
	if ru.recent.advance(1001) {
		t.Error("an hour that has been dropped counts as recent")
	}
}

package storetest_test

import (
	"math"
	"testing"
	"time"

	"tollhouse/store/storetest"
)

func TestPairsDiffer(t *testing.T) {
	t.Parallel()
	times := func(of ...time.Duration) []time.Duration { return of }
	for _, c := range []struct {
		name               string
		pairs              storetest.Pairs
		wantPercent, wantT float64
	}{
		{"alike", storetest.Pairs{A: times(1, 2, 3, 4), B: times(1, 2, 3, 4)}, 0, 0},
		// Means 20 and 22, variances 2.5 and 2.5 over five samples each.
		{"apart", storetest.Pairs{A: times(18, 19, 20, 21, 22), B: times(20, 21, 22, 23, 24)}, 10, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			percent, welch := c.pairs.Differ()
			if math.Abs(percent-c.wantPercent) > 1e-9 || math.Abs(welch-c.wantT) > 1e-9 {
				t.Errorf("Differ() = %v %%, t %v; want %v %%, %v", percent, welch, c.wantPercent, c.wantT)
			}
		})
	}
}

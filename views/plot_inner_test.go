package views

import (
	"strings"
	"testing"
	"time"
)

func TestDrawPlotOfLines(t *testing.T) {
	t.Parallel()
	known, gap := Value{Known: true, Number: 1 << 30}, Value{}
	for _, c := range []struct {
		name        string
		values      []Value
		lines, dots int
	}{
		{"a_single_value_is_a_dot", []Value{gap, known, gap, gap}, 0, 1},
		{"a_last_value_alone_is_a_dot", []Value{gap, gap, gap, known}, 0, 1},
		{"values_beside_one_another_are_a_line", []Value{gap, known, known, known}, 2, 0},
		{"a_gap_parts_a_line_from_a_dot", []Value{known, known, gap, known}, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			starts := make([]time.Time, len(c.values))
			for i := range starts {
				starts[i] = time.Unix(int64(i)*3600, 0)
			}
			drawn := drawPlot(Plots{Range: "24h", Starts: starts, End: time.Unix(4*3600, 0)},
				PlotData{Name: plotStore, Series: []Series{{Name: "store", Unit: unitBytes, Values: c.values}}}, "")
			d := drawn.Paths[0].D
			if lines, dots := strings.Count(d, "L"), strings.Count(d, dot); lines != c.lines || dots != c.dots {
				t.Errorf("%s has %d lines and %d dots, want %d and %d", d, lines, dots, c.lines, c.dots)
			}
		})
	}
}

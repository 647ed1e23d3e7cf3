package handlers

import (
	"strings"
	"testing"
	"time"

	"tollhouse/store/stats"
)

// DeskRoutes returns the methods and templates of the desk's routes.
func (s *Server) DeskRoutes() (routes [][2]string) {
	for _, r := range s.desk.routes {
		routes = append(routes, [2]string{r.method, r.template})
	}
	return routes
}

// RefusedQueries returns the queries that the list of events refuses. One names an
// account, which the desk takes.
func RefusedQueries() (queries []string) {
	for _, q := range refusedQueries {
		if q.param != "account" {
			queries = append(queries, q.query)
		}
	}
	return queries
}

func TestDrawPlotOfLines(t *testing.T) {
	t.Parallel()
	known, gap := stats.Value{Known: true, Number: 1 << 30}, stats.Value{}
	for _, c := range []struct {
		name        string
		values      []stats.Value
		lines, dots int
	}{
		{"a_single_value_is_a_dot", []stats.Value{gap, known, gap, gap}, 0, 1},
		{"a_last_value_alone_is_a_dot", []stats.Value{gap, gap, gap, known}, 0, 1},
		{"values_beside_one_another_are_a_line", []stats.Value{gap, known, known, known}, 2, 0},
		{"a_gap_parts_a_line_from_a_dot", []stats.Value{known, known, gap, known}, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			starts := make([]time.Time, len(c.values))
			for i := range starts {
				starts[i] = time.Unix(int64(i)*3600, 0)
			}
			drawn := drawPlot(stats.Plots{Range: stats.Range{Name: "24h", Starts: starts, End: time.Unix(4*3600, 0)}},
				stats.Plot{Name: stats.PlotStore, Series: []stats.Series{{Name: "store", Unit: stats.UnitBytes, Values: c.values}}})
			d := drawn.Paths[0].D
			if lines, dots := strings.Count(d, "L"), strings.Count(d, dot); lines != c.lines || dots != c.dots {
				t.Errorf("%s has %d lines and %d dots, want %d and %d", d, lines, dots, c.lines, c.dots)
			}
		})
	}
}

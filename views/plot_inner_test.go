package views

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// drawnOf draws the values of a plot, from midnight on, an hour each.
func drawnOf(plot string, missed []Span, series ...Series) drawing {
	day := time.Date(2026, 3, 9, 0, 0, 0, 0, time.UTC)
	plots := Plots{Range: "24h", Missed: missed, Plots: []PlotData{{Name: plot, Series: series}}}
	for i := range series[0].Values {
		plots.Starts = append(plots.Starts, day.Add(time.Duration(i)*time.Hour))
	}
	plots.End = plots.Starts[len(plots.Starts)-1].Add(time.Hour)
	plots.Now = plots.End.Add(-time.Minute)
	return drawPlot(plots, plots, plot, "")
}

func known(numbers ...float64) (values []Value) {
	for _, n := range numbers {
		values = append(values, Value{true, n})
	}
	return values
}

func (p drawnPart) pathOf(class string) string {
	for _, path := range p.Paths {
		if path.Class == class {
			return path.D
		}
	}
	return ""
}

func TestDrawPlotOfLines(t *testing.T) {
	t.Parallel()
	known, gap := Value{Known: true, Number: 1 << 30}, Value{}
	for _, c := range []struct {
		name   string
		values []Value
		want   string
	}{
		{"a_single_value_is_as_wide_as_its_bucket", []Value{gap, known, gap, gap}, "m2 0l2 0"},
		{"a_last_value_alone_is_too", []Value{gap, gap, gap, known}, "m6 0l2 0"},
		{"values_beside_one_another_are_a_line", []Value{gap, known, known, known}, "m3 0l2 0l2 0"},
		{"a_gap_parts_a_line_from_a_value", []Value{known, known, gap, known}, "m1 0l2 0m3 0l2 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := drawnOf(plotStore, nil, Series{Name: "store", Unit: unitBytes, Values: c.values}).Parts[0].pathOf("line series-1"); got != c.want {
				t.Errorf("the path is %s, want %s", got, c.want)
			}
		})
	}
}

// TestDrawPlotOfBars: layers stand on one another with a gap, the smallest is seen, the range
// before is a line over them, and a pointer reads each bucket.
//
// Promise (Browsers): a plot has three lines of a grid at most, one axis a unit, and the range before
func TestDrawPlotOfBars(t *testing.T) {
	t.Parallel()
	drawn := drawnOf(plotEvents, nil, Series{Name: "transaction", Values: known(100, 0, 1), Total: 101}, Series{Name: "deposit", Values: known(100, 0, 0), Total: 100})
	p := drawn.Parts[0]
	for class, want := range map[string]string{
		"series-1": "m1 200v-99m4 99v-2", "series-6": "m1 100v-99", "grid": "M0 200h6M0 100h6M0 0h6", "before": "M0 0h2V200h2V199h2", "veil": "M4 0h2v200h-2z", "down": "",
	} {
		if got := p.pathOf(class); got != want {
			t.Errorf("%s is %q, want %q", class, got, want)
		}
	}
	if want := []string{"9 Mar 00:00 200, was 200", "01:00 0, was 0", "02:00 1, was 1"}; !slices.Equal(p.Hits, want) {
		t.Errorf("a pointer reads %q, want %q", p.Hits, want)
	}
	if got := p.Description; got != "201 in all; most, 200, at 9 March 00:00." {
		t.Errorf("a reader hears %q", got)
	}
	if got := drawnOf(plotSignIns, nil, Series{Name: "right", Values: known(1)}); got.Parts[0].pathOf("before") != "" || got.Parts[0].Hits != nil {
		t.Errorf("a small plot has more than its layers: %+v", got.Parts[0])
	}
}

// TestGridSteps: the grid has three lines at most, at round values that reach the greatest;
// counts are whole.
func TestGridSteps(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{unitCount, unitSeconds, unitBytes} {
		for most := 1e-5; most < 1e13; most *= 1.07 {
			n := most
			if unit == unitCount {
				n = math.Ceil(most)
			}
			step := gridStep(n, unit)
			if lines := math.Ceil(n/step - rounding); lines > 2 || lines < 1 || unit == unitCount && step != math.Trunc(step) {
				t.Fatalf("%g of %q in steps of %g", n, unit, step)
			}
		}
	}
	for _, c := range []struct {
		series Series
		most   float64
		want   string
	}{
		{Series{}, 0, "0 1"}, {Series{}, 1, "0 1"}, {Series{}, 3, "0 2 4"}, {Series{}, 119, "0 60 120"}, {Series{}, 4818, "0 2\u202f500 5\u202f000"}, {Series{}, 2.9e6, "0 1.5 M 3 M"},
		{Series{Unit: unitSeconds}, 0.028, "0 15 ms 30 ms"}, {Series{Unit: unitSeconds}, 2.1, "0 1.5 s 3 s"}, {Series{Unit: unitSeconds}, 0.00027, "0 0.15 ms 0.3 ms"},
		{Series{Unit: unitBytes}, 0, "0 512 KiB"}, {Series{Unit: unitBytes}, 441e6, "0 256 MiB 512 MiB"}, {Series{Unit: unitBytes}, 69.7e9, "0 48 GiB 96 GiB"},
	} {
		var got []string
		for _, w := range drawnOf(plotStore, nil, Series{Name: "store", Unit: c.series.Unit, Values: known(c.most)}).Parts[0].Words {
			if w.Class == "end" {
				got = append(got, w.Text)
			}
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%g of %q is marked %s, want %s", c.most, c.series.Unit, text, c.want)
		}
	}
}

// TestMissedTimesAreNamed: a time without a server is a band with its hours, in the drawing and
// for who hears it, and no count.
//
// Promise (Browsers): the Overview says what just happened, and when no server counted
func TestMissedTimesAreNamed(t *testing.T) {
	t.Parallel()
	day := time.Date(2026, 3, 9, 0, 0, 0, 0, time.UTC)
	values := known(make([]float64, 24)...)
	values[0].Number, values[20].Number = 1, 1
	p := drawnOf(plotEvents, []Span{{day.Add(10 * time.Hour), day.Add(12 * time.Hour)}, {day.Add(13 * time.Hour), day.Add(14 * time.Hour)}}, Series{Name: "invoice", Values: values, Total: 2}).Parts[0]
	if got := p.pathOf("down"); got != "M20 0h4v200h-4zM26 0h2v200h-2z" {
		t.Errorf("the bands are %q", got)
	}
	if want := (drawnWord{"mid", "45.8%", "6%", "down 10:00–12:00"}); !slices.Contains(p.Words, want) || slices.ContainsFunc(p.Words, func(w drawnWord) bool { return w.Text == "down 13:00–14:00" }) {
		t.Errorf("the words are %v, want %v and none over it", p.Words, want)
	}
	if !strings.HasSuffix(p.Description, "Down 10:00–12:00. Down 13:00–14:00.") {
		t.Errorf("a reader hears %q", p.Description)
	}
	if got := fmt.Sprint(p.Hits[10], p.Hits[12]); got != "10:00 –, was 0"+"12:00 0, was 0" {
		t.Errorf("a pointer reads %q", got)
	}
	// Before the first start nothing was down, and imported events have their times.
	for name, isSaid := range map[string]bool{plotEvents: false, plotTokens: true} {
		p := drawnOf(name, []Span{{day, day.Add(10 * time.Hour)}}, Series{Name: "invoice", Values: values, Total: 2}).Parts[0]
		isWord := slices.ContainsFunc(p.Words, func(w drawnWord) bool { return w.Text == "not counted before 10:00" })
		if p.pathOf("down") != "" || strings.HasSuffix(p.Description, "Not counted before 10:00.") != isSaid || isWord != isSaid {
			t.Errorf("%s before the first start: bands %q, words %v, a reader hears %q", name, p.pathOf("down"), p.Words, p.Description)
		}
	}
	for want, values := range map[bool][]Value{true: make([]Value, 24), false: values} {
		p := drawnOf(plotStore, nil, Series{Name: "store", Unit: unitBytes, Values: values}).Parts[0]
		if got := slices.ContainsFunc(p.Words, func(w drawnWord) bool { return w.Text == "nothing measured" }); got != want {
			t.Errorf("a plot without a value says %v", p.Words)
		}
	}
	month := time.Date(2026, 2, 8, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		of       string
		from, to time.Time
		want     string
	}{
		{"1h", day, day.Add(4 * time.Minute), "down 00:00–00:04"}, {"24h", day.Add(23 * time.Hour), day.Add(25 * time.Hour), "down 9 Mar 23:00–10 Mar 01:00"},
		{"24h", day.Add(22 * time.Hour), day.Add(24 * time.Hour), "down 22:00–00:00"}, {"7d", day, day.Add(6 * time.Hour), "down 9 Mar 00:00–06:00"},
		{"30d", day, day.AddDate(0, 0, 1), "down 9 Mar"}, {"30d", day, day.AddDate(0, 0, 3), "down 9 Mar–11 Mar"}, {"30d", month, day, "not counted before 9 Mar"},
		{"24h", month, day, "not counted before 00:00"}, {"1y", day.AddDate(0, 0, -8), day.AddDate(0, 0, 23), "down Mar 2026"},
	} {
		got := Plots{Range: c.of, Starts: []time.Time{month}}.missedWords(Span{c.from, c.to})
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.of, got, c.want)
		}
	}
}

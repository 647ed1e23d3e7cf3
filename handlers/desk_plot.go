package handlers

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"tollhouse/store/stats"
	"tollhouse/views"
)

// plotWords are the titles of plots and series, and the colour of each series.
var plotWords = map[string]string{stats.PlotEvents: "Events", stats.PlotSignIns: "Sign-ins", stats.PlotTokens: "Tokens issued", stats.PlotRequests: "Requests", stats.PlotStore: "Store and disk"}

var seriesWords = map[string]struct {
	words  string
	colour int
}{
	"right": {"Right", 1}, "throttled": {"Slowed down", 5}, "refused": {"Refused", 3},
	"refresh_token": {"Refresh", 1}, "authorization_code": {"Authorization code", 2}, "password": {"Password", 3},
	"client_credentials": {"Client credentials", 4},
	"2xx":                {"Answered", 1}, "4xx": {"Refused (4xx)", 3}, "5xx": {"Failed (5xx)", 5}, "p50": {"Half within", 1}, "p95": {"95 % within", 3},
	"store": {"Store", 1}, "free": {"Free on the disk", 4},
}

// The geometry of a plot, in units of its viewBox.
const (
	plotWide    = 900.0 // of the plot that has a row of its own
	plotNarrow  = 440.0
	plotLeft    = 64.0
	plotTop     = 12.0  // above the first tick
	plotHigh    = 180.0 // of the bars
	linesHigh   = 90.0  // of each block of lines
	plotGap     = 30.0
	labelHeight = 24.0
)

// drawPlot computes what a plot shows.
func drawPlot(plots stats.Plots, plot stats.Plot) views.PlotProps {
	r := plots.Range
	p := views.PlotProps{Name: plot.Name, Title: plotWords[plot.Name], Range: r.Name, From: r.From().Unix(), To: r.End.Unix(), Behind: plots.Behind, Width: plotNarrow, Left: plotLeft}
	if plot.Name == stats.PlotEvents {
		p.Width = plotWide
	}
	d := &plotDrawing{PlotProps: &p, starts: r.Starts, range_: r.Name, top: plotTop}
	var bars []stats.Series
	lines := map[stats.Unit][]stats.Series{}
	var units []string                                                                                      // blocks of lines, in order
	if _, known := last(seriesOf(plots, stats.PlotStore, "free")); plot.Name == stats.PlotStore && !known { // in memory
		plot.Series = plot.Series[:1]
	}
	for _, s := range plot.Series {
		d.series = append(d.series, s)
		switch {
		case s.Unit == stats.UnitCount:
			bars = append(bars, s)
		case plot.Name == stats.PlotStore: // each has its own scale
			lines[stats.Unit(s.Name)] = []stats.Series{s}
			units = append(units, s.Name)
		default:
			if lines[s.Unit] == nil {
				units = append(units, string(s.Unit))
			}
			lines[s.Unit] = append(lines[s.Unit], s)
		}
	}
	for i, s := range plot.Series {
		p.Series = append(p.Series, seriesShown(plot.Name, i, s))
	}
	if len(bars) > 0 {
		d.bars(bars)
	}
	for _, unit := range units {
		d.lines(lines[stats.Unit(unit)])
	}
	d.labels()
	d.table(plots.Account)
	d.describe(plot.Name, totalOf(plots, plot.Name))
	return p
}

func seriesShown(plot string, i int, s stats.Series) views.PlotSeries {
	shown := views.PlotSeries{Name: s.Name, Label: s.Name, Colour: i + 1, Sum: grouped(s.Total)}
	switch words, known := seriesWords[s.Name]; {
	case plot == stats.PlotEvents && s.Name == stats.Other:
		shown.Label, shown.Colour = "Other", 6
	case plot != stats.PlotEvents && known:
		shown.Label, shown.Colour = words.words, words.colour
	}
	if s.Unit != stats.UnitCount {
		shown.Sum = "–"
		if value, ok := last(s); ok {
			shown.Sum = showValue(s.Unit, value)
		}
	}
	return shown
}

type plotDrawing struct {
	*views.PlotProps
	starts []time.Time
	range_ string
	series []stats.Series
	top    float64 // where the next block begins
}

// step is the width of a bucket.
func (d *plotDrawing) step() float64 { return (d.Width - plotLeft) / float64(len(d.starts)) }

func (d *plotDrawing) colour(name string) int {
	for _, s := range d.Series {
		if s.Name == name {
			return s.Colour
		}
	}
	return 1
}

// bars draws stacked counts.
func (d *plotDrawing) bars(series []stats.Series) {
	most := 0.0
	for i := range d.starts {
		sum := 0.0
		for _, s := range series {
			sum += s.Values[i].Number
		}
		most = max(most, sum)
	}
	scale := d.scale(most, 1, plotHigh, grouped)
	below := make([]float64, len(d.starts))
	width := math.Max(d.step()*0.76, 1)
	for _, s := range series {
		var path strings.Builder
		for i, value := range s.Values {
			if !value.Known || value.Number == 0 {
				continue
			}
			high := value.Number / scale * plotHigh
			y := d.top + plotHigh - below[i] - high
			below[i] += high
			fmt.Fprintf(&path, "M%.1f %.1fh%.1fv%.1fh-%.1fz", plotLeft+float64(i)*d.step()+(d.step()-width)/2, y, width, math.Max(high-1, 0.5), width)
		}
		d.Paths = append(d.Paths, views.PlotPath{Colour: d.colour(s.Name), D: path.String()})
	}
	d.Veils = append(d.Veils, views.PlotVeil{X: d.Width - d.step(), Y: d.top, Width: d.step(), Height: plotHigh})
	d.top += plotHigh + plotGap
}

// dot is a single value: a line without length, and a circle around it.
const dot = "h0.1m-2.1 0a2 2 0 1 0 4 0a2 2 0 1 0-4 0"

// lines draws series of one scale. A bucket that is not known is a gap.
func (d *plotDrawing) lines(series []stats.Series) {
	most := 0.0
	for _, s := range series {
		for _, value := range s.Values {
			most = max(most, value.Number)
		}
	}
	scale := d.scale(most, 0, linesHigh, func(n float64) string { return showValue(series[0].Unit, n) })
	for _, s := range series {
		var path strings.Builder
		drawing := false
		for i, value := range s.Values {
			if !value.Known {
				drawing = false
				continue
			}
			x, y := plotLeft+(float64(i)+0.5)*d.step(), d.top+linesHigh-value.Number/scale*linesHigh
			switch {
			case drawing:
				fmt.Fprintf(&path, "L%.1f %.1f", x, y)
			case i+1 < len(s.Values) && s.Values[i+1].Known:
				fmt.Fprintf(&path, "M%.1f %.1f", x, y)
			default:
				fmt.Fprintf(&path, "M%.1f %.1f%s", x, y, dot)
			}
			drawing = true
		}
		d.Paths = append(d.Paths, views.PlotPath{Colour: d.colour(s.Name), D: path.String(), Line: true})
	}
	d.top += linesHigh + plotGap
}

// scale adds the ticks of a block, at least a distance apart, and returns its greatest
// value.
func (d *plotDrawing) scale(most, apart, high float64, show func(float64) string) float64 {
	unit := math.Max(niceStep(most), apart)
	if d.Name == stats.PlotStore { // in powers of two
		unit = math.Pow(2, math.Ceil(math.Log2(math.Max(most, 4)/4)))
	}
	top := math.Max(math.Ceil(most/unit), 1) * unit
	for n := 0.0; n <= top+unit/2; n += unit {
		tick := views.PlotTick{Y: d.top + high - n/top*high}
		if n > 0 {
			tick.Label = show(n)
		}
		d.Ticks = append(d.Ticks, tick)
	}
	return top
}

// niceStep is the distance of ticks: four at most.
func niceStep(most float64) float64 {
	if most <= 0 {
		return 1
	}
	rough := most / 4
	power := math.Pow(10, math.Floor(math.Log10(rough)))
	for _, m := range []float64{1, 2, 5, 10} {
		if m*power >= rough {
			return m * power
		}
	}
	return 10 * power
}

// labels names every few buckets.
func (d *plotDrawing) labels() {
	d.Height = d.top - plotGap + labelHeight
	each := max(len(d.starts)/6, 1)
	for i := 0; i < len(d.starts); i += each {
		d.Labels = append(d.Labels, views.PlotLabel{X: plotLeft + (float64(i)+0.5)*d.step(), Y: d.Height - 6, Text: bucketLabel(d.range_, d.starts[i]), Second: i/each%2 == 1})
	}
}

func bucketLabel(of string, at time.Time) string {
	switch of {
	case "1h", "24h":
		return at.Format("15:04")
	case "1y":
		return at.Format("Jan 2006")
	}
	return at.Format("2 Jan")
}

func bucketName(of string, at time.Time) string {
	switch of {
	case "1y":
		return at.Format("January 2006")
	case "30d":
		return at.Format("2 January")
	}
	return at.Format("2 January 15:04")
}

// table adds the same values as numbers.
func (d *plotDrawing) table(account string) {
	for i, start := range d.starts {
		row := views.PlotRow{At: start.Unix(), Label: bucketName(d.range_, start)}
		if d.Name == stats.PlotEvents && account != "" {
			end := d.To
			if i+1 < len(d.starts) {
				end = d.starts[i+1].Unix()
			}
			row.Href = fmt.Sprintf("%s?account=%s&from=%d&to=%d", deskEventsPath, escaped(account), start.Unix(), end-1)
		}
		for _, s := range d.series {
			row.Cells = append(row.Cells, valueCell(s.Unit, s.Values[i]))
		}
		d.Rows = append(d.Rows, row)
	}
	for _, s := range d.series {
		cell := views.PlotCell{Text: "–"}
		if s.Unit == stats.UnitCount {
			cell.Text = grouped(s.Total)
		}
		d.Totals = append(d.Totals, cell)
	}
}

func valueCell(unit stats.Unit, value stats.Value) views.PlotCell {
	switch {
	case !value.Known:
		return views.PlotCell{Text: "–"}
	case unit == stats.UnitCount:
		return views.PlotCell{Text: grouped(value.Number)}
	}
	return views.PlotCell{Text: showValue(unit, value.Number), Data: strconv.FormatFloat(value.Number, 'g', 6, 64)}
}

var eachBucket = map[string]string{"1h": "two minutes", "24h": "hour", "7d": "six hours", "30d": "day", "1y": "month"}

// describe says in words what the drawing shows.
func (d *plotDrawing) describe(name string, total float64) {
	from, to := d.starts[0], d.starts[len(d.starts)-1]
	d.Caption = fmt.Sprintf("%s by %s, %s to %s", d.Title, eachBucket[d.range_], bucketName(d.range_, from), bucketName(d.range_, to))
	most, at := 0.0, from
	for i, start := range d.starts {
		sum := 0.0
		for _, s := range d.series {
			if s.Unit == stats.UnitCount {
				sum += s.Values[i].Number
			}
		}
		if sum > most {
			most, at = sum, start
		}
	}
	d.Summary = grouped(total) + " in " + rangeWords[d.range_]
	switch {
	case name == stats.PlotStore:
		d.Summary, d.Description = "", "The newest values are in the key."
	case total == 0:
		d.Description = "None."
	default:
		d.Description = fmt.Sprintf("%s in all; most, %s, at %s.", grouped(total), grouped(most), bucketName(d.range_, at))
	}
}

package views

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Plots are what the Overview draws.
type Plots struct {
	Range  string      // 1h, 24h, 7d, 30d or 1y
	Starts []time.Time // of the buckets, oldest first
	End    time.Time   // of the last bucket
	Missed []Span      // times without a server
	Plots  []PlotData
}

// A Span is a time, from its start up to its end.
type Span struct{ From, To time.Time }

// PlotData is what one figure draws.
type PlotData struct {
	Name   string // events, sign-ins, tokens, requests or store
	Series []Series
}

// A Series is a line or a layer of a figure.
type Series struct {
	Name   string
	Unit   string  // seconds or bytes; empty for a count
	Values []Value // of each bucket
	Total  float64 // of counts
}

// A Value is that of one bucket. One that is not known is a gap.
type Value struct {
	Known  bool
	Number float64
}

const (
	plotEvents   = "events"
	plotSignIns  = "sign-ins"
	plotTokens   = "tokens"
	plotRequests = "requests"
	plotStore    = "store"

	unitCount   = ""
	unitSeconds = "seconds"
	unitBytes   = "bytes"

	otherKinds = "other" // of event
)

// total is the sum of a figure's counts.
func (p Plots) total(name string) (total float64) {
	for _, plot := range p.Plots {
		if plot.Name == name {
			for _, s := range plot.Series {
				total += s.Total
			}
		}
	}
	return total
}

func (p Plots) series(plot, name string) Series {
	for _, d := range p.Plots {
		for _, s := range d.Series {
			if d.Name == plot && s.Name == name {
				return s
			}
		}
	}
	return Series{}
}

// last is the newest known value of a series.
func (s Series) last() (float64, bool) {
	for _, value := range slices.Backward(s.Values) {
		if value.Known {
			return value.Number, true
		}
	}
	return 0, false
}

// show formats a value of the series.
func (s Series) show(n float64) string {
	switch s.Unit {
	case unitBytes:
		return size(n)
	case unitSeconds:
		return seconds(n)
	}
	return grouped(n)
}

var rangeWords = map[string]string{"1h": "1 h", "24h": "24 h", "7d": "7 d", "30d": "30 d", "1y": "1 y"}

// plotWords are the titles of plots and series, and the colour of each series.
var plotWords = map[string]string{plotEvents: "Events", plotSignIns: "Sign-ins", plotTokens: "Tokens issued", plotRequests: "Requests", plotStore: "Store and disk"}

var seriesWords = map[string]struct {
	words  string
	colour int
}{
	"right": {"Succeeded", 1}, "throttled": {"Throttled", 5}, "refused": {"Refused", 3},
	"refresh_token": {"Refresh", 1}, "authorization_code": {"Authorization code", 2}, "password": {"Password", 3},
	"client_credentials": {"Client credentials", 4},
	"2xx":                {"Answered", 1}, "4xx": {"Refused (4xx)", 3}, "5xx": {"Failed (5xx)", 5}, "p50": {"Median", 1}, "p95": {"p95", 3},
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
func drawPlot(plots Plots, plot PlotData, eventsURL string) drawing {
	p := drawing{Name: plot.Name, Title: plotWords[plot.Name], Range: plots.Range, From: plots.Starts[0].Unix(), To: plots.End.Unix(), Width: plotNarrow, Left: plotLeft}
	if plot.Name == plotEvents {
		p.Width = plotWide
	}
	d := &plotDrawing{drawing: &p, starts: plots.Starts, range_: plots.Range, top: plotTop}
	var bars []Series
	lines := map[string][]Series{}
	var units []string                                                                        // blocks of lines, in order
	if _, known := plots.series(plotStore, "free").last(); plot.Name == plotStore && !known { // in memory
		plot.Series = plot.Series[:1]
	}
	for _, s := range plot.Series {
		d.series = append(d.series, s)
		switch {
		case s.Unit == unitCount:
			bars = append(bars, s)
		case plot.Name == plotStore: // each has its own scale
			lines[s.Name] = []Series{s}
			units = append(units, s.Name)
		default:
			if lines[s.Unit] == nil {
				units = append(units, s.Unit)
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
		d.lines(lines[unit])
	}
	d.labels()
	d.table(eventsURL)
	d.describe(plot.Name, plots.total(plot.Name))
	return p
}

func seriesShown(plot string, i int, s Series) drawnSeries {
	shown := drawnSeries{Name: s.Name, Label: s.Name, Colour: i + 1, Sum: grouped(s.Total)}
	switch words, known := seriesWords[s.Name]; {
	case plot == plotEvents && s.Name == otherKinds:
		shown.Label, shown.Colour = "Other", 6
	case plot != plotEvents && known:
		shown.Label, shown.Colour = words.words, words.colour
	}
	if s.Unit != unitCount {
		shown.Sum = "–"
		if value, ok := s.last(); ok {
			shown.Sum = s.show(value)
		}
	}
	return shown
}

type plotDrawing struct {
	*drawing
	starts []time.Time
	range_ string
	series []Series
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
func (d *plotDrawing) bars(series []Series) {
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
		d.Paths = append(d.Paths, drawnPath{Colour: d.colour(s.Name), D: path.String()})
	}
	d.Veils = append(d.Veils, drawnVeil{X: d.Width - d.step(), Y: d.top, Width: d.step(), Height: plotHigh})
	d.top += plotHigh + plotGap
}

// dot is a single value: a line without length, and a circle around it.
const dot = "h0.1m-2.1 0a2 2 0 1 0 4 0a2 2 0 1 0-4 0"

// lines draws series of one scale. A bucket that is not known is a gap.
func (d *plotDrawing) lines(series []Series) {
	most := 0.0
	for _, s := range series {
		for _, value := range s.Values {
			most = max(most, value.Number)
		}
	}
	scale := d.scale(most, 0, linesHigh, func(n float64) string { return series[0].show(n) })
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
		d.Paths = append(d.Paths, drawnPath{Colour: d.colour(s.Name), D: path.String(), Line: true})
	}
	d.top += linesHigh + plotGap
}

// scale adds the ticks of a block, at least a distance apart, and returns its greatest
// value.
func (d *plotDrawing) scale(most, apart, high float64, show func(float64) string) float64 {
	unit := math.Max(niceStep(most), apart)
	if d.Name == plotStore { // in powers of two
		unit = math.Pow(2, math.Ceil(math.Log2(math.Max(most, 4)/4)))
	}
	top := math.Max(math.Ceil(most/unit), 1) * unit
	for n := 0.0; n <= top+unit/2; n += unit {
		tick := drawnTick{Y: d.top + high - n/top*high}
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
		d.Labels = append(d.Labels, drawnLabel{X: plotLeft + (float64(i)+0.5)*d.step(), Y: d.Height - 6, Text: bucketLabel(d.range_, d.starts[i]), Second: i/each%2 == 1})
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
func (d *plotDrawing) table(eventsURL string) {
	for i, start := range d.starts {
		row := drawnRow{At: start.Unix(), Label: bucketName(d.range_, start)}
		if d.Name == plotEvents && eventsURL != "" {
			end := d.To
			if i+1 < len(d.starts) {
				end = d.starts[i+1].Unix()
			}
			row.Href = fmt.Sprintf("%s&from=%d&to=%d", eventsURL, start.Unix(), end-1)
		}
		for _, s := range d.series {
			row.Cells = append(row.Cells, s.cell(s.Values[i]))
		}
		d.Rows = append(d.Rows, row)
	}
	for _, s := range d.series {
		cell := drawnCell{Text: "–"}
		if s.Unit == unitCount {
			cell.Text = grouped(s.Total)
		}
		d.Totals = append(d.Totals, cell)
	}
}

func (s Series) cell(value Value) drawnCell {
	switch {
	case !value.Known:
		return drawnCell{Text: "–"}
	case s.Unit == unitCount:
		return drawnCell{Text: grouped(value.Number)}
	}
	return drawnCell{Text: s.show(value.Number), Data: strconv.FormatFloat(value.Number, 'g', 6, 64)}
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
			if s.Unit == unitCount {
				sum += s.Values[i].Number
			}
		}
		if sum > most {
			most, at = sum, start
		}
	}
	d.Summary = grouped(total) + " in " + rangeWords[d.range_]
	switch {
	case name == plotStore:
		d.Summary, d.Description = "", "The newest values are in the key."
	case total == 0:
		d.Description = "None."
	default:
		d.Description = fmt.Sprintf("%s in all; most, %s, at %s.", grouped(total), grouped(most), bucketName(d.range_, at))
	}
}

package views

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A drawing is a figure of the Overview: one or two drawings, and the table of the same
// values.
type drawing struct {
	Name, Title, Range string
	From, To           int64
	Parts              []drawnPart
	Before             string // names the dashed line; may be empty
	Columns            []drawnSeries
	Rows               []drawnRow
	Totals             []drawnCell
}

// A drawnPart is what is drawn on one pair of axes. Paths are in units of a view box that is
// stretched to the width, two units a bucket; the words are placed in per cent and stay as
// they are.
type drawnPart struct {
	ID, Title            string
	Caption, Description string
	IsHigh               bool
	Width, Height        int
	Series               []drawnSeries
	Paths                []drawnPath
	Hits                 []string // what each bucket says to a pointer; may be empty
	Words                []drawnWord
}

// A drawnSeries is a line or a layer.
type drawnSeries struct {
	Name, Label, Sum string
	Colour           int // 1 to 6
}

type drawnPath struct{ Class, D string }

// A drawnWord stands where X and Y say, in per cent.
type drawnWord struct{ Class, X, Y, Text string }

// The geometry of a drawing.
const (
	bucketWide = 2   // units of the view box
	lowHigh    = 100 // units of a drawing, and of a high one
	highHigh   = 200
	areaHigh   = 88.0 // per cent that the view box has of the height; below it are the hours
	hoursAt    = "98%"
)

type plotDrawing struct {
	drawnPart
	plots Plots
	top   float64 // the value at the upper edge
}

// drawPlot computes what a figure shows.
func drawPlot(plots, earlier Plots, name, eventsURL string) drawing {
	data, words := plots.of(name), plotWords[name]
	p := drawing{Name: name, Title: words.title, Range: plots.Range, From: plots.Starts[0].Unix(), To: plots.End.Unix()}
	if name == plotStore && !plots.series(plotStore, "free").isMeasured() {
		words.parts, data.Series = words.parts[:1], data.Series[:min(len(data.Series), 1)]
	}
	for i, part := range words.parts {
		d := plotDrawing{plots: plots, drawnPart: drawnPart{ID: name, Title: part.title, IsHigh: part.isHigh, Width: bucketWide * len(plots.Starts), Height: lowHigh}}
		if i > 0 {
			d.ID = fmt.Sprint(name, i+1)
		}
		if part.isHigh {
			d.Height = highHigh
		}
		series := data.Series
		if part.series != nil {
			series = nil
			for _, s := range part.series {
				if found := plots.series(name, s); found.Name != "" {
					series = append(series, found)
				}
			}
		}
		var before []float64
		if name == plotEvents {
			p.Before = rangeWords[plots.Range].before
			before = sums(earlier.of(name).Series, len(plots.Starts))
		}
		d.draw(name, series, before)
		p.Parts = append(p.Parts, d.drawnPart)
		p.Columns = append(p.Columns, d.Series...)
		p.addColumns(plots, series)
	}
	if name == plotEvents {
		p.link(plots, eventsURL)
	}
	return p
}

// draw draws series of one unit: counts in layers, anything else as lines.
func (d *plotDrawing) draw(plot string, series []Series, before []float64) {
	for _, s := range series {
		d.Series = append(d.Series, seriesShown(plot, s))
	}
	inAll := sums(series, len(d.plots.Starts))
	isLines := len(series) > 0 && series[0].Unit != unitCount
	most := slices.Max(append(slices.Clone(before), inAll...))
	if isLines {
		most = 0
		for _, s := range series {
			for _, value := range s.Values {
				most = max(most, value.Number)
			}
		}
	}
	d.missed()
	d.grid(most, series)
	if isLines {
		d.lines(series)
		if !slices.ContainsFunc(series, Series.isMeasured) {
			d.word("mid", 50, 50, "nothing measured")
		}
	} else {
		d.bars(series)
	}
	last := d.Width - bucketWide
	d.path("veil", "M%d 0h%dv%dh-%dz", last, bucketWide, d.Height, bucketWide)
	if before != nil {
		d.before(before)
		d.hits(inAll, before)
	}
	d.hours()
	d.describe(inAll, isLines)
}

func (d *plotDrawing) path(class, form string, a ...any) {
	if text := fmt.Sprintf(form, a...); text != "" {
		d.Paths = append(d.Paths, drawnPath{class, text})
	}
}

func (d *plotDrawing) word(class string, x, y float64, text string) {
	d.Words = append(d.Words, drawnWord{class, percent(x), percent(y), text})
}

func percent(n float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(n, 'f', 1, 64), ".0") + "%"
}

// y is where a value is drawn, from above.
func (d *plotDrawing) y(value float64) int {
	return int(math.Round(float64(d.Height) * (1 - value/d.top)))
}

// grid draws the lines of the grid, three at most, and their values beside them.
func (d *plotDrawing) grid(most float64, series []Series) {
	var of Series
	if len(series) > 0 {
		of = series[0]
	}
	step := gridStep(most, of.Unit)
	d.top = max(math.Ceil(most/step-rounding), 1) * step
	var path strings.Builder
	for n := 0; float64(n)*step <= d.top+step/2; n++ {
		value := float64(n) * step
		d.Words = append(d.Words, drawnWord{Class: "end", Y: percent((1 - value/d.top) * areaHigh), Text: of.mark(value)})
		fmt.Fprintf(&path, "M0 %dh%d", d.y(value), d.Width)
	}
	d.path("grid", "%s", path.String())
}

const rounding = 1e-9 // of numbers that are the same

// gridStep is the distance of the lines of a grid: it is round, two reach the greatest value,
// and counts have whole ones.
func gridStep(most float64, unit string) float64 {
	base, round, least := 10.0, []float64{1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10}, 1.0
	if unit == unitBytes {
		base, round, least = 2, []float64{1, 1.5, 2}, 1<<20
	}
	if most <= 0 {
		most = least
	}
	rough := most / 2
	power := math.Pow(base, math.Floor(math.Log(rough)/math.Log(base)))
	for _, m := range round {
		step := m * power
		if step >= rough*(1-rounding) && (unit != unitCount || step == math.Trunc(step)) {
			return step
		}
	}
	return max(base*power, 1)
}

// bars draws counts in layers, each bar as a stroke. What is there at all can be seen.
func (d *plotDrawing) bars(series []Series) {
	const least, gap = 2, 1 // units
	below := make([]float64, len(d.plots.Starts))
	for i, s := range series {
		var pen pen
		for b, value := range s.Values {
			if value.Number == 0 {
				continue
			}
			from := d.y(below[b])
			below[b] += value.Number
			pen.move(bucketWide*b+1, from)
			pen.up(max(from-d.y(below[b])-gap, least))
		}
		d.path(d.Series[i].class(), "%s", pen.text.String())
	}
}

// lines draws measures. A bucket that is not known is a gap, and one alone between two gaps a
// line as wide as the bucket.
func (d *plotDrawing) lines(series []Series) {
	for i, s := range series {
		var pen pen
		isOn := false
		for b, value := range s.Values {
			if !value.Known {
				isOn = false
				continue
			}
			x, y := bucketWide*b+1, d.y(value.Number)
			switch isAlone := b+1 == len(s.Values) || !s.Values[b+1].Known; {
			case isOn:
				pen.line(x, y)
			case isAlone:
				pen.move(x-1, y)
				pen.line(x+1, y)
			default:
				pen.move(x, y)
			}
			isOn = true
		}
		d.path("line "+d.Series[i].class(), "%s", pen.text.String())
	}
}

// before draws the range before as a line of steps.
func (d *plotDrawing) before(counts []float64) {
	var path strings.Builder
	at := -1
	for i, count := range counts {
		switch y := d.y(count); {
		case i == 0:
			fmt.Fprintf(&path, "M0 %dh2", y)
			at = y
		case y != at:
			fmt.Fprintf(&path, "V%dh2", y)
			at = y
		default:
			path.WriteString("h2")
		}
	}
	d.path("before", "%s", path.String())
}

// missed draws the times in which the server was down as bands. A high drawing says when they were, but
// for bands too near to the one before. It shows events, which have times of their own: that a server
// did not count yet is said by the others.
func (d *plotDrawing) missed() {
	const wordWide = 24.0 // per cent that the words may need on a phone
	var path strings.Builder
	said, lineHeight := -wordWide, 12.0 // per cent
	if d.IsHigh {
		lineHeight /= 2
	}
	for _, m := range d.plots.Missed {
		from, to := d.bucket(m.From), d.bucket(m.To)
		if !d.plots.isUnknown(m) {
			fmt.Fprintf(&path, "M%d 0h%dv%dh-%dz", bucketWide*from, bucketWide*(to-from), d.Height, bucketWide*(to-from))
		}
		middle := d.x(from+to) / 2
		if at := min(max(middle, wordWide/1.1), 100-wordWide/1.1); d.says(m) && at-said >= wordWide {
			d.word("mid", at, lineHeight, d.plots.missedWords(m))
			said = at
		}
	}
	d.path("down", "%s", path.String())
}

func (d *plotDrawing) says(m Span) bool { return d.IsHigh != d.plots.isUnknown(m) }

func (d *plotDrawing) x(bucket int) float64 {
	return float64(bucket) / float64(len(d.plots.Starts)) * 100
}

// describe says in words what the drawing shows.
func (d *plotDrawing) describe(counts []float64, isLines bool) {
	d.Caption = fmt.Sprintf("%s by %s, %s", d.Title, eachBucket[d.plots.Range], d.plots.when())
	most := slices.Max(counts)
	switch at := slices.Index(counts, most); {
	case isLines:
		d.Description = "Newest values in the key."
	case most == 0:
		d.Description = "None."
	default:
		total := 0.0
		for _, n := range counts {
			total += n
		}
		d.Description = fmt.Sprintf("%s in all; most, %s, at %s.", grouped(total), grouped(most), bucketName(d.plots.Range, d.plots.Starts[at]))
	}
	for _, m := range d.plots.Missed {
		if d.says(m) {
			d.Description += " " + sentence(d.plots.missedWords(m))
		}
	}
}

func (s drawnSeries) class() string { return fmt.Sprint("series-", s.Colour) }

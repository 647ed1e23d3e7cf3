package handlers

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"tollhouse/store"
	"tollhouse/store/stats"
	"tollhouse/views"
)

// deskOverview is GET /desk.
func (s *Server) deskOverview(v *visit) error {
	p, refused := parseOAuthParams(v.r.URL.RawQuery)
	if refused == nil {
		refused = p.refuseRepeated("range", "account")
	}
	if refused != nil {
		return refused
	}
	name, account := cmp.Or(p.value("range"), stats.RangeDefault), p.value("account")
	shown, known := stats.NewRange(name, v.now)
	if !known {
		return invalidParameter("range", "must be one of %s.", strings.Join(stats.RangeNames, ", "))
	}
	if account != "" {
		if err := v.knownAccount(account); err != nil {
			return err
		}
	}
	plots, err := s.store.Plots(v.ctx, shown, account)
	if err != nil {
		return err
	}
	page := v.page(v.r)
	parts := []templ.Component{views.Findings(page, v.attention()), views.Ranges(page, v.rangeLinks(name, account))}
	if plots.Behind > 0 {
		parts = append(parts, views.DeskFine("Still counting: "+countOf(int(plots.Behind), "event")+" to go."))
	}
	before, err := s.store.Plots(v.ctx, shown.Before(), account)
	if err != nil {
		return err
	}
	parts = append(parts, views.Figures(page, v.figures(plots, totalOf(before, stats.PlotEvents))))
	var figures []templ.Component
	for _, plot := range plots.Plots {
		figures = append(figures, views.Plot(page, drawPlot(plots, plot)))
	}
	lead := "as of " + v.now.UTC().Format("15:04")
	if account != "" {
		of, err := v.accountName(v.ctx, account)
		if err != nil {
			return err
		}
		lead = "events of " + of + ", " + lead
	}
	parts = append(parts, views.Plots(figures))
	if account == "" {
		accounts, err := v.busiestAccounts(shown)
		if err != nil {
			return err
		}
		parts = append(parts, views.Busiest(page, accounts))
	}
	v.show(http.StatusOK, views.DeskProps{Name: "overview", Title: "Overview", Lead: lead}, parts...)
	return nil
}

var rangeWords = map[string]string{"1h": "1 h", "24h": "24 h", "7d": "7 d", "30d": "30 d", "1y": "1 y"}

func (v *visit) rangeLinks(chosen, account string) (links []views.RangeLink) {
	for _, name := range stats.RangeNames {
		href := "/desk?range=" + name
		if account != "" {
			href += "&account=" + escaped(account)
		}
		links = append(links, views.RangeLink{Label: rangeWords[name], Href: href, Current: name == chosen})
	}
	return links
}

const accountsBusiest = 5

// busiestAccounts are the accounts with most events in the range.
func (v *visit) busiestAccounts(r stats.Range) (links []views.Link, err error) {
	busiest, err := v.store.BusiestAccounts(v.ctx, r, accountsBusiest)
	if err != nil {
		return nil, err
	}
	for _, a := range busiest {
		name, err := v.accountName(v.ctx, a.Owner)
		if err != nil {
			return nil, err
		}
		links = append(links, views.Link{Label: name, Href: "/desk?range=" + r.Name + "&account=" + escaped(a.Owner), Note: grouped(float64(a.Count))})
	}
	return links, nil
}

// totalOf is the sum of a plot's counts.
func totalOf(plots stats.Plots, name string) (total float64) {
	for _, p := range plots.Plots {
		for _, s := range p.Series {
			if p.Name == name {
				total += s.Total
			}
		}
	}
	return total
}

func seriesOf(plots stats.Plots, plot, name string) stats.Series {
	for _, p := range plots.Plots {
		for _, s := range p.Series {
			if p.Name == plot && s.Name == name {
				return s
			}
		}
	}
	return stats.Series{}
}

// last is the newest known value of a series.
func last(s stats.Series) (float64, bool) {
	for _, value := range slices.Backward(s.Values) {
		if value.Known {
			return value.Number, true
		}
	}
	return 0, false
}

// figures are the numbers above the plots.
func (v *visit) figures(plots stats.Plots, before float64) []views.Figure {
	total := func(plot string) float64 { return totalOf(plots, plot) }
	of := func(plot, name string) string {
		value, known := last(seriesOf(plots, plot, name))
		if !known {
			return "–"
		}
		return showValue(seriesOf(plots, plot, name).Unit, value)
	}
	refused := seriesOf(plots, stats.PlotSignIns, "refused").Total
	return []views.Figure{
		{Label: "Events", Value: grouped(total(stats.PlotEvents)), Note: grouped(before) + " in the " + rangeWords[plots.Range.Name] + " before"},
		{Label: "Sign-ins refused", Value: grouped(refused), Note: "of " + grouped(total(stats.PlotSignIns)),
			Href: fmt.Sprintf("/desk/audit?what=%s&from=%d", store.AuditLoginRefused, plots.Range.From().Unix())},
		{Label: "Tokens issued", Value: grouped(total(stats.PlotTokens)), Note: grouped(seriesOf(plots, stats.PlotTokens, "refresh_token").Total) + " by refresh"},
		{Label: "95 % of requests", Value: of(stats.PlotRequests, "p95"), Note: "half within " + of(stats.PlotRequests, "p50")},
		{Label: "Disk free", Value: of(stats.PlotStore, "free"), Note: "store " + of(stats.PlotStore, "store")},
	}
}

// grouped writes a count with narrow spaces between thousands.
func grouped(n float64) string {
	text := strconv.FormatInt(int64(n), 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "\u202f" + text[i:]
	}
	return text
}

func showSize(bytes float64) string {
	for _, unit := range []struct {
		name string
		size float64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if bytes >= unit.size {
			return strconv.FormatFloat(bytes/unit.size, 'f', 1, 64) + " " + unit.name
		}
	}
	return strconv.FormatFloat(bytes, 'f', 0, 64) + " B"
}

func showValue(unit stats.Unit, n float64) string {
	switch {
	case unit == stats.UnitBytes:
		return showSize(n)
	case unit == stats.UnitSeconds && n >= 1:
		return strconv.FormatFloat(n, 'f', 1, 64) + " s"
	case unit == stats.UnitSeconds:
		return strconv.FormatFloat(n*1000, 'f', 1, 64) + " ms"
	}
	return grouped(n)
}

// plotWords are the titles of plots and series, and the colour of each series.
var plotWords = map[string]string{stats.PlotEvents: "Events", stats.PlotSignIns: "Sign-ins", stats.PlotTokens: "Tokens issued", stats.PlotRequests: "Requests", stats.PlotStore: "Store and disk"}

var seriesWords = map[string]struct {
	words  string
	colour int
}{
	"right": {"Right", 1}, "throttled": {"Slowed down", 5}, "refused": {"Refused", 3},
	"refresh_token": {"Refresh", 1}, "authorization_code": {"Authorization code", 2}, "password": {"Password", 3},
	"2xx": {"Answered", 1}, "4xx": {"Refused (4xx)", 3}, "5xx": {"Failed (5xx)", 5}, "p50": {"Half within", 1}, "p95": {"95 % within", 3},
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

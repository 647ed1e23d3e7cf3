package views

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// Plots are what the Overview draws.
type Plots struct {
	Range  string      // 1h, 24h, 7d, 30d or 1y
	Now    time.Time   // when they were read
	Starts []time.Time // of the buckets, oldest first; the last one is still running
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

// of is the data of the figure with that name.
func (p Plots) of(name string) PlotData {
	if i := slices.IndexFunc(p.Plots, func(d PlotData) bool { return d.Name == name }); i >= 0 {
		return p.Plots[i]
	}
	return PlotData{Name: name}
}

// total is the sum of a figure's counts.
func (p Plots) total(name string) (total float64) {
	for _, s := range p.of(name).Series {
		total += s.Total
	}
	return total
}

func (p Plots) series(plot, name string) Series {
	for _, s := range p.of(plot).Series {
		if s.Name == name {
			return s
		}
	}
	return Series{}
}

// counted reports whether anything was counted for a figure.
func (p Plots) counted(name string) bool {
	return slices.ContainsFunc(p.of(name).Series, func(s Series) bool {
		return slices.ContainsFunc(s.Values, func(v Value) bool { return v.Known })
	})
}

// sums are the counts of all series in each bucket.
func sums(series []Series, buckets int) []float64 {
	sums := make([]float64, buckets)
	for _, s := range series {
		for i, value := range s.Values {
			sums[i] += value.Number
		}
	}
	return sums
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

// isMeasured reports whether any value is known. A store in memory has no size, a database no free space of ours.
func (s Series) isMeasured() bool {
	_, known := s.last()
	return known
}

// newest is the newest known value in words.
func (s Series) newest() string {
	if value, known := s.last(); known {
		return s.show(value)
	}
	return "–"
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

// mark formats a value beside a line of the grid.
func (s Series) mark(n float64) string {
	const million = 1e6
	name := "M"
	switch {
	case n == 0:
		return "0"
	case s.Unit == unitBytes:
		n, name = inBytes(n)
	case s.Unit == unitSeconds:
		n, name = inSeconds(n)
	case n < million:
		return grouped(n)
	default:
		n /= million
	}
	return strconv.FormatFloat(n, 'g', 3, 64) + " " + name
}

// rangeWords name the ranges: to choose one, and to compare it with what was before.
var rangeWords = map[string]struct{ short, before string }{
	"1h": {"1 h", "the hour before"}, "24h": {"24 h", "the 24 hours before"}, "7d": {"7 d", "the 7 days before"},
	"30d": {"30 d", "the 30 days before"}, "1y": {"1 y", "the 13 months before"},
}

var eachBucket = map[string]string{"1h": "two minutes", "24h": "hour", "7d": "six hours", "30d": "day", "1y": "month"}

// plotWords are the titles of the figures, of each drawing in them, and of what it draws. Two
// drawings of a figure have axes of their own. A drawing without names has every series.
var plotWords = map[string]struct {
	title string
	parts []plotPart
}{
	plotEvents:   {"Events", []plotPart{{title: "Events", isHigh: true}}},
	plotRequests: {"Requests", []plotPart{{title: "Requests", series: []string{"2xx", "4xx", "5xx"}}, {title: "Latency", series: []string{"p95", "p50"}}}},
	plotSignIns:  {"Sign-ins", []plotPart{{title: "Sign-ins"}}},
	plotTokens:   {"Tokens issued", []plotPart{{title: "Tokens issued"}}},
	plotStore:    {"Storage", []plotPart{{title: "Data", series: []string{"store"}}, {title: "Disk", series: []string{"free"}}}},
}

// A plotPart is one drawing of a figure.
type plotPart struct {
	title  string
	series []string
	isHigh bool
}

var seriesWords = map[string]struct {
	words  string
	colour int
}{
	"right": {"Succeeded", 1}, "refused": {"Failed", 3}, "throttled": {"Throttled", 5},
	"refresh_token": {"Refresh", 1}, "authorization_code": {"Code", 2}, "password": {"Password", 3}, "client_credentials": {"Client", 4},
	"2xx": {"Success", 1}, "4xx": {"Refused (4xx)", 3}, "5xx": {"Failed (5xx)", 5}, "p50": {"p50 (median)", 1}, "p95": {"p95", 3},
	"store": {"Data on disk", 1}, "free": {"Free on the disk", 4},
}

// seriesShown is how a series is named, in which colour, and what is said of all its values.
func seriesShown(plot string, s Series) drawnSeries {
	shown := drawnSeries{Name: s.Name, Label: s.Name, Sum: grouped(s.Total)}
	if plot == plotEvents {
		shown.Colour = EventColour(s.Name)
	} else if words, known := seriesWords[s.Name]; known {
		shown.Label, shown.Colour = words.words, words.colour
	}
	if s.Unit != unitCount {
		shown.Sum = s.newest()
	}
	return shown
}

// compared says how a total differs from the one of the range before, and then the note. If
// nothing was counted then, it says the note alone.
func (p Plots) compared(earlier Plots, name, note string) string {
	now, before := p.total(name), earlier.total(name)
	if !earlier.counted(name) {
		return note
	}
	change := "none before"
	if before > 0 {
		change = changeWords(now/before - 1)
	}
	if note == "" {
		return change
	}
	return change + ", " + note
}

// changeWords are a change in per cent; what grew tenfold says so.
func changeWords(by float64) string {
	const most = 1000
	switch percent := math.Round(by * 100); {
	case percent == 0:
		return "as before"
	case percent >= most:
		return fmt.Sprintf("%.0f times", by+1)
	case percent < 0:
		return fmt.Sprintf("−%.0f %%", -percent)
	default:
		return fmt.Sprintf("+%.0f %%", percent)
	}
}

package stats

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"tollhouse/store/eventlog"
)

// The names of the plots.
const (
	PlotEvents   = "events"
	PlotSignIns  = "sign-ins"
	PlotTokens   = "tokens"
	PlotRequests = "requests"
	PlotStore    = "store"
)

// Unit says what the values of a series are.
type Unit string

// The units. Only counts have a total.
const (
	UnitCount   Unit = ""
	UnitSeconds Unit = "seconds"
	UnitBytes   Unit = "bytes"
)

// Value is the value of a series in one bucket. One that is not known is not 0: no
// server counted then, or nothing could be measured.
type Value struct {
	Known  bool
	Number float64
}

// Series is a line or a layer of a plot.
type Series struct {
	Name   string
	Unit   Unit
	Values []Value // of each bucket
	Total  float64 // of the known values, for counts
}

// Plot is what one figure shows, with the series in their order.
type Plot struct {
	Name   string
	Series []Series
}

// Plots are all plots of a range.
type Plots struct {
	Range   Range
	Account string // "" is all; only the events are those of one account
	Plots   []Plot
}

// Other is the series of the kinds of event beyond kindsMax.
const Other = "other"

const kindsMax = 5 // series of events, the most frequent kinds

// Span is a time, from its start up to its end.
type Span struct{ From, To time.Time }

// Missed returns the times in which no server counted, to the precision of the buckets. The
// running bucket is not among them.
func (p Plots) Missed() (missed []Span) {
	i := slices.IndexFunc(p.Plots, func(plot Plot) bool { return plot.Name == PlotRequests })
	if i < 0 {
		return nil
	}
	starts := p.Range.Starts
	for b, value := range p.Plots[i].Series[0].Values[:len(starts)-1] {
		switch last := len(missed) - 1; {
		case value.Known:
		case last >= 0 && missed[last].To.Equal(starts[b]):
			missed[last].To = starts[b+1]
		default:
			missed = append(missed, Span{starts[b], starts[b+1]})
		}
	}
	return missed
}

// Read reads the plots of a range, with the events of an account or, for "", of all.
func Read(ctx context.Context, log *eventlog.Log, ring *Ring, r Range, account string) (Plots, error) {
	p := Plots{Range: r, Account: account}
	events, err := readEvents(ctx, log, r, account)
	if err != nil {
		return Plots{}, fmt.Errorf("read plots: %w", err)
	}
	units, err := ring.units(ctx, r)
	if err != nil {
		return Plots{}, fmt.Errorf("read plots: %w", err)
	}
	buckets := make([]*counts, len(r.Starts))
	starts := make([]time.Time, 0, len(units))
	for at := range units {
		starts = append(starts, at)
	}
	slices.SortFunc(starts, time.Time.Compare)
	for _, at := range starts {
		i := r.bucket(at)
		buckets[i] = buckets[i].plus(units[at])
	}
	p.Plots = []Plot{events, signInsPlot(buckets), tokensPlot(buckets), requestsPlot(buckets), storePlot(buckets)}
	return p, nil
}

// Busiest returns up to n accounts with the most events in a range.
func Busiest(ctx context.Context, log *eventlog.Log, r Range, n int) ([]eventlog.OwnerCount, error) {
	return log.BusiestOwners(ctx, r.grain, r.From(), r.End, n)
}

// readEvents reads the plot of events: the most frequent kinds of the range, and the
// others together.
func readEvents(ctx context.Context, log *eventlog.Log, r Range, account string) (Plot, error) {
	units, err := log.EventCounts(ctx, account, r.grain, r.From(), r.End)
	if err != nil {
		return Plot{}, err
	}
	buckets := make([]map[string]uint64, len(r.Starts))
	unknown := make([]bool, len(r.Starts))
	totals := map[string]uint64{}
	for _, u := range units {
		i := r.bucket(u.Start)
		unknown[i] = unknown[i] || u.Unknown
		if buckets[i] == nil {
			buckets[i] = map[string]uint64{}
		}
		for _, k := range u.Tally {
			buckets[i][k.Kind] += k.Count
			totals[k.Kind] += k.Count
		}
	}
	kinds := mostFrequent(totals)
	p := Plot{Name: PlotEvents}
	for _, kind := range kinds {
		p.Series = append(p.Series, countSeries(kind, len(buckets), func(i int) (uint64, bool) { return buckets[i][kind], !unknown[i] }))
	}
	p.Series = append(p.Series, countSeries(Other, len(buckets), func(i int) (n uint64, known bool) {
		for kind, of := range buckets[i] {
			if !slices.Contains(kinds, kind) {
				n += of
			}
		}
		return n, !unknown[i]
	}))
	return p, nil
}

// mostFrequent returns the kinds with the most events, the most frequent first.
func mostFrequent(totals map[string]uint64) []string {
	var kinds []string
	for kind := range totals {
		if kind != eventlog.OtherKinds && kind != Other {
			kinds = append(kinds, kind)
		}
	}
	slices.SortFunc(kinds, func(a, b string) int { return cmp.Or(cmp.Compare(totals[b], totals[a]), strings.Compare(a, b)) })
	return kinds[:min(len(kinds), kindsMax)]
}

func countSeries(name string, buckets int, of func(i int) (n uint64, known bool)) Series {
	s := Series{Name: name}
	for i := range buckets {
		n, known := of(i)
		if !known {
			n = 0
		}
		s.Values = append(s.Values, Value{known, float64(n)})
		s.Total += float64(n)
	}
	return s
}

// counted returns a series of a counter.
func counted(name string, buckets []*counts, of func(*counts) uint64) Series {
	return countSeries(name, len(buckets), func(i int) (uint64, bool) {
		if buckets[i] == nil {
			return 0, false
		}
		return of(buckets[i]), true
	})
}

// measured returns a series of a measure, which a bucket may lack.
func measured(name string, unit Unit, buckets []*counts, of func(*counts) (float64, bool)) Series {
	s := Series{Name: name, Unit: unit}
	for _, c := range buckets {
		v := Value{}
		if c != nil {
			v.Number, v.Known = of(c)
		}
		s.Values = append(s.Values, v)
	}
	return s
}

func signInsPlot(buckets []*counts) Plot {
	of := func(outcome SignIn) func(*counts) uint64 {
		return func(c *counts) uint64 { return c.signIns[outcome] }
	}
	return Plot{PlotSignIns, []Series{
		counted("right", buckets, of(SignInRight)), counted("refused", buckets, of(SignInRefused)), counted("throttled", buckets, of(SignInThrottled)),
	}}
}

func tokensPlot(buckets []*counts) Plot {
	of := func(g Grant) func(*counts) uint64 { return func(c *counts) uint64 { return c.grants[g] } }
	return Plot{PlotTokens, []Series{
		counted("refresh_token", buckets, of(GrantRefresh)), counted("authorization_code", buckets, of(GrantCode)), counted("password", buckets, of(GrantPassword)),
		counted("client_credentials", buckets, of(GrantClient)),
	}}
}

func requestsPlot(buckets []*counts) Plot {
	of := func(class Class) func(*counts) uint64 {
		return func(c *counts) uint64 { return c.requests[class] }
	}
	percentile := func(share float64) func(*counts) (float64, bool) {
		return func(c *counts) (float64, bool) {
			took, any := c.percentile(share)
			return took.Seconds(), any
		}
	}
	return Plot{PlotRequests, []Series{
		counted("2xx", buckets, of(Status2xx)), counted("4xx", buckets, of(Status4xx)), counted("5xx", buckets, of(Status5xx)),
		measured("p50", UnitSeconds, buckets, percentile(0.50)), measured("p95", UnitSeconds, buckets, percentile(0.95)),
	}}
}

func storePlot(buckets []*counts) Plot {
	return Plot{PlotStore, []Series{
		measured("store", UnitBytes, buckets, func(c *counts) (float64, bool) { return float64(c.disk.Used), c.disk.Used > 0 }),
		measured("free", UnitBytes, buckets, func(c *counts) (float64, bool) { return float64(c.disk.Free), c.disk.Free > 0 }),
	}}
}

package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// printTable prints the medians over the rounds, the spread of the requests a
// second, and the ratios to the floor.
func printTable(w io.Writer, scenarios []*scenario) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "scenario\tdurability\tclients\treq/s\tmin–max\tp50\tp99\tserver CPU\treq/s : floor\tCPU : floor\t")
	for _, sc := range scenarios {
		rate := median(sc.rounds, func(m measured) float64 { return m.perSecond })
		cpu := median(sc.rounds, func(m measured) time.Duration { return m.cpu })
		low := slices.MinFunc(sc.rounds, func(a, b measured) int { return cmp.Compare(a.perSecond, b.perSecond) })
		high := slices.MaxFunc(sc.rounds, func(a, b measured) int { return cmp.Compare(a.perSecond, b.perSecond) })
		clients := "run's"
		if sc.clients > 0 {
			clients = fmt.Sprint(sc.clients)
		}
		rateRatio, cpuRatio := "–", "–"
		if sc.floor != nil {
			rateRatio = fmt.Sprintf("%.2f", median(pairs(sc, func(ours, floor measured) float64 { return ours.perSecond / floor.perSecond }), same))
			cpuRatio = fmt.Sprintf("%.2f", median(pairs(sc, func(ours, floor measured) float64 { return float64(ours.cpu) / float64(max(floor.cpu, 1)) }), same))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%.0f\t%.0f–%.0f\t%s\t%s\t%s\t%s\t%s\t\n", sc.name, sc.durability, clients, rate, low.perSecond, high.perSecond,
			median(sc.rounds, func(m measured) time.Duration { return m.p50 }).Round(time.Microsecond),
			median(sc.rounds, func(m measured) time.Duration { return m.p99 }).Round(time.Microsecond), cpu, rateRatio, cpuRatio)
	}
	t.Flush()
}

// pairs compares round by round, so that a ratio never mixes two moments.
func pairs(sc *scenario, ratio func(ours, floor measured) float64) []float64 {
	var ratios []float64
	for i, m := range sc.rounds {
		ratios = append(ratios, ratio(m, sc.floor.rounds[i]))
	}
	return ratios
}

func same(f float64) float64 { return f }

func median[T any, N cmp.Ordered](list []T, of func(T) N) N {
	values := make([]N, len(list))
	for i, item := range list {
		values[i] = of(item)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

package storetest

import (
	"math"
	"slices"
	"testing"
	"time"
)

// Work does one piece of work and returns the time that counts.
type Work func() time.Duration

// Timed is work that counts as a whole.
func Timed(do func()) Work {
	return func() time.Duration {
		began := time.Now()
		do()
		return time.Since(began)
	}
}

// Pairs are the times of two kinds of work, taken alternately in one run.
type Pairs struct {
	A, B       []time.Duration
	cpuA, cpuB time.Duration // of the whole process in that time
}

// Take times both kinds of work twice, in the order ABBA and then BAAB, so that other
// load and drift affect both alike.
func (p *Pairs) Take(a, b Work) {
	takeA, takeB := func() { take(a, &p.A, &p.cpuA) }, func() { take(b, &p.B, &p.cpuB) }
	outer, inner := takeA, takeB
	if len(p.A)%4 != 0 {
		outer, inner = takeB, takeA
	}
	outer()
	inner()
	inner()
	outer()
}

func take(w Work, times *[]time.Duration, used *time.Duration) {
	before := CPU()
	*times = append(*times, w())
	*used += CPU() - before
}

// pairParts is the number of parts of a run, to estimate the ratio's spread.
const pairParts = 5

// Report adds to the benchmark's output the median of each kind of work, the ratio of
// the second to the first, and the ratio's range over the parts of the run; the same
// for the tenth percentiles, which other load disturbs less; and for the processor
// time, which it hardly disturbs. The time per operation is left out, because the
// benchmark chooses how many pairs an operation has.
func (p *Pairs) Report(b *testing.B, nameA, nameB string) {
	b.Helper()
	ratios := make([]float64, 0, pairParts)
	for i := range pairParts {
		from, to := len(p.A)*i/pairParts, len(p.A)*(i+1)/pairParts
		if from < to {
			ratios = append(ratios, ratio(p.A[from:to], p.B[from:to]))
		}
	}
	const microsecond = float64(time.Microsecond)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(middle(p.A))/microsecond, nameA+"-µs")
	b.ReportMetric(float64(middle(p.B))/microsecond, nameB+"-µs")
	b.ReportMetric(p.Ratio(), "ratio")
	b.ReportMetric(p.FastRatio(), "ratio-p10")
	if p.cpuB > 0 {
		b.ReportMetric(float64(p.cpuA)/float64(p.cpuB), "ratio-cpu")
	}
	b.ReportMetric(slices.Min(ratios), "ratio-min")
	b.ReportMetric(slices.Max(ratios), "ratio-max")
}

// Ratio returns how many times the median of the second kind of work the first takes.
func (p *Pairs) Ratio() float64 { return ratio(p.A, p.B) }

// FastRatio is Ratio of the fastest tenths, which others' work disturbs least.
func (p *Pairs) FastRatio() float64 { return float64(at(p.A, tenth)) / float64(at(p.B, tenth)) }

// Differ returns by how many percent the medians of the two kinds of work differ, and
// Welch's t of their means. The slowest twentieth of all times is left out of both kinds:
// it is the work of others.
func (p *Pairs) Differ() (percent, t float64) {
	slowest := at(slices.Concat(p.A, p.B), 1-twentieth)
	isSlow := func(d time.Duration) bool { return d > slowest }
	a, b := slices.DeleteFunc(slices.Clone(p.A), isSlow), slices.DeleteFunc(slices.Clone(p.B), isSlow)
	return 100 * math.Abs(ratio(b, a)-1), math.Abs(welch(a, b))
}

// welch returns Welch's t of two samples.
func welch(a, b []time.Duration) float64 {
	meanA, errorA := mean(a)
	meanB, errorB := mean(b)
	return (meanA - meanB) / math.Sqrt(errorA+errorB)
}

// mean returns the mean of times and the square of its standard error.
func mean(times []time.Duration) (m, squaredError float64) {
	n := float64(len(times))
	for _, d := range times {
		m += float64(d) / n
	}
	for _, d := range times {
		squaredError += (float64(d) - m) * (float64(d) - m) / (n - 1) / n
	}
	return m, squaredError
}

func ratio(a, b []time.Duration) float64 { return float64(middle(a)) / float64(middle(b)) }

func middle(times []time.Duration) time.Duration { return at(times, half) }

const twentieth, tenth, half = 0.05, 0.1, 0.5

// at returns the quantile of times at share.
func at(times []time.Duration, share float64) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[int(share*float64(len(sorted)))]
}

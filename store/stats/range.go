// Package stats says what the plots of the desk and `tollhouse stats` show.
//
// A [Range] divides the past into buckets. Package eventlog counts events. What only the server
// sees, such as requests and sign-ins, is counted by the [Ring] and kept in the store.
// [Plots] puts both together.
package stats

import (
	"time"

	"tollhouse/store/eventlog"
)

// Range is a time up to now, in buckets that are aligned in UTC. The last bucket is
// still running.
type Range struct {
	Name   string
	Starts []time.Time // of the buckets, oldest first
	End    time.Time   // of the last bucket

	grain eventlog.Grain // the buckets consist of whole units of it
}

// RangeNames are the names of all ranges.
var RangeNames = []string{"1h", "24h", "7d", "30d", "1y"}

// RangeDefault is the range that is shown when none is named.
const RangeDefault = "24h"

const monthsOfYear = 13 // the running month, and the same one a year ago

// NewRange returns the range with that name up to now, and false for an unknown name.
func NewRange(name string, now time.Time) (Range, bool) {
	now = now.UTC()
	switch name {
	case "1h":
		return evenRange(name, eventlog.BySlot, now, 2*time.Minute, 30), true
	case "24h":
		return evenRange(name, eventlog.ByHour, now, time.Hour, 24), true
	case "7d":
		return evenRange(name, eventlog.ByHour, now, 6*time.Hour, 28), true
	case "30d":
		return evenRange(name, eventlog.ByDay, now, 24*time.Hour, 30), true
	case "1y":
		r := Range{Name: name, grain: eventlog.ByDay}
		for i := range monthsOfYear {
			r.Starts = append(r.Starts, time.Date(now.Year(), now.Month()+time.Month(i+1-monthsOfYear), 1, 0, 0, 0, 0, time.UTC))
		}
		r.End = r.Starts[monthsOfYear-1].AddDate(0, 1, 0)
		return r, true
	}
	return Range{}, false
}

func evenRange(name string, g eventlog.Grain, now time.Time, each time.Duration, buckets int) Range {
	last := now.Truncate(each)
	r := Range{Name: name, grain: g, End: last.Add(each)}
	for i := range buckets {
		r.Starts = append(r.Starts, last.Add(time.Duration(i+1-buckets)*each))
	}
	return r
}

// From is when the first bucket begins.
func (r Range) From() time.Time { return r.Starts[0] }

// Before returns the range that ends where r begins, to compare the two.
func (r Range) Before() Range {
	before, _ := NewRange(r.Name, r.From().Add(-1))
	return before
}

// bucket returns the index of the bucket at a time within the range.
func (r Range) bucket(at time.Time) int {
	i := len(r.Starts) - 1
	for i > 0 && at.Before(r.Starts[i]) {
		i--
	}
	return i
}

package views

import (
	"fmt"
	"slices"
	"time"
)

// bucket is the index of the bucket that begins at a time; the end of the range comes after
// the last one.
func (d *plotDrawing) bucket(at time.Time) int {
	i := slices.IndexFunc(d.plots.Starts, func(start time.Time) bool { return !start.Before(at) })
	if i < 0 {
		return len(d.plots.Starts)
	}
	return i
}

// hours names some buckets below the drawing, at round times, and the present at its end.
func (d *plotDrawing) hours() {
	const roomMax = 78.0 // per cent; further right is the present
	for i, start := range d.plots.Starts {
		if label := hourLabel(d.plots.Range, i, start); label != "" && d.x(i) <= roomMax {
			d.Words = append(d.Words, drawnWord{X: percent(d.x(i)), Y: hoursAt, Text: label})
		}
	}
	now := "now"
	if d.plots.Range == "1h" || d.plots.Range == "24h" {
		now = d.plots.Now.UTC().Format("15:04")
	}
	d.Words = append(d.Words, drawnWord{"last", "100%", hoursAt, now})
}

// hourLabel is what stands below a bucket; "" for most.
func hourLabel(of string, i int, at time.Time) string {
	midnight := at.Hour() == 0 && at.Minute() == 0
	switch {
	case of == "1h" && at.Minute()%10 != 0, of == "24h" && at.Hour()%4 != 0, of == "7d" && !midnight, of == "30d" && i%5 != 0, of == "1y" && at.Month()%3 != 1:
		return ""
	case of == "1y" && at.Month() == time.January:
		return at.Format("2006")
	case of == "1y":
		return at.Format("Jan")
	case of == "7d", of == "30d", midnight:
		return at.Format("2 Jan")
	}
	return at.Format("15:04")
}

// bucketName says which bucket it is.
func bucketName(of string, at time.Time) string {
	switch of {
	case "1y":
		return at.Format("January 2006")
	case "30d":
		return at.Format("2 January")
	}
	return at.Format("2 January 15:04")
}

// rowName is the name of a bucket below that of another one: short, and without the date if
// that is the same.
func (p Plots) rowName(i int) string {
	at := p.Starts[i]
	isMidnight := at.Hour() == 0 && at.Minute() == 0
	switch {
	case p.Range == "1y":
		return at.Format("Jan 2006")
	case p.Range == "30d":
		return at.Format("2 Jan")
	case i > 0 && !isMidnight:
		return at.Format("15:04")
	}
	return at.Format("2 Jan 15:04")
}

// when is the time of the range, up to the present.
func (p Plots) when() string {
	from, to := p.Starts[0], p.Now.UTC()
	if p.Range == "1h" && from.Day() == to.Day() {
		return bucketName(p.Range, from) + " to " + to.Format("15:04")
	}
	return bucketName(p.Range, from) + " to " + bucketName(p.Range, to)
}

// isMissed reports whether there was no server in the whole bucket.
func (p Plots) isMissed(i int) bool {
	return slices.ContainsFunc(p.Missed, func(m Span) bool { return !p.Starts[i].Before(m.From) && p.Starts[i].Before(m.To) })
}

// isUnknown reports whether there may have been no server yet, rather than one that was down.
func (p Plots) isUnknown(m Span) bool { return m.From.Equal(p.Starts[0]) }

// missedWords say when there was no server.
func (p Plots) missedWords(m Span) string {
	short := func(at time.Time, dated bool) string {
		switch {
		case p.Range == "1y":
			return at.Format("Jan 2006")
		case p.Range == "30d":
			return at.Format("2 Jan")
		case dated:
			return at.Format("2 Jan 15:04")
		}
		return at.Format("15:04")
	}
	sameDay := m.From.YearDay() == m.To.Add(-1).YearDay()
	switch {
	case p.isUnknown(m):
		return "not counted before " + short(m.To, p.Range == "7d")
	case p.Range == "30d" || p.Range == "1y":
		if last := m.To.Add(-1); short(last, false) != short(m.From, false) {
			return fmt.Sprintf("down %s–%s", short(m.From, false), short(last, false))
		}
		return "down " + short(m.From, false)
	}
	return fmt.Sprintf("down %s–%s", short(m.From, !sameDay || p.Range == "7d"), short(m.To, !sameDay))
}

package views

import (
	"fmt"
	"strings"
	"time"
)

// A Moment is a time, and the present one that it is compared with. Pages show it in
// relative words ("3 days ago") and exactly. The zero value stands for never.
type Moment struct {
	At, Now time.Time

	tense tense
}

// tense says how the relative words are chosen.
type tense int

const (
	past   tense = iota // "3 days ago"
	ending              // "in 3 days", or how long it has been over
	next                // "in 3 days", or "now"
)

func (m Moment) isNever() bool { return m == Moment{} }

// as returns the moment in another tense.
func (m Moment) as(t tense) Moment {
	if !m.isNever() {
		m.tense = t
	}
	return m
}

// phrase is the moment in relative words.
func (m Moment) phrase() string {
	left := m.At.Sub(m.Now)
	switch {
	case m.tense == next && left <= 0:
		return "now"
	case m.tense == next && left < time.Minute:
		return "in less than a minute"
	case m.tense != past && left > 0:
		return "in " + span(max(left, time.Minute))
	}
	return ago(m.Now.Sub(m.At)) // not -left, which overflows for the zero time
}

// exact is the moment to the minute.
func (m Moment) exact() string { return m.At.UTC().Format("2 January 2006, 15:04 UTC") }

// stamp is the moment for programs, as RFC 3339 has it.
func (m Moment) stamp() string { return m.At.UTC().Format(time.RFC3339) }

const day = 24 * time.Hour

// ago formats an age in words. A negative one, after the clock was set back, is "just
// now".
func ago(d time.Duration) string {
	if d < time.Minute {
		return "just now"
	}
	return span(d) + " ago"
}

// span formats a time of at least a minute in its largest unit.
func span(d time.Duration) string {
	switch {
	case d < time.Hour:
		return countOf(int(d/time.Minute), "minute")
	case d < day:
		return countOf(int(d/time.Hour), "hour")
	case d < 60*day:
		return countOf(int(d/day), "day")
	case d < 730*day:
		return countOf(int(d/(30*day)), "month")
	}
	return countOf(int(d/(365*day)), "year")
}

// countOf formats a number of things, such as "1 event" and "2 events".
func countOf(n int, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return fmt.Sprintf("%d %ss", n, unit)
}

// tryAgainIn says when, in whole seconds, as Retry-After does.
func tryAgainIn(seconds string) string {
	if seconds == "1" {
		return "Try again in 1 second."
	}
	return "Try again in " + seconds + " seconds."
}

// sentence makes a sentence of a reason as our errors write it, in lower case and without
// a full stop. An address, a file or another name at its start keeps its case.
func sentence(reason string) string {
	if reason == "" {
		return ""
	}
	if first, _, _ := strings.Cut(reason, " "); strings.Trim(first, "abcdefghijklmnopqrstuvwxyz,;:") == "" {
		reason = strings.ToUpper(reason[:1]) + reason[1:]
	}
	return reason + "."
}

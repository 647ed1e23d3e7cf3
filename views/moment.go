package views

import (
	"fmt"
	"strings"
	"time"
)

// A Moment is a time, and the present one that it is compared with. Lists of what happened
// show it as a clock ("14:21:58"), a last use in relative words ("3 min ago"), and what lasts
// as a date with its hour ("25 Feb 14:22"). The zero value stands for never.
type Moment struct {
	At, Now time.Time

	form momentForm
}

// momentForm says how a moment is shown.
type momentForm int

const (
	relative momentForm = iota // "3 min ago"
	ending                     // "in 3 h", or how long it has been over
	next                       // "in 3 h", or "now"
	clock                      // "14:21:58", and "8 Mar 23:59" on other days
	dated                      // "25 Feb 14:22"
)

func (m Moment) isNever() bool { return m.At.IsZero() && m.Now.IsZero() }

// as returns the moment in another form.
func (m Moment) as(f momentForm) Moment {
	if !m.isNever() {
		m.form = f
	}
	return m
}

// words are the moment as it is shown.
func (m Moment) words() string {
	left := m.At.Sub(m.Now)
	switch {
	case m.form == clock:
		return m.clock()
	case m.form == dated:
		return m.date()
	case m.form == next && left <= 0:
		return "now"
	case m.form != relative && left > 0:
		return "in " + brief(left)
	}
	return ago(m.Now.Sub(m.At)) // not -left, which overflows for the zero time
}

// clock is the time of today, and the date of other days.
func (m Moment) clock() string {
	at, now := m.At.UTC(), m.Now.UTC()
	if at.YearDay() == now.YearDay() && at.Year() == now.Year() {
		return at.Format("15:04:05")
	}
	return m.date()
}

func (m Moment) date() string {
	at := m.At.UTC()
	if at.Year() != m.Now.UTC().Year() {
		return at.Format("2 Jan 2006 15:04")
	}
	return at.Format("2 Jan 15:04")
}

// exact is the moment to the second.
func (m Moment) exact() string { return m.At.UTC().Format("2 January 2006, 15:04:05 UTC") }

// stamp is the moment for programs, as RFC 3339 has it.
func (m Moment) stamp() string { return m.At.UTC().Format(time.RFC3339) }

const day = 24 * time.Hour

// ago formats an age. A negative one, after the clock was set back, is "just now".
func ago(d time.Duration) string {
	if d < 5*time.Second {
		return "just now"
	}
	return brief(d) + " ago"
}

// age is how long ago a moment was.
func age(m Moment) string { return brief(max(0, m.Now.Sub(m.At))) }

// brief formats a time in its largest unit, so short that it never wraps.
func brief(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d < 60*day:
		return fmt.Sprintf("%d d", d/day)
	case d < 730*day:
		return countOf(int(d/(30*day)), "month")
	}
	return countOf(int(d/(365*day)), "year")
}

// span formats a time of at least a minute for a sentence, in the largest unit that is whole.
func span(d time.Duration) string {
	switch {
	case d%day == 0:
		return countOf(int(d/day), "day")
	case d%time.Hour == 0:
		return countOf(int(d/time.Hour), "hour")
	}
	return countOf(int(d/time.Minute), "minute")
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
		reason = capital(reason)
	}
	return reason + "."
}

// capital is a text with a capital letter at its start, if that is an ASCII one.
func capital(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

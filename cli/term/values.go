package term

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"tollhouse/store/eventlog"
)

// Duration is a flag value: a duration that may be in days, such as 90s, 12h, 14d.
type Duration time.Duration

// String returns the shortest text that Set reads as the same duration.
func (l *Duration) String() string {
	const day = 24 * time.Hour
	d := time.Duration(*l)
	switch {
	case d == 0:
		return "0"
	case d >= day && d%day == 0:
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func (l *Duration) Type() string { return "duration" }

func (l *Duration) Set(text string) error {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err == nil {
			*l = Duration(time.Duration(n) * 24 * time.Hour)
			return nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return errors.New("give a duration such as 90s, 15m, 12h or 14d")
	}
	*l = Duration(d)
	return nil
}

// Moment is a flag value: a time by RFC 3339 or in Unix seconds, or a day, a minute or a
// second in UTC without its zone, as the desk and audit take them. It begins with that Time.
type Moment struct {
	time.Time
	length time.Duration
}

// Last returns the last second that the value means: of a day, the one before midnight.
func (m *Moment) Last() time.Time { return m.Add(max(m.length-time.Second, 0)) }

// forms are those in which people write a time, and what each means.
var forms = []struct {
	layout string
	length time.Duration
}{
	{time.RFC3339, time.Second}, {time.DateOnly, 24 * time.Hour}, {"2006-01-02 15:04", time.Minute}, {"2006-01-02T15:04", time.Minute},
	{"2006-01-02 15:04:05", time.Second}, {"2006-01-02T15:04:05", time.Second},
}

func (m *Moment) String() string {
	if m.IsZero() {
		return ""
	}
	return m.Format(time.RFC3339)
}

func (m *Moment) Type() string { return "time" }

var errNoMoment = errors.New("give a time such as 2026-03-09, 2026-03-09T15:30:00Z or Unix seconds")

func (m *Moment) Set(text string) error {
	t, length, ok := parseMoment(text)
	if !ok {
		return errNoMoment
	}
	if t.Unix() < 0 || t.Unix() > eventlog.CreatedAtMax {
		return fmt.Errorf("give a time from %s to %s", ShowTime(0), ShowTime(eventlog.CreatedAtMax))
	}
	m.Time, m.length = t.UTC(), length
	return nil
}

func parseMoment(text string) (t time.Time, length time.Duration, ok bool) {
	for _, form := range forms {
		if t, err := time.Parse(form.layout, text); err == nil {
			return t, form.length, true
		}
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	return time.Unix(seconds, 0), time.Second, err == nil
}

// Ago is a flag value: a Moment, or a duration before now such as 2h or 14d.
type Ago struct{ Moment }

func (l *Ago) Set(text string) error {
	var span Duration
	if _, err := strconv.ParseInt(text, 10, 64); err != nil && span.Set(text) == nil {
		text = time.Now().Add(-time.Duration(span)).Format(time.RFC3339)
	}
	err := l.Moment.Set(text)
	if errors.Is(err, errNoMoment) {
		return fmt.Errorf("%w, or how long ago, such as 2h", errNoMoment)
	}
	return err
}

// SplitLists splits values that hold several, separated by commas or spaces.
func SplitLists(values []string) []string {
	var parts []string
	for _, value := range values {
		parts = append(parts, strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })...)
	}
	return parts
}

package dev

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

var errDuration = errors.New("must be a duration such as 90s, 15m or 14d, or a number of seconds")

// Duration is a duration in JSON: a string as in flags, or a number of seconds. It is
// not negative.
type Duration time.Duration

// UnmarshalJSON reads a text or a number.
func (d *Duration) UnmarshalJSON(text []byte) error {
	if seconds, err := strconv.ParseFloat(string(text), 64); err == nil {
		if seconds < 0 || seconds >= math.MaxInt64/float64(time.Second) {
			return errDuration
		}
		*d = Duration(seconds * float64(time.Second))
		return nil
	}
	var word string
	if err := json.Unmarshal(text, &word); err != nil {
		return errDuration
	}
	if days, ok := strings.CutSuffix(word, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			*d = Duration(time.Duration(n) * 24 * time.Hour)
			return nil
		}
	}
	parsed, err := time.ParseDuration(word)
	if err != nil || parsed < 0 {
		return errDuration
	}
	*d = Duration(parsed)
	return nil
}

// MarshalJSON writes the text of Go.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

var errMoment = errors.New("must be a time such as 2026-03-09T15:30:00Z, or Unix seconds")

// Moment is a time in JSON: RFC 3339 or Unix seconds, from 1970 on.
type Moment time.Time

// UnmarshalJSON reads a text or a number.
func (m *Moment) UnmarshalJSON(text []byte) error {
	var word string
	if err := json.Unmarshal(text, &word); err != nil {
		word = string(text)
	}
	t, err := time.Parse(time.RFC3339, word)
	if err != nil {
		seconds, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return errMoment
		}
		t = time.Unix(seconds, 0)
	}
	if t.Unix() < 0 || t.Year() > 9999 {
		return errMoment
	}
	*m = Moment(t.UTC())
	return nil
}

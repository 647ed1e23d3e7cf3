package web

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Day is 24 hours: an age has no time zone.
const Day = 24 * time.Hour

// ParseAge reads an age such as 2h, 90m or 7d.
func ParseAge(text string) (time.Duration, bool) {
	if days, isDays := strings.CutSuffix(text, "d"); isDays && IsDigits(days) && len(days) <= 5 {
		n, _ := strconv.Atoi(days)
		return time.Duration(n) * Day, true
	}
	age, err := time.ParseDuration(text)
	return age, err == nil && age >= 0
}

// PlainWords replaces what an error_description must not contain (RFC 6749 §5.2).
func PlainWords(text string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c == '"':
			return '\''
		case c < ' ', c == '\\', c > '~':
			return '?'
		}
		return c
	}, text)
}

// SortedNames returns the keys of a map in order.
func SortedNames[T any](of map[string]T) []string {
	names := make([]string, 0, len(of))
	for name := range of {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// IsDigits reports whether text is a number in decimal digits.
func IsDigits(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

// TryAgainIn says when to try again.
func TryAgainIn(seconds string) string {
	if seconds == "1" {
		return "Try again in 1 second."
	}
	return "Try again in " + seconds + " seconds."
}

// Sentence turns a reason of the store into a sentence. What is written as a name keeps its
// case: field at the end of its path, a command, and a word with more than small letters.
func Sentence(reason, field string) string {
	first, _, _ := strings.Cut(reason, " ")
	isName := first == field || strings.HasSuffix(field, "."+first) || first == "tollhouse"
	if first != "" && !isName && strings.Trim(first, "abcdefghijklmnopqrstuvwxyz") == "" {
		reason = strings.ToUpper(reason[:1]) + reason[1:]
	}
	if strings.HasSuffix(reason, "?") {
		return reason
	}
	return reason + "."
}

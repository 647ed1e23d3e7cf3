package term

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// ShowTime formats Unix seconds.
func ShowTime(seconds int64) string { return time.Unix(seconds, 0).UTC().Format(time.RFC3339) }

// ShowTimeOrNever is ShowTime, and "never" for 0.
func ShowTimeOrNever(seconds int64) string {
	if seconds == 0 {
		return "never"
	}
	return ShowTime(seconds)
}

// ShowAge formats a length of time for people, in its two largest units.
func ShowAge(d time.Duration) string {
	const day = 24 * time.Hour
	large, small, unit := d/day, d%day/time.Hour, "dh"
	switch {
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < time.Hour:
		large, small, unit = d/time.Minute, d%time.Minute/time.Second, "ms"
	case d < 2*day:
		large, small, unit = d/time.Hour, d%time.Hour/time.Minute, "hm"
	}
	if small == 0 {
		return fmt.Sprintf("%d%c", large, unit[0])
	}
	return fmt.Sprintf("%d%c%d%c", large, unit[0], small, unit[1])
}

// ShowBytes formats a size for people.
func ShowBytes(n uint64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	size, units := float64(n)/(1<<10), "KMGTPE"
	for size >= 1<<10 {
		size, units = size/(1<<10), units[1:]
	}
	return fmt.Sprintf("%.1f %ciB", size, units[0])
}

// Count formats a number with its noun.
func Count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Listed joins values with spaces; none stands for an empty list.
func Listed(values []string, none string) string {
	if len(values) == 0 {
		return none
	}
	return strings.Join(values, " ")
}

// YesNo formats a bool.
func YesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// ShellQuote quotes a path for a shell.
func ShellQuote(path string) string {
	if strings.HasPrefix(path, "-") {
		path = "./" + path // or a command takes it for a flag
	}
	if regexp.MustCompile(`^[A-Za-z0-9_./@:+-]+$`).MatchString(path) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

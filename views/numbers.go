package views

import "strconv"

// grouped formats a count with narrow spaces between thousands.
func grouped(n float64) string {
	text := strconv.FormatInt(int64(n), 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "\u202f" + text[i:]
	}
	return text
}

// size formats a number of bytes in three digits.
func size(bytes float64) string {
	n, unit := inBytes(bytes)
	return short(n, 100) + " " + unit
}

func inBytes(bytes float64) (n float64, unit string) {
	for _, unit := range []struct {
		name string
		size float64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if bytes >= unit.size {
			return bytes / unit.size, unit.name
		}
	}
	return bytes, "B"
}

// seconds formats a time, in milliseconds below a second.
func seconds(s float64) string {
	n, unit := inSeconds(s)
	return short(n, 10) + " " + unit
}

func inSeconds(s float64) (n float64, unit string) {
	if s >= 1 {
		return s, "s"
	}
	return s * 1000, "ms"
}

// short formats a number with one decimal, or none from a bound on. What is almost nothing is 0.
func short(n, whole float64) string {
	const least = 0.05
	if n >= whole || n < least {
		return strconv.FormatFloat(n, 'f', 0, 64)
	}
	return strconv.FormatFloat(n, 'f', 1, 64)
}

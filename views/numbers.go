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
	for _, unit := range []struct {
		name string
		size float64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if bytes >= unit.size {
			return short(bytes/unit.size, 100) + " " + unit.name
		}
	}
	return strconv.FormatFloat(bytes, 'f', 0, 64) + " B"
}

// seconds formats a time, in milliseconds below a second.
func seconds(n float64) string {
	if n >= 1 {
		return short(n, 10) + " s"
	}
	return short(n*1000, 10) + " ms"
}

// short formats a number with one decimal, or none from a bound on.
func short(n, whole float64) string {
	if n >= whole || n == 0 {
		return strconv.FormatFloat(n, 'f', 0, 64)
	}
	return strconv.FormatFloat(n, 'f', 1, 64)
}

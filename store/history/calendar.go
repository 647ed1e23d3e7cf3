package history

import (
	"math/bits"
	"time"
)

// Times are milliseconds since the Unix epoch, in UTC: the town of these
// histories lies on the prime meridian and knows no summer time.
const (
	second int64 = 1000
	minute       = 60 * second
	hour         = 60 * minute
	day          = 24 * hour
)

// dayOf returns the midnight before t.
func dayOf(t int64) int64 { return t - t%day }

func dateOf(t int64) time.Time { return time.UnixMilli(t).UTC() }

// isWeekend: the first of January 1970 was a Thursday.
func isWeekend(t int64) bool {
	weekday := (t/day + 4) % 7
	return weekday == 0 || weekday == 6
}

// isBankingDay reports whether banks settle on the day of t: neither on weekends
// nor on the holidays of the Federal Reserve, of which one that falls on a
// Sunday is kept on Monday, and one on a Saturday not at all.
func isBankingDay(t int64) bool {
	if isWeekend(t) {
		return false
	}
	date := dateOf(t)
	if isFixedHoliday(date) || date.Weekday() == time.Monday && isFixedHoliday(date.AddDate(0, 0, -1)) {
		return false
	}
	nth := (date.Day() + 6) / 7 // 1 is the month's first of its weekday
	switch date.Weekday() {
	case time.Monday:
		lastOfMay := date.Month() == time.May && date.Day() > 24
		third := nth == 3 && (date.Month() == time.January || date.Month() == time.February)
		labor := nth == 1 && date.Month() == time.September
		columbus := nth == 2 && date.Month() == time.October
		return !lastOfMay && !third && !labor && !columbus
	case time.Thursday:
		return nth != 4 || date.Month() != time.November
	}
	return true
}

func isFixedHoliday(date time.Time) bool {
	switch date.Format("01-02") {
	case "01-01", "06-19", "07-04", "11-11", "12-25":
		return true
	}
	return false
}

// bankingDaysAfter returns the midnight of the n-th banking day after t's.
func bankingDaysAfter(t int64, n int64) int64 {
	t = dayOf(t)
	for n > 0 {
		t += day
		if isBankingDay(t) {
			n--
		}
	}
	return t
}

// nextFile returns when the next file goes to the bank: at the full hours of
// business, on banking days.
func nextFile(t int64) int64 {
	for t = t - t%hour + hour; !isBankingDay(t) || !isBusinessHour(t); {
		t += hour
	}
	return t
}

const (
	openingHour = 9
	closingHour = 17
)

func isBusinessHour(t int64) bool {
	h := t % day / hour
	return h >= openingHour && h < closingHour
}

// weight says how much happens at t, for the whole hour: four times as much in
// business hours, half as much on weekends, three times as much on the first of
// a month.
func weight(t int64) uint64 {
	w := uint64(2)
	if isBusinessHour(t) {
		w *= 4
	}
	if isWeekend(t) {
		w /= 2
	}
	if dateOf(t).Day() == 1 {
		w *= 3
	}
	return w
}

// shape spreads a number of events over a span of time, by weight. It is walked
// from its beginning to its end.
type shape struct {
	end   int64
	total uint64 // the weight of the whole

	at     int64 // the beginning of the hour, or part of one, that is looked at
	next   int64
	weight uint64
	before uint64 // the weight of all that lies before at
}

func newShape(from, end int64) shape {
	s := shape{end: end}
	for s.enter(from); s.at < end; s.enter(s.next) {
		s.total += s.weight * uint64(s.next-s.at)
	}
	s.enter(from)
	return s
}

func (s *shape) enter(t int64) {
	s.at, s.next, s.weight = t, min(t-t%hour+hour, s.end), weight(t)
}

// fractionBits is how finely a time between two events is told.
const fractionBits = 8

// timeOf returns when the share told/of of the whole is reached. told carries
// fractionBits; once it has been asked for, what lies before is forgotten.
func (s *shape) timeOf(told, of uint64) int64 {
	of <<= fractionBits
	if told >= of {
		return s.end
	}
	high, low := bits.Mul64(s.total, told)
	target, _ := bits.Div64(high, low, of)
	for s.next < s.end && s.before+s.weight*uint64(s.next-s.at) <= target {
		s.before += s.weight * uint64(s.next-s.at)
		s.enter(s.next)
	}
	if target <= s.before {
		return s.at
	}
	return min(s.at+int64((target-s.before)/s.weight), s.end)
}

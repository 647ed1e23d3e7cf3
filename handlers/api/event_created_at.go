package api

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"tollhouse/handlers/web"
	"tollhouse/store/eventlog"
)

// createdAtOperators are in the order in which errors are reported.
var createdAtOperators = []string{"createdAt", "createdAt[between]", "createdAt[gt]", "createdAt[gte]", "createdAt[lt]", "createdAt[lte]"}

// window is the range that the operators so far allow, with the strictest operands,
// which error messages name.
type window struct {
	from, to     int64
	lower, upper operand
}

type operand struct {
	param string
	at    int64
}

func (w *window) atLeast(o operand, from int64) {
	w.from = max(w.from, from)
	if w.lower.param == "" || o.at > w.lower.at {
		w.lower = o
	}
}

func (w *window) atMost(o operand, to int64) {
	w.to = min(w.to, to)
	if w.upper.param == "" || o.at < w.upper.at {
		w.upper = o
	}
}

// parseCreatedAt combines all operators with "and". Contradictory operands are
// refused. Equal ones that leave an empty range are not: pollers that ask from one
// time to the next produce them.
func (q *EventQuery) parseCreatedAt(single map[string]string) *web.Problem {
	w := window{to: eventlog.CreatedAtMax}
	for _, param := range createdAtOperators {
		text, given := single[param]
		if !given {
			continue
		}
		from, to, refused := parseRange(param, text)
		if refused != nil {
			return refused
		}
		switch low, high := (operand{param, from}), (operand{param, to}); param {
		case "createdAt[gt]":
			w.atLeast(low, from+1)
		case "createdAt[gte]":
			w.atLeast(low, from)
		case "createdAt[lt]":
			w.atMost(high, to-1)
		case "createdAt[lte]":
			w.atMost(high, to)
		case "createdAt[between]":
			w.atLeast(low, from)
			w.atMost(high, to)
		default:
			if other := otherOperator(single); other != "" {
				return web.NewProblem(http.StatusBadRequest, "conflicting_parameters",
					"createdAt and %s cannot be combined: createdAt alone means an exact time.", other).On("createdAt")
			}
			w.from, w.to = from, to
		}
	}
	if w.lower.param != "" && w.upper.param != "" && w.lower.at > w.upper.at {
		return web.NewProblem(http.StatusBadRequest, "invalid_range", "%s starts after %s ends: %d is greater than %d.",
			w.lower.param, w.upper.param, w.lower.at, w.upper.at).On(w.lower.param)
	}
	q.From, q.To = w.from, w.to
	return nil
}

func otherOperator(single map[string]string) string {
	for _, param := range createdAtOperators[1:] {
		if _, given := single[param]; given {
			return param
		}
	}
	return ""
}

// parseRange parses an operand; from and to differ only for between.
func parseRange(param, text string) (from, to int64, refused *web.Problem) {
	if param != "createdAt[between]" {
		if a, b, ok := strings.Cut(text, ".."); ok && web.IsDigits(a) && web.IsDigits(b) {
			return 0, 0, web.InvalidParameter(param, "takes one time; for two, use createdAt[between].")
		}
		at, refused := parseTimestamp(param, text)
		return at, at, refused
	}
	a, b, ok := strings.Cut(text, "..")
	switch {
	case !ok:
		return 0, 0, web.InvalidParameter(param, "must be two times separated by two dots, as in 1773066600..1773153000.")
	case a == "" || b == "":
		return 0, 0, web.InvalidParameter(param, "needs both times; for a range with one end, use createdAt[gte] or createdAt[lte].")
	case strings.Contains(b, ".."), strings.HasPrefix(b, "."):
		return 0, 0, web.InvalidParameter(param, "must be two times separated by exactly two dots; for a range with one end, use createdAt[gte] or createdAt[lte].")
	}
	if from, refused = parseTimestamp(param, a); refused != nil {
		return 0, 0, refused
	}
	if to, refused = parseTimestamp(param, b); refused != nil {
		return 0, 0, refused
	}
	if from > to {
		return 0, 0, web.NewProblem(http.StatusBadRequest, "invalid_range", "%s starts after it ends: %d is greater than %d.", param, from, to).On(param)
	}
	return from, to, nil
}

// TimestampDigitsMax is for seconds; milliseconds have three more digits.
const TimestampDigitsMax = 11

func parseTimestamp(param, text string) (int64, *web.Problem) {
	digits := web.IsDigits(text)
	if digits && len(text) <= TimestampDigitsMax {
		at, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			panic("api: timestamp of eleven digits does not parse: " + err.Error())
		}
		return at, nil
	}
	whole, fraction, dotted := strings.Cut(text, ".")
	switch {
	case digits && len(text) <= TimestampDigitsMax+3:
		millis, _ := strconv.ParseInt(text, 10, 64) // 14 digits fit
		return 0, web.InvalidParameter(param, "looks like milliseconds; in seconds it is %d.", millis/1000)
	case text == "":
		return 0, web.InvalidParameter(param, "is empty; leave it out, or send seconds since 1970.")
	case text == "[object Object]":
		return 0, web.InvalidParameter(param, "is a stringified object; send each bound as its own parameter, as in createdAt[gte]=1773066600.")
	case dotted && web.IsDigits(whole) && len(whole) <= TimestampDigitsMax && web.IsDigits(fraction):
		return 0, web.InvalidParameter(param, "has a fraction; in whole seconds it is %s.", whole)
	}
	for _, form := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(form, text); err == nil && at.Unix() >= 0 {
			return 0, web.InvalidParameter(param, "must be in seconds since 1970; this time is %d.", at.Unix())
		}
	}
	return 0, web.InvalidParameter(param, "must be a whole number of seconds since 1970, of 1 to 11 digits.")
}

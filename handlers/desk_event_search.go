package handlers

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// eventSearch is the query of the explorer.
type eventSearch struct {
	account  string
	own      string      // the operator's account, which addresses need not name
	from, to string      // as typed
	asked    []queryPair // as the API takes them, without from and to
	pairs    []queryPair // as the API takes them
	query    eventQuery
}

// parseEventSearch reads the query of the explorer.
func (v *visit) parseEventSearch() (e eventSearch, refused *problem) {
	pairs, refused := parseAPIQuery(v.r.URL.RawQuery)
	if refused != nil {
		return e, refused
	}
	account, given, pairs, refused := takePair(pairs, "account")
	if refused != nil {
		return e, refused
	}
	e.own = v.session.User.Account
	if e.account = account; !given {
		e.account = e.own
	}
	var hasFrom, hasTo bool
	if e.from, hasFrom, pairs, refused = takePair(pairs, "from"); refused != nil {
		return e, refused
	}
	if e.to, hasTo, pairs, refused = takePair(pairs, "to"); refused != nil {
		return e, refused
	}
	e.asked, e.pairs = pairs, slices.Clone(pairs)
	if hasFrom || hasTo {
		for _, pair := range pairs {
			if strings.HasPrefix(pair.name, "createdAt") {
				return e, newProblem(http.StatusBadRequest, "conflicting_parameters", "from and to cannot be combined with %s.", shownName(pair.name)).on("from")
			}
		}
	}
	now := v.now
	if hasFrom {
		from, _, ok := peopleTime(e.from, now)
		if !ok {
			return e, invalidParameter("from", "is not a time: %s.", deskPeopleTimes)
		}
		e.pairs = append(e.pairs, queryPair{"createdAt[gte]", strconv.FormatInt(from.Unix(), 10)})
	}
	if hasTo {
		_, to, ok := peopleTime(e.to, now)
		if !ok {
			return e, invalidParameter("to", "is not a time: %s.", deskPeopleTimes)
		}
		e.pairs = append(e.pairs, queryPair{"createdAt[lte]", strconv.FormatInt(to.Unix(), 10)})
	}
	e.query, refused = parseEventQuery(e.pairs)
	return e, refused
}

// peopleTime reads a time as people write it and returns the first and the last second
// that it means.
func peopleTime(text string, now time.Time) (first, last time.Time, ok bool) {
	text = strings.TrimSpace(text)
	for _, form := range []struct {
		layout string
		length time.Duration
	}{
		{time.DateOnly, day}, {"2006-01-02 15:04", time.Minute}, {"2006-01-02T15:04", time.Minute},
		{"2006-01-02 15:04:05", time.Second}, {"2006-01-02T15:04:05", time.Second}, {time.RFC3339, time.Second},
	} {
		if at, err := time.Parse(form.layout, text); err == nil && at.Unix() >= 0 {
			return at, at.Add(form.length - time.Second), true
		}
	}
	if isDigits(text) && len(text) <= timestampDigitsMax {
		seconds, _ := strconv.ParseInt(text, 10, 64)
		return time.Unix(seconds, 0), time.Unix(seconds, 0), true
	}
	age, ok := parseAge(text)
	if at := now.Add(-age); ok && at.Unix() >= 0 {
		return at, at, true
	}
	return first, last, false
}

// parseAge reads an age such as 2h, 90m or 7d.
func parseAge(text string) (time.Duration, bool) {
	if days, isDays := strings.CutSuffix(text, "d"); isDays && isDigits(days) && len(days) <= 5 {
		n, _ := strconv.Atoi(days)
		return time.Duration(n) * day, true
	}
	age, err := time.ParseDuration(text)
	return age, err == nil && age >= 0
}

// address is the explorer's, with the search and a further parameter.
func (e eventSearch) address(path string, more ...string) string {
	var pairs []string
	if e.account != e.own {
		pairs = append(pairs, "account="+escaped(e.account))
	}
	for _, p := range e.asked {
		if p.name != "after" && p.name != "before" {
			pairs = append(pairs, escaped(p.name)+"="+escaped(p.value))
		}
	}
	for _, p := range []queryPair{{"from", e.from}, {"to", e.to}} {
		if p.value != "" {
			pairs = append(pairs, p.name+"="+escaped(p.value))
		}
	}
	for i := 0; i < len(more); i += 2 {
		pairs = append(pairs, more[i]+"="+escaped(more[i+1]))
	}
	if len(pairs) == 0 {
		return path
	}
	return path + "?" + strings.Join(pairs, "&")
}

func (e eventSearch) value(list string) string {
	var values []string
	for _, p := range e.asked {
		if isListParam(list, p.name) {
			values = append(values, p.value)
		}
	}
	return strings.Join(values, ",")
}

func (e eventSearch) single(name string) string {
	for _, p := range e.asked {
		if p.name == name {
			return p.value
		}
	}
	return ""
}

// rawAddress is that of the same page as the API sends it.
func (e eventSearch) rawAddress() string {
	pairs := []string{"account=" + escaped(e.account)}
	for _, p := range e.pairs {
		pairs = append(pairs, escaped(p.name)+"="+escaped(p.value))
	}
	return "/desk/event-list?" + strings.Join(pairs, "&")
}

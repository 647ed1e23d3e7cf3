package handlers

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"tollhouse/store/spelling"
)

// queryPair is one decoded parameter.
type queryPair struct{ name, value string }

// parseAPIQuery reads the query of an API request, in order. It refuses whatever
// it cannot read: net/url drops it, and a caller would get the whole list for a
// typing error in a filter.
func parseAPIQuery(raw string) ([]queryPair, *problem) {
	if strings.Contains(raw, ";") {
		return nil, invalidRequest("The query contains a semicolon; separate parameters with &, and write a semicolon in a value as %%3B.")
	}
	var pairs []queryPair
	for part := range strings.SplitSeq(raw, "&") {
		if part == "" {
			continue
		}
		if len(pairs) == paramCountMax {
			return nil, invalidRequest("The query has more than %d parameters.", paramCountMax)
		}
		rawName, rawValue, _ := strings.Cut(part, "=")
		name, nameErr := url.QueryUnescape(rawName)
		value, valueErr := url.QueryUnescape(rawValue)
		if nameErr != nil || valueErr != nil {
			return nil, invalidRequest("A percent sign in the query must be followed by two hexadecimal digits; write a percent sign as %%25.")
		}
		if !isText(name) {
			return nil, invalidRequest("A parameter name is not valid UTF-8.")
		}
		pairs = append(pairs, queryPair{name, value})
	}
	return pairs, nil
}

// takePair removes the parameter of that name from pairs and returns its value.
func takePair(pairs []queryPair, name string) (value string, given bool, rest []queryPair, refused *problem) {
	for _, pair := range pairs {
		if pair.name != name {
			rest = append(rest, pair)
			continue
		}
		if given {
			return "", true, nil, duplicateParameter(name)
		}
		value, given = pair.value, true
	}
	return value, given, rest, nil
}

// invalidParameter explains what is wrong with a parameter; its name starts the
// sentence.
func invalidParameter(param, format string, args ...any) *problem {
	return newProblem(http.StatusBadRequest, "invalid_parameter", "%s %s", param, fmt.Sprintf(format, args...)).on(param)
}

func duplicateParameter(name string) *problem {
	return newProblem(http.StatusBadRequest, "duplicate_parameter", "%s is given more than once.", name).on(name)
}

const shownNameMax = 64 // bytes of a caller's parameter name that a response repeats

func shownName(name string) string {
	if len(name) <= shownNameMax {
		return name
	}
	return strings.ToValidUTF8(name[:shownNameMax], "") + "…"
}

// unknownParameter refuses a parameter and suggests the one that was probably meant.
func unknownParameter(name string, meant map[string]string, known []string) *problem {
	shown := shownName(name)
	p := newProblem(http.StatusBadRequest, "unknown_parameter", "%s is not a parameter of this endpoint.", shown).on(shown)
	near, ok := meant[strings.ToLower(name)]
	if !ok {
		near, ok = spelling.Nearest(name, slices.Values(known))
	}
	if ok {
		p.description = strings.TrimSuffix(p.description, ".") + "; did you mean " + near + "?"
	}
	return p
}

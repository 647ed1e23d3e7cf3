package web

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"tollhouse/store/spelling"
)

// QueryPair is one decoded parameter.
type QueryPair struct{ Name, Value string }

// readPairs hands on the pairs of a query or a form, in order. It refuses what it cannot read:
// net/url drops it, and a dropped parameter is a skipped check.
func readPairs(text, what string, add func(name, value string) *Problem) *Problem {
	for part := range strings.SplitSeq(text, "&") {
		if part == "" {
			continue
		}
		rawName, rawValue, _ := strings.Cut(part, "=")
		name, nameErr := url.QueryUnescape(rawName)
		value, valueErr := url.QueryUnescape(rawValue)
		if nameErr != nil || valueErr != nil {
			return InvalidRequest("A percent sign in the %s must be followed by two hexadecimal digits; "+
				"write a percent sign as %%25.", what)
		}
		if refused := add(name, value); refused != nil {
			return refused
		}
	}
	return nil
}

// ParseAPIQuery reads the query of an API request, in order.
func ParseAPIQuery(raw string) (pairs []QueryPair, refused *Problem) {
	if strings.Contains(raw, ";") {
		return nil, InvalidRequest("The query contains a semicolon; separate parameters with &, " +
			"and write a semicolon in a value as %%3B.")
	}
	refused = readPairs(raw, "query", func(name, value string) *Problem {
		switch {
		case len(pairs) == ParamCountMax:
			return InvalidRequest("The query has more than %d parameters.", ParamCountMax)
		case !IsText(name):
			return InvalidRequest("A parameter name is not valid UTF-8.")
		}
		pairs = append(pairs, QueryPair{name, value})
		return nil
	})
	if refused != nil {
		return nil, refused
	}
	return pairs, nil
}

// ParseSingle reads a query whose parameters are known and given once each.
func ParseSingle(raw string, known ...string) (map[string]string, *Problem) {
	pairs, refused := ParseAPIQuery(raw)
	if refused != nil {
		return nil, refused
	}
	values := map[string]string{}
	for _, pair := range pairs {
		if !slices.Contains(known, pair.Name) {
			return nil, UnknownParameter(pair.Name, nil, known)
		}
		if _, given := values[pair.Name]; given {
			return nil, DuplicateParameter(pair.Name)
		}
		values[pair.Name] = pair.Value
	}
	return values, nil
}

// TakePair removes the parameter of that name from pairs and returns its value.
func TakePair(pairs []QueryPair, name string) (value string, given bool, rest []QueryPair, refused *Problem) {
	for _, pair := range pairs {
		if pair.Name != name {
			rest = append(rest, pair)
			continue
		}
		if given {
			return "", true, nil, DuplicateParameter(name)
		}
		value, given = pair.Value, true
	}
	return value, given, rest, nil
}

// InvalidParameter explains what is wrong with a parameter; its name starts the
// sentence.
func InvalidParameter(param, format string, args ...any) *Problem {
	return NewProblem(http.StatusBadRequest, "invalid_parameter", "%s %s", param, fmt.Sprintf(format, args...)).On(param)
}

// DuplicateParameter refuses a parameter that was sent twice.
func DuplicateParameter(name string) *Problem {
	return NewProblem(http.StatusBadRequest, "duplicate_parameter", "%s is given more than once.", name).On(name)
}

const shownNameMax = 64 // bytes of a caller's parameter name that a response repeats

// ShownName returns the beginning of a name that the caller chose.
func ShownName(name string) string {
	if len(name) <= shownNameMax {
		return name
	}
	return strings.ToValidUTF8(name[:shownNameMax], "") + "…"
}

// UnknownParameter refuses a parameter and suggests the one that was probably meant.
func UnknownParameter(name string, meant map[string]string, known []string) *Problem {
	shown := ShownName(name)
	p := NewProblem(http.StatusBadRequest, "unknown_parameter", "%s is not a parameter of this endpoint.", shown).On(shown)
	near, ok := meant[strings.ToLower(name)]
	if !ok {
		near, ok = spelling.Nearest(name, slices.Values(known))
	}
	if ok {
		p.Description = strings.TrimSuffix(p.Description, ".") + "; did you mean " + near + "?"
	}
	return p
}
